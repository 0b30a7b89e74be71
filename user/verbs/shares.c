// SPDX-License-Identifier: GPL-2.0-only
/* Shares and times; shares.h has the contract. */
#include <math.h>
#include "lib/layout.h"
#include "shares.h"

/*
 * A dedicated aggregator takes in a share y of N vectors: N y bits by its link R. A worker's host that adds a share x takes in that of
 * the N - 1 others, and results for the rest: (N - 1) x + 1 - x bits by its link B. All end at the same time T where no link is idle, and the
 * shares make up the vector: N x + K y = 1. For R = B this is BytePS's bound (OSDI 2020, section 4).
 */
static void solve(const struct cluster *c, struct shares *s)
{
	double n = c->workers, b = c->worker_bits, all = c->aggregators * c->aggregator_bits, least = 1 / b;

	s->seconds_a_bit = c->colocated ? 2 * (n - 1) / (n * b + (n - 2) * all / n) : n / all;
	s->bound = c->colocated ? BOUND_HOSTS : BOUND_AGGREGATORS;
	if (s->seconds_a_bit <= least * (1 + 1e-9)) {
		s->seconds_a_bit = least;
		s->bound = BOUND_WORKERS;
	}
	if (!c->colocated || all * least / n >= 1)
		s->aggregator = 1.0 / c->aggregators;
	else if (c->aggregators)
		s->aggregator = s->seconds_a_bit * c->aggregator_bits / n;
	s->worker = c->colocated ? (1 - c->aggregators * s->aggregator) / n : 0;
}

/* The smallest whole numbers whose ratio is within 2% of the shares', or the nearest that weights can have. */
static void weigh(struct shares *s)
{
	double larger = fmax(s->aggregator, s->worker), smaller = fmin(s->aggregator, s->worker), best = INFINITY;
	uint32_t big = 1, small = 0;

	if (smaller > 0)
		for (uint32_t w = 1; w <= FPISA_MAX_WEIGHT && best > 0.02; w++) {
			double other = fmax(1, round(w * smaller / larger)),
			       off = fabs(other * larger / (w * smaller) - 1);

			if (off >= best)
				continue;
			best = off;
			big = w;
			small = (uint32_t)other;
		}
	s->aggregator_weight = s->aggregator == larger ? big : small;
	s->worker_weight = s->worker == larger ? big : small;
}

struct shares shares_of(const struct cluster *c)
{
	struct shares s = {0};

	solve(c, &s);
	weigh(&s);
	s.ring_seconds_a_bit = 2.0 * (c->workers - 1) / c->workers / c->worker_bits;
	return s;
}
