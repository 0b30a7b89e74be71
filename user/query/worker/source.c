// SPDX-License-Identifier: GPL-2.0-only
/* Rows for a query. source.h documents the functions. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fpisa-query.h"
#include "fpisa/query/order.h"
#include "lib/base/error.h"
#include "source.h"

#define SLICE 4096   /* number of rows in one turn, before the network has its turn */
#define CHECKED 4096 /* number of rows between two checks of the file */
/* count of a row that creates a group but adds no value to it */
#define WITHOUT_VALUE (FPISA_ROW_NO_SUM | FPISA_ROW_NO_ORDER)
#define SAMPLE 16384 /* number of rows after which a worker first decides whether to aggregate the other rows too */
#define REDUCED 4.0  /* rows in frames of an aggregated key: terms of the sum, the smallest and the largest value */
#define EVEN 0.9 /* share of the expected keys that were found earlier, if rows have any key with equal probability */
#define UNFIT 16384 /* number of consecutive rows in one turn that the query does not select */

int source_open(struct source *s, int directory, const struct fpisa_query_open *want,
		const char *const strings[FPISA_QUERY_STRINGS])
{
	bool used[FPISA_COLUMNS_MOST] = {false};
	int err;

	*s = (struct source){.want = *want};
	err = partition_open(&s->table, directory, strings[FPISA_STRING_TABLE]) ?:
		      columns_find(&s->columns, &s->table, want, strings)	?:
		      where_parse(&s->where, &s->table.schema, strings[FPISA_STRING_WHERE], s->table.file);
	if (!err)
		columns_mark(&s->columns, used);
	for (int i = 0; !err && i < s->where.n; i++)
		used[s->where.term[i].column] = true;
	if (!err)
		err = partition_begin(&s->table, used);
	s->reduces = want->kind != FPISA_QUERY_SCAN && (want->pruning == FPISA_PRUNING_WORKERS || want->preaggregate);
	s->adapts = want->kind == FPISA_QUERY_TABLE && want->preaggregate == FPISA_QUERY_ADAPT;
	return err;
}

int source_open_other(struct source *other, const struct source *s, int directory,
		      const char *const strings[FPISA_QUERY_STRINGS])
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
	int err = source_open(other, directory, &want, of_it);

	return err ?: columns_check_join(&s->columns, &other->columns);
}

void source_close(struct source *s)
{
	if (columnar_end(&s->columnar))
		partition_close(&s->table);
	reduction_end(&s->reduction);
	where_free(&s->where);
	columns_free(&s->columns);
	free(s->null_rows);
	s->null_rows = NULL;
}

/*
 * Return the error of the row. If a process has written the file, report this instead, because the write may have made
 * the row invalid.
 */
static int checked(struct source *s, int rc)
{
	int err = rc < 0 ? partition_unchanged(&s->table) : 0;

	return err ?: rc;
}

static bool is_columnar(const struct source *s)
{
	return s->table.kind == ROWS_PARQUET;
}

static int begin_columnar(struct source *s)
{
	/* The engine does not report NULLs that it leaves out. */
	const bool one = s->columns.n_values == 1 && !s->columns.numbered && columns_value(&s->columns, 0)->not_null,
		   first = s->reduces && s->want.kind == FPISA_QUERY_TOPN && one;

	if (s->want.kind == FPISA_QUERY_SCAN)
		return columnar_begin_records(&s->columnar, &s->table, &s->columns, &s->where);
	return columnar_begin(&s->columnar, &s->table, &s->columns, &s->where,
			      (struct columnar_rows){
				      .kind = s->want.kind,
				      .most = s->want.kind == FPISA_QUERY_JOIN ? s->filter_bytes : s->key_bytes,
				      .form = s->form,
				      .limit = first ? s->want.limit : 0,
				      .ascending = s->want.ascending,
				      .grouped = s->reduces && !s->adapts && s->want.kind == FPISA_QUERY_TABLE && one &&
						 columns_value(&s->columns, 0)->type == FPISA_COLUMN_REAL,
			      });
}

