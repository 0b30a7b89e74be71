/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Convert the texts of an answer to datums of a slot. */
#include "fdw.h"
#include <math.h>
#include "catalog/pg_type_d.h"
#include "executor/tuptable.h"
#include "mb/pg_wchar.h"
#include "nodes/execnodes.h"
#include "nodes/pg_list.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/lsyscache.h"

/* -- columns --------------------------------------------------------------------------- */

static Oid type_at_workers(const struct fpisa_query_column *c)
{
	static const Oid types[] = {
		[FPISA_COLUMN_REAL] = FLOAT4OID,     [FPISA_COLUMN_DOUBLE] = FLOAT8OID,
		[FPISA_COLUMN_INT32] = INT4OID,	     [FPISA_COLUMN_INT64] = INT8OID,
		[FPISA_COLUMN_TEXT] = TEXTOID,	     [FPISA_COLUMN_DATE] = DATEOID,
		[FPISA_COLUMN_DECIMAL] = NUMERICOID, [FPISA_COLUMN_TIMESTAMP] = TIMESTAMPOID,
	};

	return c->type < lengthof(types) ? types[c->type] : InvalidOid;
}

#define LEAST 2 /* offset of min after count; min has the value's type */

/* Return the place in the answer of the first aggregate of value `k`, or of the end for the number of values. */
static int place_of_value(const struct fdw_shape *shape, int k)
{
	int place = list_length(shape->by) + 1;

	for (int i = 0; i < k; i++)
		place += fdw_aggregates_of(list_nth_int(shape->aggregated, i));
	return place;
}

/* Return the place in the answer of an output that is not a key. */
static int place_of_output(const struct fdw_shape *shape, int output)
{
	int i = FDW_COUNT - output;

	if (!shape->aggregated || !i)
		return list_length(shape->by) + i;
	return place_of_value(shape, (i - 1) / FDW_AGGREGATES) + (i - 1) % FDW_AGGREGATES;
}

/*
 * Return the expected number of columns. Groups have the keys and the count, and if there is a value also sum, min, max
 * and avg. If columns are aggregated beside the number of rows, all five are there for each of them.
 */
static uint32 columns_wanted(const struct fdw_scan *s)
{
	if (s->shape.kind != FDW_TABLE)
		return (uint32)list_length(s->shape.outputs);
	if (s->shape.aggregated)
		return (uint32)place_of_value(&s->shape, list_length(s->shape.aggregated));
	return (uint32)list_length(s->shape.by) + (s->shape.value ? FDW_AGGREGATES : 1);
}

/*
 * Check that the answer has the requested number of columns. Otherwise fdw_store_row() could read beyond the end of a
 * row.
 */
static uint32 check_columns(const struct fdw_scan *s, const struct fpisa_query_column **c)
{
	uint32 n = fpisa_query_columns(s->query, c), wanted = columns_wanted(s);

	if (n != wanted)
		ereport(ERROR, errcode(ERRCODE_FDW_INCONSISTENT_DESCRIPTOR_INFORMATION),
			errmsg("workers returned %u columns, but %u were requested", n, wanted));
	return n;
}

/* Return the SQL name of the type of the answer's column `i`. */
static char *name_at_workers(const struct fdw_scan *s, const struct fpisa_query_column *c, uint32 i)
{
	uint32 scale, precision = fpisa_query_precision(s->query, i, &scale);

	return precision ? psprintf("numeric(%u,%u)", precision, scale) : format_type_be(type_at_workers(&c[i]));
}

/* Fail unless the answer's column `i` has the same type as the foreign table's column. */
static void check_type(const struct fdw_scan *s, AttrNumber column, const struct fpisa_query_column *c, uint32 i)
{
	Oid type, collation;
	int32 typmod;
	const char *here, *there;

	get_atttypetypmodcoll(s->table, column, &type, &typmod, &collation);
	here = type == NUMERICOID ? format_type_with_typemod(type, typmod) : format_type_be(type);
	there = name_at_workers(s, c, i);
	if (type_at_workers(&c[i]) == type && (type != NUMERICOID || !strcmp(here, there)))
		return;
	ereport(ERROR, errcode(ERRCODE_FDW_INVALID_DATA_TYPE),
		errmsg("column \"%s\" is of type %s here, but of type %s at the workers",
		       get_attname(s->table, column, false), here, there),
		errhint("Use ALTER FOREIGN TABLE ... ALTER COLUMN ... TYPE, or IMPORT FOREIGN SCHEMA."));
}

