/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_JOIN_H
#define FPISA_JOIN_H

#include <stdint.h>

struct fpisa;
struct fpisa_shard;

/*
 * Join the job's next generation, with all other ranks. Return 0, or -errno with the message set. Give up requests in
 * progress first. spent_ns is the part of the deadline that has passed.
 */
int fpisa_join(struct fpisa *f, uint64_t spent_ns);

/*
 * Join in steps, without requests in progress. Call fpisa_join_begin(), then fpisa_join_turn() until it returns 1,
 * which means that all ranks have joined, and then fpisa_join_end(). A turn waits for at most wait_ns. Return 0, or a
 * negative errno with the message set.
 */
int fpisa_join_begin(struct fpisa *f);
int fpisa_join_turn(struct fpisa *f, uint64_t wait_ns);
int fpisa_join_end(struct fpisa *f);
uint64_t fpisa_join_due(const struct fpisa *f); /* return the time of the next HELLO, or UINT64_MAX if none is due */

/* Return the first aggregator that has not admitted this rank, or NULL if all have. */
const struct fpisa_shard *fpisa_joins_at(const struct fpisa *f);

#endif
