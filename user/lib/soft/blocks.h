/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Compositions of block.h and exact.h over a whole payload, for user space (soft.c). They cover every family of
 * programs of the datapath, fused and staged.
 */
#ifndef FPISA_SOFT_BLOCKS_H
#define FPISA_SOFT_BLOCKS_H

#include <stddef.h>
#include <stdint.h>
#include "fpisa/job.h"
#include "fpisa/mx.h"

/* The registers of one slot version; element i is in block i / 32. */
struct fpisa_soft_registers {
	struct fpisa_exp_block *e;
	void *m; /* mantissas of 32 or 64 bits, or superaccumulators; 8-byte aligned */
};

/* Return the size in bytes of m for one block, or 0 if no family has the format and mode of the job. */
size_t fpisa_soft_block_size(const struct fpisa_job *j);

/*
 * Add a payload to the registers by operation `op`, or set them if the contribution is the first. A big-endian payload
 * is swapped in place. Return the events (fpisa/format.h).
 */
uint64_t fpisa_soft_add(const struct fpisa_job *j, uint32_t op, void *in, struct fpisa_soft_registers r,
			uint32_t blocks, int first);

/* Read out the registers as packed values. Return the result flags. */
uint32_t fpisa_soft_read(const struct fpisa_job *j, const struct fpisa_final *fin, void *out,
			 struct fpisa_soft_registers r, uint32_t blocks);

#endif
