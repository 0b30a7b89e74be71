// SPDX-License-Identifier: GPL-2.0-only
/* Shares and times; shares.h has the contract. */
#include <math.h>
#include <stdio.h>

#include "lib/base/shards.h"
#include "shares.h"

#define LEAST 0.005 /* fraction of the largest share below which a share becomes 0 */
#define HALVINGS 200
#define SLOW 1.05 /* a sum that takes this many times as long as the workers' links need is worth a warning */

/*
 * Return the share that a host can take in a time of t seconds for each bit of the vector. A dedicated aggregator
 * receives a share y of N vectors: N y bits by its link R. A worker's host that adds a share x receives the shares of
 * the N - 1 others, and results for the rest: (N - 1) x + 1 - x bits by its link. For equal links this is BytePS's
 * bound (OSDI 2020, section 4).
 */
static double room(const struct shares_host *h, uint32_t workers, double t)
{
	double x;

	if (!h->colocated)
		x = h->bits * t / workers;
	else if (workers <= 2)
		x = h->bits * t >= 1 - 1e-9 ? 1 : 0;
	else
		x = (h->bits * t - 1) / (workers - 2);
	return fmax(x, 0);
}

static double room_of_all(const struct shares_host *h, uint32_t n, uint32_t workers, double t)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += room(&h[i], workers, t);
	return sum;
}

/* Return the shortest time, but at least `least`, in which there is room for the whole vector. */
static double solve(const struct shares_host *h, uint32_t n, uint32_t workers, double least)
{
	double low = least, high = least;

	while (room_of_all(h, n, workers, high) < 1)
		high *= 2;
	for (int i = 0; i < HALVINGS && high > low * (1 + 1e-12); i++) {
		double middle = (low + high) / 2;

		if (room_of_all(h, n, workers, middle) < 1)
			low = middle;
		else
			high = middle;
	}
	return high;
}

/*
 * Set the weights to the smallest whole numbers whose ratios are within 2% of the shares', or to the nearest possible
 * weights.
 */
static void weigh(struct shares_host *h, uint32_t n)
{
	double largest = 0, best = INFINITY;

	for (uint32_t i = 0; i < n; i++)
		largest = fmax(largest, h[i].share);
	for (uint32_t w = 1; w <= FPISA_MAX_WEIGHT && best > 0.02; w++) {
		double off = 0;

		for (uint32_t i = 0; i < n; i++) {
			double exact = w * h[i].share / largest;

			if (h[i].share >= LEAST * largest)
				off = fmax(off, fabs(fmax(1, round(exact)) / exact - 1));
		}
		if (off >= best)
			continue;
		best = off;
		for (uint32_t i = 0; i < n; i++)
			h[i].weight =
				h[i].share < LEAST * largest ? 0 : (uint32_t)fmax(1, round(w * h[i].share / largest));
	}
}

struct shares shares_of(uint32_t workers, double worker_bits, struct shares_host *h, uint32_t n)
{
	double least = 1 / worker_bits, all;
	struct shares s = {.bound = BOUND_AGGREGATORS};

	s.ring_seconds_a_bit = 2.0 * (workers - 1) / workers * least;
	s.seconds_a_bit = solve(h, n, workers, least);
	for (uint32_t i = 0; i < n; i++)
		if (h[i].colocated)
			s.bound = BOUND_HOSTS;
	if (s.seconds_a_bit <= least * (1 + 1e-9))
		s.bound = BOUND_WORKERS;
	all = room_of_all(h, n, workers, s.seconds_a_bit);
	for (uint32_t i = 0; i < n; i++)
		h[i].share = room(&h[i], workers, s.seconds_a_bit) / all;
	weigh(h, n);
	return s;
}

uint32_t racks_most(const struct racks *r)
{
	return (r->workers + r->racks - 1) / r->racks;
}

static void bound_by(struct shares *s, enum bound bound, double seconds_a_bit)
{
	if (seconds_a_bit <= s->seconds_a_bit * (1 + 1e-9))
		return;
	s->bound = bound;
	s->seconds_a_bit = seconds_a_bit;
}

struct shares racks_shares(const struct racks *r)
{
	struct shares s = {.bound = BOUND_WORKERS, .seconds_a_bit = 1 / r->worker_bits};

	s.ring_seconds_a_bit = 2.0 * (r->workers - 1) / r->workers / fmin(r->worker_bits, r->uplink_bits);
	bound_by(&s, BOUND_UPLINKS, 1 / r->uplink_bits);
	bound_by(&s, BOUND_LEAVES, (racks_most(r) + 1) / r->aggregator_bits);
	bound_by(&s, BOUND_ROOT, r->racks / (r->roots * r->aggregator_bits));
	return s;
}

bool shares_warning(const struct shares *s, uint32_t workers, double worker_bits, uint32_t n, char *text, size_t size)
{
	double times = s->seconds_a_bit * worker_bits, rings = s->seconds_a_bit / s->ring_seconds_a_bit;

	if (s->bound == BOUND_WORKERS || times < SLOW || (s->bound == BOUND_HOSTS && rings <= 1))
		return false;
	snprintf(text, size,
		 "%u workers of %.3g Gbit/s send to %u aggregator%s, whose links let each use %.0f%% of its own: a sum takes %.2g times as "
		 "long as by a ring",
		 workers, worker_bits / 1e9, n, n > 1 ? "s" : "", 100 / times, rings);
	return true;
}

const char *shares_bound_text(enum bound b)
{
	switch (b) {
	case BOUND_WORKERS:
		return "each worker's own link; more aggregators do not help";
	case BOUND_AGGREGATORS:
		return "the aggregators' links, through which the vectors of all workers arrive; add aggregators, a faster link, "
		       "or --colocated";
	case BOUND_HOSTS:
		return "the links of all hosts, which are full";
	case BOUND_LEAVES:
		return "the leaves' links, through which the vectors of a rack arrive; give the leaves a faster link";
	case BOUND_UPLINKS:
		return "the racks' uplinks, each of which carries one vector each way; a faster uplink helps";
	case BOUND_ROOT:
		return "the roots' links, through which a vector of each rack arrives; add roots, or a faster link";
	}
	return "";
}
