/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* EXPLAIN a scan: print the request to the workers, the pruning, and the number of rows at each stage. */
#include "fdw.h"
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "utils/lsyscache.h"

static char *column_list(const struct fdw_scan *s, List *columns)
{
	StringInfoData names;
	ListCell *cell;

	initStringInfo(&names);
	foreach(cell, columns) appendStringInfo(&names, "%s%s", names.len ? ", " : "",
						get_attname(s->table, (AttrNumber)lfirst_int(cell), false));
	return names.data;
}

/* Append the aggregates of a column, whose outputs begin with `first`. */
static void append_aggregates(StringInfo list, const struct fdw_scan *s, int first, int column)
{
	static const char *const names[FDW_AGGREGATES] = {FPISA_AGGREGATE_NAMES(FPISA_NAMED, )};
	const char *between = list->len ? "; " : "";

	for (int i = 0; i < FDW_AGGREGATES; i++)
		if (list_member_int(s->shape.outputs, first - i)) {
			appendStringInfo(list, "%s%s", between, names[i]);
			between = ", ";
		}
	if (column)
		appendStringInfo(list, " of %s%s", column < 0 ? "distinct " : "",
				 get_attname(s->table, (AttrNumber)abs(column), false));
}

static char *aggregate_list(const struct fdw_scan *s)
{
	StringInfoData list;
	ListCell *cell, *filter;
	int k = 0;

	initStringInfo(&list);
	if (s->shape.aggregated && list_member_int(s->shape.outputs, FDW_COUNT))
		appendStringInfoString(&list, "count");
	forboth(cell, s->shape.aggregated, filter, s->shape.filters)
	{
		append_aggregates(&list, s, fdw_output_of(FDW_COUNT, k++), lfirst_int(cell));
		if (*strVal(lfirst(filter)))
			appendStringInfo(&list, " where %s", strVal(lfirst(filter)));
	}
	if (!s->shape.aggregated)
		append_aggregates(&list, s, FDW_COUNT, s->shape.value);
	return list.data;
}

static const char *what(const struct fdw_scan *s)
{
	const struct fdw_shape *shape = &s->shape;
	const char *aggregates;

	switch (shape->kind) {
	case FDW_TOPN:
		return psprintf("first %llu rows by %s%s NULLS %s%s", (unsigned long long)shape->limit,
				get_attname(s->table, shape->value, false), shape->ascending ? "" : " DESC",
				shape->nulls_first ? "FIRST" : "LAST",
				shape->one_more ? ", or all rows if the last two are equal" : "");
	case FDW_TABLE:
		if (shape->distinct)
			return psprintf("distinct rows of %s", column_list(s, shape->by));
		aggregates = aggregate_list(s);
		return psprintf("%s%s%s%s", shape->by ? "groups by " : "all rows as one group",
				column_list(s, shape->by), *aggregates ? ": " : "", aggregates);
	case FDW_SCAN:
	case FDW_JOIN:
		break;
	}
	return "all rows";
}

static const char *asked(const struct fdw_scan *s)
{
	return *s->shape.where ? psprintf("%s, where %s", what(s), s->shape.where) : what(s);
}

static const char *joined(const struct fdw_scan *s)
{
	const struct fdw_shape *shape = &s->shape;
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "%s on ", get_rel_name(shape->joined));
	for (int i = 0; i < list_length(shape->on); i++)
		appendStringInfo(&text, "%s%s = %s", i ? ", " : "",
				 get_attname(s->table, (AttrNumber)list_nth_int(shape->on, i), false),
				 get_attname(shape->joined, (AttrNumber)list_nth_int(shape->there, i), false));
	if (*shape->joined_where)
		appendStringInfo(&text, ", where %s", shape->joined_where);
	return text.data;
}

/* Print which part of the joined table prunes the rows. */
static const char *by_filter(const struct fdw_scan *s, const struct fdw_choice *c)
{
	if (!OidIsValid(s->shape.joined))
		return "";
	if (!c->pairs)
		return psprintf(", without a filter of join keys: %s", c->why_not);
	return psprintf(
		", by its %s of join keys%s", strcmp(c->query.filter, "bloom") ? c->query.filter : "Bloom filter",
		c->pairs == list_length(s->shape.on) ? "" : psprintf(", the first %d of these columns", c->pairs));
}

static const char *who_prunes(const struct fdw_scan *s, const struct fdw_choice *c)
{
	if (c->pruning == FPISA_PRUNING_WORKERS)
		return c->why_not ? psprintf("workers: %s", c->why_not) : "workers";
	if (c->pruning == FPISA_PRUNING_NETWORK)
		return psprintf("network: query %u at %s%s", c->query.number, s->server->aggregator, by_filter(s, c));
	return c->why_not ? psprintf("none: %s", c->why_not) : "none";
}

static void explain_counts(const struct fdw_scan *s, ExplainState *es)
{
	struct fpisa_query_counts c = s->counts, now;

	if (s->query) {
		fpisa_query_counts(s->query, &now);
		c.received += now.received;
		ExplainPropertyText("Counts", "only of rows received: the scan ended before all rows had arrived", es);
	} else {
		ExplainPropertyInteger("Rows Sent", NULL, (int64)c.sent, es);
		ExplainPropertyInteger("Rows Pruned", NULL, (int64)c.pruned, es);
		ExplainPropertyInteger("Rows Absorbed", NULL, (int64)c.absorbed, es);
	}
	ExplainPropertyInteger("Rows Received", NULL, (int64)c.received, es);
	if (es->verbose && !s->query) {
		ExplainPropertyInteger("Rows At Workers", NULL, (int64)c.rows, es);
		ExplainPropertyInteger("Frames", NULL, (int64)c.frames, es);
		ExplainPropertyInteger("Frames Repeated", NULL, (int64)c.repeated, es);
	}
	if (s->choice.pairs && s->runs) {
		uint64 keys = s->keys;
		int filtered = s->filtered;

		if (s->query)
			keys = fpisa_query_keys(s->query, &filtered);
		ExplainPropertyInteger("Join Keys", NULL, (int64)keys, es);
		if (!filtered)
			ExplainPropertyText("Join Filter", "not used: rows arrived before it had all keys", es);
	}
	if (*s->plan)
		ExplainPropertyText("Plan At Workers", s->plan, es);
	if (s->spill.records)
		ExplainPropertyInteger("Groups Spilled", NULL, (int64)s->spill.records, es);
	if (c.restarts)
		ExplainPropertyInteger("Restarts", NULL, c.restarts, es);
}

void fdw_explain(ForeignScanState *node, ExplainState *es)
{
	struct fdw_scan *s = node->fdw_state;
	struct fdw_choice choice = s->choice;

	ExplainPropertyText("Remote Query", asked(s), es);
	if (OidIsValid(s->shape.joined))
		ExplainPropertyText("Joined With", joined(s), es);
	if (s->why_not)
		ExplainPropertyText("Not Pushed Down", s->why_not, es);
	if (s->shape.kind != FDW_SCAN) {
		if (!s->runs) {
			fdw_choose(s->server, &s->shape, &choice);
			fdw_free(&choice);
		}
		ExplainPropertyText("Pruned By", who_prunes(s, &choice), es);
		if (choice.adapts && s->shape.kind == FDW_TABLE && s->shape.by && !choice.pairs && !*s->plan)
			ExplainPropertyText("Plan At Workers", "each worker decides whether to add its rows by key", es);
	}
	if (es->analyze)
		explain_counts(s, es);
}
