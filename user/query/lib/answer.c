/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The rows of the answer, and the check that the answer is complete. master.h describes the state. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fpisa/names.h"
#include "fpisa/query/order.h"
#include "decimal.h"
#include "lib/base/error.h"
#include "master.h"

#define COLUMN(id, name, type, not_null) {name, FPISA_COLUMN_##type, not_null},
static const struct fpisa_query_column aggregates[] = {FPISA_AGGREGATE_NAMES(COLUMN, )};

/* positions in aggregates[], and in the answer's columns of a value */
enum aggregate { COUNT, SUM, MIN, MAX, AVG, AGGREGATES };

_Static_assert(sizeof(aggregates) / sizeof(aggregates[0]) == AGGREGATES, "each aggregate has a position");

/* maximum size in bytes of the name of an aggregate without its value and conditions */
#define NAME_MORE sizeof("count(distinct ) filter ()")
#define COLUMN_TEXT (FPISA_COLUMN_NAME + FPISA_COLUMN_TYPE_MOST + 16)
#define CELL FPISA_DECIMAL_TEXT /* maximum size in bytes of a group's column as text */

_Static_assert(CELL >= FPISA_COLUMN_TEXT_MOST + FPISA_QUERY_KEY_BYTES, "a key's column fits");

/* -- columns ------------------------------------------------------------------------- */

static void describe_column(const struct fpisa_column *c, char text[COLUMN_TEXT])
{
	char type[FPISA_COLUMN_TYPE_MOST];

	fpisa_column_type_text(c, type);
	snprintf(text, COLUMN_TEXT, "'%s %s%s'", c->name, type, c->not_null ? " not null" : "");
}

/* Describe column `k` of the first `n` columns of the worker. If that column does not exist, say so. */
static void describe_at(const struct fpisa_query_worker *w, uint32_t k, uint32_t n, char text[COLUMN_TEXT])
{
	if (k < n)
		describe_column(&w->columns[k], text);
	else
		strcpy(text, "no further column");
}

static int are_equal(const struct fpisa_column *a, const struct fpisa_column *b)
{
	return a->type == b->type && a->not_null == b->not_null && a->precision == b->precision &&
	       a->scale == b->scale && !strcmp(a->name, b->name);
}

/* Describe how worker `b`'s columns differ from worker `a`'s columns. Return 1 if they differ, else 0. */
static int compare_columns(const struct fpisa_query_worker *a, const struct fpisa_query_worker *b,
			   char has[COLUMN_TEXT], char wants[COLUMN_TEXT])
{
	uint32_t n = a->is.keys + a->is.columns, m = b->is.keys + b->is.columns, k = 0;

	/* The values follow, and both workers have all of them. */
	if (n == m)
		n = m += a->is.values;
	while (k < n && k < m && are_equal(&a->columns[k], &b->columns[k]))
		k++;
	if (k == n && k == m)
		return 0;
	describe_at(b, k, m, has);
	describe_at(a, k, n, wants);
	return 1;
}

/*
 * Check that all workers have the same columns. If not, name the workers whose columns differ from those of the first
 * worker, as many as fit into a message.
 */
static int check_columns(const struct fpisa_query *q)
{
	char list[FPISA_MESSAGE_SIZE - 128] = "", entry[2 * COLUMN_TEXT + 64], has[COLUMN_TEXT], wants[COLUMN_TEXT];
	size_t used = 0;
	uint32_t more = 0;

	for (uint32_t i = 1; i < q->n_workers; i++) {
		int n;

		if (!compare_columns(&q->worker[0], &q->worker[i], has, wants))
			continue;
		n = snprintf(entry, sizeof(entry), "%s worker %s has %s instead of %s", used ? ";" : "",
			     q->worker[i].name, has, wants);
		if (more || used + (size_t)n + sizeof("; and 62 more") > sizeof(list))
			more++;
		else
			used += (size_t)(stpcpy(list + used, entry) - (list + used));
	}
	if (more)
		snprintf(list + used, sizeof(list) - used, "; and %u more", more);
	return !used ? 0 :
		       fpisa_fail(-EINVAL, "table %s does not have the schema of worker %s everywhere:%s", q->table,
				  q->worker[0].name, list);
}

/*
 * Choose the form of values, the shortest that all of them have. Rows that do not pass an aggregator may have doubles
 * as well as integers, in the bytes of the longest form.
 */
