/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test leaves and a parent in the datapath, with random values of every format that supports trees, in every operation,
 * and with lost frames between leaves and parent. The parent's result has the bits of one job over all ranks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include "fpisa/tree.h"
#include "harness.h"
#include "vectors.h"

#define LEAVES 2
#define RANKS 3
#define FLAT 1
#define ROOT 2
#define LEAF(l) (ROOT + 1 + (l))
#define COUNT 64
#define PAYLOAD (FPISA_SCALES + COUNT * 8)
#define ATTEMPTS 200

static struct vectors_rng rng;
static struct fpisa_job root, flat, leaf[LEAVES];
static uint32_t loss; /* percent of the frames between leaf and parent */
static uint32_t room; /* bytes of a part that fit the MTU of the route to the parent */
static bool here;     /* leaf 0 is on the host of the root */

static void *map(const char *name)
{
	struct bpf_map *m = bpf_object__find_map_by_name(harness->skel->obj, name);

	assert_non_null(m);
	return m;
}

static void write_entry(const char *name, uint32_t key, const void *value)
{
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(map(name)), &key, value, BPF_ANY), 0);
}

/* Let a job take part in the root's generation, which is the latest generation. */
static void enter(uint32_t id)
{
	struct fpisa_session s;

	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(map("fpisa_sessions")), &id, &s), 0);
	s.generation = harness->generation;
	write_entry("fpisa_sessions", id, &s);
}

/* Return whether frames between the root and leaf l have the root's number also at the leaf. */
static bool is_here(uint32_t l)
{
	return here && !l;
}

/* Put leaf 0 on the host of the root if `here` is set. Other leaves are on hosts of their own. */
static void place_leaf(uint32_t l)
{
	leaf[l].parent = (struct fpisa_rank){
		.addr = fpisa_ipv4(htonl(HARNESS_AGGREGATOR)), .port = htons(FPISA_PORT), .given = is_here(l)};
	leaf[l].parent_job = ROOT;
	if (!is_here(l))
		leaf[l].address = fpisa_ipv4(htonl(HARNESS_WORKER(l)));
	write_entry("fpisa_jobs", LEAF(l), &leaf[l]);
}

/* Integers have no mode exact. A flat job of them has another family of programs than a tree. */
static uint8_t mode_of(uint8_t format)
{
	return format == FPISA_FORMAT_INT32 ? FPISA_MODE_FPISA : FPISA_MODE_EXACT;
}

/* Create a tree and a flat job of a format, with the operation's flags. */
static void make(uint8_t format)
{
	struct fpisa_job j = {
		.elements = COUNT, .mode = mode_of(format), .rounding = FPISA_ROUND_NEAREST, .format = format};

	flat = root = j;
	flat.workers = LEAVES * RANKS;
	flat.slot_base = 64;
	harness_job(harness, FLAT, &flat);
	for (uint32_t l = 0; l < LEAVES; l++) {
		leaf[l] = j;
		leaf[l].workers = RANKS;
		leaf[l].flags = FPISA_JOB_LEAF;
		leaf[l].slot_base = 16 + 16 * l;
		harness_job(harness, LEAF(l), &leaf[l]);
		place_leaf(l);
	}
	root.workers = LEAVES;
	root.flags = FPISA_JOB_LEAVES;
	root.below = here ? LEAF(0) + 1 : 0;
	harness_job(harness, ROOT, &root);
	if (here)
		root.rank[0].addr = root.address;
	write_entry("fpisa_jobs", ROOT, &root);
	enter(FLAT);
	for (uint32_t l = 0; l < LEAVES; l++) {
		struct fpisa_leaf at = {.up = {.attempt = 1,
					       .cookie = fpisa_cookie(&root.key, l, HARNESS_INCARNATION),
					       .results = fpisa_result_secret(&root.key, harness->generation),
					       .job = ROOT,
					       .rank = l,
					       .workers = LEAVES,
					       .ports = 1},
					.room = room};

		write_entry("fpisa_leaves", LEAF(l), &at);
		enter(LEAF(l));
	}
}

static void contribute(struct frame *f, uint32_t id, const struct fpisa_job *j, uint32_t rank, uint64_t chunk,
		       uint8_t op, const void *values)
{
	const double factor = 0.75;

	harness_add(f, harness, j, id, rank, chunk, COUNT, values);
	harness_hdr(f)->op = op;
	if (op == FPISA_OP_SCALE)
		memcpy(&harness_hdr(f)->aux, &factor, sizeof(factor));
	harness_set_checksums(f);
}

static int lost(void)
{
	return vectors_below(&rng, 100) < loss;
}

