/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_PROGRESS_H
#define FPISA_PROGRESS_H

#include <stdint.h>

struct fpisa;
struct fpisa_shard;
struct fpisa_request;

/*
 * Work for request r: one turn that does not wait, or, with `block`, turns until r is done. The time of a request
 * counts from the first call. Return 0, or -errno if the handle has failed. If the handle has a progress thread, r may
 * be NULL for one turn, and other threads may give r up or complete it meanwhile.
 */
int fpisa_advance(struct fpisa *f, struct fpisa_request *r, int block);

/*
 * Return the time, in ns, until the request next needs a turn because of its deadline; its time counts from the first
 * call.
 */
uint64_t fpisa_time_left(struct fpisa_request *r);

/* Return when the handle needs its next turn if no frame comes; FPISA_NEVER. */
uint64_t fpisa_next_turn(struct fpisa *f);

/* Return -ETIMEDOUT, with the message: the aggregator has been silent for `ns`. */
int fpisa_unanswered(const struct fpisa_shard *s, uint64_t ns);

#endif
