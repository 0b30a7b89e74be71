/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measure the kernel's time per row of a query, and the share of rows that the datapath passes on to the master.
 *
 * 	query [--rows N] [--rounds R]
 *
 * The loaded programs run under BPF_PROG_TEST_RUN on one CPU. Frames have 128 8-byte rows. If values are doubles or
 * integers, frames have as many rows of 24 or 32 bytes as fit into an MTU of 1500. Each frame has new random rows, and
 * each round has a new epoch. In the same round, C code in user space processes the same rows. It uses a heap, a table
 * with sums as doubles, or the same filter, and prefetches the cache lines for a frame. The output is a JSON line for
 * each case:
 *
 * 	ns_per_row	time of the kernel, from parsing a frame to its verdict; median and quartiles over the rounds
 * 	c_ns_per_row	the same for C code in user space
 * 	ratio		ns_per_row / c_ns_per_row in the same round
 * 	forwarded	the largest share of rows in any round that the datapath passes on to the master
 * 	ns_per_key	only for a filter: time to insert a key
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <linux/bpf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fpisa/query/order.h"
#include "query/datapath/queries.h"
#include "query/soft/query.h"
#include "prog/query/queries.h"
#include "vectors.h"

#define JOB 5
#define MAX_ROUNDS 100
#define ROWS FPISA_QUERY_ROWS
#define TOKEN 0x5eadbeefcafe0001ull
#define BATCH 32 /* number of frames between two readings of the CPU clock */

enum values { RANDOM, ASCENDING };

/*
 * `keys` is the number of different keys, which rows use equally often. With a filter, every tenth key is in the join.
 */
static const struct query_case {
	const char *program;
	unsigned int kind;
	uint32_t filter, limit, keys;
	enum values values;
	uint64_t token; /* whether frames have tags; else they have checksums */
	uint32_t form;	/* enum fpisa_value_form; 0 means reals */
} cases[] = {
	{"topn", FPISA_QUERY_TOPN, 0, 250, 1000000, RANDOM},
	{"topn", FPISA_QUERY_TOPN, 0, 250, 1000000, ASCENDING},
	{"topn", FPISA_QUERY_TOPN, 0, 250, 1000000, RANDOM, .form = FPISA_FORM_DOUBLE},
	{"topn", FPISA_QUERY_TOPN, 0, 250, 1000000, RANDOM, .form = FPISA_FORM_INT64},
	{"topn", FPISA_QUERY_TOPN, 0, 250, 1000000, RANDOM, .form = FPISA_FORM_INT128},
	{"table", FPISA_QUERY_TABLE, 0, 521, 521, RANDOM},
	{"table", FPISA_QUERY_TABLE, 0, 521, 521, RANDOM, TOKEN},
	{"table", FPISA_QUERY_TABLE, 0, 521, 521, RANDOM, .form = FPISA_FORM_DOUBLE},
	{"table", FPISA_QUERY_TABLE, 0, 521, 521, RANDOM, .form = FPISA_FORM_INT64},
	{"table", FPISA_QUERY_TABLE, 0, 521, 521, RANDOM, .form = FPISA_FORM_INT128},
	{"table", FPISA_QUERY_TABLE, 0, 100000, 100000, RANDOM},
	{"table", FPISA_QUERY_TABLE, 0, 1000000, 1000000, RANDOM},
	{"join", FPISA_QUERY_JOIN, FPISA_QUERY_BITMAP, 0, 1000000, RANDOM},
	{"join", FPISA_QUERY_JOIN, FPISA_QUERY_BLOOM, 0, 1000000, RANDOM},
	{"topn", FPISA_QUERY_TOPN, FPISA_QUERY_BITMAP, 250, 1000000, RANDOM},
	{"table", FPISA_QUERY_TABLE, FPISA_QUERY_BITMAP, 100000, 1000000, RANDOM},
};

struct row {
	uint32_t key;
	float value;
};

