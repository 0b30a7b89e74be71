/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_REPLY_H
#define FPISA_REPLY_H

#include <stdint.h>
#include "fpisa/wire.h"
#include "transport/transport.h"

struct fpisa_shard;

/* Return the header of a whole, intact frame that belongs to our job; else NULL, counted as bad. */
const struct fpisa_hdr *fpisa_reply_check(struct fpisa_shard *s, const struct fpisa_in *in);

/*
 * Take one frame in. Frames that do not belong to a chunk in flight are counted and forgotten. -errno if this
 * generation has ended for this rank: the handle is poisoned.
 */
int fpisa_reply_take(struct fpisa_shard *s, const struct fpisa_in *in, uint64_t now);

#endif
