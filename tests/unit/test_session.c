// SPDX-License-Identifier: GPL-2.0-only
/*
 * How a generation begins (slot.h), what the replies say (frame.h), and the
 * order of the verdicts that the datapath relies on (verdict.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "fpisa/frame.h"

/* The cookie that comes with an incarnation; the rules look at neither. */
static __u64 cookie(__u32 rank, __u64 inc)
{
	return inc << 8 | rank | 1ull << 60;
}

static int join(struct fpisa_session *s, __u32 rank, __u64 inc, __u64 live, __u32 *next)
{
	return fpisa_session_join(s, rank, inc, cookie(rank, inc), live, next);
}

/* Three ranks, all of incarnation 100, in generation 5. */
static struct fpisa_session a_session(__u32 *next)
{
	struct fpisa_session s = {0};

	*next = 5;
	assert_int_equal(join(&s, 0, 100, 7, next), 0);
	assert_int_equal(join(&s, 1, 100, 7, next), 0);
	assert_int_equal(join(&s, 2, 100, 7, next), 0);
	assert_int_equal(s.joining, 4); /* after a newcomer all say it again */
	assert_int_equal(join(&s, 0, 100, 7, next), 0);
	assert_int_equal(s.joining, 5);
	assert_int_equal(s.generation, 0);
	assert_int_equal(join(&s, 1, 100, 7, next), 1);
	assert_int_equal(s.members, 7);
	assert_int_equal(s.joining, 0);
	assert_int_equal(s.generation, 5);
	assert_int_equal(*next, 6);
	return s;
}

static void test_join(void **state)
{
	__u32 next;
	struct fpisa_session s = a_session(&next), before = s;

	(void)state;
	/* Those who came early ask again and are in; so is whoever repeats itself. */
	for (__u32 rank = 0; rank < 3; rank++)
		assert_int_equal(join(&s, rank, 100, 7, &next), 1);
	/* A HELLO from before, or none at all, or from nowhere. */
	assert_int_equal(join(&s, 1, 99, 7, &next), 0);
	assert_int_equal(join(&s, 1, 0, 7, &next), 0);
	assert_int_equal(join(&s, FPISA_MAX_WORKERS, 100, 7, &next), 0);
	assert_int_equal(join(&s, ~0u, 100, 7, &next), 0);
	assert_memory_equal(&s, &before, sizeof(s));
	assert_int_equal(next, 6);
	/* The secret of its contributions is that of the newest life, whatever comes late. */
	for (__u32 rank = 0; rank < 3; rank++)
		assert_int_equal(s.secret[rank], cookie(rank, 100));
	assert_int_equal(join(&s, 2, 101, 7, &next), 0);
	assert_int_equal(join(&s, 2, 100, 7, &next), 0);
	assert_int_equal(s.secret[2], cookie(2, 101));
}

/* Results have a secret of their generation; the ranks' cookies do not follow from it, nor it from them. */
static void test_secret_of_results(void **state)
{
	const struct fpisa_job job = {.key = {1, 2}}, other = {.key = {1, 3}};
	struct fpisa_session s = {0}, t = {0};
	struct fpisa_hdr h = {.aux = 100, .secret = 7};
	__u32 next = 5, again = 5;

	(void)state;
	assert_int_equal(fpisa_session_hello(&s, &job, &h, 0, 1, &next), 1);
	assert_int_equal(s.secret[0], 7);
	assert_int_equal(s.results, fpisa_result_secret(&job.key, 5));
	assert_int_equal(fpisa_session_hello(&t, &other, &h, 0, 1, &again), 1);
	assert_int_not_equal(s.results, t.results);
	h.aux = 101;
	assert_int_equal(fpisa_session_hello(&s, &job, &h, 0, 1, &next), 1);
	assert_int_equal(s.results, fpisa_result_secret(&job.key, 6));
	assert_int_not_equal(s.results, t.results);
	for (__u32 rank = 0; rank < FPISA_MAX_WORKERS; rank++)
		assert_int_not_equal(s.results, fpisa_cookie(&job.key, rank, 6));
}

/* The reference's test vector: key 00 01 .. 0f, message 00 01 .. 0f. */
static void test_siphash(void **state)
{
	const struct fpisa_key key = {0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull};

	(void)state;
	assert_int_equal(fpisa_siphash(&key, key.k0, key.k1), 0x3f2acc7f57c29bdbull);
}

