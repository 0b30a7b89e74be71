/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Plan scans of a table. A query for the first rows by a column gets a scan that returns fewer rows. These rows are a
 * superset of the answer, so the plan keeps Sort and Limit above the scan.
 */
#include "fdw.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#define ROWS 1000000 /* default of the table option `rows` */
#define STARTUP 100.0
#define ROW_AT_WORKER 0.001 /* cost of a row that is read at a worker */
#define ROW_FROM_WORKER 0.05

/* -- a shape in a plan ---------------------------------------------------------- */

static List *number(List *list, int64 n)
{
	return lappend(list, makeInteger((int)n));
}

List *fdw_shape_list(const struct fdw_shape *s, const char *why_not)
{
	List *l = number(NIL, s->kind);

	l = number(l, s->limit);
	l = number(l, s->ascending);
	l = number(l, s->nulls_first);
	l = number(l, s->value);
	l = number(l, s->no_nulls);
	l = number(l, s->key_bytes);
	l = lappend(l, makeString(pstrdup(s->where)));
	l = lappend(l, s->by);
	l = lappend(l, s->outputs);
	l = number(l, s->joined);
	l = lappend(l, s->on);
	l = lappend(l, s->there);
	l = lappend(l, s->on_bytes);
	l = lappend(l, makeString(pstrdup(s->joined_where ? s->joined_where : "")));
	l = lappend(l, makeString(pstrdup(why_not ? why_not : "")));
	l = lappend(l, makeString(pstrdup(s->values ? s->values : "")));
	l = lappend(l, s->aggregated);
	l = number(l, s->one_more);
	l = lappend(l, s->filters);
	l = number(l, s->distinct);
	return number(l, s->double_sums);
}

void fdw_shape_read(List *list, struct fdw_shape *s, const char **why_not)
{
	*s = (struct fdw_shape){
		.kind = (enum fdw_kind)intVal(list_nth(list, 0)),
		.limit = (uint64)intVal(list_nth(list, 1)),
		.ascending = intVal(list_nth(list, 2)),
		.nulls_first = intVal(list_nth(list, 3)),
		.value = (AttrNumber)intVal(list_nth(list, 4)),
		.no_nulls = intVal(list_nth(list, 5)),
		.key_bytes = (uint32)intVal(list_nth(list, 6)),
		.where = strVal(list_nth(list, 7)),
		.by = list_nth(list, 8),
		.outputs = list_nth(list, 9),
		.joined = (Oid)intVal(list_nth(list, 10)),
		.on = list_nth(list, 11),
		.there = list_nth(list, 12),
		.on_bytes = list_nth(list, 13),
		.joined_where = strVal(list_nth(list, 14)),
		.values = strVal(list_nth(list, 16)),
		.aggregated = list_nth(list, 17),
		.one_more = intVal(list_nth(list, 18)),
		.filters = list_nth(list, 19),
		.distinct = intVal(list_nth(list, 20)),
		.double_sums = intVal(list_nth(list, 21)),
	};
	*why_not = strVal(list_nth(list, 15));
	if (!**why_not)
		*why_not = NULL;
}

/* -- the first rows --------------------------------------------------------------- */

/* Return the sum of LIMIT and OFFSET. Return 0 if they are not constants, or if the sum is too large. */
static uint64 rows_wanted(const Query *q)
{
	const Const *limit = (const Const *)q->limitCount, *offset = (const Const *)q->limitOffset;
	int64 n, m = 0;

	if (!IsA(limit, Const) || limit->constisnull)
		return 0;
	n = DatumGetInt64(limit->constvalue);
	if (offset) {
		if (!IsA(offset, Const))
			return 0;
		m = offset->constisnull ? 0 : DatumGetInt64(offset->constvalue);
	}
	if (n <= 0 || m < 0 || n > FDW_LIMIT_MOST || m > FDW_LIMIT_MOST - n)
		return 0;
	return (uint64)(n + m);
}

/*
 * Return the reason why the query needs all rows. Such a query drops, aggregates or joins rows before it sorts them.
 * Return NULL if the first rows are sufficient.
 */
