// SPDX-License-Identifier: GPL-2.0-only
/* The vectors of a SwitchML worker. vector.h documents the functions. */
#include "switchml.h"
#include "vector.h"

void quantise_exponents(int32_t *exponents, const float *values, size_t chunks, size_t chunk)
{
	for (size_t c = 0; c < chunks; c++)
		exponents[c] = switchml_exponent(values + c * chunk, chunk);
}

void quantise_vector(int32_t *out, const float *values, const int32_t *exponents, size_t chunks, size_t chunk,
		     unsigned int workers, int host_order)
{
	for (size_t c = 0; c < chunks; c++) {
		float scale = switchml_scale(exponents[c], workers);

		if (host_order)
			switchml_quantise_host(out + c * chunk, values + c * chunk, chunk, scale);
		else
			switchml_quantise(out + c * chunk, values + c * chunk, chunk, scale);
	}
}

void dequantise_vector(float *out, const int32_t *in, const int32_t *exponents, size_t chunks, size_t chunk,
		       unsigned int workers, int host_order, unsigned int over)
{
	for (size_t c = 0; c < chunks; c++) {
		float scale = switchml_scale(exponents[c], workers) * (float)over;

		if (host_order)
			switchml_dequantise_host(out + c * chunk, in + c * chunk, chunk, scale);
		else
			switchml_dequantise(out + c * chunk, in + c * chunk, chunk, scale);
	}
}
