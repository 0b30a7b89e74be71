// SPDX-License-Identifier: GPL-2.0-only
/* Read Parquet files, and rows of other databases, with DuckDB. parquet.h documents the functions. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fpisa-query.h"
#include "fpisa/query/query.h"
#include "lib/base/error.h"
#include "lib/base/locale.h"
#include "parquet.h"
#include "query/lib/decimal.h"

#define PLACE "file_row_number"
#define FILE_NUMBER "file_index"
#define FILE_BITS 40 /* a place is the number of a file and, in this many lower bits, the number of a row */

/* -- types -------------------------------------------------------------------- */

enum native { NOTHING, NESTED, WHOLE, WIDE, FLOATING, DECIMAL, DATE, TIMESTAMP, TEXT, BYTES, OTHER };

/* Return the native type. If a column without a schema can have the type, also set *c to the type. */
static enum native native_of(const char *type, struct fpisa_column *c)
{
	static const struct {
		const char *name;
		enum native is;
		uint8_t type, precision;
	} types[] = {
		{"TINYINT", WHOLE, FPISA_COLUMN_INT32, 0},
		{"SMALLINT", WHOLE, FPISA_COLUMN_INT32, 0},
		{"INTEGER", WHOLE, FPISA_COLUMN_INT32, 0},
		{"BIGINT", WHOLE, FPISA_COLUMN_INT64, 0},
		{"UTINYINT", WHOLE, FPISA_COLUMN_INT32, 0},
		{"USMALLINT", WHOLE, FPISA_COLUMN_INT32, 0},
		{"UINTEGER", WHOLE, FPISA_COLUMN_INT64, 0},
		{"UBIGINT", WHOLE, FPISA_COLUMN_DECIMAL, 20},
		{"HUGEINT", WIDE, FPISA_COLUMN_DECIMAL, 38},
		{"FLOAT", FLOATING, FPISA_COLUMN_REAL, 0},
		{"DOUBLE", FLOATING, FPISA_COLUMN_DOUBLE, 0},
		{"DATE", DATE, FPISA_COLUMN_DATE, 0},
		{"VARCHAR", TEXT, FPISA_COLUMN_TEXT, 0},
		{"BLOB", BYTES, FPISA_COLUMN_TEXT, 0},
		{"TIMESTAMP", TIMESTAMP, FPISA_COLUMN_TIMESTAMP, 0},
		{"TIMESTAMP_S", TIMESTAMP, FPISA_COLUMN_TIMESTAMP, 0},
		{"TIMESTAMP_MS", TIMESTAMP, FPISA_COLUMN_TIMESTAMP, 0},
		{"\"NULL\"", NOTHING, FPISA_COLUMN_TEXT, 0},
	};
	unsigned int precision, scale;
	size_t n = strlen(type);

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(type, types[i].name)) {
			c->type = types[i].type;
			c->precision = types[i].precision;
			return types[i].is;
		}
	if (sscanf(type, "DECIMAL(%2u,%2u)", &precision, &scale) == 2) {
		c->type = FPISA_COLUMN_DECIMAL;
		c->precision = (uint8_t)precision;
		c->scale = (uint8_t)scale;
		return DECIMAL;
	}
	if (!n || type[n - 1] == ']' || !strncmp(type, "STRUCT", 6) || !strncmp(type, "MAP", 3) ||
	    !strncmp(type, "UNION", 5) || !strcmp(type, "VARIANT"))
		return NESTED;
	c->type = FPISA_COLUMN_TEXT;
	return OTHER;
}

/*
 * Return whether a value of type `is` can be converted to the type of the schema exactly, or with one rounding. `from`
 * has the digits of a decimal.
 */
static bool converts(enum native is, const struct fpisa_column *from, const struct fpisa_column *to)
{
	if (is == NOTHING)
		return true;
	switch (to->type) {
	case FPISA_COLUMN_TEXT:
		return is != NESTED;
	case FPISA_COLUMN_REAL:
		/*
		 * The engine converts a decimal to a real through a double. This rounds twice if the double is halfway
		 * between two reals and the decimal is not. With this number of digits there is no such double.
		 */
		return is == WHOLE || is == FLOATING || (is == DECIMAL && from->precision <= 15 && from->scale <= 8);
	case FPISA_COLUMN_DOUBLE:
		return is == WHOLE || is == WIDE || is == FLOATING || is == DECIMAL;
	case FPISA_COLUMN_INT32:
	case FPISA_COLUMN_INT64:
		return is == WHOLE || is == WIDE;
	case FPISA_COLUMN_DECIMAL:
		return is == WHOLE || is == WIDE || (is == DECIMAL && from->scale <= to->scale);
	case FPISA_COLUMN_DATE:
		return is == DATE;
	case FPISA_COLUMN_TIMESTAMP:
		return is == DATE || is == TIMESTAMP;
	}
	return false;
}