static int choose_form(struct fpisa_query *q)
{
	const struct fpisa_query_worker *w = &q->worker[0];
	char first[COLUMN_TEXT], other[COLUMN_TEXT];
	uint32_t lowest = w->is.values;

	q->form = 0;
	for (uint32_t i = 0; i < w->is.values; i++) {
		if (fpisa_query_is_counted(q, i))
			continue;
		lowest = lowest < i ? lowest : i;
		q->form = fpisa_form_of_both(q->form, fpisa_column_form(fpisa_query_value(w, i)));
		if (!q->form && q->numbered && fpisa_query_is_direct(q))
			q->form = FPISA_FORM_INT128;
		if (q->form)
			continue;
		describe_column(fpisa_query_value(w, lowest), first);
		describe_column(fpisa_query_value(w, i), other);
		return fpisa_fail(-EINVAL,
				  "an aggregator cannot aggregate columns %s and %s in one query; use --prune workers, "
				  "or one query for reals and doubles, and another for integers and decimals",
				  first, other);
	}
	q->form = q->form ? q->form : FPISA_FORM_REAL;
	return 0;
}

/* Return the most bytes of a value in a key, among the values of columns whose distinct values are counted. */
static size_t distinct_most(const struct fpisa_query *q)
{
	size_t most = 0;

	for (uint32_t i = 0; i < q->worker[0].is.values; i++) {
		struct fpisa_column c = *fpisa_query_value(&q->worker[0], i);

		c.not_null = 1;
		if (fpisa_query_is_distinct(q, i) && fpisa_key_most(&c) > most)
			most = fpisa_key_most(&c);
	}
	return most;
}

/* Choose the length of keys for direct rows. Choose the shortest, but include a count if rows need one. */
static void choose_keys(struct fpisa_query *q)
{
	const struct fpisa_query_worker *w = &q->worker[0];
	int counts = q->options.preaggregate || q->options.pruning == FPISA_PRUNING_WORKERS || q->numbered ||
		     fpisa_form_is_wide(q->form);
	size_t most = q->numbered + distinct_most(q);

	for (uint32_t i = 0; i < w->is.keys; i++)
		most += fpisa_key_most(&w->columns[i]);
	for (uint32_t i = 0; i < q->n_workers; i++)
		counts |= fpisa_query_may_be_null(&q->worker[i]);
	if (q->kind == FPISA_QUERY_TOPN)
		q->key_bytes = 8;
	else
		q->key_bytes = most <= 4 && !counts ? 4 : most <= 8 ? 8 : most <= 16 ? 16 : 32;
}

/* Return the type of an aggregate of a value. `type` is the type of the aggregate if the value is a real. */
static uint32_t aggregate_type(uint32_t of, enum aggregate aggregate, uint32_t type)
{
	if (of == FPISA_COLUMN_REAL || aggregate == COUNT)
		return type;
	if (of == FPISA_COLUMN_DOUBLE)
		return FPISA_COLUMN_DOUBLE;
	return aggregate == MIN || aggregate == MAX ? of : FPISA_COLUMN_DECIMAL;
}

/*
 * Return the number of the answer's columns before the aggregates. If there are several values, the number of rows is
 * before them.
 */
static uint32_t before_aggregates(const struct fpisa_query *q)
{
	return q->worker[0].is.keys + q->numbered;
}

/* Return the number of aggregates of value `i`. */
static uint32_t aggregates_of(const struct fpisa_query *q, uint32_t i)
{
	return fpisa_query_is_counted(q, i) ? 1 : AGGREGATES;
}

static uint32_t count_aggregates(const struct fpisa_query *q)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < q->worker[0].is.values; i++)
		n += aggregates_of(q, i);
	return n;
}

/* Write the name of the aggregate of a value. Return the bytes of the name. */
static size_t put_name(char *to, enum aggregate aggregate, const struct fpisa_value_entry *e)
{
	int n = sprintf(to, "%s(%s%.*s)", aggregates[aggregate].name, e->distinct ? "distinct " : "", (int)e->name,
			e->text);

	if (e->filter)
		n += sprintf(to + n, " filter (%.*s)", (int)e->filter_len, e->filter);
	return (size_t)n + 1;
}

