/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Run whole queries for groups and for the first rows of doubles, integers and decimals over a network that loses,
 * copies and reorders frames, with the real programs. In every run, the groups of the table and the rows that went to
 * the master add up to all rows, as GMP adds them, and the first rows are among the rows that went to the master.
 * FPISA_ROUNDS is the number of runs of each form and kind, 100 by default.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <gmp.h>
#include <linux/bpf.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "fpisa/query/order.h"
#include "queries.h"
#include "vectors.h"

enum { JOB = 5, WORKERS = 3, FRAMES = 30, GROUPS = 24, MOST_ROWS = 20, AHEAD = 8 };

static struct vectors_rng rng;
static struct query q;
static uint32_t rows;

struct value {
	uint64_t key, wide[2];
};

static struct value data[WORKERS][FRAMES][MOST_ROWS];
static bool acked[WORKERS][FRAMES], had[WORKERS][FRAMES];

struct total {
	uint64_t count;
	uint32_t specials;
	mpq_t sum, least, most;
	bool any;
};

static struct total want[GROUPS], got[GROUPS];

/* All values of a query for the first rows, and the values that went to the master */
static struct value sent[WORKERS * FRAMES * MOST_ROWS], passed[WORKERS * FRAMES * MOST_ROWS];
static size_t n_sent, n_passed;

static bool is_topn(void)
{
	return q.job.kind == FPISA_QUERY_TOPN;
}

static bool is_double(void)
{
	return q.config.form == FPISA_FORM_DOUBLE;
}

/* -- numbers -------------------------------------------------------------------- */

/* Set x to an integer of `n` words in two's complement. */
static void set_words(mpq_t x, const uint64_t *word, int n)
{
	mpz_t all;

	mpq_set_ui(x, 0, 1);
	mpz_import(mpq_numref(x), (size_t)n, -1, 8, 0, 0, word);
	if (!(word[n - 1] >> 63))
		return;
	mpz_init(all);
	mpz_ui_pow_ui(all, 2, 64 * (unsigned long)n);
	mpz_sub(mpq_numref(x), mpq_numref(x), all);
	mpz_clear(all);
}

/* Set x to a finite value and return 0. For a special, return its bit. */
static uint32_t value_of(mpq_t x, const uint64_t *wide)
{
	double d;

	if (!is_double()) {
		set_words(x, wide, 2);
		return 0;
	}
	memcpy(&d, wide, sizeof(d));
	if (isfinite(d))
		mpq_set_d(x, d);
	return isnan(d) ? 1 : isinf(d) ? (d > 0 ? 2 : 4) : 0;
}

static void order(struct total *t, const mpq_t x)
{
	if (!t->any || mpq_cmp(x, t->least) < 0)
		mpq_set(t->least, x);
	if (!t->any || mpq_cmp(x, t->most) > 0)
		mpq_set(t->most, x);
	t->any = true;
}

static void add_row(struct total *t, const uint64_t *wide)
{
	uint32_t special;
	mpq_t x;

	mpq_init(x);
	special = value_of(x, wide);
	t->specials |= special;
	t->count++;
	if (!special) {
		mpq_add(t->sum, t->sum, x);
		order(t, x);
	}
	mpq_clear(x);
}

/* Return the double at this position in the order of doc/query-wire.md. */
static uint64_t double_at(uint64_t place)
{
	return place == ~0ull ? 0x7ff8ull << 48 : place >> 63 ? place - (1ull << 63) : ~place;
}

static void add_place(struct total *t, uint64_t low, uint64_t high)
{
	const uint64_t wide[2] = {is_double() ? double_at(low) : low, high ^ 1ull << 63};
	mpq_t x;

	mpq_init(x);
	if (!value_of(x, wide))
		order(t, x);
	mpq_clear(x);
}

