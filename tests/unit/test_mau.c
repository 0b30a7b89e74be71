// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compare the nine units in user space with the oracle, bit for bit: registers, events, packed values, flags (mau_run.h
 * compares them). The tests use, in order, values known from the contract and the paper, all inputs that can be
 * enumerated, and the shared random vectors.
 */
#include "mau_run.h"
#include "vectors.h"

#include <stdlib.h>

#define ROWS(a) (sizeof(a) / sizeof((a)[0]))

/*
 * Check the paper's example (section 3.2, figure 2). 1.0 is added to a register that holds 3.0, unit by unit, with the
 * registers that the paper prints.
 */
static void test_paper_example(void **state)
{
	struct fpisa_word_block in, out;
	struct fpisa_phv_block p;
	struct fpisa_exp_block e;
	struct fpisa_man_block m;

	(void)state;
	for (int i = 0; i < FPISA_BLOCK; i++)
		in.w[i] = 0x40400000; /* 3.0 = 0b1.1 x 2^1 */
	fpisa_stage0(&in, FPISA_PHV(&p), FPISA_FP32);
	fpisa_stage1(FPISA_PHV(&p), FPISA_FP32);
	fpisa_stage2_first(FPISA_PHV(&p), &e);
	fpisa_stage4_first(FPISA_PHV(&p), &m, FPISA_FP32);
	assert_int_equal(e.e[0], 128);
	assert_int_equal(m.m[0], 0x00c00000);

	for (int i = 0; i < FPISA_BLOCK; i++)
		in.w[i] = 0x3f800000; /* 1.0 = 0b1.0 x 2^0 */
	fpisa_stage0(&in, FPISA_PHV(&p), FPISA_FP32);
	assert_int_equal(p.e[0], 127);
	assert_int_equal(p.m[0], 0);
	fpisa_stage1(FPISA_PHV(&p), FPISA_FP32); /* step (1): decoded */
	assert_int_equal(p.e[0], 127);
	assert_int_equal(p.m[0], 0x00800000);
	fpisa_stage2(FPISA_PHV(&p), &e, FPISA_FP32, FPISA_MODE_FPISA);
	assert_int_equal(e.e[0], 128);
	assert_int_equal(p.d[0], 1); /* the incoming mantissa is shifted right by 1, the stored mantissa is not */
	assert_int_equal(fpisa_stage3(FPISA_PHV(&p), FPISA_FP32, FPISA_MODE_FPISA), 0);
	assert_int_equal(p.m[0], 0x00400000); /* step (2): 0b0.1 x 2^1 */
	assert_int_equal(fpisa_stage4(FPISA_PHV(&p), &m, FPISA_FP32, FPISA_MODE_FPISA), 0);
	assert_int_equal(e.e[0], 128);
	assert_int_equal(m.m[0], 0x01000000); /* step (4): 0b10.0 x 2^1, not normalised */

	fpisa_stage5(&e, &m, FPISA_PHV(&p), FPISA_FP32);
	assert_int_equal(p.e[0], 128);
	assert_int_equal(p.m[0], 0x01000000);
	assert_int_equal(p.d[0], 0);
	fpisa_stage6(FPISA_PHV(&p), FPISA_FP32, clz_prefixes);
	assert_int_equal(p.d[0], 7);				  /* step (5): seven leading zeros */
	assert_int_equal(p.m[0] >> FPISA_ROUND_BITS, 0x00800000); /* shifted right by 1, to bit 24 */
	fpisa_stage7(FPISA_PHV(&p), FPISA_FP32);
	assert_int_equal(p.e[0] + 1, 129); /* adjusted by 1; the field omits the implied one */
	assert_int_equal(p.d[0], 0);
	assert_int_equal(fpisa_stage8(FPISA_PHV(&p), &out, FPISA_FP32, FPISA_ROUND_DOWN), 0);
	for (int i = 0; i < FPISA_BLOCK; i++)
		assert_int_equal(out.w[i], 0x40800000); /* 4.0 */
}

