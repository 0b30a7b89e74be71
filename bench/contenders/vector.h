/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The arithmetic of a SwitchML worker (switchml.h) over a vector of whole chunks. Python calls these functions in
 * libquantise.so through ctypes. A chunk is a multiple of 8 values. Integers are in network byte order, or in this
 * machine's byte order if `host_order` is set.
 */
#ifndef BENCH_VECTOR_H
#define BENCH_VECTOR_H

#include <stddef.h>
#include <stdint.h>

/* Find each chunk's largest biased exponent. */
void quantise_exponents(int32_t *exponents, const float *values, size_t chunks, size_t chunk);

/*
 * Convert to integers whose sums over `workers` do not overflow. The exponents are the largest of all workers for each
 * chunk.
 */
void quantise_vector(int32_t *out, const float *values, const int32_t *exponents, size_t chunks, size_t chunk,
		     unsigned int workers, int host_order);

/* Convert the sums back to floats and divide them by `over`, which is 1, or the number of workers for averages. */
void dequantise_vector(float *out, const int32_t *in, const int32_t *exponents, size_t chunks, size_t chunk,
		       unsigned int workers, int host_order, unsigned int over);

#endif
