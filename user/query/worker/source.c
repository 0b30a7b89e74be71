// SPDX-License-Identifier: GPL-2.0-only
/* Rows for a query; source.h has the contracts. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fpisa-query.h"
#include "fpisa/query/order.h"
#include "lib/base/error.h"
#include "source.h"

#define SLICE 4096   /* rows, before the network has its turn */
#define CHECKED 4096 /* rows, before the file is looked at again */
#define UNFIT 16384  /* rows in sequence that the query is not about, the same */

/* -- columns ----------------------------------------------------------------- */

/* The columns of "a,b", each with a type behind it or not; of "" none. */
static int find_columns(const struct source *s, const char *list, int *out, int *n)
{
	*n = 0;
	for (const char *at = *list ? list : NULL, *end; at; at = *end ? end + 1 : NULL) {
		end = strchrnul(at, ',');
		if (*n == FPISA_COLUMNS_MOST)
			return fpisa_fail(-EINVAL, "'%.100s' is not a list of columns", list);
		out[*n] = schema_find_typed(&s->table.schema, at, (size_t)(end - at), s->table.file);
		if (out[(*n)++] < 0)
			return -EINVAL;
	}
	return 0;
}

static int find_value(struct source *s, const char *name)
{
	const struct fpisa_column *c;

	s->value = -1;
	if (!*name)
		return 0;
	s->value = schema_find(&s->table.schema, name);
	if (s->value < 0)
		return fpisa_fail(-EINVAL, "%s: the schema has no column '%.64s'", s->table.file, name);
	c = &s->table.schema.column[s->value];
	if (c->type != FPISA_COLUMN_REAL)
		return fpisa_fail(-EINVAL, "%s: column %s is %s; --value takes real alone%s", s->table.file, name,
				  fpisa_column_type_name(c->type),
				  c->type == FPISA_COLUMN_DATE || c->type == FPISA_COLUMN_TEXT ?
					  "" :
					  ": as real in the schema a number is rounded to that when it is read");
	return 0;
}

static const struct fpisa_column *column_on(const struct source *s, int i)
{
	return &s->table.schema.column[s->on[i]];
}

/* Groups of a join have its key as the first bytes of theirs. */
static int check_on(const struct source *s)
{
	for (int i = 0; i < s->n_on; i++) {
		const struct fpisa_column *c = column_on(s, i);

		if (c->type == FPISA_COLUMN_TEXT)
			return fpisa_fail(-EINVAL, "%s: column %s is text; join keys are numbers and dates",
					  s->table.file, c->name);
		if (s->want.kind == FPISA_QUERY_TABLE && (i >= s->n_keys || s->key[i] != s->on[i]))
			return fpisa_fail(-EINVAL,
					  "%s: column %s is in the join's key: the key of groups has to begin with it",
					  s->table.file, c->name);
		if (s->want.kind == FPISA_QUERY_TABLE && !c->not_null)
			return fpisa_fail(-EINVAL,
					  "%s: column %s may be NULL; groups of a join are by columns that are not",
					  s->table.file, c->name);
	}
	return 0;
}

static int find_all(struct source *s, const char *const strings[FPISA_QUERY_STRINGS])
{
	int err = find_value(s, strings[FPISA_STRING_VALUE]);

	if (!err)
		err = find_columns(s, strings[FPISA_STRING_BY], s->key, &s->n_keys);
	if (!err)
		err = find_columns(s, strings[FPISA_STRING_COLUMNS], s->column, &s->n_columns);
	if (!err)
		err = where_parse(&s->where, &s->table.schema, strings[FPISA_STRING_WHERE], s->table.file);
	if (!err)
		err = find_columns(s, strings[FPISA_STRING_ON], s->on, &s->n_on);
	if (!err)
		err = check_on(s);
	if (err || s->n_columns || s->want.kind == FPISA_QUERY_TABLE)
		return err;
	for (int i = 0; i < s->table.schema.n; i++)
		s->column[s->n_columns++] = i;
	return 0;
}

