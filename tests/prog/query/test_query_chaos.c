/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Run whole queries over a network that loses, copies, delays and reorders frames. The workers and the master follow
 * the rules of doc/query-wire.md, and the real programs run between them. The answer is correct in every run, and no
 * row is lost or counted twice. Sometimes all members join again in the middle.
 *
 * Some queries have filters. The keys cross the same network first, and the master then counts only rows of the join.
 * Each broken rule must give a wrong answer. FPISA_ROUNDS is the number of runs of each program, 100 by default.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include "queries.h"
#include "query_oracle.h"
#include "vectors.h"

#define JOB 5
#define WORKERS 3
#define FRAMES 40
#define KEY_FRAMES 5
#define KEYS 4 /* number of keys in a frame */
#define GROUPS 40
#define ROW_BYTES 8
#define MOST_ROWS 24
#define NET 2048
#define MUTANT_ROUNDS 60 /* fewer rounds would miss some broken rules */
#define MUTANT_MOST 800	 /* maximum number of runs until a broken rule is found; the rarest shows in one run of 20 */

enum broken {
	NONE,
	COUNTS_EVERY_COPY, /* broken rules of Top-N */
	TIES_OF_COPIES,
	NO_WINDOW, /* broken rules of tables */
	PLACE_LATER,
	MASTER_TAKES_COPIES,
	USED_EARLY, /* broken rules of filters */
	LAST_KEYS_EARLY,
	KEYS_NOT_TAKEN,
};

struct copy {
	int w, f, count; /* frame f, counted from 0 */
	bool keys;
	uint32_t epoch;
	uint8_t rows[MOST_ROWS * ROW_BYTES];
};

/* Frames in flight to the aggregator, and from the aggregator to the master */
static struct copy up[NET], on[NET];
static int n_up, n_on;

static struct vectors_rng rng;
static struct query q;
static enum broken broken;
static double loss;
static bool restarted;

static struct {
	int rows; /* number of rows in a frame */
	float value[WORKERS][FRAMES][MOST_ROWS];
	uint32_t key[WORKERS][FRAMES][MOST_ROWS];
} data;

/* The keys of the small table, which workers send first. key_frame[w][f] ends with a key that another frame has too. */
static bool in_join[GROUPS];
static uint32_t key_frame[WORKERS][KEY_FRAMES][KEYS];
static bool keys_acked[WORKERS][KEY_FRAMES], ready[WORKERS], patient;

static bool acked[WORKERS][FRAMES], had[WORKERS][FRAMES];
static float passed[4 * WORKERS * FRAMES * MOST_ROWS];
static uint32_t passed_key[4 * WORKERS * FRAMES * MOST_ROWS];
static int n_passed;

static bool chance(double p)
{
	return (double)vectors_below(&rng, 1u << 24) < p * (1 << 24);
}

static void begin(void)
{
	memset(acked, 0, sizeof(acked));
	memset(keys_acked, 0, sizeof(keys_acked));
	memset(ready, !(q.config.flags & FPISA_QUERY_FILTER), sizeof(ready));
	memset(had, 0, sizeof(had));
	n_passed = 0;
	n_on = 0;
}

static void put(struct copy *net, int *n, const struct copy *c)
{
	if (*n == NET)
		net[vectors_below(&rng, NET)] = *c;
	else
		net[(*n)++] = *c;
}

static int lowest_keys(int w)
{
	int f = 0;

	while (f < KEY_FRAMES && keys_acked[w][f])
		f++;
	return f;
}

/*
 * Send keys until the aggregator has all keys of the worker. A patient worker then repeats its last frame until the
 * keys of all workers have arrived. Return whether keys were sent.
 */
static bool send_keys(int w)
{
	int low = lowest_keys(w),
	    f = low < KEY_FRAMES - 1 ? low + (int)vectors_below(&rng, KEY_FRAMES - low) : KEY_FRAMES - 1;
	struct copy c = {.w = w, .f = f, .keys = true, .epoch = q.epoch};

	if (ready[w] || (low == KEY_FRAMES && !patient))
		return false;
	if (f == KEY_FRAMES - 1 && low < f && broken != LAST_KEYS_EARLY)
		c.f = low;
	for (int copies = 1 + chance(0.15); copies; copies--)
		if (!chance(loss))
			put(up, &n_up, &c);
	return true;
}