/* Name and describe the aggregates of the values. */
static int describe_aggregates(struct fpisa_query *q)
{
	const struct fpisa_query_worker *w = &q->worker[0];
	struct fpisa_query_column *out = &q->out[before_aggregates(q)];
	const char *list = q->value;
	struct fpisa_value_entry e;
	char *name = q->names = malloc(AGGREGATES * ((list ? strlen(list) : 0) + w->is.values * NAME_MORE) + 1);

	if (!name)
		return fpisa_fail(-ENOMEM, "not enough memory for the answer's columns; " FPISA_MORE_MEMORY);
	for (uint32_t i = 0; i < w->is.values && fpisa_value_next(&list, &e) > 0; i++) {
		const struct fpisa_column *c = fpisa_query_value(w, i);

		for (enum aggregate k = COUNT; k < aggregates_of(q, i); k++, out++) {
			*out = aggregates[k];
			if (k == SUM && q->options.double_sums)
				out->type = FPISA_COLUMN_DOUBLE;
			out->type = aggregate_type(c->type, k, out->type);
			if (!q->numbered)
				continue;
			out->name = name;
			name += put_name(name, k, &e);
		}
	}
	return 0;
}

/* Return the number of columns of an answer with groups. */
static uint32_t count_columns(const struct fpisa_query *q)
{
	return before_aggregates(q) + (q->value ? count_aggregates(q) : 1);
}

int fpisa_query_describe(struct fpisa_query *q)
{
	const struct fpisa_query_worker *w = &q->worker[0];
	int groups = q->kind == FPISA_QUERY_TABLE, rc = check_columns(q);
	uint32_t n = groups ? w->is.keys : w->is.columns, first = groups ? 0 : w->is.keys;

	if (!rc)
		rc = choose_form(q);
	if (rc)
		return rc;
	choose_keys(q);
	q->n_out = groups ? count_columns(q) : n;
	q->out = calloc(q->n_out, sizeof(*q->out));
	q->text = calloc(q->n_out, sizeof(*q->text));
	q->space = groups ? malloc(q->n_out * CELL) : NULL;
	if (!q->out || !q->text || (groups && !q->space))
		return fpisa_fail(-ENOMEM, "not enough memory for the answer's columns; " FPISA_MORE_MEMORY);
	for (uint32_t i = 0; i < n; i++)
		q->out[i] = (struct fpisa_query_column){w->columns[first + i].name, w->columns[first + i].type,
							w->columns[first + i].not_null};
	if (!groups)
		return 0;
	q->out[n] = aggregates[COUNT];
	return describe_aggregates(q);
}

/*
 * Return the column of the table from which column `i` of the answer comes, or NULL for a number of rows. *aggregate is
 * AGGREGATES if the column is not an aggregate.
 */
static const struct fpisa_column *source_of(const struct fpisa_query *q, uint32_t i, enum aggregate *aggregate)
{
	const struct fpisa_query_worker *w = &q->worker[0];

	*aggregate = AGGREGATES;
	if (q->kind != FPISA_QUERY_TABLE)
		return &w->columns[w->is.keys + i];
	if (i < w->is.keys)
		return &w->columns[i];
	if (i < before_aggregates(q))
		return NULL;
	i -= before_aggregates(q);
	for (uint32_t k = 0; k < w->is.values; i -= aggregates_of(q, k++))
		if (i < aggregates_of(q, k)) {
			*aggregate = i;
			return fpisa_query_value(w, k);
		}
	return NULL;
}

uint32_t fpisa_query_precision(const struct fpisa_query *q, uint32_t column, uint32_t *scale)
{
	const struct fpisa_column *c = NULL;
	enum aggregate aggregate;

	if (q && column < q->n_out && q->out)
		c = source_of(q, column, &aggregate);
	if (c && (aggregate == COUNT || aggregate == SUM || aggregate == AVG))
		c = NULL;
	if (scale)
		*scale = c ? c->scale : 0;
	return c ? c->precision : 0;
}

struct fpisa_column fpisa_query_out(const struct fpisa_query *q, uint32_t i)
{
	struct fpisa_column out = {.type = (uint8_t)q->out[i].type, .not_null = (uint8_t)q->out[i].not_null};
	enum aggregate aggregate;
	const struct fpisa_column *c = source_of(q, i, &aggregate);

	if (out.type != FPISA_COLUMN_DECIMAL || !c)
		return out;
	if (aggregate == AVG) {
		out.type = FPISA_COLUMN_DOUBLE;
		return out;
	}
	out.precision = aggregate == SUM ? FPISA_DECIMAL_MOST : c->precision;
	out.scale = c->scale;
	return out;
}

/* -- is the answer complete? ---------------------------------------------------------- */

