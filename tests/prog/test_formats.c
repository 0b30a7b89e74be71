/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every format in every mode in the kernel, staged and fused, bit for bit
 * against the oracle: results, flags and counts of the adds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <math.h>
#include <linux/bpf.h>
#include "harness.h"
#include "oracle.h"
#include "vectors.h"

#define ELEMENTS 256
#define MAX_WORKERS 6

static uint64_t word_at(const void *base, size_t i, struct fpisa_format f)
{
	uint64_t w = 0;

	memcpy(&w, (const char *)base + i * f.bytes, f.bytes);
	return w;
}

/*
 * One column of contributions: exponents near each other, far apart, at the
 * ends of the range, specials, subnormals, or any bits.
 */
static void column(struct vectors_rng *rng, struct fpisa_format f, uint32_t workers, uint64_t *out)
{
	uint64_t ones = fpisa_exp_ones(f), base = vectors_next(rng) % (ones + 1);
	uint32_t kind = vectors_below(rng, 6), spread = kind == 0 ? 4 : kind == 1 ? 40 : 1;

	for (uint32_t r = 0; r < workers; r++) {
		uint64_t bits = vectors_next(rng), e, frac = bits & fpisa_frac_ones(f);

		if (kind == 2)
			e = vectors_below(rng, 2) ? ones - vectors_below(rng, 3) : vectors_below(rng, 3);
		else if (kind == 3)
			e = bits >> 54 & ones;
		else
			e = (base + vectors_below(rng, spread)) % (ones + 1);
		if (kind == 4)
			frac |= fpisa_frac_ones(f) ^ (bits >> 60);
		frac &= fpisa_frac_ones(f);
		out[r] = (bits >> 63) << (f.ebits + f.mbits) | e << f.mbits | frac;
		if (!vectors_below(rng, 16))
			out[r] = 0;
	}
}

static void run_format(uint8_t format, uint8_t mode)
{
	const uint64_t rounds = getenv("FPISA_ROUNDS") ? strtoull(getenv("FPISA_ROUNDS"), NULL, 0) / 8 + 1 : 100;
	static uint8_t in[MAX_WORKERS][ELEMENTS * 8], want[ELEMENTS * 8];
	uint64_t seed;

	NEED_BPF();
	seed = vectors_seed();
	for (int variant = 0; variant < 4; variant++) {
		struct vectors_rng rng = { seed + variant };
		struct fpisa_job j = {
			.workers = 2 + vectors_below(&rng, MAX_WORKERS - 1),
			.format = format,
			.mode = mode,
			.rounding = variant & 1 ? FPISA_ROUND_NEAREST : FPISA_ROUND_DOWN,
			.pipeline = variant & 2 ? FPISA_PIPELINE_STAGED : FPISA_PIPELINE_FUSED,
			.clz = variant & 2 ? FPISA_CLZ_LPM : FPISA_CLZ_BITS,
		};
		struct fpisa_format f = fpisa_register(format, mode, j.workers);
		struct oracle_events events = { 0 };
		struct fpisa_counters a, b;

		harness_job(harness, 6, &j);
		a = harness_counters(harness, 6);
		for (uint64_t chunk = 0; chunk < rounds; chunk++) {
			uint32_t flags = 0;
			struct frame fr;

			for (uint32_t i = 0; i < ELEMENTS; i++) {
				uint64_t words[MAX_WORKERS], w;

				column(&rng, f, j.workers, words);
				for (uint32_t r = 0; r < j.workers; r++)
					memcpy(&in[r][i * f.bytes], &words[r], f.bytes);
				w = oracle_replay(f, mode, j.rounding, j.workers, words, &events, &flags);
				memcpy(&want[i * f.bytes], &w, f.bytes);
			}
			for (uint32_t r = 0; r < j.workers; r++) {
				harness_add(&fr, harness, &j, 6, r, chunk, ELEMENTS, in[r]);
				harness_run(harness, &fr);
				assert_int_equal(fr.action, r + 1 < j.workers ? XDP_DROP : XDP_REDIRECT);
			}
			assert_true(harness_sealed(&fr));
			for (uint32_t i = 0; i < ELEMENTS; i++) {
				if (word_at(harness_payload(&fr), i, f) == word_at(want, i, f))
					continue;
				for (uint32_t r = 0; r < j.workers; r++)
					print_error("  rank %u: %llx\n", r, (unsigned long long)word_at(in[r], i, f));
				fail_msg("format %u mode %u variant %d round %llu element %u: %llx, oracle %llx", format,
					 mode, variant, (unsigned long long)chunk, i,
					 (unsigned long long)word_at(harness_payload(&fr), i, f),
					 (unsigned long long)word_at(want, i, f));
			}
			assert_int_equal(harness_hdr(&fr)->result_flags, flags);
		}
		b = harness_counters(harness, 6);
		assert_int_equal(b.rounded - a.rounded, events.rounded);
		assert_int_equal(b.overwritten - a.overwritten, events.overwritten);
		assert_int_equal(b.left_shifted - a.left_shifted, events.left_shifted);
		assert_int_equal(b.overflowed - a.overflowed, events.overflowed);
		assert_int_equal(b.v_result - a.v_result, rounds);
	}
}

/*
 * 64 contributions of mixed magnitude in random orders: distinct results of
 * one element. One element of each column is the textbook's 1e8, 1, -1e8, 1.
 */