/* Which columns' values are looked at. */
static void mark(const struct source *s, bool used[FPISA_COLUMNS_MOST])
{
	if (s->value >= 0)
		used[s->value] = true;
	for (int i = 0; i < s->n_keys; i++)
		used[s->key[i]] = true;
	for (int i = 0; i < s->n_columns; i++)
		used[s->column[i]] = true;
	for (int i = 0; i < s->n_on; i++)
		used[s->on[i]] = true;
	for (int i = 0; i < s->where.n; i++)
		used[s->where.term[i].column] = true;
}

int source_open(struct source *s, int directory, const struct fpisa_query_open *want,
		const char *const strings[FPISA_QUERY_STRINGS], const struct parquet_wait *wait)
{
	bool used[FPISA_COLUMNS_MOST] = {false};
	int err;

	*s = (struct source){.want = *want};
	err = partition_open(&s->table, directory, strings[FPISA_STRING_TABLE]) ?: find_all(s, strings);
	if (!err)
		mark(s, used);
	if (!err)
		err = partition_begin(&s->table, used, wait);
	s->reduces = want->kind != FPISA_QUERY_SCAN && (want->pruning == FPISA_PRUNING_WORKERS || want->preaggregate);
	return err;
}

int source_open_other(struct source *other, const struct source *s, int directory,
		      const char *const strings[FPISA_QUERY_STRINGS], const struct parquet_wait *wait)
{
	const struct fpisa_query_open want = {.kind = FPISA_QUERY_JOIN};
	const char *const of_it[FPISA_QUERY_STRINGS] = {
		[FPISA_STRING_TABLE] = strings[FPISA_STRING_JOIN],
		[FPISA_STRING_VALUE] = "",
		[FPISA_STRING_BY] = "",
		[FPISA_STRING_COLUMNS] = "",
		[FPISA_STRING_WHERE] = strings[FPISA_STRING_JOIN_WHERE],
		[FPISA_STRING_JOIN] = "",
		[FPISA_STRING_ON] = strings[FPISA_STRING_THERE],
		[FPISA_STRING_THERE] = "",
		[FPISA_STRING_JOIN_WHERE] = "",
	};
	int err = source_open(other, directory, &want, of_it, wait);

	if (!err && (!s->n_on || other->n_on != s->n_on))
		err = fpisa_fail(-EINVAL, "a join is of columns of both tables, as many of each");
	for (int i = 0; !err && i < s->n_on; i++) {
		const struct fpisa_column *a = column_on(s, i), *b = column_on(other, i);

		if (a->type != b->type)
			err = fpisa_fail(-EINVAL,
					 "%s: column %s is %s, and %s: %s is %s; columns of a join are of one type",
					 s->table.file, a->name, fpisa_column_type_name(a->type), other->table.file,
					 b->name, fpisa_column_type_name(b->type));
	}
	return err;
}

void source_close(struct source *s)
{
	partition_close(&s->table);
	fpisa_groups_free(&s->groups);
	fpisa_top_free(&s->top);
	where_free(&s->where);
	free(s->null_rows);
	s->null_rows = NULL;
}

static bool value_may_be_null(const struct source *s)
{
	return s->value >= 0 && !s->table.schema.column[s->value].not_null;
}

/* Do join keys fit into those of the query's filter? */
static int check_filter(const struct source *s)
{
	uint32_t bytes = 0;

	for (int i = 0; i < s->n_on; i++)
		bytes += (uint32_t)fpisa_key_least(column_on(s, i)) - !column_on(s, i)->not_null;
	if (!s->n_on || bytes == s->filter_bytes || (bytes < s->filter_bytes && s->want.kind == FPISA_QUERY_JOIN))
		return 0;
	return fpisa_fail(-EINVAL, "%s: the join's key takes %u bytes, and the query's filter has --filter-bytes %u",
			  s->table.file, bytes, s->filter_bytes);
}