/*
 * Return whether the engine keeps a value of a file when it converts the file's type to the common type of all files. A
 * rounding is allowed if the schema's column `c` has the common type, because then there is no other rounding.
 */
static bool keeps(const char *type, const char *common, const struct fpisa_column *c)
{
	struct fpisa_column from = {0}, to = {0};
	enum native is = native_of(type, &from), common_is = native_of(common, &to);

	if (is == NOTHING || common_is == NESTED || !strcmp(type, common))
		return true;
	switch (common_is) {
	case WHOLE:
	case WIDE:
		return is == WHOLE;
	case FLOATING:
		return is == FLOATING ||
		       (is == WHOLE &&
			(c->type == to.type || (from.type == FPISA_COLUMN_INT32 && to.type == FPISA_COLUMN_DOUBLE)));
	case DECIMAL:
		return is == WHOLE || (is == DECIMAL && from.scale <= to.scale);
	case TEXT:
		return is != BYTES && is != NESTED;
	case TIMESTAMP:
		return is == DATE || is == TIMESTAMP;
	default:
		return common_is == OTHER && (is == OTHER || is == DATE || is == TIMESTAMP);
	}
}

/*
 * Return whether the values of another database can be converted. Drivers return numbers that Arrow does not have as
 * texts, and some databases store dates as texts. SQLite's driver returns a column of NULLs as integers.
 */
static bool converts_from_database(const struct parquet *q, enum native is, const struct fpisa_column *to)
{
	if (!q->database)
		return false;
	return to->type == FPISA_COLUMN_DATE ?
		       is == TEXT || is == WHOLE :
		       is == TEXT && (to->type == FPISA_COLUMN_DECIMAL || fpisa_column_is_float(to));
}

int parquet_check(const struct parquet *q, const struct schema *schema, int column, const char *name)
{
	const struct fpisa_column *c = &schema->column[column];
	struct fpisa_column from = {0};
	char to[FPISA_COLUMN_TYPE_MOST];
	enum native is;

	if (!*q->type[column])
		return fpisa_fail(-EINVAL, "%s: column %s is not in the file; remove it from the schema", name, c->name);
	if (*q->unlike[column].type)
		return fpisa_fail(-EINVAL,
				  "%s: column %s is %s, which does not convert exactly to %s, the common type of the "
				  "table's files; store the column with one type in all files",
				  q->files->file[q->unlike[column].file].name, c->name, q->unlike[column].type,
				  q->type[column]);
	is = native_of(q->type[column], &from);
	if (converts(is, &from, c) || converts_from_database(q, is, c))
		return 0;
	fpisa_column_type_text(c, to);
	return fpisa_fail(-EINVAL, "%s: column %s is %s, which is not converted to %s; name another type in the schema",
			  name, c->name, q->type[column], to);
}

/* -- the file ------------------------------------------------------------------- */

static bool take_text(const struct ArrowArray *texts, int64_t i, char *to, size_t size)
{
	const int32_t *end = (const int32_t *)texts->buffers[1] + texts->offset + i;
	size_t n = (size_t)(end[1] - end[0]);

	snprintf(to, size, "%.*s", (int)n, (const char *)texts->buffers[2] + end[0]);
	return n < size;
}

/* Store the type of a column of the file. If no schema was given, add the column to the schema. Return 0 or -errno. */
static int take_column(struct parquet *q, struct schema *schema, bool given, const char *column, const char *type,
		       const char *name)
{
	int i = schema_find(schema, column);
	struct fpisa_column c = {0};

	if (!given && i < 0 && fpisa_column_name_valid(column) && native_of(type, &c) != NESTED) {
		if (schema->n == FPISA_COLUMNS_MOST)
			return fpisa_fail(
				-EINVAL,
				"%s has more than %d columns; give a schema that names only the columns to query, at most %d",
				name, FPISA_COLUMNS_MOST, FPISA_COLUMNS_MOST);
		strcpy(c.name, column);
		i = schema->n++;
		schema->column[i] = c;
	}
	if (i >= 0)
		strcpy(q->type[i], type);
	return 0;
}

/* Return the engine's name for the number of a row. */
static const char *place_of(const struct parquet *q)
{
	return q->database ? "rowid" : PLACE;
}

