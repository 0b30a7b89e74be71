// SPDX-License-Identifier: GPL-2.0-only
/* The columns of a query; columns.h has the contracts. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "lib/base/error.h"

/* -- finding columns --------------------------------------------------------------- */

/* Find the columns of "a,b", where each name may have a type behind it; "" names no column. */
static int find_columns(const struct columns *c, const char *list, int *out, int *n)
{
	*n = 0;
	for (const char *at = *list ? list : NULL, *end; at; at = *end ? end + 1 : NULL) {
		end = strchrnul(at, ',');
		if (*n == FPISA_COLUMNS_MOST)
			return fpisa_fail(-EINVAL, "'%.100s' is not a list of columns", list);
		out[*n] = schema_find_typed(&c->table->schema, at, (size_t)(end - at), c->table->file);
		if (out[(*n)++] < 0)
			return -EINVAL;
	}
	return 0;
}

static int find_value(struct columns *c, const char *name)
{
	const struct fpisa_column *is;

	c->value = -1;
	if (!*name)
		return 0;
	c->value = schema_find(&c->table->schema, name);
	if (c->value < 0)
		return fpisa_fail(-EINVAL, "%s: the schema has no column '%.64s'", c->table->file, name);
	is = &c->table->schema.column[c->value];
	if (is->type != FPISA_COLUMN_REAL)
		return fpisa_fail(-EINVAL, "%s: column %s is %s; --value takes real alone%s", c->table->file, name,
				  fpisa_column_type_name(is->type),
				  is->type == FPISA_COLUMN_DATE || is->type == FPISA_COLUMN_TEXT ?
					  "" :
					  ": as real in the schema a number is rounded to that when it is read");
	return 0;
}

static const struct fpisa_column *column_on(const struct columns *c, int i)
{
	return &c->table->schema.column[c->on[i]];
}

/* Check the columns of the join's key. If the query has groups, their key must begin with the join's key. */
static int check_on(const struct columns *c, int kind)
{
	for (int i = 0; i < c->n_on; i++) {
		const struct fpisa_column *is = column_on(c, i);

		if (is->type == FPISA_COLUMN_TEXT)
			return fpisa_fail(-EINVAL, "%s: column %s is text; join keys are numbers and dates",
					  c->table->file, is->name);
		if (kind == FPISA_QUERY_TABLE && (i >= c->n_keys || c->key[i] != c->on[i]))
			return fpisa_fail(-EINVAL,
					  "%s: column %s is in the join's key: the key of groups has to begin with it",
					  c->table->file, is->name);
		if (kind == FPISA_QUERY_TABLE && !is->not_null)
			return fpisa_fail(-EINVAL,
					  "%s: column %s may be NULL; groups of a join are by columns that are not",
					  c->table->file, is->name);
	}
	return 0;
}

int columns_find(struct columns *c, const struct partition *table, int kind,
		 const char *const strings[FPISA_QUERY_STRINGS])
{
	int err;

	*c = (struct columns){.table = table};
	err = find_value(c, strings[FPISA_STRING_VALUE]);
	if (!err)
		err = find_columns(c, strings[FPISA_STRING_BY], c->key, &c->n_keys);
	if (!err)
		err = find_columns(c, strings[FPISA_STRING_COLUMNS], c->column, &c->n_columns);
	if (!err)
		err = find_columns(c, strings[FPISA_STRING_ON], c->on, &c->n_on);
	if (!err)
		err = check_on(c, kind);
	if (err || c->n_columns || kind == FPISA_QUERY_TABLE)
		return err;
	for (int i = 0; i < table->schema.n; i++)
		c->column[c->n_columns++] = i;
	return 0;
}

void columns_mark(const struct columns *c, bool used[FPISA_COLUMNS_MOST])
{
	if (c->value >= 0)
		used[c->value] = true;
	for (int i = 0; i < c->n_keys; i++)
		used[c->key[i]] = true;
	for (int i = 0; i < c->n_columns; i++)
		used[c->column[i]] = true;
	for (int i = 0; i < c->n_on; i++)
		used[c->on[i]] = true;
}