/* What is wrong with a row may be that somebody writes the file: then that is what is said. */
static int checked(struct source *s, int rc)
{
	int err = rc < 0 ? partition_unchanged(&s->table) : 0;

	return err ?: rc;
}

int source_begin(struct source *s, uint32_t key_bytes, uint32_t filter_bytes)
{
	int err = checked(s, partition_rewind(&s->table));

	s->key_bytes = key_bytes;
	s->filter_bytes = filter_bytes;
	if (!err)
		err = check_filter(s);
	s->read = s->nulls = s->given = s->next = 0;
	s->n_null_rows = 0;
	s->n_terms = s->next_term = 0;
	s->sum.acc.rows = s->count_left = 0;
	s->over = false;
	fpisa_groups_free(&s->groups);
	fpisa_top_free(&s->top);
	if (!err && key_bytes == 4 && s->want.kind == FPISA_QUERY_TABLE && (value_may_be_null(s) || s->reduces))
		err = fpisa_fail(-EINVAL,
				 "rows with keys of 4 bytes have no count, which %s takes; the query needs --key-bytes 8",
				 s->reduces ? "adding up by key before" : "a column that may be NULL");
	if (!err && s->reduces)
		err = s->want.kind == FPISA_QUERY_TABLE ? fpisa_groups_init(&s->groups, key_bytes, 0) :
							  fpisa_top_init(&s->top, s->want.limit);
	return err;
}

/* -- rows of the table ----------------------------------------------------------- */

static int keep_null(struct source *s, uint64_t place)
{
	uint64_t *more;

	s->nulls++;
	if (s->want.kind != FPISA_QUERY_TOPN || s->n_null_rows == s->want.limit)
		return 0;
	if (s->n_null_rows == s->room) {
		s->room = s->room ? 2 * s->room : 256;
		more = realloc(s->null_rows, s->room * sizeof(*more));
		if (!more)
			return fpisa_fail(-ENOMEM, "no memory for rows");
		s->null_rows = more;
	}
	s->null_rows[s->n_null_rows++] = place;
	return 0;
}

/* The row's key is longer than those of the query: how long it is. */
static int no_room(const struct source *s, const struct fpisa_field *field)
{
	char columns[256] = "";
	size_t need = 0, used = 0;

	for (int i = 0; i < s->n_keys; i++) {
		const struct fpisa_column *c = &s->table.schema.column[s->key[i]];
		const struct fpisa_field *f = &field[s->key[i]];
		size_t n = fpisa_key_least(c) + (c->type == FPISA_COLUMN_TEXT && !f->null ? f->len : 0);

		need += n;
		if (used < sizeof(columns))
			used += (size_t)snprintf(columns + used, sizeof(columns) - used, "%s%s %zu", i ? ", " : "",
						 c->name, n);
	}
	return text_no_room(&s->table.text, need, s->key_bytes, columns);
}

static int make_key(struct source *s, const struct fpisa_field *field, struct fpisa_row *r)
{
	uint8_t key[FPISA_QUERY_KEY_BYTES] = {0};
	int used = 0;

	for (int i = 0; i < s->n_keys; i++) {
		int k = s->key[i];

		int rc = fpisa_key_put(key, (size_t)used, s->key_bytes, &s->table.schema.column[k], &field[k]);

		if (rc == -ENOSPC)
			return no_room(s, field);
		if (rc < 0)
			return text_bad_value(&s->table.text, k, &field[k], rc);
		used = rc;
	}
	memcpy(r->key, key, sizeof(key));
	return 0;
}

/* The join key, and where the row stands. 1, 0: it has a NULL, which is in no join, or -errno. */
static int make_join_key(struct source *s, const struct fpisa_field *field, uint64_t place, struct fpisa_row *r)
{
	uint8_t key[FPISA_QUERY_KEY_BYTES] = {0};
	int used = 0;

	for (int i = 0; i < s->n_on; i++) {
		struct fpisa_column c = *column_on(s, i);
		const struct fpisa_field *f = &field[s->on[i]];

		if (f->null)
			return 0;
		c.not_null = 1;
		used = fpisa_key_put(key, (size_t)used, s->filter_bytes, &c, f);
		if (used < 0)
			return text_bad_value(&s->table.text, s->on[i], f, used);
	}
	if (s->key_bytes > s->filter_bytes)
		memcpy(key + s->filter_bytes, &place, sizeof(place));
	memcpy(r->key, key, sizeof(key));
	return 1;
}

