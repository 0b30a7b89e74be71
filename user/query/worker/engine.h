/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The database DuckDB, which reads Parquet files for a worker and writes them for a master. The library is loaded
 * through ADBC when a worker starts, or when a query first needs it. The library's file is libduckdb.so, or the module
 * of the Python package duckdb, which exports the same functions. Drivers of other databases have the same functions.
 */
#ifndef FPISA_QUERY_ENGINE_H
#define FPISA_QUERY_ENGINE_H

#include "adbc.h"

struct engine {
	struct AdbcDriver driver;
	struct AdbcDatabase database;
	struct AdbcConnection connection;
};

/*
 * Load the library that FPISA_DRIVER names, or else libduckdb.so from the linker's path. Open an empty in-memory
 * database without threads and in the time zone UTC, or take the database of engine_prepare(). `table` is for messages.
 * Return 0, or -errno with the message set. The error is -ENOENT if the library does not exist.
 */
int engine_open(struct engine *e, const char *table);
void engine_close(struct engine *e); /* the engine may be all 0 */

/*
 * Load another ADBC driver and connect to the database at `uri`. Its statements have the functions below. Return 0, or
 * -errno with the message set. The error is -ENOENT if the library does not exist or is not a driver.
 */
int engine_connect(struct engine *e, const char *library, const char *uri, const char *table);

/*
 * Open a database for the next engine_open() of this process, and of each process that it forks. This saves a scan the
 * time for loading the library, for opening the database and for its first statements, about 35 ms. If that fails,
 * engine_open() tries again. It also tries again if the database has threads, because a forked process would lack them.
 */
void engine_prepare(void);

/*
 * Run a statement. *rows returns the result in batches and must be released by the caller. Only one result may be in
 * use at a time. Return 0, or -EINVAL with the message set.
 */
int engine_run(struct engine *e, const char *sql, struct ArrowArrayStream *rows, const char *table);

/*
 * Create the table `to` in memory from the rows of a stream, which the engine takes and releases. `table` is for
 * messages. Return 0, or -EINVAL with the message set.
 */
int engine_ingest(struct engine *e, const char *to, struct ArrowArrayStream *rows, const char *table);

/* Create a table as engine_ingest() does, from the rows of a statement of another database. */
int engine_copy(struct engine *from, const char *sql, struct engine *e, const char *to, const char *table);

/*
 * Take the next batch of a result, which the caller must release if batch->release is not NULL. Return 1, 0 after the last
 * batch, or -EINVAL with the message set.
 */
int engine_next(struct ArrowArrayStream *rows, struct ArrowArray *batch, const char *table);

/*
 * Run a statement without a result, or a statement whose result is the number *n. The return value is the same as for
 * engine_run().
 */
int engine_do(struct engine *e, const char *sql, uint64_t *n, const char *table);

/* Set the message to the engine's error on one line, without the kind of error. Return -EINVAL. */
int engine_said(const char *table, const char *message);

#endif
