// SPDX-License-Identifier: GPL-2.0-only
/* Numbers of generations, which begin with the clock. */
#include <stdbool.h>
#include <time.h>

#include "generation.h"

void generations_seed(struct fpisa_control *control)
{
	__u32 old = __atomic_load_n(&control->next_generation, __ATOMIC_RELAXED), now;
	struct timespec t = {0};

	clock_gettime(CLOCK_REALTIME, &t);
	now = (__u32)t.tv_sec * FPISA_GENERATIONS_S + (__u32)t.tv_nsec / (1000000000 / FPISA_GENERATIONS_S);
	/*
	 * 0 means that the datapath has not been seeded yet. Numbers wrap, so their difference determines which is
	 * later.
	 */
	while ((!old || (__s32)(now - old) > 0) &&
	       !__atomic_compare_exchange_n(&control->next_generation, &old, now, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED))
		;
}
