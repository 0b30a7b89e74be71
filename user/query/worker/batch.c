// SPDX-License-Identifier: GPL-2.0-only
/* Rows of Arrow batches. batch.h documents the functions. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "batch.h"
#include "fpisa/query/order.h"
#include "lib/base/error.h"
#include "parquet.h"

/* -- batches ---------------------------------------------------------------------- */

/* Return whether values with this Arrow format have the memory layout that this file expects for the column. */
static bool is_format(const char *format, const struct fpisa_column *c)
{
	static const char *const formats[] = {
		[FPISA_COLUMN_REAL] = "f",  [FPISA_COLUMN_DOUBLE] = "g", [FPISA_COLUMN_INT32] = "i",
		[FPISA_COLUMN_INT64] = "l", [FPISA_COLUMN_DATE] = "tdD", [FPISA_COLUMN_TIMESTAMP] = "tsu:"};
	char decimal[24];

	if (c->type == FPISA_COLUMN_TEXT)
		return !strcmp(format, "u") || !strcmp(format, "z");
	if (c->type != FPISA_COLUMN_DECIMAL)
		return !strcmp(format, formats[c->type]);
	snprintf(decimal, sizeof(decimal), "d:%u,%u", c->precision, c->scale);
	return !strncmp(format, decimal, strlen(decimal)) &&
	       (!format[strlen(decimal)] || !strcmp(format + strlen(decimal), ",128"));
}

int batch_accepts(const struct ArrowSchema *given, const struct fpisa_column *const *column, int n, bool place,
		  const char *name)
{
	static const struct fpisa_column of_place = {.type = FPISA_COLUMN_INT64};

	if (given->n_children != n + place)
		return fpisa_fail(
			-EPROTO,
			"%s: the driver returned %lld columns instead of %d; give another version of the library with --driver",
			name, (long long)given->n_children, n + place);
	for (int i = 0; i < n + place; i++) {
		const struct fpisa_column *c = i < place ? &of_place : column[i - place];

		if (given->children[i]->dictionary || !is_format(given->children[i]->format, c))
			return fpisa_fail(
				-EPROTO,
				"%s: column %d has Arrow's format '%.32s', which differs from the column's type; give another version of the library with --driver",
				name, i + 1, given->children[i]->format);
	}
	return 0;
}

void batch_release(struct batch *b)
{
	if (b->rows.release)
		b->rows.release(&b->rows);
	b->rows.release = NULL;
	b->at = b->n = b->next = 0;
}

bool batch_slice(struct batch *b)
{
	int64_t left;

	b->at += b->n;
	b->n = b->next = 0;
	left = b->rows.release ? b->rows.length - b->at : 0;
	b->n = left < BATCH_SLICE ? (int)left : BATCH_SLICE;
	memset(b->row, 0, (size_t)b->n * sizeof(b->row[0]));
	memset(b->used, 0, (size_t)b->n);
	memset(b->null, 0, (size_t)b->n * sizeof(b->null[0]));
	for (int i = 0; i < b->n; i++)
		b->row[i].count = 1;
	return b->n > 0;
}

/* -- columns ---------------------------------------------------------------------- */

/* Return the validity bitmap of a column, or NULL if the column has no NULLs. */
static const uint8_t *validity(const struct ArrowArray *a)
{
	return a->null_count ? a->buffers[0] : NULL;
}

static bool is_null(const uint8_t *valid, int64_t i)
{
	return valid && !(valid[i >> 3] >> (i & 7) & 1);
}

/* Mark the rows of the slice whose value in the column is NULL. */
static void note_nulls(struct batch *b, const struct ArrowArray *a)
{
	const uint8_t *valid = validity(a);
	int64_t from = a->offset + b->at;

	for (int k = 0; valid && k < b->n; k++)
		b->null[k] |= is_null(valid, from + k);
}

int batch_refuse_null(const struct fpisa_column *c, const char *name)
{
	return fpisa_fail(-EINVAL, "%s: column %s is empty, but the schema declares it not null", name, c->name);
}