static struct vectors_rng rng;
static struct query q;
static uint32_t in_frame; /* number of rows in a frame */

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* -- the same computation in C --------------------------------------------------------- */

struct cell {
	uint32_t key, used;
	double sum;
	float min, max;
	uint64_t count;
};

/* State of the C code. The heap and the filter follow the datapath's rules, and the hash table is an ordinary one. */
struct in_c {
	struct fpisa_soft_query soft;
	struct cell *cell;
	uint32_t mask;
};

static bool c_open(struct in_c *c, const struct query_case *k)
{
	memset(c, 0, sizeof(*c));
	c->soft.kind = k->kind == FPISA_QUERY_TABLE ? FPISA_QUERY_JOIN : k->kind;
	c->soft.config = q.config;
	if (fpisa_soft_query_init(&c->soft))
		return false;
	if (k->kind != FPISA_QUERY_TABLE)
		return true;
	for (c->mask = 1; c->mask < 2 * k->limit; c->mask *= 2)
		;
	c->cell = aligned_alloc(64, c->mask * sizeof(*c->cell));
	c->mask--;
	return c->cell;
}

static void c_close(struct in_c *c)
{
	fpisa_soft_query_free(&c->soft);
	free(c->cell);
}

static uint32_t c_place(const struct in_c *c, uint32_t key)
{
	return (uint32_t)(key * 0x9e3779b97f4a7c15ull >> 32) & c->mask;
}

static void c_table(struct in_c *c, const struct row *row, const uint8_t *keep)
{
	for (uint32_t i = 0; i < in_frame; i++)
		if (keep[i])
			__builtin_prefetch(&c->cell[c_place(c, row[i].key)], 1);
	for (uint32_t i = 0; i < in_frame; i++) {
		uint32_t at = c_place(c, row[i].key);
		struct cell *to;

		if (!keep[i])
			continue;
		while (c->cell[at].used && c->cell[at].key != row[i].key)
			at = (at + 1) & c->mask;
		to = &c->cell[at];
		if (!to->used)
			*to = (struct cell){.key = row[i].key, .used = 1, .min = row[i].value, .max = row[i].value};
		to->sum += (double)row[i].value;
		to->min = fminf(to->min, row[i].value);
		to->max = fmaxf(to->max, row[i].value);
		to->count++;
	}
}

/* Process a frame with the C code. */
static void c_rows(struct in_c *c, const struct query_case *k, uint64_t sequence, const struct row *row)
{
	uint8_t keep[ROWS];

	if (c->soft.filter && k->filter & FPISA_QUERY_BITMAP)
		for (uint32_t i = 0; i < in_frame; i++)
			__builtin_prefetch(&c->soft.filter[row[i].key / FPISA_FILTER_BLOCK_KEYS & q.config.filter_mask]);
	if (k->kind != FPISA_QUERY_TABLE || k->filter)
		fpisa_soft_query_rows(&c->soft, q.epoch, 0, sequence, row, in_frame, keep);
	else
		memset(keep, 1, sizeof(keep));
	if (k->kind == FPISA_QUERY_TABLE)
		c_table(c, row, keep);
}

/* Process n frames, up to number `last`, with the C code. Return the time. */
static uint64_t c_batch(struct in_c *c, const struct query_case *k, uint32_t last, uint32_t n,
			struct row row[BATCH][ROWS])
{
	uint64_t before = cpu_ns();

	for (uint32_t i = 0; i < n; i++)
		c_rows(c, k, last - n + 1 + i, row[i]);
	return cpu_ns() - before;
}

/* -- kernel and C code ----------------------------------------------------------------- */

struct figures {
	double ns[MAX_ROUNDS], c_ns[MAX_ROUNDS], ratio[MAX_ROUNDS], key_ns[MAX_ROUNDS], forwarded;
};

