/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compare the bodies of fpisa/lookup32.h, which BPF runs, with the units of block.h: registers and events, bit for bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "fpisa/lookup32.h"
#include "vectors.h"

#define ROUNDS 3000
#define MOST 64

static const struct fpisa_match32 by_word = FPISA_MATCH32;
static const struct fpisa_match32_a by_word_a = FPISA_MATCH32_A;
static const struct fpisa_signs by_sign = FPISA_SIGNS;
static const struct fpisa_match32_64 by_word_64 = FPISA_MATCH32_64;

/* Registers of either width */
struct registers {
	struct fpisa_exp_block e;
	_Alignas(8) uint8_t m[FPISA_BLOCK * 8];
};

static uint64_t look_add(const uint32_t *in, struct registers *r, struct fpisa_format f, enum fpisa_mode mode)
{
	if (mode == FPISA_MODE_FPISA_A)
		return fpisa_look_add32_a(in, &r->e, (void *)r->m, &by_word_a);
	if (mode == FPISA_MODE_FPISA64)
		return fpisa_look_add32_64(in, &r->e, (void *)r->m, f, &by_word_64);
	return fpisa_look_add32(in, &r->e, (void *)r->m, &by_word, 1);
}

/* Check the first contribution and the other `workers` - 1 contributions of a round. */
static void one_round(struct vectors_rng *rng, enum fpisa_mode mode, uint32_t workers)
{
	struct fpisa_format f = fpisa_register(FPISA_FORMAT_FP32, mode, workers);
	struct registers units = {0}, looked = {0};
	static uint32_t in[MOST][FPISA_BLOCK];

	vectors_fill(vectors_next(rng), vectors_below(rng, 4 * VECTORS_KINDS), (int)workers, FPISA_BLOCK, &in[0][0]);
	fpisa_block_set(in[0], &units.e, units.m, f);
	fpisa_look_set32(in[0], &looked.e, looked.m, f, f.rbits == 32 ? &by_sign : &by_word_64.head);
	assert_memory_equal(&units, &looked, sizeof(units));
	for (uint32_t i = 1; i < workers; i++) {
		uint64_t events = fpisa_block_add(in[i], &units.e, units.m, f, mode);

		assert_int_equal(look_add(in[i], &looked, f, mode), events);
		assert_memory_equal(&units, &looked, sizeof(units));
	}
}

static void all_modes(void **state)
{
	struct vectors_rng rng = {vectors_seed()};

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		/* With at most 64 ranks, sums of mode fpisa never saturate (lookup.h). */
		one_round(&rng, FPISA_MODE_FPISA, 1 + vectors_below(&rng, 64));
		one_round(&rng, FPISA_MODE_FPISA_A, 1 + vectors_below(&rng, MOST));
		one_round(&rng, FPISA_MODE_FPISA64, 1 + vectors_below(&rng, MOST));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_modes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
