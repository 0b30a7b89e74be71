/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hostile packets at the loaded programs of queries, by BPF_PROG_TEST_RUN:
 *
 *	queries [--cases N] [--seed S]
 *
 * As packets.c for jobs: frames of each kind of query, with and without filters, valid or mutated. The model of
 * headers.h, the checks of fpisa/query/check.h and the query in user space (user/lib/soft/query.c) say what must become of
 * each: verdict, counter, every byte of the reply, and the query's state, which no other frame changes. Tables, heaps and
 * filters are compared now and then. Every reason that a frame of a query can provoke has to be reached.
 *
 * Status: 0, 1 if anything of this failed, 77 where BPF is not permitted. Case c of a seed is the same in every run.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <getopt.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fpisa/query/check.h"
#include "headers.h"
#include "lib/soft/query.h"
#include "mutate.h"
#include "queries.h"
#include "testbed/frame.h"

#define WORKERS 3
#define COMPARE_EVERY 4096
#define MOST_REPORTS 5

struct target {
	const char *name;
	unsigned int kind;
	struct fpisa_query_config config;
	struct query q;
	struct fpisa_soft_query soft;
	uint64_t next[WORKERS]; /* sequences that rows begin from */
};

#define BLOOM(bytes) .flags = FPISA_QUERY_BLOOM, .filter_bytes = (bytes), .filter_mask = 1
#define BITMAP(more) .flags = FPISA_QUERY_BITMAP | (more), .filter_bytes = 4, .filter_mask = 3

static struct target target[] = {
	{"topn", FPISA_QUERY_TOPN, {.key_bytes = 4, .limit = 10}},
	{"topn, ties, of a join", FPISA_QUERY_TOPN, {.key_bytes = 8, .limit = 100, BITMAP(FPISA_QUERY_TIES | FPISA_QUERY_ASCENDING)}},
	{"table", FPISA_QUERY_TABLE, {.key_bytes = 4, .limit = 40}},
	{"table of a join", FPISA_QUERY_TABLE, {.key_bytes = 32, .limit = 200, BLOOM(8)}},
	{"join", FPISA_QUERY_JOIN, {.key_bytes = 16, BITMAP(0)}},
	{"join, any keys", FPISA_QUERY_JOIN, {.key_bytes = 32, BLOOM(32)}},
};

#define TARGETS ((int)(sizeof(target) / sizeof(target[0])))

static struct harness *h;
static struct vectors_rng rng;
static uint64_t seed, cases, wrong, reached[FPISA_VERDICT_COUNT];

/* One case: what went in, and what must come out. */
static struct {
	struct frame in, out;
	char mutations[MUTATE_NAMES];
	struct target *t; /* NULL: of no query */
	enum fpisa_verdict verdict;
	int action;
	uint32_t to, payload; /* of the reply: its receiver's rank, or SENDER; bytes behind the header */
	struct {
		struct fpisa_hdr hdr;
		uint8_t payload[HARNESS_FRAME];
	} reply;
} a;

#define SENDER 1000

static const char *verdict_name(unsigned int v)
{
	static const char *const names[] = {
#define X(name, class, text) #name,
		FPISA_VERDICTS(X)
#undef X
	};

	return v < FPISA_VERDICT_COUNT ? names[v] : "?";
}

static void complain(const char *what)
{
	if (wrong++ >= MOST_REPORTS)
		return;
	fprintf(stderr, "queries: seed %llu case %llu: %s; query %s, mutations:%s, expected %s action %d, got action %d\n",
		(unsigned long long)seed, (unsigned long long)cases, what, a.t ? a.t->name : "none", a.mutations,
		verdict_name(a.verdict), a.action, a.out.action);
	for (uint32_t i = 0; i < a.in.len && i < FPISA_PAYLOAD_OFFSET + 16; i++)
		fprintf(stderr, "%02x%s", a.in.data[i], i % 32 == 31 ? "\n" : " ");
	fprintf(stderr, "... %u bytes\n", a.in.len);
}

/* -- valid frames ------------------------------------------------------------------ */

