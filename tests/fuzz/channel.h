/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A stand-in for user/lib/manager/channel.c. The other side's messages come from the target, which takes them from libFuzzer's input.
 * Each message is checked as a channel checks it, in both directions.
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
	enum fpisa_manager_side from; /* role of the other side */
	/* A content of user/query/lib/control.c in transit, in pieces */
	uint8_t *content;
	uint16_t type;
	size_t at, n;
};

/*
 * Get the other side's next message, or a content by channel_content(). The target defines this function. Return 1, 0 if there is
 * nothing now, or -errno with the message set.
 */
int channel_next(struct fpisa_channel *c, struct fpisa_manager_message *m);

/* Send a content from the other side, in pieces one after the other. Put the first piece into *m and return 1. */
int channel_content(struct fpisa_channel *c, struct fpisa_manager_message *m, uint16_t type, const void *content,
		    size_t n);

#endif
