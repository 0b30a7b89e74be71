/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Rows of a scan: a query of libfpisa, and its texts as datums. */
#define _GNU_SOURCE
#include "fdw.h"
#include <math.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "parser/parsetree.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#define TURN_MS 10	   /* in the library, before somebody may cancel */
#define WAIT_MS 1000
#define PORT_TRIES 20
#define PORT_PAUSE_US 50000L

/* -- a query of libfpisa -------------------------------------------------------- */

static int sqlstate(int error)
{
	switch (-error) {
	case EACCES:
		return ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION;
	case ECONNREFUSED:
	case ECONNRESET:
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case ENETUNREACH:
		return ERRCODE_CONNECTION_FAILURE;
	case ENOENT:
		return ERRCODE_FDW_TABLE_NOT_FOUND;
	case ENOMEM:
		return ERRCODE_OUT_OF_MEMORY;
	case EILSEQ:
		return ERRCODE_DATA_CORRUPTED;
	}
	return ERRCODE_FDW_ERROR;
}

static pg_attribute_noreturn() void fail(int error)
{
	ereport(ERROR, errcode(sqlstate(error)), errmsg("%s", fpisa_error()));
}

/* The key as a file that nobody else has: the library reads files. Its descriptor. */
static int key_as_file(const char *key)
{
	int fd = memfd_create("fpisa-key", MFD_CLOEXEC);

	if (fd < 0 || fchmod(fd, 0600) || write(fd, key, strlen(key)) != (ssize_t)strlen(key)) {
		if (fd >= 0)
			close(fd);
		ereport(ERROR, errcode_for_file_access(), errmsg("a file for the key: %m"));
	}
	return fd;
}

/* -EADDRINUSE comes back; other errors do not. */
static struct fpisa_query *open_query(const struct fpisa_query_options *wanted, const struct fdw_secrets *secrets, int *error)
{
	struct fpisa_query_options o = *wanted;
	struct fpisa_query *q = NULL;
	char name[32];
	int fd = -1;

	o.size = sizeof(o);
	o.key_file = secrets->key_file;
	o.token = secrets->token;
	if (!secrets->key && !secrets->key_file)
		ereport(ERROR, errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND), errmsg("the user mapping has no key"),
			errhint("ALTER USER MAPPING ... OPTIONS (ADD key '...')."));
	if (secrets->key) {
		fd = key_as_file(secrets->key);
		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		o.key_file = name;
	}
	*error = fpisa_query_open(&q, &o);
	if (fd >= 0)
		close(fd);
	if (*error && *error != -EADDRINUSE)
		fail(*error);
	return q;
}

struct fpisa_query *fdw_ask(const struct fpisa_query_options *options, const struct fdw_secrets *secrets)
{
	int error;
	struct fpisa_query *q = open_query(options, secrets, &error);

	if (!q)
		fail(error);
	return q;
}

/* As fpisa_query_work(), but that it ends with the statement. */
static int wait_for(struct fpisa_query *q)
{
	int state = fpisa_query_work(q, 0);

	while (!state) {
		CHECK_FOR_INTERRUPTS();
		state = fpisa_query_work(q, TURN_MS);
		if (state)
			break;
		if (WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_SOCKET_READABLE | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
				      fpisa_query_fd(q), WAIT_MS, PG_WAIT_EXTENSION) &
		    WL_LATCH_SET)
			ResetLatch(MyLatch);
	}
	return state;
}

int fdw_wait(struct fpisa_query *q)
{
	int state = wait_for(q);

	if (state < 0)
		fail(state);
	return state;
}

/* -- a scan's query ---------------------------------------------------------------- */

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

/* Whatever ends the scan, the memory that it is in goes. */
static void close_query(void *arg)
{
	struct fdw_scan *s = arg;
	struct fpisa_query_counts c;

	if (s->query) {
		fpisa_query_counts(s->query, &c);
		add_up(&s->counts, &c);
		fpisa_query_close(s->query);
		s->query = NULL;
	}
	if (s->descriptors)
		ReleaseExternalFD();
	s->descriptors = false;
}

static void finish(struct fdw_scan *s)
{
	close_query(s);
	fdw_free(&s->choice);
}

static char *name_list(Oid table, List *columns)
{
	StringInfoData names;
	ListCell *cell;

	initStringInfo(&names);
	foreach (cell, columns)
		appendStringInfo(&names, "%s%s", names.len ? "," : "", fdw_column_of(table, (AttrNumber)lfirst_int(cell)));
	return names.data;
}