static int lowest(int w)
{
	int f = 0;

	while (f < FRAMES && acked[w][f])
		f++;
	return f;
}

/* Let a worker send the next frame, or any frame in its window. */
static void send_one(void)
{
	int w = (int)vectors_below(&rng, WORKERS), low = lowest(w), f;
	struct copy c = {.epoch = q.epoch};

	if (low == FRAMES || send_keys(w))
		return;
	f = chance(0.6) ? low : low + (int)vectors_below(&rng, FRAMES - low);
	/* The last frame is sent after all others. */
	if (acked[w][f] || (f == FRAMES - 1 && low < f))
		return;
	c.w = w;
	c.f = f;
	for (int copies = 1 + chance(0.15); copies; copies--)
		if (!chance(loss))
			put(up, &n_up, &c);
}

static void arrive_ack(const struct frame *f, uint32_t epoch)
{
	struct frame copy = *f;
	uint32_t w = harness_hdr(&copy)->rank;

	assert_int_equal(harness_hdr(&copy)->type, FPISA_TYPE_ACK);
	if (!chance(loss) && epoch == q.epoch)
		acked[w][harness_hdr(&copy)->chunk - 1] = true;
}

/* Change the programs' state as a broken rule would have left it. Return the value to restore in `used`, or -1. */
static int break_before(const struct copy *c, uint64_t *high, uint64_t *bar)
{
	struct fpisa_query_state s = query_state(&q);
	struct fpisa_query_window *w = &s.window[c->w];
	int used = -1;

	*high = s.epoch == q.epoch ? w->high : 0;
	*bar = s.bar;
	if (broken == COUNTS_EVERY_COPY)
		w->high = 0;
	if (broken == USED_EARLY && s.epoch == q.epoch)
		s.built = ~0ull;
	if (broken == NO_WINDOW)
		*w = (struct fpisa_query_window){.taken = ~0ull};
	if (broken == PLACE_LATER && s.epoch == q.epoch && (uint64_t)c->f + 1 > w->high) {
		used = (int)s.used;
		s.used = q.config.limit;
	}
	query_set_state(&q, &s);
	return used;
}

static void break_after(int used, struct frame *f, uint64_t high, uint64_t bar)
{
	uint32_t *row = harness_payload(f), n = 0;
	struct fpisa_query_state s;

	if (used >= 0) {
		s = query_state(&q);
		s.used = (uint32_t)used;
		query_set_state(&q, &s);
	}
	if (broken != TIES_OF_COPIES || harness_hdr(f)->type != FPISA_TYPE_ROWS || harness_hdr(f)->chunk > high)
		return;
	for (uint32_t i = 0; i < harness_hdr(f)->count; i++) {
		float value;

		memcpy(&value, &row[2 * i + 1], sizeof(value));
		/* All values are positive for this broken rule. */
		if (0x80000000ull + row[2 * i + 1] + 1 == bar)
			continue;
		memmove(&row[2 * n++], &row[2 * i], ROW_BYTES);
	}
	harness_hdr(f)->count = (__u16)n;
	if (!n && harness_hdr(f)->chunk < FRAMES)
		harness_hdr(f)->type = FPISA_TYPE_ACK;
}

