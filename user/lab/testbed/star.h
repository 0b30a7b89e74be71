/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A star: veth pairs from the aggregator's network namespace to those of
 * workers, each in a subnet of its own. The aggregator has one address on lo
 * that all of them route to, so results have the same source for everybody
 * and pass rp_filter.
 */
#ifndef FPISA_TESTBED_STAR_H
#define FPISA_TESTBED_STAR_H

#include <net/if.h>

#include "lab.h"
#include "process.h"

struct star {
	uint32_t address; /* the aggregator's, in host order, as the next */
	uint32_t network; /* of link n NETWORK + 256 n: .1 is the aggregator's end, .2 the worker's */
	uint32_t mtu;
	char port[12]; /* the aggregator's end of link n is PORTn */
	char peer[12]; /* the worker's PEERn; "": eth0 of each */
};

/* The MTU that frames with so many bytes of values need; no less than Ethernet's. */
uint32_t star_mtu(uint32_t payload);

void star_port(char name[IF_NAMESIZE], const struct star *s, uint32_t link);
void star_peer(char name[IF_NAMESIZE], const struct star *s, uint32_t link);

static inline uint32_t star_worker_address(const struct star *s, uint32_t link)
{
	return (s->network + (link << 8)) | 2;
}

/* The aggregator's address; a link into a namespace, which `ip` knows by the id of a process or by a path. */
void star_add_address(struct lab_batch *b, const struct star *s);
void star_add_link(struct lab_batch *b, const struct star *s, uint32_t link, const char *netns);

/* Configure, in a worker's namespace, its end and the route to the aggregator. */
void star_add_worker(struct lab_batch *b, const struct star *s, uint32_t link);

/* Set up the address, and a link into the namespace of each of these processes. Reports. */
int star_make(const struct star *s, const struct process *worker, uint32_t workers);

/* Join in a worker's namespace; its end polls then. On error *message says why. */
int star_join(const struct star *s, uint32_t link, char *message, size_t size);

#endif
