// SPDX-License-Identifier: GPL-2.0-only
/* The columns of a query. columns.h documents the functions. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "lib/base/error.h"
#include "query/lib/member.h"

/* -- finding columns --------------------------------------------------------------- */

/* Find the columns of the list "a,b". A type may follow each name. "" names no column. */
static int find_columns(const struct columns *c, const char *list, int *out, int *n)
{
	*n = 0;
	for (const char *at = *list ? list : NULL, *end; at; at = *end ? end + 1 : NULL) {
		end = strchrnul(at, ',');
		if (*n == FPISA_COLUMNS_MOST)
			return fpisa_fail(-EINVAL, "'%.100s' names more than %d columns; name fewer columns", list,
					  FPISA_COLUMNS_MOST);
		out[*n] = schema_find_typed(&c->table->schema, at, (size_t)(end - at), c->table->file);
		if (out[(*n)++] < 0)
			return -EINVAL;
	}
	return 0;
}

/* Parse the conditions of value `i`. A value of a column that is never NULL must not be NULL if they hold. */
static int find_filter(struct columns *c, int i, const struct fpisa_value_entry *e)
{
	struct where *w = c->filter[i] = calloc(1, sizeof(*w));
	char *text = strndup(e->filter, e->filter_len);
	int err;

	if (!w || !text)
		err = fpisa_fail(-ENOMEM, "%s: not enough memory for conditions; " FPISA_MORE_MEMORY, c->table->file);
	else
		err = where_parse(w, &c->table->schema, text, c->table->file);
	free(text);
	if (!err && columns_value(c, i)->not_null && c->value[i] != COLUMNS_ROWS)
		w->term[w->n++] = (struct where_term){.column = c->value[i], .is = WHERE_NEVER_NULL};
	return err;
}

static int find_value(struct columns *c, int i, const struct fpisa_value_entry *e)
{
	const struct schema *schema = &c->table->schema;
	const struct fpisa_column *is;

	c->distinct[i] = e->distinct;
	c->value[i] = *e->text == '*' && e->len == 1 && !e->distinct ?
			      COLUMNS_ROWS :
			      schema_find_typed(schema, e->text, e->len, c->table->file);
	if (c->value[i] < COLUMNS_ROWS)
		return -EINVAL;
	is = columns_value(c, i);
	if (!fpisa_column_form(is) && !e->distinct)
		return fpisa_fail(-EINVAL, "%s: column %s is %s; --value requires a number, a date or a timestamp",
				  c->table->file, is->name, fpisa_column_type_name(is->type));
	return e->filter ? find_filter(c, i, e) : 0;
}

static int find_values(struct columns *c, const char *list, const struct fpisa_query_open *want)
{
	const char *at = list;
	struct fpisa_value_entry e;
	int rc, err = 0;

	c->numbered = want->numbered;
	while (!err && (rc = fpisa_value_next(&at, &e))) {
		if (rc < 0 || (!c->numbered && (c->n_values || e.filter || e.distinct || *e.text == '*')))
			return fpisa_fail(-EINVAL, "'%.100s' is not a column", list);
		if (c->n_values == FPISA_COLUMNS_MOST)
			return fpisa_fail(-EINVAL, "'%.100s' names more than %d columns; name fewer columns", list,
					  FPISA_COLUMNS_MOST);
		err = find_value(c, c->n_values++, &e);
	}
	return err;
}

void columns_free(struct columns *c)
{
	for (int i = 0; i < c->n_values; i++)
		if (c->filter[i]) {
			where_free(c->filter[i]);
			free(c->filter[i]);
			c->filter[i] = NULL;
		}
}

static const struct fpisa_column *column_on(const struct columns *c, int i)
{
	return &c->table->schema.column[c->on[i]];
}