static void deliver_keys(const struct copy *c)
{
	struct frame f;

	if (broken == KEYS_NOT_TAKEN && c->epoch == q.epoch && chance(0.5)) {
		keys_acked[c->w][c->f] = true;
		return;
	}
	query_keys(&f, &q, (uint32_t)c->w, (uint64_t)c->f + 1, KEYS, key_frame[c->w][c->f], c->f == KEY_FRAMES - 1);
	harness_hdr(&f)->generation = c->epoch;
	harness_set_checksums(&f);
	harness_run(harness, &f);
	assert_int_equal(f.action, XDP_REDIRECT);
	if (harness_hdr(&f)->type == FPISA_TYPE_ERROR) {
		/* As for rows, a frame is refused only if it has another epoch. */
		assert_true(broken || harness_hdr(&f)->reason == FPISA_V_generation);
		assert_true(broken || c->epoch != q.epoch);
		/* The key came too late, which happens only if a filter is used early. */
		if (c->epoch == q.epoch)
			keys_acked[c->w][c->f] = true;
		return;
	}
	assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_KEYS_ACK);
	if (chance(loss) || c->epoch != q.epoch)
		return;
	keys_acked[c->w][c->f] = true;
	if (!harness_hdr(&f)->bitmap && lowest_keys(c->w) == KEY_FRAMES)
		ready[c->w] = true;
}

/* Deliver one frame to the aggregator. Sometimes a copy of it stays in flight. */
static void deliver(void)
{
	uint8_t packed[MOST_ROWS * ROW_BYTES], *to = packed;
	uint64_t high = 0, bar = 0;
	int i, used = -1;
	struct copy c;
	struct frame f;

	if (!n_up)
		return;
	i = chance(0.5) ? 0 : (int)vectors_below(&rng, (uint32_t)n_up);
	c = up[i];
	if (chance(0.9)) {
		memmove(&up[i], &up[i + 1], (size_t)(n_up - i - 1) * sizeof(*up));
		n_up--;
	}
	if (c.keys) {
		deliver_keys(&c);
		return;
	}
	for (int r = 0; r < data.rows; r++) {
		const uint64_t key[FPISA_KEY_WORDS] = {data.key[c.w][c.f][r]};

		to = query_pack(to, &q.config, key, data.value[c.w][c.f][r], 1);
	}
	query_rows(&f, &q, (uint32_t)c.w, (uint64_t)c.f + 1, (uint32_t)data.rows, packed, c.f == FRAMES - 1);
	harness_hdr(&f)->generation = c.epoch;
	harness_set_checksums(&f);
	if (broken)
		used = break_before(&c, &high, &bar);
	harness_run(harness, &f);
	assert_int_equal(f.action, XDP_REDIRECT);
	if (broken)
		break_after(used, &f, high, bar);
	switch (harness_hdr(&f)->type) {
	case FPISA_TYPE_ACK:
		arrive_ack(&f, c.epoch);
		break;
	case FPISA_TYPE_ROWS:
		c.count = harness_hdr(&f)->count;
		memcpy(c.rows, harness_payload(&f), (size_t)c.count * ROW_BYTES);
		if (!chance(loss))
			put(on, &n_on, &c);
		break;
	default:
		/* The frame belongs to another epoch. Otherwise a worker that follows the rules is never refused. */
		assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_ERROR);
		assert_int_equal(harness_hdr(&f)->reason, FPISA_V_generation);
		assert_int_not_equal(c.epoch, q.epoch);
	}
}

/* Deliver one frame to the master. The master acknowledges it through the aggregator. */
static void master(void)
{
	struct frame f;
	struct copy c;
	int i;

	if (!n_on)
		return;
	i = (int)vectors_below(&rng, (uint32_t)n_on);
	c = on[i];
	if (chance(0.9))
		on[i] = on[--n_on];
	if (c.epoch != q.epoch)
		return;
	if (!had[c.w][c.f] || (broken == MASTER_TAKES_COPIES && n_passed < 3 * WORKERS * FRAMES * MOST_ROWS)) {
		had[c.w][c.f] = true;
		for (int r = 0; r < c.count; r++) {
			memcpy(&passed_key[n_passed], c.rows + r * ROW_BYTES, 4);
			memcpy(&passed[n_passed++], c.rows + r * ROW_BYTES + 4, 4);
		}
	}
	if (chance(loss))
		return;
	query_frame(&f, &q, FPISA_TYPE_ACK, WORKERS, (uint64_t)c.f + 1, 0, 0, NULL);
	harness_hdr(&f)->slot = (uint32_t)c.w;
	harness_set_checksums(&f);
	harness_run(harness, &f);
	assert_int_equal(f.action, XDP_REDIRECT);
	arrive_ack(&f, c.epoch);
}

