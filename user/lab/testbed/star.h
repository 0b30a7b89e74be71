/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A star: veth pairs from the aggregator's network namespace to the workers'
 * namespaces, each pair in its own subnet. The aggregator has one address on lo,
 * to which all workers route. So results have the same source for every worker
 * and pass rp_filter.
 */
#ifndef FPISA_TESTBED_STAR_H
#define FPISA_TESTBED_STAR_H

#include <net/if.h>

#include "lab.h"
#include "process.h"

struct star {
	uint32_t address; /* address of the aggregator, in host order like `network` */
	uint32_t network; /* network of link n is NETWORK + 256 n: .1 is the aggregator's end, .2 the worker's */
	uint32_t mtu;
	char port[12]; /* the aggregator's end of link n is PORTn */
	char peer[12]; /* the worker's end is PEERn; "": eth0 of each worker */
};

/* Return the MTU for frames with `payload` bytes of values, at least Ethernet's. */
uint32_t star_mtu(uint32_t payload);

void star_port(char name[IF_NAMESIZE], const struct star *s, uint32_t link);
void star_peer(char name[IF_NAMESIZE], const struct star *s, uint32_t link);

static inline uint32_t star_worker_address(const struct star *s, uint32_t link)
{
	return (s->network + (link << 8)) | 2;
}

/* Add the aggregator's address. star_add_link(): a link into a namespace, given to `ip` as a process id or a path. */
void star_add_address(struct lab_batch *b, const struct star *s);
void star_add_link(struct lab_batch *b, const struct star *s, uint32_t link, const char *netns);

/* Configure a worker's end and the route to the aggregator, in the worker's namespace. */
void star_add_worker(struct lab_batch *b, const struct star *s, uint32_t link);

/* Set up the address, and a link into the namespace of each of these processes. Reports errors. */
int star_make(const struct star *s, const struct process *worker, uint32_t workers);

/* Join in a worker's namespace, and make its end poll. On error *message says why. */
int star_join(const struct star *s, uint32_t link, char *message, size_t size);

#endif
