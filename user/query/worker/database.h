/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tables of other databases, which the file of the worker's option --databases names. An ADBC driver reads the rows. They
 * become a table of DuckDB in memory, which has a scan's rows until the scan ends.
 */
#ifndef FPISA_QUERY_DATABASE_H
#define FPISA_QUERY_DATABASE_H

#include <stdbool.h>

#include "engine.h"
#include "schema.h"

/* the tables in DuckDB of the columns' types and of the rows */
#define DATABASE_TYPES "the types"
#define DATABASE_ROWS "the rows"

struct database {
	struct database *next;
	char name[TABLE_NAME];
	char *library, *uri, *table; /* `table` is the name in the database */
};

/*
 * Read the file, whose lines are NAME DRIVER URI [TABLE]. # begins a comment line. TABLE is NAME by default. Return 0, or
 * -errno with the message set.
 */
int databases_load(const char *file);

/* Return the table of this name or, if `name` is NULL, the first table. Return NULL if there is none. */
const struct database *database_find(const char *name);

/* Create DATABASE_TYPES, which has the columns and no rows. Return 0, or -errno with the message set. */
int database_describe(const struct database *d, struct engine *duckdb);

/* Create DATABASE_ROWS from the columns in `used` of all rows. Return 0, or -errno with the message set. */
int database_read(const struct database *d, struct engine *duckdb, const struct schema *schema,
		  const bool used[FPISA_COLUMNS_MOST]);

#endif