static void test_join_pending(void **state)
{
	struct fpisa_session s = {0};
	__u32 next = 1;

	(void)state;
	assert_int_equal(join(&s, 0, 0, 3, &next), 0); /* no incarnation is 0 */
	for (int i = 0; i < 5; i++)
		assert_int_equal(join(&s, 0, 100, 3, &next), 0);
	assert_int_equal(s.generation, 0);
	assert_int_equal(next, 1);
	assert_int_equal(join(&s, 0, 101, 3, &next), 0); /* restarted while waiting */
	assert_int_equal(join(&s, 0, 100, 3, &next), 0); /* and its past */
	assert_int_equal(join(&s, 1, 7, 3, &next), 0);
	assert_int_equal(join(&s, 0, 100, 3, &next), 0);
	assert_int_equal(join(&s, 0, 101, 3, &next), 1);
	assert_int_equal(s.generation, 1);
	assert_int_equal(join(&s, 0, 100, 3, &next), 0);
	assert_int_equal(join(&s, 1, 7, 3, &next), 1);
}

/* Two of three gave up waiting; when all start again, in any order, they find together. */
static void test_start_after_a_failed_start(void **state)
{
	static const __u32 orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

	(void)state;
	for (int o = 0; o < 6; o++) {
		struct fpisa_session s = {0};
		__u32 next = 1;

		for (int i = 0; i < 10; i++)
			assert_int_equal(join(&s, i % 2, 100, 7, &next), 0);
		for (int i = 0; i < 3; i++)
			assert_int_equal(join(&s, orders[o][i], 200, 7, &next), 0);
		for (int i = 0; i < 5; i++)
			assert_int_equal(join(&s, orders[o][i % 3], 200, 7, &next), i > 0);
		assert_int_equal(s.generation, 1);
	}
}

/* A worker that comes back waits for all the others; the old generation goes on until then. */
static void test_rejoin(void **state)
{
	__u32 next;
	struct fpisa_session s = a_session(&next);

	(void)state;
	assert_int_equal(join(&s, 1, 200, 7, &next), 0);
	assert_int_equal(s.generation, 5);
	assert_int_equal(join(&s, 0, 100, 7, &next), 1); /* still in generation 5 */
	assert_int_equal(join(&s, 0, 201, 7, &next), 0);
	assert_int_equal(join(&s, 1, 200, 7, &next), 0);
	assert_int_equal(s.generation, 5);
	assert_int_equal(join(&s, 2, 101, 7, &next), 0);
	assert_int_equal(join(&s, 0, 201, 7, &next), 0);
	assert_int_equal(join(&s, 2, 100, 7, &next), 0); /* its past */
	assert_int_equal(s.generation, 5);
	assert_int_equal(join(&s, 1, 200, 7, &next), 1);
	assert_int_equal(s.generation, 6);
	assert_int_equal(next, 7);
	assert_int_equal(join(&s, 0, 201, 7, &next), 1);
	assert_int_equal(join(&s, 2, 101, 7, &next), 1);
	assert_int_equal(s.generation, 6);
}

static void test_join_after_shrink(void **state)
{
	__u32 next;
	struct fpisa_session s = a_session(&next);

	(void)state;
	assert_int_equal(join(&s, 0, 200, 7, &next), 0);
	assert_int_equal(join(&s, 1, 200, 7, &next), 0);
	assert_int_equal(join(&s, 0, 200, 7, &next), 0);
	/* Rank 2 is taken out: the others need it no more. */
	assert_int_equal(join(&s, 0, 200, 3, &next), 1);
	assert_int_equal(s.generation, 6);
	assert_int_equal(join(&s, 1, 200, 3, &next), 1);
	assert_int_equal(s.generation, 6);
	/* The one taken out had said HELLO already; it is not counted. */
	s = a_session(&next);
	assert_int_equal(join(&s, 2, 200, 7, &next), 0);
	assert_int_equal(join(&s, 0, 200, 3, &next), 0);
	assert_int_equal(join(&s, 1, 200, 3, &next), 0);
	assert_int_equal(join(&s, 0, 200, 3, &next), 1);
	assert_int_equal(s.generation, 6);
	assert_int_equal(s.joining, 0);
}

static void test_join_alone_and_all(void **state)
{
	struct fpisa_session s = {0};
	__u32 next = 1;

	(void)state;
	assert_int_equal(join(&s, 0, 1, 1, &next), 1);
	assert_int_equal(join(&s, 0, 2, 1, &next), 1);
	assert_int_equal(s.generation, 2);
	for (__u32 rank = 0; rank < 64; rank++)
		assert_int_equal(join(&s, rank, 3, ~0ull, &next), 0);
	for (__u32 rank = 0; rank < 63; rank++)
		assert_int_equal(join(&s, rank, 3, ~0ull, &next), rank == 62);
	assert_int_equal(s.generation, 3);
}

