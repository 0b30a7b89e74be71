/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Translate conditions of WHERE for workers. Workers evaluate comparisons of a column with a constant if the operator
 * is PostgreSQL's own and gives the same result at the workers. They also evaluate prefixes of texts. A condition names
 * the type of its column, so that a worker whose column has another type refuses the condition.
 */
#include "fdw.h"
#include <math.h>
#include "access/transam.h"
#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "datatype/timestamp.h"
#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "nodes/pathnodes.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

const char *fdw_worker_type(Oid type)
{
	switch (type) {
	case INT4OID:
		return "int32";
	case INT8OID:
		return "int64";
	case FLOAT4OID:
		return "real";
	case FLOAT8OID:
		return "double";
	case DATEOID:
		return "date";
	case TIMESTAMPOID:
		return "timestamp";
	case TEXTOID:
		return "text";
	case NUMERICOID:
		return "decimal";
	}
	return NULL;
}

/*
 * Return the type of a column in a condition. A numeric has its precision and scale, because the server rounds the
 * workers' values to its own scale.
 */
static const char *column_type(Oid type, int32 typmod)
{
	int precision, scale;

	if (type == NUMERICOID && fdw_numeric(typmod, &precision, &scale))
		return psprintf("decimal(%d,%d)", precision, scale);
	return fdw_worker_type(type);
}

/* -- constants, which are never NULL ---------------------------------------------- */

static const char *integer_text(const Const *c)
{
	switch (c->consttype) {
	case INT2OID:
		return psprintf("%d", DatumGetInt16(c->constvalue));
	case INT4OID:
		return psprintf("%d", DatumGetInt32(c->constvalue));
	case INT8OID:
		return psprintf("%lld", (long long)DatumGetInt64(c->constvalue));
	}
	return NULL;
}

static const char *real_text(const Const *c)
{
	double x;

	if (c->consttype == FLOAT4OID)
		x = (double)DatumGetFloat4(c->constvalue);
	else if (c->consttype == FLOAT8OID)
		x = DatumGetFloat8(c->constvalue);
	else
		return NULL;
	return isnan(x) ? "NaN" : isinf(x) ? (x > 0 ? "Infinity" : "-Infinity") : psprintf("%.17g", x);
}

/*
 * Return the constant as a timestamp, or as a date if it is at midnight. For all operators, a timestamp at midnight is
 * equal to its date. Workers support the years 1 to 9999.
 */
static const char *day_text(const Const *c, bool date)
{
	int year, month, day;
	int64 days, us = 0;

	if (c->consttype == DATEOID) {
		days = DatumGetDateADT(c->constvalue);
		if (DATE_NOT_FINITE((DateADT)days))
			return NULL;
	} else if (c->consttype == TIMESTAMPOID) {
		us = DatumGetTimestamp(c->constvalue);
		if (TIMESTAMP_NOT_FINITE(us))
			return NULL;
		days = us / USECS_PER_DAY - (us % USECS_PER_DAY < 0);
		us -= days * USECS_PER_DAY;
	} else {
		return NULL;
	}
	j2date((int)days + POSTGRES_EPOCH_JDATE, &year, &month, &day);
	if (year < 1 || year > 9999 || (date && us))
		return NULL;
	if (!us)
		return psprintf("%04d-%02d-%02d", year, month, day);
	return psprintf("%04d-%02d-%02d %02d:%02d:%02d.%06d", year, month, day, (int)(us / USECS_PER_HOUR),
			(int)(us / USECS_PER_MINUTE % 60), (int)(us / USECS_PER_SEC % 60), (int)(us % USECS_PER_SEC));
}

static char *quoted(const char *from)
{
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfoChar(&out, '\'');
	for (; *from; from++) {
		if (*from == '\'')
			appendStringInfoChar(&out, '\'');
		appendStringInfoChar(&out, *from);
	}
	appendStringInfoChar(&out, '\'');
	return out.data;
}

static const char *quoted_text(const Const *c)
{
	return c->consttype == TEXTOID ? quoted(TextDatumGetCString(c->constvalue)) : NULL;
}

static const char *constant_text(const Const *c, Oid column, int32 typmod)
{
	if (c->constisnull)
		return NULL;
	switch (column) {
	case INT4OID:
	case INT8OID:
		return integer_text(c);
	case FLOAT4OID:
	case FLOAT8OID:
		return real_text(c);
	case DATEOID:
		return day_text(c, true);
	case TIMESTAMPOID:
		/* The server rounds the values to fewer digits. */
		return typmod >= 0 && typmod < MAX_TIMESTAMP_PRECISION ? NULL : day_text(c, false);
	case TEXTOID:
		return quoted_text(c);
	case NUMERICOID:
		return fdw_numeric_text(c, typmod);
	}
	return NULL;
}

/* -- conditions ---------------------------------------------------------------------- */

static bool is_column(const RelOptInfo *rel, const Node *e)
{
	return IsA(e, Var) && ((const Var *)e)->varno == (int)rel->relid && ((const Var *)e)->varattno > 0 &&
	       !((const Var *)e)->varlevelsup && fdw_worker_type(((const Var *)e)->vartype);
}

