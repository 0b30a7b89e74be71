/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Send hostile packets to the loaded programs of queries, with BPF_PROG_TEST_RUN.
 * 	queries [--cases N] [--seed S]
 * The program does for queries what packets.c does for jobs. It sends frames of each kind of query, with and without
 * filters, over IPv4 and IPv6, valid or mutated. The model of headers.h, the checks of fpisa/query/check.h and the query in user space
 * (user/query/soft/query.c) give the expected outcome of each frame. Verdict, counter, every byte of the reply and the
 * query's state must agree, and no other frame changes the state. Tables, heaps and filters are compared now and then.
 * Every reason that a frame of a query can provoke must be reached.
 *
 * The exit status is 0, or 1 if any check failed, or 77 where BPF is not permitted. Case c of a seed is the same in
 * every run.
 */
#include <getopt.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "query_checker.h"

#define COMPARE_EVERY 4096

#define BLOOM(bytes) .flags = FPISA_QUERY_BLOOM, .filter_bytes = (bytes), .filter_mask = 1
#define BITMAP(more) .flags = FPISA_QUERY_BITMAP | (more), .filter_bytes = 4, .filter_mask = 3

struct target target[] = {
	{"topn", FPISA_QUERY_TOPN, {.key_bytes = 4, .limit = 10}},
	{"topn, ties, of a join",
	 FPISA_QUERY_TOPN,
	 {.key_bytes = 8, .limit = 100, BITMAP(FPISA_QUERY_TIES | FPISA_QUERY_ASCENDING)}},
	{"topn of doubles, ascending",
	 FPISA_QUERY_TOPN,
	 {.key_bytes = 8, .limit = 10, .form = FPISA_FORM_DOUBLE, .flags = FPISA_QUERY_ASCENDING}},
	{"topn of int128s, of a join",
	 FPISA_QUERY_TOPN,
	 {.key_bytes = 16, .limit = 100, .form = FPISA_FORM_INT128, BITMAP(0)}},
	{"table", FPISA_QUERY_TABLE, {.key_bytes = 4, .limit = 40}},
	{"table of a join", FPISA_QUERY_TABLE, {.key_bytes = 32, .limit = 200, BLOOM(8)}},
	{"table of doubles", FPISA_QUERY_TABLE, {.key_bytes = 8, .limit = 200, .form = FPISA_FORM_DOUBLE}},
	{"table of int64s", FPISA_QUERY_TABLE, {.key_bytes = 16, .limit = 40, .form = FPISA_FORM_INT64}},
	{"table of int128s, of a join",
	 FPISA_QUERY_TABLE,
	 {.key_bytes = 32, .limit = 200, .form = FPISA_FORM_INT128, BLOOM(8)}},
	{"join", FPISA_QUERY_JOIN, {.key_bytes = 16, BITMAP(0)}},
	{"join, any keys", FPISA_QUERY_JOIN, {.key_bytes = 32, BLOOM(32)}},
};

const int targets = sizeof(target) / sizeof(target[0]);

static struct vectors_rng rng;

/* -- valid frames ------------------------------------------------------------------ */

/* Return a short place, which need not be the value's. Some are equal, and some stand for one integer each. */
static uint32_t short_place(uint64_t bits)
{
	return bits & 8	 ? 0x80000000u + (uint32_t)(bits >> 32) % 40 :
	       bits & 16 ? (uint32_t)bits | 0xff000000 :
			   (uint32_t)bits;
}

/*
 * Pack a row whose value has 8 or 16 bytes. The value has random bits, but most doubles are a multiple of 1 or of
 * 2^100.
 */
static uint8_t *pack_wide(uint8_t *to, const struct fpisa_query_config *c, const uint64_t *key, uint32_t count)
{
	const int wide = c->form == FPISA_FORM_INT128;
	uint64_t word[3] = {vectors_next(&rng), vectors_next(&rng)};
	const double value = (double)(word[0] % 1000) * (word[1] % 8 ? 1 : 0x1p100);

	if (c->form == FPISA_FORM_DOUBLE && vectors_below(&rng, 4))
		memcpy(&word[0], &value, sizeof(value));
	word[1 + wide] = count | (uint64_t)short_place(word[0]) << 32;
	memcpy(to, key, c->key_bytes);
	memcpy(to + c->key_bytes, word, c->row_bytes - c->key_bytes);
	return to + c->row_bytes;
}

/*
 * Make rows from few keys and values, so that some rows are equal. Some keys are not in the bitmap, and some rows have
 * random bits.
 */
static void rows_of(const struct target *t, uint8_t *to, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t key[FPISA_KEY_WORDS] = {vectors_below(&rng, 300) + (vectors_below(&rng, 40) ? 0 : 800)},
			 bits = vectors_next(&rng);
		uint32_t number = vectors_below(&rng, 8) ? 1 : (uint32_t)(bits >> 32);
		float value = (float)(bits % 1000);

		if (!vectors_below(&rng, 4))
			memcpy(&value, &bits, sizeof(value));
		key[3] = key[0] & 1;
		to = fpisa_form_is_wide(t->q.config.form) ? pack_wide(to, &t->q.config, key, number) :
							    query_pack(to, &t->q.config, key, value, number);
	}
}