/* Of few keys and values, so that they meet; some that no bitmap has, now and then any bits. */
static void rows_of(const struct target *t, uint8_t *to, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t key[FPISA_KEY_WORDS] = {vectors_below(&rng, 300) + (vectors_below(&rng, 40) ? 0 : 800)}, bits = vectors_next(&rng);
		float value = (float)(bits % 1000);

		if (!vectors_below(&rng, 4))
			memcpy(&value, &bits, sizeof(value));
		key[3] = key[0] & 1;
		to = query_pack(to, &t->q.config, key, value, vectors_below(&rng, 8) ? 1 : (uint32_t)(bits >> 32));
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

	/* Mostly the next one, else another of the window, or one that is outside. */
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
	query_keys(&a.in, &t->q, vectors_below(&rng, WORKERS), vectors_below(&rng, 9), count, packed, !vectors_below(&rng, 4));
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
	bool filter = t->q.config.flags & FPISA_QUERY_FILTER, building = filter && fpisa_filter_state(s->filter, t->q.epoch) == 0;

	/* Mostly rows come when all keys are in, else no filter would be used. */
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
		query_frame(&a.in, &t->q, FPISA_TYPE_READ, master, vectors_below(&rng, t->q.config.limit + 5), vectors_below(&rng, 14),
			    sizeof(struct fpisa_group), NULL);
	}
}

/* -- what must become of one ----------------------------------------------------------- */

static struct target *target_of(uint32_t id)
{
	for (int i = 0; i < TARGETS; i++)
		if (target[i].q.config.job == id)
			return &target[i];
	return NULL;
}

static uint64_t cookie(const struct target *t, uint32_t rank)
{
	return fpisa_cookie(&t->q.job.key, rank, HARNESS_INCARNATION);
}

/* ROWS: what is left of them in the reply. */
static enum fpisa_verdict expect_rows(struct target *t)
{
	struct fpisa_hdr *r = &a.reply.hdr;
	uint8_t keep[FPISA_QUERY_ROWS];
	uint32_t bytes = t->q.config.row_bytes, kept = 0;
	enum fpisa_verdict v = fpisa_soft_query_rows(&t->soft, t->q.epoch, r->rank, r->chunk, a.reply.payload, r->count, keep);

	if (fpisa_is_drop(v))
		return v;
	for (uint32_t i = 0; i < r->count; i++)
		if (keep[i])
			memmove(a.reply.payload + kept++ * bytes, a.reply.payload + i * bytes, bytes);
	if (!kept && !(r->flags & FPISA_F_LAST)) {
		fpisa_make_ack(r);
		return FPISA_V_rows_taken;
	}
	r->count = (uint16_t)kept;
	fpisa_make_passed_on(r, cookie(t, WORKERS));
	a.to = WORKERS;
	a.payload = fpisa_query_payload(kept, bytes);
	memset(a.reply.payload + kept * bytes, 0, a.payload - kept * bytes);
	return FPISA_V_rows_passed;
}

static enum fpisa_verdict expect_keys(struct target *t)
{
	struct fpisa_hdr *r = &a.reply.hdr;
	uint64_t missing;
	uint32_t state;
	enum fpisa_verdict v = fpisa_soft_query_keys(&t->soft, t->q.epoch, r->rank, a.reply.payload, r->count, r->flags & FPISA_F_LAST,
						     (__u64 *)&missing, &state);

	if (v == FPISA_V_keys_taken)
		fpisa_make_keys_ack(r, missing, state);
	return v;
}

static enum fpisa_verdict expect_seal(struct target *t)
{
	struct fpisa_query_state *s = &t->soft.state;
	uint64_t missing = 0, held = 0;
	__u64 last[WORKERS];

	memcpy(last, a.reply.payload, sizeof(last));
	if (t->kind == FPISA_QUERY_TABLE) {
		missing = fpisa_soft_query_seal(&t->soft, t->q.epoch, last);
		held = s->used;
	} else if (t->kind == FPISA_QUERY_TOPN && s->epoch == t->q.epoch) {
		held = s->bar;
	}
	fpisa_make_sealed(&a.reply.hdr, missing, held);
	return FPISA_V_status;
}

