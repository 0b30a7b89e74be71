/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Groups. A scan returns one row for each group, so the server does not have to aggregate rows.
 * From these rows the server evaluates HAVING and the expressions of keys and aggregates.
 */
#include "fdw.h"
#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_collation.h"
#include "catalog/dependency.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type_d.h"
#include "datatype/timestamp.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"

#define EXTENSION "fpisa"
#define STARTUP 100.0
#define ROW_AT_WORKER 0.001
#define GROUP_FROM_WORKER 0.05
#define GROUPS_MOST (1 << 24)
#define VALUES_MOST 64

struct groups {
	PlannerInfo *root;
	RelOptInfo *table;
	const struct fdw_rel *rel;
	Oid relation;
	TupleDesc columns;
	struct fdw_shape shape;
	bool counts_rows; /* whether the statement uses count(*), or count() of a column that is never NULL */
	bool real_sums;	  /* whether a sum of reals is a real; shape.double_sums tells whether one is not */
	int distinct;	  /* bytes that distinct values add to keys */
	List *counted;	  /* counted columns that are never NULL */
	List *targets;	  /* targets of the scan */
	const char *why;
};

static bool refuse(struct groups *g, const char *why)
{
	g->why = why;
	return false;
}

static bool not_null(const struct groups *g, AttrNumber column)
{
	return TupleDescAttr(g->columns, column - 1)->attnotnull;
}

static bool is_column(const struct groups *g, const Expr *e)
{
	return IsA(e, Var) && ((const Var *)e)->varno == (int)g->table->relid && ((const Var *)e)->varattno > 0 &&
	       !((const Var *)e)->varlevelsup;
}

/* -- keys ------------------------------------------------------------------------ */

/* Return the size of a column in a key (user/query/lib/column.h), or -1 if keys cannot contain the column. */
static int key_bytes(struct groups *g, const Var *v)
{
	const char *name = NameStr(TupleDescAttr(g->columns, v->varattno - 1)->attname);
	int bytes, precision;

	switch (v->vartype) {
	case NUMERICOID:
		if (fdw_numeric(v->vartypmod, &precision, NULL))
			return precision <= FPISA_DECIMAL_INT64 ? 8 : 16;
		break;
	case INT4OID:
	case DATEOID:
	case FLOAT4OID:
		return 4;
	case TIMESTAMPOID:
		if (v->vartypmod >= 0 && v->vartypmod < MAX_TIMESTAMP_PRECISION)
			break; /* the server rounds the values */
		return 8;
	case INT8OID:
	case FLOAT8OID:
		return 8;
	case TEXTOID:
		bytes = fdw_column_bytes(g->relation, v->varattno);
		if (bytes < 0)
			g->why = psprintf(
				"the length of values of column \"%s\" is not known: set its option \"bytes\"", name);
		else if (OidIsValid(v->varcollid) && !get_collation_isdeterministic(v->varcollid))
			g->why = psprintf("texts of column \"%s\" may be equal although their bytes differ", name);
		else
			return bytes + 1;
		return -1;
	}
	g->why = psprintf("column \"%s\" is of type %s, which keys do not support", name, format_type_be(v->vartype));
	return -1;
}

static bool fits_key(struct groups *g)
{
	if (g->shape.key_bytes > FDW_KEY_MOST)
		return refuse(g, psprintf("the key takes %u bytes; the limit is %d", g->shape.key_bytes, FDW_KEY_MOST));
	return true;
}

static bool take_keys(struct groups *g, List *clauses)
{
	ListCell *cell;

	foreach(cell, clauses)
	{
		const SortGroupClause *by = lfirst(cell);
		const Var *v =
			(const Var *)get_sortgroupclause_tle((SortGroupClause *)by, g->root->parse->targetList)->expr;
		int bytes;

		if (!is_column(g, (const Expr *)v))
			return refuse(g, "GROUP BY has an expression that is not a column");
		if (list_member_int(g->shape.by, v->varattno))
			continue;
		bytes = key_bytes(g, v);
		if (bytes < 0)
			return false;
		g->shape.by = lappend_int(g->shape.by, v->varattno);
		g->shape.key_bytes += bytes + !not_null(g, v->varattno);
	}
	return fits_key(g);
}

/* -- aggregates --------------------------------------------------------------------- */