/* Check the columns of the join key. If the query has groups, the key of the groups must begin with the join key. */
static int check_on(const struct columns *c, int kind)
{
	for (int i = 0; i < c->n_on; i++) {
		const struct fpisa_column *is = column_on(c, i);

		if (is->type == FPISA_COLUMN_TEXT)
			return fpisa_fail(
				-EINVAL,
				"%s: column %s is text, which join keys do not support; join by numbers or dates",
				c->table->file, is->name);
		if (kind == FPISA_QUERY_TABLE && (i >= c->n_keys || c->key[i] != c->on[i]))
			return fpisa_fail(-EINVAL, "%s: column %s is in the join's key; name this column first in --by",
					  c->table->file, is->name);
		if (kind == FPISA_QUERY_TABLE && !is->not_null)
			return fpisa_fail(
				-EINVAL,
				"%s: column %s may be NULL; in a join, name only columns in --by that are not null",
				c->table->file, is->name);
	}
	return 0;
}

int columns_find(struct columns *c, const struct partition *table, const struct fpisa_query_open *want,
		 const char *const strings[FPISA_QUERY_STRINGS])
{
	const int kind = want->kind;
	int err;

	*c = (struct columns){.table = table};
	err = find_values(c, strings[FPISA_STRING_VALUE], want);
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
	for (int i = 0; i < c->n_values; i++) {
		if (c->value[i] != COLUMNS_ROWS)
			used[c->value[i]] = true;
		for (int k = 0; c->filter[i] && k < c->filter[i]->n; k++)
			used[c->filter[i]->term[k].column] = true;
	}
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
		return fpisa_fail(-EINVAL,
				  "a join needs the same number of columns of both tables; name them in --on, as in "
				  "a=b,c=d");
	for (int i = 0; i < c->n_on; i++) {
		const struct fpisa_column *a = column_on(c, i), *b = column_on(other, i);

		char of_a[FPISA_COLUMN_TYPE_MOST], of_b[FPISA_COLUMN_TYPE_MOST];

		if (a->type == b->type && a->scale == b->scale &&
		    fpisa_key_least(a) - !a->not_null == fpisa_key_least(b) - !b->not_null)
			continue;
		fpisa_column_type_text(a, of_a);
		fpisa_column_type_text(b, of_b);
		return fpisa_fail(-EINVAL,
				  "%s: column %s is %s, and %s: %s is %s; columns of a join must have the same type",
				  c->table->file, a->name, of_a, other->table->file, b->name, of_b);
	}
	return 0;
}

uint64_t columns_doubles(const struct columns *c, uint32_t form)
{
	uint64_t doubles = 0;

	for (int i = 0; c->numbered && fpisa_form_is_integer(form) && i < c->n_values; i++)
		doubles |= (uint64_t)(fpisa_column_is_float(columns_value(c, i)) && !c->distinct[i]) << i;
	return doubles;
}

