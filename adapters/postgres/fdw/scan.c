/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Execute a scan: choose a libfpisa query, and run it from the first row to the end. */
#include "fdw.h"
#include "executor/executor.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "parser/parsetree.h"
#include "storage/fd.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#define PORT_TRIES 20
#define PORT_PAUSE_US 50000L

/* -- the query of a scan ------------------------------------------------------ */

static void add_up(struct fpisa_query_counts *to, const struct fpisa_query_counts *c)
{
	to->rows += c->rows;
	to->sent += c->sent;
	to->pruned += c->pruned;
	to->absorbed += c->absorbed;
	to->received += c->received;
	to->frames += c->frames;
	to->repeated += c->repeated;
	to->restarts += c->restarts;
	to->certified += c->certified;
}

/* Close the query when its memory context is deleted, even after an error. */
static void close_query(void *arg)
{
	struct fdw_scan *s = arg;
	struct fpisa_query_counts c;
	int filtered;

	if (s->query) {
		fpisa_query_counts(s->query, &c);
		add_up(&s->counts, &c);
		s->keys = fpisa_query_keys(s->query, &filtered);
		s->filtered = filtered;
		strlcpy(s->plan, fpisa_query_plan(s->query) ?: "", sizeof(s->plan));
		fpisa_query_close(s->query);
		s->query = NULL;
	}
	for (; s->descriptors; s->descriptors--)
		ReleaseExternalFD();
}

/* Forget the scan when the statement ends, even after an error. */
static void forget_scan(void *arg)
{
	struct fdw_scan *s = arg;

	close_query(s);
	dlist_delete(&s->scans);
}

static void finish(struct fdw_scan *s)
{
	close_query(s);
	fdw_spill_forget(s);
	fdw_free(&s->choice);
}

static char *name_list(Oid table, List *columns)
{
	StringInfoData names;
	ListCell *cell;

	initStringInfo(&names);
	foreach(cell, columns) appendStringInfo(&names, "%s%s", names.len ? "," : "",
						fdw_column_of(table, (AttrNumber)lfirst_int(cell)));
	return names.data;
}

/* Return the conditions in UTF-8, as workers expect, or NULL if there are no conditions. */
static const char *conditions(const char *where)
{
	return *where ? pg_server_to_any(where, (int)strlen(where), PG_UTF8) : NULL;
}

/*
 * Return the name and type of a column that workers compare. A worker whose column has another type refuses the
 * request.
 */
static char *typed(Oid table, AttrNumber column)
{
	return psprintf("%s %s", fdw_column_of(table, column), fdw_worker_type(get_atttype(table, column)));
}

/* Return an entry of the list of values, without conditions. */
static char *value_text(Oid table, int column)
{
	return column > 0 ? fdw_column_of(table, (AttrNumber)column) :
	       column	  ? psprintf("count(distinct %s)", typed(table, (AttrNumber)-column)) :
			    "*";
}

/* Return the list of the aggregated columns with their conditions, in UTF-8. */
static const char *value_list(const struct fdw_scan *s)
{
	StringInfoData values;
	ListCell *column, *filter;

	initStringInfo(&values);
	forboth(column, s->shape.aggregated, filter, s->shape.filters)
	{
		appendStringInfo(&values, "%s%s", values.len ? "," : "", value_text(s->table, lfirst_int(column)));
		if (*strVal(lfirst(filter)))
			appendStringInfo(&values, " filter (%s)", strVal(lfirst(filter)));
	}
	return conditions(values.data);
}

/* Return the first columns of the join that fit the filter, such as "a int32=b int32,c date=d date". */
static char *pair_list(const struct fdw_scan *s)
{
	StringInfoData pairs;

	initStringInfo(&pairs);
	for (int i = 0; i < s->choice.pairs; i++)
		appendStringInfo(&pairs, "%s%s=%s", i ? "," : "",
				 typed(s->table, (AttrNumber)list_nth_int(s->shape.on, i)),
				 typed(s->shape.joined, (AttrNumber)list_nth_int(s->shape.there, i)));
	return pairs.data;
}