/* Add a group as doc/query-wire.md describes it. */
static void add_group(struct total *t, const struct fpisa_query_group *g)
{
	uint64_t sum[3];
	mpq_t x, limb;

	mpq_init(x);
	mpq_init(limb);
	t->count += g->count;
	t->specials |= g->specials;
	if (is_double()) {
		for (int i = 0; g->window && i < 7; i++) {
			mpq_set_si(limb, g->limb[2 + i], 1);
			mpq_mul_2exp(limb, limb, 32 * ((unsigned long)i + g->window - 1));
			mpq_add(x, x, limb);
		}
		mpq_div_2exp(x, x, 1074);
		if (g->least <= g->most) {
			add_place(t, g->least, 0);
			add_place(t, g->most, 0);
		}
	} else {
		memcpy(sum, g->sum, sizeof(sum));
		set_words(x, sum, 3);
		add_place(t, g->lowest[0], g->lowest[1]);
		add_place(t, g->highest[0], g->highest[1]);
	}
	mpq_add(t->sum, t->sum, x);
	mpq_clear(x);
	mpq_clear(limb);
}

static void clear(struct total *t)
{
	for (int k = 0; k < GROUPS; k++) {
		t[k].count = t[k].specials = t[k].any = 0;
		mpq_set_ui(t[k].sum, 0, 1);
	}
}

/* -- a run ------------------------------------------------------------------------ */

static uint64_t random_double(uint32_t kind)
{
	uint64_t bits = vectors_next(&rng);
	double x = ldexp((bits & 1 ? 1 : -1) * (1 + (double)(bits >> 40) * 0x1p-24), (int)(bits >> 8 & 255) - 128);

	if (kind == 0)
		x = (double)(int64_t)bits / 4096;
	if (kind == 4)
		x = 1e9 + (double)(bits % 50) * 0x1p-20;
	if (kind == 1)
		x = bits & 1 ? 1e300 : bits & 2 ? -1e300 : bits & 4 ? 5e-324 : bits & 8 ? 0 : 1;
	if (kind != 3)
		memcpy(&bits, &x, sizeof(x));
	return bits;
}

static void fill(void)
{
	uint32_t kind = vectors_below(&rng, 5), groups = 1 + vectors_below(&rng, GROUPS);

	n_sent = n_passed = 0;
	rows = 1 + vectors_below(&rng, MOST_ROWS);
	for (int w = 0; w < WORKERS; w++)
		for (int f = 0; f < FRAMES; f++)
			for (uint32_t r = 0; r < rows; r++) {
				struct value *v = &data[w][f][r];

				v->key = vectors_below(&rng, groups);
				v->wide[0] = is_double() ? random_double(kind) : vectors_next(&rng);
				v->wide[1] = q.config.form == FPISA_FORM_INT128 ? vectors_next(&rng) :
										  (uint64_t)((int64_t)v->wide[0] >> 63);
				/* Include the ends of the range. */
				if (!is_double() && kind == 1)
					v->wide[1] = v->wide[0] = v->wide[0] & 1 ? ~0ull >> 1 : 1ull << 63;
				/* Include values that are equal, or equal in their upper bits. */
				if (!is_double() && kind > 2)
					v->wide[0] = v->wide[0] % 50 + (kind == 4 ? 1ull << 40 : -25ull);
				if (q.config.form == FPISA_FORM_INT64 || (!is_double() && kind > 2))
					v->wide[1] = (uint64_t)((int64_t)v->wide[0] >> 63);
				if (is_topn())
					sent[n_sent++] = *v;
				else
					add_row(&want[v->key], v->wide);
			}
}

static uint32_t pack(uint8_t *to, const struct value *v)
{
	uint32_t value = q.config.form == FPISA_FORM_INT128 ? 16 : 8, bytes = 8 + value + 8, one = 1;

	memset(to, 0, rows * bytes);
	for (uint32_t r = 0; r < rows; r++, to += bytes) {
		memcpy(to, &v[r].key, 8);
		memcpy(to + 8, v[r].wide, value);
		memcpy(to + 8 + value, &one, 4);
		if (is_topn()) {
			const struct fpisa_row row = {.wide = {v[r].wide[0], v[r].wide[1]}};
			const uint32_t place = fpisa_short_place(&row, q.config.form);

			memcpy(to + 12 + value, &place, 4);
		}
	}
	return bytes;
}