/* Write the names of files. `chosen` lists their numbers; NULL means all files. */
static void put_names(FILE *f, const struct parquet *q, const int *chosen, int n)
{
	for (int i = 0; i < n; i++)
		fprintf(f, "%s'/proc/self/fd/%d'", i ? ", " : "", q->files->file[chosen ? chosen[i] : i].fd);
}

/* Write the source of the files' rows, or of the rows of another database. */
static void put_files(FILE *f, const struct parquet *q, const int *chosen, int n)
{
	if (q->database) {
		fprintf(f, "\"%s\"", q->loaded ? DATABASE_ROWS : DATABASE_TYPES);
		return;
	}
	fputs(n > 1 ? "read_parquet([" : "read_parquet(", f);
	put_names(f, q, chosen, n);
	fputs(n > 1 ? "], union_by_name = true)" : ")", f);
}

/* Return the text of a stream, and close the stream. Return NULL with the message set if there is no memory. */
static char *text_of(FILE *f, char **text)
{
	if (f && !fclose(f) && *text)
		return *text;
	fpisa_fail(-ENOMEM, "not enough memory for a statement of DuckDB; " FPISA_MORE_MEMORY);
	return NULL;
}

/* Write `before` and the source of the files' rows as a statement, which the caller frees. */
static char *statement_of_files(const struct parquet *q, const char *before, const int *chosen, int n)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (f) {
		fputs(before, f);
		put_files(f, q, chosen, n);
	}
	return text_of(f, &text);
}

/* Note the type of the column in one file, if the common type does not keep its values. */
static void note_type(struct parquet *q, const struct schema *schema, int file, const char *column, const char *type)
{
	for (int i = 0; i < schema->n; i++)
		if (!strcasecmp(schema->column[i].name, column) && !keeps(type, q->type[i], &schema->column[i])) {
			q->unlike[i].file = file;
			strcpy(q->unlike[i].type, type);
		}
}

/* Return whether statements need the number of a row's file. */
static bool in_directory(const struct parquet *q)
{
	return q->files->n > 1 || q->hive.n;
}

static int check_name(const struct parquet *q, const char *column, const char *name)
{
	return strcasecmp(column, place_of(q)) && (!in_directory(q) || strcasecmp(column, FILE_NUMBER)) ?
		       0 :
		       fpisa_fail(-EINVAL, "%s: column %s has the engine's name for a row number; rename the column",
				  name, column);
}

/* Take the columns of all files if `file` is -1, else note the types of the file's columns. */
static int take_described(struct parquet *q, struct schema *schema, bool given, int file,
			  const struct ArrowArray *batch, const char *name)
{
	char column[FPISA_COLUMN_NAME], type[PARQUET_TYPE];
	int err = 0;

	for (int64_t i = 0; !err && i < batch->length; i++) {
		if (!take_text(batch->children[0], i, column, sizeof(column)))
			continue;
		/* Names of nested types do not fit. Those of enumerations and geometries may not fit. */
		if (!take_text(batch->children[1], i, type, sizeof(type)) && strncmp(type, "ENUM", 4) &&
		    strncmp(type, "GEOMETRY", 8))
			strcpy(type, "STRUCT(...)");
		err = check_name(q, column, name);
		if (err || hive_column(&q->hive, column) >= 0)
			continue;
		if (file < 0)
			err = take_column(q, schema, given, column, type, name);
		else
			note_type(q, schema, file, column, type);
	}
	return err;
}

/* Run the statement that describes one file, or all files if `file` is -1. Free the statement. */
static int describe(struct parquet *q, struct schema *schema, bool given, int file, char *sql, const char *name)
{
	struct ArrowArrayStream rows = {0};
	struct ArrowArray batch;
	int err = sql ? engine_run(&q->engine, sql, &rows, name) : -ENOMEM, more = 0;

	while (!err && (more = engine_next(&rows, &batch, name)) > 0) {
		err = take_described(q, schema, given, file, &batch, name);
		batch.release(&batch);
	}
	if (rows.release)
		rows.release(&rows);
	free(sql);
	return err ?: more;
}

static int take_columns(struct parquet *q, struct schema *schema, const char *name)
{
	const bool given = schema->n > 0;
	int err = describe(q, schema, given, -1, statement_of_files(q, "DESCRIBE SELECT * FROM ", NULL, q->files->n),
			   name);

	for (int i = 0; !err && i < q->hive.n; i++)
		err = check_name(q, q->hive.name[i], name) ?:
			      take_column(q, schema, given, q->hive.name[i], q->hive.type[i], name);
	return err || schema->n ?
		       err :
		       fpisa_fail(-EINVAL,
				  "%s has no column that can be queried; store a column of numbers, dates or texts",
				  name);
}