/*
 * Check which entry of figure 5 the example matches. The text says 0.128.0.0/9, but that entry is for a mantissa that
 * is already normalised. The register of step (4) is 0x01000000, which as an address is 1.0.0.0. It matches 1.0.0.0/8,
 * which gives the seven leading zeros and the shift right by 1 that the text then states.
 */
static void test_paper_prefix(void **state)
{
	const uint32_t sum = 0x01000000;

	(void)state;
	assert_int_equal(sum & 0xff000000, 0x01000000);	    /* in 1.0.0.0/8 */
	assert_int_not_equal(sum & 0xff800000, 0x00800000); /* not in 0.128.0.0/9 */
	assert_int_equal(clz_prefixes(sum), 7);
	assert_int_equal(clz_prefixes(0x00800000), 8);
}

static void test_clz(void **state)
{
	struct vectors_rng rng = {vectors_seed()};

	(void)state;
	assert_int_equal(fpisa_clz32_bits(0), 32);
	assert_int_equal(clz_prefixes(0), 32);
	for (__u32 lz = 0; lz < 32; lz++) {
		for (int i = 0; i < 1000; i++) {
			__u32 top = 0x80000000u >> lz, rest = (__u32)vectors_next(&rng) & (top - 1);
			__u32 x = top | (i == 0 ? 0 : i == 1 ? top - 1 : rest);

			assert_int_equal(fpisa_clz32_bits(x), lz);
			assert_int_equal(clz_prefixes(x), lz);
		}
	}
}