bool fdw_is_ours(Oid function, const char *name)
{
	const char *is = get_func_name(function);

	return is && !strcmp(is, name) &&
	       getExtensionOfObject(ProcedureRelationId, function) == get_extension_oid(EXTENSION, true);
}

/* Return the aggregate's column in the answer as an enum fdw_output, or 0 if workers do not support the aggregate. */
static int output_of(const Aggref *a)
{
	switch (a->aggfnoid) {
	case F_COUNT_:
	case F_COUNT_ANY:
		return FDW_COUNT;
	case F_MIN_FLOAT4:
	case F_MIN_FLOAT8:
	case F_MIN_INT4:
	case F_MIN_INT8:
	case F_MIN_NUMERIC:
	case F_MIN_DATE:
	case F_MIN_TIMESTAMP:
		return FDW_MIN;
	case F_MAX_FLOAT4:
	case F_MAX_FLOAT8:
	case F_MAX_INT4:
	case F_MAX_INT8:
	case F_MAX_NUMERIC:
	case F_MAX_DATE:
	case F_MAX_TIMESTAMP:
		return FDW_MAX;
	/* Sums of these types are exact. Sums of real and double precision values by sum() are not. */
	case F_SUM_INT4:
	case F_SUM_INT8:
	case F_SUM_NUMERIC:
		return FDW_SUM;
	case F_AVG_INT4:
	case F_AVG_INT8:
	case F_AVG_NUMERIC:
		return FDW_AVG;
	}
	return fdw_is_ours(a->aggfnoid, "fpisa_sum") || fdw_is_ours(a->aggfnoid, "fpisa_sum8") ? FDW_SUM :
	       fdw_is_ours(a->aggfnoid, "fpisa_avg")					       ? FDW_AVG :
												 0;
}

const char *fdw_forms_of(const Var *v)
{
	int precision;

	switch (v->vartype) {
	case FLOAT4OID:
		return "real";
	case FLOAT8OID:
		return "double";
	case INT4OID:
	case INT8OID:
	case DATEOID:
	case TIMESTAMPOID:
		return "int64 int128";
	case NUMERICOID:
		if (fdw_numeric(v->vartypmod, &precision, NULL))
			return precision <= FPISA_DECIMAL_INT64 ? "int64 int128" : "int128";
		break;
	}
	return NULL;
}

/* Return the forms of values that can add values of both forms, or FDW_MIXED. */
static const char *forms_of_both(const char *a, const char *b)
{
	if (!a || !strcmp(a, b))
		return b;
	if (!strcmp(a, FDW_MIXED) || (*a == 'i') != (*b == 'i'))
		return FDW_MIXED;
	return *a == 'i' ? "int128" : "double";
}

/* Return the place of the entry in `aggregated` with these conditions, or -1. */
static int find_value(const struct groups *g, int column, const char *filter)
{
	for (int k = 0; k < list_length(g->shape.aggregated); k++)
		if (list_nth_int(g->shape.aggregated, k) == column &&
		    !strcmp(strVal(list_nth(g->shape.filters, k)), filter))
			return k;
	return -1;
}

/* Add an entry of `aggregated` for the rows that meet the conditions, and set the aggregate's output. */
static bool add_value(struct groups *g, int column, const char *filter, int *output)
{
	int k = find_value(g, column, filter);

	if (k < 0) {
		k = list_length(g->shape.aggregated);
		g->shape.aggregated = lappend_int(g->shape.aggregated, column);
		g->shape.filters = lappend(g->shape.filters, makeString(pstrdup(filter)));
	}
	if (k >= VALUES_MOST)
		return refuse(g, psprintf("the aggregates use more than %d columns", VALUES_MOST));
	*output = fdw_output_of((enum fdw_output) * output, k);
	return true;
}

/* Use the column of an aggregate as a value, and set the aggregate's output. */
static bool take_value(struct groups *g, const Var *v, const char *filter, int *output)
{
	const char *values = fdw_forms_of(v);

	if (!values)
		return refuse(g, psprintf("column \"%s\" is of type %s; values must be real, double precision, "
					  "integer, bigint, numeric(p,s), date or timestamp",
					  NameStr(TupleDescAttr(g->columns, v->varattno - 1)->attname),
					  format_type_with_typemod(v->vartype, v->vartypmod)));
	g->shape.values = forms_of_both(g->shape.values, values);
	return add_value(g, v->varattno, filter, output);
}