/* Deliver a part of leaf l, and all parts that follow it, to the root. Return whether *f is the root's result. */
static int climb(struct frame *f, uint32_t l)
{
	while (f->action == XDP_REDIRECT && harness_hdr(f)->type == FPISA_TYPE_ADD && !lost()) {
		assert_int_equal(harness_hdr(f)->job, ROOT);
		harness_run(harness, f);
		if (f->action != XDP_REDIRECT)
			return 0;
		if (harness_hdr(f)->type == FPISA_TYPE_RESULT)
			return 1;
		assert_int_equal(harness_hdr(f)->type, FPISA_TYPE_STATUS);
		if (lost())
			return 0;
		if (!is_here(l)) {
			harness_hdr(f)->job = LEAF(l);
			harness_set_checksums(f);
		}
		harness_run(harness, f);
	}
	return 0;
}

/* Sum over the tree, in random order, until the root has the result, *f. */
static void sum_over_tree(struct frame *f, uint64_t chunk, uint8_t op, uint8_t values[][PAYLOAD])
{
	for (uint32_t n = 0; n < ATTEMPTS * LEAVES * RANKS; n++) {
		uint32_t i = vectors_below(&rng, LEAVES * RANKS);

		contribute(f, LEAF(i / RANKS), &leaf[i / RANKS], i % RANKS, chunk, op, values[i]);
		harness_run(harness, f);
		if (climb(f, i / RANKS))
			return;
	}
	fail_msg("no result");
}

/*
 * Check that a leaf sends the root's result *f to its ranks, with the leaf's ranks in it, and with the congestion mark
 * that it got on the way.
 */
static void come_down(const struct frame *result, uint32_t l)
{
	const uint64_t marked = harness_counters(harness, LEAF(l)).marked;
	const uint8_t ecn = (uint8_t)vectors_below(&rng, 4);
	const bool resent = !vectors_below(&rng, 3);
	struct frame f = *result;
	const uint32_t source = root.address.w[3], dest = leaf[l].address.w[3];
	const uint16_t port = htons(FPISA_PORT);

	if (!is_here(l))
		harness_hdr(&f)->job = LEAF(l);
	memcpy(f.data + FPISA_ETH_LEN + 12, &source, sizeof(source));
	memcpy(f.data + FPISA_ETH_LEN + 16, &dest, sizeof(dest));
	memcpy(f.data + FPISA_ETH_LEN + FPISA_IP_LEN + 2, &port, sizeof(port));
	f.data[FPISA_ETH_LEN + 1] = ecn;
	harness_hdr(&f)->flags = (uint8_t)(resent ? FPISA_F_RESENT : 0);
	harness_set_checksums(&f);
	harness_run(harness, &f);
	assert_int_equal(f.action, XDP_REDIRECT);
	assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_RESULT);
	assert_int_equal(harness_hdr(&f)->job, LEAF(l));
	assert_int_equal(harness_hdr(&f)->contributors, LEAVES * RANKS);
	assert_int_equal(harness_hdr(&f)->bitmap, (1 << RANKS) - 1);
	assert_int_equal(harness_hdr(&f)->flags, resent ? FPISA_F_RESENT : ecn == 3 ? FPISA_F_MARKED : 0);
	assert_int_equal(harness_counters(harness, LEAF(l)).marked, marked + (ecn == 3 && !resent));
	assert_memory_equal(harness_payload(&f), result->data + FPISA_PAYLOAD_OFFSET, f.len - FPISA_PAYLOAD_OFFSET);
}

/*
 * Draw a word of a format. It has random bits, including specials, or an exponent near one exponent, so that sums cancel.
 * Shift integers, so that their sums do not saturate. A saturated sum depends on the order.
 */
static uint64_t draw_word(struct fpisa_format f, int special, uint32_t i)
{
	const uint64_t word = vectors_next(&rng);

	if (f.integer)
		return (uint64_t)((int64_t)word >> (special ? 36 : 58));
	if (special || f.shared)
		return word;
	return (word & ~(((1ull << f.ebits) - 1) << f.mbits)) | ((1ull << (f.ebits - 1)) + i % 4) << f.mbits;
}

/* Draw a scale of a block of mxint8. It is any scale, or near one scale. */
static uint8_t draw_scale(int special)
{
	return (uint8_t)(special ? vectors_next(&rng) : 127 + vectors_below(&rng, 4));
}

