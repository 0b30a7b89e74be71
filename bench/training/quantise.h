/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Gradients as a SwitchML worker has them (../switchml/switchml.h), for sums
 * of int32 in this machine's order of bytes: rank.py calls this by ctypes.
 * Values come in chunks of `chunk`, a multiple of 8, of which n is a multiple.
 */
#ifndef BENCH_QUANTISE_H
#define BENCH_QUANTISE_H

#include <stddef.h>
#include <stdint.h>

/* The largest biased exponent of each chunk. */
void quantise_exponents(int32_t *exponents, const float *values, size_t n, size_t chunk);

/* int32 that sums of `workers` do not overflow, by the exponents of all workers' largest. */
void quantise(int32_t *out, const float *in, const int32_t *exponents, size_t n, size_t chunk, unsigned int workers);

/* Averages of their sums. */
void dequantise(float *out, const int32_t *in, const int32_t *exponents, size_t n, size_t chunk, unsigned int workers);

#endif
