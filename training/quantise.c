// SPDX-License-Identifier: GPL-2.0-only
/* A SwitchML worker's arithmetic (bench/switchml/switchml.h) over a vector of whole chunks, for cost_rank.py by ctypes. */
#include "switchml/switchml.h"

/* Every chunk's exponent; chunk is a multiple of 8, as in all of these. */
void quantise_exponents(int32_t *exponent, const float *values, size_t chunks, size_t chunk)
{
	for (size_t c = 0; c < chunks; c++)
		exponent[c] = switchml_exponent(values + c * chunk, chunk);
}

/* By the largest exponent that any worker has in a chunk: integers in network byte order. */
void quantise_vector(int32_t *out, const float *values, const int32_t *exponent, size_t chunks, size_t chunk,
		     unsigned int workers)
{
	for (size_t c = 0; c < chunks; c++)
		switchml_quantise(out + c * chunk, values + c * chunk, chunk,
				  switchml_scale(exponent[c], workers));
}

/* Their sum, as floats again. */
void dequantise_vector(float *out, const int32_t *in, const int32_t *exponent, size_t chunks, size_t chunk,
		       unsigned int workers)
{
	for (size_t c = 0; c < chunks; c++)
		switchml_dequantise(out + c * chunk, in + c * chunk, chunk, switchml_scale(exponent[c], workers));
}