static uint32_t most_of(uint32_t bytes)
{
	uint32_t most = FPISA_MAX_PAYLOAD / bytes;

	return most < FPISA_QUERY_ROWS ? most : FPISA_QUERY_ROWS;
}

static void valid_rows(struct target *t)
{
	static uint8_t packed[FPISA_MAX_PAYLOAD + 64];
	uint32_t w = vectors_below(&rng, WORKERS), count = vectors_below(&rng, most_of(t->q.config.row_bytes) + 1);
	uint64_t sequence = t->next[w];

	/* Usually choose the next sequence number, else a number inside or outside the window. */
	if (!vectors_below(&rng, 3))
		sequence += vectors_below(&rng, 80) - (sequence > 60 ? 60 : sequence - 1);
	else
		t->next[w]++;
	rows_of(t, packed, count);
	query_rows(&a.in, &t->q, w, sequence, count, packed, !vectors_below(&rng, 16));
}

static void valid_keys(struct target *t)
{
	static uint8_t packed[FPISA_MAX_PAYLOAD + 64];
	uint32_t bytes = t->q.config.filter_bytes, count = vectors_below(&rng, 20);
	uint64_t key[FPISA_KEY_WORDS] = {0};

	for (uint32_t i = 0; i < count; i++) {
		key[0] = vectors_below(&rng, 100) + (vectors_below(&rng, 40) ? 0 : 5000);
		key[3] = key[0] & 1;
		memcpy(packed + i * bytes, key, bytes);
	}
	query_keys(&a.in, &t->q, vectors_below(&rng, WORKERS), vectors_below(&rng, 9), count, packed,
		   !vectors_below(&rng, 4));
}

static void valid_seal(struct target *t)
{
	uint64_t last[WORKERS];
	bool right = vectors_below(&rng, 2);

	for (int w = 0; w < WORKERS; w++)
		last[w] = right ? t->soft.state.window[w].high : vectors_below(&rng, 9);
	query_seal(&a.in, &t->q, last);
}

static void valid_frame(struct target *t)
{
	const struct fpisa_query_state *s = &t->soft.state;
	uint32_t what = vectors_below(&rng, 32), master = t->q.config.master;
	bool filter = t->q.config.flags & FPISA_QUERY_FILTER,
	     building = filter && fpisa_filter_state(s->filter, t->q.epoch) == 0;

	/* Rows usually arrive after all keys, because the filter is used only then. */
	if (filter && (what < 8 || (building && vectors_below(&rng, 64)))) {
		valid_keys(t);
	} else if (what < 24) {
		valid_rows(t);
	} else if (what < 27) {
		query_frame(&a.in, &t->q, FPISA_TYPE_ACK, master, 1 + vectors_below(&rng, 9), 0, 0, NULL);
		harness_hdr(&a.in)->slot = vectors_below(&rng, WORKERS + 1);
		harness_set_checksums(&a.in);
	} else if (what < 29) {
		valid_seal(t);
	} else {
		query_frame(&a.in, &t->q, FPISA_TYPE_READ, master, vectors_below(&rng, t->q.config.limit + 5),
			    vectors_below(&rng, 14), sizeof(struct fpisa_query_group), NULL);
	}
}

/* -- cases ---------------------------------------------------------------------------------- */

static void new_epoch(struct target *t)
{
	query_join(&t->q);
	for (int w = 0; w < WORKERS; w++)
		t->next[w] = 1;
}

/* Check that a frame is dropped, and that nothing changes, while another CPU holds the state. */
static void case_busy(struct target *t)
{
	struct fpisa_query_state s = query_state(&t->q);

	a.t = t;
	a.verdict = FPISA_V_busy;
	a.action = XDP_DROP;
	valid_seal(t);
	if (fpisa_is_ipv6(&t->q.job.address))
		mutate_to_ipv6(&rng, &a.in);
	a.sent = a.in;
	s.lock = 1;
	query_set_state(&t->q, &s);
	t->soft.state.lock = 1;
	checker_run();
	s.lock = 0;
	query_set_state(&t->q, &s);
	t->soft.state.lock = 0;
}

/* Give the frame the IPv6 header that frames of a query over IPv6 have, and sometimes damage it. */
static void send_over_family(const struct target *t)
{
	if (!fpisa_is_ipv6(&t->q.job.address))
		return;
	if (vectors_below(&rng, 16))
		mutate_to_ipv6(&rng, &a.in);
	if (vectors_below(&rng, 8))
		return;
	strncat(a.mutations, " ipv6", MUTATE_NAMES - strlen(a.mutations) - 1);
	mutate_ipv6(&rng, &a.in);
}

