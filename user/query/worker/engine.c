// SPDX-License-Identifier: GPL-2.0-only
/* Load DuckDB and other databases through ADBC. engine.h documents the functions. */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine.h"
#include "lib/base/error.h"

#define LIBRARY "libduckdb.so"
#define ENTRY "duckdb_adbc_init"
#define VERSION_TAG "cpython-3"
#define PYTHON_FIRST 9 /* 3.9 to 3.30 */
#define PYTHON_LAST 30
#define SAID 300

int engine_said(const char *table, const char *message)
{
	static const char *const kinds[] = {"Invalid Input Error: ", "Conversion Error: ", "IO Error: "};
	char line[SAID];
	size_t n;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strncmp(message, kinds[i], strlen(kinds[i])))
			message += strlen(kinds[i]);
	/* Use only the first line, because other lines refer to the statement, which the user has not written. */
	n = strcspn(message, "\n");
	snprintf(line, sizeof(line), "%.*s", (int)n, message);
	for (char *c = line; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = ' ';
	return fpisa_fail(-EINVAL, "%s: %s", table, line);
}

/* Report the error of the driver, and free the error. */
static int failed(struct AdbcError *error, const char *table)
{
	int err = engine_said(table, error->message ? error->message : "the driver failed");

	if (error->release)
		error->release(error);
	return err;
}

/* -- the library ------------------------------------------------------------------ */

static void *open_python(unsigned int minor)
{
	char name[32];

	snprintf(name, sizeof(name), "libpython3.%u.so.1.0", minor);
	return dlopen(name, RTLD_LAZY | RTLD_GLOBAL);
}

/* Return whether the file is a module of Python, which uses variables that only Python's library contains. */
static bool is_python_module(const char *name)
{
	return strstr(name, VERSION_TAG) || strstr(name, ".abi3.");
}

/*
 * Load the library of the Python version in the module's name, as in "cpython-311". A module of Python's stable ABI
 * names no version; load the newest library that is installed.
 */
static void *load_python(const char *module)
{
	const char *version = strstr(module, VERSION_TAG);
	void *python = NULL;

	if (version)
		return open_python((unsigned int)strtoul(version + strlen(VERSION_TAG), NULL, 10));
	for (unsigned int minor = PYTHON_LAST; !python && minor >= PYTHON_FIRST && is_python_module(module); minor--)
		python = open_python(minor);
	return python;
}

/* The library is never closed, because it may have its own threads and handlers. */
static int load(void **library, const char *table)
{
	const char *given = getenv("FPISA_DRIVER"), *name = given && *given ? given : LIBRARY, *why;
	void *python = NULL;

	*library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
	if (!*library && (python = load_python(name)))
		*library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
	if (*library)
		return 0;
	why = dlerror();
	if (is_python_module(name) && !python)
		return fpisa_fail(-ENOENT,
				  "%s: %s needs the library of its Python; run apt install libpython3-dev, or use "
				  "libduckdb.so",
				  table, name);
	return fpisa_fail(
		-ENOENT,
		"%s: cannot load DuckDB, which reads and writes Parquet: %.200s; run pip install duckdb, and name its "
		"library in FPISA_DRIVER, or in fpisa query worker --driver",
		table, why ? why : name);
}

/* -- the database ----------------------------------------------------------------- */

static struct engine prepared;

/* Connect through the driver, with these names and values of options of its database. Close the engine if that fails. */
static int connect_to(struct engine *e, AdbcDriverInitFunc init, const char *const (*option)[2], int n,
		      const char *table)
{
	struct AdbcError error = {0};
	int err;

	*e = (struct engine){0};
	err = init(ADBC_VERSION_1_0_0, &e->driver, &error) || e->driver.DatabaseNew(&e->database, &error);
	for (int i = 0; !err && i < n; i++)
		err = e->driver.DatabaseSetOption(&e->database, option[i][0], option[i][1], &error);
	if (!err && !e->driver.DatabaseInit(&e->database, &error) && !e->driver.ConnectionNew(&e->connection, &error) &&
	    !e->driver.ConnectionInit(&e->connection, &e->database, &error))
		return 0;
	err = failed(&error, table);
	engine_close(e);
	return err;
}

