/* SPDX-License-Identifier: GPL-2.0-only */
/* A log of refusals, one line each */
#ifndef FPISA_SERVE_REFUSALS_H
#define FPISA_SERVE_REFUSALS_H

#include <linux/types.h>

#include "cli/log.h"
#include "lib/manager/protocol.h"

struct refusal {
	__be32 address;
	const char *key;   /* name, or NAME:ID as the host says it; "": the host has no key */
	const char *group; /* group of the client, if the text does not name it; NULL: the client is not in a group */
	enum fpisa_manager_reason reason;
	const char *text; /* text that the client received */
};

void refusals_say(struct log *l, __u64 now_ms, const struct refusal *r);

#endif