static void one_case(void)
{
	struct target *t = &target[vectors_below(&rng, (uint32_t)targets)];
	uint32_t repair;

	a.mutations[0] = 0;
	if (!vectors_below(&rng, 512))
		new_epoch(t);
	if (t->kind == FPISA_QUERY_TABLE && !vectors_below(&rng, 2048)) {
		case_busy(t);
		return;
	}
	valid_frame(t);
	if (vectors_below(&rng, 8) >= 4) {
		mutate(&rng, &a.in, 1 + (int)(vectors_below(&rng, 2) * vectors_below(&rng, 4)), a.mutations);
		repair = vectors_below(&rng, 8);
		mutate_repair(&a.in, repair < 7, repair < 6);
	}
	send_over_family(t);
	a.sent = a.in;
	if (checker_expect())
		checker_run();
}

/* Give every second query IPv6 addresses, which end with those that the harness gave it. */
static void give_ipv6(struct query *q)
{
	mutate_widen_address(&q->job.address);
	for (uint32_t r = 0; r < q->job.workers; r++)
		mutate_widen_address(&q->job.rank[r].addr);
	query_update(q);
}

static int open_targets(void)
{
	for (int i = 0; i < targets; i++) {
		struct target *t = &target[i];

		t->q.config = t->config;
		t->q.config.job = i ? FPISA_MAX_JOBS - (uint32_t)i : 0;
		t->q.config.seed = vectors_next(&rng);
		query_open(&t->q, harness, t->kind, WORKERS);
		if (i % 2)
			give_ipv6(&t->q);
		t->soft = (struct fpisa_soft_query){.config = t->q.config, .kind = t->kind, .width = FPISA_QUERY_WINDOW};
		if (fpisa_soft_query_init(&t->soft))
			return fprintf(stderr, "queries: no memory\n"), -1;
		new_epoch(t);
	}
	return 0;
}

/* The verdicts that a frame to a query can get */
static const enum fpisa_verdict provocable[] = {
	FPISA_V_not_ours,   FPISA_V_wrong_destination,
	FPISA_V_fragment,   FPISA_V_ip_checksum,
	FPISA_V_truncated,  FPISA_V_no_job,
	FPISA_V_version,    FPISA_V_type,
	FPISA_V_rank,	    FPISA_V_unknown_peer,
	FPISA_V_secret,	    FPISA_V_length,
	FPISA_V_format,	    FPISA_V_generation,
	FPISA_V_checksum,   FPISA_V_busy,
	FPISA_V_rows_taken, FPISA_V_rows_passed,
	FPISA_V_ack_passed, FPISA_V_status,
	FPISA_V_groups,	    FPISA_V_sequence,
	FPISA_V_sealed,	    FPISA_V_unsealed,
	FPISA_V_keys_taken, FPISA_V_keys_late,
	FPISA_V_extension,  FPISA_V_vlan,
	FPISA_V_qinq,
};

static int report(void)
{
	const size_t all = sizeof(provocable) / sizeof(provocable[0]);
	size_t n = 0;

	for (size_t i = 0; i < all; i++) {
		n += reached[provocable[i]] > 0;
		if (!reached[provocable[i]])
			fprintf(stderr, "queries: not reached: %s\n", verdict_name(provocable[i]));
	}
	printf("seed %llu, cases %llu, wrong %llu, verdicts reached %zu of %zu\n", (unsigned long long)seed,
	       (unsigned long long)cases, (unsigned long long)wrong, n, all);
	for (unsigned int v = 0; v < FPISA_VERDICT_COUNT; v++)
		if (reached[v])
			printf("  %-20s %llu\n", verdict_name(v), (unsigned long long)reached[v]);
	return wrong || n < all;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"cases", required_argument, NULL, 'c'}, {"seed", required_argument, NULL, 's'}, {0}};
	uint64_t most = 100000;
	const char *why;
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 'c')
			most = strtoull(optarg, NULL, 0);
		else if (opt == 's')
			seed = strtoull(optarg, NULL, 0);
		else
			return 2;
	}
	if (!most || optind < argc) {
		fprintf(stderr, "usage: queries [--cases N] [--seed S]\n");
		return 2;
	}
	seed = seed ? seed : vectors_seed();
	harness = harness_open(&why);
	if (!harness) {
		printf("skip: %s\n", why);
		return 77;
	}
	rng.state = seed;
	if (open_targets())
		return 1;
	for (; cases < most; cases++) {
		one_case();
		if (cases % COMPARE_EVERY == COMPARE_EVERY - 1 || cases == most - 1)
			checker_maps();
	}
	for (int i = 0; i < targets; i++) {
		fpisa_soft_query_free(&target[i].soft);
		query_close(&target[i].q);
	}
	harness_close(harness);
	return report();
}