/* The next row that the query is about: 1, 0 at the end, SOURCE_LATER, or -errno. */
static int next_row(struct source *s, struct fpisa_field field[FPISA_COLUMNS_MOST], uint64_t *place)
{
	int unfit = 0, rc;

	while ((rc = text_row(&s->table.text, field, place)) > 0) {
		if (++s->read % CHECKED == 0) {
			rc = partition_unchanged(&s->table);
			if (rc)
				return rc;
		}
		rc = where_holds(&s->where, &s->table.text, field);
		if (rc)
			return rc;
		if (++unfit == UNFIT)
			return SOURCE_LATER;
	}
	s->over = !rc;
	return rc ?: partition_whole(&s->table);
}

/* The next of them that counts. */
static int next_of_table(struct source *s, struct fpisa_row *r)
{
	struct fpisa_field field[FPISA_COLUMNS_MOST];
	const struct fpisa_field *v;
	uint64_t place;
	int rc;

	while ((rc = next_row(s, field, &place)) == 1) {
		*r = (struct fpisa_row){.count = 1};
		v = s->value >= 0 ? &field[s->value] : NULL;
		if (v && v->null) {
			rc = keep_null(s, place);
			if (rc)
				return rc;
			if (s->want.kind == FPISA_QUERY_TOPN)
				continue;
			/* It makes a group, and adds nothing to it. */
			r->count = FPISA_ROW_NO_SUM | FPISA_ROW_NO_ORDER;
		} else if (v) {
			rc = fpisa_parse_real(v->text, &r->value);
			if (rc)
				return text_bad_value(&s->table.text, s->value, v, rc);
		}
		if (s->want.kind == FPISA_QUERY_TOPN) {
			r->key[0] = place;
			return 1;
		}
		if (s->want.kind == FPISA_QUERY_JOIN) {
			rc = make_join_key(s, field, place, r);
			if (rc)
				return rc;
			continue;
		}
		return make_key(s, field, r) ?: 1;
	}
	return rc;
}

/* -- reduced by the worker itself ---------------------------------------------------- */

static int reduce(struct source *s)
{
	struct fpisa_row r;
	int rc = 1;

	if (!s->reduces || s->over)
		return 0;
	for (int i = 0; rc > 0 && i < SLICE; i++) {
		struct fpisa_top_row top;

		rc = next_of_table(s, &r);
		if (rc <= 0 || rc == SOURCE_LATER)
			break;
		if (s->want.kind == FPISA_QUERY_TABLE) {
			rc = fpisa_groups_add(&s->groups, &r) ?: 1;
			continue;
		}
		top = (struct fpisa_top_row){.place = fpisa_order_key(r.value), .row = r.key[0]};
		if (s->want.ascending)
			top.place = ~top.place;
		fpisa_top_add(&s->top, &top);
	}
	if (!rc && s->want.kind == FPISA_QUERY_TOPN)
		fpisa_top_settle(&s->top);
	return rc;
}

int source_reduce(struct source *s)
{
	return checked(s, reduce(s));
}

static int next_of_top(struct source *s, struct fpisa_row *r)
{
	const struct fpisa_top_row *top = &s->top.rows[s->next];

	if (s->next == s->top.n)
		return 0;
	*r = (struct fpisa_row){.count = 1};
	r->key[0] = top->row;
	r->value = fpisa_order_value(s->want.ascending ? ~top->place : top->place);
	s->next++;
	return 1;
}

/*
 * The rows of a group, some at a time: its sum as terms, of which the first has the count, its least and
 * greatest value, and what of the count is beyond 30 bits.
 */
