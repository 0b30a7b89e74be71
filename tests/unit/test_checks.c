// SPDX-License-Identifier: GPL-2.0-only
/* Test the stateless checks (frame.h) one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "contribution.h"

static const __be32 elsewhere = 0x0900000a;

static void test_check_type(void **state)
{
	struct fpisa_hdr h = an_add();

	(void)state;
	assert_int_equal(fpisa_check_type(&h), FPISA_V_ok);
	h.type = FPISA_TYPE_HELLO;
	assert_int_equal(fpisa_check_type(&h), FPISA_V_ok);
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

/* Change one field of a valid ADD and expect this verdict. */
#define ADD(verdict, ...)                                                                                      \
	do {                                                                                                   \
		struct fpisa_job job = a_job();                                                                \
		struct fpisa_hdr h = an_add();                                                                 \
		struct fpisa_session session = {.secret = {41, 42, 43}};                                       \
		__u32 payload = 64 * 4;                                                                        \
		struct fpisa_address at;                                                                       \
		__be32 from = addr[1];                                                                         \
		__be16 sport = port;                                                                           \
		__VA_ARGS__;                                                                                   \
		at = fpisa_ipv4(from);                                                                         \
		assert_int_equal(fpisa_check_add(&h, payload, &job, &session, &at, sport), FPISA_V_##verdict); \
	} while (0)

static void test_check_add(void **state)
{
	(void)state;
	ADD(ok, (void)0);
	ADD(ok, h.count = 256, payload = 1024);
	ADD(ok, h.count = 32, payload = 128);
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
	/* A rank that has not joined has no secret. */
	ADD(secret, h.secret = session.secret[1] = 0);
	/* The secret is checked before any verdict that only members may get. */
	ADD(secret, h.secret = 43, h.format = 0, job.live = 5);
	ADD(rank, h.rank = WORKERS);
	ADD(rank, h.rank = FPISA_MAX_WORKERS);
	ADD(rank, h.rank = 0xffff);
	ADD(rank, h.rank = 0);
	ADD(rank, h.rank = 2);
	ADD(rank, from = addr[0]);
	/* The check does not read the list beyond the ranks of the job. */
	ADD(rank, h.rank = WORKERS, from = elsewhere, job.rank[WORKERS].addr = fpisa_ipv4(from),
	    job.rank[WORKERS].port = port);
	ADD(unknown_peer, from = elsewhere);
	ADD(unknown_peer, sport = port + 1);
	ADD(unknown_peer, job.workers = 2, from = addr[2]);
	ADD(format, h.format = FPISA_FORMAT_FP32 + 1);
	ADD(format, h.format = 0);
	ADD(op, h.op = FPISA_OP_END);
	ADD(op, h.op = 0);
	ADD(ok, h.op = FPISA_OP_NORM);
	ADD(op, h.op = FPISA_OP_NORM, job.mode = FPISA_MODE_EXACT);
	ADD(op, h.op = FPISA_OP_AVG, job.format = h.format = FPISA_FORMAT_INT32);
	ADD(ok, h.op = FPISA_OP_MIN, job.format = h.format = FPISA_FORMAT_INT32);
	/* The payload of mxint8 has a row of scales. */
	ADD(length, job.format = h.format = FPISA_FORMAT_MXINT8, payload = 64);
	ADD(ok, job.format = h.format = FPISA_FORMAT_MXINT8, payload = 64 + 32);
	ADD(op, h.op = FPISA_OP_MAX, job.format = h.format = FPISA_FORMAT_MXINT8, payload = 64 + 32);
	/*
	 * Valid factors are 2.0, 1 + 2^-23 and -0.5. Invalid factors are 0, infinity, NaN, and 1 + 2^-24, which only
	 * FP64 accepts.
	 */
	ADD(ok, h.op = FPISA_OP_SCALE, h.aux = 0x4000000000000000);
	ADD(ok, h.op = FPISA_OP_SCALE, h.aux = 0x3ff0000020000000);
	ADD(ok, h.op = FPISA_OP_SCALE, h.aux = 0xbfe0000000000000);
	ADD(op, h.op = FPISA_OP_SCALE);
	ADD(op, h.op = FPISA_OP_SCALE, h.aux = 1ull << 63);
	ADD(op, h.op = FPISA_OP_SCALE, h.aux = 0x7ff0000000000000);
	ADD(op, h.op = FPISA_OP_SCALE, h.aux = 0x7ff8000000000000);
	ADD(op, h.op = FPISA_OP_SCALE, h.aux = 0x3ff0000010000000);
	ADD(ok, h.op = FPISA_OP_SCALE, h.aux = 0x3ff0000010000000, job.format = h.format = FPISA_FORMAT_FP64,
	    payload = 64 * 8);
	/* Only operation scale has an operand. */
	ADD(op, h.aux = 0x4000000000000000);
	ADD(not_live, job.live = 5);
	ADD(ok, job.live = 2);
	ADD(slot, h.slot = 4);
	ADD(slot, h.slot = 7);
	ADD(slot, h.slot = 5 | 8);
	ADD(slot, h.chunk = 7);
	ADD(slot, h.chunk = 2);
	ADD(ok, h.chunk = 6 + 2 * WINDOW);
	ADD(ok, h.chunk = (1ull << 40) + 6);
}

/* Check that the last of sixty-four ranks is treated like the others. */
static void test_check_add_last_rank(void **state)
{
	struct fpisa_job job = a_job();
	struct fpisa_session session = {.secret = {[63] = 42}};
	struct fpisa_hdr h = an_add();

	(void)state;
	job.workers = FPISA_MAX_WORKERS;
	job.live = ~0ull;
	for (__u32 i = 0; i < FPISA_MAX_WORKERS; i++)
		job.rank[i] = (struct fpisa_rank){.addr = fpisa_ipv4(0x0000010a + (i << 24)), .port = port};
	h.rank = 63;
	assert_int_equal(fpisa_check_add(&h, 256, &job, &session, &job.rank[63].addr, port), FPISA_V_ok);
	assert_int_equal(fpisa_check_add(&h, 256, &job, &session, &job.rank[62].addr, port), FPISA_V_rank);
	job.live = ~0ull >> 1;
	assert_int_equal(fpisa_check_add(&h, 256, &job, &session, &job.rank[63].addr, port), FPISA_V_not_live);
}

/* Change one field of a valid HELLO of rank 1, before or after its checksum is computed, and expect this verdict. */
#define HELLO_OF(verdict, before, after)                                                                          \
	do {                                                                                                      \
		struct fpisa_job job = a_job();                                                                   \
		struct fpisa_hdr h = {.type = FPISA_TYPE_HELLO, .aux = 1, .rank = 0xffff};                        \
		struct fpisa_hello p = {.proof = job.token};                                                      \
		__u32 payload = sizeof(p), rank = 99;                                                             \
		struct fpisa_address at;                                                                          \
		__be32 from = addr[1];                                                                            \
		__be16 sport = port;                                                                              \
		before;                                                                                           \
		h.checksum = fpisa_hello_sum(&h, &p);                                                             \
		after;                                                                                            \
		at = fpisa_ipv4(from);                                                                            \
		assert_int_equal(fpisa_check_hello(&h, &p, payload, &job, &at, sport, &rank), FPISA_V_##verdict); \
		if (FPISA_V_##verdict == FPISA_V_ok || FPISA_V_##verdict == FPISA_V_not_live)                     \
			assert_int_equal(from, addr[rank]);                                                       \
		else                                                                                              \
			assert_int_equal(rank, 99);                                                               \
	} while (0)
#define HELLO(verdict, ...) HELLO_OF(verdict, (void)0, (__VA_ARGS__))
#define HELLO_SUMMED(verdict, ...) HELLO_OF(verdict, (__VA_ARGS__), (void)0)

static void test_check_hello(void **state)
{
	(void)state;
	for (__u32 i = 0; i < WORKERS; i++)
		HELLO(ok, from = addr[i]);
	HELLO(length, payload -= 4);
	HELLO(length, payload = 0);
	HELLO(length, payload += 4);
	HELLO(unknown_peer, from = elsewhere);
	HELLO(unknown_peer, sport++);
	HELLO(unknown_peer, job.workers = 2, from = addr[2]);
	HELLO(not_live, job.live = 5);
	/* A rank with the largest incarnation could never join again. */
	HELLO_SUMMED(incarnation, h.aux = 0);
	HELLO_SUMMED(incarnation, h.aux = 1ull << 63);
	HELLO_SUMMED(incarnation, h.aux = ~0ull);
	HELLO_SUMMED(ok, h.aux = (1ull << 63) - 1);
	/* A HELLO without the token, or a damaged HELLO, gets only this verdict. */
	HELLO_SUMMED(token, p.proof = 0);
	HELLO_SUMMED(token, p.proof = 0, job.live = 5);
	HELLO_SUMMED(token, job.token = 0);
	HELLO(checksum, h.aux++);
	HELLO(checksum, p.window++, job.live = 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_check_type),
		cmocka_unit_test(test_check_add),
		cmocka_unit_test(test_check_add_last_rank),
		cmocka_unit_test(test_check_hello),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
