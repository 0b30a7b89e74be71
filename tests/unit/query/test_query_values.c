/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test groups of doubles, integers and decimals. Random rows go through the aggregator's rules, with copies in any
 * order, and through the master's groups, spilled or not. The sums are compared with GMP's rationals, and the order
 * with that of the machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h> /* included before gmp.h, which then declares gmp_fprintf() */
#include <gmp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "fpisa-query.h"
#include "fpisa/query/order.h"
#include "query/lib/decimal.h"
#include "query/lib/groups.h"
#include "query/soft/query.h"
#include "query/worker/reduction.h"
#include "vectors.h"

enum { KEYS = 40, FRAMES = 64, ROWS = 8, EPOCH = 3 };

static struct vectors_rng rng;

/* -- the oracle ---------------------------------------------------------------- */

struct value {
	double real;
	mpz_t integer;
};

struct expected {
	uint64_t count, values;
	int nan, pinf, ninf;
	mpq_t sum;
	struct value least, most;
};

static struct expected want[KEYS];
static uint32_t form;

static int before(const struct value *a, const struct value *b)
{
	if (fpisa_form_is_integer(form))
		return mpz_cmp(a->integer, b->integer) < 0;
	if (isnan(a->real) || isnan(b->real))
		return !isnan(a->real);
	return a->real < b->real;
}

static void copy(struct value *to, const struct value *from)
{
	to->real = from->real;
	mpz_set(to->integer, from->integer);
}

static void expect(uint32_t k, const struct value *v)
{
	struct expected *x = &want[k];
	mpq_t q;

	x->count++;
	if (!x->values || before(v, &x->least))
		copy(&x->least, v);
	if (!x->values || before(&x->most, v))
		copy(&x->most, v);
	x->values++;
	mpq_init(q);
	if (fpisa_form_is_integer(form))
		mpq_set_z(q, v->integer);
	else if (isfinite(v->real))
		mpq_set_d(q, v->real);
	x->nan |= isnan(v->real);
	x->pinf |= isinf(v->real) && v->real > 0;
	x->ninf |= isinf(v->real) && v->real < 0;
	mpq_add(x->sum, x->sum, q);
	mpq_clear(q);
}

/* Set z to an integer in two's complement, with the low word first. */
static void set_words(mpz_t z, const __u64 *word, int n)
{
	mpz_import(z, (size_t)n, -1, sizeof(*word), 0, 0, word);
	if (word[n - 1] >> 63) {
		mpz_t all;

		mpz_init(all);
		mpz_ui_pow_ui(all, 2, 64 * (unsigned long)n);
		mpz_sub(z, z, all);
		mpz_clear(all);
	}
}

/* -- values ---------------------------------------------------------------------- */

static double random_double(uint32_t kind)
{
	static const double hard[] = {0.0,
				      -0.0,
				      1e300,
				      -1e300,
				      1.0,
				      5e-324,
				      -5e-324,
				      1.7976931348623157e308,
				      -1.7976931348623157e308,
				      2.2250738585072014e-308,
				      1e-20,
				      1e20};
	uint64_t bits = vectors_next(&rng);
	double x;

	switch (kind) {
	case 0: /* values near each other */
		return (double)(int64_t)bits / 4096;
	case 1:
		return hard[bits % 12];
	case 2: /* values around the ends of the window */
		return ldexp((bits & 1 ? 1 : -1) * (1 + (double)(bits >> 40) * 0x1p-24), (int)(bits >> 8 & 255) - 128);
	case 3: /* values that cancel */
		return (bits & 1 ? 1 : -1) * (bits & 2 ? 1e16 : 1e-16);
	default: /* random bits */
		memcpy(&x, &bits, sizeof(x));
		return x;
	}
}

static struct fpisa_row random_row(uint32_t kind, struct value *v)
{
	struct fpisa_row r = {.count = 1};
	uint32_t few = vectors_below(&rng, 4);

