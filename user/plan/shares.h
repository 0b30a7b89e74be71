/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The share of a vector for each aggregator of a cluster, and the least time of an all-reduce. All links are full-duplex, and the
 * switch between them carries all that they carry.
 */
#ifndef FPISA_SHARES_H
#define FPISA_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARES_MAX 128 /* aggregators to choose from; a call has at most FPISA_MAX_SHARDS */

struct shares_host {
	double bits;	/* of its link, in bits a second */
	bool colocated; /* it is a worker's host too */
	/* what comes out: */
	double share;	 /* of the vector */
	uint32_t weight; /* that as a small whole number; 0: it takes nothing */
};

enum bound {
	BOUND_WORKERS,	   /* each worker's link has to carry the vector once */
	BOUND_AGGREGATORS, /* the aggregators' links have to take in the vectors of all workers */
	BOUND_HOSTS,	   /* all links, workers' and aggregators', are full */
};

struct shares {
	double seconds_a_bit, ring_seconds_a_bit; /* of the vector; a ring of the workers alone */
	enum bound bound;
};

/* Compute shares for `workers` >= 1 whose slowest link has worker_bits, and n aggregators, 1 to SHARES_MAX; fill in their shares and weights. */
struct shares shares_of(uint32_t workers, double worker_bits, struct shares_host *host, uint32_t n);

/*
 * Say what `shares` means for `workers` of worker_bits that send to n aggregators, as a sentence without its full stop. False: there is nothing to say:
 * the time of the workers' links is exceeded by less than a twentieth and, where all links are full, so is a ring's time.
 */
bool shares_warning(const struct shares *s, uint32_t workers, double worker_bits, uint32_t n, char *text, size_t size);

/* Say what bounds the time, and what to do about it, as a sentence without its full stop. */
const char *shares_bound_text(enum bound b);

#endif
