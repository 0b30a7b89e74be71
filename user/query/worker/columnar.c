// SPDX-License-Identifier: GPL-2.0-only
/* Rows of a table that DuckDB reads. columnar.h documents the functions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "columnar.h"
#include "lib/base/error.h"
#include "pages.h"

/* A statement for groups takes about 5 ms more to prepare, and 35 ns less for each row. */
#define GROUPS_LEAST 32768
#define WAIT_MS 1 /* time to wait for a batch in one turn */

/* -- the statement ------------------------------------------------------------------ */

/* Set the types of the statement's columns. */
static struct scan_columns set_types(struct columnar *b)
{
	static const struct fpisa_column text = {.type = FPISA_COLUMN_TEXT},
					 group[] = {[PARQUET_COUNT] = {.type = FPISA_COLUMN_INT64},
						    [PARQUET_SUM] = {.type = FPISA_COLUMN_DECIMAL, .precision = 38},
						    [PARQUET_LEAST] = {.type = FPISA_COLUMN_REAL},
						    [PARQUET_MOST] = {.type = FPISA_COLUMN_REAL}};
	const int n = b->grouped ? b->n_keys : b->n;

	for (int i = 0; i < n; i++)
		b->type[i] = b->as_text			      ? &text :
			     b->want.column[i] == PARQUET_ONE ? &fpisa_column_rows :
								&b->table->schema.column[b->want.column[i]];
	for (int i = 0; b->grouped && i < PARQUET_GROUP; i++)
		b->type[n + i] = &group[i];
	return (struct scan_columns){b->type, b->grouped ? n + PARQUET_GROUP : n, b->place};
}

/* Read rows instead of groups. This is an again() of struct scan_statement. */
static bool read_rows(void *columnar)
{
	struct columnar *b = columnar;
	bool grouped = b->want.grouped;

	b->want.grouped = false;
	return grouped;
}

/*
 * Write the statement. First read the rows of another database, or compare the pages that the statement reads with their
 * checksums. This is a write() of struct scan_statement.
 */
static char *write_statement(void *columnar, struct scan_columns *columns)
{
	struct columnar *b = columnar;
	struct partition *t = b->table;
	char *sql = NULL;
	int err = parquet_load(&t->parquet, &t->schema, t->used);

	b->want.grouped &= t->parquet.rows >= GROUPS_LEAST;
	b->grouped = b->want.grouped;
	*columns = set_types(b);
	if (!err)
		sql = parquet_statement(&t->parquet, &t->schema, &b->want, t->file);
	for (int i = 0; sql && !err && i < t->parquet.n_chosen; i++)
		err = pages_check(&t->files.file[t->parquet.chosen[i]], &t->schema, t->used);
	if (!err)
		return sql;
	free(sql);
	return NULL;
}

/* Run the statement that reads the wanted columns. */
static int begin(struct columnar *b, struct parquet_wanted want)
{
	struct partition *t = b->table;

	want.place = b->place;
	want.as_text = b->as_text;
	want.n = b->n;
	b->want = want;
	return scan_begin(&b->scan, &t->parquet.engine, (struct scan_statement){write_statement, read_rows, b}, t->file);
}

/* End the previous reading. */
static void end(struct columnar *b)
{
	scan_end(b->scan);
	b->scan = NULL;
	batch_release(&b->batch);
}

int columnar_begin(struct columnar *b, struct partition *table, const struct columns *c, const struct where *where,
		   struct columnar_rows rows)
{
	end(b);
	b->table = table;
	b->columns = c;
	b->join = rows.kind == FPISA_QUERY_JOIN;
	b->as_text = false;
	b->key = b->join ? c->on : c->key;
	b->n = b->n_keys = b->join ? c->n_on : c->n_keys;
	b->most = rows.most;
	b->form = rows.form;
	b->values_left = 0;
	memset(b->filter, 0, sizeof(b->filter));
	memcpy(b->column, b->key, (size_t)b->n * sizeof(*b->column));
	for (int i = 0; !b->join && i < c->n_values; i++) {
		b->filter[b->n] = c->filter[i];
		b->column[b->n++] = c->value[i] == COLUMNS_ROWS ? PARQUET_ONE : c->value[i];
	}
	/* A statement has at least one column. */
	b->place = rows.kind != FPISA_QUERY_TABLE || !b->n;
	return begin(b, (struct parquet_wanted){.column = b->column,
						.filter = b->filter,
						.where = where,
						.limit = rows.limit,
						.ascending = rows.ascending,
						.grouped = rows.grouped});
}

static int begin_records(struct columnar *b, struct partition *table, const struct columns *c,
			 const struct where *where, const uint64_t *places, size_t n)
{
	end(b);
	b->table = table;
	b->columns = c;
	b->place = false;
	b->as_text = true;
	b->n = c->n_columns;
	return begin(b, (struct parquet_wanted){.column = c->column, .where = where, .places = places, .n_places = n});
}

int columnar_begin_records(struct columnar *b, struct partition *table, const struct columns *c,
			   const struct where *where)
{
	return begin_records(b, table, c, where, NULL, 0);
}

int columnar_begin_at(struct columnar *b, struct partition *table, const struct columns *c, const uint64_t *places,
		      size_t n)
{
	return begin_records(b, table, c, NULL, places, n);
}

bool columnar_end(struct columnar *b)
{
	batch_release(&b->batch);
	return scan_end_now(b->scan);
}