static struct fpisa_query_options options_of(const struct fdw_scan *s)
{
	const struct fdw_shape *shape = &s->shape;
	struct fpisa_query_options o = {
		.workers = s->server->workers,
		.table = fdw_table_of(s->table),
		.timeout_ms = s->server->timeout_ms,
		.pruning = (uint8_t)s->choice.pruning,
		.limit = shape->limit,
		.where = *shape->where ? shape->where : NULL,
		.ascending = shape->ascending,
		.nulls_first = shape->nulls_first,
		.loss = fdw_loss,
		.seed = (uint64_t)MyProcPid,
	};

	if (shape->value)
		o.value = fdw_column_of(s->table, shape->value);
	if (shape->kind == FDW_TABLE) {
		o.by = name_list(s->table, shape->by);
		o.preaggregate = fdw_preaggregate;
	} else {
		o.columns = name_list(s->table, shape->outputs);
	}
	if (s->choice.pruning == FPISA_PRUNING_NETWORK) {
		o.aggregator = s->server->aggregator;
		o.query = s->choice.query.number;
		o.local_port = s->choice.query.local_port;
		o.worker_port = s->choice.query.worker_port;
	}
	return o;
}

/* Until there is an answer, or rows of a scan. -EADDRINUSE comes back: a port is taken, here or at a worker. */
static int try(struct fdw_scan *s)
{
	struct fpisa_query_options o = options_of(s);
	int error = 0;

	s->query = open_query(&o, &s->secrets, &error);
	if (!error && s->shape.kind != FDW_SCAN) {
		error = wait_for(s->query);
		error = error > 0 ? 0 : error;
	}
	if (error && error != -EADDRINUSE)
		fail(error);
	if (error && s->query) {
		fpisa_query_close(s->query);
		s->query = NULL;
	}
	return error;
}

/* A worker may be about to leave the port of the query before. */
static int try_for_a_while(struct fdw_scan *s)
{
	int error = try(s);

	for (int i = 0; i < PORT_TRIES && error; i++) {
		pg_usleep(PORT_PAUSE_US);
		CHECK_FOR_INTERRUPTS();
		error = try(s);
	}
	return error;
}

static void start(struct fdw_scan *s)
{
	int error;

	if (!AcquireExternalFD())
		ereport(ERROR, errcode(ERRCODE_INSUFFICIENT_RESOURCES), errmsg("no file descriptors left for a query of workers"));
	s->descriptors = true;
	s->choice.not = 0;
	do {
		fdw_choose(s->server, &s->shape, &s->choice);
		error = try_for_a_while(s);
		if (!error)
			break;
		if (s->choice.pruning != FPISA_PRUNING_NETWORK)
			fail(error);
		/* Somebody has its port who is no session of this cluster. */
		s->choice.not |= UINT64CONST(1) << s->choice.query.number;
		s->choice.why_not = psprintf("not free: %s", fpisa_error());
		fdw_free(&s->choice);
	} while (true);
	s->runs++;
}

/* -- columns --------------------------------------------------------------------------- */

static Oid type_at_workers(const struct fpisa_query_column *c)
{
	static const Oid types[] = {
		[FPISA_COLUMN_REAL] = FLOAT4OID, [FPISA_COLUMN_DOUBLE] = FLOAT8OID, [FPISA_COLUMN_INT32] = INT4OID,
		[FPISA_COLUMN_INT64] = INT8OID,	 [FPISA_COLUMN_TEXT] = TEXTOID,	    [FPISA_COLUMN_DATE] = DATEOID,
	};

	return c->type < lengthof(types) ? types[c->type] : InvalidOid;
}

/* Workers compare keys by their types, so these have to be those of the table here. */
static void check_keys(const struct fdw_scan *s)
{
	const struct fpisa_query_column *c;
	uint32 n = fpisa_query_columns(s->query, &c);
	ListCell *cell;
	uint32 i = 0;

	foreach (cell, s->shape.by) {
		Oid here = get_atttype(s->table, (AttrNumber)lfirst_int(cell));

		if (i >= n || type_at_workers(&c[i]) != here)
			ereport(ERROR, errcode(ERRCODE_FDW_INVALID_DATA_TYPE),
				errmsg("column \"%s\" is of type %s, and of type %s at the workers",
				       get_attname(s->table, (AttrNumber)lfirst_int(cell), false), format_type_be(here),
				       i < n ? format_type_be(type_at_workers(&c[i])) : "?"),
				errhint("ALTER FOREIGN TABLE ... ALTER COLUMN ... TYPE, or IMPORT FOREIGN SCHEMA."));
		i++;
	}
}

