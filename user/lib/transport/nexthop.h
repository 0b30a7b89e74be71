/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The route of a frame to an address, as the kernel would send it. */
#ifndef FPISA_NEXTHOP_H
#define FPISA_NEXTHOP_H

#include <net/if.h>
#include <stdint.h>
#include "fpisa/address.h"

struct fpisa_route {
	char dev[IF_NAMESIZE];
	uint32_t ifindex, mtu;
	struct fpisa_address source; /* source address on this route */
	uint8_t from[6], to[6];	     /* Ethernet addresses of the interface and of the next hop */
};

/*
 * Find the route to `address`.
 *
 * -ENETUNREACH	no route
 * -EOPNOTSUPP	the route does not use Ethernet, because the address is this host's or the interface is a tunnel
 * -EAGAIN	only the next hop's Ethernet address is unknown; the kernel resolves it when a packet is sent
 */
int fpisa_nexthop(struct fpisa_route *h, const struct fpisa_address *address);

#endif
