/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Messages of a worker (control.h), which are checked against the request. master.h describes the state. A worker has a
 * key but may still be malicious. Such a worker can send wrong rows, but only rows with the requested columns.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/error.h"
#include "master.h"

static int malformed(void)
{
	return fpisa_fail(-EPROTO, "the received data is not a message of this protocol; check the address and port");
}

/* -- READY ------------------------------------------------------------------------------ */

/*
 * Find the next name of the list "a,b" in *at, without its type. Return the length of the name, or 0 at the end of the
 * list.
 */
static size_t next_name(const char **at, const char **name)
{
	size_t n = strcspn(*at, ",");

	*name = *at;
	*at += n + ((*at)[n] == ',');
	return strcspn(*name, " ,");
}

/* Return whether the columns have the names in the list "a,b", in the same order. */
static int are_named(const struct fpisa_column *column, uint32_t n, const char *list)
{
	const char *name;
	size_t len;

	for (uint32_t i = 0; i < n; i++) {
		len = next_name(&list, &name);
		if (!len || strlen(column[i].name) != len || memcmp(column[i].name, name, len))
			return 0;
	}
	return !*list;
}

/* Return whether all columns of a table have different names. */
static int differ(const struct fpisa_column *column, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < i; k++)
			if (!strcmp(column[i].name, column[k].name))
				return 0;
	return 1;
}

/* Return whether this is a column of a table, or the value * with the members of fpisa_column_rows. */
static int is_column(struct fpisa_column *c)
{
	c->name[FPISA_COLUMN_NAME - 1] = 0;
	if (!strcmp(c->name, fpisa_column_rows.name))
		return c->type == fpisa_column_rows.type && c->not_null && !c->precision && !c->scale;
	return fpisa_column_valid(c) && fpisa_column_name_valid(c->name) && c->not_null <= 1;
}

/*
 * Return whether the values are the columns of the request, and have the types of numbers, dates or timestamps. The
 * values of a column that are only counted may have any type of keys.
 */
static int are_values(const struct fpisa_query *q, const struct fpisa_query_worker *w)
{
	const char *list = q->value ? q->value : "";
	struct fpisa_value_entry e;

	for (uint32_t i = 0; i < w->is.values; i++) {
		const struct fpisa_column *c = fpisa_query_value(w, i);

		if (fpisa_value_next(&list, &e) <= 0 || (!e.distinct && !fpisa_column_form(c)) ||
		    strlen(c->name) != e.name || memcmp(c->name, e.text, e.name))
			return 0;
	}
	return !fpisa_value_next(&list, &e);
}

/* Return whether the column of rows is not the value, or has the type that the worker gave for the value. */
static int agrees_with_value(const struct fpisa_query_worker *w, const struct fpisa_column *c)
{
	const struct fpisa_column *value = fpisa_query_value(w, 0);

	return !w->is.values || strcmp(c->name, value->name) != 0 ||
	       (c->type == value->type && c->not_null == value->not_null && c->precision == value->precision &&
		c->scale == value->scale);
}

static int check_columns(const struct fpisa_query *q, const struct fpisa_query_worker *w)
{
	const struct fpisa_column *rows = w->columns + w->is.keys;
	int groups = q->kind == FPISA_QUERY_TABLE;

	if (groups ? !w->is.keys != !q->by || w->is.columns : w->is.keys || !w->is.columns)
		return 0;
	if (!are_named(w->columns, w->is.keys, q->by ? q->by : ""))
		return 0;
	if (!groups &&
	    (q->columns && *q->columns ? !are_named(rows, w->is.columns, q->columns) : !differ(rows, w->is.columns)))
		return 0;
	for (uint32_t i = 0; i < w->is.columns; i++)
		if (!agrees_with_value(w, &rows[i]))
			return 0;
	return are_values(q, w);
}

static int take_ready(struct fpisa_query *q, struct fpisa_query_worker *w, const uint8_t *content, size_t n)
{
	size_t columns;

	if (n < sizeof(w->is) || w->ready || q->phase != FPISA_PHASE_OPEN)
		return malformed();
	memcpy(&w->is, content, sizeof(w->is));
	columns = (size_t)w->is.keys + w->is.columns + w->is.values;
	if (w->is.keys > FPISA_COLUMNS_MOST || w->is.columns > FPISA_COLUMNS_MOST ||
	    w->is.values > FPISA_COLUMNS_MOST || n != sizeof(w->is) + columns * sizeof(*w->columns))
		return malformed();
	w->columns = calloc(columns + 1, sizeof(*w->columns));
	if (!w->columns)
		return fpisa_fail(-ENOMEM, "not enough memory for the answer's columns; " FPISA_MORE_MEMORY);
	memcpy(w->columns, content + sizeof(w->is), columns * sizeof(*w->columns));
	for (size_t i = 0; i < columns; i++)
		if (!is_column(&w->columns[i]))
			return malformed();
	if (!check_columns(q, w))
		return fpisa_fail(-EPROTO,
				  "the worker sent columns other than those requested; run one release on all hosts");
	if (w->direct.t) {
		if (!w->is.port)
			return malformed();
		fpisa_udp_redirect(w->direct.t, w->is.port);
	}
	w->ready = 1;
	return 0;
}

