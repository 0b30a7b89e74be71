/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measure whether a sum depends on the order of its contributions in the kernel, with 64 contributions of mixed
 * magnitude in 1000 random orders. Mode exact gives one bit pattern, the correctly rounded sum. For the other modes the
 * test prints how far apart the results lie.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <math.h>
#include <linux/bpf.h>
#include "harness.h"
#include "lab/oracle/oracle.h"
#include "vectors.h"

#define JOB 7
#define RANKS 64
#define ELEMENTS 32
#define ORDERS 1000

static uint32_t in[RANKS][ELEMENTS];

/* Fill element 0 with the classic values 1e8, 1, -1e8, 1, and the others with exponents at most 60 apart. */
static void fill(struct vectors_rng *rng)
{
	static const float mixed[4] = {1e8f, 1, -1e8f, 1};

	for (uint32_t r = 0; r < RANKS; r++) {
		for (uint32_t i = 0; i < ELEMENTS; i++) {
			float v = ldexpf((float)(int32_t)vectors_next(rng), (int)vectors_below(rng, 60) - 60);

			memcpy(&in[r][i], i ? &v : &mixed[r % 4], 4);
		}
	}
}

static uint32_t nearest(uint32_t element)
{
	struct oracle_exact x;

	oracle_exact_init(&x, FPISA_FP32);
	for (uint32_t r = 0; r < RANKS; r++)
		oracle_exact_add(&x, in[r][element]);
	return (uint32_t)oracle_exact_read(&x);
}

static void shuffle(struct vectors_rng *rng, uint32_t order[RANKS])
{
	for (uint32_t r = 0; r < RANKS; r++) {
		uint32_t at = vectors_below(rng, r + 1);

		order[r] = order[at];
		order[at] = r;
	}
}

struct spread {
	uint32_t distinct; /* number of different results of element 1 */
	float least, greatest;
	uint32_t wrong; /* number of elements, over all orders, that are not the nearest value */
};

static struct spread run(uint8_t mode, struct vectors_rng rng)
{
	struct fpisa_job j = {.workers = RANKS, .elements = ELEMENTS, .mode = mode, .rounding = FPISA_ROUND_NEAREST};
	struct spread s = {.least = INFINITY, .greatest = -INFINITY};
	static uint32_t seen[ORDERS], want[ELEMENTS];

	harness_job(harness, JOB, &j);
	for (uint32_t i = 0; i < ELEMENTS; i++)
		want[i] = nearest(i);
	for (uint32_t k = 0; k < ORDERS; k++) {
		uint32_t order[RANKS], m = 0;
		struct frame f;
		float v;

		shuffle(&rng, order);
		for (uint32_t r = 0; r < RANKS; r++) {
			harness_add(&f, harness, &j, JOB, order[r], k, ELEMENTS, in[order[r]]);
			harness_run(harness, &f);
		}
		assert_int_equal(f.action, XDP_REDIRECT);
		for (uint32_t i = 0; i < ELEMENTS; i++)
			s.wrong += harness_payload(&f)[i] != want[i];
		memcpy(&v, &harness_payload(&f)[1], sizeof(v));
		s.least = fminf(s.least, v);
		s.greatest = fmaxf(s.greatest, v);
		while (m < s.distinct && seen[m] != harness_payload(&f)[1])
			m++;
		if (m == s.distinct)
			seen[s.distinct++] = harness_payload(&f)[1];
	}
	return s;
}

static void order_of_arrival(void **state)
{
	static const char *const modes[] = {"", "fpisa", "fpisa-a", "fpisa64", "exact"};
	struct vectors_rng rng;

	(void)state;
	NEED_BPF();
	rng.state = vectors_seed();
	fill(&rng);
	assert_int_equal(nearest(0), 0x42000000); /* 16 x (1 + 1) */
	for (uint8_t mode = FPISA_MODE_FPISA; mode <= FPISA_MODE_EXACT; mode++) {
		struct spread s = run(mode, rng);

		print_message("%-7s  %d orders: %u distinct results, %.9g to %.9g; %.2f%% of all elements not the "
			      "nearest value\n",
			      modes[mode], ORDERS, s.distinct, (double)s.least, (double)s.greatest,
			      100.0 * s.wrong / (ORDERS * ELEMENTS));
		if (mode == FPISA_MODE_EXACT) {
			assert_int_equal(s.distinct, 1);
			assert_int_equal(s.wrong, 0);
		} else if (mode == FPISA_MODE_FPISA) {
			assert_true(s.distinct > 1); /* the inputs do distinguish orders */
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_of_arrival),
	};

	return cmocka_run_group_tests_name("order", tests, harness_setup, harness_teardown);
}