int fpisa_query_check(struct fpisa_query *q)
{
	uint64_t sent = 0, weight = 0;
	int filtered;

	for (uint32_t i = 0; i < q->n_workers; i++) {
		sent += q->worker[i].said.sent;
		weight += q->worker[i].said.weight;
	}
	(void)fpisa_query_keys(q, &filtered);
	if (q->received > sent || (q->received != sent && (fpisa_query_is_direct(q) || q->kind == FPISA_QUERY_SCAN ||
							   (q->kind == FPISA_QUERY_JOIN && !filtered))))
		return fpisa_fail(-EILSEQ, "workers have sent %llu rows, but %llu arrived; please report this bug",
				  (unsigned long long)sent, (unsigned long long)q->received);
	/* In a join, the missing rows were dropped by the filter, if it was in use. */
	if (q->kind == FPISA_QUERY_TABLE &&
	    (filtered ? weight < q->absorbed + q->weight : weight != q->absorbed + q->weight))
		return fpisa_fail(-EILSEQ,
				  "workers have sent %llu values; %llu are in the aggregator's table, but %llu arrived; "
				  "please report this bug",
				  (unsigned long long)weight, (unsigned long long)q->absorbed,
				  (unsigned long long)q->weight);
	return 0;
}

void fpisa_query_counts(const struct fpisa_query *q, struct fpisa_query_counts *c)
{
	uint64_t left, values;

	if (!c)
		return;
	*c = (struct fpisa_query_counts){0};
	if (!q)
		return;
	*c = (struct fpisa_query_counts){
		.received = q->received,
		.values_absorbed = q->absorbed,
		.values_received = q->weight,
		.restarts = q->restarts,
		.certified = q->certified,
	};
	for (uint32_t i = 0; i < q->n_workers; i++) {
		const struct fpisa_query_done *d = &q->worker[i].said;

		c->rows += d->rows;
		c->nulls += d->nulls;
		c->sent += d->sent;
		c->values_sent += q->kind == FPISA_QUERY_TABLE ? d->weight : 0;
		c->frames += d->frames;
		c->repeated += d->repeated;
	}
	left = c->sent > c->received ? c->sent - c->received : 0;
	values = c->values_absorbed + c->values_received;
	c->pruned = left;
	if (q->kind == FPISA_QUERY_TABLE)
		c->pruned = q->join && c->values_sent > values ? c->values_sent - values : 0;
	c->absorbed = left - c->pruned;
}

uint64_t fpisa_query_keys(const struct fpisa_query *q, int *filtered)
{
	int all = q && q->join && q->phase >= FPISA_PHASE_SEAL;
	uint64_t keys = 0;

	for (uint32_t i = 0; q && i < q->n_workers; i++) {
		keys += q->worker[i].said.keys;
		all &= q->worker[i].said.filter != FPISA_FILTER_OPEN;
	}
	if (filtered)
		*filtered = all;
	return keys;
}

static uint32_t count_ways(const struct fpisa_query *q, enum fpisa_query_way way)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < q->n_workers; i++)
		n += q->worker[i].said.way == way;
	return n;
}

const char *fpisa_query_plan(struct fpisa_query *q)
{
	const char *how = q && fpisa_query_is_direct(q) ? "directly" : "through the aggregator";
	uint32_t stopped, sent;

	if (!q || !q->automatic || q->phase != FPISA_PHASE_DONE)
		return NULL;
	stopped = count_ways(q, FPISA_WAY_STOPPED);
	sent = count_ways(q, FPISA_WAY_SENT);
	if (sent == q->n_workers)
		snprintf(q->plan, sizeof(q->plan), "workers send all rows %s", how);
	else if (q->kind == FPISA_QUERY_TOPN)
		snprintf(q->plan, sizeof(q->plan), "each worker sends its own first rows %s", how);
	else if (!stopped)
		snprintf(q->plan, sizeof(q->plan), "each worker adds its rows by key, and sends the sums %s", how);
	else
		snprintf(q->plan, sizeof(q->plan),
			 "%u of %u workers have stopped adding rows by key, because of too many keys, and send the others %s",
			 stopped, q->n_workers, how);
	return q->plan;
}

uint64_t fpisa_query_files(const struct fpisa_query *q, int joined)
{
	uint64_t n = 1;

	if (!q || q->phase == FPISA_PHASE_OPEN || (joined && !q->join))
		return 0;
	for (uint32_t i = 0; i < q->n_workers; i++) {
		const struct fpisa_query_ready *is = &q->worker[i].is;

		n = (n ^ (joined ? is->joined_file : is->file)) * 0x9e3779b97f4a7c15ull;
		n ^= n >> 32;
	}
	return n ? n : 1;
}