/* Take the numbers of files from the result of the statement. Return how many, or -errno with the message set. */
static int take_chosen(struct parquet *q, const char *sql, int *chosen, const char *name)
{
	struct ArrowArrayStream rows;
	struct ArrowArray batch;
	int n = 0, more = 0, err = engine_run(&q->engine, sql, &rows, name);

	while (!err && (more = engine_next(&rows, &batch, name)) > 0) {
		for (int64_t i = 0; i < batch.length; i++)
			chosen[n++] = ((const int32_t *)batch.children[0]->buffers[1])[batch.children[0]->offset + i];
		batch.release(&batch);
	}
	if (rows.release)
		rows.release(&rows);
	return err ?: more ?: n;
}

/* Choose one file of each Parquet schema, so that files with the same columns are described once. */
static int choose_by_schemas(struct parquet *q, int *chosen, const char *name)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	int n;

	if (f) {
		fputs("SELECT min(i) FROM (SELECT list_position([", f);
		put_names(f, q, NULL, q->files->n);
		fputs("], file_name) - 1 AS i, list((name, type, converted_type, logical_type, scale, precision, "
		      "num_children)) AS columns FROM parquet_schema([",
		      f);
		put_names(f, q, NULL, q->files->n);
		fputs("]) GROUP BY file_name) GROUP BY columns", f);
	}
	if (!text_of(f, &text))
		return -ENOMEM;
	n = take_chosen(q, text, chosen, name);
	free(text);
	return n;
}

/* Describe one file of each Parquet schema, to find the columns whose values the common type does not keep. */
static int compare_files(struct parquet *q, struct schema *schema, const char *name)
{
	int file[FILES_MOST], n = q->files->n > 1 ? choose_by_schemas(q, file, name) : 0, err = n < 0 ? n : 0;

	for (int i = 0; !err && i < n; i++)
		err = describe(q, schema, true, file[i], statement_of_files(q, "DESCRIBE SELECT * FROM ", &file[i], 1),
			       q->files->file[file[i]].name);
	return err;
}

/* The engine may open the table's files and no others, whatever a statement contains. */
static int allow_files(struct parquet *q, const char *name)
{
	char *sql = NULL;
	size_t size;
	FILE *f = open_memstream(&sql, &size);
	int err;

	if (f) {
		fputs("SET allowed_paths = [", f);
		put_names(f, q, NULL, q->files->n);
		fputs("]", f);
	}
	if (!text_of(f, &sql))
		return -ENOMEM;
	err = engine_do(&q->engine, sql, NULL, name) ?:
		      engine_do(&q->engine, "SET enable_external_access = false", NULL, name);
	free(sql);
	return err;
}

static int count_rows(struct parquet *q, const char *name)
{
	char *sql = statement_of_files(q, "SELECT count(*) FROM ", NULL, q->files->n);
	int err = sql ? engine_do(&q->engine, sql, &q->rows, name) : -ENOMEM;

	free(sql);
	return err;
}

/* If one of several files is not valid, set the message to name this file. Return `err` or the error of the file. */
static int name_bad_file(struct parquet *q, int err)
{
	char sql[96];
	int bad = 0;

	for (int i = 0; !bad && err && q->files->n > 1 && i < q->files->n; i++) {
		snprintf(sql, sizeof(sql), "SELECT count(*) FROM read_parquet('/proc/self/fd/%d')",
			 q->files->file[i].fd);
		bad = engine_do(&q->engine, sql, NULL, q->files->file[i].name);
	}
	return bad ?: err;
}

int parquet_open(struct parquet *q, const struct files *files, struct schema *schema, const char *name)
{
	int err;

	*q = (struct parquet){.files = files};
	err = hive_find(&q->hive, files) ?: engine_open(&q->engine, name) ?: allow_files(q, name);
	if (err)
		return err;
	return name_bad_file(q, take_columns(q, schema, name) ?: compare_files(q, schema, name) ?: count_rows(q, name));
}

/* -- tables of other databases -------------------------------------------------------- */

int parquet_open_database(struct parquet *q, const struct database *database, struct schema *schema)
{
	static const struct files none;

	*q = (struct parquet){.files = &none, .database = database};
	return engine_open(&q->engine, database->name)							 ?:
		       engine_do(&q->engine, "SET enable_external_access = false", NULL, database->name) ?:
		       database_describe(database, &q->engine)						 ?:
		       take_columns(q, schema, database->name);
}

