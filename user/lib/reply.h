/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_REPLY_H
#define FPISA_REPLY_H

#include <stdint.h>
#include "fpisa/wire.h"
#include "transport/transport.h"

struct fpisa_shard;

/* The header of a whole, intact frame that is about our job; else NULL, counted as bad. */
const struct fpisa_hdr *fpisa_reply_check(struct fpisa_shard *s, const struct fpisa_in *in);

/*
 * Takes one frame in. Whatever is not about a chunk in flight is counted and
 * forgotten. -errno when it is the end of this generation for us: the handle
 * is poisoned.
 */
int fpisa_reply_take(struct fpisa_shard *s, const struct fpisa_in *in, uint64_t now);

#endif