/* Sums whose outcome was derived from the contract by hand */
#define A FPISA_MODE_FPISA_A
#define P FPISA_MODE_FPISA
#define INX FPISA_INEXACT
#define BEYOND (FPISA_OVERFLOW | FPISA_INEXACT | FPISA_INF)
static const struct known {
	const char *what;
	int n;
	uint32_t w[3];
	enum fpisa_mode mode;
	uint32_t down, down_flags, nearest, nearest_flags;
	struct oracle_events events; /* rounded, overwritten, left shifted, overflowed */
} known[] = {
	/* clang-format off */
	{ "3 + 1", 2, { 0x40400000, 0x3f800000 }, P, 0x40800000, 0, 0x40800000, 0 },
	{ "1 - 1 is +0", 2, { 0x3f800000, 0xbf800000 }, P, 0, 0, 0, 0 },
	{ "-0 is +0", 1, { 0x80000000 }, P, 0, 0, 0, 0 },
	{ "-0 - 0 is +0", 2, { 0x80000000, 0x80000000 }, P, 0, 0, 0, 0 },
	{ "1 + 2^-30", 2, { 0x3f800000, 0x30800000 }, P, 0x3f800000, INX, 0x3f800000, INX, { 1, 0, 0, 0 } },
	{ "2^-30 + 1", 2, { 0x30800000, 0x3f800000 }, P, 0x3f800000, INX, 0x3f800000, INX, { 1, 0, 0, 0 } },
	{ "1 - 2^-30, floor", 2, { 0x3f800000, 0xb0800000 }, P,
	  0x3f7ffffe, INX, 0x3f7ffffe, INX, { 1, 0, 0, 0 } },
	{ "-1 - 2^-30, floor", 2, { 0xbf800000, 0xb0800000 }, P,
	  0xbf800001, INX, 0xbf800001, INX, { 1, 0, 0, 0 } },
	{ "1 - 2^-30", 2, { 0x3f800000, 0xb0800000 }, A, 0x3f7ffffe, INX, 0x3f7ffffe, INX, { 1, 0, 0, 0 } },
	{ "1 + 255.5", 2, { 0x3f800000, 0x437f8000 }, P, 0x43804000, 0, 0x43804000, 0 },
	{ "1 + 255.5 saturates fpisa-a at the second add", 2, { 0x3f800000, 0x437f8000 }, A,
	  0x437fffff, INX | FPISA_OVERFLOW, 0x43800000, INX | FPISA_OVERFLOW, { 0, 0, 1, 1 } },
	{ "1 + 128, the whole headroom", 2, { 0x3f800000, 0x43000000 }, A,
	  0x43010000, 0, 0x43010000, 0, { 0, 0, 1, 0 } },
	{ "1 + 256 overwrites", 2, { 0x3f800000, 0x43800000 }, A,
	  0x43800000, INX | FPISA_OVERWRITE, 0x43800000, INX | FPISA_OVERWRITE, { 0, 1, 0, 0 } },
	{ "2^31 is one too many", 3, { 0, 0x04000000, 0x04000000 }, A,
	  0x047fffff, INX | FPISA_OVERFLOW, 0x04800000, INX | FPISA_OVERFLOW, { 0, 0, 2, 1 } },
	{ "-2^31 is not", 3, { 0, 0x84000000, 0x84000000 }, A, 0x84800000, 0, 0x84800000, 0, { 0, 0, 2, 0 } },
	{ "0 + 256 replaces a zero", 2, { 0, 0x43800000 }, A, 0x43800000, 0, 0x43800000, 0 },
	{ "a tie", 3, { 0x3f800001, 0x3f800001, 0x3f800001 }, P, 0x40400001, INX, 0x40400002, INX },
	{ "a negative tie", 3, { 0xbf800001, 0xbf800001, 0xbf800001 }, P, 0xc0400002, INX, 0xc0400002, INX },
	{ "just below 2^128", 3, { 0x7effffff, 0x7effffff, 0x73000000 }, P,
	  0x7f7fffff, INX, 0x7f800000, BEYOND },
	{ "just above -2^128", 3, { 0xfeffffff, 0xfeffffff, 0xf3000000 }, P,
	  0xff800000, BEYOND, 0xff800000, BEYOND },
	{ "largest + largest", 2, { 0x7f7fffff, 0x7f7fffff }, P, 0x7f800000, BEYOND, 0x7f800000, BEYOND },
	{ "out of the range and back", 3, { 0x7f7fffff, 0x7f7fffff, 0xff7fffff }, P,
	  0x7f7fffff, 0, 0x7f7fffff, 0 },
	{ "Inf - 1", 2, { 0x7f800000, 0xbf800000 }, P, 0x7f800000, FPISA_INF, 0x7f800000, FPISA_INF },
	{ "1 - Inf", 2, { 0x3f800000, 0xff800000 }, A, 0xff800000, FPISA_INF, 0xff800000, FPISA_INF },
	{ "Inf - Inf", 2, { 0x7f800000, 0xff800000 }, P, 0x7fc00000, FPISA_NAN, 0x7fc00000, FPISA_NAN },
	{ "Inf + NaN", 2, { 0x7f800000, 0x7f800001 }, P, 0x7fc00000, FPISA_NAN, 0x7fc00000, FPISA_NAN },
	{ "-NaN with payload", 1, { 0xffc12345 }, P, 0x7fc00000, FPISA_NAN, 0x7fc00000, FPISA_NAN },
	{ "subnormals", 2, { 1, 1 }, P, 2, 0, 2, 0 },
	{ "-smallest", 1, { 0x80000001 }, P, 0x80000001, 0, 0x80000001, 0 },
	{ "into the normals", 2, { 0x007fffff, 1 }, P, 0x00800000, 0, 0x00800000, 0 },
	{ "out of the normals", 2, { 0x00800000, 0x80000001 }, A, 0x007fffff, 0, 0x007fffff, 0 },
	/* clang-format on */
};

static void test_known(void **state)
{
	(void)state;
	for (size_t k = 0; k < ROWS(known); k++) {
		const struct known *t = &known[k];
		contribution w[3];
		struct expected x;
		uint32_t down_flags, nearest_flags;

		for (int c = 0; c < t->n; c++)
			for (int i = 0; i < FPISA_BLOCK; i++)
				w[c][i] = t->w[c];
		x = check_chain(t->what, t->n, w, t->mode);
		assert_int_equal(x.total, pack_events(&t->events) * FPISA_BLOCK);
		down_flags = nearest_flags = oracle_event_flags(&t->events);
		assert_int_equal(down_flags, fpisa_event_flags(x.total));
		assert_int_equal(oracle_read(&x.reg[0], FPISA_FP32, FPISA_ROUND_DOWN, &down_flags), t->down);
		assert_int_equal(oracle_read(&x.reg[0], FPISA_FP32, FPISA_ROUND_NEAREST, &nearest_flags), t->nearest);
		assert_int_equal(down_flags, t->down_flags);
		assert_int_equal(nearest_flags, t->nearest_flags);
	}
}