	v->real = 0;
	if (form == FPISA_FORM_DOUBLE) {
		v->real = random_double(kind);
		memcpy(&r.wide[0], &v->real, sizeof(v->real));
		return r;
	}
	r.wide[0] = vectors_next(&rng) >> (kind == 0 ? 44 : 0);
	if (kind == 1)
		r.wide[0] = few < 2 ? 1ull << 63 : few == 2 ? ~0ull >> 1 : ~0ull;
	r.wide[1] = form == FPISA_FORM_INT64 ? (uint64_t)((int64_t)r.wide[0] >> 63) :
		    kind == 0		     ? 0 :
					       vectors_next(&rng);
	if (form == FPISA_FORM_INT128 && kind == 1)
		r.wide[1] = few < 2 ? 1ull << 63 : few == 2 ? ~0ull >> 1 : ~0ull;
	set_words(v->integer, r.wide, 2);
	return r;
}

/* -- spilled records ---------------------------------------------------------------- */

static char *records;
static size_t n_records, next_record, record_size;

static int put(void *arg, const void *record, size_t size)
{
	char *more = realloc(records, (n_records + 1) * size);

	(void)arg;
	assert_non_null(more);
	record_size = size;
	records = more;
	memcpy(records + n_records++ * size, record, size);
	return 0;
}

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, record_size);
}

static int take(void *arg, void *record, size_t size)
{
	(void)arg;
	if (!next_record)
		qsort(records, n_records, size, compare);
	if (next_record == n_records)
		return 0;
	memcpy(record, records + next_record++ * size, size);
	return 1;
}

static const struct fpisa_query_spill spill = {put, take, NULL};

/* -- runs ------------------------------------------------------------------------------ */

static struct fpisa_row row[FRAMES][ROWS];
static uint32_t kind;

static void fill(void)
{
	struct value v;

	mpz_init(v.integer);
	for (int f = 0; f < FRAMES; f++)
		for (int i = 0; i < ROWS; i++) {
			uint32_t k = vectors_below(&rng, KEYS);

			row[f][i] = random_row(kind, &v);
			row[f][i].key[0] = k;
			expect(k, &v);
		}
	mpz_clear(v.integer);
}

static uint32_t pack(const struct fpisa_soft_query *q, int f, char *to)
{
	uint32_t bytes = q->config.row_bytes, value = bytes - q->config.key_bytes - 8;

	memset(to, 0, (size_t)ROWS * bytes);
	for (int i = 0; i < ROWS; i++, to += bytes) {
		memcpy(to, row[f][i].key, 8);
		memcpy(to + q->config.key_bytes, row[f][i].wide, value);
		memcpy(to + q->config.key_bytes + value, &row[f][i].count, 4);
	}
	return bytes;
}

/*
 * Send each frame once or twice. The rows that the aggregator does not absorb must be the same for each copy, and the
 * master takes them once.
 */
static void send(struct fpisa_soft_query *q, struct fpisa_groups *g)
{
	static char payload[ROWS * 64];
	uint8_t keep[ROWS], first[FRAMES][ROWS], seen[FRAMES] = {0};

	for (int i = 0; i < 3 * FRAMES; i++) {
		int f = i < FRAMES ? i ^ 5 : (int)vectors_below(&rng, FRAMES);
		uint32_t bytes = pack(q, f, payload);

		assert_true(fpisa_soft_query_rows(q, EPOCH, 0, (uint64_t)f + 1, payload, ROWS, keep) ==
			    (memchr(keep, 1, ROWS) ? FPISA_V_rows_passed : FPISA_V_rows_taken));
		if (seen[f])
			assert_memory_equal(keep, first[f], ROWS);
		for (int r = 0; !seen[f] && r < ROWS; r++) {
			struct fpisa_row got = fpisa_row_load(payload + (uint32_t)r * bytes, 8, form);

			if (keep[r])
				assert_int_equal(fpisa_groups_add(g, &got), 0);
		}
		memcpy(first[f], keep, ROWS);
		seen[f] = 1;
	}
}

/* A worker that adds up its rows sends only one special value, which is NaN or an infinity. */
static int sum_class(int nan, int pinf, int ninf)
{
	return nan || (pinf && ninf) ? 3 : pinf + 2 * ninf;
}

