/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Conversions of floats in a SwitchML worker, before and after the network
 * (Sapio et al., NSDI 2021): a maximum exponent for each chunk, floats scaled
 * by a power of two to int32 in network byte order, or in this machine's
 * (`_host`), and back. AVX2.
 */
#ifndef BENCH_SWITCHML_H
#define BENCH_SWITCHML_H

#include <stddef.h>
#include <stdint.h>

/* Return the largest biased exponent of n floats; n is a multiple of 8 in all of these functions. */
int32_t switchml_exponent(const float *values, size_t n);

/* Return the power of two by which floats of an exponent fill an int32 that holds the sum of `workers` such floats. */
float switchml_scale(int32_t exponent, unsigned int workers);

void switchml_quantise(int32_t *out, const float *in, size_t n, float scale);
void switchml_dequantise(float *out, const int32_t *in, size_t n, float scale);
void switchml_quantise_host(int32_t *out, const float *in, size_t n, float scale);
void switchml_dequantise_host(float *out, const int32_t *in, size_t n, float scale);

#endif
