/* SPDX-License-Identifier: GPL-2.0-only */
/* Keys and values of Arrow columns have the same bits as keys and values from text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fpisa-query.h"
#include "lib/base/error.h"
#include "query/lib/decimal.h"
#include "query/worker/batch.h"
#include "vectors.h"

#define ROWS 5000
#define TEXT 40

static struct vectors_rng rng;

/* A column as Arrow stores it, starting at a position after the first, and its values as text */
struct made {
	struct ArrowArray array;
	const void *buffers[3];
	uint8_t valid[ROWS];
	char values[16 * (ROWS + 8)], data[ROWS * TEXT];
	char text[ROWS][TEXT + 16];
	bool null[ROWS];
};

static struct made made[3];
static struct batch batch;

/* Return bits that are often at the end of a range, or special. */
static uint64_t bits_of(const struct fpisa_column *c)
{
	static const float reals[] = {0.0f, -0.0f, 1e-45f, 3.4028235e38f, -3.4028235e38f};
	static const double doubles[] = {0.0, -0.0, 5e-324, 1.7976931348623157e308, 0.1};
	const uint64_t kind = vectors_below(&rng, 8);
	uint64_t bits = vectors_next(&rng);
	float x;
	double d;

	if (c->type == FPISA_COLUMN_REAL && kind < 3) {
		x = kind ? reals[vectors_below(&rng, 5)] : vectors_below(&rng, 2) ? (float)NAN : (float)-INFINITY;
		bits = 0;
		memcpy(&bits, &x, sizeof(x));
	} else if (c->type == FPISA_COLUMN_DOUBLE && kind < 3) {
		d = kind ? doubles[vectors_below(&rng, 5)] : vectors_below(&rng, 2) ? -(double)NAN : (double)INFINITY;
		memcpy(&bits, &d, sizeof(d));
	} else if (c->type == FPISA_COLUMN_DATE) {
		bits = kind ? bits % (2932896 + 719162 + 1) - 719162 : kind & 1 ? 2932896 : (uint64_t)-719162;
	} else if (kind < 2) {
		bits = kind ? UINT64_MAX >> 1 : 1ull << 63;
		if (c->type == FPISA_COLUMN_INT32)
			bits = kind ? INT32_MAX : (uint64_t)INT32_MIN;
	}
	return bits;
}

/* Write value `i` of a number or a date, and its text as the C library prints it. */
static void make_number(struct made *m, const struct fpisa_column *c, int at, int i)
{
	const size_t width = c->type == FPISA_COLUMN_DECIMAL				     ? 16 :
			     c->type == FPISA_COLUMN_DOUBLE || c->type == FPISA_COLUMN_INT64 ? 8 :
											       4;
	uint64_t bits = bits_of(c);
	int64_t decimal = (int64_t)(bits % 999999999999999999ull), wide[2] = {decimal, 0};
	float x;
	double d;

	switch (c->type) {
	case FPISA_COLUMN_REAL:
		memcpy(&x, &bits, sizeof(x));
		snprintf(m->text[i], sizeof(m->text[i]), "%.9g", (double)x);
		break;
	case FPISA_COLUMN_DOUBLE:
		memcpy(&d, &bits, sizeof(d));
		snprintf(m->text[i], sizeof(m->text[i]), "%.17g", d);
		break;
	case FPISA_COLUMN_INT32:
		snprintf(m->text[i], sizeof(m->text[i]), "%d", (int)(uint32_t)bits);
		break;
	case FPISA_COLUMN_INT64:
		snprintf(m->text[i], sizeof(m->text[i]), "%lld", (long long)bits);
		break;
	case FPISA_COLUMN_DATE: {
		/* Count the days of the proleptic Gregorian calendar month by month. */
		static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
		int64_t days = (int64_t)bits + 719162;
		int year = 1 + 400 * (int)(days / 146097), month = 0;

		for (days %= 146097;; month = (month + 1) % 12, year += !month) {
			int leap = month == 1 && !(year % 4) && (year % 100 || !(year % 400));

			if (days < lengths[month] + leap)
				break;
			days -= lengths[month] + leap;
		}
		snprintf(m->text[i], sizeof(m->text[i]), "%04d-%02d-%02d", year, month + 1, (int)days + 1);
		break;
	}
	default:
		if (bits & 1) {
			wide[0] = -decimal;
			wide[1] = -(decimal > 0);
		}
		snprintf(m->text[i], sizeof(m->text[i]), "%s%lld.%02lld", bits & 1 ? "-" : "",
			 (long long)(decimal / 100), (long long)(decimal % 100));
		memcpy(m->values + 16 * at, wide, sizeof(wide));
		return;
	}
	memcpy(m->values + width * (size_t)at, &bits, width);
}

