// SPDX-License-Identifier: GPL-2.0-only
/* Test the beginning of a generation (slot.h), and the secrets of ranks and results (secret.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "fpisa/frame.h"

/* Return the cookie for an incarnation. The rules do not depend on its value. */
static __u64 cookie(__u32 rank, __u64 inc)
{
	return inc << 8 | rank | 1ull << 60;
}

static int join(struct fpisa_session *s, __u32 rank, __u64 inc, __u64 live, __u32 *next)
{
	return fpisa_session_join(s, rank, inc, cookie(rank, inc), live, next);
}

/* Return a session of three ranks, all with incarnation 100, in generation 5. */
static struct fpisa_session a_session(__u32 *next)
{
	struct fpisa_session s = {0};

	*next = 5;
	assert_int_equal(join(&s, 0, 100, 7, next), 0);
	assert_int_equal(join(&s, 1, 100, 7, next), 0);
	assert_int_equal(join(&s, 2, 100, 7, next), 0);
	assert_int_equal(s.joining, 4); /* after a newcomer all ranks repeat their HELLO */
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
	/* Ranks that sent HELLO early send it again and join, as does a rank that repeats its HELLO. */
	for (__u32 rank = 0; rank < 3; rank++)
		assert_int_equal(join(&s, rank, 100, 7, &next), 1);
	/* Send a HELLO of an earlier incarnation, of incarnation 0, and of ranks that do not exist. */
	assert_int_equal(join(&s, 1, 99, 7, &next), 0);
	assert_int_equal(join(&s, 1, 0, 7, &next), 0);
	assert_int_equal(join(&s, FPISA_MAX_WORKERS, 100, 7, &next), 0);
	assert_int_equal(join(&s, ~0u, 100, 7, &next), 0);
	assert_memory_equal(&s, &before, sizeof(s));
	assert_int_equal(next, 6);
	/* The secret of a rank's contributions belongs to its newest incarnation, whatever frames arrive late. */
	for (__u32 rank = 0; rank < 3; rank++)
		assert_int_equal(s.secret[rank], cookie(rank, 100));
	assert_int_equal(join(&s, 2, 101, 7, &next), 0);
	assert_int_equal(join(&s, 2, 100, 7, &next), 0);
	assert_int_equal(s.secret[2], cookie(2, 101));
}

/*
 * Check that the results of a generation have their own secret. The ranks' cookies cannot be derived from this secret,
 * and the secret cannot be derived from the cookies.
 */
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

/* Check the reference's test vector, with key 00 01 .. 0f and message 00 01 .. 0f. */
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
	assert_int_equal(join(&s, 0, 0, 3, &next), 0); /* 0 is not an incarnation */
	for (int i = 0; i < 5; i++)
		assert_int_equal(join(&s, 0, 100, 3, &next), 0);
	assert_int_equal(s.generation, 0);
	assert_int_equal(next, 1);
	assert_int_equal(join(&s, 0, 101, 3, &next), 0); /* restarted while waiting */
	assert_int_equal(join(&s, 0, 100, 3, &next), 0); /* its earlier incarnation */
	assert_int_equal(join(&s, 1, 7, 3, &next), 0);
	assert_int_equal(join(&s, 0, 100, 3, &next), 0);
	assert_int_equal(join(&s, 0, 101, 3, &next), 1);
	assert_int_equal(s.generation, 1);
	assert_int_equal(join(&s, 0, 100, 3, &next), 0);
	assert_int_equal(join(&s, 1, 7, 3, &next), 1);
}

/* Check that ranks join, in any order, if all ranks start again after two of three stopped waiting. */
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

/*
 * Check that a worker that joins again waits for all other workers, and that the old generation continues until then.
 */
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
	assert_int_equal(join(&s, 2, 100, 7, &next), 0); /* its earlier incarnation */
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
	/* Rank 2 is removed, so the others do not wait for it. */
	assert_int_equal(join(&s, 0, 200, 3, &next), 1);
	assert_int_equal(s.generation, 6);
	assert_int_equal(join(&s, 1, 200, 3, &next), 1);
	assert_int_equal(s.generation, 6);
	/* The removed rank had already sent HELLO. This HELLO no longer counts. */
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

/* Check a job written by hand, whose counter is zero as in a new map. */
static void test_first_generation(void **state)
{
	struct fpisa_session s = {0};
	__u32 next = 0;

	(void)state;
	assert_int_equal(join(&s, 0, 1, 1, &next), 1);
	assert_int_equal(s.generation, 1);
	assert_int_equal(next, 2);
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
		cmocka_unit_test(test_secret_of_results),
		cmocka_unit_test(test_siphash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