/* Take the rows that are left in a frame, unless another copy of the frame has delivered them. */
static void master(const struct frame *f, int w, int n, uint32_t bytes)
{
	const uint8_t *at = (const uint8_t *)harness_payload((struct frame *)f);

	if (had[w][n])
		return;
	had[w][n] = true;
	for (uint32_t r = 0; r < harness_hdr((struct frame *)f)->count; r++, at += bytes) {
		uint64_t key, wide[2];

		memcpy(&key, at, 8);
		memcpy(wide, at + 8, bytes - 16);
		assert_true(key < GROUPS);
		if (bytes == 24)
			wide[1] = (uint64_t)((int64_t)wide[0] >> 63);
		if (is_topn())
			passed[n_passed++] = (struct value){key, {wide[0], wide[1]}};
		else
			add_row(&got[key], wide);
	}
}

/*
 * Send a copy of a frame, whether the frame is acknowledged or not. The copy may be lost before or after the
 * aggregator.
 */
static void send(int w, int n)
{
	uint8_t packed[MOST_ROWS * 32];
	uint32_t bytes = pack(packed, data[w][n]);
	struct frame f;

	if (!vectors_below(&rng, 4))
		return;
	query_rows(&f, &q, (uint32_t)w, (uint64_t)n + 1, rows, packed, n == FRAMES - 1);
	harness_run(q.h, &f);
	assert_int_equal(f.action, XDP_REDIRECT);
	if (!vectors_below(&rng, 3))
		return;
	if (harness_hdr(&f)->type == FPISA_TYPE_ROWS)
		master(&f, w, n, bytes);
	else
		assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_ACK);
	if (vectors_below(&rng, 3))
		acked[w][n] = true;
}

static void exchange(void)
{
	int left = WORKERS * FRAMES, low[WORKERS] = {0};

	memset(acked, 0, sizeof(acked));
	memset(had, 0, sizeof(had));
	for (uint64_t turn = 0; left; turn++) {
		int w = (int)vectors_below(&rng, WORKERS), n;

		assert_true(turn < 1000000);
		while (low[w] < FRAMES && acked[w][low[w]]) {
			low[w]++;
			left--;
		}
		if (low[w] == FRAMES)
			continue;
		n = low[w] - 4 + (int)vectors_below(&rng, AHEAD);
		n = n < 0 ? 0 : n >= FRAMES ? FRAMES - 1 : n;
		/* The last frame is sent when all others are acknowledged. */
		send(w, n == FRAMES - 1 && low[w] < FRAMES - 1 ? low[w] : n);
	}
}

static bool is_right(const struct fpisa_query_counters *before)
{
	const uint64_t last[WORKERS] = {FRAMES, FRAMES, FRAMES};
	struct fpisa_query_counters c = query_counters(&q);
	bool right = true;
	struct frame f;

	query_seal(&f, &q, last);
	harness_run(q.h, &f);
	assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_STATUS);
	assert_true(!harness_hdr(&f)->bitmap);
	for (uint32_t n = 0; n < harness_hdr(&f)->aux; n++) {
		struct fpisa_query_group g = query_group(&q, n);

		add_group(&got[g.key[0]], &g);
	}
	for (int k = 0; right && k < GROUPS; k++) {
		const struct total *a = &want[k], *b = &got[k];

		right = a->count == b->count && a->specials == b->specials && !mpq_cmp(a->sum, b->sum);
		/* A special is the smallest or the largest value, which hides the extreme of the numbers. */
		right &= a->specials ||
			 (a->any == b->any && (!a->any || (!mpq_cmp(a->least, b->least) && !mpq_cmp(a->most, b->most))));
		if (!right)
			print_message("group %d: counts %llu and %llu\n", k, (unsigned long long)a->count,
				      (unsigned long long)b->count);
	}
	assert_true(c.beyond - before->beyond <= c.residue - before->residue);
	assert_true(is_double() || c.beyond == before->beyond);
	return right && c.absorbed + c.residue - before->absorbed - before->residue == (uint64_t)WORKERS * FRAMES * rows;
}

