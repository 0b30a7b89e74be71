/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The share of a vector for each aggregator of a cluster, and the shortest time of an all-reduce. All links are
 * full-duplex, and the switch between them can carry all that the links carry.
 */
#ifndef FPISA_SHARES_H
#define FPISA_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARES_MAX 128 /* aggregators to choose from; a call has at most FPISA_MAX_SHARDS */

struct shares_host {
	double bits;	/* rate of its link, in bits a second */
	bool colocated; /* the host is a worker's host too */
	/* the result: */
	double share;	 /* share of the vector */
	uint32_t weight; /* the share as a small whole number; 0: the host takes nothing */
};

enum bound {
	BOUND_WORKERS,	   /* each worker's link has to carry the vector once */
	BOUND_AGGREGATORS, /* the aggregators' links have to receive the vectors of all workers */
	BOUND_HOSTS,	   /* all links, workers' and aggregators', are full */
	BOUND_LEAVES,  /* the link of a rack's leaf has to receive the vectors of the rack's workers, and the result */
	BOUND_UPLINKS, /* each rack's uplink has to carry a vector each way */
	BOUND_ROOT,    /* the roots' links have to receive a vector of each rack */
};

struct shares {
	double seconds_a_bit, ring_seconds_a_bit; /* for a bit of the vector; by a ring of the workers alone */
	enum bound bound;
};

/*
 * Compute shares for `workers` >= 1 whose slowest link has worker_bits, and n aggregators, 1 to SHARES_MAX. Fill in
 * their shares and weights.
 */
struct shares shares_of(uint32_t workers, double worker_bits, struct shares_host *host, uint32_t n);

/* Racks with equal numbers of workers, or nearly so, each with a leaf, below roots with equal shares outside of the racks */
struct racks {
	uint32_t workers, racks; /* number of all workers, at least that of racks; number of racks, at least 1 */
	uint32_t roots;		 /* at least 1 */
	/* rates of each link, in bits a second; aggregator_bits is that of leaves and roots */
	double worker_bits, aggregator_bits, uplink_bits;
};

/* Return the number of workers of the largest rack. */
uint32_t racks_most(const struct racks *r);

/* Compute the shortest time of an all-reduce by the racks' tree, and by a ring that visits one rack after the other. */
struct shares racks_shares(const struct racks *r);

/*
 * Describe what `shares` means for `workers` of worker_bits that send to n aggregators, as a sentence without its full
 * stop. Return false if no warning is needed. This is so if the sum takes less than a twentieth longer than by the
 * workers' links. If all links are full, it is also so if the sum takes no longer than by a ring.
 */
bool shares_warning(const struct shares *s, uint32_t workers, double worker_bits, uint32_t n, char *text, size_t size);

/* Return what bounds the time, and what to do about it, as a sentence without its full stop. */
const char *shares_bound_text(enum bound b);

#endif
