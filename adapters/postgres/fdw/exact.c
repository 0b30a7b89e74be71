/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * fpisa.exact_sum. A statement that reads a foreign table has fpisa_sum() and fpisa_avg() in place of sum() and avg() of
 * real and double precision, whoever computes them. The wrapper is called only after the planner has numbered the
 * aggregates, so replace the functions in the planner's expressions, and number the aggregates again.
 */
#include "fdw.h"
#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type_d.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "optimizer/prep.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/syscache.h"

/* Return the extension's aggregate of this name for an argument of the type, or InvalidOid. */
static Oid find(const char *name, Oid type)
{
	CatCList *all = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(name));
	Oid found = InvalidOid;

	for (int i = 0; i < all->n_members; i++) {
		const FormData_pg_proc *p = (const FormData_pg_proc *)GETSTRUCT(&all->members[i]->tuple);

		if (p->pronargs == 1 && p->proargtypes.values[0] == type && fdw_is_ours(p->oid, name))
			found = p->oid;
	}
	ReleaseCatCacheList(all);
	return found;
}

/* Replace the function if it is a rounded sum or average. Set *replaced in that case. */
static void replace_function(Oid *function, bool *replaced)
{
	Oid exact = InvalidOid;

	switch (*function) {
	case F_SUM_FLOAT4:
		exact = find("fpisa_sum", FLOAT4OID);
		break;
	case F_SUM_FLOAT8:
		exact = find("fpisa_sum", FLOAT8OID);
		break;
	case F_AVG_FLOAT4:
		exact = find("fpisa_avg", FLOAT4OID);
		break;
	case F_AVG_FLOAT8:
		exact = find("fpisa_avg", FLOAT8OID);
		break;
	}
	if (!OidIsValid(exact))
		return;
	*function = exact;
	*replaced = true;
}

static bool replace(Node *n, void *replaced)
{
	if (!n)
		return false;
	if (IsA(n, Query))
		return query_tree_walker((Query *)n, replace, replaced, 0);
	if (IsA(n, Aggref))
		replace_function(&((Aggref *)n)->aggfnoid, replaced);
	else if (IsA(n, WindowFunc))
		replace_function(&((WindowFunc *)n)->winfnoid, replaced);
	return expression_tree_walker(n, replace, replaced);
}

/* Replace the functions that a query level computes. The planner has copied those in ORDER BY. */
static void replace_in(PlannerInfo *root)
{
	bool replaced = false;
	ListCell *class, *member;

	replace((Node *)root->parse->targetList, &replaced);
	replace((Node *)root->processed_tlist, &replaced);
	replace(root->parse->havingQual, &replaced);
	foreach(class, root->eq_classes)
	{
		foreach(member, lfirst_node(EquivalenceClass, class)->ec_members)
			replace((Node *)lfirst_node(EquivalenceMember, member)->em_expr, &replaced);
	}
	if (!replaced || !root->processed_tlist)
		return;
	root->agginfos = root->aggtransinfos = NIL;
	root->numOrderedAggs = 0;
	root->hasNonPartialAggs = root->hasNonSerialAggs = false;
	preprocess_aggrefs(root, (Node *)root->processed_tlist);
	preprocess_aggrefs(root, root->parse->havingQual);
}

/* Return whether the planner is at a query in WITH of the level. It has planned no other part of the level yet. */
static bool plans_with(const PlannerInfo *root)
{
	return list_length(root->cte_plan_ids) < list_length(root->parse->cteList);
}

/*
 * Replace the functions in the level that is being planned, and in those that read its rows: as a subquery in FROM, as a
 * part of a UNION, or by WITH, where any part of the level may read them. Other levels take its result as a value.
 */
void fdw_exact_sums(PlannerInfo *root)
{
	bool replaced;

	if (!fdw_exact_sum)
		return;
	replace_in(root);
	for (root = root->parent_root; root; root = root->parent_root) {
		if (plans_with(root))
			replace((Node *)root->parse, &replaced);
		else if (root->processed_tlist || root->parse->setOperations)
			replace_in(root);
		else
			break;
	}
}
