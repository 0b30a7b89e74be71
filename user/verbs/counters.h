/* SPDX-License-Identifier: GPL-2.0-only */
/* The counters of a job by number: first counters[], then verdicts[] */
#ifndef FPISA_VERBS_COUNTERS_H
#define FPISA_VERBS_COUNTERS_H

#include "fpisa/verdict.h"

enum {
#define X(name, text) COUNTER_##name,
	FPISA_COUNTERS(X)
#undef X
		COUNTERS,
	ALL_COUNTERS = COUNTERS + FPISA_VERDICT_COUNT,
};

struct counter {
	const char *name, *text; /* JSON name of a verdict: v_NAME */
};

extern const struct counter counters[COUNTERS], verdicts[FPISA_VERDICT_COUNT];

_Static_assert(sizeof(struct fpisa_counters) == ALL_COUNTERS * sizeof(__u64), "it is the two lists, in order");

static inline __u64 counter_get(const struct fpisa_counters *c, __u32 i)
{
	return ((const __u64 *)c)[i];
}

#endif