/* The answer's columns, and where each stands in the slot. */
static void prepare_columns(ForeignScanState *node, struct fdw_scan *s)
{
	TupleDesc d = node->ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	ListCell *cell;
	int i = 0, keys = list_length(s->shape.by);

	s->n_attributes = d->natts;
	s->n_columns = list_length(s->shape.outputs);
	s->place = palloc0(sizeof(*s->place) * (s->n_columns + 1));
	s->input = palloc0(sizeof(*s->input) * (d->natts + 1));
	s->io_param = palloc0(sizeof(*s->io_param) * (d->natts + 1));
	foreach (cell, s->shape.outputs) {
		int output = lfirst_int(cell);

		/* Of rows the columns come as they were asked for; of groups keys, then count, sum, min, max, avg. */
		s->place[i++] = (AttrNumber)(s->shape.kind != FDW_TABLE ? output - 1 : output >= 0 ? output : keys - 1 - output);
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

/* A decimal number as workers take it, which may be nearer to 0 than any but 0. */
static bool parse_real(const char *text, float *x)
{
	char *end;

	*x = strtof(text, &end);
	return *text && !*end && !strpbrk(text, " \t\n\v\f\rxXpP(") && !(isinf(*x) && !strchr("iI", text[*text == '-' || *text == '+']));
}

static bool parse_double(const char *text, double *x)
{
	char *end;

	*x = strtod(text, &end);
	return *text && !*end && !strpbrk(text, " \t\n\v\f\rxXpP(") && !(isinf(*x) && !strchr("iI", text[*text == '-' || *text == '+']));
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
	case INT4OID:
	case INT8OID:
	case DATEOID:
		break;
	default:
		text = pg_any_to_server(text, (int)strlen(text), PG_UTF8);
	}
	return InputFunctionCall(&s->input[i], (char *)text, s->io_param[i], a->atttypmod);
}

/* -- rows --------------------------------------------------------------------------------- */

/* A sum beyond the range is an error, as it is of fpisa_sum(). */
static void check_sum(const struct fdw_scan *s, const char *const *row)
{
	const char *const *aggregates = row + list_length(s->shape.by);
	float sum, least, most;

	if (!s->shape.value || !aggregates[1] || !list_member_int(s->shape.outputs, FDW_SUM))
		return;
	if (parse_real(aggregates[1], &sum) && isinf(sum) && parse_real(aggregates[2], &least) && parse_real(aggregates[3], &most) &&
	    isfinite(least) && isfinite(most))
		float_overflow_error();
}

static void store_rows(const struct fdw_scan *s, const char *const *row, TupleTableSlot *slot)
{
	TupleDesc d = slot->tts_tupleDescriptor;
	bool groups = s->shape.kind == FDW_TABLE;
	int n = list_length(s->shape.outputs);

	memset(slot->tts_isnull, true, sizeof(bool) * d->natts);
	if (groups)
		check_sum(s, row);
	for (int i = 0; i < n; i++) {
		const char *text = row[groups ? s->place[i] : i];
		int to = groups ? i : s->place[i];

		if (!text)
			continue;
		slot->tts_values[to] = value_of(s, text, TupleDescAttr(d, to), to);
		slot->tts_isnull[to] = false;
	}
	ExecStoreVirtualTuple(slot);
}

/* The answer is there, and all of it: what was taken for granted holds? */
static void check_answer(const struct fdw_scan *s)
{
	struct fpisa_query_counts c;

	check_keys(s);
	if (!s->shape.no_nulls)
		return;
	fpisa_query_counts(s->query, &c);
	if (c.nulls)
		ereport(ERROR, errcode(ERRCODE_NOT_NULL_VIOLATION),
			errmsg("column \"%s\" is NOT NULL, and has %llu NULLs at the workers", get_attname(s->table, s->shape.value, false),
			       (unsigned long long)c.nulls),
			errhint("ALTER FOREIGN TABLE ... ALTER COLUMN ... DROP NOT NULL."));
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
		MemoryContext row_memory = MemoryContextSwitchTo(GetMemoryChunkContext(s));

		start(s);
		MemoryContextSwitchTo(row_memory);
		if (s->shape.kind == FDW_TABLE)
			check_answer(s);
	}
	while (!(rc = fpisa_query_next(s->query, &row))) {
		state = fdw_wait(s->query);
		if (state == 2 && !(rc = fpisa_query_next(s->query, &row))) {
			s->over = true;
			finish(s);
			return slot;
		}
		if (rc)
			break;
	}
	if (rc < 0)
		fail(rc);
	store_rows(s, row, slot);
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
	prepare_columns(node, s);
	s->at_end = (MemoryContextCallback){.func = close_query, .arg = s};
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