int source_begin(struct source *s, uint32_t key_bytes, uint32_t filter_bytes, uint32_t form)
{
	int err = checked(s, partition_rewind(&s->table));

	s->key_bytes = key_bytes;
	s->filter_bytes = filter_bytes;
	s->form = form;
	if (!err)
		err = columns_check_form(&s->columns, form, s->want.pruning != FPISA_PRUNING_NETWORK);
	if (!err)
		err = columns_check_filter(&s->columns, s->want.kind, filter_bytes);
	s->read = s->nulls = s->given = 0;
	s->n_null_rows = 0;
	s->values_left = 0;
	s->over = s->stopped = false;
	s->reduced = 0;
	s->count_at = SAMPLE / 2;
	/* Keys of 4 bytes leave no room for the counts of aggregated rows. */
	s->reduces &= !s->adapts || key_bytes > 4;
	reduction_end(&s->reduction);
	if (!err && key_bytes == 4 && s->want.kind == FPISA_QUERY_TABLE && (columns_count(&s->columns) || s->reduces))
		err = fpisa_fail(-EINVAL,
				 "%s requires a count, and rows with 4-byte keys have none; create the query with "
				 "--key-bytes 8",
				 s->reduces	     ? "aggregation at workers" :
				 s->columns.numbered ? "a list of columns" :
						       "a column that may be NULL");
	if (!err && s->reduces)
		err = reduction_begin(&s->reduction, &s->want, s->columns.n_values > 0, key_bytes, form,
				      columns_doubles(&s->columns, form));
	return err || !is_columnar(s) ? err : begin_columnar(s);
}

/* -- rows of the table ----------------------------------------------------------- */

static int keep_null(struct source *s, uint64_t place)
{
	uint64_t *more;

	s->nulls += !s->columns.numbered;
	if (s->want.kind != FPISA_QUERY_TOPN || s->n_null_rows == s->want.limit)
		return 0;
	if (s->n_null_rows == s->room) {
		s->room = s->room ? 2 * s->room : 256;
		more = realloc(s->null_rows, s->room * sizeof(*more));
		if (!more)
			return fpisa_fail(-ENOMEM, "not enough memory for rows; " FPISA_MORE_MEMORY);
		s->null_rows = more;
	}
	s->null_rows[s->n_null_rows++] = place;
	return 0;
}

/* Write the join key, and append the row's place if there is room. The result is the same as for columns_join_key(). */
static int make_join_key(const struct source *s, const struct fpisa_field *field, uint64_t place, struct fpisa_row *r)
{
	int rc = columns_join_key(&s->columns, field, s->filter_bytes, r);

	if (rc == 1 && s->key_bytes > s->filter_bytes)
		memcpy((char *)r->key + s->filter_bytes, &place, sizeof(place));
	return rc;
}

/* Write the row's place at the worker, and the short place of a value of 8 bytes or more. */
static void set_place(const struct source *s, struct fpisa_row *r, uint64_t place)
{
	r->key[0] = place;
	if (fpisa_form_is_wide(s->form))
		r->value = fpisa_short_place(r, s->form);
}

