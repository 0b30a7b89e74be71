// SPDX-License-Identifier: GPL-2.0-only
/*
 * The protocol's rules one by one: the stateless checks (frame.h) and a
 * slot's rounds (slot.h). Sessions and replies are in test_session.c;
 * tests/model explores how the rules act together.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "fpisa/frame.h"

enum { WORKERS = 3, WINDOW = 4 };

static const __be32 addr[] = {0x0100000a, 0x0200000a, 0x0300000a};
static const __be16 port = 0x5046;
static const __be32 elsewhere = 0x0900000a;

static struct fpisa_job a_job(void)
{
	struct fpisa_job j = {.active = 1,
			      .workers = WORKERS,
			      .live = 7,
			      .token = 42,
			      .elements = 256,
			      .window = WINDOW,
			      .format = FPISA_FORMAT_FP32,
			      .mode = FPISA_MODE_FPISA_A,
			      .rounding = FPISA_ROUND_NEAREST,
			      .pipeline = FPISA_PIPELINE_FUSED,
			      .clz = FPISA_CLZ_BITS,
			      .fanout = FPISA_FANOUT_MULTICAST,
			      .address = 0xfe00000a,
			      .group = 0x010000ef};

	for (int i = 0; i < WORKERS; i++)
		j.rank[i] = (struct fpisa_rank){.addr = addr[i], .port = port};
	return j;
}

/* A good ADD of rank 1: 64 elements of chunk 6, so slot 2 of version 1. */
static struct fpisa_hdr an_add(void)
{
	return (struct fpisa_hdr){.magic = FPISA_MAGIC,
				  .version = FPISA_VERSION,
				  .type = FPISA_TYPE_ADD,
				  .format = FPISA_FORMAT_FP32,
				  .op = FPISA_OP_SUM,
				  .rank = 1,
				  .count = 64,
				  .chunk = 6,
				  .slot = 5,
				  .digest = 1000,
				  .call = 2,
				  .generation = 9,
				  .secret = 42};
}

static void test_check_type(void **state)
{
	struct fpisa_hdr h = an_add();

	(void)state;
	assert_int_equal(fpisa_check_type(&h), FPISA_V_accepted);
	h.type = FPISA_TYPE_HELLO;
	assert_int_equal(fpisa_check_type(&h), FPISA_V_accepted);
	for (int type = 0; type < 256; type++) {
		if (type == FPISA_TYPE_ADD || type == FPISA_TYPE_HELLO)
			continue;
		h.type = (__u8)type;
		assert_int_equal(fpisa_check_type(&h), FPISA_V_type);
	}
	h = an_add();
	h.version = FPISA_VERSION + 1;
	assert_int_equal(fpisa_check_type(&h), FPISA_V_version);
	h.version = 0;
	assert_int_equal(fpisa_check_type(&h), FPISA_V_version);
}