static void make(struct made *m, const struct fpisa_column *c)
{
	const int offset = (int)vectors_below(&rng, 8);
	int32_t end = 0;

	memset(m, 0, sizeof(*m));
	for (int i = 0; i < ROWS; i++) {
		int at = offset + i;

		m->null[i] = !c->not_null && !vectors_below(&rng, 5);
		if (!m->null[i])
			m->valid[at / 8] |= (uint8_t)(1 << at % 8);
		if (c->type != FPISA_COLUMN_TEXT) {
			make_number(m, c, at, i);
			continue;
		}
		sprintf(m->text[i], "%.*s", (int)vectors_below(&rng, 14), "\xc3\xa9 text, \"x\" y");
		memcpy(m->values + 4 * at, &end, sizeof(end));
		memcpy(m->data + end, m->text[i], strlen(m->text[i]));
		end += m->null[i] ? 0 : (int32_t)strlen(m->text[i]);
		memcpy(m->values + 4 * (at + 1), &end, sizeof(end));
	}
	m->buffers[0] = m->valid;
	m->buffers[1] = m->values;
	m->buffers[2] = m->data;
	m->array = (struct ArrowArray){
		.length = ROWS, .null_count = c->not_null ? 0 : -1, .offset = offset, .buffers = m->buffers};
}

static void released(struct ArrowArray *a)
{
	a->release = NULL;
}

/* Put the columns into the batch. */
static void fill(int n)
{
	static struct ArrowArray *children[3];

	for (int i = 0; i < n; i++)
		children[i] = &made[i].array;
	batch_release(&batch);
	batch.rows = (struct ArrowArray){.length = ROWS, .n_children = n, .children = children, .release = released};
}

static struct fpisa_column random_column(void)
{
	struct fpisa_column c = {.type = (uint8_t)(1 + vectors_below(&rng, 7)),
				 .not_null = (uint8_t)vectors_below(&rng, 2)};

	if (c.type == FPISA_COLUMN_DECIMAL) {
		c.precision = vectors_below(&rng, 2) ? 18 : 30;
		c.scale = 2;
	}
	strcpy(c.name, "c");
	return c;
}

/*
 * Check random tables of one to three columns. Each slice has the keys of the same rows in text, or an error at the
 * first row without room.
 */
static void keys(void **state)
{
	(void)state;
	for (int round = 0; round < 60; round++) {
		struct fpisa_column c[3];
		int n = 1 + (int)vectors_below(&rng, 3);
		const uint32_t most = vectors_below(&rng, 2) ? 32 : 16;

		for (int i = 0; i < n; i++) {
			c[i] = random_column();
			make(&made[i], &c[i]);
		}
		fill(n);
		for (int from = 0; batch_slice(&batch); from += batch.n) {
			int err = 0, row = -1;

			for (int i = 0; !err && i < n; i++)
				err = batch_key(&batch, i, &c[i], most, false, "t", &row);
			assert_true(!err || err == -ENOSPC);
			for (int k = 0; k < batch.n; k++) {
				uint8_t want[FPISA_QUERY_KEY_BYTES] = {0};
				int used = 0;

				for (int i = 0; used >= 0 && i < n; i++) {
					struct fpisa_field f = {made[i].text[from + k], strlen(made[i].text[from + k]),
								made[i].null[from + k]};

					used = fpisa_key_put(want, (size_t)used, most, &c[i], &f);
				}
				assert_true(used >= 0 || (err && used == -ENOSPC));
				if (!err)
					assert_memory_equal(batch.row[k].key, want, sizeof(want));
				if (err && k == row)
					assert_int_equal(used, -ENOSPC);
			}
		}
	}
}

static void values(void **state)
{
	(void)state;
	for (int round = 0; round < 60; round++) {
		struct fpisa_column c = random_column();

		if (!fpisa_column_form(&c))
			continue;
		make(&made[0], &c);
		fill(1);
		for (int from = 0; batch_slice(&batch); from += batch.n) {
			assert_int_equal(batch_value(&batch, 0, &c, fpisa_column_form(&c), "t"), 0);
			for (int k = 0; k < batch.n; k++) {
				struct fpisa_field f = {made[0].text[from + k], strlen(made[0].text[from + k]), 0};
				struct fpisa_row want = {.count = 1};

				assert_int_equal(batch.null[k], made[0].null[from + k]);
				if (batch.null[k])
					continue;
				assert_int_equal(fpisa_value_parse(&c, &f, &want.value, want.wide), 0);
				if (c.type == FPISA_COLUMN_REAL && !strcmp(f.text + (*f.text == '-'), "nan"))
					assert_true((batch.row[k].value & 0x7fffffff) > 0x7f800000);
				else
					assert_memory_equal(&batch.row[k], &want, sizeof(want));
			}
		}
	}
}

/*
 * Check a NULL in a column that is not null, a byte 0, a day outside the years of a date, and a NULL in a join's key.
 */
