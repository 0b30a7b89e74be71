/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_PROGRESS_H
#define FPISA_PROGRESS_H

#include <stdint.h>

struct fpisa;
struct fpisa_shard;
struct fpisa_request;

/*
 * Works for request r: one turn that waits for nothing, or, with `block`,
 * turns until r is done. The time of a request counts from the first call. 0,
 * or -errno: the handle is poisoned. Of a handle with a progress thread r may
 * be NULL for one turn, and be given up or done by others meanwhile.
 */
int fpisa_advance(struct fpisa *f, struct fpisa_request *r, int block);

/* In how many ns the request's deadline wants something to be done; its time counts from the first call of this. */
uint64_t fpisa_time_left(struct fpisa_request *r);

/* When the handle wants its next turn though nothing comes; FPISA_NEVER. */
uint64_t fpisa_next_turn(struct fpisa *f);

/* -ETIMEDOUT, with the message: the aggregator has said nothing for `ns`. */
int fpisa_unanswered(const struct fpisa_shard *s, uint64_t ns);

#endif
