/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_PROGRESS_H
#define FPISA_PROGRESS_H

#include <stdint.h>

struct fpisa;
struct fpisa_shard;
struct fpisa_request;

/*
 * Run one turn for request r without waiting or, with `block`, run turns until r is done. The time of a request counts
 * from the first call of this function for the request. Return 0, or a negative errno if the handle has failed. If the
 * handle has a progress thread, r may be NULL for one turn, and other threads may give up or complete r during the
 * call.
 */
int fpisa_advance(struct fpisa *f, struct fpisa_request *r, int block);

/*
 * Return the time, in ns, until the request needs a turn because of its deadline. The time of the request counts from
 * the first call of fpisa_advance().
 */
uint64_t fpisa_time_left(struct fpisa_request *r);

/*
 * Return the time at which the handle needs its next turn if no frame arrives. FPISA_NEVER means that the handle needs
 * none.
 */
uint64_t fpisa_next_turn(struct fpisa *f);

/* Set the message that the aggregator has been silent for `ns`. Return -ETIMEDOUT. */
int fpisa_unanswered(const struct fpisa_shard *s, uint64_t ns);

#endif