static void check_sum(const struct fpisa_groups *g, const struct fpisa_query_group *group, const struct expected *x)
{
	union fpisa_superacc_full sum;
	int special = 0;
	mpq_t got;
	mpz_t limb;

	mpq_init(got);
	mpz_init(limb);
	if (fpisa_form_is_integer(form)) {
		set_words(mpq_numref(got), group->sum, 3);
	} else {
		fpisa_groups_sum(g, group, &sum);
		for (int i = 0; i < sum.acc.limbs; i++) {
			mpz_set_si(limb, sum.acc.limb[i]);
			mpz_mul_2exp(limb, limb, 32 * (unsigned long)(i + sum.acc.first));
			mpz_add(mpq_numref(got), mpq_numref(got), limb);
		}
		mpq_div_2exp(got, got, 1074);
		special = x->nan || x->pinf || x->ninf;
		assert_true(sum_class(!!sum.acc.nan, !!sum.acc.pinf, !!sum.acc.ninf) ==
			    sum_class(x->nan, x->pinf, x->ninf));
	}
	if (!special && mpq_cmp(got, x->sum)) {
		gmp_fprintf(stderr, "form %u kind %u: sum %Qd, and %Qd is right\n", form, kind, got, x->sum);
		fail();
	}
	mpq_clear(got);
	mpz_clear(limb);
}

static void check_order(const struct fpisa_query_group *g, const struct expected *x)
{
	struct value least = {0}, most = {0};
	__u64 word[2];

	mpz_inits(least.integer, most.integer, NULL);
	if (form == FPISA_FORM_DOUBLE) {
		word[0] = fpisa_order_value64(g->least);
		word[1] = fpisa_order_value64(g->most);
		memcpy(&least.real, &word[0], 8);
		memcpy(&most.real, &word[1], 8);
	} else {
		memcpy(word, g->lowest, sizeof(word));
		word[1] ^= 1ull << 63;
		set_words(least.integer, word, 2);
		memcpy(word, g->highest, sizeof(word));
		word[1] ^= 1ull << 63;
		set_words(most.integer, word, 2);
	}
	assert_false(before(&least, &x->least) || before(&x->least, &least));
	assert_false(before(&most, &x->most) || before(&x->most, &most));
	mpz_clears(least.integer, most.integer, NULL);
}

static void check(struct fpisa_groups *g)
{
	const struct fpisa_query_group *group;
	int seen[KEYS] = {0};

	assert_int_equal(fpisa_groups_settle(g), 0);
	while (fpisa_groups_next(g, &group) > 0) {
		const struct expected *x = &want[group->key[0]];

		assert_int_equal(seen[group->key[0]]++, 0);
		assert_int_equal(group->count, x->count);
		check_order(group, x);
		check_sum(g, group, x);
	}
	for (int k = 0; k < KEYS; k++)
		assert_int_equal(seen[k], want[k].count > 0);
}

static void reset(void)
{
	for (int k = 0; k < KEYS; k++) {
		struct expected *x = &want[k];

		x->count = x->values = 0;
		x->nan = x->pinf = x->ninf = 0;
		mpq_set_ui(x->sum, 0, 1);
	}
	free(records);
	records = NULL;
	n_records = next_record = 0;
}

/* Let a worker add all rows first. */
static void reduced(struct fpisa_groups *to)
{
	const struct fpisa_query_open open = {.kind = FPISA_QUERY_TABLE};
	struct reduction r;
	struct fpisa_row one;

	assert_int_equal(reduction_begin(&r, &open, true, 8, form, 0), 0);
	for (int f = 0; f < FRAMES; f++)
		for (int i = 0; i < ROWS; i++)
			assert_int_equal(reduction_add(&r, &row[f][i]), 0);
	while (reduction_next(&r, &one))
		assert_int_equal(fpisa_groups_add(to, &one), 0);
	reduction_end(&r);
}

