/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * DuckDB, which reads Parquet for a worker. It is a library that is loaded by ADBC when a query first needs it. The
 * file is libduckdb.so, or the module of the Python package duckdb, which exports the same functions.
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
 * Load the library that FPISA_DRIVER names, else libduckdb.so of the linker's path, and open an empty database of one
 * thread in memory. `table` is for messages. Return 0, or -errno with the message set: -ENOENT if there is no such
 * library.
 */
int engine_open(struct engine *e, const char *table);
void engine_close(struct engine *e); /* the engine may be all 0 */

/*
 * Run a statement. *rows gives the result batch by batch; the caller releases it. Only one result may be in use at a
 * time. Return 0, or -EINVAL with the message set.
 */
int engine_run(struct engine *e, const char *sql, struct ArrowArrayStream *rows, const char *table);

/* Run a statement whose result does not matter, or is the number *n. Return as engine_run(). */
int engine_do(struct engine *e, const char *sql, uint64_t *n, const char *table);

/* Set the message: what the engine says, on one line, without its kind of error. Return -EINVAL. */
int engine_said(const char *table, const char *message);

#endif
