/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * fpisa_sum(), fpisa_sum8() and fpisa_avg() of real and double precision values. A
 * superaccumulator (include/fpisa/superacc.h) keeps the exact sum, which is
 * rounded once. So a result does not depend on the plan, on the order of rows or
 * on parallel workers.
 *
 * A state is a struct fpisa_superacc in the aggregate's memory. The functions
 * here create, enlarge and merge states, and send them between processes as
 * partials (partial.h). The SQL functions of both types share their code.
 */
#include "state.h"

PG_MODULE_MAGIC;

/* -- states ---------------------------------------------------------------- */

struct fpisa_superacc *state_new(FunctionCallInfo fcinfo)
{
	MemoryContext memory;

	if (!AggCheckCallContext(fcinfo, &memory))
		elog(ERROR, "fpisa: the function of an aggregate was called outside an aggregate; call the "
			    "aggregate instead");
	return MemoryContextAllocZero(memory, fpisa_superacc_size(0));
}

struct fpisa_superacc *state_enlarge(struct fpisa_superacc *a, struct fpisa_superacc_window w)
{
	if (w.limbs <= a->limbs)
		elog(ERROR, "fpisa: a sum needs more than its largest size; please report this bug");
	if (w.limbs > FPISA_SUPERACC_LEAST)
		a = repalloc(a, fpisa_superacc_size(w.limbs));
	fpisa_superacc_move(a, w);
	return a;
}

struct fpisa_superacc *state_merge(struct fpisa_superacc *a, const struct fpisa_superacc *b, struct fpisa_format f)
{
	int rc;

	while ((rc = fpisa_superacc_merge(a, b)) == -ENOSPC)
		a = state_enlarge(a, fpisa_superacc_cover(a, b, f));
	if (rc)
		ereport(ERROR, errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			errmsg("the partials have more than 2^63 - 1 rows"), errhint("Merge fewer partials."));
	return a;
}

/* -- adding and removing rows ------------------------------------------------- */

/* Add or remove a row. Ignore a NULL, but create a state for it, because a moving aggregate must not return NULL. */
static pg_attribute_always_inline Datum transition(FunctionCallInfo fcinfo, struct fpisa_format f, int back)
{
	struct fpisa_superacc *a = PG_ARGISNULL(0) ? state_new(fcinfo) : (void *)PG_GETARG_POINTER(0);

	if (!PG_ARGISNULL(1))
		a = state_add(a, value_bits(PG_GETARG_DATUM(1), f), f, back);
	PG_RETURN_POINTER(a);
}

static Datum combine(FunctionCallInfo fcinfo, struct fpisa_format f)
{
	struct fpisa_superacc *a = PG_ARGISNULL(0) ? NULL : (void *)PG_GETARG_POINTER(0);

	if (!PG_ARGISNULL(1))
		a = state_merge(a ? a : state_new(fcinfo), (void *)PG_GETARG_POINTER(1), f);
	if (!a)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(a);
}

static Datum serialize(FunctionCallInfo fcinfo, struct fpisa_format f)
{
	PG_RETURN_BYTEA_P(partial_of((void *)PG_GETARG_POINTER(0), f));
}

/*
 * Read a state. Another process of the same query has sent the state, but check the bytes as if they came from an
 * untrusted source.
 */
static Datum deserialize(FunctionCallInfo fcinfo, struct fpisa_format f)
{
	union fpisa_superacc_full read;
	struct fpisa_superacc *a;

	partial_read(PG_GETARG_BYTEA_PP(0), f, &read);
	fpisa_superacc_narrow(&read.acc);
	a = palloc(fpisa_superacc_size(read.acc.limbs));
	memcpy(a, &read.acc, fpisa_superacc_size(read.acc.limbs));
	PG_RETURN_POINTER(a);
}

/* -- results -------------------------------------------------------------------- */

/* Return the sum or average, or NULL if there are no rows. Like sum(), fail if the result is out of range. */
static Datum result(FunctionCallInfo fcinfo, struct fpisa_format from, struct fpisa_format to, int average)
{
	const struct fpisa_superacc *a = state_with_rows(fcinfo);

	if (!a)
		PG_RETURN_NULL();
	return read_value(a, from, to, average);
}

Datum read_value(const struct fpisa_superacc *a, struct fpisa_format from, struct fpisa_format to, int average)
{
	uint32 flags = 0;
	uint64 word = fpisa_superacc_read(a, from, to, average, &flags);

	if (flags & FPISA_OVERFLOW)
		float_overflow_error();
	return bits_value(word, to);
}

/* -- SQL ---------------------------------------------------------------------------- */

FUNCTION(fpisa_real_add, transition(fcinfo, REAL, 0))
FUNCTION(fpisa_real_remove, transition(fcinfo, REAL, 1))
FUNCTION(fpisa_real_combine, combine(fcinfo, REAL))
FUNCTION(fpisa_real_serialize, serialize(fcinfo, REAL))
FUNCTION(fpisa_real_deserialize, deserialize(fcinfo, REAL))
FUNCTION(fpisa_real_sum, result(fcinfo, REAL, REAL, 0))
FUNCTION(fpisa_real_sum8, result(fcinfo, REAL, DOUBLE, 0))
FUNCTION(fpisa_real_avg, result(fcinfo, REAL, DOUBLE, 1))

FUNCTION(fpisa_double_add, transition(fcinfo, DOUBLE, 0))
FUNCTION(fpisa_double_remove, transition(fcinfo, DOUBLE, 1))
FUNCTION(fpisa_double_combine, combine(fcinfo, DOUBLE))
FUNCTION(fpisa_double_serialize, serialize(fcinfo, DOUBLE))
FUNCTION(fpisa_double_deserialize, deserialize(fcinfo, DOUBLE))
FUNCTION(fpisa_double_sum, result(fcinfo, DOUBLE, DOUBLE, 0))
FUNCTION(fpisa_double_avg, result(fcinfo, DOUBLE, DOUBLE, 1))
