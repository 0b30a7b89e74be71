/* SPDX-License-Identifier: GPL-2.0-only */
/* Test the retransmission timeout (rto.h). The estimator's results for given round trips are computed by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lib/rto.h"

#define MS 1000000ull

static struct fpisa_rto after_sample(uint64_t rtt_ns)
{
	struct fpisa_rto r;

	fpisa_rto_init(&r);
	fpisa_rto_sample(&r, rtt_ns);
	return r;
}

/* Check that the timeout doubles after each transmission, up to one second. */
static void test_backoff(void **state)
{
	static const uint64_t ms[FPISA_BACKOFFS] = {100, 200, 400, 800, 1000, 1000, 1000, 1000, 1000};
	struct fpisa_rto r;

	(void)state;
	fpisa_rto_init(&r);
	for (uint32_t i = 0; i < FPISA_BACKOFFS; i++)
		assert_int_equal(fpisa_rto_after(&r, i), ms[i] * MS);
	r.rto_ns = FPISA_RTO_MIN_NS;
	assert_int_equal(fpisa_rto_after(&r, FPISA_BACKOFFS - 1), FPISA_BACKOFF_MAX_NS);
}

/*
 * Check RFC 6298. The round trip is smoothed by eighths and its deviation by quarters. The margin is four deviations.
 */
static void test_samples(void **state)
{
	struct fpisa_rto r = after_sample(10 * MS);

	(void)state;
	assert_int_equal(r.rto_ns, 30 * MS);
	fpisa_rto_sample(&r, 18 * MS);
	assert_int_equal(r.var_ns, 5750000);
	assert_int_equal(r.srtt_ns, 11 * MS);
	assert_int_equal(r.rto_ns, 34 * MS);
	fpisa_rto_sample(&r, 3 * MS); /* again 8 ms away, on the other side */
	assert_int_equal(r.var_ns, (3 * 5750000 + 8 * MS) / 4);
	assert_int_equal(r.srtt_ns, 10 * MS);
}

static void test_limits(void **state)
{
	(void)state;
	assert_int_equal(after_sample(1000).rto_ns, 5 * MS);
	assert_int_equal(after_sample(10000 * MS).rto_ns, 250 * MS);
}

/* Check that a longer time counts as a possible wait if the rank that completed the chunk is not known. */
static void test_bound(void **state)
{
	struct fpisa_rto r = after_sample(16 * MS), before;

	(void)state;
	fpisa_rto_bound(&r, 8 * MS, 1, 0);
	assert_int_equal(r.srtt_ns, 15 * MS);
	before = r;
	r.unsampled = 3;
	fpisa_rto_bound(&r, 500 * MS, 1, 0);
	assert_memory_equal(&r, &before, sizeof(r));
	fpisa_rto_bound(&r, 500 * MS, 1, 1);
	assert_int_equal(r.srtt_ns, (7 * 15 + 30) * MS / 8);
}

/* Check Karn's rule. A frame that was sent twice gives no sample. A window without a sample doubles the timeout. */
static void test_ambiguous(void **state)
{
	struct fpisa_rto r = after_sample(10 * MS);

	(void)state;
	for (int i = 0; i < 4; i++)
		fpisa_rto_ambiguous(&r, 4);
	assert_int_equal(r.rto_ns, 30 * MS);
	fpisa_rto_ambiguous(&r, 4);
	assert_int_equal(r.rto_ns, 60 * MS);
	assert_int_equal(r.srtt_ns, 10 * MS);
	for (int i = 0; i < 5 * 5; i++)
		fpisa_rto_ambiguous(&r, 4);
	assert_int_equal(r.rto_ns, 250 * MS);
}

/*
 * Check how the timeout scales with the chunks in flight. After samples with one chunk in flight, the timeout is
 * unchanged for two chunks and grows in proportion for more, up to 100 ms. A timeout that is already longer is kept.
 * With many chunks in flight, a sample moves srtt by an eighth.
 */
static void test_among(void **state)
{
	struct fpisa_rto r = after_sample(1 * MS), none;

	(void)state;
	fpisa_rto_init(&none);
	assert_int_equal(fpisa_rto_among(&none, none.rto_ns, 64), 100 * MS);
	assert_int_equal(fpisa_rto_among(&r, r.rto_ns, 64), 5 * MS);
	fpisa_rto_load(&r, 1);
	assert_int_equal(fpisa_rto_among(&r, r.rto_ns, 2), 5 * MS);
	assert_int_equal(fpisa_rto_among(&r, r.rto_ns, 3), 15 * MS);
	assert_int_equal(fpisa_rto_among(&r, r.rto_ns, 64), 100 * MS);
	assert_int_equal(fpisa_rto_among(&r, 200 * MS, 64), 200 * MS);
	fpisa_rto_load(&r, 9);
	assert_int_equal(r.load, 2 * FPISA_RTO_LOAD_ONE);
	assert_int_equal(fpisa_rto_among(&r, r.rto_ns, 4), 5 * MS);
	assert_int_equal(fpisa_rto_among(&r, r.rto_ns, 8), 20 * MS);
	/*
	 * 8 ms is twice the round trip. With one chunk in flight it might be a wait, but here eight chunks are in
	 * flight.
	 */
	fpisa_rto_bound(&r, 8 * MS, 8, 1);
	assert_int_equal(r.srtt_ns, (7 * MS + 8 * MS) / 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_backoff), cmocka_unit_test(test_samples),	  cmocka_unit_test(test_limits),
		cmocka_unit_test(test_bound),	cmocka_unit_test(test_ambiguous), cmocka_unit_test(test_among),
	};

	return cmocka_run_group_tests_name("rto", tests, NULL, NULL);
}
