/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A handle whose job does not exist yet, such as a group's job until all ranks have asked for it. A program can start
 * calls on the handle and wait for them. Callbacks and deadlines work as on any other handle. The requests wait in the
 * handle. The handle gets a port and then its job, and joins on the thread of the engine. After the join the requests
 * are sent in order.
 */
#ifndef FPISA_HOLD_H
#define FPISA_HOLD_H

#include <stdint.h>
#include "aggregators.h"
#include "base/engine.h"
#include "fpisa.h"
#include "fpisa/secret.h"
#include "handle.h"

/* Parameters of the job that are known before it exists. */
struct fpisa_hold {
	uint32_t rank, type, mode;
	uint32_t elements; /* lower bound of the elements of a chunk */
	uint32_t shards;   /* number of aggregators */
	const uint32_t *weight;
	const uint8_t *home; /* aggregator on the host of each rank of the group, as in fpisa_layout */
	uint32_t ranks;	     /* number of elements of `home` */
};

/*
 * Open a handle without a transport. Until the handle has a transport, messages use `peer` as the name of the
 * aggregators. Return 0, or -errno with the message set.
 */
int fpisa_hold_open(struct fpisa **f, const char *peer, const struct fpisa_hold *job,
		    const struct fpisa_options *options, struct fpisa_engine *engine);

/*
 * Open transports from this UDP port to the aggregators of the handle, and close the previous transports. Return 0, or
 * -EADDRINUSE if another socket has the port, or another negative errno. Only one thread at a time may call this
 * function, and no other function of the handle may run at the same time.
 */
int fpisa_hold_bind(struct fpisa *f, const struct fpisa_aggregator *a, uint16_t local_port);

/*
 * Let the engine join the job of the handle, which has these numbers at the aggregators. `leaf` has the group's ranks in
 * a tree. If the join fails, the handle fails.
 */
void fpisa_hold_join(struct fpisa *f, const uint32_t *job, const struct fpisa_key *token,
		     const struct fpisa_leaf_ranks *leaf);

/* Run one turn of the engine. The caller holds the lock. */
void fpisa_hold_turn(struct fpisa *f);

#endif