static void more_terms(struct source *s, const struct fpisa_query_group *g, bool first)
{
	int n = fpisa_group_terms(&s->sum, s->term);

	for (int i = 0; i < n; i++)
		s->count[i] = FPISA_ROW_NO_ORDER;
	if (first && s->value >= 0 && g->min <= g->max) {
		s->term[n] = fpisa_order_value(g->min);
		s->count[n++] = FPISA_ROW_NO_SUM;
		s->term[n] = fpisa_order_value(g->max);
		s->count[n++] = FPISA_ROW_NO_SUM;
	}
	if (!n) {
		s->term[n] = 0;
		s->count[n++] = FPISA_ROW_NO_SUM | FPISA_ROW_NO_ORDER;
	}
	s->n_terms = n;
	s->next_term = 0;
}

static int next_of_groups(struct source *s, struct fpisa_row *r)
{
	const struct fpisa_query_group *g;
	uint32_t part;

	while (s->next_term == s->n_terms) {
		if (s->sum.acc.rows || s->count_left) {
			more_terms(s, &s->groups.group[s->next - 1], false);
			break;
		}
		if (s->next == s->groups.state.used)
			return 0;
		g = &s->groups.group[s->next++];
		fpisa_group_sum(g, &s->sum);
		s->count_left = g->count;
		if (s->value < 0 || g->min > g->max)
			s->sum.acc.rows = 0;
		more_terms(s, g, true);
	}
	g = &s->groups.group[s->next - 1];
	*r = (struct fpisa_row){.value = s->term[s->next_term], .count = s->count[s->next_term]};
	memcpy(r->key, g->key, sizeof(r->key));
	part = s->count_left < FPISA_ROW_COUNT ? (uint32_t)s->count_left : FPISA_ROW_COUNT;
	r->count |= part;
	s->count_left -= part;
	s->next_term++;
	return 1;
}

int source_next(void *arg, struct fpisa_row *row)
{
	struct source *s = arg;

	if (!s->reduces)
		return checked(s, next_of_table(s, row));
	return s->want.kind == FPISA_QUERY_TOPN ? next_of_top(s, row) : next_of_groups(s, row);
}

/* -- records ---------------------------------------------------------------------------- */

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

static int put_record(struct source *s, const struct fpisa_field *field, char **to, size_t *used, size_t *room)
{
	for (int i = 0; i < s->n_columns; i++) {
		const struct fpisa_field *f = &field[s->column[i]];
		uint32_t len = f->null ? FPISA_QUERY_NULL : (uint32_t)f->len;
		int err = fpisa_field_check(&s->table.schema.column[s->column[i]], f);

		if (err)
			return text_bad_value(&s->table.text, s->column[i], f, err);
		err = put(to, used, room, &len, sizeof(len)) ?: put(to, used, room, f->text, f->null ? 0 : f->len);
		if (err)
			return err;
	}
	return 1;
}

int source_record(struct source *s, char **to, size_t *used, size_t *room)
{
	struct fpisa_field field[FPISA_COLUMNS_MOST];
	uint64_t place;
	int rc = next_row(s, field, &place);

	if (rc == 1) {
		s->given++;
		rc = put_record(s, field, to, used, room);
	}
	return checked(s, rc);
}

int source_record_at(struct source *s, uint64_t place, char **to, size_t *used, size_t *room)
{
	struct fpisa_field field[FPISA_COLUMNS_MOST];
	uint64_t found;
	int err, rc;

	if (place > INT64_MAX)
		return fpisa_fail(-EINVAL, "%s: has no row at byte %llu", s->table.file, (unsigned long long)place);
	text_seek(&s->table.text, place);
	rc = text_row(&s->table.text, field, &found);
	/* Behind the read: what was written before is known. */
	err = partition_unchanged(&s->table);
	if (err || rc <= 0)
		return err	  ?:
			       rc ?:
				    fpisa_fail(-EINVAL, "%s: has no row at byte %llu", s->table.file,
					       (unsigned long long)place);
	return put_record(s, field, to, used, room);
}