/* Return the bits of enum fpisa_aggregate for the outputs. There is at least one, because 0 means all aggregates. */
static uint32 aggregates_of(const struct fdw_shape *shape)
{
	uint32 aggregates = 0;
	ListCell *cell;

	foreach(cell, shape->outputs)
	{
		int i = FDW_COUNT - lfirst_int(cell);

		if (shape->aggregated && i > 0)
			i = (i - 1) % FDW_AGGREGATES;
		if (i > 0)
			aggregates |= 1u << (i - 1);
	}
	return aggregates ? aggregates : FPISA_AGGREGATE_MIN;
}

static struct fpisa_query_options options_of(struct fdw_scan *s)
{
	const struct fdw_shape *shape = &s->shape;
	struct fpisa_query_options o = {
		.workers = s->server->workers,
		.table = fdw_table_of(s->table),
		.timeout_ms = s->server->timeout_ms,
		.pruning = (uint8_t)s->choice.pruning,
		.limit = shape->limit,
		.where = conditions(shape->where),
		.ascending = shape->ascending,
		.nulls_first = shape->nulls_first,
		.memory = shape->kind == FDW_TOPN ? get_hash_memory_limit() : fdw_spill_groups_most(),
		.loss = fdw_loss,
		.seed = (uint64_t)MyProcPid,
	};

	if (shape->value)
		o.value = fdw_column_of(s->table, shape->value);
	if (shape->kind == FDW_TABLE) {
		o.total = !shape->by;
		o.by = o.total ? NULL : name_list(s->table, shape->by);
		o.preaggregate = fdw_preaggregate;
		if (s->choice.adapts && shape->by && !s->choice.pairs)
			o.pruning = FPISA_PRUNING_AUTO;
		o.spill = &fdw_spill;
		o.spill_arg = s;
		o.aggregates = aggregates_of(shape);
		o.double_sums = shape->double_sums;
		if (shape->aggregated)
			o.values = value_list(s);
	} else {
		o.columns = name_list(s->table, shape->outputs);
	}
	if (s->choice.pairs) {
		o.join = fdw_table_of(shape->joined);
		o.on = pair_list(s);
		o.join_where = conditions(shape->joined_where);
	}
	if (s->choice.pruning == FPISA_PRUNING_NETWORK) {
		o.aggregator = s->server->aggregator;
		o.query = s->choice.query.number;
		o.local_port = s->choice.query.local_port;
		o.worker_port = s->choice.query.worker_port;
	}
	return o;
}

/*
 * Reserve file descriptors. The query needs a connection to each worker, a UDP socket for the rows of each worker, and
 * at most three more.
 */
static void count_descriptors(struct fdw_scan *s)
{
	int workers = fdw_workers(s->server);

	for (; s->descriptors < 2 * workers + 3; s->descriptors++)
		if (!AcquireExternalFD())
			ereport(ERROR, errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				errmsg("too few file descriptors are left for a query with %d workers, which needs up "
				       "to %d",
				       workers, 2 * workers + 3),
				errhint("Close cursors, or raise max_files_per_process. Foreign scans may use a third "
					"of these descriptors."));
}

/*
 * Return whether the statement can continue after -E2BIG. A query without the filter of a join needs no memory for
 * places of rows, and a plain scan needs no memory for the first rows.
 */
static bool is_without_room(const struct fdw_scan *s, int error)
{
	return error == -E2BIG &&
	       (s->shape.kind == FDW_TOPN || (s->shape.kind == FDW_JOIN && s->choice.pruning == FPISA_PRUNING_NETWORK));
}

/*
 * Replace the query for the first rows by a scan of all rows, which the server sorts anyway. The reason is that the
 * rows need too much memory, or that the value alone does not decide which rows are first.
 */
static void leave_first_rows(struct fdw_scan *s, bool tied)
{
	MemoryContext before = MemoryContextSwitchTo(s->statement->es_query_cxt);

	s->why_not = tied ? psprintf("rows %llu and %llu have the same first column of ORDER BY",
				     (unsigned long long)s->shape.limit - 1, (unsigned long long)s->shape.limit) :
			    psprintf("the first %llu rows take more than work_mem * hash_mem_multiplier, %zu kB",
				     (unsigned long long)s->shape.limit, get_hash_memory_limit() / 1024);
	MemoryContextSwitchTo(before);
	s->shape = (struct fdw_shape){.kind = FDW_SCAN, .where = s->shape.where, .outputs = s->shape.outputs};
}

