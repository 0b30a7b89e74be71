/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Links in a star topology. A veth pair connects the aggregator's network
 * namespace with each worker's namespace. Each pair has its own subnet. The
 * aggregator has one address on lo, to which all workers have a route. So
 * results have the same source address for every worker and pass rp_filter.
 */
#ifndef FPISA_TESTBED_STAR_H
#define FPISA_TESTBED_STAR_H

#include <arpa/inet.h>
#include <net/if.h>
#include <stdbool.h>

#include "fpisa/address.h"
#include "lab.h"
#include "process.h"

struct star {
	uint32_t address; /* address of the aggregator in host byte order, like `network` */
	/* the network of link n is NETWORK + 256 n; .1 is the aggregator's end and .2 the worker's end */
	uint32_t network;
	uint32_t mtu;
	bool ipv6;     /* each end also has the IPv6 address star_ipv6() of its IPv4 address */
	char port[12]; /* the aggregator's end of link n is named PORTn */
	char peer[12]; /* the worker's end is named PEERn; "" means eth0 for each worker */
};

/* Return the MTU for frames with `payload` bytes of values. The MTU is at least that of Ethernet. */
uint32_t star_mtu(uint32_t payload);

void star_port(char name[IF_NAMESIZE], const struct star *s, uint32_t link);
void star_peer(char name[IF_NAMESIZE], const struct star *s, uint32_t link);

static inline uint32_t star_worker_address(const struct star *s, uint32_t link)
{
	return (s->network + (link << 8)) | 2;
}

/* Return fd46:5053::A, where A is the IPv4 address in host byte order. */
static inline struct fpisa_address star_ipv6(uint32_t address)
{
	return (struct fpisa_address){.w = {htonl(0xfd465053u), 0, 0, htonl(address)}};
}

/*
 * Add the address of the aggregator. star_add_link() adds a link into a namespace, which `ip` gets as a process id or a
 * path.
 */
void star_add_address(struct lab_batch *b, const struct star *s);
void star_add_link(struct lab_batch *b, const struct star *s, uint32_t link, const char *netns);

/* Configure a worker's end and the route to the aggregator, in the worker's namespace. */
void star_add_worker(struct lab_batch *b, const struct star *s, uint32_t link);

/* Set up the address, and a link into the namespace of each of these processes. Report errors. */
int star_make(const struct star *s, const struct process *worker, uint32_t workers);

/* Join in a worker's namespace, and make the worker's end poll. On failure *message has the reason. */
int star_join(const struct star *s, uint32_t link, char *message, size_t size);

#endif