static bool all_done(void)
{
	for (int w = 0; w < WORKERS; w++)
		if (!acked[w][FRAMES - 1] || !had[w][FRAMES - 1])
			return false;
	return true;
}

/* Run until the master has every worker's last frame, and for some more steps, so that late frames arrive. */
static void run(void)
{
	int restarts = vectors_below(&rng, 4) == 0, late = 100;

	patient = broken != USED_EARLY && vectors_below(&rng, 8);
	n_up = 0;
	restarted = false;
	query_join(&q);
	begin();
	while (!all_done() || late--) {
		uint32_t what = vectors_below(&rng, 20);

		if (what < 9)
			send_one();
		else if (what < 16)
			deliver();
		else
			master();
		if (restarts && chance(0.002)) {
			query_join(&q);
			begin();
			restarted = true;
			restarts--;
		}
	}
}

static void fill(uint32_t kind, uint32_t groups)
{
	uint32_t i = 0;

	memset(in_join, !(q.config.flags & FPISA_QUERY_FILTER), sizeof(in_join));
	for (int n = 0; n < WORKERS * KEY_FRAMES * KEYS; n++) {
		uint32_t *key = (uint32_t *)key_frame + n;

		/* The small table has some of the keys. A bitmap may be too short for a key that no row has. */
		*key = n % KEYS == KEYS - 1 ? key[-1] : (vectors_below(&rng, groups) | 1) % GROUPS;
		if (n == 1 && !vectors_below(&rng, 3))
			*key = 100000;
		else
			in_join[*key] = true;
	}
	data.rows = 1 + (int)vectors_below(&rng, MOST_ROWS);
	for (int w = 0; w < WORKERS; w++)
		for (int f = 0; f < FRAMES; f++)
			for (int r = 0; r < data.rows; r++) {
				data.value[w][f][r] = query_value(vectors_next(&rng), kind, i++);
				data.key[w][f][r] = vectors_below(&rng, groups);
			}
}

/* As the master does, remove rows that a filter let pass although they are not in the join. */
static void join(void)
{
	int n = 0;

	for (int i = 0; i < n_passed; i++) {
		if (!in_join[passed_key[i]])
			continue;
		passed[n] = passed[i];
		passed_key[n++] = passed_key[i];
	}
	n_passed = n;
}

static int down(const void *a, const void *b)
{
	return query_order(*(const float *)b, *(const float *)a);
}

/* Return whether the answer of a Top-N and its certificate are correct. */
static bool topn_right(void)
{
	static float all[WORKERS * FRAMES * MOST_ROWS];
	const uint64_t none[WORKERS] = {0};
	int n = 0, want;
	uint64_t bar;
	struct frame f;

	for (int w = 0; w < WORKERS; w++)
		for (int k = 0; k < FRAMES; k++)
			for (int r = 0; r < data.rows; r++)
				if (in_join[data.key[w][k][r]])
					all[n++] = data.value[w][k][r];
	qsort(all, (size_t)n, sizeof(*all), down);
	qsort(passed, (size_t)n_passed, sizeof(*passed), down);
	want = n < (int)q.config.limit ? n : (int)q.config.limit;
	if (n_passed < want)
		return false;
	for (int i = 0; i < want; i++)
		if (query_order(all[i], passed[i]))
			return false;
	query_seal(&f, &q, none);
	harness_run(harness, &f);
	bar = harness_hdr(&f)->aux;
	if (bar) {
		/* T must not be above the Nth value, because at least N rows lie at or above T. */
		uint32_t place = (uint32_t)(bar - 1), bits = place >> 31 ? place - 0x80000000u : 0xffffffffu - place;
		float t;

		memcpy(&t, &bits, sizeof(t));
		if (place != 0xffffffff && query_order(passed[want - 1], t) < 0)
			return false;
	}
	return true;
}

