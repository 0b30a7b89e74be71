/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * An aggregator for one job in user space: a frame in, its reply out, by the same functions as the datapath
 * (fpisa/frame.h, slot.h, block.h). It has no thread, clock or socket, so tests drive it directly, and
 * transport/mem.c puts a queue a rank around it. Any number of threads may be in fpisa_soft_frame() at once.
 */
#ifndef FPISA_SOFT_H
#define FPISA_SOFT_H

#include <stddef.h>
#include <stdint.h>
#include "fpisa/frame.h"

struct fpisa_soft {
	struct fpisa_job job; /* filled in by the caller before fpisa_soft_init(), except guard and family */
	uint32_t number;      /* the job's number */
	struct fpisa_session session;
	uint32_t next_generation;
	struct fpisa_slot *slot;	   /* 2W versions */
	struct fpisa_exp_block *exponents; /* exponents of each version, one after the other, a chunk's blocks */
	char *mantissas;		   /* the same, block_size bytes a block */
	size_t block_size;
	struct fpisa_nh_key nh;		/* key of the job's token */
	struct fpisa_counters counters; /* mau0..mau8 and fused count frames, as in the datapath */
};

/* Room that a frame's buffer must have, aligned to 4 bytes or better. */
#define FPISA_SOFT_FRAME (FPISA_HDR_LEN + FPISA_MAX_PAYLOAD)

/* Check s->job, draw its key if it has none, and allocate the memory. -EINVAL with the message set, -ENOMEM. */
int fpisa_soft_init(struct fpisa_soft *s);
void fpisa_soft_free(struct fpisa_soft *s);

/*
 * Process one frame of *len bytes from its FPISA header on, sent from saddr:sport to the aggregator's port number
 * `port`, from 0. The frame becomes its reply: *len is its length, *to the ranks that get it (0: no reply).
 */
enum fpisa_verdict fpisa_soft_frame(struct fpisa_soft *s, __be32 saddr, __be16 sport, uint32_t port, void *frame,
				    size_t *len, uint64_t *to);

#endif
