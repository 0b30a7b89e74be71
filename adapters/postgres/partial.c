/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Partials, which carry exact sums between programs (doc/partial.md).
 * fpisa_partial() returns bytes, fpisa_expansion() returns an array, and
 * fpisa_merge() accepts either. Other functions take a single partial. A partial
 * may come from any source, so the functions merge on the limbs of double
 * precision, which can hold every partial.
 */
#include "state.h"

#include "catalog/pg_type.h"
#include "utils/array.h"

bytea *partial_of(const struct fpisa_superacc *a, struct fpisa_format f)
{
	bytea *bytes = palloc(VARHDRSZ + FPISA_PARTIAL_MOST);

	SET_VARSIZE(bytes, VARHDRSZ + fpisa_partial_write(a, f, (uint8 *)VARDATA(bytes)));
	return bytes;
}

void partial_read(const bytea *bytes, struct fpisa_format f, union fpisa_superacc_full *out)
{
	const char *why;
	int rc = fpisa_partial_read(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes), f, out, &why);

	if (rc)
		ereport(ERROR,
			errcode(rc == -ERANGE ? ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE :
						ERRCODE_INVALID_BINARY_REPRESENTATION),
			errmsg("invalid fpisa partial: %s", why));
}

/* -- results of aggregates ---------------------------------------------------- */

static Datum partial(FunctionCallInfo fcinfo, struct fpisa_format f)
{
	const struct fpisa_superacc *a = state_with_rows(fcinfo);

	if (!a)
		PG_RETURN_NULL();
	PG_RETURN_BYTEA_P(partial_of(a, f));
}

static Datum expansion(FunctionCallInfo fcinfo, struct fpisa_format f)
{
	const struct fpisa_superacc *a = state_with_rows(fcinfo);
	__u64 term[FPISA_EXPANSION_TERMS];
	Datum value[FPISA_EXPANSION_TERMS];
	int n;

	if (!a)
		PG_RETURN_NULL();
	n = fpisa_superacc_expand(a, f, term);
	if (n < 0)
		float_overflow_error();
	for (int i = 0; i < n; i++)
		value[i] = bits_value(term[i], f);
	if (f.bytes == 4)
		PG_RETURN_ARRAYTYPE_P(construct_array(value, n, FLOAT4OID, 4, true, TYPALIGN_INT));
	PG_RETURN_ARRAYTYPE_P(construct_array(value, n, FLOAT8OID, 8, FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/* -- merging into a state -------------------------------------------------------------- */

static Datum merge_bytes(FunctionCallInfo fcinfo)
{
	struct fpisa_superacc *a = PG_ARGISNULL(0) ? state_new(fcinfo) : (void *)PG_GETARG_POINTER(0);

	if (!PG_ARGISNULL(1)) {
		union fpisa_superacc_full read;

		partial_read(PG_GETARG_BYTEA_PP(1), DOUBLE, &read);
		fpisa_superacc_narrow(&read.acc);
		a = state_merge(a, &read.acc, DOUBLE);
	}
	PG_RETURN_POINTER(a);
}

/* Merge the terms of an expansion. The terms are ordinary values. */
static Datum merge_terms(FunctionCallInfo fcinfo, struct fpisa_format f)
{
	struct fpisa_superacc *a = PG_ARGISNULL(0) ? state_new(fcinfo) : (void *)PG_GETARG_POINTER(0);
	Datum *term;
	bool *null;
	int n;

	if (PG_ARGISNULL(1))
		PG_RETURN_POINTER(a);
	if (f.bytes == 4)
		deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), FLOAT4OID, 4, true, TYPALIGN_INT, &term, &null, &n);
	else
		deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), FLOAT8OID, 8, FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &term,
				  &null, &n);
	for (int i = 0; i < n; i++) {
		if (null[i])
			ereport(ERROR, errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("an fpisa expansion must not contain NULL"));
		a = state_add(a, value_bits(term[i], f), f, 0);
	}
	PG_RETURN_POINTER(a);
}

/* -- functions of one partial ------------------------------------------------------------ */

static Datum ask(FunctionCallInfo fcinfo, struct fpisa_format to, int average)
{
	union fpisa_superacc_full read;

	partial_read(PG_GETARG_BYTEA_PP(0), DOUBLE, &read);
	if (!read.acc.rows)
		PG_RETURN_NULL();
	return read_value(&read.acc, DOUBLE, to, average);
}

static Datum rows(FunctionCallInfo fcinfo)
{
	union fpisa_superacc_full read;

	partial_read(PG_GETARG_BYTEA_PP(0), DOUBLE, &read);
	PG_RETURN_INT64((int64)read.acc.rows);
}

/* -- SQL ---------------------------------------------------------------------------- */

FUNCTION(fpisa_real_partial, partial(fcinfo, REAL))
FUNCTION(fpisa_double_partial, partial(fcinfo, DOUBLE))
FUNCTION(fpisa_real_expansion, expansion(fcinfo, REAL))
FUNCTION(fpisa_double_expansion, expansion(fcinfo, DOUBLE))

FUNCTION(fpisa_bytes_add, merge_bytes(fcinfo))
FUNCTION(fpisa_real_terms_add, merge_terms(fcinfo, REAL))
FUNCTION(fpisa_double_terms_add, merge_terms(fcinfo, DOUBLE))

FUNCTION(fpisa_partial_rows, rows(fcinfo))
FUNCTION(fpisa_partial_sum, ask(fcinfo, DOUBLE, 0))
FUNCTION(fpisa_partial_sum_real, ask(fcinfo, REAL, 0))
FUNCTION(fpisa_partial_avg, ask(fcinfo, DOUBLE, 1))