static void draw(uint8_t values[][PAYLOAD], struct fpisa_format f)
{
	const int special = (int)vectors_below(&rng, 2);
	const uint32_t scales = f.shared ? FPISA_SCALES : 0;

	memset(values, 0, (size_t)LEAVES * RANKS * PAYLOAD);
	for (uint32_t r = 0; r < LEAVES * RANKS; r++) {
		for (uint32_t b = 0; scales && b < COUNT / FPISA_BLOCK; b++)
			values[r][b] = draw_scale(special);
		for (uint32_t i = 0; i < COUNT; i++) {
			const uint64_t word = draw_word(f, special, i);

			memcpy(&values[r][scales + i * f.bytes], &word, f.bytes);
		}
	}
}

/* Draw one of the operations that a job of this format supports. */
static uint8_t draw_op(uint8_t format)
{
	static const uint8_t ops[] = {FPISA_OP_SUM, FPISA_OP_MIN, FPISA_OP_MAX, FPISA_OP_AVG, FPISA_OP_SCALE};
	uint8_t op;

	do
		op = ops[vectors_below(&rng, sizeof(ops))];
	while (!fpisa_op_offered(fpisa_format_of(format), mode_of(format), op));
	return op;
}

static void one_sum(uint64_t chunk, uint8_t format, uint8_t op)
{
	static uint8_t values[LEAVES * RANKS][PAYLOAD];
	struct frame want, got;

	draw(values, fpisa_format_of(format));
	for (uint32_t i = 0; i < LEAVES * RANKS; i++) {
		contribute(&want, FLAT, &flat, i, chunk, op, values[i]);
		harness_run(harness, &want);
	}
	assert_int_equal(harness_hdr(&want)->type, FPISA_TYPE_RESULT);
	sum_over_tree(&got, chunk, op, values);
	assert_int_equal(got.len, want.len);
	assert_int_equal(harness_hdr(&got)->contributors, LEAVES * RANKS);
	assert_int_equal(harness_hdr(&got)->result_flags, harness_hdr(&want)->result_flags);
	assert_memory_equal(harness_payload(&got), harness_payload(&want), got.len - FPISA_PAYLOAD_OFFSET);
	for (uint32_t l = 0; l < LEAVES; l++)
		come_down(&got, l);
}

static void flat_bits(void **state)
{
	static const uint8_t formats[] = {FPISA_FORMAT_FP32,  FPISA_FORMAT_BF16,  FPISA_FORMAT_FP16,
					  FPISA_FORMAT_E4M3,  FPISA_FORMAT_E5M2,  FPISA_FORMAT_FP64,
					  FPISA_FORMAT_INT32, FPISA_FORMAT_MXINT8};

	(void)state;
	NEED_BPF();
	rng = (struct vectors_rng){vectors_seed()};
	for (uint32_t f = 0; f < 2 * sizeof(formats); f++) {
		/* A part for the whole chunk, or for each block */
		room = f % 2 ? 0 : FPISA_MAX_PAYLOAD;
		here = (f + f / 2) % 2;
		make(formats[f / 2]);
		for (uint64_t chunk = 0; chunk < 60; chunk++) {
			loss = chunk % 2 ? 30 : 0;
			one_sum(chunk, formats[f / 2], draw_op(formats[f / 2]));
		}
	}
}

/*
 * Check that a part is added once, whatever is sent again, and that a frame changes nothing if the parent did not send
 * it.
 */
static void refused(void **state)
{
	static uint8_t values[LEAVES * RANKS][PAYLOAD];
	struct frame f, part, forged;
	uint64_t duplicates, partial, parent;

	(void)state;
	NEED_BPF();
	rng = (struct vectors_rng){vectors_seed()};
	loss = 0;
	make(FPISA_FORMAT_FP32);
	duplicates = harness_verdict(harness, ROOT, FPISA_V_duplicate);
	partial = harness_verdict(harness, ROOT, FPISA_V_partial);
	parent = harness_verdict(harness, LEAF(0), FPISA_V_parent);
	draw(values, fpisa_format_of(FPISA_FORMAT_FP32));
	for (uint32_t r = 0; r < RANKS; r++) {
		contribute(&f, LEAF(0), &leaf[0], r, 0, FPISA_OP_SUM, values[r]);
		harness_run(harness, &f);
	}
	assert_int_equal(f.action, XDP_REDIRECT);
	part = f;
	harness_run(harness, &f);
	assert_int_equal(harness_verdict(harness, ROOT, FPISA_V_duplicate), duplicates);
	forged = part;
	harness_run(harness, &forged);
	assert_int_equal(harness_verdict(harness, ROOT, FPISA_V_duplicate), duplicates + 1);

	/* The contribution of a rank is not a part, so the root refuses it. */
	contribute(&f, ROOT, &root, 1, 0, FPISA_OP_SUM, values[0]);
	harness_run(harness, &f);
	assert_int_equal(f.action, XDP_DROP);
	assert_int_equal(harness_verdict(harness, ROOT, FPISA_V_partial), partial + 1);

	/* A result with a wrong secret, from the parent's address */
	forged = part;
	harness_hdr(&forged)->type = FPISA_TYPE_RESULT;
	harness_hdr(&forged)->job = LEAF(0);
	memcpy(forged.data + FPISA_ETH_LEN + 12, &root.address.w[3], 4);
	memcpy(forged.data + FPISA_ETH_LEN + 16, &leaf[0].address.w[3], 4);
	harness_set_checksums(&forged);
	harness_run(harness, &forged);
	assert_int_equal(forged.action, XDP_DROP);
	assert_int_equal(harness_verdict(harness, LEAF(0), FPISA_V_parent), parent + 1);
}