/* -- the first N rows ------------------------------------------------------------------- */

/* Return the number of rows of the answer before the first NULL at its end. */
static uint64_t count_values(const struct fpisa_query *q)
{
	return q->top.n < q->options.limit ? q->top.n : q->options.limit;
}

/* Return row `i` of the answer, or NULL if the row's value is NULL. */
static const struct fpisa_top_row *value_at(const struct fpisa_query *q, uint64_t i, uint64_t nulls)
{
	if (q->options.nulls_first)
		return i < nulls ? NULL : &q->top.rows[i - nulls];
	return i < count_values(q) ? &q->top.rows[i] : NULL;
}

/* Return the worker that has row `i` of the answer, and the row's place. */
static struct fpisa_top_row place_of(const struct fpisa_query *q, uint64_t i, uint64_t nulls)
{
	const struct fpisa_top_row *row = value_at(q, i, nulls);
	struct fpisa_top_row at = {0};
	uint64_t first;

	if (row) {
		at = *row;
		at.worker = q->of_rank[at.worker];
		return at;
	}
	first = q->options.nulls_first ? i : i - count_values(q);
	while (first >= q->worker[at.worker].n_nulls)
		first -= q->worker[at.worker++].n_nulls;
	at.row = q->worker[at.worker].nulls[first];
	return at;
}

static uint64_t count_nulls(const struct fpisa_query *q)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < q->n_workers; i++)
		n += q->worker[i].n_nulls;
	return n < q->options.limit ? n : q->options.limit;
}

int fpisa_query_tied(const struct fpisa_query *q)
{
	const struct fpisa_top_row *last, *before;

	if (!q)
		return -EINVAL;
	if (q->kind != FPISA_QUERY_TOPN || q->phase != FPISA_PHASE_DONE || q->total < 2 || q->total < q->options.limit)
		return 0;
	last = value_at(q, q->total - 1, count_nulls(q));
	before = value_at(q, q->total - 2, count_nulls(q));
	return last && before ? !fpisa_top_compare(last, before) : last == before;
}

/* For each worker, allocate the places of its rows in the answer. */
static int room_for_rows(struct fpisa_query *q, uint64_t nulls)
{
	size_t n[FPISA_QUERY_WORKERS] = {0};

	for (uint64_t i = 0; i < q->total; i++)
		n[place_of(q, i, nulls).worker]++;
	for (uint32_t i = 0; i < q->n_workers; i++) {
		q->worker[i].rows = malloc((n[i] + 1) * sizeof(*q->worker[i].rows));
		if (!q->worker[i].rows)
			return fpisa_fail(-ENOMEM, "not enough memory for the answer's rows; " FPISA_MORE_MEMORY);
	}
	return 0;
}

/* Ask each worker for its rows of the answer, in the order of the answer. */
static int settle_top(struct fpisa_query *q)
{
	uint64_t nulls = count_nulls(q);
	int rc;

	if (q->top.rows)
		fpisa_top_end(&q->top);
	q->total = nulls + q->top.n;
	if (q->total > q->options.limit)
		q->total = q->options.limit;
	rc = room_for_rows(q, nulls);
	if (rc)
		return rc;
	for (uint64_t i = 0; i < q->total; i++) {
		struct fpisa_top_row at = place_of(q, i, nulls);
		struct fpisa_query_worker *w = &q->worker[at.worker];

		w->rows[w->n_rows++] = at.row;
	}
	return fpisa_query_fetch(q);
}