/*
 * Check all 256 x 256 pairs of exponent fields, with eight pairs of fractions and all signs, including infinities and
 * NaNs.
 */
static void test_exponent_pairs(void **state)
{
	static const uint32_t fractions[8][2] = {
		{0, 0},
		{0x7fffff, 0x7fffff},
		{0x7fffff, 0},
		{0, 1},
		{0x400001, 0x3fffff},
		{0x555555, 0x2aaaaa},
		{0x000080, 0x7fff80},
		{1, 0x400000},
	};
	contribution w[2];

	(void)state;
	for (uint32_t pair = 0; pair < 1 << 16; pair++) {
		for (uint32_t i = 0; i < FPISA_BLOCK; i++) {
			w[0][i] = (i & 1) << 31 | pair >> 8 << 23 | fractions[i / 4][0];
			w[1][i] = (i >> 1 & 1) << 31 | (pair & 0xff) << 23 | fractions[i / 4][1];
		}
		check_chain("exponent pair", 2, w, FPISA_MODE_FPISA);
		check_chain("exponent pair", 2, w, FPISA_MODE_FPISA_A);
	}
}

/* Check all triples of 16 values with both signs: zeros, subnormals, borders of the range, infinities, NaNs. */
static void test_specials(void **state)
{
	static const uint32_t v[FPISA_BLOCK / 2] = {
		0,	    1,		0x007fffff, 0x00800000, 0x3f800000, 0x7e800000, 0x7f7fffff, 0x7f800000,
		0x7f800001, 0x7fbfffff, 0x7fc00000, 0x7fc12345, 0x7fffffff, 0x34000000, 0x4b7fffff, 0x7f000000,
	};
	contribution w[3];

	(void)state;
	for (uint32_t k = 0; k < FPISA_BLOCK * FPISA_BLOCK; k++) {
		for (uint32_t i = 0; i < FPISA_BLOCK; i++) {
			w[0][i] = v[i / 2] | i << 31;
			w[1][i] = v[k / 2 % 16] | k << 31;
			w[2][i] = v[k / 64] | k >> 5 << 31;
		}
		check_chain("specials", 3, w, FPISA_MODE_FPISA);
		check_chain("specials", 3, w, FPISA_MODE_FPISA_A);
	}
}

/* Check that a sum of two subnormals is exact in both modes, so that the host's FPU gives the right answer. */
static void test_subnormals(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	contribution w[2];

	(void)state;
	for (int k = 0; k < 2000; k++) {
		for (int i = 0; i < FPISA_BLOCK; i++)
			for (int c = 0; c < 2; c++)
				w[c][i] = (uint32_t)vectors_next(&rng) & (k & 1 ? 0x800000ff : 0x807fffff);
		struct expected x = check_chain("subnormals", 2, w, FPISA_MODE_FPISA);

		check_chain("subnormals", 2, w, FPISA_MODE_FPISA_A);
		for (int i = 0; i < FPISA_BLOCK; i++) {
			float a, b, sum;
			uint32_t bits, flags = 0;

			memcpy(&a, &w[0][i], 4);
			memcpy(&b, &w[1][i], 4);
			sum = a + b + 0.0f;
			memcpy(&bits, &sum, 4);
			assert_int_equal(oracle_read(&x.reg[i], FPISA_FP32, FPISA_ROUND_NEAREST, &flags),
					 bits << 1 ? bits : 0);
			assert_int_equal(flags, 0);
		}
	}
}

/*
 * Check that 128 of the largest mantissas fit (section 3.3), and that from the 129th on every add saturates until the
 * sign changes.
 */