void fdw_check_types(const struct fdw_scan *s)
{
	const struct fpisa_query_column *c;
	ListCell *cell;
	uint32 i = 0;

	check_columns(s, &c);
	foreach(cell, s->shape.by) check_type(s, (AttrNumber)lfirst_int(cell), c, i++);
	if (s->shape.kind == FDW_TABLE && s->shape.value)
		check_type(s, s->shape.value, c, i + LEAST);
	foreach(cell, s->shape.aggregated)
	{
		if (lfirst_int(cell) > 0)
			check_type(s, (AttrNumber)lfirst_int(cell), c, i + 1 + LEAST);
		i += (uint32)fdw_aggregates_of(lfirst_int(cell));
	}
	/* Otherwise the workers could order the rows differently. */
	if (s->shape.kind == FDW_TOPN)
		foreach(cell, s->shape.outputs)
		{
			if (lfirst_int(cell) == s->shape.value)
				check_type(s, s->shape.value, c, i);
			i++;
		}
}

void fdw_prepare_columns(ForeignScanState *node, struct fdw_scan *s)
{
	TupleDesc d = node->ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	ListCell *cell;
	int i = 0;

	s->n_attributes = d->natts;
	s->n_columns = list_length(s->shape.outputs);
	s->place = palloc0(sizeof(*s->place) * (s->n_columns + 1));
	s->sure = palloc0(sizeof(*s->sure) * (s->n_columns + 1));
	s->input = palloc0(sizeof(*s->input) * (d->natts + 1));
	s->io_param = palloc0(sizeof(*s->io_param) * (d->natts + 1));
	foreach(cell, s->shape.outputs)
	{
		int output = lfirst_int(cell), column = output, place = output - 1;

		/*
		 * The columns of rows are in the requested order. The columns of groups are the keys, count, sum, min,
		 * max and avg.
		 */
		if (fdw_is_groups(&s->shape)) {
			column = output >= 0 ? list_nth_int(s->shape.by, output) : 0;
			place = output >= 0 ? output : place_of_output(&s->shape, output);
		}
		s->sure[i] = (AttrNumber)(column && fdw_not_null(s->table, (AttrNumber)column) ? column : 0);
		s->place[i++] = (AttrNumber)place;
	}
	for (i = 0; i < d->natts; i++) {
		Form_pg_attribute a = TupleDescAttr(d, i);
		Oid function;

		if (a->attisdropped)
			continue;
		getTypeInputInfo(a->atttypid, &function, &s->io_param[i]);
		fmgr_info(function, &s->input[i]);
	}
}

/* Parse a decimal number as workers do. The number may be smaller than any positive float. */
static bool parse_real(const char *text, float *x)
{
	char *end;

	*x = strtof(text, &end);
	return *text && !*end && !strpbrk(text, " \t\n\v\f\rxXpP(") &&
	       !(isinf(*x) && !strchr("iI", text[*text == '-' || *text == '+']));
}

static bool parse_double(const char *text, double *x)
{
	char *end;

	*x = strtod(text, &end);
	return *text && !*end && !strpbrk(text, " \t\n\v\f\rxXpP(") &&
	       !(isinf(*x) && !strchr("iI", text[*text == '-' || *text == '+']));
}

static Datum value_of(const struct fdw_scan *s, const char *text, Form_pg_attribute a, int i)
{
	float real;
	double wide;

	switch (a->atttypid) {
	case FLOAT4OID:
		if (parse_real(text, &real))
			return Float4GetDatum(real);
		break;
	case FLOAT8OID:
		if (parse_double(text, &wide))
			return Float8GetDatum(wide);
		break;
	}
	/*
	 * The input functions quote the text in their errors. The text comes from a worker's file and may contain any
	 * bytes.
	 */
	text = pg_any_to_server(text, (int)strlen(text), PG_UTF8);
	return InputFunctionCall(&s->input[i], (char *)text, s->io_param[i], a->atttypmod);
}