int parquet_load(struct parquet *q, const struct schema *schema, const bool used[FPISA_COLUMNS_MOST])
{
	struct schema types = *schema;
	int err;

	if (!q->database || q->loaded)
		return 0;
	err = database_read(q->database, &q->engine, schema, used);
	q->loaded = !err;
	if (!err)
		err = take_columns(q, &types, q->database->name);
	for (int i = 0; !err && i < schema->n; i++)
		err = used[i] ? parquet_check(q, schema, i, q->database->name) : 0;
	return err ?: count_rows(q, q->database->name);
}

/* -- statements ----------------------------------------------------------------- */

/* Write the decimal of a text, which must not have more digits after the point than the column. */
static void put_decimal(FILE *f, const struct fpisa_column *c)
{
	const char *name = c->name;

	fprintf(f, "CASE WHEN \"%s\" IS NULL OR regexp_full_match(\"%s\", '-?[0-9]+([.][0-9]{0,%u}0*)?') THEN ", name,
		name, c->scale);
	fprintf(f, "CAST(\"%s\" AS DECIMAL(%u,%u)) ELSE ", name, c->precision, c->scale);
	fprintf(f, "CAST(error('column %s: ''' || \"%s\" || ''' is not a decimal(%u,%u)') AS DECIMAL(%u,%u)) END", name,
		name, c->precision, c->scale, c->precision, c->scale);
}

/* Write the day or time of a column of another database. A driver may return infinity as any day outside of our years. */
static void put_day(FILE *f, const struct fpisa_column *c, const char *type, enum native is)
{
	const char *name = c->name;

	fprintf(f, "CASE WHEN \"%s\" IS NULL THEN CAST(NULL AS %s) ", name, type);
	if (is != WHOLE)
		fprintf(f, "WHEN year(CAST(\"%s\" AS %s)) BETWEEN 1 AND 9999 THEN CAST(\"%s\" AS %s) ", name, type,
			name, type);
	fprintf(f, "ELSE CAST(error('column %s: ' || \"%s\" || ' is not a day in the years 1 to 9999') AS %s) END",
		name, name, type);
}

/* Write an expression that converts the column to the schema's type. Texts keep their bytes. */
static void put_column(FILE *f, const struct parquet *q, const struct schema *schema, int column)
{
	const struct fpisa_column *c = &schema->column[column];
	static const char *const names[] = {[FPISA_COLUMN_REAL] = "FLOAT",	[FPISA_COLUMN_DOUBLE] = "DOUBLE",
					    [FPISA_COLUMN_INT32] = "INTEGER",	[FPISA_COLUMN_INT64] = "BIGINT",
					    [FPISA_COLUMN_TEXT] = "VARCHAR",	[FPISA_COLUMN_DATE] = "DATE",
					    [FPISA_COLUMN_DECIMAL] = "DECIMAL", [FPISA_COLUMN_TIMESTAMP] = "TIMESTAMP"};
	struct fpisa_column from = {0};
	enum native is = native_of(q->type[column], &from);

	/* Some versions do not round a decimal correctly, but all versions round its digits correctly. */
	bool digits = (is == WIDE || is == DECIMAL) && (c->type == FPISA_COLUMN_REAL || c->type == FPISA_COLUMN_DOUBLE);

	if ((is == TEXT || is == BYTES) && c->type == FPISA_COLUMN_TEXT)
		fprintf(f, "\"%s\"", c->name);
	else if (is == TEXT && c->type == FPISA_COLUMN_DECIMAL)
		put_decimal(f, c);
	else if (q->database && (c->type == FPISA_COLUMN_DATE || c->type == FPISA_COLUMN_TIMESTAMP))
		put_day(f, c, names[c->type], is);
	else if (c->type == FPISA_COLUMN_DECIMAL)
		fprintf(f, "CAST(\"%s\" AS DECIMAL(%u,%u))", c->name, c->precision, c->scale);
	else if (digits)
		fprintf(f, "CAST(CAST(\"%s\" AS VARCHAR) AS %s)", c->name, names[c->type]);
	else
		fprintf(f, "CAST(\"%s\" AS %s)", c->name, names[c->type]);
}

static void put_as_text(FILE *f, const struct parquet *q, const struct schema *schema, int column)
{
	bool is = schema->column[column].type == FPISA_COLUMN_TEXT;

	fputs(is ? "" : "CAST(", f);
	put_column(f, q, schema, column);
	fputs(is ? "" : " AS VARCHAR)", f);
}

/* Return whether the number has at most `digits` digits. */
static bool fits(__int128 number, unsigned int digits)
{
	while (digits--)
		number /= 10;
	return !number;
}