static enum fpisa_verdict expect_read(struct target *t)
{
	struct fpisa_query_state *s = &t->soft.state;
	uint64_t first = a.reply.hdr.chunk;
	uint32_t n = 0;

	if (s->epoch != t->q.epoch || !s->sealed)
		return FPISA_V_unsealed;
	for (; n < a.reply.hdr.count && first < s->used && first + n < s->used; n++)
		memcpy(a.reply.payload + n * sizeof(struct fpisa_group), &t->soft.groups[first + n], sizeof(struct fpisa_group));
	fpisa_make_groups(&a.reply.hdr, n, s->used);
	a.payload = n * (uint32_t)sizeof(struct fpisa_group);
	return FPISA_V_groups;
}

static enum fpisa_verdict expect_of_query(struct target *t)
{
	struct fpisa_hdr *r = &a.reply.hdr;

	switch (r->type) {
	case FPISA_TYPE_ROWS:
		return expect_rows(t);
	case FPISA_TYPE_KEYS:
		return expect_keys(t);
	case FPISA_TYPE_SEAL:
		return expect_seal(t);
	case FPISA_TYPE_READ:
		return expect_read(t);
	default:
		a.to = r->slot;
		fpisa_make_passed_on(r, cookie(t, r->slot));
		return FPISA_V_ack_passed;
	}
}

/* The checks in their order. */
static enum fpisa_verdict checks(const struct target *t, const struct fpisa_hdr *in)
{
	struct fpisa_session s = {.generation = t->q.epoch};
	enum fpisa_verdict v = fpisa_check_type(in);
	__be16 port;
	__be32 from;

	for (uint32_t r = 0; r <= WORKERS; r++)
		s.secret[r] = cookie(t, r);
	memcpy(&from, a.in.data + 26, sizeof(from));
	memcpy(&port, a.in.data + 34, sizeof(port));
	if (v == FPISA_V_ok) /* of no query: the entry's */
		v = fpisa_check_add(in, a.payload, &t->q.job, &s, from, port);
	else if (v != FPISA_V_type)
		return v;
	else if (a.payload % FPISA_QUERY_PAD)
		v = FPISA_V_length;
	else
		v = fpisa_check_member(in, &t->q.job, &s, from, port);
	if (v == FPISA_V_ok)
		v = fpisa_check_query(in, a.payload, &t->q.job, &t->q.config);
	if (v == FPISA_V_ok && headers_be16(&a.in, 36) != FPISA_PORT)
		v = FPISA_V_port;
	if (v == FPISA_V_ok && in->generation != t->q.epoch)
		v = FPISA_V_generation;
	if (v != FPISA_V_ok && !fpisa_reported(v))
		return v;
	return frame_checksum(in, a.reply.payload, a.payload) == in->checksum ? v : FPISA_V_checksum;
}

/* False: a HELLO, which packets.c has. */
static bool expect(void)
{
	struct fpisa_hdr *r = &a.reply.hdr;
	bool for_us;

	a.t = a.in.len < FPISA_PAYLOAD_OFFSET ? NULL : target_of(harness_hdr(&a.in)->job);
	for_us = !memcmp(a.in.data + 30, &target[0].q.job.address, 4);
	a.to = SENDER;
	a.payload = 0;
	a.action = XDP_DROP;
	a.verdict = headers_verdict(&a.in, for_us, 0, &a.payload);
	if (a.verdict == FPISA_V_not_ours || a.verdict == FPISA_V_wrong_destination)
		a.action = XDP_PASS;
	if (a.verdict == FPISA_V_ok && !a.t)
		a.verdict = FPISA_V_no_job;
	if (a.verdict != FPISA_V_ok) {
		if (a.verdict != FPISA_V_wrong_destination)
			a.t = NULL;
		return true;
	}
	memcpy(&a.reply, a.in.data + FPISA_OFFSET, FPISA_HDR_LEN + a.payload);
	if (r->version == FPISA_VERSION && r->type == FPISA_TYPE_HELLO)
		return false;
	a.verdict = checks(a.t, r);
	a.payload = a.verdict == FPISA_V_ok ? a.payload : 0;
	if (a.verdict == FPISA_V_ok) {
		a.payload = 0;
		a.verdict = expect_of_query(a.t);
	}
	if (!fpisa_is_drop(a.verdict)) {
		a.action = XDP_REDIRECT;
	} else if (fpisa_reported(a.verdict)) {
		fpisa_make_error(r, a.verdict);
		a.action = XDP_REDIRECT;
	}
	return true;
}