static void test_saturation(void **state)
{
	enum { ADDS = 400, TURN = 300 };
	static contribution w[ADDS];

	(void)state;
	for (int c = 0; c < ADDS; c++)
		for (uint32_t i = 0; i < FPISA_BLOCK; i++)
			w[c][i] = ((i & 1) ^ (c >= TURN)) << 31 | (1 + i * 8) << 23 | 0x7fffff;
	for (int a = 0; a < 2; a++) {
		enum fpisa_mode mode = a ? FPISA_MODE_FPISA_A : FPISA_MODE_FPISA;
		struct expected x = check_chain("128 adds", 128, w, mode);

		assert_int_equal(x.total, 0);
		assert_int_equal(x.m.m[0], 128 * 0xffffff);
		assert_int_equal(x.m.m[1], -128 * 0xffffff);
		x = check_chain("129 adds", 129, w, mode);
		assert_int_equal(fpisa_event_count(x.total, FPISA_EV_OVERFLOWED), FPISA_BLOCK);
		assert_int_equal(x.m.m[0], INT32_MAX);
		assert_int_equal(x.m.m[1], INT32_MIN);
		x = check_chain("saturation", ADDS, w, mode);
		assert_int_equal(fpisa_event_count(x.total, FPISA_EV_OVERFLOWED), (TURN - 128) * FPISA_BLOCK);
		assert_int_equal(x.m.m[0], INT32_MAX - (ADDS - TURN) * 0xffffff);
		assert_int_equal(x.m.m[1], INT32_MIN + (ADDS - TURN) * 0xffffff);
	}
}

/*
 * Check a register at either end together with an exponent larger by 16..47. The lowest register leaves exactly -1 at
 * 31, not at 32.
 */
static void test_shift_out(void **state)
{
	enum { ADDS = 130 };
	contribution w[ADDS + 1];

	(void)state;
	for (uint32_t sign = 0; sign < 2; sign++) {
		for (int c = 0; c < ADDS; c++)
			for (int i = 0; i < FPISA_BLOCK; i++)
				w[c][i] = sign << 31 | 40 << 23 | 0x7fffff;
		for (uint32_t i = 0; i < FPISA_BLOCK; i++)
			w[ADDS][i] = (40 + 16 + i) << 23;
		struct expected x = check_chain("shifted out", ADDS + 1, w, FPISA_MODE_FPISA);

		assert_int_equal(x.m.m[15], 0x800000 - (int)sign);
		assert_int_equal(x.m.m[16], 0x800000 - (int)sign);
		assert_int_equal(fpisa_event_count(x.event[15], FPISA_EV_ROUNDED), !sign);
		assert_int_equal(fpisa_event_count(x.event[16], FPISA_EV_ROUNDED), 1);
	}
}

/* Check 10^6 columns of 1 to 12 contributions (vectors.h) in each mode, and that every event and flag happens. */
static void test_vectors(void **state)
{
	enum { BLOCKS = 1000000 / FPISA_BLOCK + 1, LONGEST = 12 };
	uint64_t seed = vectors_seed(), events = 0;

	(void)state;
	for (uint64_t k = 0; k < BLOCKS; k++) {
		contribution w[LONGEST];
		int n = 1 + (int)(k % LONGEST);

		vectors_fill(seed, k, n, FPISA_BLOCK, w[0]);
		check_chain("vectors", n, w, FPISA_MODE_FPISA);
		events |= check_chain("vectors", n, w, FPISA_MODE_FPISA_A).total;
	}
	assert_int_not_equal(fpisa_event_count(events, FPISA_EV_ROUNDED), 0);
	assert_int_not_equal(fpisa_event_count(events, FPISA_EV_OVERWRITTEN), 0);
	assert_int_not_equal(fpisa_event_count(events, FPISA_EV_LEFT_SHIFTED), 0);
	assert_int_not_equal(fpisa_event_count(events, FPISA_EV_OVERFLOWED), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paper_example),
		cmocka_unit_test(test_paper_prefix),
		cmocka_unit_test(test_clz),
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_exponent_pairs),
		cmocka_unit_test(test_specials),
		cmocka_unit_test(test_subnormals),
		cmocka_unit_test(test_saturation),
		cmocka_unit_test(test_shift_out),
		cmocka_unit_test(test_vectors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