/* Take the next row that the query selects. Return 1, 0 at the end, SOURCE_LATER, or -errno. */
static int next_row(struct source *s, struct fpisa_field field[FPISA_COLUMNS_MOST], uint64_t *place)
{
	int unfit = 0, rc;

	while ((rc = text_row(&s->table.text, field, place)) > 0) {
		if (++s->read % CHECKED == 0) {
			rc = partition_check(&s->table);
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

/*
 * Take a row that is ready from a table that DuckDB reads. Return 1, 0 if the row is not sent, or -errno. Set *r to the
 * row, which is valid until more rows are read.
 */
static int take_of_columns(struct source *s, struct fpisa_row **r)
{
	uint64_t place;
	bool null;
	int err;

	*r = columnar_row(&s->columnar, &place, &null);
	if (s->want.kind == FPISA_QUERY_JOIN) {
		if (!null && s->key_bytes > s->filter_bytes)
			memcpy((char *)(*r)->key + s->filter_bytes, &place, sizeof(place));
		return !null;
	}
	err = null ? keep_null(s, place) : 0;
	if (err)
		return err;
	if (s->want.kind == FPISA_QUERY_TABLE) {
		(*r)->count = null ? WITHOUT_VALUE : (*r)->count;
		return 1;
	}
	set_place(s, *r, place);
	return !null;
}

/* Take the next row to send from a table that DuckDB reads. The result is the same as for next_row(). */
static int next_of_columns(struct source *s, struct fpisa_row *r)
{
	struct fpisa_row *row;
	int rc;

	while ((rc = columnar_rows(&s->columnar)) == 1) {
		rc = take_of_columns(s, &row);
		if (rc > 0)
			*r = *row;
		if (rc)
			return rc;
	}
	s->over = !rc;
	return rc;
}

/* Set value `i` of the row at the place, whose conditions hold. Return 0 or -errno. */
static int set_value(struct source *s, int i, uint64_t place, struct fpisa_row *r)
{
	const struct fpisa_column *c = columns_value(&s->columns, i);
	const struct fpisa_field *v = &s->field[s->columns.value[i]];
	int rc;

	if (v->null) {
		r->count = WITHOUT_VALUE;
		return keep_null(s, place);
	}
	rc = fpisa_value_parse(c, v, &r->value, r->wide);
	if (rc)
		return text_bad_value(&s->table.text, s->columns.value[i], v, rc);
	if (c->type == FPISA_COLUMN_REAL && s->form != FPISA_FORM_REAL)
		fpisa_row_widen(r);
	return 0;
}

/* Set the key of a group. If the query has several values, let them follow a row that only counts. */
static int begin_group(struct source *s, struct fpisa_row *r)
{
	int used = columns_key(&s->columns, s->field, s->key_bytes, r);

	if (used < 0 || !s->columns.numbered)
		return used < 0 ? used : 0;
	s->row = *r;
	s->row_key = (uint32_t)used;
	s->values_left = s->columns.n_values;
	r->count |= WITHOUT_VALUE;
	return 0;
}

/* Set the next of several values of the last row that was read. Return 1, 0 if the value has no row, or -errno. */
static int next_value(struct source *s, struct fpisa_row *r)
{
	int i = s->columns.n_values - s->values_left--;
	const struct where *filter = s->columns.filter[i];
	int holds = filter ? where_holds(filter, &s->table.text, s->field) : 1;

	*r = s->row;
	((uint8_t *)r->key)[s->key_bytes - 1] = (uint8_t)(i + 1);
	if (s->columns.distinct[i]) {
		r->count |= WITHOUT_VALUE;
		return holds > 0 ? columns_distinct(&s->columns, i, s->field, s->row_key, s->key_bytes, r) : holds;
	}
	if (holds > 0 && s->columns.value[i] != COLUMNS_ROWS)
		return set_value(s, i, 0, r) ?: 1;
	r->count = holds ? r->count | WITHOUT_VALUE : WITHOUT_VALUE;
	return holds < 0 ? holds : 1;
}

/* Take the next of these rows to send. The result is the same as for next_row(). */
static int next_of_table(struct source *s, struct fpisa_row *r)
{
	uint64_t place;
	int rc;

	if (is_columnar(s))
		return next_of_columns(s, r);
	while (s->values_left) {
		rc = next_value(s, r);
		if (rc)
			return rc;
	}
	while ((rc = next_row(s, s->field, &place)) == 1) {
		*r = (struct fpisa_row){.count = 1};
		if (s->want.kind == FPISA_QUERY_JOIN) {
			rc = make_join_key(s, s->field, place, r);
			if (rc)
				return rc;
			continue;
		}
		if (s->columns.n_values && !s->columns.numbered)
			rc = set_value(s, 0, place, r);
		if (rc < 0)
			return rc;
		if (s->want.kind == FPISA_QUERY_TABLE)
			return begin_group(s, r) ?: 1;
		set_place(s, r, place);
		if (r->count == 1)
			return 1;
	}
	return rc;
}

/* -- rows that the worker reduces ----------------------------------------------------- */

/* Return about which share of the rows has been read. */
static double share_read(const struct source *s)
{
	uint64_t rows = s->columns.numbered ? s->reduced / (uint64_t)(1 + s->columns.n_values) : s->reduced;
	struct stat is;

	if (is_columnar(s))
		return (double)rows / (double)s->table.parquet.rows;
	return fstat(s->table.text.fd, &is) || !is.st_size ? 1 : (double)s->table.text.offset / (double)is.st_size;
}

/* Return the number of keys of `rows` rows, if each row has any of `keys` keys. */
static double keys_of(double rows, double keys)
{
	return keys * -expm1(-rows / keys);
}

/* Return the number of keys, at most `most`, of which `rows` rows have `found` keys. */
static double keys_for(double rows, double found, double most)
{
	double least = found;

	for (int i = 0; i < 60; i++) {
		double middle = (least + most) / 2;

		if (keys_of(rows, middle) < found)
			least = middle;
		else
			most = middle;
	}
	return most;
}

/*
 * Estimate the number of keys in all rows from the keys in the first rows, as if a row had any key with the same
 * probability. If fewer keys were found earlier than this predicts, because rows are sorted by key or some keys are
 * frequent, let the number of keys continue to grow as between the two counts.
 */
static double estimate_keys(const struct source *s, double all)
{
	const double found = (double)s->reduction.groups.state.used, rows = (double)s->reduced,
		     keys = keys_for(rows, found, REDUCED * all), before = (double)s->counted_keys,
		     rows_before = (double)s->counted_rows;

	if (before >= EVEN * keys_of(rows_before, keys))
		return keys_of(all, keys);
	return fmin(all, found * pow(all / rows, log(found / before) / log(rows / rows_before)));
}

/* Return whether to continue to aggregate. An aggregated key takes up to REDUCED rows in frames. */
static bool pays(const struct source *s)
{
	const double found = (double)s->reduction.groups.state.used, rows = (double)s->reduced,
		     all = rows / share_read(s);

	return REDUCED * (estimate_keys(s, all) - found) < all - rows;
}

/* Decide whether to continue to aggregate, after SAMPLE rows and whenever the rows have doubled. */
static bool continues(struct source *s)
{
	bool does;

	if (s->reduced < s->count_at)
		return true;
	does = s->count_at < SAMPLE || pays(s);
	s->counted_rows = s->reduced;
	s->counted_keys = s->reduction.groups.state.used;
	s->count_at *= 2;
	return does;
}

/* Add the next row of a text. The result is the same as for next_row(). */
static int reduce_text(struct source *s)
{
	struct fpisa_row r;
	int rc = next_of_table(s, &r);

	if (rc != 1)
		return rc;
	s->reduced++;
	return reduction_add(&s->reduction, &r) ?: 1;
}

/* Add the rows of a table that DuckDB reads as far as they are ready. The result is the same as for next_row(). */
static int reduce_columns(struct source *s)
{
	struct fpisa_row *r;
	int rc = columnar_rows(&s->columnar);

	s->over = !rc;
	while (rc == 1 && columnar_ready(&s->columnar)) {
		int sent = take_of_columns(s, &r);

		s->reduced += sent > 0;
		rc = sent > 0 ? reduction_add(&s->reduction, r) ?: 1 : sent ?: 1;
	}
	return rc;
}

static int reduce(struct source *s)
{
	const uint64_t until = s->reduced + SLICE;
	int rc = 1;

	if (!s->reduces || s->over || s->stopped)
		return 0;
	if (s->adapts && !continues(s)) {
		s->stopped = true;
		reduction_settle(&s->reduction);
		return 0;
	}
	while (rc == 1 && s->reduced < until)
		rc = is_columnar(s) ? reduce_columns(s) : reduce_text(s);
	if (!rc)
		reduction_settle(&s->reduction);
	return rc;
}

int source_reduce(struct source *s)
{
	return checked(s, reduce(s));
}

int source_next(void *arg, struct fpisa_row *row)
{
	struct source *s = arg;
	int rc = s->reduces ? reduction_next(&s->reduction, row) : 0;

	return rc || (s->reduces && !s->stopped) ? rc : checked(s, next_of_table(s, row));
}

uint64_t source_read(const struct source *s)
{
	return is_columnar(s) ? s->table.parquet.rows : s->read;
}

unsigned int source_way(const struct source *s)
{
	return s->stopped ? FPISA_WAY_STOPPED : s->reduces ? FPISA_WAY_REDUCED : FPISA_WAY_SENT;
}

/* -- records ---------------------------------------------------------------------------- */

int source_record(struct source *s, char **to, size_t *used, size_t *room)
{
	struct fpisa_field field[FPISA_COLUMNS_MOST];
	uint64_t place;
	int rc = is_columnar(s) ? columnar_record(&s->columnar, to, used, room) : next_row(s, field, &place);

	s->given += rc == 1;
	if (rc == 1 && !is_columnar(s))
		rc = columns_record(&s->columns, field, to, used, room);
	return checked(s, rc);
}

int source_seek(struct source *s, const uint64_t *places, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (places[i] > INT64_MAX)
			return fpisa_fail(-EINVAL,
					  "%s has no row %llu, although the master asks for it; please report this bug",
					  s->table.file, (unsigned long long)places[i]);
	return is_columnar(s) && n ? columnar_begin_at(&s->columnar, &s->table, &s->columns, places, n) : 0;
}

/* Append the record of the row at the place in a text. The result is the same as for source_record_at(). */
static int text_record_at(struct source *s, uint64_t place, char **to, size_t *used, size_t *room)
{
	struct fpisa_field field[FPISA_COLUMNS_MOST];
	uint64_t found;
	int err, rc;

	text_seek(&s->table.text, place);
	rc = text_row(&s->table.text, field, &found);
	/* Check after the read, so that writes before the read are detected. */
	err = partition_unchanged(&s->table);
	return err ? err : rc == 1 ? columns_record(&s->columns, field, to, used, room) : rc;
}

int source_record_at(struct source *s, uint64_t place, char **to, size_t *used, size_t *room)
{
	int rc = is_columnar(s) ? checked(s, columnar_record(&s->columnar, to, used, room)) :
				  text_record_at(s, place, to, used, room);

	return rc ? rc :
		    fpisa_fail(-EINVAL, "%s has no row at %llu, although the master asks for it; please report this bug",
			       s->table.file, (unsigned long long)place);
}
