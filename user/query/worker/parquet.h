/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A Parquet file as a table: the columns that DuckDB finds in it, and the statements that read them. A statement converts
 * each column to the schema's type exactly, or rounds it once.
 */
#ifndef FPISA_QUERY_PARQUET_H
#define FPISA_QUERY_PARQUET_H

#include <stdbool.h>

#include "condition.h"
#include "engine.h"
#include "schema.h"

#define PARQUET_TYPE 48

struct parquet {
	struct engine engine;
	char from[64];				     /* the table after FROM in SQL */
	char type[FPISA_COLUMNS_MOST][PARQUET_TYPE]; /* DuckDB's type of each column of the schema; "": not in the file */
	uint64_t rows;
};

/*
 * Open the file `fd`, which stays the caller's. If the schema has no columns, set it to the file's: those with a valid
 * name and a type that a schema has, or that text can show. Return 0, or -errno with the message set: -ENOENT without
 * DuckDB, -EINVAL if the file is not Parquet.
 */
int parquet_open(struct parquet *q, int fd, struct schema *schema, const char *name);
void parquet_close(struct parquet *q); /* also for one that is all 0 */

/*
 * Check that a column is in the file, and has a type of which the schema's can be made. Return 0, or -EINVAL with the
 * message set.
 */
int parquet_check(const struct parquet *q, const struct schema *schema, int column, const char *name);

/* The statement that reads rows: */
struct parquet_wanted {
	bool place;   /* first the row's place, a BIGINT by which it can be asked for again */
	bool as_text; /* values as texts, as files have them; else as the schema's types */
	const int *column;
	int n;
	const struct where *where; /* the rows; NULL: all */
	const uint64_t *places;	   /* only the rows at these places, in this order; NULL: all */
	size_t n_places;
};

/* Write the statement to memory that free() ends. Return NULL if there is none, with the message set. */
char *parquet_statement(const struct parquet *q, const struct schema *schema, const struct parquet_wanted *want);

#endif