/* Return whether the groups together with the master's rows equal all rows of all workers. */
static bool table_right(void)
{
	static struct query_oracle want, got;
	static bool made;
	uint64_t last[WORKERS] = {FRAMES, FRAMES, FRAMES}, groups;
	bool right = true;
	struct frame f;

	if (!made) {
		query_oracle_init(&want);
		query_oracle_init(&got);
		made = true;
	}
	query_oracle_clear(&want);
	query_oracle_clear(&got);
	query_seal(&f, &q, last);
	harness_run(harness, &f);
	assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_STATUS);
	if (harness_hdr(&f)->bitmap && !broken)
		return false;
	groups = harness_hdr(&f)->aux;
	for (uint32_t n = 0; n < groups; n++) {
		struct fpisa_query_group g = query_group(&q, n);

		if (in_join[g.key[0]])
			query_oracle_merge(&got, (uint32_t)g.key[0], &g);
	}
	join();
	for (int i = 0; i < n_passed; i++)
		query_oracle_row(&got, passed_key[i], passed[i], 1);
	for (int w = 0; w < WORKERS; w++)
		for (int k = 0; k < FRAMES; k++)
			for (int r = 0; r < data.rows; r++)
				if (in_join[data.key[w][k][r]])
					query_oracle_row(&want, data.key[w][k][r], data.value[w][k][r], 1);
	for (int k = 0; right && k < ORACLE_GROUPS; k++)
		right = want.g[k].count == got.g[k].count && !mpz_cmp(want.g[k].sum, got.g[k].sum);
	return right && (broken || query_oracle_equal(&want, &got));
}

/* Return whether the master has every row of the join. With a bitmap it must have no other row. */
static bool join_right(void)
{
	int n = 0, most = n_passed;

	join();
	for (int w = 0; w < WORKERS; w++)
		for (int k = 0; k < FRAMES; k++)
			for (int r = 0; r < data.rows; r++)
				n += in_join[data.key[w][k][r]];
	return n_passed == n && (broken || !patient || !(q.config.flags & FPISA_QUERY_BITMAP) || most == n);
}

/*
 * Check that rows are conserved. Each row of a table was pruned by the filter, added, or passed to the master exactly
 * once. For other kinds of queries, each copy of a row was pruned or passed to the master, and the master has at most
 * the rows that were passed.
 */
static void conserved(unsigned int kind, const struct fpisa_query_counters *before)
{
	struct fpisa_query_counters c = query_counters(&q);
	uint64_t sent = (uint64_t)(WORKERS * FRAMES * data.rows), rows = c.rows - before->rows;
	uint64_t filtered = c.filtered - before->filtered, forwarded = c.forwarded - before->forwarded;

	if (broken || restarted)
		return;
	assert_true(rows >= sent && forwarded >= (uint64_t)n_passed);
	if (kind != FPISA_QUERY_TABLE) {
		assert_int_equal(rows, filtered + c.pruned - before->pruned + forwarded);
		return;
	}
	assert_int_equal(c.residue - before->residue, n_passed);
	assert_int_equal(filtered + c.absorbed - before->absorbed + (uint64_t)n_passed, sent);
	assert_int_equal(rows, sent + c.repeated - before->repeated);
}

static int done; /* number of finished runs of one program */

/* Return the number of wrong runs out of `rounds`. For a broken rule, stop at the first wrong run. */
static int runs(unsigned int kind, uint32_t filter, enum broken how, int rounds)
{
	static const uint32_t limits[] = {1, 5, 12, 40};
	int wrong = 0;

	broken = how;
	done = 0;
	for (int l = 0; l < 4 && !(how && wrong); l++) {
		q = (struct query){.config = {.job = JOB,
					      .key_bytes = 4,
					      .limit = kind == FPISA_QUERY_JOIN ? 0 : limits[l],
					      .flags = filter,
					      .filter_bytes = filter ? 4 : 0,
					      .filter_mask = filter == FPISA_QUERY_BLOOM ? 3 : 0,
					      .seed = vectors_next(&rng)}};
		query_open(&q, harness, kind, WORKERS);
		for (int i = 0; i < (rounds + 3) / 4 && !(how && wrong); i++) {
			struct fpisa_query_counters before = query_counters(&q);
			bool right;

			loss = 0.2 + 0.2 * vectors_below(&rng, 2);
			/* Broken rules about equal values need equal values. */
			fill(how == TIES_OF_COPIES ? 1 : vectors_below(&rng, QUERY_VALUES),
			     1 + vectors_below(&rng, GROUPS));
			run();
			done++;
			conserved(kind, &before);
			if (kind == FPISA_QUERY_TABLE) {
				right = table_right();
			} else if (kind == FPISA_QUERY_JOIN) {
				right = join_right();
			} else {
				join();
				right = topn_right();
			}
			wrong += !right;
		}
		query_close(&q);
	}
	return wrong;
}

