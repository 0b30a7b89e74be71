/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A stand-in for user/lib/manager/channel.c. The target supplies the other side's messages from libFuzzer's input. Each
 * message is checked in both directions, as a channel checks it.
 */
#ifndef FUZZ_CHANNEL_H
#define FUZZ_CHANNEL_H

#include "input.h"
#include "lib/manager/channel.h"
#include "query/lib/control.h"

/* -- the channel ------------------------------------------------------------------- */

struct fpisa_channel {
	int fd; /* -1: no descriptor */
	fpisa_channel_check *check;
	enum fpisa_manager_side from; /* role of the other side */
	/* The content that user/query/lib/control.c is transferring in pieces */
	uint8_t *content;
	uint16_t type;
	size_t at, n;
};

/*
 * Get the other side's next message, or a content by channel_content(). The target defines this function. Return 1 for
 * a message, 0 if there is no message, or -errno with the message set.
 */
int channel_next(struct fpisa_channel *c, struct fpisa_manager_message *m);

/* Send a content from the other side, in consecutive pieces. Put the first piece into *m and return 1. */
int channel_content(struct fpisa_channel *c, struct fpisa_manager_message *m, uint16_t type, const void *content,
		    size_t n);

#endif
