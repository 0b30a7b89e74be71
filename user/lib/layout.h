/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The aggregator of each chunk, for jobs with several aggregators. Chunks have one sequence of numbers over all calls
 * of a generation. In frames, the chunks of each aggregator are numbered from 0. An aggregator of weight w takes w
 * chunks of each period, spread evenly over the period.
 */
#ifndef FPISA_LAYOUT_H
#define FPISA_LAYOUT_H

#include <stdint.h>
#include "base/shards.h"
#include "fpisa/wire.h"

struct fpisa_layout {
	uint32_t shards;
	uint32_t period;		   /* number of chunks of a period, which is the sum of the weights */
	uint32_t weight[FPISA_MAX_SHARDS]; /* weights, divided by their greatest common divisor */
	uint32_t first[FPISA_MAX_SHARDS];  /* index in `place` of each aggregator's first chunk */
	uint64_t digest;		   /* number that differs between different layouts; 0: one aggregator */
	uint16_t *place;  /* places of a period's chunks, in the order of the aggregators; NULL: one aggregator */
	uint16_t *before; /* [shard][0..period]: number of the shard's chunks before this place */
	uint8_t *owner;	  /* shard of each place */
	/* the aggregator on the host of each rank, from 1; 0: none. Reduce-scatters use it (spread.h). */
	uint8_t home[FPISA_MAX_WORKERS];
	int homes; /* some rank has an aggregator on its host */
};

/*
 * Set up a layout for weights of 1 to FPISA_MAX_WEIGHT. Return 0 or -ENOMEM. Call fpisa_layout_free() afterwards, even
 * after an error.
 */
int fpisa_layout_init(struct fpisa_layout *l, uint32_t shards, const uint32_t *weight);
void fpisa_layout_free(struct fpisa_layout *l);

/* Set the homes of `ranks` ranks, which become part of the digest if there are any. */
void fpisa_layout_set_homes(struct fpisa_layout *l, const uint8_t *home, uint32_t ranks);

/* Return the number of the shard's chunk `own` among all chunks. */
uint64_t fpisa_layout_chunk(const struct fpisa_layout *l, uint32_t shard, uint64_t own);

/* Return the number of the shard's chunks before `chunk`. This is also the number of the shard's next chunk. */
uint64_t fpisa_layout_own(const struct fpisa_layout *l, uint32_t shard, uint64_t chunk);

uint32_t fpisa_layout_owner(const struct fpisa_layout *l, uint64_t chunk);

#endif
