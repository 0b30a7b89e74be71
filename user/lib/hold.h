/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A handle whose job is not there yet, as a group's is until all ranks have asked for it. Calls are started on it, waited
 * for and told of their end as on any other, and their deadlines hold; their requests wait in the handle. It
 * gets a port, then its job, and joins on the engine's thread; then the requests leave in their order.
 */
#ifndef FPISA_HOLD_H
#define FPISA_HOLD_H

#include <stdint.h>
#include "base/engine.h"
#include "fpisa.h"
#include "fpisa/secret.h"

/*
 * A handle without a transport, for rank `rank` of a job of this type and mode at the aggregator `peer`. 0, or -errno with the
 * message set.
 */
int fpisa_hold_open(struct fpisa **f, const char *peer, uint32_t rank, uint32_t type, uint32_t mode,
		    const struct fpisa_options *options, struct fpisa_engine *engine);

/*
 * It gets a transport from this UDP port to the aggregator (network order), in place of the one that it may have. -EADDRINUSE: another
 * socket has that port. One thread at a time calls it, and no other handle function waits for it.
 */
int fpisa_hold_bind(struct fpisa *f, uint32_t address, uint16_t port, uint16_t local_port);

/* Its job is there: the engine joins it. If that fails the handle has failed. */
void fpisa_hold_join(struct fpisa *f, uint32_t job, const struct fpisa_key *token);

/* The engine's turn, locked. */
void fpisa_hold_turn(struct fpisa *f);

#endif
