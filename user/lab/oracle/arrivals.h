/* SPDX-License-Identifier: GPL-2.0-only */
/* Decode the order of arrival that a result reports. */
#ifndef FPISA_ARRIVALS_H
#define FPISA_ARRIVALS_H

#include <stdbool.h>
#include <stdint.h>

#include "fpisa/wire.h"

/*
 * Set rank_at[i] to the i-th rank to arrive among the contributors `ranks`.
 * `order` has 4 bits for each rank. Return false if `order` is not an order of
 * these ranks.
 */
static inline bool arrivals(uint64_t order, uint64_t ranks, uint32_t rank_at[FPISA_ORDER_WORKERS])
{
	int n = __builtin_popcountll(ranks);
	uint32_t seen = 0;

	if (ranks >> FPISA_ORDER_WORKERS)
		return false;
	for (uint32_t r = 0; r < FPISA_ORDER_WORKERS; r++) {
		uint32_t position = order >> (4 * r) & 15;

		if (!(ranks >> r & 1))
			continue;
		seen |= 1u << position;
		rank_at[position] = r;
	}
	return seen == (1u << n) - 1;
}

#endif