/* Count the distinct values of the column, which are in keys. */
static bool take_distinct(struct groups *g, const Var *v, const char *filter, int *output)
{
	int bytes = key_bytes(g, v);

	g->distinct = bytes > g->distinct ? bytes : g->distinct;
	return bytes >= 0 && add_value(g, -v->varattno, filter, output);
}

/* Count the rows that meet the conditions. */
static bool take_rows(struct groups *g, const char *filter, int *output)
{
	if (*filter)
		return add_value(g, 0, filter, output);
	g->counts_rows = true;
	return true;
}

/* Note the type of a sum of reals, which is the same in a query's answer for all of them. */
static bool take_sum(struct groups *g, Oid type)
{
	g->shape.double_sums |= type == FLOAT8OID;
	g->real_sums |= type == FLOAT4OID;
	return !(g->shape.double_sums && g->real_sums) ||
	       refuse(g, "some sums of real have type real, and others have type double precision");
}

static bool take_aggregate(struct groups *g, const Aggref *a, int *output)
{
	const char *filter = a->aggfilter ? fdw_filter(g->table, g->relation, a->aggfilter) : "";
	const Var *v;

	*output = output_of(a);
	if (!*output)
		return refuse(g, psprintf("workers do not support this %s(); they support max, min, count, fpisa_sum, "
					  "fpisa_avg, and sum and avg of integers and numeric, or with fpisa.exact_sum "
					  "of all numbers",
					  get_func_name(a->aggfnoid)));
	if (a->aggorder || a->agglevelsup || (a->aggdistinct && (*output == FDW_SUM || *output == FDW_AVG)))
		return refuse(g, g->rel->why_all ? g->rel->why_all :
						   "an aggregate has ORDER BY, or a sum or average has DISTINCT");
	if (!filter)
		return refuse(g, "workers cannot evaluate the FILTER of an aggregate");
	if (a->aggsplit != AGGSPLIT_SIMPLE)
		return refuse(g, "the aggregate is partial");
	if (a->aggstar)
		return take_rows(g, filter, output);
	v = (const Var *)linitial_node(TargetEntry, a->args)->expr;
	if (!is_column(g, (const Expr *)v))
		return refuse(g, "the argument of an aggregate is not a plain column");
	if (*output == FDW_COUNT && a->aggdistinct)
		return take_distinct(g, v, filter, output);
	if (*output == FDW_COUNT && not_null(g, v->varattno)) {
		g->counted = list_append_unique_int(g->counted, v->varattno);
		return take_rows(g, filter, output);
	}
	if (*output == FDW_SUM && v->vartype == FLOAT4OID && !take_sum(g, a->aggtype))
		return false;
	return take_value(g, v, filter, output);
}

/* -- columns of the scan ----------------------------------------------------------------- */

/* Add each key and each aggregate of an expression as a column of the scan. */
static bool take_expression(struct groups *g, Node *e)
{
	ListCell *cell;

	foreach(cell, pull_var_clause(e, PVC_INCLUDE_AGGREGATES | PVC_INCLUDE_PLACEHOLDERS))
	{
		Expr *part = lfirst(cell);
		int output = 0;

		if (tlist_member(part, g->targets))
			continue;
		if (IsA(part, Aggref)) {
			if (!take_aggregate(g, (Aggref *)part, &output))
				return false;
		} else {
			ListCell *by;
			int at = 0;

			output = -100;
			foreach(by, g->shape.by)
			{
				if (is_column(g, part) && lfirst_int(by) == ((Var *)part)->varattno)
					output = at;
				at++;
			}
			if (output == -100)
				return refuse(g, "an expression is neither a key nor an aggregate");
		}
		g->targets = lappend(g->targets,
				     makeTargetEntry(copyObject(part), list_length(g->targets) + 1, NULL, false));
		g->shape.outputs = lappend_int(g->shape.outputs, output);
	}
	return true;
}

/*
 * Let workers check that the counted NOT NULL columns are never NULL, so that the
 * query can count rows instead. Workers count the NULLs of the value anyway.
 */
