/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The distribution of chunks over aggregators; layout.h has the contract. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/tag.h"
#include "fpisa/secret.h"
#include "fpisa/wire.h"
#include "layout.h"

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/*
 * Spread each aggregator's turns by weighted round robin. At each place the credit of every aggregator grows by its
 * weight. The aggregator with the largest credit gets the place, and its credit is reduced by a period.
 */
static void deal(struct fpisa_layout *l)
{
	int credit[FPISA_MAX_SHARDS] = {0};

	for (uint32_t place = 0; place < l->period; place++) {
		uint32_t richest = 0;

		for (uint32_t i = 0; i < l->shards; i++) {
			credit[i] += (int)l->weight[i];
			if (credit[i] > credit[richest])
				richest = i;
		}
		credit[richest] -= (int)l->period;
		l->owner[place] = (uint8_t)richest;
	}
}

/* Fill in the tables of fpisa_layout_chunk() and fpisa_layout_own(). */
static void index_places(struct fpisa_layout *l)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < l->shards; i++) {
		uint16_t *before = l->before + (size_t)i * (l->period + 1);

		l->first[i] = used;
		for (uint32_t at = 0; at < l->period; at++) {
			before[at] = (uint16_t)(used - l->first[i]);
			if (l->owner[at] == i)
				l->place[used++] = (uint16_t)at;
		}
		before[l->period] = (uint16_t)(used - l->first[i]);
	}
}

int fpisa_layout_init(struct fpisa_layout *l, uint32_t shards, const uint32_t *weight)
{
	uint32_t divisor = 0;

	*l = (struct fpisa_layout){.shards = shards, .period = 1, .weight = {1}};
	if (shards == 1)
		return 0;
	for (uint32_t i = 0; i < shards; i++)
		divisor = common_divisor(weight[i], divisor);
	l->period = 0;
	for (uint32_t i = 0; i < shards; i++) {
		l->weight[i] = weight[i] / divisor;
		l->period += l->weight[i];
		l->digest = fpisa_digest_word(l->digest, l->weight[i]);
	}
	l->place = calloc(l->period, sizeof(*l->place));
	l->before = calloc((size_t)shards * (l->period + 1), sizeof(*l->before));
	l->owner = calloc(l->period, sizeof(*l->owner));
	if (!l->place || !l->before || !l->owner)
		return -ENOMEM;
	deal(l);
	index_places(l);
	return 0;
}

void fpisa_layout_set_homes(struct fpisa_layout *l, const uint8_t *home, uint32_t ranks)
{
	for (uint32_t r = 0; r < ranks; r++) {
		l->home[r] = home[r];
		l->homes |= home[r] != 0;
	}
	for (uint32_t r = 0; l->homes && r < ranks; r++)
		l->digest = fpisa_digest_word(l->digest, home[r]);
}

void fpisa_layout_free(struct fpisa_layout *l)
{
	free(l->place);
	free(l->before);
	free(l->owner);
	*l = (struct fpisa_layout){0};
}

uint64_t fpisa_layout_chunk(const struct fpisa_layout *l, uint32_t shard, uint64_t own)
{
	uint32_t weight = l->weight[shard];

	if (l->shards == 1)
		return own;
	return own / weight * l->period + l->place[l->first[shard] + own % weight];
}

uint64_t fpisa_layout_own(const struct fpisa_layout *l, uint32_t shard, uint64_t chunk)
{
	if (l->shards == 1)
		return chunk;
	return chunk / l->period * l->weight[shard] + l->before[(size_t)shard * (l->period + 1) + chunk % l->period];
}

uint32_t fpisa_layout_owner(const struct fpisa_layout *l, uint64_t chunk)
{
	return l->shards == 1 ? 0 : l->owner[chunk % l->period];
}
