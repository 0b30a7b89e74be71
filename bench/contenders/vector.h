/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A SwitchML worker's arithmetic (switchml.h) over a vector of whole chunks,
 * for Python by ctypes: libquantise.so. A chunk is a multiple of 8 values.
 * Integers are in network byte order, or with `host_order` in this machine's.
 */
#ifndef BENCH_VECTOR_H
#define BENCH_VECTOR_H

#include <stddef.h>
#include <stdint.h>

/* Find each chunk's largest biased exponent. */
void quantise_exponents(int32_t *exponents, const float *values, size_t chunks, size_t chunk);

/* Convert to integers whose sums over `workers` do not overflow, by the largest exponent of any worker in each chunk. */
void quantise_vector(int32_t *out, const float *values, const int32_t *exponents, size_t chunks, size_t chunk,
		     unsigned int workers, int host_order);

/* Convert the sums back to floats, divided by `over`: 1, or for averages the number of workers. */
void dequantise_vector(float *out, const int32_t *in, const int32_t *exponents, size_t chunks, size_t chunk,
		       unsigned int workers, int host_order, unsigned int over);

#endif