static int by_place(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Ask each worker for its rows in the order of its file. */
static int settle_join(struct fpisa_query *q)
{
	for (uint32_t i = 0; i < q->n_workers; i++) {
		struct fpisa_query_worker *w = &q->worker[q->of_rank[i]];

		w->rows = q->places[i].place;
		w->n_rows = q->places[i].n;
		if (w->n_rows)
			qsort(w->rows, w->n_rows, sizeof(*w->rows), by_place);
		q->places[i] = (struct fpisa_query_places){0};
	}
	return fpisa_query_fetch(q);
}

int fpisa_query_settle(struct fpisa_query *q)
{
	if (q->kind == FPISA_QUERY_TOPN)
		return settle_top(q);
	if (q->kind == FPISA_QUERY_JOIN)
		return settle_join(q);
	return fpisa_groups_settle(&q->groups);
}

/* -- rows ---------------------------------------------------------------------------------- */

/*
 * Take the record at `p` and return the end of the record. A 0 terminates each text, and replaces the first byte of the
 * next length, which has already been read.
 */
static uint8_t *take_record(struct fpisa_query *q, uint8_t *p)
{
	uint32_t len = 0;

	for (uint32_t i = 0; i < q->n_out; i++) {
		memcpy(&len, p, sizeof(len));
		if (i)
			*p = 0;
		p += sizeof(len);
		q->text[i] = len == FPISA_QUERY_NULL ? NULL : (char *)p;
		p += len == FPISA_QUERY_NULL ? 0 : len;
	}
	return p;
}

/*
 * Take the next record of the stream. The 0 after the last text had replaced the first byte of the next record, so
 * restore that byte first.
 */
static int next_of_stream(struct fpisa_query *q)
{
	uint8_t *end;

	if (q->held) {
		*q->held = q->kept;
		q->held = NULL;
	}
	if (q->stream_at == q->stream_n)
		return 0;
	end = take_record(q, q->stream + q->stream_at);
	q->stream_at = (size_t)(end - q->stream);
	q->held = end;
	q->kept = *end;
	*end = 0;
	return 1;
}

static int next_of_top(struct fpisa_query *q)
{
	struct fpisa_top_row at;
	struct fpisa_query_worker *w;
	uint8_t *end;

	if (q->held) {
		*q->held = q->kept;
		q->held = NULL;
	}
	if (q->next == q->total)
		return 0;
	at = place_of(q, q->next++, count_nulls(q));
	w = &q->worker[at.worker];
	end = take_record(q, w->records + w->record_at);
	w->record_at = (size_t)(end - w->records);
	q->held = end;
	q->kept = *end;
	*end = 0;
	return 1;
}

static char *cell(struct fpisa_query *q, uint32_t i)
{
	return q->space + i * CELL;
}

/*
 * Return whether the answer needs the aggregate. If a sum is out of range, the smallest and largest values show whether
 * all of the group's values are finite.
 */
static int wanted(const struct fpisa_query *q, uint32_t aggregate, int overflow)
{
	uint32_t some = q->options.aggregates;

	return !some || some & aggregate || (overflow && aggregate != FPISA_AGGREGATE_AVG);
}

/* Return the cell of output `i`, and use it as the text of that output. */
static char *give(struct fpisa_query *q, uint32_t i)
{
	q->text[i] = cell(q, i);
	return cell(q, i);
}

static void value_text(const struct fpisa_column *c, uint64_t bits, char *to)
{
	if (c->type == FPISA_COLUMN_DOUBLE)
		fpisa_double_text(bits, to);
	else
		fpisa_real_text((uint32_t)bits, to);
}

static void sum_text(uint64_t bits, struct fpisa_format as, char *to)
{
	if (as.bytes == 8)
		fpisa_double_text(bits, to);
	else
		fpisa_real_text((uint32_t)bits, to);
}

/* Write the value of a place in the order of the group's form. */
static void ordered_text(uint32_t form, const struct fpisa_column *c, uint32_t narrow, uint64_t wide, char *to)
{
	if (form != FPISA_FORM_DOUBLE)
		value_text(c, fpisa_order_value(narrow), to);
	else if (c->type == FPISA_COLUMN_DOUBLE)
		value_text(c, fpisa_order_value64(wide), to);
	else
		value_text(c, fpisa_double_narrow(fpisa_order_value64(wide)), to);
}

/* Write the aggregates of a column of reals or doubles, starting with the output `i` of the count. */
static void float_texts(struct fpisa_query *q, const struct fpisa_query_group *g, const struct fpisa_column *c,
			uint32_t i)
{
	const uint32_t values = fpisa_groups_config(&q->groups, g->key)->form;
	const struct fpisa_format wide = fpisa_superacc_format(FPISA_FORMAT_FP64),
				  narrow = fpisa_superacc_format(FPISA_FORMAT_FP32),
				  form = values == FPISA_FORM_DOUBLE ? wide : narrow,
				  as = c->type == FPISA_COLUMN_DOUBLE || q->options.double_sums ? wide : narrow;
	union fpisa_superacc_full sum;
	uint32_t flags = 0;
	int overflow;

	if (wanted(q, FPISA_AGGREGATE_SUM | FPISA_AGGREGATE_AVG, 0))
		fpisa_groups_sum(&q->groups, g, &sum);
	if (wanted(q, FPISA_AGGREGATE_SUM, 0))
		sum_text(fpisa_superacc_read(&sum.acc, form, as, 0, &flags), as, give(q, i + SUM));
	overflow = !!(flags & FPISA_OVERFLOW);
	if (wanted(q, FPISA_AGGREGATE_MIN, overflow))
		ordered_text(values, c, g->min, g->least, give(q, i + MIN));
	if (wanted(q, FPISA_AGGREGATE_MAX, overflow))
		ordered_text(values, c, g->max, g->most, give(q, i + MAX));
	if (wanted(q, FPISA_AGGREGATE_AVG, 0))
		fpisa_double_text(fpisa_superacc_read(&sum.acc, form, wide, 1, &flags), give(q, i + AVG));
}

/* Write the 128-bit integer that has this place in the order of integers. */
static void place_text(const __u64 place[2], unsigned int scale, char *to)
{
	const __u64 high = place[1] ^ 1ull << 63, x[3] = {place[0], high, (__u64)((__s64)high >> 63)};

	fpisa_decimal_text(x, scale, to);
}

/* Write the date or the timestamp that has this place in the order of integers. */
static int day_text(const __u64 place[2], const struct fpisa_column *c, char *to)
{
	const int64_t x = (int64_t)place[0];
	int fits = (place[1] ^ 1ull << 63) == (__u64)(x >> 63);

	if (!fits || !(c->type == FPISA_COLUMN_DATE ? fpisa_date_valid(x) : fpisa_timestamp_valid(x)))
		return fpisa_fail(-EILSEQ, "a key has a date that is not in the table; please report this bug");
	if (c->type == FPISA_COLUMN_DATE)
		fpisa_date_text((int32_t)x, to);
	else
		fpisa_timestamp_text(x, to);
	return 0;
}

/* Write the aggregates of dates or timestamps, which have no sum. */
static int day_texts(struct fpisa_query *q, const struct fpisa_query_group *g, const struct fpisa_column *c, uint32_t i)
{
	int rc = 0;

	if (wanted(q, FPISA_AGGREGATE_MIN, 0))
		rc = day_text(g->lowest, c, give(q, i + MIN));
	if (!rc && wanted(q, FPISA_AGGREGATE_MAX, 0))
		rc = day_text(g->highest, c, give(q, i + MAX));
	return rc;
}

static void integer_texts(struct fpisa_query *q, const struct fpisa_query_group *g, const struct fpisa_column *c,
			  uint32_t i)
{
	if (wanted(q, FPISA_AGGREGATE_SUM, 0))
		fpisa_decimal_text(g->sum, c->scale, give(q, i + SUM));
	if (wanted(q, FPISA_AGGREGATE_MIN, 0))
		place_text(g->lowest, c->scale, give(q, i + MIN));
	if (wanted(q, FPISA_AGGREGATE_MAX, 0))
		place_text(g->highest, c->scale, give(q, i + MAX));
	if (wanted(q, FPISA_AGGREGATE_AVG, 0))
		fpisa_decimal_average(g->sum, c->scale, g->count, give(q, i + AVG));
}

static void count_text(struct fpisa_query *q, const struct fpisa_query_group *g, uint32_t i)
{
	snprintf(give(q, i), CELL, "%llu", (unsigned long long)g->count);
}

/* Write the aggregates of a value of the group, starting with output `i`. Return 0, or -EILSEQ with the message set. */
static int aggregate_texts(struct fpisa_query *q, const struct fpisa_query_group *g, const struct fpisa_column *c,
			   uint32_t i)
{
	const struct fpisa_query_config *config = fpisa_groups_config(&q->groups, g->key);

	count_text(q, g, i);
	for (enum aggregate a = SUM; a < AGGREGATES; a++)
		q->text[i + a] = NULL;
	if (!g->count || !fpisa_group_has_values(config, g))
		return 0;
	if (c->type == FPISA_COLUMN_DATE || c->type == FPISA_COLUMN_TIMESTAMP)
		return day_texts(q, g, c, i);
	if (fpisa_form_is_integer(config->form))
		integer_texts(q, g, c, i);
	else
		float_texts(q, g, c, i);
	return 0;
}

/* Write the group of a table without rows. */
static int empty_total(struct fpisa_query *q)
{
	uint32_t i = before_aggregates(q);

	memset(q->text, 0, q->n_out * sizeof(*q->text));
	strcpy(give(q, 0), "0");
	for (uint32_t k = 0; k < q->worker[0].is.values; i += aggregates_of(q, k++))
		strcpy(give(q, i), "0");
	return 1;
}

static int bad_key(void)
{
	return fpisa_fail(-EILSEQ, "a received key does not have the form of options.by; please report this bug");
}

static int next_group(struct fpisa_query *q, const struct fpisa_query_group **g)
{
	int rc = fpisa_groups_next(&q->groups, g);

	return rc == -EEXIST ? fpisa_query_key_twice(q) : rc;
}

/* Write the columns of the key. Set *bytes to the bytes of these columns. */
static int key_texts(struct fpisa_query *q, const struct fpisa_query_group *g, size_t *bytes)
{
	const struct fpisa_query_worker *w = &q->worker[0];
	size_t at = 0, most = q->groups.config.key_bytes - q->numbered;

	for (uint32_t i = 0; i < w->is.keys; i++) {
		int null = 0,
		    end = fpisa_key_take((const uint8_t *)g->key, at, most, &w->columns[i], cell(q, i), CELL, &null);

		if (end < 0)
			return bad_key();
		at = (size_t)end;
		q->text[i] = null ? NULL : cell(q, i);
	}
	*bytes = at;
	return 0;
}

/*
 * Write the aggregates of a group with this number, whose first output is `i`. The groups of distinct values are only
 * counted later. The return value is the same as for aggregate_texts().
 */
static int value_texts(struct fpisa_query *q, const struct fpisa_query_group *g, uint32_t number, uint32_t i)
{
	if (number && fpisa_query_is_distinct(q, number - 1))
		return 0;
	if (number && !fpisa_query_is_counted(q, number - 1))
		return aggregate_texts(q, g, fpisa_query_value(&q->worker[0], number - 1), i);
	count_text(q, g, i);
	return 0;
}

/* Write how many of the key's groups have distinct values. Check that there is one group of each other number. */
static int count_groups(struct fpisa_query *q, const uint64_t *found, const uint32_t *at)
{
	int rc = found[0] == 1 ? 0 : bad_key();

	for (uint32_t k = 0; !rc && k < q->worker[0].is.values; k++) {
		if (fpisa_query_is_distinct(q, k))
			snprintf(give(q, at[k + 1]), CELL, "%llu", (unsigned long long)found[k + 1]);
		else if (found[k + 1] != 1)
			rc = bad_key();
	}
	return rc;
}

/*
 * Write the aggregates of all values of the key whose first group is `g`. The groups of a key have the key in their
 * first `bytes` bytes, and follow each other. The last byte of a group's key is 0 for the number of rows, or the number
 * of a value. Keep the first group of the next key in q->ahead.
 */
static int next_values(struct fpisa_query *q, const struct fpisa_query_group *g, size_t bytes)
{
	const uint32_t values = q->worker[0].is.values, last = q->groups.config.key_bytes - 1;
	uint64_t found[FPISA_COLUMNS_MOST + 1] = {0};
	uint32_t at[FPISA_COLUMNS_MOST + 2]; /* first output of each number */
	uint8_t key[sizeof(g->key)];
	int rc;

	memcpy(key, g->key, sizeof(key));
	at[0] = q->worker[0].is.keys;
	at[1] = before_aggregates(q);
	for (uint32_t k = 0; k < values; k++)
		at[k + 2] = at[k + 1] + aggregates_of(q, k);
	do {
		uint8_t number = ((const uint8_t *)g->key)[last];

		if (number > values)
			return bad_key();
		found[number]++;
		rc = value_texts(q, g, number, at[number]) ?: next_group(q, &g);
	} while (rc > 0 && !memcmp(key, g->key, bytes));
	q->is_ahead = rc > 0;
	if (rc > 0)
		q->ahead = *g;
	return rc < 0 ? rc : count_groups(q, found, at) ?: 1;
}

static int next_of_groups(struct fpisa_query *q)
{
	const struct fpisa_query_group *g = &q->ahead;
	size_t bytes = 0;
	int rc = q->is_ahead ? 1 : next_group(q, &g);

	if (!rc && q->options.total && !q->next++)
		return empty_total(q);
	if (rc <= 0)
		return rc;
	q->next++;
	rc = key_texts(q, g, &bytes);
	if (rc)
		return rc;
	if (q->numbered)
		return next_values(q, g, bytes);
	if (q->value)
		rc = aggregate_texts(q, g, fpisa_query_value(&q->worker[0], 0), before_aggregates(q));
	else
		count_text(q, g, q->worker[0].is.keys);
	return rc ? rc : 1;
}

int fpisa_query_row(struct fpisa_query *q)
{
	return fpisa_query_streams(q)	   ? next_of_stream(q) :
	       q->kind == FPISA_QUERY_TOPN ? next_of_top(q) :
					     next_of_groups(q);
}