int columns_check_form(const struct columns *c, uint32_t form, bool direct)
{
	const uint64_t doubles = direct && form == FPISA_FORM_INT128 ? columns_doubles(c, form) : 0;
	char type[FPISA_COLUMN_TYPE_MOST];

	for (int i = 0; i < c->n_values; i++) {
		const struct fpisa_column *is = columns_value(c, i);

		if (fpisa_column_is_rows(is) || c->distinct[i] || fpisa_column_fits(is, form) || doubles >> i & 1)
			continue;
		fpisa_column_type_text(is, type);
		return fpisa_fail(-EINVAL, "%s: column %s is %s and needs --values %s, but the query has --values %s",
				  c->table->file, is->name, type, fpisa_form_name(fpisa_column_form(is)),
				  fpisa_form_name(form));
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
	return fpisa_fail(-EINVAL, "%s: the join's key takes %u bytes, but the query's filter has --filter-bytes %u",
			  c->table->file, bytes, filter_bytes);
}

/* -- fields of a row -------------------------------------------------------------- */

/* List the columns of the key and, unless `value` is COLUMNS_NONE, of the value that follows. Return how many. */
static int list_parts(const struct columns *c, int value, int part[FPISA_COLUMNS_MOST + 1])
{
	memcpy(part, c->key, (size_t)c->n_keys * sizeof(*part));
	if (value == COLUMNS_NONE)
		return c->n_keys;
	part[c->n_keys] = c->value[value];
	return c->n_keys + 1;
}

int columns_no_room(const struct columns *c, const char *place, uint32_t key_bytes, int value,
		    const size_t len[FPISA_COLUMNS_MOST + 1])
{
	char columns[256] = "";
	size_t need = c->numbered, used = 0;
	int part[FPISA_COLUMNS_MOST + 1], n_parts = list_parts(c, value, part);

	for (int i = 0; i < n_parts; i++) {
		const struct fpisa_column *is = &c->table->schema.column[part[i]];
		/* A NULL among distinct values has no key. */
		size_t n = fpisa_key_least(is) - (i == c->n_keys && !is->not_null) + len[i];

		need += n;
		if (used < sizeof(columns))
			used += (size_t)snprintf(columns + used, sizeof(columns) - used, "%s%s %zu", i ? ", " : "",
						 is->name, n);
	}
	if (c->numbered && used < sizeof(columns))
		snprintf(columns + used, sizeof(columns) - used, "%snumber of a value 1", used ? ", " : "");
	return fpisa_fail(-ENOSPC, "%s: the key needs %zu bytes (%s), but the query's keys have %u: %s", place, need,
			  columns, key_bytes,
			  need > FPISA_QUERY_KEY_BYTES ? "the limit is 32; use fewer or shorter columns" :
							 "create the query with more --key-bytes");
}

/* Report that the key of this row of a text file is longer than the query's keys. `value` is as above. */
static int no_room(const struct columns *c, uint32_t key_bytes, int value, const struct fpisa_field *field)
{
	size_t len[FPISA_COLUMNS_MOST + 1] = {0};
	char place[TEXT_PLACE];
	int part[FPISA_COLUMNS_MOST + 1], n = list_parts(c, value, part);

	for (int i = 0; i < n; i++)
		if (c->table->schema.column[part[i]].type == FPISA_COLUMN_TEXT && !field[part[i]].null)
			len[i] = field[part[i]].len;
	return columns_no_room(c, text_place(&c->table->text, place), key_bytes, value, len);
}

int columns_key(const struct columns *c, const struct fpisa_field *field, uint32_t key_bytes, struct fpisa_row *r)
{
	uint8_t key[FPISA_QUERY_KEY_BYTES] = {0};
	int used = 0;

	for (int i = 0; i < c->n_keys; i++) {
		int k = c->key[i];

		int rc = fpisa_key_put(key, (size_t)used, key_bytes - c->numbered, &c->table->schema.column[k],
				       &field[k]);

		if (rc == -ENOSPC)
			return no_room(c, key_bytes, COLUMNS_NONE, field);
		if (rc < 0)
			return text_bad_value(&c->table->text, k, &field[k], rc);
		used = rc;
	}
	memcpy(r->key, key, sizeof(key));
	return used;
}

int columns_distinct(const struct columns *c, int i, const struct fpisa_field *field, uint32_t used, uint32_t key_bytes,
		     struct fpisa_row *r)
{
	struct fpisa_column is = *columns_value(c, i);
	const struct fpisa_field *f = &field[c->value[i]];
	int rc;

	if (f->null)
		return 0;
	is.not_null = 1;
	rc = fpisa_key_put((uint8_t *)r->key, used, key_bytes - 1, &is, f);
	if (rc == -ENOSPC)
		return no_room(c, key_bytes, i, field);
	return rc < 0 ? text_bad_value(&c->table->text, c->value[i], f, rc) : 1;
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
			return fpisa_fail(-ENOMEM, "not enough memory for rows; " FPISA_MORE_MEMORY);
		*to = more;
	}
	if (n)
		memcpy(*to + *used, from, n);
	*used += n;
	return 0;
}

int columns_field(const char *text, size_t len, char **to, size_t *used, size_t *room)
{
	uint32_t n = text ? (uint32_t)len : FPISA_QUERY_NULL;

	return put(to, used, room, &n, sizeof(n)) ?: put(to, used, room, text, text ? len : 0);
}

int columns_record(const struct columns *c, const struct fpisa_field *field, char **to, size_t *used, size_t *room)
{
	for (int i = 0; i < c->n_columns; i++) {
		const struct fpisa_field *f = &field[c->column[i]];
		int err = fpisa_field_check(&c->table->schema.column[c->column[i]], f);

		if (err)
			return text_bad_value(&c->table->text, c->column[i], f, err);
		err = columns_field(f->null ? NULL : f->text, f->len, to, used, room);
		if (err)
			return err;
	}
	return 1;
}
