/* SPDX-License-Identifier: GPL-2.0-only */
/* A log with one line for each refusal. */
#ifndef FPISA_SERVE_REFUSALS_H
#define FPISA_SERVE_REFUSALS_H

#include <linux/types.h>

#include "cli/log.h"
#include "lib/manager/protocol.h"

struct refusal {
	struct fpisa_address address;
	const char *key; /* name of the key, or the NAME:ID that the host claims; "": the host has no key */
	/* group of the client, if the text does not contain its name; NULL: the client is not in a group */
	const char *group;
	enum fpisa_manager_reason reason;
	const char *text; /* text that the client received */
};

void refusals_say(struct log *l, __u64 now_ms, const struct refusal *r);

#endif
