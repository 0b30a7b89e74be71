/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An ADBC driver in place of DuckDB, to test how a worker handles a driver that is slow, hangs or dies. Its Parquet
 * file has columns k INTEGER and v FLOAT, and ROWS rows: (1, 1), (2, 1), ... Each row comes in its own batch, PAUSE_MS
 * after the previous batch. After the last row, END chooses the action: "hang", "kill" (this process) or "fail".
 * Otherwise the rows end normally. FORMAT is the Arrow format of k, by default "i". The driver appends each statement
 * to the file STATEMENTS, and the name of each option of a database. It knows the option threads. With THREAD=1, each
 * connection has a thread.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "query/worker/adbc.h"

AdbcStatusCode duckdb_adbc_init(int version, void *to, struct AdbcError *error);

enum kind { NOTHING, TYPES, COUNT, ROWS };

struct result {
	enum kind kind;
	int next;
};

static char asked[65536];

static int number(const char *name)
{
	return getenv(name) ? atoi(getenv(name)) : 0;
}

/* -- Arrow ---------------------------------------------------------------------- */

static void free_array(struct ArrowArray *a)
{
	for (int64_t i = 0; i < a->n_children; i++) {
		free((void *)a->children[i]->buffers[1]);
		free((void *)a->children[i]->buffers[2]);
		free(a->children[i]->buffers);
		free(a->children[i]);
	}
	free(a->children);
	a->release = NULL;
}

static struct ArrowArray *column(int64_t rows, const void *values, size_t n, const char *texts)
{
	struct ArrowArray *a = calloc(1, sizeof(*a));

	*a = (struct ArrowArray){.length = rows, .n_buffers = texts ? 3 : 2, .buffers = calloc(3, sizeof(void *))};
	a->buffers[1] = memcpy(malloc(n), values, n);
	a->buffers[2] = texts ? strdup(texts) : NULL;
	return a;
}

static void batch(struct ArrowArray *out, int64_t rows, int n, struct ArrowArray *a, struct ArrowArray *b)
{
	*out = (struct ArrowArray){.length = rows, .n_children = n, .release = free_array};
	out->children = calloc(2, sizeof(*out->children));
	out->children[0] = a;
	out->children[1] = b;
}

static int next(struct ArrowArrayStream *s, struct ArrowArray *out)
{
	static const int32_t names[] = {0, 1, 2}, types[] = {0, 7, 12};
	struct result *r = s->private_data;
	const int64_t count = number("ROWS");
	const int32_t k = ++r->next;
	const char *end = getenv("END");
	const float one = 1;

	out->release = NULL;
	if (r->kind == TYPES && k == 1)
		batch(out, 2, 2, column(2, names, sizeof(names), "kv"), column(2, types, sizeof(types), "INTEGERFLOAT"));
	if (r->kind == COUNT && k == 1)
		batch(out, 1, 1, column(1, &count, sizeof(count), NULL), NULL);
	if (r->kind != ROWS)
		return 0;
	usleep((useconds_t)number("PAUSE_MS") * 1000);
	if (k <= count) {
		batch(out, 1, 2, column(1, &k, sizeof(k), NULL), column(1, &one, sizeof(one), NULL));
		return 0;
	}
	while (end && !strcmp(end, "hang"))
		pause();
	if (end && !strcmp(end, "kill"))
		raise(SIGKILL);
	return end && !strcmp(end, "fail");
}

static void free_schema(struct ArrowSchema *s)
{
	s->release = NULL;
}

static int schema(struct ArrowArrayStream *s, struct ArrowSchema *out)
{
	static struct ArrowSchema columns[2], *children[] = {&columns[0], &columns[1]};

	(void)s;
	columns[0] = (struct ArrowSchema){.format = getenv("FORMAT") ? getenv("FORMAT") : "i", .name = "k"};
	columns[1] = (struct ArrowSchema){.format = "f", .name = "v"};
	*out = (struct ArrowSchema){.format = "+s", .n_children = 2, .children = children, .release = free_schema};
	return 0;
}

static const char *last_error(struct ArrowArrayStream *s)
{
	(void)s;
	return "Invalid Input Error: the driver fails\nin this line\x01";
}

static void free_stream(struct ArrowArrayStream *s)
{
	free(s->private_data);
	s->release = NULL;
}

/* -- ADBC ----------------------------------------------------------------------- */

static void note(const char *text)
{
	FILE *f = getenv("STATEMENTS") ? fopen(getenv("STATEMENTS"), "a") : NULL;

	if (f) {
		fprintf(f, "%s\n", text);
		fclose(f);
	}
}

static AdbcStatusCode new_database(struct AdbcDatabase *d, struct AdbcError *e)
{
	(void)e;
	d->private_data = d;
	return 0;
}

static AdbcStatusCode set_option(struct AdbcDatabase *d, const char *key, const char *value, struct AdbcError *e)
{
	(void)d;
	(void)value;
	(void)e;
	note(key);
	return !strcmp(key, "async_threads");
}

static AdbcStatusCode end_database(struct AdbcDatabase *d, struct AdbcError *e)
{
	(void)d;
	(void)e;
	return 0;
}

static AdbcStatusCode new_connection(struct AdbcConnection *c, struct AdbcError *e)
{
	(void)e;
	c->private_data = c;
	return 0;
}

static void *idle(void *arg)
{
	pause();
	return arg;
}

static AdbcStatusCode init_connection(struct AdbcConnection *c, struct AdbcDatabase *d, struct AdbcError *e)
{
	pthread_t thread;

	(void)c;
	(void)d;
	(void)e;
	return number("THREAD") && pthread_create(&thread, NULL, idle, NULL);
}

static AdbcStatusCode new_statement(struct AdbcConnection *c, struct AdbcStatement *s, struct AdbcError *e)
{
	(void)c;
	(void)e;
	s->private_data = s;
	return 0;
}

static AdbcStatusCode end_statement(struct AdbcStatement *s, struct AdbcError *e)
{
	(void)e;
	s->private_data = NULL;
	return 0;
}

static AdbcStatusCode set_query(struct AdbcStatement *s, const char *sql, struct AdbcError *e)
{
	(void)s;
	(void)e;
	snprintf(asked, sizeof(asked), "%s", sql);
	note(sql);
	return 0;
}

static AdbcStatusCode execute(struct AdbcStatement *s, struct ArrowArrayStream *out, int64_t *n, struct AdbcError *e)
{
	struct result *r = calloc(1, sizeof(*r));

	(void)s;
	(void)n;
	(void)e;
	r->kind = !strncmp(asked, "DESCRIBE", 8)      ? TYPES :
		  strstr(asked, "count(*)")	      ? COUNT :
		  strstr(asked, "FROM read_parquet(") ? ROWS :
							NOTHING;
	*out = (struct ArrowArrayStream){schema, next, last_error, free_stream, r};
	return 0;
}

AdbcStatusCode duckdb_adbc_init(int version, void *to, struct AdbcError *error)
{
	struct AdbcDriver *d = to;

	(void)version;
	(void)error;
	d->DatabaseNew = new_database;
	d->DatabaseInit = d->DatabaseRelease = end_database;
	d->DatabaseSetOption = set_option;
	d->ConnectionNew = d->ConnectionRelease = new_connection;
	d->ConnectionInit = init_connection;
	d->StatementNew = new_statement;
	d->StatementRelease = end_statement;
	d->StatementSetSqlQuery = set_query;
	d->StatementExecuteQuery = execute;
	return 0;
}