/* Run statements whose failure does not matter. */
static void try_all(struct engine *e, const char *const *sql, size_t n, const char *table)
{
	for (size_t i = 0; i < n; i++)
		(void)engine_do(e, sql[i], NULL, table);
}

static void set_up(struct engine *e, const char *table)
{
	static const char *const settings[] = {
		/* By default, the engine computes 10 MB of a result ahead, all of it in memory that was not used before. */
		"SET streaming_buffer_size = '128KB'",
		/*
		 * The text of an instant must not depend on the host's time zone, because texts are keys of groups. An
		 * engine without time zones does not know the setting, and writes UTC.
		 */
		"SET TimeZone = 'UTC'",
	};

	try_all(e, settings, sizeof(settings) / sizeof(settings[0]), table);
}

static int open_new(struct engine *e, const char *table)
{
	/* The threads for reads of files are not needed. DuckDB before version 2 does not know them. */
	static const char *const options[][2] = {{"threads", "1"}, {"async_threads", "0"}};
	AdbcDriverInitFunc init;
	void *library;
	int err = load(&library, table);

	if (err)
		return err;
	init = (AdbcDriverInitFunc)dlsym(library, ENTRY);
	if (!init)
		return fpisa_fail(-ENOENT,
				  "%s: the driver has no function " ENTRY "; give DuckDB's library to --driver", table);
	err = connect_to(e, init, options, 2, table);
	if (err)
		err = connect_to(e, init, options, 1, table);
	if (!err)
		set_up(e, table);
	return err;
}

static bool has_threads(void)
{
	struct stat tasks;

	return stat("/proc/self/task", &tasks) || tasks.st_nlink != 3; /* ., .. and one thread */
}

int engine_connect(struct engine *e, const char *library, const char *uri, const char *table)
{
	void *driver = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
	AdbcDriverInitFunc init = driver ? (AdbcDriverInitFunc)dlsym(driver, ADBC_ENTRY) : NULL;
	const char *why;

	if (!driver) {
		why = dlerror();
		return fpisa_fail(-ENOENT, "%s: cannot load the ADBC driver: %.200s; correct the file of --databases",
				  table, why ? why : library);
	}
	if (!init)
		return fpisa_fail(-ENOENT, "%s: %.200s has no function " ADBC_ENTRY ", so it is not an ADBC driver",
				  table, library);
	return connect_to(e, init, &(const char *const[2]){"uri", uri}, 1, table);
}

void engine_prepare(void)
{
	/* The engine builds its grammar and its tables of functions at the first statements that need them. */
	static const char *const like_scans[] = {
		"DESCRIBE SELECT 1 AS k",
		"SELECT count(*) FROM (SELECT CAST('1' AS FLOAT) AS v, 'k' AS k) WHERE v > 0 GROUP BY k",
		"SELECT k, sum(CASE WHEN CAST(v AS BIGINT) = v THEN CAST(v AS BIGINT) ELSE CAST(error('') AS BIGINT) END), "
		"min(x), max(x) FROM (SELECT *, CAST(x AS DOUBLE) * 2 AS v FROM (SELECT CAST('1' AS FLOAT) AS x, 'k' AS k)) "
		"GROUP BY k",
	};

	if (open_new(&prepared, ""))
		return;
	try_all(&prepared, like_scans, sizeof(like_scans) / sizeof(like_scans[0]), "");
	if (has_threads())
		engine_close(&prepared);
}

int engine_open(struct engine *e, const char *table)
{
	*e = prepared;
	prepared = (struct engine){0};
	return e->connection.private_data ? 0 : open_new(e, table);
}

void engine_close(struct engine *e)
{
	struct AdbcError error = {0};

	if (e->connection.private_data)
		e->driver.ConnectionRelease(&e->connection, &error);
	if (e->database.private_data)
		e->driver.DatabaseRelease(&e->database, &error);
	*e = (struct engine){0};
}

/* -- statements ------------------------------------------------------------------- */

