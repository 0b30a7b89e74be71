/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The planes of digits of fpisa/planes.h over the registers of a chunk, in user space (soft.c), for mode exact. */
#ifndef FPISA_SOFT_PLANES_H
#define FPISA_SOFT_PLANES_H

#include "blocks.h"
#include "fpisa/packed.h"

/* Return the number of limbs of a superaccumulator of the job. */
uint32_t fpisa_soft_limbs(const struct fpisa_job *j);

/*
 * Propagate carries, so that the registers become digits. The value of the registers does not change. Return the planes
 * that are not zero.
 */
struct fpisa_planes fpisa_soft_carry(const struct fpisa_job *j, struct fpisa_soft_registers r, uint32_t blocks);

/* Write a plane of registers after fpisa_soft_carry(): a digit of 4 bytes for each element. */
void fpisa_soft_get_plane(const struct fpisa_job *j, uint32_t plane, void *out, struct fpisa_soft_registers r,
			  uint32_t blocks);

/* Add a plane to the registers. The first plane of a round clears the registers first. */
void fpisa_soft_add_plane(const struct fpisa_job *j, uint32_t plane, const void *in, struct fpisa_soft_registers r,
			  uint32_t blocks, int first);

/*
 * Add the packed blocks in `size` bytes to the registers, for formats other than FP64. The first part of a round clears
 * the registers first.
 */
void fpisa_soft_add_packed(const struct fpisa_job *j, const void *in, size_t size, struct fpisa_soft_registers r,
			   uint32_t blocks, int first);

#endif