/* One field of a good ADD is changed, and what the check then says. */
#define ADD(verdict, ...)                                                                                    \
	do {                                                                                                 \
		struct fpisa_job job = a_job();                                                              \
		struct fpisa_hdr h = an_add();                                                               \
		struct fpisa_session session = {.secret = {41, 42, 43}};                                     \
		__u32 payload = 64 * 4;                                                                      \
		__be32 from = addr[1];                                                                       \
		__be16 sport = port;                                                                         \
		__VA_ARGS__;                                                                                 \
		assert_int_equal(fpisa_check_add(&h, payload, &job, &session, from, sport), FPISA_V_##verdict);        \
	} while (0)

static void test_check_add(void **state)
{
	(void)state;
	ADD(accepted, (void)0);
	ADD(accepted, h.count = 256, payload = 1024);
	ADD(accepted, h.count = 32, payload = 128);
	ADD(length, h.count = 0, payload = 0);
	ADD(length, h.count = 65, payload = 65 * 4);
	ADD(length, h.count = 33, payload = 33 * 4);
	ADD(length, h.count = 288, payload = 288 * 4);
	ADD(length, payload = 64 * 4 + 4);
	ADD(length, payload = 64 * 4 - 1);
	ADD(length, h.count = 0xffe0, payload = 0xffe0 * 4);
	ADD(secret, h.secret = 43);
	ADD(secret, h.secret = 42 | 1ull << 63);
	ADD(secret, h.secret = 0);
	/* A rank that has not joined has none. */
	ADD(secret, h.secret = session.secret[1] = 0);
	/* Before anything that is told to members. */
	ADD(secret, h.secret = 43, h.format = 0, job.live = 5);
	ADD(rank, h.rank = WORKERS);
	ADD(rank, h.rank = FPISA_MAX_WORKERS);
	ADD(rank, h.rank = 0xffff);
	ADD(rank, h.rank = 0);
	ADD(rank, h.rank = 2);
	ADD(rank, from = addr[0]);
	/* Beyond the ranks of the job the list is not read. */
	ADD(rank, h.rank = WORKERS, from = elsewhere, job.rank[WORKERS].addr = from,
	    job.rank[WORKERS].port = port);
	ADD(unknown_peer, from = elsewhere);
	ADD(unknown_peer, sport = port + 1);
	ADD(unknown_peer, job.workers = 2, from = addr[2]);
	ADD(format, h.format = FPISA_FORMAT_FP32 + 1);
	ADD(format, h.format = 0);
	ADD(op, h.op = FPISA_OP_END);
	ADD(op, h.op = 0);
	ADD(accepted, h.op = FPISA_OP_NORM);
	ADD(op, h.op = FPISA_OP_NORM, job.mode = FPISA_MODE_EXACT);
	ADD(op, h.op = FPISA_OP_AVG, job.format = h.format = FPISA_FORMAT_INT32);
	ADD(accepted, h.op = FPISA_OP_MIN, job.format = h.format = FPISA_FORMAT_INT32);
	/* mxint8: the payload has its row of scales. */
	ADD(length, job.format = h.format = FPISA_FORMAT_MXINT8, payload = 64);
	ADD(accepted, job.format = h.format = FPISA_FORMAT_MXINT8, payload = 64 + 32);
	ADD(op, h.op = FPISA_OP_MAX, job.format = h.format = FPISA_FORMAT_MXINT8, payload = 64 + 32);
	/* Factors: 2.0, 1 + 2^-23, -0.5; 0, infinity, NaN, 1 + 2^-24, which FP64 alone takes. */
	ADD(accepted, h.op = FPISA_OP_SCALE, h.aux = 0x4000000000000000);
	ADD(accepted, h.op = FPISA_OP_SCALE, h.aux = 0x3ff0000020000000);
	ADD(accepted, h.op = FPISA_OP_SCALE, h.aux = 0xbfe0000000000000);
	ADD(op, h.op = FPISA_OP_SCALE);
	ADD(op, h.op = FPISA_OP_SCALE, h.aux = 1ull << 63);
	ADD(op, h.op = FPISA_OP_SCALE, h.aux = 0x7ff0000000000000);
	ADD(op, h.op = FPISA_OP_SCALE, h.aux = 0x7ff8000000000000);
	ADD(op, h.op = FPISA_OP_SCALE, h.aux = 0x3ff0000010000000);
	ADD(accepted, h.op = FPISA_OP_SCALE, h.aux = 0x3ff0000010000000, job.format = h.format = FPISA_FORMAT_FP64,
	    payload = 64 * 8);
	/* Only scale has an operand. */
	ADD(op, h.aux = 0x4000000000000000);
	ADD(not_live, job.live = 5);
	ADD(accepted, job.live = 2);
	ADD(slot, h.slot = 4);
	ADD(slot, h.slot = 7);
	ADD(slot, h.slot = 5 | 8);
	ADD(slot, h.chunk = 7);
	ADD(slot, h.chunk = 2);
	ADD(accepted, h.chunk = 6 + 2 * WINDOW);
	ADD(accepted, h.chunk = (1ull << 40) + 6);
}

/* Sixty-four workers: the last rank is one as good as the others. */
static void test_check_add_last_rank(void **state)
{
	struct fpisa_job job = a_job();
	struct fpisa_session session = {.secret = {[63] = 42}};
	struct fpisa_hdr h = an_add();

	(void)state;
	job.workers = FPISA_MAX_WORKERS;
	job.live = ~0ull;
	for (__u32 i = 0; i < FPISA_MAX_WORKERS; i++)
		job.rank[i] = (struct fpisa_rank){.addr = 0x0000010a + (i << 24), .port = port};
	h.rank = 63;
	assert_int_equal(fpisa_check_add(&h, 256, &job, &session, job.rank[63].addr, port), FPISA_V_accepted);
	assert_int_equal(fpisa_check_add(&h, 256, &job, &session, job.rank[62].addr, port), FPISA_V_rank);
	job.live = ~0ull >> 1;
	assert_int_equal(fpisa_check_add(&h, 256, &job, &session, job.rank[63].addr, port), FPISA_V_not_live);
}

static void test_check_hello(void **state)
{
	struct fpisa_job job = a_job();
	struct fpisa_hdr h = {.type = FPISA_TYPE_HELLO, .aux = 1, .rank = 0xffff};
	const __u32 length = sizeof(struct fpisa_hello);
	__u32 rank;

	(void)state;
	for (__u32 i = 0; i < WORKERS; i++) {
		rank = 99;
		assert_int_equal(fpisa_check_hello(&h, length, &job, addr[i], port, &rank), FPISA_V_accepted);
		assert_int_equal(rank, i);
	}
	assert_int_equal(fpisa_check_hello(&h, length - 4, &job, addr[1], port, &rank), FPISA_V_length);
	assert_int_equal(fpisa_check_hello(&h, 0, &job, addr[1], port, &rank), FPISA_V_length);
	assert_int_equal(fpisa_check_hello(&h, length + 4, &job, addr[1], port, &rank), FPISA_V_length);
	assert_int_equal(fpisa_check_hello(&h, length, &job, elsewhere, port, &rank), FPISA_V_unknown_peer);
	assert_int_equal(fpisa_check_hello(&h, length, &job, addr[1], port + 1, &rank), FPISA_V_unknown_peer);
	job.live = 5;
	assert_int_equal(fpisa_check_hello(&h, length, &job, addr[1], port, &rank), FPISA_V_not_live);
	job.workers = 2;
	assert_int_equal(fpisa_check_hello(&h, length, &job, addr[2], port, &rank), FPISA_V_unknown_peer);
	/* A number that leaves no larger one would lock its rank out. */
	h.aux = 0;
	assert_int_equal(fpisa_check_hello(&h, length, &job, addr[0], port, &rank), FPISA_V_incarnation);
	h.aux = 1ull << 63;
	assert_int_equal(fpisa_check_hello(&h, length, &job, addr[0], port, &rank), FPISA_V_incarnation);
	h.aux = ~0ull;
	assert_int_equal(fpisa_check_hello(&h, length, &job, addr[0], port, &rank), FPISA_V_incarnation);
	h.aux = (1ull << 63) - 1;
	assert_int_equal(fpisa_check_hello(&h, length, &job, addr[0], port, &rank), FPISA_V_accepted);
}

/* -- rounds of a slot --------------------------------------------------- */

static struct fpisa_claim a_claim(__u64 chunk, __u16 rank)
{
	struct fpisa_job job = a_job();
	struct fpisa_hdr h = an_add();

	h.chunk = chunk;
	h.rank = rank;
	return fpisa_claim_of(&h, &job);
}

static int admit(struct fpisa_slot *s, __u64 chunk, __u16 rank, __u64 live)
{
	struct fpisa_claim c = a_claim(chunk, rank);

	return fpisa_slot_admit(s, &c, live, 0);
}

/* The slot in the middle of chunk 6's round: rank 2, then rank 0, have contributed. */
static struct fpisa_slot an_open_round(void)
{
	struct fpisa_slot s = {0};

	assert_int_equal(admit(&s, 6, 2, 7), FPISA_STEP_SET);
	assert_false(fpisa_slot_commit(&s, 2, 7, 0));
	assert_int_equal(admit(&s, 6, 0, 7), FPISA_STEP_ADD);
	assert_false(fpisa_slot_commit(&s, 0, 7, FPISA_INEXACT));
	return s;
}

static struct fpisa_slot a_done_round(void)
{
	struct fpisa_slot s = an_open_round();

	assert_int_equal(admit(&s, 6, 1, 7), FPISA_STEP_ADD);
	assert_true(fpisa_slot_commit(&s, 1, 7, FPISA_OVERWRITE));
	s.done = 1;
	return s;
}

static void test_round(void **state)
{
	struct fpisa_slot s = an_open_round();

	(void)state;
	assert_int_equal(s.generation, 9);
	assert_int_equal(s.chunk, 6);
	assert_int_equal(s.digest, 1000);
	assert_int_equal(s.call, 2);
	assert_int_equal(s.count, 64);
	assert_int_equal(s.op, FPISA_OP_SUM);
	assert_int_equal(s.bitmap, 5);
	assert_int_equal(s.arrivals, 2);
	assert_int_equal(s.order, 0x001);
	assert_int_equal(s.flags, FPISA_INEXACT);
	s = a_done_round();
	assert_int_equal(s.bitmap, 7);
	assert_int_equal(s.arrivals, 3);
	assert_int_equal(s.order, 0x021); /* rank 2 first, rank 0 second, rank 1 third */
	assert_int_equal(s.flags, FPISA_INEXACT | FPISA_OVERWRITE);
}

/* Rule 1: an entry of another generation is empty, and takes only its first chunk. */
static void test_generation_starts_at_first_chunk(void **state)
{
	struct fpisa_slot s = a_done_round();

	(void)state;
	s.generation = 8;
	assert_int_equal(admit(&s, 6 + 2 * WINDOW, 0, 7), -FPISA_V_ahead);
	assert_int_equal(s.generation, 8);
	assert_int_equal(s.bitmap, 7);
	assert_int_equal(admit(&s, 6, 0, 7), FPISA_STEP_SET);
	assert_int_equal(s.generation, 9);
	assert_int_equal(s.bitmap | s.order | s.arrivals | s.flags | s.done, 0);
	s.generation = 10;
	assert_int_equal(admit(&s, 2 * WINDOW, 0, 7), -FPISA_V_ahead);
	assert_int_equal(admit(&s, 2 * WINDOW - 1, 0, 7), FPISA_STEP_SET);
}

/* Rule 2. */
static void test_stale_and_ahead(void **state)
{
	struct fpisa_slot s = a_done_round(), before;

	(void)state;
	assert_int_equal(admit(&s, 6 + 2 * WINDOW, 1, 7), FPISA_STEP_SET);
	assert_int_equal(s.chunk, 6 + 2 * WINDOW);
	assert_int_equal(s.bitmap | s.order | s.arrivals | s.flags | s.done, 0);
	assert_false(fpisa_slot_commit(&s, 1, 7, 0));
	before = s;
	assert_int_equal(admit(&s, 6, 0, 7), -FPISA_V_stale);
	assert_int_equal(admit(&s, 6 + 4 * WINDOW, 1, 7), -FPISA_V_ahead); /* not done */
	s.done = before.done = 1;
	assert_int_equal(admit(&s, 6 + 6 * WINDOW, 1, 7), -FPISA_V_ahead); /* a round left out */
	assert_int_equal(admit(&s, 6 + 3 * WINDOW, 1, 7), -FPISA_V_ahead); /* of the other version */
	assert_int_equal(admit(&s, 0, 1, 7), -FPISA_V_stale);
	assert_memory_equal(&s, &before, sizeof(s));
}

/* Rule 3: nothing of the round changes. */
static void test_mismatch(void **state)
{
	struct fpisa_slot s = an_open_round(), before = s;
	struct fpisa_claim c;

	(void)state;
#define DIFFER(field)                                                                                        \
	do {                                                                                                 \
		c = a_claim(6, 1);                                                                           \
		c.field++;                                                                                   \
		assert_int_equal(fpisa_slot_admit(&s, &c, 7, 0), -FPISA_V_mismatch);                            \
		assert_memory_equal(&s, &before, sizeof(s));                                                 \
	} while (0)
	DIFFER(count);
	DIFFER(op);
	DIFFER(call);
	DIFFER(digest);
	s.done = before.done = 1;
	DIFFER(call);
#undef DIFFER
}

/* Ranks made different calls: no round begins or goes on, but what was finished is still to be had. */
static void test_broken(void **state)
{
	struct fpisa_slot s = an_open_round(), before = s;
	struct fpisa_claim c = a_claim(6, 1);

	(void)state;
	assert_int_equal(fpisa_slot_admit(&s, &c, 7, 1), -FPISA_V_mismatch);
	c.rank = 2;
	assert_int_equal(fpisa_slot_admit(&s, &c, 7, 1), -FPISA_V_mismatch);
	assert_int_equal(fpisa_slot_admit(&s, &c, 5, 1), -FPISA_V_mismatch);
	assert_memory_equal(&s, &before, sizeof(s));
	s = before = a_done_round();
	assert_int_equal(fpisa_slot_admit(&s, &c, 7, 1), FPISA_STEP_RESEND);
	c = a_claim(6 + 2 * WINDOW, 1);
	assert_int_equal(fpisa_slot_admit(&s, &c, 7, 1), -FPISA_V_mismatch);
	assert_memory_equal(&s, &before, sizeof(s));
}

/* Rules 4 and 5. */
static void test_duplicates(void **state)
{
	struct fpisa_slot s = an_open_round(), before = s;

	(void)state;
	assert_int_equal(admit(&s, 6, 2, 7), FPISA_STEP_WAIT);
	assert_int_equal(admit(&s, 6, 0, 7), FPISA_STEP_WAIT);
	assert_int_equal(admit(&s, 6, 0, 5), FPISA_STEP_FINISH); /* rank 1 was taken out */
	assert_memory_equal(&s, &before, sizeof(s));
	s = before = a_done_round();
	for (__u16 rank = 0; rank < WORKERS; rank++)
		assert_int_equal(admit(&s, 6, rank, 7), FPISA_STEP_RESEND);
	assert_memory_equal(&s, &before, sizeof(s));
}

/* A rank taken out in the middle: done without it, and whatever it gave stays in the sum. */
static void test_shrink(void **state)
{
	struct fpisa_slot s = an_open_round();

	(void)state;
	assert_int_equal(admit(&s, 6, 1, 3), FPISA_STEP_ADD);
	assert_true(fpisa_slot_commit(&s, 1, 3, 0));
	assert_int_equal(s.bitmap, 7);
	assert_int_equal(s.arrivals, 3);
	s.done = 1;
	assert_int_equal(admit(&s, 6, 0, 3), FPISA_STEP_RESEND);

	/* Done without rank 1: what it still sends does not reopen the round. */
	s = an_open_round();
	s.done = 1;
	assert_int_equal(admit(&s, 6, 1, 7), FPISA_STEP_RESEND);
}

/* A first contribution that was admitted and never committed leaves the round open for the next first. */
static void test_uncommitted_first(void **state)
{
	struct fpisa_slot s = {0};

	(void)state;
	assert_int_equal(admit(&s, 6, 0, 7), FPISA_STEP_SET);
	assert_int_equal(admit(&s, 6, 1, 7), FPISA_STEP_SET);
	assert_false(fpisa_slot_commit(&s, 1, 7, 0));
	assert_int_equal(admit(&s, 6, 0, 7), FPISA_STEP_ADD);
}

/* Positions of the first 16 ranks are told, four bits each; the bitmap tells all 64. */
static void test_order(void **state)
{
	struct fpisa_slot s = {0};

	(void)state;
	for (int i = 0; i < 16; i++)
		assert_int_equal(fpisa_slot_commit(&s, (__u16)(15 - i), 0xffff, 0), i == 15);
	assert_int_equal(s.order, 0x0123456789abcdef);
	for (int i = 16; i < 64; i++)
		assert_int_equal(fpisa_slot_commit(&s, (__u16)i, ~0ull, 0), i == 63);
	assert_int_equal(s.order, 0x0123456789abcdef);
	assert_int_equal(s.bitmap, ~0ull);
	assert_int_equal(s.arrivals, 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_check_type),
		cmocka_unit_test(test_check_add),
		cmocka_unit_test(test_check_add_last_rank),
		cmocka_unit_test(test_check_hello),
		cmocka_unit_test(test_round),
		cmocka_unit_test(test_generation_starts_at_first_chunk),
		cmocka_unit_test(test_stale_and_ahead),
		cmocka_unit_test(test_mismatch),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_duplicates),
		cmocka_unit_test(test_shrink),
		cmocka_unit_test(test_uncommitted_first),
		cmocka_unit_test(test_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
