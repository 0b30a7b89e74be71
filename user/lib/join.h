/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_JOIN_H
#define FPISA_JOIN_H

#include <stdint.h>

struct fpisa;
struct fpisa_shard;

/*
 * Join the job's next generation, with all other ranks. Return 0, or -errno with the message set. Requests in progress
 * are given up first. spent_ns of the deadline have passed.
 */
int fpisa_join(struct fpisa *f, uint64_t spent_ns);

/*
 * Join in parts, without requests to give up: begin; turns, which wait for at most wait_ns each, until one returns 1:
 * all ranks have joined; end. Return 0, or -errno with the message set.
 */
int fpisa_join_begin(struct fpisa *f);
int fpisa_join_turn(struct fpisa *f, uint64_t wait_ns);
int fpisa_join_end(struct fpisa *f);
uint64_t fpisa_join_due(const struct fpisa *f); /* when the next HELLO is due; UINT64_MAX: none is due */

/* Return the first aggregator that has not admitted this rank; NULL if all have. */
const struct fpisa_shard *fpisa_joins_at(const struct fpisa *f);

#endif
