// SPDX-License-Identifier: GPL-2.0-only
/* Names and sentences of the counters, from the lists in fpisa/verdict.h */
#include "counters.h"

const struct counter counters[] = {
#define X(name, text) {#name, text},
	FPISA_COUNTERS(X)
#undef X
};

const struct counter verdicts[] = {
#define X(name, class, text) {"v_" #name, text},
	FPISA_VERDICTS(X)
#undef X
};