static bool expect_values(struct groups *g)
{
	ListCell *cell;
	int terms = g->rel->terms;

	foreach(cell, g->counted)
	{
		AttrNumber column = (AttrNumber)lfirst_int(cell);

		if (find_value(g, column, "") >= 0)
			continue;
		if (terms++ == FDW_TERMS_MOST)
			return refuse(g, psprintf("WHERE and the counted columns need more than %d conditions",
						  FDW_TERMS_MOST));
		g->shape.where = fdw_never_null(g->shape.where, g->relation, column);
	}
	return true;
}

/*
 * Take the simpler of two queries. With a single value, whose count is also the number of rows, rows have only the
 * value. Otherwise the key of a row ends with the number of its value, after a distinct value if there is one.
 */
static bool choose_query(struct groups *g)
{
	bool one = list_length(g->shape.aggregated) == 1 && !*strVal(linitial(g->shape.filters));
	AttrNumber only = (AttrNumber)(one ? Max(linitial_int(g->shape.aggregated), 0) : 0);
	ListCell *cell;

	if (!g->shape.aggregated)
		return true;
	if (!only || (g->counts_rows && !not_null(g, only))) {
		g->shape.key_bytes += (uint32)g->distinct + 1;
		return fits_key(g);
	}
	g->shape.value = only;
	g->shape.no_nulls = not_null(g, only);
	g->shape.aggregated = g->shape.filters = NIL;
	foreach(cell, g->shape.outputs)
	{
		if (lfirst_int(cell) < FDW_COUNT)
			lfirst_int(cell)++;
	}
	return true;
}

static bool is_groups(struct groups *g, const RelOptInfo *out, Node *having)
{
	const Query *q = g->root->parse;
	ListCell *cell;

	if (!fdw_pushdown)
		return refuse(g, "fpisa.pushdown is off");
	if (g->rel->local)
		return refuse(g, "workers cannot evaluate all of WHERE");
	g->shape.where = g->rel->shape.where;
	if (q->groupingSets)
		return refuse(g, "the query has grouping sets");
	if (!take_keys(g, q->groupClause))
		return false;
	foreach(cell, out->reltarget->exprs) if (!take_expression(g, lfirst(cell))) return false;
	if (having && !take_expression(g, having))
		return false;
	if (!expect_values(g) || !choose_query(g))
		return false;
	/* At least one key or aggregate must be a column of the scan. */
	if (!g->targets)
		return refuse(g, "no column of the result is used");
	g->shape.kind = FDW_TABLE;
	return true;
}

/* -- the path -------------------------------------------------------------------------- */

static double number_of_groups(const struct groups *g)
{
	const Query *q = g->root->parse;

	return estimate_num_groups(g->root, get_sortgrouplist_exprs(q->groupClause, q->targetList), g->table->rows,
				   NULL, NULL);
}

/*
 * Return whether a worker and the aggregator's table can hold the expected number of groups. Without the option `rows`
 * the expected number is only a guess, so rely on the limit at run time.
 */
static bool fits(struct groups *g, double groups)
{
	if (fdw_rows_of(g->rel->table) <= 0 || groups <= GROUPS_MOST)
		return true;
	return refuse(g, psprintf("about %.0f keys are expected; the limit is %d", groups, GROUPS_MOST));
}

static void add_groups(const struct groups *g, RelOptInfo *out, Node *having, double groups)
{
	Cost startup = STARTUP + ROW_AT_WORKER * g->table->tuples;
	List *private = list_make3(fdw_shape_list(&g->shape, NULL), g->targets, having);

	add_path(out, (Path *)create_foreign_upper_path(g->root, out, g->root->upper_targets[UPPERREL_GROUP_AGG],
							FDW_ROWS(groups), startup, startup + GROUP_FROM_WORKER * groups,
							NIL, NULL, FDW_PRIVATE(private)));
}

void fdw_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *in, RelOptInfo *out, void *extra)
{
	struct fdw_rel *r = in->fdw_private;
	Relation relation;
	struct groups g = {.root = root, .table = in, .rel = in->fdw_private};
	double groups = 0;
	Node *having;

	if (stage != UPPERREL_GROUP_AGG || in->reloptkind != RELOPT_BASEREL || !r || r->shape.distinct ||
	    out->fdw_private)
		return;
	having = ((GroupPathExtraData *)extra)->havingQual;
	g.relation = r->table;
	relation = table_open(r->table, NoLock);
	g.columns = RelationGetDescr(relation);
	if (is_groups(&g, out, having) && fits(&g, groups = number_of_groups(&g))) {
		out->fdw_private = r;
		add_groups(&g, out, having, groups);
	} else {
		/* The scan below the aggregate reports the reason. Its plan is made after all paths exist. */
		r->why_not = g.why;
	}
	table_close(relation, NoLock);
}