static int refuse_nulls(const struct batch *b, const struct ArrowArray *a, const struct fpisa_column *c,
			const char *name)
{
	const uint8_t *valid = validity(a);

	for (int k = 0; valid && k < b->n; k++)
		if (is_null(valid, a->offset + b->at + k))
			return batch_refuse_null(c, name);
	return 0;
}

void batch_places(struct batch *b, int i)
{
	const struct ArrowArray *a = b->rows.children[i];

	memcpy(b->place, (const int64_t *)a->buffers[1] + a->offset + b->at, (size_t)b->n * sizeof(b->place[0]));
}

const char *batch_text(const struct batch *b, int i, int64_t at, size_t *len)
{
	const struct ArrowArray *a = b->rows.children[i];
	const int32_t *end = (const int32_t *)a->buffers[1] + a->offset + at;

	if (is_null(validity(a), a->offset + at))
		return NULL;
	*len = (size_t)(end[1] - end[0]);
	return a->buffers[2] ? (const char *)a->buffers[2] + end[0] : "";
}

/* -- keys ------------------------------------------------------------------------- */

/* For a column of numbers or dates, store the value of each row of the slice as bytes of a key. */
static void key_bytes(const struct batch *b, const struct ArrowArray *a, const struct fpisa_column *c, uint8_t (*to)[16])
{
	const int64_t from = a->offset + b->at;
	const char *values = a->buffers[1];
	double x;

	for (int k = 0; k < b->n; k++) {
		uint32_t bits;

		switch (c->type) {
		case FPISA_COLUMN_REAL:
			memcpy(&bits, values + 4 * (from + k), sizeof(bits));
			bits = fpisa_order_key(bits);
			memcpy(to[k], &bits, sizeof(bits));
			break;
		case FPISA_COLUMN_DOUBLE:
			memcpy(&x, values + 8 * (from + k), sizeof(x));
			x = fpisa_double_canonical(x);
			memcpy(to[k], &x, sizeof(x));
			break;
		case FPISA_COLUMN_INT64:
		case FPISA_COLUMN_TIMESTAMP:
			memcpy(to[k], values + 8 * (from + k), 8);
			break;
		case FPISA_COLUMN_DECIMAL:
			memcpy(to[k], values + 16 * (from + k), 16);
			break;
		default:
			memcpy(to[k], values + 4 * (from + k), 4);
		}
	}
}

static bool is_day(uint8_t type)
{
	return type == FPISA_COLUMN_DATE || type == FPISA_COLUMN_TIMESTAMP;
}

/* Check the date in the first 4 bytes, or the timestamp in the first 8. */
static int check_day(const void *bytes, const struct fpisa_column *c, const char *name)
{
	int64_t us;
	int32_t days;

	memcpy(&days, bytes, sizeof(days));
	memcpy(&us, bytes, sizeof(us));
	if (c->type == FPISA_COLUMN_DATE ? fpisa_date_valid(days) : fpisa_timestamp_valid(us))
		return 0;
	return fpisa_fail(-EINVAL, "%s: column %s: a %s is not in the years 1 to 9999; store it as text", name, c->name,
			  fpisa_column_type_name(c->type));
}

/* Copy a number of 4, 8 or 16 bytes. The compiler knows each size. */
static void copy_number(uint8_t *to, const uint8_t *from, uint32_t width)
{
	if (width == 4)
		memcpy(to, from, 4);
	else if (width == 8)
		memcpy(to, from, 8);
	else
		memcpy(to, from, 16);
}

