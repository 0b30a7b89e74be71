// SPDX-License-Identifier: GPL-2.0-only
/* Gradients as a SwitchML worker has them; quantise.h has the contracts. */
#include <immintrin.h>
#include "../switchml/switchml.h"
#include "quantise.h"

#define AVX2 __attribute__((target("avx2")))
#define LANES 8

void quantise_exponents(int32_t *exponents, const float *values, size_t n, size_t chunk)
{
	for (size_t i = 0; i < n; i += chunk)
		*exponents++ = switchml_exponent(values + i, chunk);
}

AVX2 void quantise(int32_t *out, const float *in, const int32_t *exponents, size_t n, size_t chunk, unsigned int workers)
{
	for (size_t i = 0; i < n; i += chunk) {
		const __m256 factor = _mm256_set1_ps(switchml_scale(*exponents++, workers));

		for (size_t k = i; k < i + chunk; k += LANES)
			_mm256_storeu_si256((__m256i *)(out + k),
					    _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(in + k), factor)));
	}
}

AVX2 void dequantise(float *out, const int32_t *in, const int32_t *exponents, size_t n, size_t chunk, unsigned int workers)
{
	for (size_t i = 0; i < n; i += chunk) {
		const __m256 factor = _mm256_set1_ps(1 / (switchml_scale(*exponents++, workers) * (float)workers));

		for (size_t k = i; k < i + chunk; k += LANES)
			_mm256_storeu_ps(out + k,
					 _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)(in + k))), factor));
	}
}