/* -- what became of it ------------------------------------------------------------------- */

static void check_reply(void)
{
	const uint8_t *from = (const uint8_t *)&a.t->q.job.address, *to = a.in.data + 26, *port = a.in.data + 34;
	uint8_t macs[12];

	memcpy(macs, a.in.data + 6, 6);
	memcpy(macs + 6, a.in.data, 6);
	if (a.to != SENDER) {
		memcpy(macs, (uint8_t[]){2, 0, 0, 0, 1, (uint8_t)a.to, 2, 0, 0, 0, 0, 0xfe}, sizeof(macs));
		to = (const uint8_t *)&a.t->q.job.rank[a.to].addr;
		port = (const uint8_t *)&a.t->q.job.rank[a.to].port;
	}
	a.reply.hdr.checksum = frame_checksum(&a.reply.hdr, a.reply.payload, a.payload);
	if (a.out.len != FPISA_PAYLOAD_OFFSET + a.payload || memcmp(a.out.data, macs, sizeof(macs)) || memcmp(a.out.data + 26, from, 4) ||
	    memcmp(a.out.data + 30, to, 4) || memcmp(a.out.data + 36, port, 2) || headers_be16(&a.out, 34) != FPISA_PORT ||
	    memcmp(a.out.data + FPISA_OFFSET, &a.reply, FPISA_HDR_LEN + a.payload) || !headers_ip_intact(a.out.data + 14) ||
	    !harness_udp_checksum_right(&a.out) || headers_be16(&a.out, 38) != 8 + FPISA_HDR_LEN + a.payload)
		complain("the reply is not the one expected");
}

/* The state is that of the query in user space, which has seen the frames that count and no others. */
static void check_state(const struct target *t)
{
	struct fpisa_query_state now = query_state(&t->q), want = t->soft.state;

	now.barrier = want.barrier = 0;
	if (memcmp(&now, &want, sizeof(now)))
		complain("the state differs");
}

static void check_map(struct target *t, const char *name, const void *want, size_t bytes, uint32_t n)
{
	int fd = bpf_object__find_map_fd_by_name(t->q.object, name);
	uint8_t value[256];

	for (uint32_t i = 0; i < n; i++)
		if (bpf_map_lookup_elem(fd, &i, value) || memcmp(value, (const uint8_t *)want + i * bytes, bytes)) {
			complain(name);
			return;
		}
}

static void check_maps(void)
{
	for (int i = 0; i < TARGETS; i++) {
		struct target *t = a.t = &target[i];
		const struct fpisa_query_config *c = &t->q.config;

		if (c->flags & FPISA_QUERY_FILTER)
			check_map(t, "fpisa_filter", t->soft.filter, sizeof(*t->soft.filter), c->filter_mask + 1);
		if (t->kind == FPISA_QUERY_TOPN)
			check_map(t, "fpisa_heap", t->soft.heap, sizeof(*t->soft.heap), c->limit);
		if (t->kind != FPISA_QUERY_TABLE)
			continue;
		check_map(t, "fpisa_buckets", t->soft.buckets, sizeof(*t->soft.buckets), c->bucket_mask + 1);
		check_map(t, "fpisa_groups", t->soft.groups, sizeof(*t->soft.groups), c->limit);
	}
}