/* -- DONE ------------------------------------------------------------------------------- */

/*
 * Return whether the message has a valid rank, and numbers that are possible for the query. The rank of direct rows is
 * the rank that the worker was assigned. Other ranks are in the aggregator's list.
 */
static int is_done(const struct fpisa_query *q, const struct fpisa_query_worker *w, const struct fpisa_query_done *said,
		   size_t nulls)
{
	int assigned = q->kind == FPISA_QUERY_SCAN || fpisa_query_is_direct(q);

	if (assigned ? said->rank != (uint32_t)(w - q->worker) : said->rank >= q->n_workers)
		return 0;
	if (said->filter > FPISA_FILTER_BEYOND || (!q->join && (said->filter || said->keys)))
		return 0;
	if (said->nulls > said->rows || (said->nulls && !fpisa_query_may_be_null(w)))
		return 0;
	return nulls <= q->options.limit && nulls <= said->nulls;
}

/* Keep as many NULLs as the answer needs at most from all workers together. The answer may use any of the NULLs. */
static int keep_nulls(struct fpisa_query *q, struct fpisa_query_worker *w, const uint8_t *places, size_t n)
{
	uint64_t left = q->options.limit;

	free(w->nulls);
	w->n_nulls = 0;
	for (uint32_t i = 0; i < q->n_workers; i++)
		left -= q->worker[i].n_nulls;
	n = n < left ? n : (size_t)left;
	w->nulls = malloc((n + 1) * sizeof(*w->nulls));
	if (!w->nulls)
		return fpisa_fail(-ENOMEM, "not enough memory for the answer's rows; " FPISA_MORE_MEMORY);
	memcpy(w->nulls, places, n * sizeof(*w->nulls));
	w->n_nulls = n;
	return 0;
}

static int take_done(struct fpisa_query *q, struct fpisa_query_worker *w, const uint8_t *content, size_t n)
{
	struct fpisa_query_done said;
	int rc;

	if (n < sizeof(said) || (n - sizeof(said)) % 8)
		return malformed();
	memcpy(&said, content, sizeof(said));
	if (said.attempt != q->attempt || w->done)
		return 0;
	w->said = said;
	if (!is_done(q, w, &said, (n - sizeof(said)) / 8))
		return malformed();
	rc = keep_nulls(q, w, content + sizeof(said), (n - sizeof(said)) / 8);
	if (rc)
		return rc;
	if (q->kind == FPISA_QUERY_SCAN && said.sent != w->fetched)
		return fpisa_fail(-EILSEQ, "the worker sent %llu rows, but reported %llu; run one release on all hosts",
				  (unsigned long long)w->fetched, (unsigned long long)said.sent);
	if (q->of_rank[said.rank] != UINT32_MAX)
		return fpisa_fail(-EINVAL, "worker %s has the same rank; list each worker once",
				  q->worker[q->of_rank[said.rank]].name);
	q->of_rank[said.rank] = (uint32_t)(w - q->worker);
	w->done = 1;
	return 0;
}

/* -- RECORDS ------------------------------------------------------------------------------ */

static int is_value(const struct fpisa_column *c, const uint8_t *text, uint32_t len)
{
	return len == FPISA_QUERY_NULL ? !c->not_null : fpisa_text_valid(c, (const char *)text, len);
}

/* Check that the records are complete rows of these columns, and count the rows. */
static int count_records(const struct fpisa_query_worker *w, const uint8_t *content, size_t n, size_t *rows)
{
	size_t at = 0;
	uint32_t len, field = 0;

	*rows = 0;
	while (at < n) {
		const struct fpisa_column *c = &w->columns[w->is.keys + field];

		if (n - at < sizeof(len))
			return malformed();
		memcpy(&len, content + at, sizeof(len));
		at += sizeof(len);
		if (len != FPISA_QUERY_NULL && len > n - at)
			return malformed();
		if (!is_value(c, content + at, len))
			return fpisa_fail(-EPROTO, "a row has %s in column '%s %s%s'",
					  len == FPISA_QUERY_NULL ? "NULL" : "another value", c->name,
					  fpisa_column_type_name(c->type), c->not_null ? " not null" : "");
		at += len != FPISA_QUERY_NULL ? len : 0;
		if (++field == w->is.columns) {
			field = 0;
			++*rows;
		}
	}
	return field ? malformed() : 0;
}