static void one_run(uint32_t limit, int spills, int reduces)
{
	struct fpisa_soft_query q = {.kind = FPISA_QUERY_TABLE, .width = FPISA_QUERY_WINDOW};
	struct fpisa_groups g;

	reset();
	fill();
	q.config = (struct fpisa_query_config){.master = 1,
					       .key_bytes = 8,
					       .row_bytes = fpisa_row_bytes(8, form),
					       .form = form,
					       .limit = limit,
					       .bucket_mask = 3,
					       .seed = vectors_next(&rng)};
	assert_int_equal(fpisa_soft_query_init(&q), 0);
	assert_int_equal(fpisa_groups_init(&g, 8, form, spills ? 1 : 0), 0);
	g.spill = spills ? &spill : NULL;
	if (spills)
		g.config.limit = 4;
	if (reduces)
		reduced(&g);
	else
		send(&q, &g);
	for (uint32_t i = 0; i < q.state.used; i++)
		assert_int_equal(fpisa_groups_put(&g, &q.groups[i]), 0);
	check(&g);
	fpisa_groups_free(&g);
	fpisa_soft_query_free(&q);
}

static void runs(uint32_t of, uint32_t kinds)
{
	form = of;
	for (int i = 0; i < 300; i++) {
		kind = vectors_below(&rng, kinds);
		one_run(1 + vectors_below(&rng, 60), (int)vectors_below(&rng, 2), !vectors_below(&rng, 3));
	}
}

static void doubles(void **state)
{
	(void)state;
	runs(FPISA_FORM_DOUBLE, 5);
}

static void int64s(void **state)
{
	(void)state;
	runs(FPISA_FORM_INT64, 3);
}

static void int128s(void **state)
{
	(void)state;
	runs(FPISA_FORM_INT128, 3);
}

/* A limb must carry, because there are more values of one sign than a limb holds without carries. */
static void carries(void **state)
{
	struct fpisa_row r = {.key = {1}, .count = 1};
	const double largest = 0x1.fffffffffffffp31 * 0x1p960;
	const struct fpisa_query_group *group;
	struct fpisa_groups g;
	mpq_t add;

	(void)state;
	form = FPISA_FORM_DOUBLE;
	reset();
	mpq_init(add);
	assert_int_equal(fpisa_groups_init(&g, 8, form, 0), 0);
	for (int i = 0; i < 5000; i++) {
		const double x = i % 2 ? largest : largest * 0x1p32;

		memcpy(&r.wide[0], &x, sizeof(x));
		assert_int_equal(fpisa_groups_add(&g, &r), 0);
		mpq_set_d(add, x);
		mpq_add(want[1].sum, want[1].sum, add);
		want[1].count++;
	}
	assert_int_equal(fpisa_groups_next(&g, &group), 1);
	check_sum(&g, group, &want[1]);
	fpisa_groups_free(&g);
	mpq_clear(add);
}

/* No key may be in two tables, whatever the window is. */
static void key_twice(void **state)
{
	struct fpisa_query_group a = {.key = {7}, .count = 1, .window = 3, .least = 1, .most = 2}, b = a;
	struct fpisa_groups g;

	(void)state;
	b.window = 30;
	assert_int_equal(fpisa_groups_init(&g, 8, FPISA_FORM_DOUBLE, 0), 0);
	assert_int_equal(fpisa_groups_put(&g, &a), 0);
	assert_int_equal(fpisa_groups_put(&g, &b), -EEXIST);
	fpisa_groups_free(&g);
	assert_int_equal(fpisa_groups_init(&g, 8, FPISA_FORM_INT64, 0), 0);
	assert_int_equal(fpisa_groups_put(&g, &a), 0);
	assert_int_equal(fpisa_groups_put(&g, &a), -EEXIST);
	fpisa_groups_free(&g);
}

/* -- decimals ------------------------------------------------------------------------------ */