/* Write the constant of the term. Write a text as bytes. */
static void put_constant(FILE *f, const struct where_term *t, const struct fpisa_column *c)
{
	const __u64 wide[3] = {(__u64)t->integer, (__u64)(t->integer >> 64), (__u64)(t->integer >> 127)};
	char digits[FPISA_DECIMAL_TEXT];

	switch (c->type) {
	case FPISA_COLUMN_TEXT:
		fputs("unhex('", f);
		for (size_t i = 0; i < t->len; i++)
			fprintf(f, "%02x", (unsigned char)t->text[i]);
		fputs("')", f);
		break;
	case FPISA_COLUMN_DATE:
		fprintf(f, "DATE '%s'", t->text);
		break;
	case FPISA_COLUMN_TIMESTAMP:
		fprintf(f, "TIMESTAMP '%s'", t->text);
		break;
	case FPISA_COLUMN_REAL:
	case FPISA_COLUMN_DOUBLE:
		fprintf(f, "CAST('%.17g' AS DOUBLE)", isnan(t->real) ? (double)NAN : t->real);
		break;
	case FPISA_COLUMN_DECIMAL:
		fpisa_decimal_text(wide, c->scale, digits);
		fprintf(f, "CAST('%s' AS DECIMAL(%u,%u))", digits, fits(t->integer, c->precision) ? c->precision : 38u,
			c->scale);
		break;
	default:
		fprintf(f, "CAST('%lld' AS BIGINT)", (long long)t->integer);
	}
}

static void put_comparison(FILE *f, const struct parquet *q, const struct schema *schema, const struct where_term *t)
{
	static const char *const operators[] = {"<", "<=", "=", "<>", ">=", ">"};
	const struct fpisa_column *c = &schema->column[t->column];
	/* Compare texts by their bytes and reals as doubles. */
	const char *as = c->type == FPISA_COLUMN_REAL					    ? "CAST(" :
			 c->type == FPISA_COLUMN_TEXT && strcmp(q->type[t->column], "BLOB") ? "encode(" :
											      "(";
	/*
	 * Writers leave NaN out of a column's statistics, and the engine believes that no value is then NaN. So give it
	 * an expression that could be NaN whatever the statistics say. random() is less than 1.
	 */
	bool nan = c->type == FPISA_COLUMN_REAL || c->type == FPISA_COLUMN_DOUBLE;

	fputs(nan ? "CASE WHEN random() < 2 THEN " : "", f);
	fputs(as, f);
	put_column(f, q, schema, t->column);
	fputs(c->type == FPISA_COLUMN_REAL ? " AS DOUBLE)" : ")", f);
	fputs(nan ? " ELSE CAST('NaN' AS DOUBLE) END" : "", f);
	fprintf(f, " %s ", operators[t->is]);
	put_constant(f, t, c);
}

static void put_term(FILE *f, const struct parquet *q, const struct schema *schema, const struct where_term *t)
{
	if (t->is < WHERE_NULL)
		put_comparison(f, q, schema, t);
	else
		fprintf(f, "\"%s\" IS %s", schema->column[t->column].name, t->is == WHERE_NULL ? "NULL" : "NOT NULL");
}

/*
 * Write the conditions, starting with term `i`. The engine may evaluate conditions in any order. So write a CASE for a
 * column that is never NULL. A NULL in the column is an error if the preceding conditions hold, whatever the following
 * conditions say.
 */
static void put_terms(FILE *f, const struct parquet *q, const struct schema *schema, const struct where *w, int i)
{
	const char *name;
	int end = i;

	while (end < w->n && w->term[end].is != WHERE_NEVER_NULL)
		end++;
	fputs(end < w->n ? "CASE WHEN " : "", f);
	fputs(i == end ? "true" : "", f);
	for (int k = i; k < end; k++) {
		fputs(k > i ? " AND " : "", f);
		put_term(f, q, schema, &w->term[k]);
	}
	if (end == w->n)
		return;
	name = schema->column[w->term[end].column].name;
	fprintf(f,
		" THEN CASE WHEN \"%s\" IS NULL THEN CAST(error('column %s is empty, but the query takes it as never "
		"NULL') AS BOOLEAN) ELSE ",
		name, name);
	put_terms(f, q, schema, w, end + 1);
	fputs(" END ELSE false END", f);
}

/* Write column `i` of the statement. */
static void put_wanted(FILE *f, const struct parquet *q, const struct schema *schema, const struct parquet_wanted *want,
		       int i)
{
	const struct where *filter = want->filter ? want->filter[i] : NULL;

	if (filter) {
		fputs("CASE WHEN ", f);
		put_terms(f, q, schema, filter, 0);
		fputs(" THEN ", f);
	}
	if (want->column[i] == PARQUET_ONE)
		fputs("CAST(1 AS BIGINT)", f);
	else
		(want->as_text ? put_as_text : put_column)(f, q, schema, want->column[i]);
	fputs(filter ? " END" : "", f);
}