/* Insert every tenth key in the kernel and in the C code. Return the kernel's time per key. */
static double fill_filter(struct in_c *c, const struct query_case *k)
{
	uint32_t key[ROWS], n = 0, all = 0, state;
	uint64_t ns = 0, sequence = 0;
	struct frame f;
	__u64 missing;

	for (uint32_t i = 0; i < k->keys; i += 10) {
		key[n++] = i;
		if (n < ROWS && i + 10 < k->keys)
			continue;
		query_keys(&f, &q, 0, ++sequence, n, key, i + 10 >= k->keys);
		ns += harness_run(harness, &f);
		if (harness_hdr(&f)->type != FPISA_TYPE_KEYS_ACK)
			abort();
		fpisa_soft_query_keys(&c->soft, q.epoch, 0, key, n, i + 10 >= k->keys, &missing, &state);
		all += n;
		n = 0;
	}
	return (double)ns / all;
}

/* Make a frame of the rows. A double has the value of the real, and an integer is 2^24 times the real. */
static void make_frame(struct frame *f, const struct query_case *k, uint32_t n, const struct row *row)
{
	static uint8_t packed[ROWS * 32];
	const uint32_t bytes = q.config.row_bytes, wide = bytes - 16;

	if (!k->form) {
		query_rows(f, &q, 0, n, in_frame, row, false);
		return;
	}
	memset(packed, 0, sizeof(packed));
	for (uint32_t i = 0; i < in_frame; i++) {
		const double value = (double)row[i].value;
		const int64_t whole = (int64_t)(value * 0x1p24);
		struct fpisa_row r = {.wide = {(uint64_t)whole}, .count = 1};
		uint8_t *to = packed + i * bytes;

		if (k->form == FPISA_FORM_DOUBLE)
			memcpy(r.wide, &value, sizeof(value));
		memcpy(to, &row[i].key, sizeof(row[i].key));
		memcpy(to + 8, r.wide, wide);
		memcpy(to + 8 + wide, &r.count, sizeof(r.count));
		if (k->kind == FPISA_QUERY_TOPN)
			r.value = fpisa_short_place(&r, k->form);
		memcpy(to + 12 + wide, &r.value, sizeof(r.value));
	}
	query_rows(f, &q, 0, n, in_frame, packed, false);
}

static int one_round(const struct query_case *k, struct figures *g, uint32_t round, uint32_t frames)
{
	uint64_t ns = 0, c_ns = 0, forwarded = 0;
	static struct row rows[BATCH][ROWS];
	uint32_t n_batch = 0;
	struct in_c c;
	struct frame f;
	float next = 0;

	query_join(&q);
	if (!c_open(&c, k))
		return fprintf(stderr, "query: not enough memory\n"), -1;
	if (c.cell)
		memset(c.cell, 0, ((size_t)c.mask + 1) * sizeof(*c.cell));
	g->key_ns[round] = k->filter ? fill_filter(&c, k) : 0;
	for (uint32_t n = 1; n <= frames; n++) {
		struct row *row = rows[n_batch++];

		for (uint32_t i = 0; i < in_frame; i++) {
			uint64_t r = vectors_next(&rng);

			row[i].key = (uint32_t)(r >> 40) % k->keys;
			row[i].value = k->values == ASCENDING ? next++ : (float)(r & 0xffffff) * 0x1p-24f;
		}
		make_frame(&f, k, n, row);
		ns += harness_run(harness, &f);
		if (f.action != XDP_REDIRECT)
			return fprintf(stderr, "query: the program dropped frame %u\n", n), -1;
		if (harness_hdr(&f)->type == FPISA_TYPE_ROWS)
			forwarded += harness_hdr(&f)->count;
		if (n_batch < BATCH && n < frames)
			continue;
		c_ns += c_batch(&c, k, n, n_batch, rows);
		n_batch = 0;
	}
	c_close(&c);
	g->ns[round] = (double)ns / (frames * in_frame);
	g->c_ns[round] = (double)c_ns / (frames * in_frame);
	g->ratio[round] = g->ns[round] / g->c_ns[round];
	g->forwarded = fmax(g->forwarded, (double)forwarded / (frames * in_frame));
	return 0;
}

