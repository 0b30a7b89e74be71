/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A handle whose job does not exist yet, such as a group's job until all ranks have asked for it. Calls can be started
 * on the handle and waited for, and their callbacks and deadlines work as on any other. Their requests wait in the
 * handle. The handle gets a port, then its job, and joins on the engine's thread; then the requests are sent in order.
 */
#ifndef FPISA_HOLD_H
#define FPISA_HOLD_H

#include <stdint.h>
#include "aggregators.h"
#include "base/engine.h"
#include "fpisa.h"
#include "fpisa/secret.h"

/* Parameters of the job that are known before it exists. */
struct fpisa_hold {
	uint32_t rank, type, mode;
	uint32_t elements; /* elements of a chunk, at least */
	uint32_t shards;   /* aggregators */
	const uint32_t *weight;
};

/*
 * Open a handle without a transport; `peer` names its aggregators until it has one. Return 0, or -errno with the
 * message set.
 */
int fpisa_hold_open(struct fpisa **f, const char *peer, const struct fpisa_hold *job,
		    const struct fpisa_options *options, struct fpisa_engine *engine);

/*
 * Give the handle transports from this UDP port to its aggregators, replacing any that it has. -EADDRINUSE: another
 * socket has that port. One thread at a time may call it, and no other handle function may run meanwhile.
 */
int fpisa_hold_bind(struct fpisa *f, const struct fpisa_aggregator *a, uint16_t local_port);

/*
 * Let the engine join the handle's job, which exists under these numbers at its aggregators. If the join fails the
 * handle has failed.
 */
void fpisa_hold_join(struct fpisa *f, const uint32_t *job, const struct fpisa_key *token);

/* Work one turn of the engine, locked. */
void fpisa_hold_turn(struct fpisa *f);

#endif
