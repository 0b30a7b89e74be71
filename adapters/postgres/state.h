/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Declarations that the extension's files share: states of aggregates, values as their bits, partials as bytea. */
#ifndef FPISA_POSTGRES_STATE_H
#define FPISA_POSTGRES_STATE_H

/* Keep our names inside this module: the server shows a module's names to all others. */
#define PGDLLEXPORT __attribute__((visibility("default")))

#include "postgres.h"
#include "fmgr.h"
#include "utils/float.h"

#include "fpisa/partial.h"

#define REAL fpisa_superacc_format(FPISA_FORMAT_FP32)
#define DOUBLE fpisa_superacc_format(FPISA_FORMAT_FP64)

/* Return a state without values, in the memory of the calling aggregate. */
struct fpisa_superacc *state_new(FunctionCallInfo fcinfo);

/* Return the state of a final function, or NULL if it does not have rows. */
static inline const struct fpisa_superacc *state_with_rows(FunctionCallInfo fcinfo)
{
	const struct fpisa_superacc *a = PG_ARGISNULL(0) ? NULL : (void *)PG_GETARG_POINTER(0);

	return a && a->rows ? a : NULL;
}

/* Enlarge the state to that window; it may move. */
struct fpisa_superacc *state_enlarge(struct fpisa_superacc *a, struct fpisa_superacc_window w);

/* Merge b into a. Fail if there are too many rows. */
struct fpisa_superacc *state_merge(struct fpisa_superacc *a, const struct fpisa_superacc *b, struct fpisa_format f);

/* Return the sum or average of a state that is not empty, as a datum of type `to`. Fail if it is out of range. */
Datum read_value(const struct fpisa_superacc *a, struct fpisa_format from, struct fpisa_format to, int average);

/* Convert a state to bytes and back. Fail if the bytes are not a partial. */
bytea *partial_of(const struct fpisa_superacc *a, struct fpisa_format f);
void partial_read(const bytea *bytes, struct fpisa_format f, union fpisa_superacc_full *out);

/* Add a value, or take it back. */
static pg_attribute_always_inline struct fpisa_superacc *state_add(struct fpisa_superacc *a, uint64 word,
								   struct fpisa_format f, int back)
{
	while (unlikely(fpisa_superacc_add(a, word, f, back)))
		a = state_enlarge(a, fpisa_superacc_reach(a, word, f));
	return a;
}

static inline uint64 value_bits(Datum value, struct fpisa_format f)
{
	return f.bytes == 4 ? (uint32)DatumGetInt32(value) : (uint64)DatumGetInt64(value);
}

static inline Datum bits_value(uint64 word, struct fpisa_format f)
{
	return f.bytes == 4 ? Int32GetDatum((int32)word) : Int64GetDatum((int64)word);
}

/* Define an SQL function that returns `call`. */
#define FUNCTION(name, call)                     \
	PG_FUNCTION_INFO_V1(name);               \
	PGDLLEXPORT Datum name(PG_FUNCTION_ARGS) \
	{                                        \
		return call;                     \
	}

#endif