/* A job written by hand: the counter is as the kernel made it. */
static void test_first_generation(void **state)
{
	struct fpisa_session s = {0};
	__u32 next = 0;

	(void)state;
	assert_int_equal(join(&s, 0, 1, 1, &next), 1);
	assert_int_equal(s.generation, 1);
	assert_int_equal(next, 2);
}

/* -- replies ------------------------------------------------------------ */

#define RESULTS 0x726573756c7473ull

static const struct fpisa_slot done_slot = {
	.chunk = 6,
	.bitmap = 5,
	.order = 0x0100,
	.generation = 9,
	.arrivals = 2,
	.count = 64,
	.done = 1,
};

static struct fpisa_hdr an_add(void)
{
	return (struct fpisa_hdr){.magic = FPISA_MAGIC,
				  .version = FPISA_VERSION,
				  .type = FPISA_TYPE_ADD,
				  .flags = FPISA_F_RETRANSMIT | FPISA_F_PROBE,
				  .format = FPISA_FORMAT_FP32,
				  .op = FPISA_OP_SUM,
				  .job = 3,
				  .rank = 2,
				  .count = 64,
				  .chunk = 6,
				  .slot = 5,
				  .digest = 1000,
				  .call = 2,
				  .generation = 9,
				  .secret = 42,
				  .reason = 77,
				  .aux = 88,
				  .bitmap = 99};
}

/* What a reply echoes, whatever its type. */
static void assert_echoed(const struct fpisa_hdr *h)
{
	const struct fpisa_hdr add = an_add();

	assert_int_equal(h->magic, FPISA_MAGIC);
	assert_int_equal(h->version, FPISA_VERSION);
	assert_int_equal(h->job, add.job);
	assert_int_equal(h->chunk, add.chunk);
	assert_int_equal(h->slot, add.slot);
	assert_int_equal(h->digest, add.digest);
	assert_int_equal(h->call, add.call);
	assert_int_equal(h->generation, add.generation);
	assert_int_equal(h->secret, h->type == FPISA_TYPE_RESULT ? RESULTS : add.secret);
}

static void test_make_result(void **state)
{
	struct fpisa_job job = {.workers = 3};
	struct fpisa_hdr h = an_add();

	(void)state;
	fpisa_make_result(&h, &done_slot, &job, RESULTS, FPISA_INEXACT | FPISA_INF, 0);
	assert_echoed(&h);
	assert_int_equal(h.type, FPISA_TYPE_RESULT);
	assert_int_equal(h.flags, 0);
	assert_int_equal(h.result_flags, FPISA_INEXACT | FPISA_INF);
	assert_int_equal(h.rank, 0xffff);
	assert_int_equal(h.count, 64);
	assert_int_equal(h.contributors, 2);
	assert_int_equal(h.reason, 0);
	assert_int_equal(h.bitmap, 5);
	assert_int_equal(h.aux, 0x0100);

	job.workers = FPISA_ORDER_WORKERS;
	fpisa_make_result(&h, &done_slot, &job, RESULTS, 0, 1);
	assert_int_equal(h.flags, FPISA_F_RESENT);
	assert_int_equal(h.aux, 0x0100);
	job.workers = FPISA_ORDER_WORKERS + 1;
	fpisa_make_result(&h, &done_slot, &job, RESULTS, 0, 1);
	assert_int_equal(h.aux, 0);
}

static void test_make_status_and_error(void **state)
{
	struct fpisa_hdr h = an_add();

	(void)state;
	fpisa_make_status(&h, &done_slot, 7);
	assert_echoed(&h);
	assert_int_equal(h.type, FPISA_TYPE_STATUS);
	assert_int_equal(h.flags, 0);
	assert_int_equal(h.count, 0);
	assert_int_equal(h.contributors, 2);
	assert_int_equal(h.bitmap, 5);
	assert_int_equal(h.aux, 7);

	h = an_add();
	fpisa_make_error(&h, FPISA_V_mismatch);
	assert_echoed(&h);
	assert_int_equal(h.type, FPISA_TYPE_ERROR);
	assert_int_equal(h.flags, 0);
	assert_int_equal(h.count, 0);
	assert_int_equal(h.reason, FPISA_V_mismatch);
}

