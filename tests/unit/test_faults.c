/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test fault injection itself. Each fault happens at the requested rate, alone and to the extent that faults.h says,
 * and the same seed gives the same faults. Without this check, tests under faults would prove nothing.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/transport/faults.h"
#include "ranges.h"
#include "workers.h"

#define FRAMES 20000
#define STEP_NS 1000
#define LEN 64

struct outcome {
	uint64_t came[FRAMES]; /* number of times that each frame was delivered */
	uint64_t total, overtaken, late, damaged, longest_ns;
	uint64_t flips[64]; /* number of frames by number of flipped bits */
};

static void take_all(struct fpisa_faults *f, uint64_t now, struct outcome *o, uint64_t *newest)
{
	struct fpisa_frame *frame;
	uint64_t number, flips;

	while ((frame = fpisa_faults_take(f, now))) {
		uint64_t late;

		assert_int_equal(frame->len, LEN);
		memcpy(&number, frame->data, sizeof(number));
		assert_true(number < FRAMES && frame->due_ns <= now);
		late = frame->due_ns - (number + 1) * STEP_NS;
		o->came[number]++;
		o->total++;
		o->overtaken += number < *newest;
		o->late += late >= FPISA_FAULT_DELAY_NS;
		o->longest_ns = late > o->longest_ns ? late : o->longest_ns;
		*newest = number > *newest ? number : *newest;
		flips = 0;
		for (size_t i = sizeof(number); i < LEN; i++)
			flips += (uint64_t)__builtin_popcount(frame->data[i]);
		o->damaged += flips != 0;
		o->flips[flips]++;
		free(frame);
	}
}

/* Send one frame every STEP_NS. Damage does not change the frame's number. */
static struct outcome *run(struct fpisa_faults *f, const struct fpisa_fault_rates *rates, uint64_t seed)
{
	struct outcome *o = calloc(1, sizeof(*o));
	unsigned char frame[LEN] = {0};
	struct iovec part[2] = {{frame, 10}, {frame + 10, LEN - 10}};
	uint64_t newest = 0, now = 0;

	fpisa_faults_init(f, rates, seed, sizeof(uint64_t));
	for (uint64_t i = 0; i < FRAMES; i++) {
		memcpy(frame, &i, sizeof(i));
		now = (i + 1) * STEP_NS;
		fpisa_faults_put(f, part, 2, 0, now);
		take_all(f, now, o, &newest);
	}
	while (fpisa_faults_due(f) != UINT64_MAX)
		take_all(f, now = fpisa_faults_due(f), o, &newest);
	fpisa_faults_free(f);
	return o;
}

static void assert_share(uint64_t n, double share)
{
	double sigma = 6 * sqrt(FRAMES * share);

	if ((double)n < FRAMES * share - sigma || (double)n > FRAMES * share + sigma)
		fail_msg("%llu of %d, asked for %g", (unsigned long long)n, FRAMES, share);
}

static void none(void **state)
{
	struct fpisa_fault_rates r = {0};
	struct fpisa_faults f;
	struct outcome *o = run(&f, &r, test_seed());

	(void)state;
	assert_int_equal(o->total, FRAMES);
	assert_int_equal(o->overtaken + o->late + o->damaged, 0);
	free(o);
}

static void dropped(void **state)
{
	struct fpisa_fault_rates r = {.drop = 0.3};
	struct fpisa_faults f;
	struct outcome *o = run(&f, &r, test_seed());

	(void)state;
	assert_share(FRAMES - o->total, 0.3);
	assert_int_equal(f.dropped, FRAMES - o->total);
	assert_int_equal(o->overtaken + o->late + o->damaged, 0);
	free(o);
}

static void duplicated(void **state)
{
	struct fpisa_fault_rates r = {.duplicate = 0.1};
	struct fpisa_faults f;
	struct outcome *o = run(&f, &r, test_seed());
	uint64_t twice = 0;

	(void)state;
	for (int i = 0; i < FRAMES; i++) {
		assert_uint_in_range(o->came[i], 1, 2);
		twice += o->came[i] == 2;
	}
	assert_share(twice, 0.1);
	assert_int_equal(f.duplicated, twice);
	free(o);
}

static void reordered(void **state)
{
	struct fpisa_fault_rates r = {.reorder = 0.1};
	struct fpisa_faults f;
	struct outcome *o = run(&f, &r, test_seed());

	(void)state;
	assert_int_equal(o->total, FRAMES);
	assert_share(f.reordered, 0.1);
	assert_uint_in_range(o->overtaken, f.reordered / 2, f.reordered);
	assert_int_equal(o->late, 0);
	free(o);
}

static void delayed(void **state)
{
	struct fpisa_fault_rates r = {.delay = 0.1};
	struct fpisa_faults f;
	struct outcome *o = run(&f, &r, test_seed());

	(void)state;
	assert_int_equal(o->total, FRAMES);
	assert_share(o->late, 0.1);
	assert_int_equal(f.delayed, o->late);
	assert_uint_in_range(o->longest_ns, FPISA_FAULT_DELAY_NS << (FPISA_FAULT_DELAY_DOUBLINGS - 1),
			     FPISA_FAULT_DELAY_NS << FPISA_FAULT_DELAY_DOUBLINGS);
	free(o);
}

static void corrupted(void **state)
{
	struct fpisa_fault_rates r = {.corrupt = 0.1};
	struct fpisa_faults f;
	struct outcome *o = run(&f, &r, test_seed());

	(void)state;
	assert_int_equal(o->total, FRAMES);
	assert_int_equal(o->overtaken + o->late, 0);
	assert_share(f.corrupted, 0.1);
	/* Two flips of one bit cancel. */
	assert_uint_in_range(o->damaged, f.corrupted * 99 / 100, f.corrupted);
	/*
	 * The checksum misses some patterns of three and four bits. If some flips cancel, few such patterns are left.
	 */
	assert_uint_in_range(o->flips[3] + o->flips[4], 0, f.corrupted / 20);
	for (int bits = 1; bits <= 8; bits++)
		assert_true(bits == 3 || bits == 4 || o->flips[bits] > f.corrupted / 10);
	free(o);
}

static void repeats(void **state)
{
	struct fpisa_fault_rates r = {0.1, 0.1, 0.1, 0.1, 0.1};
	struct fpisa_faults f;
	struct outcome *a = run(&f, &r, test_seed()), *b = run(&f, &r, test_seed()), *c = run(&f, &r, test_seed() + 1);

	(void)state;
	assert_memory_equal(a, b, sizeof(*a));
	assert_true(memcmp(a, c, sizeof(*a)));
	free(a);
	free(b);
	free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(none),	     cmocka_unit_test(dropped), cmocka_unit_test(duplicated),
		cmocka_unit_test(reordered), cmocka_unit_test(delayed), cmocka_unit_test(corrupted),
		cmocka_unit_test(repeats),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
