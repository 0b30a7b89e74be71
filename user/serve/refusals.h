/* SPDX-License-Identifier: GPL-2.0-only */
/* Refusals, a line each in a log. */
#ifndef FPISA_SERVE_REFUSALS_H
#define FPISA_SERVE_REFUSALS_H

#include <linux/types.h>

#include "cli/log.h"
#include "lib/manager/protocol.h"

struct refusal {
	__be32 address;
	const char *key;   /* name, or NAME:ID as the host says it; "": none */
	const char *group; /* that it is in, if the text does not say it; NULL: none */
	enum fpisa_manager_reason reason;
	const char *text; /* as it was told */
};

void refusals_say(struct log *l, __u64 now_ms, const struct refusal *r);

#endif