/* -- rows --------------------------------------------------------------------------------- */

/*
 * Fail if the sum of the column is out of range, as fpisa_sum() does. `aggregates` has the column's count and sum, and
 * so on.
 */
static void check_sum(const struct fdw_scan *s, AttrNumber column, int output, const char *const *aggregates)
{
	double sum, least, most;
	Oid type = get_atttype(s->table, column);

	if ((type != FLOAT4OID && type != FLOAT8OID) || !list_member_int(s->shape.outputs, output) || !aggregates[1] ||
	    !aggregates[2] || !aggregates[3])
		return;
	if (parse_double(aggregates[1], &sum) && isinf(sum) && parse_double(aggregates[2], &least) &&
	    parse_double(aggregates[3], &most) && isfinite(least) && isfinite(most))
		float_overflow_error();
}

/* Fail if the column is declared NOT NULL but has fewer values than there are rows. */
static void check_nulls(const struct fdw_scan *s, AttrNumber column, const char *rows, const char *values)
{
	if (!rows || !values || !strcmp(rows, values) || !fdw_not_null(s->table, column))
		return;
	ereport(ERROR, errcode(ERRCODE_NOT_NULL_VIOLATION),
		errmsg("column \"%s\" is declared NOT NULL, but contains NULL at the workers",
		       get_attname(s->table, column, false)),
		errhint("Use ALTER FOREIGN TABLE ... ALTER COLUMN ... DROP NOT NULL."));
}

static void check_group(const struct fdw_scan *s, const char *const *row)
{
	const char *const *count = row + list_length(s->shape.by), *const *aggregates = count + 1;
	ListCell *cell, *filter;
	int k = 0;

	if (s->shape.value)
		check_sum(s, s->shape.value, FDW_SUM, count);
	forboth(cell, s->shape.aggregated, filter, s->shape.filters)
	{
		AttrNumber column = (AttrNumber)lfirst_int(cell);

		if (column > 0)
			check_sum(s, column, fdw_output_of(FDW_SUM, k), aggregates);
		if (column > 0 && !*strVal(lfirst(filter)))
			check_nulls(s, column, *count, *aggregates);
		aggregates += fdw_aggregates_of(column);
		k++;
	}
}

void fdw_store_row(const struct fdw_scan *s, const char *const *row, TupleTableSlot *slot)
{
	TupleDesc d = slot->tts_tupleDescriptor;
	bool groups = fdw_is_groups(&s->shape);
	int n = list_length(s->shape.outputs);
	const struct fpisa_query_column *c;

	check_columns(s, &c);
	memset(slot->tts_isnull, true, sizeof(bool) * d->natts);
	if (groups)
		check_group(s, row);
	for (int i = 0; i < n; i++) {
		int from = groups ? s->place[i] : i, to = groups ? i : s->place[i];
		const char *text = row[from];

		if (!text && c[from].not_null)
			ereport(ERROR, errcode(ERRCODE_NOT_NULL_VIOLATION),
				errmsg("column \"%s\" contains NULL, but the workers' schema declares it not null",
				       c[from].name),
				errhint("Remove not null from the schema, or correct the table."));
		if (!text && s->sure[i])
			ereport(ERROR, errcode(ERRCODE_NOT_NULL_VIOLATION),
				errmsg("column \"%s\" is declared NOT NULL, but contains NULL at the workers",
				       get_attname(s->table, s->sure[i], false)),
				errhint("Use ALTER FOREIGN TABLE ... ALTER COLUMN ... DROP NOT NULL."));
		if (!text)
			continue;
		slot->tts_values[to] = value_of(s, text, TupleDescAttr(d, to), to);
		slot->tts_isnull[to] = false;
	}
	ExecStoreVirtualTuple(slot);
}