static void refusals(void **state)
{
	struct fpisa_column c = {.name = "c", .type = FPISA_COLUMN_INT32};
	int32_t day = 2932897;
	int row;

	(void)state;
	make(&made[0], &c);
	fill(1);
	c.not_null = 1;
	assert_true(batch_slice(&batch));
	assert_int_equal(batch_key(&batch, 0, &c, 8, false, "t", &row), -EINVAL);
	assert_string_equal(fpisa_query_error(), "t: column c is empty, but the schema declares it not null");
	assert_int_equal(batch_value(&batch, 0, &c, fpisa_column_form(&c), "t"), -EINVAL);
	c.not_null = 0;
	assert_int_equal(batch_key(&batch, 0, &c, 4, true, "t", &row), 0);
	for (int k = 0; k < batch.n; k++)
		assert_int_equal(batch.null[k], made[0].null[k]);

	c = (struct fpisa_column){.name = "c", .type = FPISA_COLUMN_DATE, .not_null = 1};
	make(&made[0], &c);
	memcpy(made[0].values + 4 * (made[0].array.offset + 7), &day, sizeof(day));
	fill(1);
	assert_true(batch_slice(&batch));
	assert_int_equal(batch_key(&batch, 0, &c, 8, false, "t", &row), -EINVAL);
	assert_string_equal(fpisa_query_error(), "t: column c: a date is not in the years 1 to 9999; store it as text");

	c.type = FPISA_COLUMN_TEXT;
	make(&made[0], &c);
	while (!memchr(made[0].data, 'x', 4000))
		make(&made[0], &c);
	*(char *)memchr(made[0].data, 'x', 4000) = 0;
	fill(1);
	assert_true(batch_slice(&batch));
	assert_int_equal(batch_key(&batch, 0, &c, 32, false, "t", &row), -EINVAL);
	assert_string_equal(fpisa_query_error(),
			    "t: column c: a text has a zero byte, which is not supported; remove it");
}

/* A zero byte is found at each place in a text of each length. Bytes that differ from 0 in one bit are not zero. */
static void zero_bytes(void **state)
{
	const struct fpisa_column c = {.name = "c", .type = FPISA_COLUMN_TEXT, .not_null = 1};
	int32_t ends[2] = {0};
	char text[FPISA_QUERY_KEY_BYTES];
	struct ArrowArray a = {.length = 1, .buffers = (const void *[]){NULL, ends, text}}, *children[] = {&a};
	int row;

	(void)state;
	for (int len = 1; len < FPISA_QUERY_KEY_BYTES; len++)
		for (int at = -1; at < len; at++) {
			for (int i = 0; i < len; i++)
				text[i] = (char)(i == at ? 0 : 1 << vectors_below(&rng, 8));
			ends[1] = len;
			batch_release(&batch);
			batch.rows = (struct ArrowArray){
				.length = 1, .n_children = 1, .children = children, .release = released};
			assert_true(batch_slice(&batch));
			assert_int_equal(batch_key(&batch, 0, &c, FPISA_QUERY_KEY_BYTES, false, "t", &row),
					 at < 0 ? 0 : -EINVAL);
		}
}

/* Only the columns that a statement uses are read. */
static void formats(void **state)
{
	struct fpisa_column c[] = {{.name = "a", .type = FPISA_COLUMN_DECIMAL, .precision = 15, .scale = 2},
				   {.name = "b", .type = FPISA_COLUMN_TEXT}};
	const struct fpisa_column *of[] = {&c[0], &c[1]};
	struct ArrowSchema place = {.format = "l"}, a = {.format = "d:15,2"}, b = {.format = "u"},
			   *children[] = {&place, &a, &b}, given = {.n_children = 3, .children = children};
	static const char *const bad[][2] = {{"d:15,3", "u"}, {"d:15,2,256", "u"}, {"d:1", "u"}, {"d:15,22", "u"},
					     {"d:15,2", "U"}, {"d:15,2", "vu"},	   {"l", "u"},	 {"d:15,2", "i"}};

	(void)state;
	assert_int_equal(batch_accepts(&given, of, 2, true, "t"), 0);
	a.format = "d:15,2,128";
	b.format = "z";
	assert_int_equal(batch_accepts(&given, of, 2, true, "t"), 0);
	assert_int_equal(batch_accepts(&given, of, 2, false, "t"), -EPROTO);
	assert_int_equal(batch_accepts(&given, of, 1, true, "t"), -EPROTO);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		a.format = bad[i][0];
		b.format = bad[i][1];
		assert_int_equal(batch_accepts(&given, of, 2, true, "t"), -EPROTO);
	}
	a.format = "d:15,2";
	b.format = "u";
	b.dictionary = &a;
	assert_int_equal(batch_accepts(&given, of, 2, true, "t"), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys),	      cmocka_unit_test(values),	 cmocka_unit_test(refusals),
		cmocka_unit_test(zero_bytes), cmocka_unit_test(formats),
	};

	rng.state = vectors_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
