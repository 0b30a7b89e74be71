/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Joins of two tables of the same workers. PostgreSQL computes the join. The aggregator's filter only drops rows and
 * groups that are not in the join. Join columns come from equivalence classes, whose columns are equal in every row of
 * the result because of inner joins and semi joins. Conditions of outer and anti joins do not create equivalence
 * classes.
 */
#include "fdw.h"
#include "catalog/pg_type_d.h"
#include "nodes/pathnodes.h"
#include "utils/typcache.h"

#define BYTES_MOST 16 /* maximum size of join keys; a frame has 32 bytes for the keys and the place of a row */

/* The side of a join whose rows the filter drops. The side is a table, or a subquery that groups a table's rows. */
struct side {
	const PlannerInfo *root; /* the statement that contains the join */
	Index relid;		 /* index of the side in the statement */
	const struct fdw_rel *r;
	List *columns; /* for each column of a subquery the table's column, or 0; NIL if the side is the table itself */
	List *only;    /* columns that join keys may contain; NIL means all columns */
};

/* -- columns that are equal ------------------------------------------------------------ */

/* Return the size in keys of a type, or 0 if values of the type may be equal although their bytes differ. */
static int bytes_of(Oid type)
{
	return type == INT4OID || type == DATEOID ? 4 : type == INT8OID ? 8 : 0;
}

static bool is_plain(const EquivalenceClass *ec)
{
#if PG_VERSION_NUM < 160000
	if (ec->ec_below_outer_join)
		return false;
#endif
	return !ec->ec_has_const && !ec->ec_has_volatile && !ec->ec_broken;
}

/* Return whether the equivalence class uses the default = operator of the type. */
static bool is_usual(const EquivalenceClass *ec, Oid type)
{
	return list_member_oid(ec->ec_opfamilies, lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY)->btree_opf);
}

/* Return the member if it is a column that no outer join can make NULL, or else NULL. */
static const Var *column_of(const EquivalenceMember *em)
{
	const Var *v = (const Var *)em->em_expr;

	if (em->em_is_child || !IsA(v, Var) || v->varattno <= 0 || v->varlevelsup || !bytes_of(v->vartype))
		return NULL;
#if PG_VERSION_NUM >= 160000
	return bms_is_empty(v->varnullingrels) ? v : NULL;
#else
	return bms_is_empty(em->em_nullable_relids) ? v : NULL;
#endif
}

/* Return the table's column for column `v` of the side, or 0 if the side does not have the column. */
static AttrNumber here(const struct side *s, const Var *v)
{
	AttrNumber column = v->varattno;

	if (v->varno != (int)s->relid)
		return 0;
	if (s->columns)
		column = (AttrNumber)(column <= list_length(s->columns) ? list_nth_int(s->columns, column - 1) : 0);
	return s->only && !list_member_int(s->only, column) ? 0 : column;
}

/* Take a pair of columns of the same type from the class, one column from each table. */
static void take_pair(const struct side *s, const EquivalenceClass *ec, Index other, struct fdw_shape *shape, int *bytes)
{
	ListCell *a, *b;

	if (!is_plain(ec))
		return;
	foreach(a, ec->ec_members)
	{
		const Var *v = column_of(lfirst(a));
		AttrNumber column = v ? here(s, v) : 0;

		/* A subquery may contain a grouping column twice. */
		if (!column || list_member_int(shape->on, column) || !is_usual(ec, v->vartype) ||
		    *bytes + bytes_of(v->vartype) > BYTES_MOST)
			continue;
		foreach(b, ec->ec_members)
		{
			const Var *w = column_of(lfirst(b));

			if (!w || w->varno != (int)other || w->vartype != v->vartype)
				continue;
			shape->on = lappend_int(shape->on, column);
			shape->there = lappend_int(shape->there, w->varattno);
			shape->on_bytes = lappend_int(shape->on_bytes, bytes_of(v->vartype));
			*bytes += bytes_of(v->vartype);
			return;
		}
	}
}

/* -- the other table --------------------------------------------------------------------- */

/*
 * Return the table with index `i` if it can prune the side, or else NULL. The table must be one of the same workers and
 * the same user, and its conditions must leave fewer rows. If both tables have the same number of rows, the first table
 * in FROM prunes the other.
 */
static const struct fdw_rel *other_table(const struct side *s, Index i)
{
	const RelOptInfo *rel = s->root->simple_rel_array[i];
	const struct fdw_rel *r = rel ? rel->fdw_private : NULL;

	if (!r || i == s->relid || rel->reloptkind != RELOPT_BASEREL || s->root->simple_rte_array[i]->inh ||
	    !OidIsValid(rel->serverid) || rel->serverid != s->r->rel->serverid || rel->userid != s->r->rel->userid ||
	    !r->pushed)
		return NULL;
	return rel->rows < s->r->rel->rows || (rel->rows <= s->r->rel->rows && i < s->relid) ? r : NULL;
}