/*
 * Write the table of the chosen files: the number in the list, the number in the table, and the columns of directories.
 * A column of the files may have any name that a schema can have, so the names of numbers have a blank.
 */
static void put_directories(FILE *f, const struct parquet *q, const int *chosen, int n)
{
	fprintf(f, "(SELECT unnest(range(%d)) AS \"the index\", unnest([", n);
	for (int k = 0; k < n; k++)
		fprintf(f, "%s%d", k ? "," : "", chosen[k]);
	fputs("]) AS \"the file\"", f);
	for (int i = 0; i < q->hive.n; i++) {
		fputs(", unnest([", f);
		for (int k = 0; k < n; k++) {
			fputs(k ? "," : "", f);
			hive_put(f, &q->hive, i, q->files->file[chosen[k]].name);
		}
		fprintf(f, "]) AS \"%s\"", q->hive.name[i]);
	}
	fputs(")", f);
}

/* Return whether the column of the schema comes from the files. */
static bool in_files(const struct parquet *q, const struct schema *schema, int column)
{
	struct fpisa_column c;

	return hive_column(&q->hive, schema->column[column].name) < 0 && native_of(q->type[column], &c) != NESTED;
}

/* Write the files' columns, or NULLs of the columns' types. */
static void put_columns(FILE *f, const struct parquet *q, const struct schema *schema, bool nulls)
{
	for (int i = 0; i < schema->n; i++)
		if (in_files(q, schema, i) && nulls)
			fprintf(f, "CAST(NULL AS %s) AS \"%s\", ", q->type[i], schema->column[i].name);
		else if (in_files(q, schema, i))
			fprintf(f, "\"%s\", ", schema->column[i].name);
}

/*
 * Write the rows of the chosen files, whose columns have the types of all files. A column of the chosen files may have
 * another type, or be missing.
 */
static void put_rows(FILE *f, const struct parquet *q, const struct schema *schema, const int *chosen, int n)
{
	bool all = n == q->files->n;

	fputs("(SELECT * EXCLUDE (\"the index\", \"the file\", \"the number\", " PLACE "), ", f);
	fprintf(f, "\"the file\" * %llu + " PLACE " AS " PLACE " FROM (SELECT ", 1ull << FILE_BITS);
	put_columns(f, q, schema, false);
	fputs(PLACE ", " FILE_NUMBER " AS \"the number\" FROM ", f);
	if (!all) {
		fputs("(SELECT ", f);
		put_columns(f, q, schema, true);
		fputs("0 AS " PLACE " WHERE false UNION ALL BY NAME SELECT *, " PLACE ", " FILE_NUMBER " FROM ", f);
	}
	put_files(f, q, chosen, n);
	fputs(all ? ") JOIN " : ")) JOIN ", f);
	put_directories(f, q, chosen, n);
	fputs(" ON \"the number\" = \"the index\")", f);
}

static void put_from(FILE *f, const struct parquet *q, const struct schema *schema, const struct parquet_wanted *want,
		     const int *chosen, int n)
{
	fputs(" FROM ", f);
	if (in_directory(q))
		put_rows(f, q, schema, chosen, n);
	else
		put_files(f, q, chosen, n);
	if (!want->places)
		return;
	/*
	 * A column of the file may have any name that a schema can have, so these names have a blank. The engine reads a
	 * text of numbers much faster than it parses the numbers in a statement.
	 */
	fputs(" JOIN (SELECT unnest(p) AS \"the place\", generate_subscripts(p, 1) AS \"the order\" FROM (SELECT CAST('[",
	      f);
	for (size_t i = 0; i < want->n_places; i++)
		fprintf(f, "%s%llu", i ? "," : "", (unsigned long long)want->places[i]);
	fprintf(f, "]' AS BIGINT[]) AS p)) AS wanted ON %s = wanted.\"the place\" ORDER BY wanted.\"the order\"",
		place_of(q));
}

/*
 * Write the statement for groups up to FROM. The value times 2^PARQUET_SCALE is an integer of at most 63 bits, or the row
 * makes the statement fail, before the first group is known. The sum of these integers is exact. A NULL also makes the
 * statement fail.
 */