static void test_make_welcome(void **state)
{
	const struct fpisa_job job = {.workers = 3,
				      .live = 7,
				      .elements = 256,
				      .window = 64,
				      .format = 1,
				      .mode = 2,
				      .rounding = 2,
				      .pipeline = 1,
				      .clz = 2,
				      .fanout = 1,
				      .address = 0xfe00000a,
				      .group = 0x010000ef};
	const struct fpisa_session s = {.generation = 9, .joining = 3, .incarnation = {0, 100}, .results = RESULTS};
	struct fpisa_hdr h = {.type = FPISA_TYPE_HELLO, .secret = 42, .aux = 200};
	struct fpisa_hello p = {.token = 42};

	(void)state;
	fpisa_make_welcome(&h, &p, &job, &s, 1, 0);
	assert_int_equal(h.type, FPISA_TYPE_WELCOME);
	assert_int_equal(h.flags, FPISA_F_PENDING);
	assert_int_equal(h.bitmap, 3);
	assert_int_equal(h.aux, 100);
	assert_int_equal(h.rank, 1);
	assert_int_equal(h.generation, 9);
	fpisa_make_welcome(&h, &p, &job, &s, 1, 1);
	assert_int_equal(h.flags, 0);
	assert_int_equal(h.bitmap, 7);
	assert_int_equal(p.window, 64);
	assert_int_equal(p.elements, 256);
	assert_int_equal(p.workers, 3);
	assert_int_equal(p.rank, 1);
	assert_int_equal(p.mode, 2);
	assert_int_equal(p.rounding, 2);
	assert_int_equal(p.format, 1);
	assert_int_equal(p.pipeline, 1);
	assert_int_equal(p.clz, 2);
	assert_int_equal(p.fanout, 1);
	assert_int_equal(p.group, 0x010000ef);
	assert_int_equal(p.address, 0xfe00000a);
	assert_int_equal(p.live, 7);
	assert_int_equal(p.token, 0);
	assert_int_equal(p.results, RESULTS);
	assert_int_equal(h.secret, 42);
	/* Who is not in is not told what results carry. */
	fpisa_make_welcome(&h, &p, &job, &s, 1, 0);
	assert_int_equal(p.results, 0);
}

/* Whoever lacks the cookie learns it, if he hears the answer, and nothing else. */
static void test_make_challenge(void **state)
{
	struct fpisa_hdr h = {.type = FPISA_TYPE_HELLO, .aux = 200, .chunk = 3};
	const struct fpisa_hello nothing = {0};
	struct fpisa_hello p = {.token = 42, .window = 4};

	(void)state;
	fpisa_make_challenge(&h, &p, 77);
	assert_int_equal(h.type, FPISA_TYPE_WELCOME);
	assert_int_equal(h.flags, FPISA_F_PENDING | FPISA_F_CHALLENGE);
	assert_int_equal(h.secret, 77);
	assert_int_equal(h.chunk, 3);
	assert_int_equal(h.aux, 200);
	assert_int_equal(h.generation, 0);
	assert_memory_equal(&p, &nothing, sizeof(p));
}

/* Numbers of the wire's first version are as they were; members are told of drops alone. */
static void test_verdict_order(void **state)
{
	static const enum fpisa_verdict_class class_of[] = {
#define X(name, class, text) [FPISA_V_##name] = FPISA_CLASS_##class,
		FPISA_VERDICTS(X)
#undef X
	};

	(void)state;
	assert_int_equal(sizeof(class_of) / sizeof(class_of[0]), FPISA_VERDICT_COUNT);
	for (int v = 0; v < FPISA_VERDICT_COUNT; v++) {
		assert_int_equal(fpisa_class_of((__u32)v), class_of[v]);
		assert_int_equal(fpisa_is_drop((__u32)v), class_of[v] == FPISA_CLASS_DROP);
		if (fpisa_reported((enum fpisa_verdict)v))
			assert_int_equal(class_of[v], FPISA_CLASS_DROP);
	}
	assert_int_equal(FPISA_V_truncated, 8);
	assert_int_equal(FPISA_V_port, 31);
	assert_true(fpisa_reported(FPISA_V_mismatch));	/* rule 3 */
	assert_false(fpisa_reported(FPISA_V_unknown_peer)); /* nobody reflects frames to unknown peers */
	assert_false(fpisa_reported(FPISA_V_token));
	assert_false(fpisa_reported(FPISA_V_checksum));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_join),
		cmocka_unit_test(test_join_pending),
		cmocka_unit_test(test_start_after_a_failed_start),
		cmocka_unit_test(test_rejoin),
		cmocka_unit_test(test_join_after_shrink),
		cmocka_unit_test(test_join_alone_and_all),
		cmocka_unit_test(test_first_generation),
		cmocka_unit_test(test_make_result),
		cmocka_unit_test(test_make_status_and_error),
		cmocka_unit_test(test_make_welcome),
		cmocka_unit_test(test_make_challenge),
		cmocka_unit_test(test_secret_of_results),
		cmocka_unit_test(test_siphash),
		cmocka_unit_test(test_verdict_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