/* Choose the table with the fewest rows. */
static void take_best(const struct side *s, struct fdw_shape *shape)
{
	double rows = 0;

	for (int i = 1; i < s->root->simple_rel_array_size; i++) {
		const struct fdw_rel *r = other_table(s, (Index)i);
		struct fdw_shape with = {0};
		int bytes = 0;
		ListCell *cell;

		if (!r || (OidIsValid(shape->joined) && r->rel->rows >= rows))
			continue;
		foreach(cell, s->root->eq_classes) take_pair(s, lfirst(cell), (Index)i, &with, &bytes);
		if (!with.on)
			continue;
		rows = r->rel->rows;
		shape->joined = r->table;
		shape->on = with.on;
		shape->there = with.there;
		shape->on_bytes = with.on_bytes;
		shape->joined_where = r->shape.where;
	}
}

/* -- groups --------------------------------------------------------------------------------- */

/*
 * Return whether each row of the subquery depends only on the rows of its own
 * group. If so, dropping a group does not change the other rows.
 */
static bool is_by_groups(const PlannerInfo *root)
{
	const Query *q = root->parse;

	return q->groupClause && !q->groupingSets && !q->limitCount && !q->limitOffset && !q->hasWindowFuncs &&
	       !q->hasDistinctOn && !q->hasTargetSRFs && !q->setOperations &&
	       bms_membership(root->all_baserels) == BMS_SINGLETON;
}

/* Return the subquery's index in the enclosing statement, or 0. */
static Index place_of(const PlannerInfo *root)
{
	const PlannerInfo *around = root->parent_root;

	for (int i = 1; around && i < around->simple_rel_array_size; i++) {
		const RelOptInfo *rel = around->simple_rel_array[i];

		if (rel && rel->subroot == root && rel->reloptkind == RELOPT_BASEREL)
			return (Index)i;
	}
	return 0;
}

/* For each column of the subquery that is in GROUP BY return the table's column. For other columns return 0. */
static List *group_columns(const PlannerInfo *root, const struct fdw_rel *r)
{
	List *columns = NIL;
	ListCell *cell, *by;

	foreach(cell, root->parse->targetList)
	{
		const TargetEntry *t = lfirst(cell);
		const Var *v = (const Var *)t->expr;
		int column = 0;

		foreach(by, root->parse->groupClause) if (IsA(v, Var) && v->varno == (int)r->rel->relid &&
							  v->varattno > 0 && !v->varlevelsup &&
							  ((const SortGroupClause *)lfirst(by))->tleSortGroupRef ==
								  t->ressortgroupref) column = v->varattno;
		columns = lappend_int(columns, column);
	}
	return columns;
}

/* Move the columns of the join to the front of the groups' key. */
static void put_first(struct fdw_shape *shape)
{
	List *by = list_copy(shape->on), *outputs = NIL;
	ListCell *cell;

	foreach(cell, shape->by) by = list_append_unique_int(by, lfirst_int(cell));
	foreach(cell, shape->outputs)
	{
		int output = lfirst_int(cell), at = 0;

		if (output >= 0)
			while (list_nth_int(by, at) != list_nth_int(shape->by, output))
				at++;
		outputs = lappend_int(outputs, output >= 0 ? at : output);
	}
	shape->by = by;
	shape->outputs = outputs;
}

/* Return the columns of the key that are declared NOT NULL. */
static List *sure_columns(const struct fdw_rel *r, List *by)
{
	List *sure = NIL;
	ListCell *cell;

	foreach(cell, by)
	{
		if (fdw_not_null(r->table, (AttrNumber)lfirst_int(cell)))
			sure = lappend_int(sure, lfirst_int(cell));
	}
	return sure;
}

void fdw_find_join(const PlannerInfo *root, const struct fdw_rel *r, struct fdw_shape *shape)
{
	struct side s = {.root = root, .relid = r->rel->relid, .r = r};

	if (!fdw_pushdown || r->rel->reloptkind != RELOPT_BASEREL ||
	    (shape->kind != FDW_SCAN && shape->kind != FDW_TABLE))
		return;
	if (is_by_groups(root)) {
		s.root = root->parent_root;
		s.relid = place_of(root);
		s.columns = group_columns(root, r);
	}
	if (shape->kind == FDW_TABLE)
		s.only = sure_columns(r, shape->by);
	if (!s.relid || (shape->kind == FDW_TABLE && !s.only))
		return;
	take_best(&s, shape);
	if (!OidIsValid(shape->joined))
		return;
	if (shape->kind == FDW_TABLE)
		put_first(shape);
	else
		shape->kind = FDW_JOIN;
}