static void run(void)
{
	uint32_t counted = a.t ? a.t->q.config.job : FPISA_MAX_JOBS;
	uint64_t before = harness_verdict(h, counted, a.verdict);

	a.out.len = a.in.len;
	memcpy(a.out.data, a.in.data, a.in.len);
	harness_run(h, &a.out);
	reached[a.verdict]++;
	if (harness_verdict(h, counted, a.verdict) != before + 1)
		complain("the expected verdict is not counted");
	else if (a.out.action != a.action)
		complain("another action than the verdict's");
	else if (a.action == XDP_PASS && (a.out.len != a.in.len || memcmp(a.out.data, a.in.data, a.in.len)))
		complain("changed on its way through");
	else if (a.action == XDP_REDIRECT)
		check_reply();
	if (a.t)
		check_state(a.t);
}

/* -- cases ---------------------------------------------------------------------------------- */

static void new_epoch(struct target *t)
{
	query_join(&t->q);
	for (int w = 0; w < WORKERS; w++)
		t->next[w] = 1;
}

/* Another CPU has the state: dropped, and nothing changes. */
static void case_busy(struct target *t)
{
	struct fpisa_query_state s = query_state(&t->q);

	a.t = t;
	a.verdict = FPISA_V_busy;
	a.action = XDP_DROP;
	valid_seal(t);
	s.lock = 1;
	query_set_state(&t->q, &s);
	t->soft.state.lock = 1;
	run();
	s.lock = 0;
	query_set_state(&t->q, &s);
	t->soft.state.lock = 0;
}

static void one_case(void)
{
	struct target *t = &target[vectors_below(&rng, TARGETS)];
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
	if (expect())
		run();
}

static int open_targets(void)
{
	for (int i = 0; i < TARGETS; i++) {
		struct target *t = &target[i];

		t->q.config = t->config;
		t->q.config.job = i ? FPISA_MAX_JOBS - (uint32_t)i : 0;
		t->q.config.seed = vectors_next(&rng);
		query_open(&t->q, h, t->kind, WORKERS);
		t->soft = (struct fpisa_soft_query){.config = t->q.config, .kind = t->kind, .width = FPISA_QUERY_WINDOW};
		if (fpisa_soft_query_init(&t->soft))
			return fprintf(stderr, "queries: no memory\n"), -1;
		new_epoch(t);
	}
	return 0;
}

/* What a frame to a query can come to. */
static const enum fpisa_verdict provocable[] = {
	FPISA_V_not_ours,    FPISA_V_wrong_destination, FPISA_V_fragment, FPISA_V_ip_checksum, FPISA_V_truncated, FPISA_V_no_job,
	FPISA_V_version,     FPISA_V_type,		FPISA_V_rank,	  FPISA_V_unknown_peer, FPISA_V_secret,	 FPISA_V_length,
	FPISA_V_format,	     FPISA_V_generation,	FPISA_V_checksum, FPISA_V_busy,	       FPISA_V_rows_taken, FPISA_V_rows_passed,
	FPISA_V_ack_passed,  FPISA_V_status,		FPISA_V_groups,	  FPISA_V_sequence,    FPISA_V_sealed,	 FPISA_V_unsealed,
	FPISA_V_keys_taken,  FPISA_V_keys_late,
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
	printf("seed %llu, cases %llu, wrong %llu, verdicts reached %zu of %zu\n", (unsigned long long)seed, (unsigned long long)cases,
	       (unsigned long long)wrong, n, all);
	for (unsigned int v = 0; v < FPISA_VERDICT_COUNT; v++)
		if (reached[v])
			printf("  %-20s %llu\n", verdict_name(v), (unsigned long long)reached[v]);
	return wrong || n < all;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"cases", required_argument, NULL, 'c'}, {"seed", required_argument, NULL, 's'}, {0}};
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
	h = harness_open(&why);
	if (!h) {
		printf("skip: %s\n", why);
		return 77;
	}
	rng.state = seed;
	if (open_targets())
		return 1;
	for (; cases < most; cases++) {
		one_case();
		if (cases % COMPARE_EVERY == COMPARE_EVERY - 1 || cases == most - 1)
			check_maps();
	}
	for (int i = 0; i < TARGETS; i++) {
		fpisa_soft_query_free(&target[i].soft);
		query_close(&target[i].q);
	}
	harness_close(h);
	return report();
}
