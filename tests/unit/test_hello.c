/* SPDX-License-Identifier: GPL-2.0-only */
/* Test the times at which a joining rank sends HELLO (lib/base/hello.h, doc/wire.md, section 5) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lib/base/hello.h"

#define MS 1000000ull

/* Check that the next HELLO is due after a pause, and not before. */
static void check_pause(struct fpisa_joining *j, uint64_t *now, uint64_t pause_ns)
{
	assert_int_equal(fpisa_hello_is_due(j, *now + pause_ns - 1), 0);
	*now += pause_ns;
	assert_int_equal(fpisa_hello_is_due(j, *now), 1);
}

static void check_pauses(struct fpisa_joining *j, uint64_t *now)
{
	static const uint64_t ms[] = {2, 4, 8, 16, 32, 50, 50};

	for (size_t i = 0; i < sizeof(ms) / sizeof(ms[0]); i++)
		check_pause(j, now, ms[i] * MS);
}

static void test_pauses(void **state)
{
	struct fpisa_joining j;
	uint64_t now = 7 * MS;

	(void)state;
	fpisa_joining_begin(&j, 0);
	assert_int_equal(fpisa_hello_is_due(&j, now), 1);
	check_pauses(&j, &now);
}

/* Check that only an answer with other missing ranks begins with the shortest pause again. */
static void test_missing_ranks(void **state)
{
	static const uint64_t missing[] = {6, 4, 6, 0};
	struct fpisa_joining j;
	uint64_t now = 7 * MS;

	(void)state;
	fpisa_joining_begin(&j, 0);
	assert_int_equal(fpisa_hello_is_due(&j, now), 1);
	for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
		fpisa_joining_lacks(&j, missing[i], now);
		assert_int_equal(j.missing, missing[i]);
		check_pauses(&j, &now);
		fpisa_joining_lacks(&j, missing[i], now);
		check_pause(&j, &now, 50 * MS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pauses),
		cmocka_unit_test(test_missing_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