/* Take the next batch. Return 1, 0 at the end, SCAN_LATER, or -errno. */
static int next_batch(struct columnar *b)
{
	int rc;

	batch_release(&b->batch);
	rc = scan_next(b->scan, &b->batch.rows, WAIT_MS);
	if (rc == SCAN_LATER)
		return rc;
	if (rc > 0)
		return partition_check(b->table) ?: rc;
	return rc ?: partition_whole(b->table);
}

/* -- rows in frames ----------------------------------------------------------------- */

/* Report that the key of the slice's row `row` is too long. `value` is as for columns_no_room(). */
static int no_room(const struct columnar *b, int value, int row)
{
	size_t len[FPISA_COLUMNS_MOST + 1] = {0};

	for (int i = 0; i < b->n_keys + (value != COLUMNS_NONE); i++) {
		int k = i < b->n_keys ? i : b->n_keys + value;

		if (b->type[k]->type == FPISA_COLUMN_TEXT)
			batch_text(&b->batch, b->place + k, b->batch.at + row, &len[i]);
	}
	return columns_no_room(b->columns, b->table->file, b->most, value, len);
}

/* Append column `i` of the statement, whose distinct values are counted, to the keys of the slice. Return 0 or -errno. */
static int fill_distinct(struct columnar *b, int i, const struct fpisa_column *is)
{
	int row, err = batch_distinct(&b->batch, b->place + i, is, b->most - 1, b->table->file, &row);

	return err == -ENOSPC ? no_room(b, i - b->n_keys, row) : err;
}

/* Fill in the next value of the slice. Return 0 or -errno. */
static int fill_value(struct columnar *b)
{
	int i = b->n - b->values_left--;
	struct fpisa_column is = *b->type[i];

	b->skips_null = false;
	if (fpisa_column_is_rows(&is)) {
		batch_count(&b->batch, b->place + i);
		return 0;
	}
	/* The statement gives NULL for rows that do not meet the value's conditions. */
	is.not_null &= !b->columns->filter[i - b->n_keys];
	b->skips_null = b->columns->distinct[i - b->n_keys];
	if (b->skips_null)
		return fill_distinct(b, i, &is);
	return batch_value(&b->batch, b->place + i, &is, b->form, b->table->file);
}

/* Fill in the next rows of the slice's groups. */
static void fill_groups(struct columnar *b)
{
	b->skips_null = true;
	batch_group(&b->batch, b->n_keys, BATCH_STEPS - b->values_left--, b->form);
}

/* Fill the next slice of the batch. Return 1, 0 at the end of the batch, or -errno. */
static int fill(struct columnar *b)
{
	const char *name = b->table->file;
	int first = b->place, row, err = 0;

	if (!batch_slice(&b->batch))
		return 0;
	b->skips_null = false;
	if (b->place)
		batch_places(&b->batch, 0);
	for (int i = 0; !err && i < b->n_keys; i++)
		err = batch_key(&b->batch, first + i, b->type[i], b->most - b->columns->numbered, b->join, name, &row);
	if (err == -ENOSPC)
		return no_room(b, COLUMNS_NONE, row);
	b->values_left = b->grouped ? BATCH_STEPS : b->n - b->n_keys;
	if (!err && b->grouped)
		fill_groups(b);
	else if (!err && b->columns->numbered)
		batch_number(&b->batch, b->most - 1, 0);
	else if (!err && b->values_left)
		err = fill_value(b);
	return err ?: 1;
}

/* Fill in the next of several values of the slice. The result is the same as for fill(). */
static int fill_next(struct columnar *b)
{
	if (!b->values_left)
		return fill(b);
	if (b->grouped) {
		fill_groups(b);
		return 1;
	}
	batch_number(&b->batch, b->most - 1, b->n - b->n_keys - b->values_left + 1);
	return fill_value(b) ?: 1;
}

int columnar_rows(struct columnar *b)
{
	struct batch *batch = &b->batch;
	int rc;

	for (;;) {
		/* A NULL among distinct values has no row. */
		while (b->skips_null && batch->next < batch->n && batch->null[batch->next])
			batch->next++;
		if (columnar_ready(b))
			return 1;
		rc = fill_next(b);
		if (!rc)
			rc = next_batch(b);
		if (rc != 1)
			return rc;
	}
}

/* -- records ------------------------------------------------------------------------- */

/* Append a field of the row. Return 0 or -errno. */
static int append(const struct columnar *b, int i, char **to, size_t *used, size_t *room)
{
	const struct fpisa_column *c = &b->table->schema.column[b->columns->column[i]];
	size_t len = 0;
	const char *text = batch_text(&b->batch, i, b->batch.at, &len);

	if (!text && c->not_null)
		return batch_refuse_null(c, b->table->file);
	if (text && c->type == FPISA_COLUMN_TEXT && memchr(text, 0, len))
		return fpisa_fail(-EINVAL, "%s: column %s: a text has a zero byte, which is not supported; remove it",
				  b->table->file, c->name);
	if (text && (c->type == FPISA_COLUMN_DATE || c->type == FPISA_COLUMN_TIMESTAMP) &&
	    !fpisa_text_valid(c, text, len))
		return fpisa_fail(-EINVAL, "%s: column %s: '%.*s' is not in the years 1 to 9999; store it as text",
				  b->table->file, c->name, (int)len, text);
	return columns_field(text, len, to, used, room);
}

int columnar_record(struct columnar *b, char **to, size_t *used, size_t *room)
{
	int rc;

	while (!b->batch.rows.release || b->batch.at == b->batch.rows.length) {
		rc = next_batch(b);
		if (rc != 1)
			return rc;
	}
	rc = 0;
	for (int i = 0; !rc && i < b->n; i++)
		rc = append(b, i, to, used, room);
	b->batch.at++;
	return rc ?: 1;
}