/*
 * Open the query. Wait for its answer, unless the query is a scan. Return
 * -EADDRINUSE if a port is in use, or an error for which is_without_room() is true.
 */
static int try(struct fdw_scan *s)
{
	struct fpisa_query_options o = options_of(s);
	int error = 0;

	s->query = fdw_open_query(&o, &s->secrets, &error);
	if (!error && s->shape.kind != FDW_SCAN) {
		error = fdw_wait_for(s->query);
		error = error > 0 ? 0 : error;
	}
	if (error && error != -EADDRINUSE && !is_without_room(s, error))
		fdw_fail(error);
	if (error && s->query) {
		fpisa_query_close(s->query);
		s->query = NULL;
		fdw_spill_forget(s);
	}
	return error;
}

/* Try several times, because a worker may need a moment to release the port of the previous query. */
static int try_for_a_while(struct fdw_scan *s)
{
	int error = try(s);

	for (int i = 0; i < PORT_TRIES && error == -EADDRINUSE; i++) {
		pg_usleep(PORT_PAUSE_US);
		CHECK_FOR_INTERRUPTS();
		error = try(s);
	}
	return error;
}

/*
 * If the scan reads all rows of the table, and the session does not allow this, fail, or say why workers cannot do more
 * of the work.
 */
static void check_whole_table(const struct fdw_scan *s)
{
	const char *name = get_rel_name(s->table);

	if (s->shape.kind != FDW_SCAN || *s->shape.where || fdw_whole_table == FDW_WHOLE_ALLOW)
		return;
	if (fdw_whole_table == FDW_WHOLE_REFUSE)
		ereport(ERROR, errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			errmsg("the statement reads all rows of foreign table \"%s\"", name),
			s->why_not ? errdetail("Workers cannot do more of the work: %s.", s->why_not) : 0,
			errhint("Add a condition that workers evaluate, or set fpisa.whole_table to notice or allow."));
	if (s->why_not && fdw_pushdown && !s->runs)
		ereport(NOTICE, errmsg("the statement reads all rows of foreign table \"%s\": %s", name, s->why_not));
}

static void start(struct fdw_scan *s)
{
	bool tied;
	int error;

	count_descriptors(s);
	s->compared = false;
	s->choice.not = 0;
	s->choice.why_not = NULL;
	do {
		check_whole_table(s);
		fdw_choose(s->server, &s->shape, &s->choice);
		error = try_for_a_while(s);
		tied = !error && s->shape.one_more && fpisa_query_tied(s->query) > 0;
		if (!error && !tied)
			break;
		if (tied) {
			fpisa_query_close(s->query);
			s->query = NULL;
			leave_first_rows(s, true);
		} else if (is_without_room(s, error) && s->shape.kind == FDW_TOPN) {
			leave_first_rows(s, false);
		} else if (s->choice.pruning != FPISA_PRUNING_NETWORK) {
			fdw_fail(error);
		} else if (is_without_room(s, error)) {
			s->choice.not = PG_UINT64_MAX;
			s->choice.why_not = psprintf("too large for hash_mem: %s", fpisa_query_error());
		} else {
			/* A process outside this cluster uses the query's port. */
			s->choice.not |= UINT64CONST(1) << s->choice.query.number;
			s->choice.why_not = psprintf("not free: %s", fpisa_query_error());
		}
		fdw_free(&s->choice);
	} while (true);
	s->runs++;
}

/* -- rows -------------------------------------------------------------------------------- */

/* Check the assumptions about the answer after the whole answer has arrived. */
static void check_answer(const struct fdw_scan *s)
{
	struct fpisa_query_counts c;

	fdw_check_types(s);
	if (!s->shape.no_nulls)
		return;
	fpisa_query_counts(s->query, &c);
	if (c.nulls)
		ereport(ERROR, errcode(ERRCODE_NOT_NULL_VIOLATION),
			errmsg("column \"%s\" is declared NOT NULL, but has NULLs at the workers: %llu",
			       get_attname(s->table, s->shape.value, false), (unsigned long long)c.nulls),
			errhint("Use ALTER FOREIGN TABLE ... ALTER COLUMN ... DROP NOT NULL."));
}