/* Run a statement. The rows of some drivers need the statement, which the caller releases in all cases. */
static int run(struct engine *e, const char *sql, struct AdbcStatement *statement, struct ArrowArrayStream *rows,
	       const char *table)
{
	struct AdbcError error = {0};

	*rows = (struct ArrowArrayStream){0};
	*statement = (struct AdbcStatement){0};
	return e->driver.StatementNew(&e->connection, statement, &error) ||
			       e->driver.StatementSetSqlQuery(statement, sql, &error) ||
			       e->driver.StatementExecuteQuery(statement, rows, NULL, &error) ?
		       failed(&error, table) :
		       0;
}

static void release(struct engine *e, struct AdbcStatement *statement)
{
	struct AdbcError ignored = {0};

	if (statement->private_data)
		e->driver.StatementRelease(statement, &ignored);
}

int engine_run(struct engine *e, const char *sql, struct ArrowArrayStream *rows, const char *table)
{
	struct AdbcStatement statement;
	int err = run(e, sql, &statement, rows, table);

	release(e, &statement);
	return err;
}

/* A stream that passes on another stream, and notices its errors. DuckDB takes an error for the end of the rows. */
struct watched {
	struct ArrowArrayStream *rows;
	bool failed;
};

static int watched_schema(struct ArrowArrayStream *s, struct ArrowSchema *to)
{
	struct watched *w = s->private_data;
	int err = w->rows->get_schema(w->rows, to);

	w->failed |= err != 0;
	return err;
}

static int watched_next(struct ArrowArrayStream *s, struct ArrowArray *to)
{
	struct watched *w = s->private_data;
	int err = w->rows->get_next(w->rows, to);

	w->failed |= err != 0;
	return err;
}

static const char *watched_error(struct ArrowArrayStream *s)
{
	struct watched *w = s->private_data;

	return w->rows->get_last_error(w->rows);
}

static void watched_release(struct ArrowArrayStream *s)
{
	s->release = NULL;
}

int engine_ingest(struct engine *e, const char *to, struct ArrowArrayStream *rows, const char *table)
{
	struct watched w = {.rows = rows};
	struct ArrowArrayStream stream = {watched_schema, watched_next, watched_error, watched_release, &w};
	struct AdbcStatement statement = {0};
	struct AdbcError error = {0};
	const char *why;
	int err = 0;

	if (e->driver.StatementNew(&e->connection, &statement, &error) ||
	    e->driver.StatementSetOption(&statement, ADBC_INGEST_OPTION_TARGET_TABLE, to, &error) ||
	    e->driver.StatementBindStream(&statement, &stream, &error) ||
	    e->driver.StatementExecuteQuery(&statement, NULL, NULL, &error))
		err = failed(&error, table);
	release(e, &statement);
	if (w.failed) {
		why = rows->get_last_error(rows);
		err = engine_said(table, why ? why : "the driver failed");
	}
	if (rows->release)
		rows->release(rows);
	return err;
}

int engine_copy(struct engine *from, const char *sql, struct engine *e, const char *to, const char *table)
{
	struct AdbcStatement statement;
	struct ArrowArrayStream rows;
	int err = run(from, sql, &statement, &rows, table) ?: engine_ingest(e, to, &rows, table);

	release(from, &statement);
	return err;
}

int engine_next(struct ArrowArrayStream *rows, struct ArrowArray *batch, const char *table)
{
	*batch = (struct ArrowArray){0};
	if (rows->get_next(rows, batch))
		return engine_said(table, rows->get_last_error(rows));
	return batch->release != NULL;
}

int engine_do(struct engine *e, const char *sql, uint64_t *n, const char *table)
{
	struct ArrowArrayStream rows;
	struct ArrowArray batch;
	int err = engine_run(e, sql, &rows, table);

	if (err)
		return err;
	err = engine_next(&rows, &batch, table);
	if (n && err > 0 && batch.length == 1)
		*n = (uint64_t)((const int64_t *)batch.children[0]->buffers[1])[batch.children[0]->offset];
	if (batch.release)
		batch.release(&batch);
	rows.release(&rows);
	return err < 0 ? err : 0;
}
