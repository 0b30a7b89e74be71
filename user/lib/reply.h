/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_REPLY_H
#define FPISA_REPLY_H

#include <stdint.h>
#include "fpisa/wire.h"
#include "transport/transport.h"

struct fpisa_shard;

/* Return the header of a complete and valid frame of the handle's job. Count any other frame as bad and return NULL. */
const struct fpisa_hdr *fpisa_reply_check(struct fpisa_shard *s, const struct fpisa_in *in);

/*
 * Handle one frame. Frames that do not belong to a chunk in flight are counted and dropped. Return 0, or a negative
 * errno if this generation has ended for this rank, so that the handle has failed.
 */
int fpisa_reply_take(struct fpisa_shard *s, const struct fpisa_in *in, uint64_t now);

#endif