static const char *other_rows(PlannerInfo *root, const RelOptInfo *rel, const struct fdw_rel *r)
{
	const Query *q = root->parse;

	if (bms_membership(root->all_baserels) != BMS_SINGLETON || rel->reloptkind != RELOPT_BASEREL)
		return "the rows of several tables are sorted";
	if (r->local)
		return "workers cannot evaluate all of WHERE";
	if (q->hasAggs || q->groupClause || q->groupingSets || q->havingQual || q->distinctClause || q->setOperations)
		return "the rows that are sorted are not rows of the table";
	if (q->hasWindowFuncs || q->hasTargetSRFs)
		return "window and set-returning functions need all rows";
	if (q->rowMarks)
		return "rows are locked";
	return NULL;
}

/*
 * Recognise a query for the first rows by a column. Return NULL for such a
 * query, and for a query without LIMIT or ORDER BY. For other queries return
 * the reason.
 */
static const char *first_rows(PlannerInfo *root, const RelOptInfo *rel, const struct fdw_rel *r, struct fdw_shape *s)
{
	const Query *q = root->parse;
	const SortGroupClause *by;
	const TypeCacheEntry *type;
	const char *why, *values;
	const Var *v;

	if (!q->sortClause || !q->limitCount || (IsA(q->limitCount, Const) && ((Const *)q->limitCount)->constisnull))
		return NULL;
	if (!fdw_pushdown)
		return "fpisa.pushdown is off";
	why = other_rows(root, rel, r);
	if (why)
		return why;
	by = linitial_node(SortGroupClause, q->sortClause);
	v = (const Var *)get_sortgroupclause_tle((SortGroupClause *)by, q->targetList)->expr;
	values = IsA(v, Var) && v->varno == (int)rel->relid && v->varattno > 0 ? fdw_forms_of(v) : NULL;
	if (!values)
		return "ORDER BY is not by a column of type real, double precision, integer, bigint, numeric(p,s), date or timestamp";
	type = lookup_type_cache(v->vartype, TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);
	if (by->sortop != type->lt_opr && by->sortop != type->gt_opr)
		return "ORDER BY uses an operator other than < or >";
	s->one_more = list_length(q->sortClause) > 1 || q->limitOption == LIMIT_OPTION_WITH_TIES;
	s->limit = rows_wanted(q) + s->one_more;
	if (s->limit == s->one_more || s->limit > FDW_LIMIT_MOST)
		return psprintf("LIMIT and OFFSET are not constants of at most %d rows together", FDW_LIMIT_MOST);
	s->kind = FDW_TOPN;
	s->value = v->varattno;
	s->values = values;
	s->ascending = by->sortop == type->lt_opr;
	s->nulls_first = by->nulls_first;
	return NULL;
}

/*
 * Memory of the first rows in bytes. Each row has two places and a text. Up to a thousand more rows are in memory while
 * rows arrive. Any worker may also send as many NULLs. The length of the texts is only a guess here, and is counted
 * when the rows arrive.
 */
#define ROW_BYTES 80
#define NULL_BYTES 8
#define SPARE_BYTES 32768

static void count_first_rows(const RelOptInfo *rel, struct fdw_rel *r)
{
	size_t most = get_hash_memory_limit();
	double bytes = SPARE_BYTES, row = ROW_BYTES + rel->reltarget->width;

	if (r->shape.kind != FDW_TOPN)
		return;
	if (!fdw_not_null(r->table, r->shape.value))
		row += NULL_BYTES * fdw_workers(fdw_server_of(r->server));
	bytes += (double)r->shape.limit * row;
	if (bytes > (double)most) {
		r->shape = (struct fdw_shape){.kind = FDW_SCAN, .where = r->shape.where};
		r->why_not =
			psprintf("the first rows take about %.0f kB, more than work_mem * hash_mem_multiplier, %zu kB",
				 bytes / 1024, most / 1024);
	}
}

/* -- paths --------------------------------------------------------------------------- */

