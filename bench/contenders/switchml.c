// SPDX-License-Identifier: GPL-2.0-only
/* The arithmetic of a SwitchML worker. switchml.h documents the functions. */
#include <immintrin.h>
#include <string.h>
#include "switchml.h"

#define AVX2 __attribute__((target("avx2")))
#define LANES 8

AVX2 int32_t switchml_exponent(const float *values, size_t n)
{
	const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
	__m256i most = _mm256_setzero_si256();
	uint32_t lane[LANES], top = 0;

	for (size_t i = 0; i < n; i += LANES)
		most = _mm256_max_epu32(most,
					_mm256_and_si256(_mm256_loadu_si256((const __m256i *)(values + i)), magnitude));
	_mm256_storeu_si256((__m256i *)lane, most);
	for (int i = 0; i < LANES; i++)
		top = lane[i] > top ? lane[i] : top;
	return (int32_t)(top >> 23);
}

float switchml_scale(int32_t exponent, unsigned int workers)
{
	int32_t bits = 0, biased;
	float scale;

	while (1u << bits < workers)
		bits++;
	/* |x| < 2^(exponent - 126). The largest value, multiplied by `workers`, must stay below 2^31. */
	biased = 127 + 31 - bits - (exponent - 126) - 1;
	biased = biased < 1 ? 1 : biased > 253 ? 253 : biased;
	biased <<= 23;
	memcpy(&scale, &biased, sizeof(scale));
	return scale;
}

static AVX2 __m256i swap_bytes(__m256i v)
{
	const __m256i order = _mm256_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12, 3, 2, 1, 0, 7, 6,
					       5, 4, 11, 10, 9, 8, 15, 14, 13, 12);

	return _mm256_shuffle_epi8(v, order);
}

static inline AVX2 void quantise(int32_t *out, const float *in, size_t n, float scale, int swap)
{
	const __m256 factor = _mm256_set1_ps(scale);

	for (size_t i = 0; i < n; i += LANES) {
		__m256i q = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(in + i), factor));

		_mm256_storeu_si256((__m256i *)(out + i), swap ? swap_bytes(q) : q);
	}
}

static inline AVX2 void dequantise(float *out, const int32_t *in, size_t n, float scale, int swap)
{
	const __m256 factor = _mm256_set1_ps(1 / scale);

	for (size_t i = 0; i < n; i += LANES) {
		__m256i q = _mm256_loadu_si256((const __m256i *)(in + i));

		_mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_cvtepi32_ps(swap ? swap_bytes(q) : q), factor));
	}
}

AVX2 void switchml_quantise(int32_t *out, const float *in, size_t n, float scale)
{
	quantise(out, in, n, scale, 1);
}

AVX2 void switchml_dequantise(float *out, const int32_t *in, size_t n, float scale)
{
	dequantise(out, in, n, scale, 1);
}

AVX2 void switchml_quantise_host(int32_t *out, const float *in, size_t n, float scale)
{
	quantise(out, in, n, scale, 0);
}

AVX2 void switchml_dequantise_host(float *out, const int32_t *in, size_t n, float scale)
{
	dequantise(out, in, n, scale, 0);
}