static void decimal_texts(void **state)
{
	static const struct {
		const char *text;
		unsigned int precision, scale;
		int rc;
		const char *as;
	} all[] = {
		{"1", 15, 2, 0, "1.00"},
		{"-1.5", 15, 2, 0, "-1.50"},
		{"+.05", 3, 2, 0, "0.05"},
		{"-0", 15, 2, 0, "0.00"},
		{"12.", 15, 0, 0, "12"},
		{"0.1230", 3, 3, 0, "0.123"},
		{"000123.450", 5, 2, 0, "123.45"},
		{"1.005", 15, 2, -ERANGE, NULL},
		{"1000", 5, 2, -ERANGE, NULL},
		{"0.01", 2, 0, -ERANGE, NULL},
		{"", 5, 2, -EINVAL, NULL},
		{".", 5, 2, -EINVAL, NULL},
		{"-", 5, 2, -EINVAL, NULL},
		{"1e2", 5, 2, -EINVAL, NULL},
		{"1 ", 5, 2, -EINVAL, NULL},
		{"NaN", 5, 2, -EINVAL, NULL},
		{"1.2.3", 5, 2, -EINVAL, NULL},
		{"99999999999999999999999999999999999999", 38, 0, 0, "99999999999999999999999999999999999999"},
		{"-0.99999999999999999999999999999999999999", 38, 38, 0, "-0.99999999999999999999999999999999999999"},
		{"100000000000000000000000000000000000000", 38, 0, -ERANGE, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		char text[FPISA_DECIMAL_TEXT];
		__u64 x[3];
		int rc = fpisa_decimal_parse(all[i].text, strlen(all[i].text), all[i].precision, all[i].scale, x);

		if (rc != all[i].rc)
			fail_msg("'%s': %d", all[i].text, rc);
		if (rc)
			continue;
		x[2] = (__u64)((__s64)x[1] >> 63);
		fpisa_decimal_text(x, all[i].scale, text);
		assert_string_equal(text, all[i].as);
	}
}

/* Sums of 192 bits have the same digits as GMP's sums. */
static void decimal_sums(void **state)
{
	char text[FPISA_DECIMAL_TEXT], right[FPISA_DECIMAL_TEXT];
	__u64 x[3];
	mpz_t z;

	(void)state;
	mpz_init(z);
	for (int i = 0; i < 20000; i++) {
		for (int w = 0; w < 3; w++)
			x[w] = vectors_below(&rng, 4) ? vectors_next(&rng) : 0;
		x[2] = vectors_below(&rng, 2) ? x[2] : (__u64)((__s64)x[1] >> 63);
		set_words(z, x, 3);
		gmp_snprintf(right, sizeof(right), "%Zd", z);
		fpisa_decimal_text(x, 0, text);
		assert_string_equal(text, right);
	}
	mpz_clear(z);
}

/* Results of avg() of numeric(38, scale) from PostgreSQL 15 */
static void decimal_averages(void **state)
{
	static const struct {
		__s64 sum;
		unsigned int scale;
		__u64 count;
		const char *average;
	} all[] = {
		{0, 2, 3, "0.00000000000000000000"},	 {100, 2, 3, "0.33333333333333333333"},
		{-200, 2, 3, "-0.66666666666666666667"}, {123456789, 2, 7, "176366.841428571429"},
		{1, 0, 1, "1.00000000000000000000"},	 {10000, 0, 3, "3333.3333333333333333"},
		{20000, 0, 3, "6666.6666666666666667"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const __u64 sign = (__u64)(all[i].sum >> 63), x[3] = {(__u64)all[i].sum, sign, sign};
		char text[FPISA_DECIMAL_TEXT];

		fpisa_decimal_average(x, all[i].scale, all[i].count, text);
		assert_string_equal(text, all[i].average);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(doubles),	cmocka_unit_test(int64s),	    cmocka_unit_test(int128s),
		cmocka_unit_test(carries),	cmocka_unit_test(key_twice),	    cmocka_unit_test(decimal_texts),
		cmocka_unit_test(decimal_sums), cmocka_unit_test(decimal_averages),
	};

	rng.state = vectors_seed();
	for (int k = 0; k < KEYS; k++) {
		mpq_init(want[k].sum);
		mpz_inits(want[k].least.integer, want[k].most.integer, NULL);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