/* Compare two values so that the first row of the answer comes first. */
static int compare(const void *a, const void *b)
{
	const struct value *v = a, *w = b;
	const int down = q.config.flags & FPISA_QUERY_ASCENDING ? -1 : 1;
	__int128 m, n;
	double x, y;

	if (!is_double()) {
		m = (__int128)((unsigned __int128)v->wide[1] << 64 | v->wide[0]);
		n = (__int128)((unsigned __int128)w->wide[1] << 64 | w->wide[0]);
		return ((n > m) - (n < m)) * down;
	}
	memcpy(&x, v->wide, sizeof(x));
	memcpy(&y, w->wide, sizeof(y));
	return (isnan(x) || isnan(y) ? isnan(y) - isnan(x) : (y > x) - (y < x)) * down;
}

/* Return whether the master has the first rows, and whether the certificate is not above the last of them. */
static bool has_first_rows(void)
{
	const uint64_t none[WORKERS] = {0};
	const size_t n = n_sent < q.config.limit ? n_sent : q.config.limit;
	const struct value *last = &passed[n - 1];
	struct fpisa_row row;
	struct frame f;
	uint32_t place;

	qsort(sent, n_sent, sizeof(*sent), compare);
	qsort(passed, n_passed, sizeof(*passed), compare);
	for (size_t i = 0; i < n; i++)
		if (n_passed < n || compare(&sent[i], &passed[i]))
			return false;
	query_seal(&f, &q, none);
	harness_run(q.h, &f);
	row = (struct fpisa_row){.wide = {last->wide[0], last->wide[1]}};
	place = fpisa_short_place(&row, q.config.form);
	if (q.config.flags & FPISA_QUERY_ASCENDING)
		place = ~place;
	return harness_hdr(&f)->aux <= (uint64_t)place + 1;
}

static int rounds(void)
{
	const char *said = getenv("FPISA_ROUNDS");

	return said ? atoi(said) : 100;
}

static void runs(uint32_t form)
{
	uint64_t beyond = 0;

	for (int i = 0; i < 4; i++) {
		q = (struct query){.config = {.job = JOB,
					      .key_bytes = 8,
					      .form = form,
					      .limit = i % 2 ? 40 : 12,
					      .seed = vectors_next(&rng)}};
		query_open(&q, harness, FPISA_QUERY_TABLE, WORKERS);
		for (int n = 0; n < (rounds() + 3) / 4; n++) {
			struct fpisa_query_counters before = query_counters(&q);

			clear(want);
			clear(got);
			query_join(&q);
			fill();
			exchange();
			assert_true(is_right(&before));
			beyond += query_counters(&q).beyond - before.beyond;
		}
		query_close(&q);
	}
	assert_true(form != FPISA_FORM_DOUBLE || beyond);
}

/* Return the number of rows that were pruned because they equal the last of the first rows, or come after it. */
static uint64_t first_rows(uint32_t form, uint32_t flags)
{
	const uint32_t limits[] = {1, 7, 60, 1000};
	uint64_t pruned = 0;

	for (int i = 0; i < 4; i++) {
		q = (struct query){
			.config = {.job = JOB, .key_bytes = 8, .form = form, .limit = limits[i], .flags = flags}};
		query_open(&q, harness, FPISA_QUERY_TOPN, WORKERS);
		for (int n = 0; n < (rounds() + 7) / 8; n++) {
			query_join(&q);
			fill();
			exchange();
			assert_true(has_first_rows());
		}
		pruned += query_counters(&q).pruned;
		query_close(&q);
	}
	return pruned;
}

static void both_kinds(uint32_t form)
{
	NEED_BPF();
	runs(form);
	assert_true(first_rows(form, 0));
	assert_true(first_rows(form, FPISA_QUERY_ASCENDING));
}

static void doubles(void **state)
{
	(void)state;
	both_kinds(FPISA_FORM_DOUBLE);
}

static void int64s(void **state)
{
	(void)state;
	both_kinds(FPISA_FORM_INT64);
}

static void int128s(void **state)
{
	(void)state;
	both_kinds(FPISA_FORM_INT128);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(doubles), cmocka_unit_test(int64s),
					   cmocka_unit_test(int128s)};

	rng.state = vectors_seed();
	for (int k = 0; k < GROUPS; k++) {
		mpq_inits(want[k].sum, want[k].least, want[k].most, NULL);
		mpq_inits(got[k].sum, got[k].least, got[k].most, NULL);
	}
	return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
