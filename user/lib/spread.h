/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The order of a reduce-scatter's chunks. The layout gives each aggregator its share of the call's chunk numbers. In a
 * reduce-scatter, an aggregator gets the chunks that the ranks on its host keep first, so the results of these chunks
 * stay on the host. If it has fewer numbers, or its ranks keep fewer chunks, the remaining chunks fill the remaining
 * numbers. So the shares of the aggregators are those of an all-reduce.
 */
#ifndef FPISA_SPREAD_H
#define FPISA_SPREAD_H

#include <stdint.h>
#include "fpisa/wire.h"
#include "layout.h"

/* Chunks that are consecutive in the call and among the chunks of one aggregator. */
struct fpisa_spread_range {
	uint64_t own;	   /* number of the first chunk among the chunks of the aggregator */
	uint64_t position; /* its place in the call, from 0 */
};

struct fpisa_spread {
	uint32_t first[FPISA_MAX_SHARDS + 1]; /* index of the first range of each aggregator, and number of all ranges */
	/* Each rank's chunks are up to two ranges, and an aggregator may divide the second one. */
	struct fpisa_spread_range range[2 * FPISA_MAX_WORKERS + FPISA_MAX_SHARDS];
};

/*
 * Give the chunk numbers from `first` on to the chunks of a call. The chunks of rank r are those from end[r - 1], or 0, to
 * end[r] - 1. The layout has homes.
 */
void fpisa_spread_init(struct fpisa_spread *s, const struct fpisa_layout *l, uint64_t first, const uint64_t *end,
		       uint32_t ranks);

/* Return the place in the call, from 0, of the shard's chunk `own`, which must be a chunk of the call. */
uint64_t fpisa_spread_position(const struct fpisa_spread *s, uint32_t shard, uint64_t own);

#endif
