/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A stand-in for user/lib/manager/channel.c: the other side's messages come from the target, which takes them from libFuzzer's input.
 * Each message is checked as a channel does it, in both directions.
 */
#ifndef FUZZ_CHANNEL_H
#define FUZZ_CHANNEL_H

#include "input.h"
#include "lib/manager/channel.h"
#include "query/lib/control.h"

/* -- the channel ------------------------------------------------------------------- */

struct fpisa_channel {
	int fd; /* -1: none */
	fpisa_channel_check *check;
	enum fpisa_manager_side from; /* who the other side is */
	/* A content of user/query/lib/control.c that is on its way, in pieces. */
	uint8_t *content;
	uint16_t type;
	size_t at, n;
};

/* The target's: the next message of the other side, or a content by channel_content(). 1, 0: nothing now, or -errno with the message set. */
int channel_next(struct fpisa_channel *c, struct fpisa_manager_message *m);

/* The other side says this; its pieces come one after the other. The first of them goes into *m; 1. */
int channel_content(struct fpisa_channel *c, struct fpisa_manager_message *m, uint16_t type, const void *content,
		    size_t n);

#endif