static int key_numbers(struct batch *b, const struct ArrowArray *a, const struct fpisa_column *c, uint32_t most,
		       const char *name, int *row)
{
	const uint8_t *valid = validity(a);
	const uint32_t null = !c->not_null, width = (uint32_t)fpisa_key_least(c) - null;
	uint8_t bytes[BATCH_SLICE][16];

	key_bytes(b, a, c, bytes);
	for (int k = 0; k < b->n; k++) {
		uint8_t *to = (uint8_t *)b->row[k].key + b->used[k];
		bool empty = is_null(valid, a->offset + b->at + k);
		int err = !empty && is_day(c->type) ? check_day(bytes[k], c, name) : 0;

		if (b->null[k])
			continue;
		*row = k;
		if (b->used[k] + null + width > most)
			return -ENOSPC;
		if (null)
			*to++ = empty;
		if (err)
			return err;
		if (!empty)
			copy_number(to, bytes[k], width);
		b->used[k] = (uint8_t)(b->used[k] + null + width);
	}
	return 0;
}

/* Copy a text, most of which are short. Return whether a byte is zero. */
static bool copy_text(uint8_t *to, const char *from, size_t len)
{
	const uint64_t ones = 0x0101010101010101;
	uint64_t word, zero = 0;
	size_t i = 0;

	for (; i + sizeof(word) <= len; i += sizeof(word)) {
		memcpy(&word, from + i, sizeof(word));
		memcpy(to + i, &word, sizeof(word));
		zero |= (word - ones) & ~word & ones << 7;
	}
	for (; i < len; i++) {
		to[i] = (uint8_t)from[i];
		zero |= !from[i];
	}
	return zero;
}

static int key_texts(struct batch *b, int i, const struct fpisa_column *c, uint32_t most, const char *name, int *row)
{
	const struct ArrowArray *a = b->rows.children[i];
	const int32_t *end = (const int32_t *)a->buffers[1] + a->offset + b->at;
	const uint8_t *valid = validity(a);
	const char *texts = a->buffers[2];
	const uint32_t null = !c->not_null;

	for (int k = 0; k < b->n; k++) {
		uint8_t *to = (uint8_t *)b->row[k].key + b->used[k];
		bool empty = is_null(valid, a->offset + b->at + k);
		size_t len = empty ? 0 : (size_t)(end[k + 1] - end[k]);

		if (b->null[k])
			continue;
		*row = k;
		if (b->used[k] + null + 1 + len > most)
			return -ENOSPC;
		if (null)
			*to++ = empty;
		*to++ = (uint8_t)len;
		if (len && copy_text(to, texts + end[k], len))
			return fpisa_fail(-EINVAL,
					  "%s: column %s: a text has a zero byte, which is not supported; remove it",
					  name, c->name);
		b->used[k] = (uint8_t)(b->used[k] + null + 1 + len);
	}
	return 0;
}

int batch_key(struct batch *b, int i, const struct fpisa_column *c, uint32_t most, bool join, const char *name, int *row)
{
	const struct ArrowArray *a = b->rows.children[i];
	struct fpisa_column is = *c;
	int err = c->not_null ? refuse_nulls(b, a, c, name) : 0;

	if (err)
		return err;
	if (join) {
		note_nulls(b, a);
		is.not_null = 1;
	}
	return c->type == FPISA_COLUMN_TEXT ? key_texts(b, i, &is, most, name, row) :
					      key_numbers(b, a, &is, most, name, row);
}

/* -- values ----------------------------------------------------------------------- */

void batch_number(struct batch *b, uint32_t at, int number)
{
	for (int k = 0; k < b->n; k++) {
		struct fpisa_row *r = &b->row[k];

		b->group[k] = number ? b->group[k] : b->used[k];
		memset((uint8_t *)r->key + b->group[k], 0, (size_t)(b->used[k] - b->group[k]));
		b->used[k] = b->group[k];
		((uint8_t *)r->key)[at] = (uint8_t)number;
		r->value = 0;
		r->wide[0] = r->wide[1] = 0;
		r->count = number ? 1 : 1 | FPISA_ROW_NO_SUM | FPISA_ROW_NO_ORDER;
		b->null[k] = false;
	}
	b->next = 0;
}

/* Return 24 bits of the sum as a term. The terms have the sum's sign. */
static float term_of(__int128 sum, int step)
{
	const int bits = 24;

	for (int i = 0; i < step; i++)
		sum /= 1 << bits;
	return ldexpf((float)(int32_t)(sum % (1 << bits)), bits * step - PARQUET_SCALE);
}