static int up(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void print_quartiles(const char *name, double *v, uint32_t n)
{
	qsort(v, n, sizeof(*v), up);
	printf(", \"%s\": %.3f, \"%s_quartiles\": [%.3f, %.3f]", name, v[n / 2], name, v[n / 4], v[(n - 1) * 3 / 4]);
}

static uint32_t filter_mask(const struct query_case *k)
{
	uint32_t blocks = 1,
		 of_block = k->filter & FPISA_QUERY_BITMAP ? FPISA_FILTER_BLOCK_KEYS : FPISA_FILTER_BLOOM_KEYS;
	uint32_t keys = k->filter & FPISA_QUERY_BITMAP ? k->keys : k->keys / 10;

	while (k->filter && blocks * of_block < keys)
		blocks *= 2;
	return blocks - 1;
}

static int measure(const struct query_case *k, uint32_t rounds, uint32_t frames)
{
	static struct figures g;
	int err = 0;

	memset(&g, 0, sizeof(g));
	q = (struct query){.token = k->token,
			   .config = {.job = JOB,
				      .key_bytes = k->form ? 8 : 4,
				      .form = k->form,
				      .limit = k->limit,
				      .flags = k->filter,
				      .filter_bytes = k->filter ? 4 : 0,
				      .filter_mask = filter_mask(k),
				      .seed = vectors_next(&rng)}};
	query_open(&q, harness, k->kind, 1);
	in_frame = k->form ? 1376 / q.config.row_bytes : ROWS;
	for (uint32_t r = 0; !err && r < rounds; r++)
		err = one_round(k, &g, r, frames);
	query_close(&q);
	if (err)
		return err;
	printf("{\"bench\": \"query\", \"program\": \"%s\", \"filter\": %s, \"limit\": %u, \"keys\": %u, \"values\": \"%s\", \"tags\": %s, \"form\": %u, "
	       "\"rows\": %u, \"rounds\": %u, \"forwarded\": %.6f",
	       k->program,
	       !k->filter		       ? "null" :
	       k->filter == FPISA_QUERY_BITMAP ? "\"bitmap\"" :
						 "\"bloom\"",
	       k->limit, k->keys, k->values == ASCENDING ? "ascending" : "random", k->token ? "true" : "false",
	       k->form ? k->form : FPISA_FORM_REAL, frames * in_frame, rounds, g.forwarded);
	print_quartiles("ns_per_row", g.ns, rounds);
	print_quartiles("c_ns_per_row", g.c_ns, rounds);
	print_quartiles("ratio", g.ratio, rounds);
	if (k->filter)
		print_quartiles("ns_per_key", g.key_ns, rounds);
	printf("}\n");
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"rows", required_argument, NULL, 'n'}, {"rounds", required_argument, NULL, 'r'}, {0}};
	uint32_t rows = 3000000, rounds = 5;
	int opt, err = 0;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 'n')
			rows = (uint32_t)strtoul(optarg, NULL, 0);
		else if (opt == 'r')
			rounds = (uint32_t)strtoul(optarg, NULL, 0);
		else
			return 2;
	}
	if (optind < argc || rows < ROWS || !rounds || rounds > MAX_ROUNDS) {
		fprintf(stderr, "usage: query [--rows N] [--rounds R]: %d rows and more, 1 to %d rounds\n", ROWS,
			MAX_ROUNDS);
		return 2;
	}
	rng.state = vectors_seed();
	harness = harness_open(&harness_why);
	if (!harness) {
		fprintf(stderr, "query: %s\n", harness_why);
		return 1;
	}
	for (size_t i = 0; !err && i < sizeof(cases) / sizeof(cases[0]); i++)
		err = measure(&cases[i], rounds, rows / ROWS);
	harness_close(harness);
	return err ? 1 : 0;
}
