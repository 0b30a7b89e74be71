/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Conversions of floats in a SwitchML worker before and after the network
 * (Sapio et al., NSDI 2021), with AVX2. Find a maximum exponent for each chunk.
 * Scale the floats by a power of two to int32 in network byte order, and
 * convert the sums back. The functions `_host` use this machine's byte order.
 */
#ifndef BENCH_SWITCHML_H
#define BENCH_SWITCHML_H

#include <stddef.h>
#include <stdint.h>

/* Return the largest biased exponent of n floats. In all of these functions n must be a multiple of 8. */
int32_t switchml_exponent(const float *values, size_t n);

/*
 * Return the power of two by which to scale floats with this exponent. The sum of `workers` scaled floats fits an
 * int32, and the int32 is used as fully as possible.
 */
float switchml_scale(int32_t exponent, unsigned int workers);

void switchml_quantise(int32_t *out, const float *in, size_t n, float scale);
void switchml_dequantise(float *out, const int32_t *in, size_t n, float scale);
void switchml_quantise_host(int32_t *out, const float *in, size_t n, float scale);
void switchml_dequantise_host(float *out, const int32_t *in, size_t n, float scale);

#endif