static uint32_t distinct(uint8_t mode, uint64_t seed, uint32_t orders)
{
	struct fpisa_job j = { .workers = 64, .elements = 32, .mode = mode, .rounding = FPISA_ROUND_NEAREST };
	static uint32_t in[64][32], seen[4096];
	static const float mixed[4] = { 1e8f, 1, -1e8f, 1 };
	struct vectors_rng rng = { seed };
	uint64_t words[64];
	uint32_t n = 0;

	harness_job(harness, 7, &j);
	for (uint32_t r = 0; r < 64; r++) {
		for (uint32_t i = 0; i < 32; i++) {
			float v = ldexpf((float)(int32_t)vectors_next(&rng), (int)vectors_below(&rng, 60) - 60);

			memcpy(&in[r][i], i ? &v : &mixed[r % 4], 4);
		}
		words[r] = in[r][1];
	}
	for (uint32_t k = 0; k < orders; k++) {
		uint32_t order[64], m, got;
		struct frame f;

		for (uint32_t r = 0; r < 64; r++) {
			uint32_t at = vectors_below(&rng, r + 1);

			order[r] = order[at];
			order[at] = r;
		}
		for (uint32_t r = 0; r < 64; r++) {
			harness_add(&f, harness, &j, 7, order[r], k, 32, in[order[r]]);
			harness_run(harness, &f);
		}
		assert_int_equal(f.action, XDP_REDIRECT);
		got = harness_payload(&f)[1];
		if (mode == FPISA_MODE_EXACT) {
			struct oracle_exact x;

			oracle_exact_init(&x, FPISA_FP32);
			for (uint32_t r = 0; r < 64; r++)
				oracle_exact_add(&x, words[r]);
			assert_int_equal(got, oracle_exact_read(&x));
			assert_int_equal(harness_payload(&f)[0], 0x42000000); /* 16 x (1 + 1) */
		}
		for (m = 0; m < n && seen[m] != got; m++)
			;
		if (m == n && n < 4096)
			seen[n++] = got;
	}
	return n;
}

static void order_of_arrival(void **state)
{
	const uint32_t orders = 200;
	uint64_t seed;

	(void)state;
	NEED_BPF();
	seed = vectors_seed();
	print_message("%u orders of 64 contributions, distinct results: fpisa %u, fpisa-a %u, fpisa64 %u, ", orders,
		      distinct(FPISA_MODE_FPISA, seed, orders), distinct(FPISA_MODE_FPISA_A, seed, orders),
		      distinct(FPISA_MODE_FPISA64, seed, orders));
	print_message("exact %u\n", distinct(FPISA_MODE_EXACT, seed, orders));
	assert_int_equal(distinct(FPISA_MODE_EXACT, seed, orders), 1);
}

#define CASE(name, format, mode)                          \
	static void name(void **state)                    \
	{                                                 \
		(void)state;                              \
		run_format(format, mode);                 \
	}

#define CASES(X)                                                    \
	X(fp16_fpisa, FPISA_FORMAT_FP16, FPISA_MODE_FPISA)          \
	X(fp16_fpisa_a, FPISA_FORMAT_FP16, FPISA_MODE_FPISA_A)      \
	X(fp16_fpisa64, FPISA_FORMAT_FP16, FPISA_MODE_FPISA64)      \
	X(bf16_fpisa, FPISA_FORMAT_BF16, FPISA_MODE_FPISA)          \
	X(bf16_fpisa_a, FPISA_FORMAT_BF16, FPISA_MODE_FPISA_A)      \
	X(bf16_fpisa64, FPISA_FORMAT_BF16, FPISA_MODE_FPISA64)      \
	X(fp64_fpisa, FPISA_FORMAT_FP64, FPISA_MODE_FPISA)          \
	X(fp64_fpisa_a, FPISA_FORMAT_FP64, FPISA_MODE_FPISA_A)      \
	X(fp64_fpisa64, FPISA_FORMAT_FP64, FPISA_MODE_FPISA64)      \
	X(e4m3_fpisa, FPISA_FORMAT_E4M3, FPISA_MODE_FPISA)          \
	X(e4m3_fpisa_a, FPISA_FORMAT_E4M3, FPISA_MODE_FPISA_A)      \
	X(e4m3_fpisa64, FPISA_FORMAT_E4M3, FPISA_MODE_FPISA64)      \
	X(e5m2_fpisa, FPISA_FORMAT_E5M2, FPISA_MODE_FPISA)          \
	X(e5m2_fpisa_a, FPISA_FORMAT_E5M2, FPISA_MODE_FPISA_A)      \
	X(e5m2_fpisa64, FPISA_FORMAT_E5M2, FPISA_MODE_FPISA64)      \
	X(fp32_fpisa64, FPISA_FORMAT_FP32, FPISA_MODE_FPISA64)      \
	X(fp32_exact, FPISA_FORMAT_FP32, FPISA_MODE_EXACT)          \
	X(bf16_exact, FPISA_FORMAT_BF16, FPISA_MODE_EXACT)          \
	X(fp16_exact, FPISA_FORMAT_FP16, FPISA_MODE_EXACT)          \
	X(e4m3_exact, FPISA_FORMAT_E4M3, FPISA_MODE_EXACT)          \
	X(e5m2_exact, FPISA_FORMAT_E5M2, FPISA_MODE_EXACT)

CASES(CASE)

int main(void)
{
#define TEST(name, format, mode) cmocka_unit_test(name),
	const struct CMUnitTest tests[] = { CASES(TEST) cmocka_unit_test(order_of_arrival) };

	return cmocka_run_group_tests_name("prog/formats", tests, harness_setup, harness_teardown);
}
