/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The aggregator of each chunk, for jobs with several aggregators. Chunks are numbered through all calls of a
 * generation; each aggregator numbers its own chunks from 0, as on the wire. An aggregator of weight w takes w chunks
 * of each period, spread evenly over it.
 */
#ifndef FPISA_LAYOUT_H
#define FPISA_LAYOUT_H

#include <stdint.h>
#include "base/shards.h"

struct fpisa_layout {
	uint32_t shards;
	uint32_t period;		   /* chunks; the sum of the weights */
	uint32_t weight[FPISA_MAX_SHARDS]; /* weights, divided by their greatest common divisor */
	uint32_t first[FPISA_MAX_SHARDS];  /* where the chunks of each aggregator begin in `place` */
	uint64_t digest;		   /* differs between different layouts; 0: one aggregator */
	uint16_t *place;  /* places of a period's chunks, in the order of the aggregators; NULL: one aggregator */
	uint16_t *before; /* [shard][0..period]: number of the shard's chunks before that place */
	uint8_t *owner;	  /* shard of each place */
};

/*
 * Set up a layout for weights of 1 to FPISA_MAX_WEIGHT. Return 0 or -ENOMEM. Call fpisa_layout_free() afterwards, even
 * after an error.
 */
int fpisa_layout_init(struct fpisa_layout *l, uint32_t shards, const uint32_t *weight);
void fpisa_layout_free(struct fpisa_layout *l);

/* Return the number of the shard's chunk `own` among all chunks. */
uint64_t fpisa_layout_chunk(const struct fpisa_layout *l, uint32_t shard, uint64_t own);

/* Return the number of the shard's chunks before `chunk`. The shard's next chunk has that number. */
uint64_t fpisa_layout_own(const struct fpisa_layout *l, uint32_t shard, uint64_t chunk);

uint32_t fpisa_layout_owner(const struct fpisa_layout *l, uint64_t chunk);

#endif