/* Keep the records of first rows until the answer is complete. */
static int append(struct fpisa_query *q, struct fpisa_query_worker *w, const uint8_t *from, size_t n)
{
	uint64_t most = q->options.memory, used = fpisa_query_top_bytes(q) + n;
	uint8_t *more;

	for (uint32_t i = 0; i < q->n_workers; i++)
		used += q->worker[i].n_records;
	if (most && used > most)
		return fpisa_top_too_big(q->options.limit, most);
	more = realloc(w->records, w->n_records + n + 1);
	if (!more)
		return fpisa_fail(-ENOMEM, "not enough memory for the answer's rows; " FPISA_MORE_MEMORY);
	memcpy(more + w->n_records, from, n);
	w->n_records += n;
	w->records = more;
	return 0;
}

static int take_stream(struct fpisa_query *q, const uint8_t *content, size_t n)
{
	size_t room = q->stream_room ? q->stream_room : 65536;
	uint8_t *more;

	if (q->held)
		*q->held = q->kept;
	q->held = NULL;
	if (q->stream_at)
		memmove(q->stream, q->stream + q->stream_at, q->stream_n - q->stream_at);
	q->stream_n -= q->stream_at;
	q->stream_at = 0;
	while (room < q->stream_n + n + 1)
		room *= 2;
	more = room == q->stream_room ? q->stream : realloc(q->stream, room);
	if (!more)
		return fpisa_fail(-ENOMEM, "not enough memory for the answer's rows; " FPISA_MORE_MEMORY);
	q->stream = more;
	q->stream_room = room;
	memcpy(q->stream + q->stream_n, content, n);
	q->stream_n += n;
	return 0;
}

static int take_records(struct fpisa_query *q, struct fpisa_query_worker *w, const uint8_t *content, size_t n)
{
	size_t rows;
	int rc, scan = q->kind == FPISA_QUERY_SCAN;

	if (scan ? w->done : !w->fetching)
		return malformed();
	rc = count_records(w, content, n, &rows);
	if (rc)
		return rc;
	if (scan) {
		q->received += rows;
		w->fetched += rows;
		return take_stream(q, content, n);
	}
	if (w->fetched + rows > w->asked)
		return malformed();
	rc = fpisa_query_streams(q) ? take_stream(q, content, n) : append(q, w, content, n);
	w->fetched += rows;
	return rc;
}

/* -- other messages ----------------------------------------------------------------------- */

/* Fail with the errno and the sentence of the worker. Replace an invalid errno, and make the sentence one line. */
static int take_failed(const uint8_t *content, size_t n)
{
	int32_t error;
	char why[400];

	if (n < sizeof(error) + 1)
		return malformed();
	memcpy(&error, content, sizeof(error));
	snprintf(why, sizeof(why), "%.*s", (int)(n - sizeof(error) < sizeof(why) ? n - sizeof(error) : sizeof(why)),
		 (const char *)content + sizeof(error));
	for (char *at = why; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 127)
			*at = '?';
	return fpisa_fail(error < 0 && error > -4096 ? error : -EPROTO, "%s", why);
}

/* Handle LOST. A worker can lose its rank only at an aggregator. */
static int take_lost(struct fpisa_query *q, const uint8_t *content, size_t n)
{
	uint32_t attempt;

	if (n != sizeof(attempt) || q->kind == FPISA_QUERY_SCAN || fpisa_query_is_direct(q))
		return malformed();
	memcpy(&attempt, content, sizeof(attempt));
	q->lost |= attempt == q->attempt;
	return 0;
}

int fpisa_query_take(struct fpisa_query *q, struct fpisa_query_worker *w, uint16_t type, const uint8_t *content,
		     size_t n)
{
	/* Before the first attempt, messages of an attempt are not valid. */
	if (q->phase == FPISA_PHASE_OPEN && type != FPISA_CONTROL_READY && type != FPISA_CONTROL_WORKING &&
	    type != FPISA_CONTROL_FAILED)
		return malformed();
	switch (type) {
	case FPISA_CONTROL_READY:
		return take_ready(q, w, content, n);
	case FPISA_CONTROL_WORKING:
		return n && n != sizeof(uint64_t) ? malformed() : 0;
	case FPISA_CONTROL_LOST:
		return take_lost(q, content, n);
	case FPISA_CONTROL_DONE:
		return take_done(q, w, content, n);
	case FPISA_CONTROL_RECORDS:
		return take_records(q, w, content, n);
	case FPISA_CONTROL_FAILED:
		return take_failed(content, n);
	}
	return malformed();
}
