// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test pack.h. It rounds to nearest, ties to even, at every value of the small formats. In the large formats it agrees
 * with the machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "values/pack.h"
#include "vectors.h"

static void assert_packs(struct fpisa_format f, double v, uint64_t want)
{
	uint64_t sign = 1ull << (f.ebits + f.mbits);
	uint64_t minus = f.finite && want == fpisa_beyond(f) ? want : want | sign;

	if (pack_value(f, v) != want || pack_value(f, -v) != minus)
		fail_msg("%a in %d-byte format %d.%d: %llx and %llx, not %llx", v, f.bytes, f.ebits, f.mbits,
			 (unsigned long long)pack_value(f, v), (unsigned long long)pack_value(f, -v),
			 (unsigned long long)want);
}

/* Check every value, the midpoint between it and the next value, and the neighbours of the midpoint. */
static void test_every_place(void **state)
{
	static const uint8_t ids[] = {FPISA_FORMAT_FP16, FPISA_FORMAT_BF16, FPISA_FORMAT_E4M3, FPISA_FORMAT_E5M2};

	(void)state;
	for (size_t i = 0; i < sizeof(ids); i++) {
		const struct fpisa_format f = fpisa_format_of(ids[i]);
		double step = unpack_value(f, 1);

		for (uint64_t w = 0; w < fpisa_beyond(f); w++) {
			double v = unpack_value(f, w), half;

			if (w >> f.mbits > 1 && !(w & fpisa_frac_ones(f)))
				step *= 2;
			half = v + step / 2;
			if (w)
				assert_true(v == unpack_value(f, w - 1) +
							 (w & fpisa_frac_ones(f) || w >> f.mbits == 1 ? step : step / 2));
			assert_packs(f, v, w);
			assert_packs(f, half, w + (w & 1));
			assert_packs(f, nextafter(half, 0), w);
			assert_packs(f, nextafter(half, INFINITY), w + 1);
		}
		assert_packs(f, 1e300, fpisa_beyond(f));
		assert_packs(f, INFINITY, fpisa_beyond(f));
		assert_true(isnan(unpack_value(f, pack_value(f, NAN))));
		assert_true(isnan(unpack_value(f, fpisa_beyond(f) | 1)));
	}
}

static void test_constants(void **state)
{
	(void)state;
	assert_true(unpack_value(fpisa_format_of(FPISA_FORMAT_FP16), 0x3c00) == 1);
	assert_true(unpack_value(fpisa_format_of(FPISA_FORMAT_FP16), 0xfbff) == -65504);
	assert_true(unpack_value(fpisa_format_of(FPISA_FORMAT_BF16), 0x3f80) == 1);
	assert_true(unpack_value(fpisa_format_of(FPISA_FORMAT_E4M3), 0x7e) == 448);
	assert_true(unpack_value(fpisa_format_of(FPISA_FORMAT_E4M3), 1) == 0x1p-9);
	assert_true(isnan(unpack_value(fpisa_format_of(FPISA_FORMAT_E4M3), 0x7f)));
	assert_true(unpack_value(fpisa_format_of(FPISA_FORMAT_E5M2), 0x7b) == 57344);
	assert_true(unpack_value(fpisa_format_of(FPISA_FORMAT_E5M2), 1) == 0x1p-16);
	assert_true(unpack_value(fpisa_format_of(FPISA_FORMAT_E5M2), 0xfc) == -INFINITY);
}

static void test_machine(void **state)
{
	const struct fpisa_format f32 = FPISA_FP32, f64 = fpisa_format_of(FPISA_FORMAT_FP64);
	struct vectors_rng rng = {vectors_seed()};

	(void)state;
	for (int i = 0; i < 1000000; i++) {
		uint64_t bits = vectors_next(&rng);
		uint32_t word;
		float narrow;
		double v;

		/*
		 * Half of the values lie near the range of FP32, so that they round to subnormals and to normal
		 * numbers.
		 */
		if (i & 1)
			bits = (bits & ~(0x7ffull << 52)) | (870ull + (bits >> 33) % 300) << 52;
		memcpy(&v, &bits, sizeof(v));
		if (isnan(v))
			continue;
		narrow = (float)v;
		memcpy(&word, &narrow, sizeof(word));
		assert_int_equal(pack_value(f32, v), word);
		assert_int_equal(pack_value(f64, v), bits);
		assert_true(unpack_value(f64, bits) == v && unpack_value(f32, word) == narrow);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_place),
		cmocka_unit_test(test_constants),
		cmocka_unit_test(test_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