/* Let a leaf's rank ask with the contribution that completes the leaf's round. Return the leaf's answer in *f. */
static void ask(struct frame *f, uint8_t op)
{
	static uint8_t values[LEAVES * RANKS][PAYLOAD];

	draw(values, fpisa_format_of(FPISA_FORMAT_FP32));
	for (uint32_t r = 0; r < RANKS; r++) {
		contribute(f, LEAF(0), &leaf[0], r, 0, op, values[r]);
		if (r == RANKS - 1)
			harness_hdr(f)->flags |= FPISA_F_PROBE;
		harness_set_checksums(f);
		harness_run(harness, f);
	}
	climb(f, 0);
}

/* Return whether the frame has the Ethernet address of rank `rank`, which is behind eth0 or lo. */
static bool is_addressed(const struct frame *f, uint32_t rank, bool eth0)
{
	const uint8_t mac[] = {2, 0, 0, 0, 7, (uint8_t)rank};

	return eth0 ? !memcmp(f->data, mac, sizeof(mac)) : f->data[0] & 1;
}

static void set_peer(uint32_t id, uint32_t rank, bool eth0)
{
	struct fpisa_peer peer = {.ifindex = eth0 ? 2 : 1};

	if (eth0)
		memcpy(peer.mac, (uint8_t[]){2, 0, 0, 0, 7, (uint8_t)rank}, sizeof(peer.mac));
	write_entry("fpisa_peers", id * FPISA_MAX_WORKERS + rank, &peer);
}

/*
 * Check that a rank that asks for a result learns that other leaves are missing, whatever its leaf sends to the parent.
 */
static void asked(void **state)
{
	static const uint8_t ops[] = {FPISA_OP_SUM, FPISA_OP_MIN, FPISA_OP_MAX};
	struct frame f;

	(void)state;
	NEED_BPF();
	rng = (struct vectors_rng){vectors_seed()};
	loss = 0;
	for (uint32_t i = 0; i < sizeof(ops); i++) {
		const bool eth0 = i % 2;

		here = i == 2;
		make(FPISA_FORMAT_FP32);
		set_peer(LEAF(0), RANKS - 1, eth0);
		ask(&f, ops[i]);
		assert_int_equal(f.action, XDP_REDIRECT);
		assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_STATUS);
		assert_int_equal(harness_hdr(&f)->flags, FPISA_F_ABOVE);
		assert_int_equal(harness_hdr(&f)->job, LEAF(0));
		assert_int_equal(harness_hdr(&f)->rank, RANKS - 1);
		assert_true(is_addressed(&f, RANKS - 1, eth0));
	}
}

/* Send a copy of a contribution to the sealed round of leaf 0. Return whether the leaf sends its partial sum again. */
static bool is_sent_again(uint32_t rank, uint64_t chunk, uint8_t op, const void *values)
{
	struct frame f;

	contribute(&f, LEAF(0), &leaf[0], rank, chunk, op, values);
	harness_run(harness, &f);
	return f.action == XDP_REDIRECT;
}

/*
 * Check that a leaf sends its partial sum again for the first rank that asks and for the second copy of each rank, but
 * absorbs the first copies of the other ranks. This begins anew with each round, and with each part that the root takes.
 */