void batch_group(struct batch *b, int i, int step, uint32_t form)
{
	struct ArrowArray *const *columns = b->rows.children + i;
	const struct ArrowArray *count = columns[PARQUET_COUNT], *sum = columns[PARQUET_SUM],
				*end = columns[step == BATCH_TERMS + 1 ? PARQUET_MOST : PARQUET_LEAST];

	for (int k = 0; k < b->n; k++) {
		const int64_t n = ((const int64_t *)count->buffers[1])[count->offset + b->at + k];
		const bool one = n == 1, is_term = step < BATCH_TERMS && !one;
		float value = ((const float *)end->buffers[1])[end->offset + b->at + k];
		struct fpisa_row *r = &b->row[k];
		__int128 whole;

		if (is_term) {
			memcpy(&whole, (const char *)sum->buffers[1] + 16 * (sum->offset + b->at + k), sizeof(whole));
			value = term_of(whole, step);
		}
		memcpy(&r->value, &value, sizeof(value));
		r->wide[0] = r->wide[1] = 0;
		r->count = one ? 0 : is_term ? FPISA_ROW_NO_ORDER : FPISA_ROW_NO_SUM;
		r->count |= step ? 0 : (uint32_t)n;
		b->null[k] = step && (one || (is_term && value == 0));
		if (form != FPISA_FORM_REAL)
			fpisa_row_widen(r);
	}
	b->next = 0;
}

static void only_count(struct batch *b)
{
	for (int k = 0; k < b->n; k++)
		b->row[k].count |= FPISA_ROW_NO_SUM | FPISA_ROW_NO_ORDER;
}

void batch_count(struct batch *b, int i)
{
	note_nulls(b, b->rows.children[i]);
	only_count(b);
}

int batch_distinct(struct batch *b, int i, const struct fpisa_column *c, uint32_t most, const char *name, int *row)
{
	only_count(b);
	return batch_key(b, i, c, most, true, name, row);
}

static void set_value(struct fpisa_row *r, const char *values, int64_t at, const struct fpisa_column *c)
{
	int64_t number = 0;
	int32_t narrow;
	double x;

	switch (c->type) {
	case FPISA_COLUMN_REAL:
		memcpy(&r->value, values + 4 * at, sizeof(r->value));
		return;
	case FPISA_COLUMN_DOUBLE:
		memcpy(&x, values + 8 * at, sizeof(x));
		x = fpisa_double_canonical(x);
		memcpy(&r->wide[0], &x, sizeof(x));
		return;
	case FPISA_COLUMN_DECIMAL:
		memcpy(r->wide, values + 16 * at, sizeof(r->wide));
		return;
	case FPISA_COLUMN_INT32:
	case FPISA_COLUMN_DATE:
		memcpy(&narrow, values + 4 * at, sizeof(narrow));
		number = narrow;
		break;
	default:
		memcpy(&number, values + 8 * at, sizeof(number));
	}
	r->wide[0] = (__u64)number;
	r->wide[1] = (__u64)(number >> 63);
}

int batch_value(struct batch *b, int i, const struct fpisa_column *c, uint32_t form, const char *name)
{
	const struct ArrowArray *a = b->rows.children[i];
	int err = c->not_null ? refuse_nulls(b, a, c, name) : 0;

	note_nulls(b, a);
	for (int k = 0; !err && k < b->n; k++)
		if (!b->null[k])
			set_value(&b->row[k], a->buffers[1], a->offset + b->at + k, c);
	for (int k = 0; !err && is_day(c->type) && k < b->n; k++)
		err = b->null[k] ? 0 : check_day(b->row[k].wide, c, name);
	for (int k = 0; c->type == FPISA_COLUMN_REAL && form != FPISA_FORM_REAL && k < b->n; k++)
		fpisa_row_widen(&b->row[k]);
	return err;
}