static char *comparison(const RelOptInfo *rel, Oid table, const OpExpr *e)
{
	static const char *const names[] = {"<", "<=", "=", "<>", ">=", ">"}, *const turned[] = {">",  ">=", "=",
												 "<>", "<=", "<"};
	const Node *left = linitial(e->args), *right = list_length(e->args) == 2 ? lsecond(e->args) : NULL;
	bool turn = right && is_column(rel, right);
	const Var *v = (const Var *)(turn ? right : left);
	const Const *c = (const Const *)(turn ? left : right);
	const char *name = get_opname(e->opno), *text;

	if (!right || !name || !is_column(rel, (const Node *)v) || !IsA(c, Const) || e->opno >= FirstUnpinnedObjectId)
		return NULL;
	if (v->vartype == TEXTOID &&
	    ((strcmp(name, "=") && strcmp(name, "<>")) || !get_collation_isdeterministic(e->inputcollid)))
		return NULL;
	text = constant_text(c, v->vartype, v->vartypmod);
	for (int i = 0; text && i < (int)lengthof(names); i++)
		if (!strcmp(name, names[i]))
			return psprintf("%s %s %s %s", fdw_column_of(table, v->varattno),
					column_type(v->vartype, v->vartypmod), turn ? turned[i] : names[i], text);
	return NULL;
}

/* Translate LIKE 'begin%' to a range of bytes. The upper bound is the same text with its last byte increased by one. */
static char *prefix(const RelOptInfo *rel, Oid table, const OpExpr *e)
{
	const Var *v = linitial(e->args);
	const Const *c = lsecond(e->args);
	char *begin, *least, *column;
	size_t n;

	if (!is_column(rel, (const Node *)v) || v->vartype != TEXTOID || !IsA(c, Const) || c->constisnull ||
	    c->consttype != TEXTOID || !get_collation_isdeterministic(e->inputcollid))
		return NULL;
	begin = TextDatumGetCString(c->constvalue);
	n = strcspn(begin, "%_\\");
	if (!n || strcmp(begin + n, "%") || (unsigned char)begin[n - 1] >= 0x7f)
		return NULL;
	begin[n] = 0;
	least = quoted(begin);
	begin[n - 1]++;
	column = fdw_column_of(table, v->varattno);
	return psprintf("%s text >= %s, %s text < %s", column, least, column, quoted(begin));
}

static bool is_like(const Expr *clause)
{
	return IsA(clause, OpExpr) && ((const OpExpr *)clause)->opno == OID_TEXT_LIKE_OP;
}

static char *null_test(const RelOptInfo *rel, Oid table, const NullTest *e)
{
	const Var *v = (const Var *)e->arg;

	if (e->argisrow || !is_column(rel, (const Node *)v))
		return NULL;
	return psprintf("%s %s %s", fdw_column_of(table, v->varattno), column_type(v->vartype, v->vartypmod),
			e->nulltesttype == IS_NULL ? "null" : "not null");
}

const char *fdw_never_null(const char *where, Oid table, AttrNumber column)
{
	const char *type = fdw_worker_type(get_atttype(table, column));

	return psprintf("%s%s%s%s%s never null", where, *where ? ", " : "", fdw_column_of(table, column),
			type ? " " : "", type ? type : "");
}

/*
 * Return the condition in the workers' syntax, and add the number of its terms to *terms. Return NULL if workers do not
 * evaluate the condition, or if the terms would be too many.
 */
static char *condition(const RelOptInfo *rel, Oid table, const Expr *clause, int *terms)
{
	const int takes = is_like(clause) ? 2 : 1;
	char *text = NULL;

	if (*terms + takes > FDW_TERMS_MOST)
		return NULL;
	if (is_like(clause))
		text = prefix(rel, table, (const OpExpr *)clause);
	else if (IsA(clause, OpExpr))
		text = comparison(rel, table, (const OpExpr *)clause);
	else if (IsA(clause, NullTest))
		text = null_test(rel, table, (const NullTest *)clause);
	*terms += text ? takes : 0;
	return text;
}

const char *fdw_filter(const RelOptInfo *rel, Oid table, Expr *filter)
{
	StringInfoData text;
	ListCell *cell;
	int terms = 0;

	initStringInfo(&text);
	foreach(cell, make_ands_implicit(filter))
	{
		const char *one = condition(rel, table, lfirst(cell), &terms);

		if (!one)
			return NULL;
		appendStringInfo(&text, "%s%s", text.len ? "," : "", one);
	}
	return text.len ? text.data : NULL;
}

void fdw_part_where(const RelOptInfo *rel, struct fdw_rel *r)
{
	StringInfoData where;
	ListCell *cell;

	initStringInfo(&where);
	foreach(cell, rel->baserestrictinfo)
	{
		RestrictInfo *info = lfirst_node(RestrictInfo, cell);
		char *text = NULL;

		if (fdw_pushdown && !info->pseudoconstant)
			text = condition(rel, r->table, info->clause, &r->terms);
		if (!text) {
			r->local = lappend(r->local, info);
			continue;
		}
		r->pushed = lappend(r->pushed, info);
		appendStringInfo(&where, "%s%s", where.len ? ", " : "", text);
	}
	r->shape.where = where.data;
}
