/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Declarations that the extension's files share. They cover states of aggregates, values as bits, and partials as
 * bytea.
 */
#ifndef FPISA_POSTGRES_STATE_H
#define FPISA_POSTGRES_STATE_H

/* Hide our symbols, because the server makes a module's symbols visible to all other modules. */
#define PGDLLEXPORT __attribute__((visibility("default")))

#include "postgres.h"
#include "fmgr.h"
#include "utils/float.h"

#include "fpisa/partial.h"

#define REAL fpisa_superacc_format(FPISA_FORMAT_FP32)
#define DOUBLE fpisa_superacc_format(FPISA_FORMAT_FP64)

/* Create an empty state in the memory context of the calling aggregate. */
struct fpisa_superacc *state_new(FunctionCallInfo fcinfo);

/* Return the state that a final function received, or NULL if there were no rows. */
static inline const struct fpisa_superacc *state_with_rows(FunctionCallInfo fcinfo)
{
	const struct fpisa_superacc *a = PG_ARGISNULL(0) ? NULL : (void *)PG_GETARG_POINTER(0);

	return a && a->rows ? a : NULL;
}

/* Enlarge the state to include the window `w`. The state may move. */
struct fpisa_superacc *state_enlarge(struct fpisa_superacc *a, struct fpisa_superacc_window w);

/* Merge b into a. Fail if there are too many rows. */
struct fpisa_superacc *state_merge(struct fpisa_superacc *a, const struct fpisa_superacc *b, struct fpisa_format f);

/* Return the sum or average of a nonempty state as a datum of type `to`. Fail if the result is out of range. */
Datum read_value(const struct fpisa_superacc *a, struct fpisa_format from, struct fpisa_format to, int average);

/* Convert a state to a partial, or a partial to a state. Fail if the bytes are not a partial. */
bytea *partial_of(const struct fpisa_superacc *a, struct fpisa_format f);
void partial_read(const bytea *bytes, struct fpisa_format f, union fpisa_superacc_full *out);

/* Add a value, or remove it if `back` is set. */
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

/* Define an SQL function that returns the value of `call`. */
#define FUNCTION(name, call)                     \
	PG_FUNCTION_INFO_V1(name);               \
	PGDLLEXPORT Datum name(PG_FUNCTION_ARGS) \
	{                                        \
		return call;                     \
	}

#endif
