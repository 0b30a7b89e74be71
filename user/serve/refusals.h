/* SPDX-License-Identifier: GPL-2.0-only */
/* Refusals, a line each on stdout, which is the journal's: so many that one can be found, so few that a flood fills nothing. */
#ifndef FPISA_SERVE_REFUSALS_H
#define FPISA_SERVE_REFUSALS_H

#include <linux/types.h>

#include "lib/manager/protocol.h"

#define REFUSALS_AT_ONCE 20
#define REFUSALS_PAUSE_MS 3000 /* after which there may be one more */

/* Zeroed. */
struct refusals {
	__u64 paid_ms;	/* up to when pauses have been turned into lines */
	int said;	/* of REFUSALS_AT_ONCE */
	__u64 left_out; /* since the last line */
};

struct refusal {
	__be32 address;
	const char *key;   /* name, or NAME:ID as the host says it; "": none */
	const char *group; /* that it is in, if the text does not say it; NULL: none */
	enum fpisa_manager_reason reason;
	const char *text; /* as it was told */
};

/* A line, unless there were many, or nobody takes what is written: then the next one says how many are left out. */
void refusals_say(struct refusals *l, __u64 now_ms, const struct refusal *r);

#endif