static dlist_head scans = DLIST_STATIC_INIT(scans);

/*
 * Check that two scans of a statement read the same files of a table. The query drops rows by the content of the other
 * table, which the statement also scans. So both must read the same version of the other table.
 */
static void compare(const struct fdw_scan *s, const struct fdw_scan *other)
{
	if (!s->choice.pairs || s->shape.joined != other->table || !s->joined_files || !other->files ||
	    s->joined_files == other->files)
		return;
	ereport(ERROR, errcode(ERRCODE_FDW_ERROR),
		errmsg("table \"%s\" was written or replaced at a worker while the statement read it; ask again",
		       get_rel_name(other->table)));
}

static void compare_files(struct fdw_scan *s)
{
	dlist_iter i;

	s->files = fpisa_query_files(s->query, 0);
	s->joined_files = fpisa_query_files(s->query, 1);
	s->compared = true;
	dlist_foreach(i, &scans)
	{
		const struct fdw_scan *other = dlist_container(struct fdw_scan, scans, i.cur);

		if (other->statement != s->statement)
			continue;
		compare(s, other);
		compare(other, s);
	}
}

TupleTableSlot *fdw_iterate(ForeignScanState *node)
{
	struct fdw_scan *s = node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	const char *const *row;
	int rc, state;

	ExecClearTuple(slot);
	if (s->over)
		return slot;
	if (!s->query) {
		MemoryContext row_memory = MemoryContextSwitchTo(s->memory);

		MemoryContextReset(s->memory);
		start(s);
		MemoryContextSwitchTo(row_memory);
		if (s->shape.kind == FDW_TABLE || s->shape.kind == FDW_TOPN)
			check_answer(s);
	}
	while (!(rc = fpisa_query_next(s->query, &row))) {
		state = fdw_wait(s->query);
		if (state == 2 && !(rc = fpisa_query_next(s->query, &row))) {
			if (!s->compared)
				compare_files(s);
			s->over = true;
			finish(s);
			return slot;
		}
		if (rc)
			break;
	}
	if (rc < 0)
		fdw_fail(rc);
	if (!s->compared)
		compare_files(s);
	fdw_store_row(s, row, slot);
	return slot;
}

/* -- the executor's calls ------------------------------------------------------------------ */

void fdw_begin(ForeignScanState *node, int flags)
{
	ForeignScan *plan = (ForeignScan *)node->ss.ps.plan;
	EState *estate = node->ss.ps.state;
	struct fdw_scan *s = palloc0(sizeof(*s));
	Index relid = plan->scan.scanrelid ? plan->scan.scanrelid : (Index)bms_next_member(plan->fs_relids, -1);
	RangeTblEntry *entry = exec_rt_fetch(relid, estate);
#if PG_VERSION_NUM >= 160000
	Oid user = OidIsValid(plan->checkAsUser) ? plan->checkAsUser : GetUserId();
#else
	Oid user = OidIsValid(entry->checkAsUser) ? entry->checkAsUser : GetUserId();
#endif

	node->fdw_state = s;
	fdw_shape_read(plan->fdw_private, &s->shape, &s->why_not);
	s->table = entry->relid;
	s->server = fdw_server_of(plan->fs_server);
	if (flags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	s->secrets = fdw_secrets_of(user, plan->fs_server);
	fdw_prepare_columns(node, s);
	s->memory = AllocSetContextCreate(estate->es_query_cxt, "fpisa query", ALLOCSET_SMALL_SIZES);
	s->statement = estate;
	dlist_push_tail(&scans, &s->scans);
	s->at_end = (MemoryContextCallback){.func = forget_scan, .arg = s};
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &s->at_end);
}

void fdw_rescan(ForeignScanState *node)
{
	struct fdw_scan *s = node->fdw_state;

	finish(s);
	s->over = false;
}

void fdw_end(ForeignScanState *node)
{
	if (node->fdw_state)
		finish(node->fdw_state);
}
