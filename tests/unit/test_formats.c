// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compare the nine units of mau.h, element by element, with the oracle in formats other than plain FP32, with 32-bit
 * and 64-bit registers and with guard bits.
 */
#include "formats.h"

struct registers {
	__u16 e;
	__s64 m;
};

/* Add a word to the register. Return the events of the add. */
static uint64_t add(struct registers *r, struct fpisa_format f, enum fpisa_mode mode, uint64_t word, int first)
{
	struct fpisa_lane l = {.word = word};

	fpisa_mau0_extract(&l, f);
	fpisa_mau1_implied_one(&l, f);
	if (first) {
		r->e = fpisa_mau2_first(&l);
		r->m = l.m;
		return 0;
	}
	r->e = fpisa_mau2_exponent(&l, r->e, f, mode);
	fpisa_mau3_align(&l, f, mode);
	r->m = fpisa_mau4_add(&l, r->m, f, mode);
	return l.events;
}

static uint64_t readout(const struct registers *r, struct fpisa_format f, enum fpisa_rounding rounding, uint32_t *flags)
{
	struct fpisa_lane l = {.m = r->m, .e = r->e};
	__u32 lz;

	fpisa_mau5_sign(&l);
	lz = l.m ? (__u32)__builtin_clzll((uint64_t)l.m) - (64 - f.rbits) : f.rbits;
	fpisa_mau6_normalise(&l, f, lz);
	fpisa_mau7_exponent(&l, f, lz);
	fpisa_mau8_assemble(&l, f, rounding);
	*flags = l.flags;
	return l.word;
}

#define SAME(what, got, want) assert_same(what, format, mode, n, words, (uint64_t)(got), (uint64_t)(want))

/*
 * Add words[n - 1] to the register and to the oracle. If o is empty, this word is the first. Return the raised flags.
 */
static uint32_t check_add(int format, enum fpisa_mode mode, int n, const uint64_t *words, struct registers *r,
			  struct oracle_reg *o)
{
	const struct fpisa_format f = formats[format].f;
	int first = o->e == 0;
	struct oracle_events v = {0};
	uint64_t events = add(r, f, mode, words[n - 1], first);

	if (first)
		oracle_set(o, f, words[n - 1]);
	else
		oracle_add(o, f, mode, words[n - 1], &v);
	SAME("exponent", r->e & FPISA_EXP_MASK, o->e);
	SAME("specials", r->e & FPISA_EXP_SPECIAL,
	     o->nan * FPISA_EXP_NAN + o->pinf * FPISA_EXP_PINF + o->ninf * FPISA_EXP_NINF);
	SAME("mantissa", r->m, o->m);
	SAME("rounded", fpisa_event_count(events, FPISA_EV_ROUNDED), v.rounded);
	SAME("overwritten", fpisa_event_count(events, FPISA_EV_OVERWRITTEN), v.overwritten);
	SAME("left shifted", fpisa_event_count(events, FPISA_EV_LEFT_SHIFTED), v.left_shifted);
	SAME("overflowed", fpisa_event_count(events, FPISA_EV_OVERFLOWED), v.overflowed);
	return oracle_event_flags(&v);
}

/* Read the register and the oracle in both roundings. Return the raised flags. */
static uint32_t check_readout(int format, enum fpisa_mode mode, int n, const uint64_t *words, const struct registers *r,
			      const struct oracle_reg *o)
{
	const struct fpisa_format f = formats[format].f;
	uint32_t all = 0;

	for (int rounding = FPISA_ROUND_DOWN; rounding <= FPISA_ROUND_NEAREST; rounding++) {
		uint32_t flags, want_flags = 0;
		uint64_t word = readout(r, f, (enum fpisa_rounding)rounding, &flags);

		SAME("result", word, oracle_read(o, f, (enum fpisa_rounding)rounding, &want_flags));
		SAME("flags", flags, want_flags);
		all |= flags;
	}
	return all;
}

static uint32_t check(int format, enum fpisa_mode mode, int n, const uint64_t *words)
{
	struct registers r = {0};
	struct oracle_reg o = {0};
	uint32_t all = 0;

	for (int i = 1; i <= n; i++)
		all |= check_add(format, mode, i, words, &r, &o);
	return all | check_readout(format, mode, n, words, &r, &o);
}

