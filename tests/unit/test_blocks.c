// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compare block.h, fused and staged, in every width of lane and register with the oracle. test_mau.c does the same for
 * FP32 at length.
 */
#include "formats.h"

/* Registers of either width, packed lanes of any width, and a PHV, all aligned for one block */
struct block {
	struct fpisa_exp_block e;
	struct fpisa_man64_block m;
	uint64_t lanes[FPISA_BLOCK];
};

static uint64_t fused_add(struct block *b, struct fpisa_format f, enum fpisa_mode mode, int first)
{
	if (!first)
		return fpisa_block_add(b->lanes, &b->e, b->m.m, f, mode);
	fpisa_block_set(b->lanes, &b->e, b->m.m, f);
	return 0;
}

static uint64_t staged_add(struct block *b, struct fpisa_format f, enum fpisa_mode mode, int first)
{
	struct fpisa_phv64_block phv;
	struct fpisa_phv_ref p = FPISA_PHV(&phv);
	uint64_t events;

	memset(&phv, 0xa5, sizeof(phv));
	fpisa_stage0(b->lanes, p, f);
	fpisa_stage1(p, f);
	if (first) {
		fpisa_stage2_first(p, &b->e);
		fpisa_stage4_first(p, b->m.m, f);
		return 0;
	}
	fpisa_stage2(p, &b->e, f, mode);
	events = fpisa_stage3(p, f, mode);
	return events + fpisa_stage4(p, b->m.m, f, mode);
}

#define CLZ(x) ((x) ? (__u32)__builtin_clzll(x) - (64 - f.rbits) : f.rbits)

static uint32_t fused_read(struct block *b, struct fpisa_format f, enum fpisa_rounding rounding)
{
	return fpisa_block_read(b->lanes, &b->e, b->m.m, f, rounding, CLZ);
}

static uint32_t staged_read(struct block *b, struct fpisa_format f, enum fpisa_rounding rounding)
{
	struct fpisa_phv64_block phv;
	struct fpisa_phv_ref p = FPISA_PHV(&phv);

	memset(&phv, 0x5a, sizeof(phv));
	fpisa_stage5(&b->e, b->m.m, p, f);
	fpisa_stage6(p, f, CLZ);
	fpisa_stage7(p, f);
	return fpisa_stage8(p, b->lanes, f, rounding);
}

enum { BLOCK_CHAIN = 6 };

/* Check one block through one composition. The bytes after the lanes of narrow formats must not change. */
static void check_block(int format, enum fpisa_mode mode, int staged, uint64_t (*words)[BLOCK_CHAIN], int n)
{
	const struct fpisa_format f = formats[format].f;
	const uint64_t canary = 0x1122334455667788;
	struct oracle_reg o[FPISA_BLOCK];
	struct block b = {0};

	for (int c = 0; c < n; c++) {
		struct oracle_events v = {0};
		uint64_t events;

		for (int i = 0; i < FPISA_BLOCK; i++) {
			memcpy((char *)b.lanes + i * f.bytes, &words[i][c], f.bytes);
			if (c == 0)
				oracle_set(&o[i], f, words[i][c]);
			else
				oracle_add(&o[i], f, mode, words[i][c], &v);
		}
		events = staged ? staged_add(&b, f, mode, c == 0) : fused_add(&b, f, mode, c == 0);
		for (int i = 0; i < FPISA_BLOCK; i++) {
			int64_t m = f.rbits == 32 ? ((__s32 *)b.m.m)[i] : b.m.m[i];

			assert_same("block exponent", format, mode, c + 1, words[i], b.e.e[i] & FPISA_EXP_MASK,
				    (uint64_t)o[i].e);
			assert_same("block mantissa", format, mode, c + 1, words[i], (uint64_t)m, (uint64_t)o[i].m);
		}
		assert_int_equal(fpisa_event_count(events, FPISA_EV_ROUNDED), v.rounded);
		assert_int_equal(fpisa_event_count(events, FPISA_EV_OVERWRITTEN), v.overwritten);
		assert_int_equal(fpisa_event_count(events, FPISA_EV_LEFT_SHIFTED), v.left_shifted);
		assert_int_equal(fpisa_event_count(events, FPISA_EV_OVERFLOWED), v.overflowed);
	}
	for (int rounding = FPISA_ROUND_DOWN; rounding <= FPISA_ROUND_NEAREST; rounding++) {
		uint32_t flags, want_flags = 0;

		for (int i = 0; i < FPISA_BLOCK; i++)
			b.lanes[i] = canary;
		flags = staged ? staged_read(&b, f, (enum fpisa_rounding)rounding) :
				 fused_read(&b, f, (enum fpisa_rounding)rounding);
		for (int i = 0; i < FPISA_BLOCK; i++) {
			uint64_t got = 0;

			memcpy(&got, (char *)b.lanes + i * f.bytes, f.bytes);
			assert_same("block result", format, mode, n, words[i], got,
				    oracle_read(&o[i], f, (enum fpisa_rounding)rounding, &want_flags));
		}
		assert_int_equal(flags, want_flags);
		if (f.bytes < 8)
			assert_true(b.lanes[FPISA_BLOCK - 1] == canary);
	}
}

static void test_blocks(void **state)
{
	enum { BLOCKS = 2000 };
	struct vectors_rng rng = {vectors_seed()};

	(void)state;
	for (int format = 0; format < FORMATS; format++) {
		for (int k = 0; k < BLOCKS; k++) {
			uint64_t words[FPISA_BLOCK][BLOCK_CHAIN];

			for (int i = 0; i < FPISA_BLOCK; i++) {
				int middle = (int)vectors_below(&rng, (1u << formats[format].f.ebits) - 1);

				for (int c = 0; c < BLOCK_CHAIN; c++)
					words[i][c] = random_word(&rng, formats[format].f, k % 8, middle);
			}
			check_block(format, FPISA_MODE_FPISA, 0, words, 1 + k % BLOCK_CHAIN);
			check_block(format, FPISA_MODE_FPISA, 1, words, 1 + k % BLOCK_CHAIN);
			check_block(format, FPISA_MODE_FPISA_A, 0, words, 1 + k % BLOCK_CHAIN);
			check_block(format, FPISA_MODE_FPISA_A, 1, words, 1 + k % BLOCK_CHAIN);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
