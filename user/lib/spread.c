/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The order of a reduce-scatter's chunks; spread.h has the contract. */
#include <stddef.h>
#include "spread.h"

/* The chunks of each rank, and how many of them its home takes. The home takes the first ones. */
struct chunks {
	uint32_t ranks;
	const uint64_t *end;
	uint64_t taken[FPISA_MAX_WORKERS];
};

static uint64_t begin_of(const struct chunks *c, uint32_t rank)
{
	return rank ? c->end[rank - 1] : 0;
}

/* The first chunk that no home takes and no aggregator has yet. `rank` is c->ranks if no such chunks are left. */
struct rest {
	uint32_t rank;
	uint64_t at;
};

static void begin_rank(struct rest *rest, const struct chunks *c, uint32_t rank)
{
	while (rank < c->ranks && begin_of(c, rank) + c->taken[rank] == c->end[rank])
		rank++;
	rest->rank = rank;
	rest->at = rank < c->ranks ? begin_of(c, rank) + c->taken[rank] : 0;
}

/* Append a range of n chunks to the ranges of the last shard. Move *own behind the range. */
static void append(struct fpisa_spread *s, uint32_t *used, uint64_t *own, uint64_t position, uint64_t n)
{
	s->range[(*used)++] = (struct fpisa_spread_range){*own, position};
	*own += n;
}

/* Let homes take the chunks of their ranks, as long as they have numbers left. */
static void take(struct chunks *c, const struct fpisa_layout *l, uint64_t *left)
{
	for (uint32_t r = 0; r < c->ranks; r++) {
		const uint64_t wanted = c->end[r] - begin_of(c, r);
		uint64_t *room = l->home[r] ? &left[l->home[r] - 1] : NULL;

		c->taken[r] = !room ? 0 : wanted < *room ? wanted : *room;
		if (room)
			*room -= c->taken[r];
	}
}

void fpisa_spread_init(struct fpisa_spread *s, const struct fpisa_layout *l, uint64_t first, const uint64_t *end,
		       uint32_t ranks)
{
	struct chunks c = {.ranks = ranks, .end = end};
	uint64_t left[FPISA_MAX_SHARDS];
	uint32_t used = 0;
	struct rest rest;

	for (uint32_t i = 0; i < l->shards; i++)
		left[i] = fpisa_layout_own(l, i, first + end[ranks - 1]) - fpisa_layout_own(l, i, first);
	take(&c, l, left);
	begin_rank(&rest, &c, 0);
	for (uint32_t i = 0; i < l->shards; i++) {
		uint64_t own = fpisa_layout_own(l, i, first);

		s->first[i] = used;
		for (uint32_t r = 0; r < ranks; r++)
			if (l->home[r] == i + 1 && c.taken[r])
				append(s, &used, &own, begin_of(&c, r), c.taken[r]);
		while (left[i]) {
			const uint64_t there = end[rest.rank] - rest.at, n = there < left[i] ? there : left[i];

			append(s, &used, &own, rest.at, n);
			left[i] -= n;
			rest.at += n;
			if (rest.at == end[rest.rank])
				begin_rank(&rest, &c, rest.rank + 1);
		}
	}
	s->first[l->shards] = used;
}

uint64_t fpisa_spread_position(const struct fpisa_spread *s, uint32_t shard, uint64_t own)
{
	uint32_t i = s->first[shard];

	while (i + 1 < s->first[shard + 1] && s->range[i + 1].own <= own)
		i++;
	return s->range[i].position + (own - s->range[i].own);
}