static void put_groups(FILE *f, const struct parquet *q, const struct schema *schema, const struct parquet_wanted *want)
{
	fputs("SELECT ", f);
	for (int i = 0; i < want->n - 1; i++)
		fprintf(f, "k%d, ", i);
	fprintf(f,
		"CASE WHEN count(*) < %u THEN count(*) ELSE CAST(error('a group is too large') AS BIGINT) END, "
		"sum(CASE WHEN CAST(v AS BIGINT) = v THEN CAST(v AS BIGINT) ELSE CAST(error('a sum is not exact') AS "
		"BIGINT) END), min(x), max(x) FROM (SELECT *, CAST(x AS DOUBLE) * CAST('%.17g' AS DOUBLE) AS v FROM (SELECT ",
		FPISA_ROW_COUNT, ldexp(1, PARQUET_SCALE));
	for (int i = 0; i < want->n - 1; i++) {
		put_column(f, q, schema, want->column[i]);
		fprintf(f, " AS k%d, ", i);
	}
	put_column(f, q, schema, want->column[want->n - 1]);
	fputs(" AS x", f);
}

static char *write_statement(const struct parquet *q, const struct schema *schema, const struct parquet_wanted *want,
			     const int *chosen, int n)
{
	locale_t before = fpisa_locale_enter();
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (f) {
		if (want->grouped)
			put_groups(f, q, schema, want);
		else
			fprintf(f, "SELECT %s", want->place ? place_of(q) : "");
		for (int i = 0; !want->grouped && i < want->n; i++) {
			fputs(i || want->place ? ", " : "", f);
			put_wanted(f, q, schema, want, i);
		}
		put_from(f, q, schema, want, chosen, n);
		if (want->where && want->where->n) {
			fputs(" WHERE ", f);
			put_terms(f, q, schema, want->where, 0);
		}
		fputs(want->grouped ? "))" : "", f);
		for (int i = 0; want->grouped && i < want->n - 1; i++)
			fprintf(f, "%sk%d", i ? ", " : " GROUP BY ", i);
		if (want->limit)
			fprintf(f, " ORDER BY 2 %s NULLS FIRST LIMIT %llu", want->ascending ? "ASC" : "DESC",
				(unsigned long long)want->limit);
	}
	fpisa_locale_leave(before);
	return text_of(f, &text);
}

/* -- the files that a statement reads ------------------------------------------- */

/* Choose the files of the places. */
static int choose_by_places(const struct parquet *q, const struct parquet_wanted *want, int *chosen)
{
	int n = 0;

	for (int i = 0; i < q->files->n; i++) {
		size_t k = 0;

		while (k < want->n_places && want->places[k] >> FILE_BITS != (uint64_t)i)
			k++;
		if (k < want->n_places)
			chosen[n++] = i;
	}
	return n;
}

/* Return the conditions on columns of directories, up to a condition whose failure is an error. */
static struct where on_directories(const struct parquet *q, const struct schema *schema, const struct where *w)
{
	struct where on = {0};

	for (int i = 0; i < w->n && w->term[i].is != WHERE_NEVER_NULL; i++)
		if (hive_column(&q->hive, schema->column[w->term[i].column].name) >= 0)
			on.term[on.n++] = w->term[i];
	return on;
}

/* Choose the files whose directories meet the conditions on directories. `chosen` has all files. */
static int choose_by_conditions(struct parquet *q, const struct schema *schema, const struct where *w, int *chosen,
				const char *name)
{
	const struct where on = on_directories(q, schema, w);
	char *text = NULL;
	size_t size;
	FILE *f;
	int n;

	if (!on.n)
		return q->files->n;
	f = open_memstream(&text, &size);
	if (f) {
		fputs("SELECT CAST(\"the file\" AS INTEGER) FROM ", f);
		put_directories(f, q, chosen, q->files->n);
		fputs(" WHERE ", f);
		put_terms(f, q, schema, &on, 0);
		fputs(" ORDER BY \"the file\"", f);
	}
	if (!text_of(f, &text))
		return -ENOMEM;
	n = take_chosen(q, text, chosen, name);
	free(text);
	return n;
}

char *parquet_statement(struct parquet *q, const struct schema *schema, const struct parquet_wanted *want,
			const char *name)
{
	int n = q->files->n;

	for (int i = 0; i < n; i++)
		q->chosen[i] = i;
	if (want->places)
		n = choose_by_places(q, want, q->chosen);
	else if (want->where)
		n = choose_by_conditions(q, schema, want->where, q->chosen, name);
	q->n_chosen = n;
	/* A statement without a file is not valid. The first file's rows do not meet the statement's conditions either. */
	return n < 0 ? NULL : write_statement(q, schema, want, q->chosen, n ? n : 1);
}