static void first_copies(void **state)
{
	static const uint8_t ops[] = {FPISA_OP_SUM, FPISA_OP_MIN};
	static uint8_t values[LEAVES * RANKS][PAYLOAD];
	struct frame f;

	(void)state;
	NEED_BPF();
	rng = (struct vectors_rng){vectors_seed()};
	loss = room = 0;
	make(FPISA_FORMAT_FP32);
	for (uint64_t chunk = 0; chunk < 60; chunk++) {
		const uint8_t op = ops[chunk % 2];
		const uint64_t absorbed = harness_verdict(harness, LEAF(0), FPISA_V_duplicate);

		draw(values, fpisa_format_of(FPISA_FORMAT_FP32));
		for (uint32_t r = 0; r < RANKS; r++) {
			contribute(&f, LEAF(0), &leaf[0], r, chunk, op, values[r]);
			harness_run(harness, &f);
		}
		assert_true(is_sent_again(1, chunk, op, values[1]));
		assert_false(is_sent_again(0, chunk, op, values[0]));
		assert_false(is_sent_again(2, chunk, op, values[2]));
		assert_true(is_sent_again(0, chunk, op, values[0]));
		assert_true(is_sent_again(1, chunk, op, values[1]));
		assert_int_equal(harness_verdict(harness, LEAF(0), FPISA_V_duplicate), absorbed + 2);
		climb(&f, 0);
		assert_true(is_sent_again(2, chunk, op, values[2]));
		for (uint32_t r = 0; r < RANKS; r++) {
			contribute(&f, LEAF(1), &leaf[1], r, chunk, op, values[r]);
			harness_run(harness, &f);
		}
		climb(&f, 1);
		assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_RESULT);
	}
}

/*
 * Deliver the partial sum of leaf l to the root, or only its first part. The ranks contribute random bits, so the
 * partial sum has several parts.
 */
static void bring(struct frame *f, uint32_t l, uint64_t chunk, bool all)
{
	uint64_t values[COUNT];

	for (uint32_t r = 0; r < RANKS; r++) {
		for (uint32_t i = 0; i < COUNT; i++)
			values[i] = vectors_next(&rng);
		contribute(f, LEAF(l), &leaf[l], r, chunk, FPISA_OP_SUM, values);
		harness_run(harness, f);
	}
	assert_true((harness_hdr(f)->reason & FPISA_PART_COUNT) >> FPISA_PART_COUNT_SHIFT > 1);
	if (all)
		climb(f, l);
	else
		harness_run(harness, f);
}

/*
 * Check that a result names the leaf whose partial sum of the previous chunk is missing, but not a leaf that has sent a
 * part of its partial sum.
 */
static void lost_partial_sums(void **state)
{
	struct frame f;

	(void)state;
	NEED_BPF();
	rng = (struct vectors_rng){vectors_seed()};
	loss = 0;
	for (int begun = 0; begun < 2; begun++) {
		make(FPISA_FORMAT_FP32);
		bring(&f, 0, 0, true);
		if (begun)
			bring(&f, 1, 0, false);
		bring(&f, 0, 1, true);
		bring(&f, 1, 1, true);
		assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_RESULT);
		assert_int_equal(harness_hdr(&f)->reason, begun ? 0 : 1 << 1);
	}
}

/*
 * Check that a leaf that has lost its cookie, because a rank has restarted, sends no part and accepts no frame without
 * a secret.
 */
static void no_cookie(void **state)
{
	struct frame f, forged;
	struct fpisa_leaf at;
	struct fpisa_session s;
	uint32_t id = LEAF(0);

	(void)state;
	NEED_BPF();
	rng = (struct vectors_rng){vectors_seed()};
	loss = 0;
	make(FPISA_FORMAT_FP32);
	bring(&f, 0, 0, false);
	assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_STATUS);
	forged = f;
	harness_hdr(&forged)->job = LEAF(0);
	harness_hdr(&forged)->type = FPISA_TYPE_ERROR;
	harness_hdr(&forged)->reason = FPISA_V_mismatch;
	harness_hdr(&forged)->secret = 0;
	harness_set_checksums(&forged);
	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(map("fpisa_leaves")), &id, &at), 0);
	at.up.cookie = 0;
	write_entry("fpisa_leaves", LEAF(0), &at);
	harness_run(harness, &forged);
	assert_int_equal(forged.action, XDP_DROP);
	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(map("fpisa_sessions")), &id, &s), 0);
	assert_int_equal(fpisa_broken(&s, s.generation), 0);
	contribute(&f, LEAF(0), &leaf[0], 0, 0, FPISA_OP_SUM, NULL);
	harness_run(harness, &f);
	assert_int_equal(f.action, XDP_DROP);
	assert_int_equal(harness_verdict(harness, LEAF(0), FPISA_V_secret), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flat_bits),	     cmocka_unit_test(refused),	  cmocka_unit_test(asked),
		cmocka_unit_test(lost_partial_sums), cmocka_unit_test(no_cookie), cmocka_unit_test(first_copies),
	};

	return cmocka_run_group_tests_name("prog/tree", tests, harness_setup, harness_teardown);
}
