// SPDX-License-Identifier: GPL-2.0-only
/* Tables of other databases. database.h documents the functions. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "database.h"
#include "lib/base/error.h"

#define BLANKS " \t\r\n"

static struct database *first;

static int take_line(char *line, const char *file, int number)
{
	char *rest = line, *name = strtok_r(line, BLANKS, &rest), *library = strtok_r(NULL, BLANKS, &rest),
	     *uri = strtok_r(NULL, BLANKS, &rest), *table = strtok_r(NULL, BLANKS, &rest);
	struct database *d;

	if (!name || *name == '#')
		return 0;
	if (!uri || strtok_r(NULL, BLANKS, &rest))
		return fpisa_fail(-EINVAL, "%s:%d: a line is NAME DRIVER URI [TABLE]", file, number);
	if (!table_name_valid(name))
		return fpisa_fail(-EINVAL, "%s:%d: '%.64s' is not a table name; use letters, digits, '_', '.' and '-'",
				  file, number, name);
	if (database_find(name))
		return fpisa_fail(-EINVAL, "%s:%d: table %s is given twice; remove one of the lines", file, number,
				  name);
	d = calloc(1, sizeof(*d));
	if (d) {
		*d = (struct database){first, "", strdup(library), strdup(uri), strdup(table ? table : name)};
		strcpy(d->name, name);
		first = d;
	}
	return d && d->library && d->uri && d->table ?
		       0 :
		       fpisa_fail(-ENOMEM, "%s: not enough memory to read it; " FPISA_MORE_MEMORY, file);
}

int databases_load(const char *file)
{
	FILE *f = fopen(file, "re");
	char *line = NULL;
	size_t size = 0;
	int err = 0;

	if (!f)
		return fpisa_fail(-errno, "%s: cannot open: %s", file, fpisa_why(-errno));
	for (int number = 1; !err && getline(&line, &size, f) >= 0; number++)
		err = take_line(line, file, number);
	if (!err && ferror(f))
		err = fpisa_fail(-EIO, "%s: cannot read", file);
	free(line);
	fclose(f);
	return err;
}

const struct database *database_find(const char *name)
{
	const struct database *d = first;

	while (d && name && strcmp(d->name, name))
		d = d->next;
	return d;
}

/* -- statements ------------------------------------------------------------------- */

static void put_quoted(FILE *f, const char *text, size_t n, char quote)
{
	fputc(quote, f);
	for (size_t i = 0; i < n; i++) {
		if (text[i] == quote)
			fputc(quote, f);
		fputc(text[i], f);
	}
	fputc(quote, f);
}

static void put_name(FILE *f, const char *name)
{
	put_quoted(f, name, strlen(name), '"');
}

/* Write FROM and the table's name, whose parts a point separates. */
static void put_from(FILE *f, const struct database *d)
{
	const char *at = d->table, *end;

	fputs(" FROM ", f);
	for (; *(end = strchrnul(at, '.')); at = end + 1) {
		put_quoted(f, at, (size_t)(end - at), '"');
		fputc('.', f);
	}
	put_name(f, at);
}

/* Run the statement in the database, and create a table of its result in DuckDB. Free the statement. */
static int copy(const struct database *d, struct engine *duckdb, FILE *f, char **sql, const char *table)
{
	struct engine e = {0};
	int err;

	if (!f || fclose(f) || !*sql)
		err = fpisa_fail(-ENOMEM, "%s: not enough memory for a statement; " FPISA_MORE_MEMORY, d->name);
	else
		err = engine_connect(&e, d->library, d->uri, d->name) ?: engine_copy(&e, *sql, duckdb, table, d->name);
	free(*sql);
	engine_close(&e);
	return err;
}

int database_describe(const struct database *d, struct engine *duckdb)
{
	char *sql = NULL;
	size_t size;
	FILE *f = open_memstream(&sql, &size);

	if (f) {
		fputs("SELECT *", f);
		put_from(f, d);
		fputs(" WHERE 1 = 0", f);
	}
	return copy(d, duckdb, f, &sql, DATABASE_TYPES);
}

int database_read(const struct database *d, struct engine *duckdb, const struct schema *schema,
		  const bool used[FPISA_COLUMNS_MOST])
{
	const char *next = "SELECT ";
	char *sql = NULL;
	size_t size;
	FILE *f = open_memstream(&sql, &size);

	for (int i = 0; f && i < schema->n; i++)
		if (used[i]) {
			fputs(next, f);
			put_name(f, schema->column[i].name);
			next = ", ";
		}
	if (f) {
		/* A query that only counts rows uses no column. */
		fputs(*next == 'S' ? "SELECT 1 AS \"the row\"" : "", f);
		put_from(f, d);
	}
	return copy(d, duckdb, f, &sql, DATABASE_ROWS);
}