int columns_check_join(const struct columns *c, const struct columns *other)
{
	if (!c->n_on || other->n_on != c->n_on)
		return fpisa_fail(-EINVAL, "a join is of columns of both tables, as many of each");
	for (int i = 0; i < c->n_on; i++) {
		const struct fpisa_column *a = column_on(c, i), *b = column_on(other, i);

		if (a->type != b->type)
			return fpisa_fail(-EINVAL,
					  "%s: column %s is %s, and %s: %s is %s; columns of a join are of one type",
					  c->table->file, a->name, fpisa_column_type_name(a->type), other->table->file,
					  b->name, fpisa_column_type_name(b->type));
	}
	return 0;
}

int columns_check_filter(const struct columns *c, int kind, uint32_t filter_bytes)
{
	uint32_t bytes = 0;

	for (int i = 0; i < c->n_on; i++)
		bytes += (uint32_t)fpisa_key_least(column_on(c, i)) - !column_on(c, i)->not_null;
	if (!c->n_on || bytes == filter_bytes || (bytes < filter_bytes && kind == FPISA_QUERY_JOIN))
		return 0;
	return fpisa_fail(-EINVAL, "%s: the join's key takes %u bytes, and the query's filter has --filter-bytes %u",
			  c->table->file, bytes, filter_bytes);
}

/* -- fields of a row -------------------------------------------------------------- */

/* Report that the row's key is longer than the query's keys, and how long it is. */
static int no_room(const struct columns *c, uint32_t key_bytes, const struct fpisa_field *field)
{
	char columns[256] = "";
	size_t need = 0, used = 0;

	for (int i = 0; i < c->n_keys; i++) {
		const struct fpisa_column *is = &c->table->schema.column[c->key[i]];
		const struct fpisa_field *f = &field[c->key[i]];
		size_t n = fpisa_key_least(is) + (is->type == FPISA_COLUMN_TEXT && !f->null ? f->len : 0);

		need += n;
		if (used < sizeof(columns))
			used += (size_t)snprintf(columns + used, sizeof(columns) - used, "%s%s %zu", i ? ", " : "",
						 is->name, n);
	}
	return text_no_room(&c->table->text, need, key_bytes, columns);
}

int columns_key(const struct columns *c, const struct fpisa_field *field, uint32_t key_bytes, struct fpisa_row *r)
{
	uint8_t key[FPISA_QUERY_KEY_BYTES] = {0};
	int used = 0;

	for (int i = 0; i < c->n_keys; i++) {
		int k = c->key[i];

		int rc = fpisa_key_put(key, (size_t)used, key_bytes, &c->table->schema.column[k], &field[k]);

		if (rc == -ENOSPC)
			return no_room(c, key_bytes, field);
		if (rc < 0)
			return text_bad_value(&c->table->text, k, &field[k], rc);
		used = rc;
	}
	memcpy(r->key, key, sizeof(key));
	return 0;
}

int columns_join_key(const struct columns *c, const struct fpisa_field *field, uint32_t filter_bytes,
		     struct fpisa_row *r)
{
	uint8_t key[FPISA_QUERY_KEY_BYTES] = {0};
	int used = 0;

	for (int i = 0; i < c->n_on; i++) {
		struct fpisa_column is = *column_on(c, i);
		const struct fpisa_field *f = &field[c->on[i]];

		if (f->null)
			return 0;
		is.not_null = 1;
		used = fpisa_key_put(key, (size_t)used, filter_bytes, &is, f);
		if (used < 0)
			return text_bad_value(&c->table->text, c->on[i], f, used);
	}
	memcpy(r->key, key, sizeof(key));
	return 1;
}

static int put(char **to, size_t *used, size_t *room, const void *from, size_t n)
{
	char *more;

	while (*used + n > *room) {
		*room = *room ? 2 * *room : 65536;
		more = realloc(*to, *room);
		if (!more)
			return fpisa_fail(-ENOMEM, "no memory for rows");
		*to = more;
	}
	memcpy(*to + *used, from, n);
	*used += n;
	return 0;
}

int columns_record(const struct columns *c, const struct fpisa_field *field, char **to, size_t *used, size_t *room)
{
	for (int i = 0; i < c->n_columns; i++) {
		const struct fpisa_field *f = &field[c->column[i]];
		uint32_t len = f->null ? FPISA_QUERY_NULL : (uint32_t)f->len;
		int err = fpisa_field_check(&c->table->schema.column[c->column[i]], f);

		if (err)
			return text_bad_value(&c->table->text, c->column[i], f, err);
		err = put(to, used, room, &len, sizeof(len)) ?: put(to, used, room, f->text, f->null ? 0 : f->len);
		if (err)
			return err;
	}
	return 1;
}