void fdw_rel_size(PlannerInfo *root, RelOptInfo *rel, Oid table)
{
	struct fdw_rel *r = palloc0(sizeof(*r));

	fdw_exact_sums(root);
	r->server = rel->serverid;
	r->table = table;
	r->rel = rel;
	fdw_part_where(rel, r);
	r->why_not = first_rows(root, rel, r, &r->shape);
	rel->fdw_private = r;
	rel->tuples = fdw_rows_of(table);
	if (rel->tuples <= 0)
		rel->tuples = ROWS;
	set_baserel_size_estimates(root, rel);
	count_first_rows(rel, r);
	if (r->shape.kind == FDW_TOPN && (double)r->shape.limit < rel->rows)
		rel->rows = (double)r->shape.limit;
	if (fdw_distinct(root, rel, r))
		r->why_not = NULL;
}

void fdw_paths(PlannerInfo *root, RelOptInfo *rel, Oid table pg_attribute_unused())
{
	const struct fdw_rel *r = rel->fdw_private;
	bool first = r->shape.kind != FDW_SCAN; /* whether all rows have been read before the first row comes */
	double come = first || !r->local ? rel->rows : rel->tuples;
	Cost startup = STARTUP + rel->baserestrictcost.startup + (first ? ROW_AT_WORKER * rel->tuples : 0);
	Cost total = startup + (first ? 0 : ROW_AT_WORKER * rel->tuples) +
		     come * (ROW_FROM_WORKER + rel->baserestrictcost.per_tuple);

	add_path(rel, (Path *)create_foreignscan_path(root, rel, NULL, FDW_ROWS(rel->rows), startup, total, NIL,
						      rel->lateral_relids, NULL, FDW_PRIVATE(NIL)));
}

/*
 * Return the columns of the table that the plan uses, in the order of the table. If the plan uses no column, return the
 * first column.
 */
static List *columns_used(RelOptInfo *rel, Oid table, List *clauses)
{
	Bitmapset *used = NULL;
	List *columns = NIL;
	AttrNumber first = 0;
	bool all;

	pull_varattnos((Node *)rel->reltarget->exprs, rel->relid, &used);
	pull_varattnos((Node *)clauses, rel->relid, &used);
	all = bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, used);
	for (AttrNumber i = 1; i <= rel->max_attr; i++) {
		if (!OidIsValid(get_atttype(table, i)))
			continue; /* the column was dropped */
		first = first ? first : i;
		if (all || bms_is_member(i - FirstLowInvalidHeapAttributeNumber, used))
			columns = lappend_int(columns, i);
	}
	if (!first)
		ereport(ERROR, errcode(ERRCODE_FDW_ERROR),
			errmsg("foreign table \"%s\" has no columns", get_rel_name(table)));
	return columns ? columns : list_make1_int(first);
}

ForeignScan *fdw_plan(PlannerInfo *root, RelOptInfo *rel, Oid table, ForeignPath *path, List *targets, List *clauses,
		      Plan *outer)
{
	const struct fdw_rel *r = rel->fdw_private;
	struct fdw_shape shape;
	const char *why_not;

	if (IS_UPPER_REL(rel)) {
		/* fdw_private contains the path's targets and the conditions of HAVING. */
		List *scan_targets = list_nth(path->fdw_private, 1);

		fdw_shape_read(linitial(path->fdw_private), &shape, &why_not);
		fdw_find_join(root, r, &shape);
		return make_foreignscan(targets, list_nth(path->fdw_private, 2), 0, NIL,
					fdw_shape_list(&shape, why_not), scan_targets, NIL, outer);
	}
	clauses = extract_actual_clauses(list_difference_ptr(clauses, r->pushed), false);
	shape = r->shape;
	if (!shape.distinct)
		shape.outputs = columns_used(rel, table, clauses);
	fdw_find_join(root, r, &shape);
	return make_foreignscan(targets, clauses, rel->relid, NIL, fdw_shape_list(&shape, r->why_not), NIL, NIL, outer);
}
