/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * An aggregator for one job in user space. A call processes a frame and returns the reply, by the functions that the
 * datapath uses (fpisa/frame.h, slot.h, block.h). The aggregator has no thread, clock or socket, so tests can call it
 * directly. transport/mem.c adds a queue for each rank. Any number of threads may be in fpisa_soft_frame() at once.
 */
#ifndef FPISA_SOFT_H
#define FPISA_SOFT_H

#include <stddef.h>
#include <stdint.h>
#include "fpisa/tree.h"

/* Send a frame, of `len` bytes from its FPISA header on, to port number `port` of a leaf's parent. No lock is held. */
typedef void fpisa_soft_send_up(void *arg, uint32_t port, const void *frame, size_t len);

struct fpisa_soft {
	struct fpisa_job job; /* filled in by the caller before fpisa_soft_init(), except guard and family */
	uint32_t number;      /* the job's number */
	struct fpisa_session session;
	uint32_t next_generation;
	struct fpisa_slot *slot;	   /* 2W slot versions */
	struct fpisa_exp_block *exponents; /* exponents of the blocks of each version's chunk */
	char *mantissas;		   /* mantissas of the same blocks, with block_size bytes for each block */
	size_t block_size;
	struct fpisa_partials *partials; /* 2W entries, used in a job of leaves */
	struct fpisa_planes *planes;	 /* planes of each sealed version of a leaf */
	struct fpisa_uplink up;		 /* state of a leaf at its parent, under session.lock */
	fpisa_soft_send_up *send_up;
	void *send_up_arg;
	struct fpisa_nh_key nh;		/* NH key of the job's token */
	struct fpisa_counters counters; /* counters; mau0..mau8 and fused count frames, as in the datapath */
};

/* Size of a frame's buffer, which must be aligned to 4 bytes or more. */
#define FPISA_SOFT_FRAME (FPISA_HDR_LEN + FPISA_MAX_PAYLOAD)

/*
 * Check s->job, draw a key for the job if it has none, and allocate memory. Return 0, -EINVAL with the message set, or
 * -ENOMEM.
 */
int fpisa_soft_init(struct fpisa_soft *s);
void fpisa_soft_free(struct fpisa_soft *s);

/*
 * Process one frame of *len bytes from its FPISA header on, sent from this address and port to the aggregator's port number
 * `port`, from 0. `marked` is nonzero if the frame had a congestion mark (ECN CE). Turn the frame into its reply of
 * *len bytes. Set *to to the ranks that get the reply, or to 0 if there is no reply.
 */
enum fpisa_verdict fpisa_soft_frame(struct fpisa_soft *s, const struct fpisa_address *from, __be16 sport, uint32_t port,
				    int marked, void *frame, size_t *len, uint64_t *to);

/* Return the ranks of `to` that get the frame, if it is a RESULT, without its payload. Send fpisa_soft_cut() to them. */
uint64_t fpisa_soft_bare(const struct fpisa_soft *s, const void *frame, uint64_t to);

/* Cut the payload off a RESULT. */
void fpisa_soft_cut(const struct fpisa_soft *s, void *frame, size_t *len);

/*
 * Turn the aggregator into a leaf, which is rank `rank` of job number `job` at a parent. send(arg, ...) sends to the
 * parent. The two jobs must fit together (fpisa_parent_alike()). Call this function after fpisa_soft_init() and before
 * the first frame. Return 0, or -EINVAL with the message set.
 */
int fpisa_soft_set_parent(struct fpisa_soft *s, uint32_t job, uint32_t rank, fpisa_soft_send_up *send, void *arg);

/* Process one frame from the parent, in place, as fpisa_soft_frame() does. */
enum fpisa_verdict fpisa_soft_parent(struct fpisa_soft *s, void *frame, size_t *len, uint64_t *to);

#endif
