/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Parquet files as a table, or the table of another database. This covers the columns that DuckDB finds in the files and
 * in the names of their directories, and the statements that read them. A statement converts each column to the schema's
 * type exactly, or rounds the value once.
 */
#ifndef FPISA_QUERY_PARQUET_H
#define FPISA_QUERY_PARQUET_H

#include <stdbool.h>

#include "condition.h"
#include "database.h"
#include "engine.h"
#include "hive.h"
#include "schema.h"

#define PARQUET_TYPE 48

struct parquet {
	struct engine engine;
	const struct files *files;
	struct hive hive;
	/* DuckDB's type of each column of the schema; "" if all files lack the column */
	char type[FPISA_COLUMNS_MOST][PARQUET_TYPE];
	struct {
		int file;
		char type[PARQUET_TYPE];
	} unlike[FPISA_COLUMNS_MOST]; /* a file whose type is another and does not convert exactly; type "" if none */
	uint64_t rows;
	int chosen[FILES_MOST], n_chosen; /* the files that the last statement reads */
	const struct database *database;  /* of the table, instead of files */
	bool loaded;			  /* its rows are read */
};

/*
 * Open the files, which the caller closes later. If the schema has no columns, set it to the columns of the files, and
 * then to those of directories. A file may lack columns of the other files, which are NULL then. Skip columns whose name
 * is not valid, and columns whose type neither a schema nor a text can represent. Return 0, or -errno with the message
 * set. The error is -ENOENT without DuckDB, and -EINVAL if a file is not Parquet. The database stays open until the process
 * ends, because closing it takes 5 ms.
 */
int parquet_open(struct parquet *q, const struct files *files, struct schema *schema, const char *name);

/* Describe the table of another database in the same way. */
int parquet_open_database(struct parquet *q, const struct database *database, struct schema *schema);

/*
 * Read the rows of another database, with the used columns, unless they are read already. This takes as long as the
 * database. Do nothing for files. Return 0, or -errno with the message set.
 */
int parquet_load(struct parquet *q, const struct schema *schema, const bool used[FPISA_COLUMNS_MOST]);

/*
 * Check that a column is in the file, and that its type can be converted to the schema's type. Return 0, or -EINVAL
 * with the message set.
 */
int parquet_check(const struct parquet *q, const struct schema *schema, int column, const char *name);

#define PARQUET_ONE (-1)

/* The contents of a statement that reads rows. */
struct parquet_wanted {
	bool place;	   /* the first column is the row's place, a BIGINT that identifies the row in `places` */
	bool as_text;	   /* values have the format of texts in files; else they have the types of the schema */
	const int *column; /* numbers in the schema; PARQUET_ONE is the number 1, a BIGINT */
	int n;
	/* for each column, conditions of the rows whose value is not replaced by NULL, or NULL; NULL means no conditions */
	const struct where *const *filter;
	const struct where *where; /* conditions on the rows; NULL means all rows */
	uint64_t limit;		   /* the first rows by the only column, or 0 for all rows; NULLs come first */
	bool ascending;
	bool grouped;		/* groups of the rows by all columns but the last, which is a real */
	const uint64_t *places; /* read only the rows at these places, in this order; NULL means all rows */
	size_t n_places;
};

/*
 * A statement for groups has these columns after those of the key. It fails if a row's real times 2^PARQUET_SCALE is not an
 * integer of at most 63 bits: reals from 2^-15 to 2^24 have such integers, with all of their digits.
 */
enum parquet_group {
	PARQUET_COUNT, /* int64 */
	PARQUET_SUM,   /* decimal(38), the exact sum times 2^PARQUET_SCALE */
	PARQUET_LEAST, /* real */
	PARQUET_MOST,
	PARQUET_GROUP,
};

#define PARQUET_SCALE 38

/*
 * Write the statement to memory, which the caller frees with free(). If directories decide part of the conditions, ask
 * the engine which files have rows, so no other statement may be in use. Return NULL with the message set if there is no
 * memory or the engine fails.
 */
char *parquet_statement(struct parquet *q, const struct schema *schema, const struct parquet_wanted *want,
			const char *name);

#endif