/* -- distinct rows ---------------------------------------------------------------------- */

/* Return whether all aggregates of the statement have DISTINCT, so that repeated rows do not matter. */
static bool only_distinct(PlannerInfo *root)
{
	const Query *q = root->parse;
	List *parts = pull_var_clause((Node *)q->targetList, PVC_INCLUDE_AGGREGATES | PVC_INCLUDE_PLACEHOLDERS);
	ListCell *cell;

	parts = list_concat(parts, pull_var_clause(q->havingQual, PVC_INCLUDE_AGGREGATES | PVC_INCLUDE_PLACEHOLDERS));
	foreach(cell, parts)
	{
		const Aggref *a = lfirst(cell);

		if (IsA(a, Aggref) && (!a->aggdistinct || a->agglevelsup))
			return false;
	}
	return true;
}

/* Return whether the result changes if an expression is evaluated fewer times. */
static bool is_volatile(PlannerInfo *root, const struct fdw_rel *r)
{
	ListCell *cell;

	foreach(cell, r->local)
	{
		if (contain_volatile_functions((Node *)lfirst_node(RestrictInfo, cell)->clause))
			return true;
	}
	return contain_volatile_functions((Node *)root->parse->targetList) ||
	       contain_volatile_functions(root->parse->havingQual);
}

/* Use the column as a part of the key. */
static bool take_column(struct groups *g, AttrNumber column, List **vars)
{
	const FormData_pg_attribute *a;
	int bytes;
	Var *v;

	if (column <= 0)
		return refuse(g, "a whole row or a system column is used");
	a = TupleDescAttr(g->columns, column - 1);
	v = makeVar(g->table->relid, column, a->atttypid, a->atttypmod, a->attcollation, 0);
	bytes = key_bytes(g, v);
	if (bytes < 0)
		return false;
	*vars = lappend(*vars, v);
	g->shape.by = lappend_int(g->shape.by, column);
	g->shape.key_bytes += bytes + !not_null(g, column);
	return fits_key(g);
}

/* Use all columns of the statement, and of conditions that the server evaluates, as the key. */
static bool take_columns(struct groups *g, List **vars)
{
	Bitmapset *used = NULL;
	bool all = true;
	int i = -1;

	pull_varattnos((Node *)g->table->reltarget->exprs, g->table->relid, &used);
	pull_varattnos((Node *)extract_actual_clauses(g->rel->local, false), g->table->relid, &used);
	while (all && (i = bms_next_member(used, i)) >= 0)
		all = take_column(g, (AttrNumber)(i + FirstLowInvalidHeapAttributeNumber), vars);
	return all && (g->shape.by || refuse(g, "no column is used"));
}

bool fdw_distinct(PlannerInfo *root, RelOptInfo *rel, struct fdw_rel *r)
{
	struct groups g = {
		.root = root, .table = rel, .rel = r, .relation = r->table, .shape = {.where = r->shape.where}};
	const Query *q = root->parse;
	Relation relation;
	List *vars = NIL;
	double groups;

	if (!fdw_pushdown || !q->hasAggs || q->hasWindowFuncs || rel->reloptkind != RELOPT_BASEREL ||
	    bms_membership(root->all_baserels) != BMS_SINGLETON || !only_distinct(root) || is_volatile(root, r))
		return false;
	relation = table_open(r->table, NoLock);
	g.columns = RelationGetDescr(relation);
	if (take_columns(&g, &vars) && fits(&g, groups = estimate_num_groups(root, vars, rel->rows, NULL, NULL))) {
		g.shape.kind = FDW_TABLE;
		g.shape.distinct = true;
		g.shape.outputs = g.shape.by;
		r->shape = g.shape;
		rel->rows = clamp_row_est(groups);
	}
	table_close(relation, NoLock);
	r->why_all = g.why;
	return r->shape.distinct;
}