static int rounds(void)
{
	const char *said = getenv("FPISA_ROUNDS");

	return said ? atoi(said) : 100;
}

static void topn(void **state)
{
	(void)state;
	NEED_BPF();
	assert_int_equal(runs(FPISA_QUERY_TOPN, 0, NONE, rounds()), 0);
}

static void table(void **state)
{
	(void)state;
	NEED_BPF();
	assert_int_equal(runs(FPISA_QUERY_TABLE, 0, NONE, rounds()), 0);
}

static void topn_of_a_join(void **state)
{
	(void)state;
	NEED_BPF();
	assert_int_equal(runs(FPISA_QUERY_TOPN, FPISA_QUERY_BITMAP, NONE, rounds()), 0);
}

static void table_of_a_join(void **state)
{
	(void)state;
	NEED_BPF();
	assert_int_equal(runs(FPISA_QUERY_TABLE, FPISA_QUERY_BITMAP, NONE, rounds() / 2), 0);
	assert_int_equal(runs(FPISA_QUERY_TABLE, FPISA_QUERY_BLOOM, NONE, rounds() / 2), 0);
}

static void join_alone(void **state)
{
	(void)state;
	NEED_BPF();
	assert_int_equal(runs(FPISA_QUERY_JOIN, FPISA_QUERY_BITMAP, NONE, rounds() / 2), 0);
	assert_int_equal(runs(FPISA_QUERY_JOIN, FPISA_QUERY_BLOOM, NONE, rounds() / 2), 0);
}

static void broken_rules(void **state)
{
	static const struct {
		unsigned int kind;
		uint32_t filter;
		enum broken how;
		const char *what;
	} all[] = {
		{FPISA_QUERY_TOPN, 0, COUNTS_EVERY_COPY, "topn: every copy counts"},
		{FPISA_QUERY_TOPN, 0, TIES_OF_COPIES, "topn: ties are pruned from every copy"},
		{FPISA_QUERY_TABLE, 0, NO_WINDOW, "table: no window"},
		{FPISA_QUERY_TABLE, 0, PLACE_LATER, "table: a key finds a place later"},
		{FPISA_QUERY_TABLE, 0, MASTER_TAKES_COPIES, "table: the master takes copies"},
		{FPISA_QUERY_TABLE, FPISA_QUERY_BITMAP, USED_EARLY, "filter: used before all keys are in"},
		{FPISA_QUERY_JOIN, FPISA_QUERY_BLOOM, LAST_KEYS_EARLY, "filter: a worker's last keys before its others"},
		{FPISA_QUERY_TABLE, FPISA_QUERY_BITMAP, KEYS_NOT_TAKEN, "filter: keys acknowledged that are not in"}};

	(void)state;
	NEED_BPF();
	if (rounds() < MUTANT_ROUNDS) {
		print_message("skip: FPISA_ROUNDS is too few to show a broken rule\n");
		skip();
	}
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		int wrong = runs(all[i].kind, all[i].filter, all[i].how, MUTANT_MOST);

		print_message("%s: %s run %d\n", all[i].what, wrong ? "wrong in" : "right to", done);
		assert_int_not_equal(wrong, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(topn),		  cmocka_unit_test(table),
		cmocka_unit_test(topn_of_a_join), cmocka_unit_test(table_of_a_join),
		cmocka_unit_test(join_alone),	  cmocka_unit_test(broken_rules),
	};

	rng.state = vectors_seed();
	return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
