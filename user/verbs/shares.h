/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What each aggregator of a cluster is to take of a vector, and how long an all-reduce takes at best. All links are full-duplex, and the
 * switch between them carries what they carry.
 */
#ifndef FPISA_SHARES_H
#define FPISA_SHARES_H

#include <stdbool.h>
#include <stdint.h>

struct cluster {
	uint32_t workers, aggregators;	     /* dedicated: on hosts without a worker */
	double worker_bits, aggregator_bits; /* of each link, in bits a second */
	bool colocated;			     /* each worker's host is an aggregator too */
};

enum bound {
	BOUND_WORKERS,	   /* each worker's link has to carry the vector once */
	BOUND_AGGREGATORS, /* the aggregators' links have to take in the vectors of all workers */
	BOUND_HOSTS,	   /* all links, workers' and aggregators', are full */
};

struct shares {
	double aggregator, worker;		   /* of the vector: each dedicated aggregator, each worker's host */
	uint32_t aggregator_weight, worker_weight; /* those as small whole numbers; 0: it takes nothing */
	double seconds_a_bit, ring_seconds_a_bit;  /* of the vector; a ring of the workers alone */
	enum bound bound;
};

struct shares shares_of(const struct cluster *c);

#endif
