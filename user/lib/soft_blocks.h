/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Compositions of block.h over a whole payload, for user space (soft.c). FP32.
 */
#ifndef FPISA_SOFT_BLOCKS_H
#define FPISA_SOFT_BLOCKS_H

#include "soft.h"

/* Adds a payload to the registers, or sets them when it is the first. Returns the events, format.h. */
uint64_t fpisa_soft_add_fused(const struct fpisa_word_block *in, struct fpisa_soft_registers *r,
			      uint32_t blocks, enum fpisa_mode mode, int first);
uint64_t fpisa_soft_add_staged(const struct fpisa_word_block *in, struct fpisa_soft_registers *r,
			       uint32_t blocks, enum fpisa_mode mode, int first);

/* Reads the registers out as packed values. Returns the result flags. */
uint32_t fpisa_soft_read_fused(struct fpisa_word_block *out, const struct fpisa_soft_registers *r,
			       uint32_t blocks, enum fpisa_rounding rounding);
uint32_t fpisa_soft_read_staged(struct fpisa_word_block *out, const struct fpisa_soft_registers *r,
				uint32_t blocks, enum fpisa_rounding rounding);

#endif