static void test_random_chains(void **state)
{
	enum { CHAINS = 40000, LONGEST = 16 };
	struct vectors_rng rng = {vectors_seed()};

	(void)state;
	for (int format = 0; format < FORMATS; format++) {
		uint32_t all = 0;

		for (int k = 0; k < CHAINS; k++) {
			uint64_t words[LONGEST];
			int middle = (int)vectors_below(&rng, (1u << formats[format].f.ebits) - 1);
			int n = 1 + (int)vectors_below(&rng, LONGEST), kind = k % 8;

			for (int i = 0; i < n; i++)
				words[i] = random_word(&rng, formats[format].f, kind, middle);
			all |= check(format, FPISA_MODE_FPISA, n, words);
			all |= check(format, FPISA_MODE_FPISA_A, n, words);
		}
		assert_int_equal(all, FPISA_OVERFLOW | FPISA_INEXACT | FPISA_OVERWRITE | FPISA_NAN | FPISA_INF);
	}
}

/* Return an R-bit mantissa of any length and either sign. It is sometimes one of the two ends of the range. */
static int64_t random_mantissa(struct vectors_rng *rng, struct fpisa_format f)
{
	int64_t lowest = f.rbits == 64 ? INT64_MIN : INT32_MIN;
	int64_t m = (int64_t)(vectors_next(rng) >> (64 - f.rbits) >> (1 + vectors_below(rng, f.rbits - 1)));

	switch (vectors_below(rng, 16)) {
	case 0:
		return lowest;
	case 1:
		return -1 - lowest;
	default:
		return vectors_below(rng, 2) ? m : -m - 1;
	}
}

/*
 * Check adds and read-outs with registers that sums rarely reach: with bits shifted out at both ends, and with
 * magnitudes far below the smallest subnormal.
 */
static void test_any_register(void **state)
{
	enum { CASES = 200000 };
	struct vectors_rng rng = {vectors_seed()};

	(void)state;
	for (int format = 0; format < FORMATS; format++) {
		const struct fpisa_format f = formats[format].f;
		const int top = (1 << f.ebits) - 1;

		for (int k = 0; k < CASES; k++) {
			int near = 1 + (int)vectors_below(&rng, 2u * f.rbits);
			int e = k % 2 && near < top ? near : 1 + (int)vectors_below(&rng, (unsigned int)top - 1);
			struct oracle_reg o = {.e = e, .m = random_mantissa(&rng, f)};
			struct registers r = {.e = (__u16)e, .m = o.m};
			enum fpisa_mode mode = k & 4 ? FPISA_MODE_FPISA : FPISA_MODE_FPISA_A;
			uint64_t word = random_word(&rng, f, 4, e);

			check_readout(format, mode, 0, NULL, &r, &o);
			check_add(format, mode, 1, &word, &r, &o);
		}
	}
}

/* Check that every register saturates at its headroom, on both sides. */
static void test_headroom(void **state)
{
	(void)state;
	for (int format = 0; format < FORMATS; format++) {
		const struct fpisa_format f = formats[format].f;
		const int adds = fpisa_headroom(f) > 12 ? 0 : 1 << fpisa_headroom(f);

		for (uint64_t sign = 0; sign < 2; sign++) {
			uint64_t word = sign << (f.ebits + f.mbits) | ((2ull << f.mbits) - 1);
			struct registers r = {0};
			struct oracle_reg o;
			struct oracle_events v = {0};
			uint64_t events = 0;

			for (int i = 0; i < adds + 1; i++) {
				assert_int_equal(events, 0);
				events |= add(&r, f, FPISA_MODE_FPISA, word, i == 0);
				if (i == 0)
					oracle_set(&o, f, word);
				else
					oracle_add(&o, f, FPISA_MODE_FPISA, word, &v);
				assert_int_equal(r.m, o.m);
			}
			assert_int_equal(fpisa_event_count(events, FPISA_EV_OVERFLOWED), v.overflowed);
			assert_int_equal(v.overflowed, adds != 0);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_chains),
		cmocka_unit_test(test_any_register),
		cmocka_unit_test(test_headroom),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
