// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test the manager's requests to a helper that does not read them. No send waits, no request is lost or reordered, and
 * the wait for the helper ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>
#include "serve/requests.c"

#define MESSAGES 5000

static void test_slow(void **state)
{
	struct requests r;
	int pair[2], room = 1;
	uint32_t got[64], next = 0;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	alarm(60); /* ends the test if a send waits */
	requests_open(&r, pair[0]);
	for (uint32_t i = 0; i < MESSAGES; i++)
		assert_int_equal(requests_send(&r, &(uint32_t[64]){i}, sizeof(got), 1000), 0);
	assert_false(STAILQ_EMPTY(&r.waiting));
	assert_int_equal(requests_turn(&r, 1000 + REQUESTS_MS - 1), 0);
	/* The helper is slow, but each request that it takes restarts the time limit. */
	for (__u64 now = 2000; next < MESSAGES; now += REQUESTS_MS - 1) {
		while (recv(pair[1], got, sizeof(got), MSG_DONTWAIT) == sizeof(got))
			assert_int_equal(got[0], next++);
		assert_int_equal(requests_turn(&r, now), 0);
	}
	assert_true(STAILQ_EMPTY(&r.waiting));
	for (uint32_t i = 0; i < MESSAGES; i++)
		assert_int_equal(requests_send(&r, got, sizeof(got), 1000), 0);
	assert_int_equal(requests_turn(&r, 1000 + REQUESTS_MS), -ETIMEDOUT);
	close(pair[1]);
	assert_int_equal(requests_turn(&r, 1000), -EPIPE);
	close(pair[0]);
	for (struct requests_one *one; (one = STAILQ_FIRST(&r.waiting));) {
		STAILQ_REMOVE_HEAD(&r.waiting, link);
		free(one);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_slow)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
