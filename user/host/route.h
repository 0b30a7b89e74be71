/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Routes to a worker, its neighbour entry, and the MTU of an interface, read from the kernel. These functions print no
 * errors.
 */
#ifndef FPISA_ROUTE_H
#define FPISA_ROUTE_H

#include <stdbool.h>
#include <linux/types.h>

#include "fpisa/address.h"

struct neighbour {
	__u32 ifindex;
	__u8 family;	  /* AF_INET or AF_INET6 */
	__u8 address[16]; /* network order; IPv4 uses the first four bytes */
};

struct route {
	__u32 ifindex;
	struct neighbour next;	     /* first destination of frames: a router, or the destination itself */
	struct fpisa_address source; /* source address that the kernel would select; none if it has none */
	bool local;		     /* the destination is this machine */
	bool broadcast;		     /* the destination is all machines of a network */
	__u32 mtu;		     /* MTU of the route, in place of the interface's; 0: it has none */
	bool mtu_learned;	     /* the MTU comes from an ICMP message, which any host can forge */
};

/*
 * Find the route to `to` that the kernel selects by its rules and, among several next hops, by a hash. The route starts
 * at `from` if that is an address of this machine, and uses interface `ifindex` if that is not 0. Return 0 or -errno,
 * such as -ENETUNREACH.
 */
int route_get(struct fpisa_address to, struct fpisa_address from, __u32 ifindex, struct route *r);

/* Write the address as that of a neighbour, without its interface. */
void neighbour_of(struct fpisa_address address, struct neighbour *n);

/*
 * Make the kernel keep a neighbour resolved (`managed`), with the protocol number of FPISA, by which the entry is
 * recognised later. Do not change an entry of another origin, which is permanent, learned by a daemon, managed, or has
 * another protocol.
 */
int neighbour_manage(const struct neighbour *n);

/*
 * Return the index of the bridge's port towards a neighbour on the bridge's network, from the neighbour's entry and the
 * bridge's forwarding table. Return 0 if the port is not known, for example because the neighbour has been silent.
 */
__u32 bridge_port_towards(__u32 bridge, const struct neighbour *to);

/* Undo neighbour_manage() for all entries on an interface, except those for which keep() returns true. */
int neighbours_release(__u32 ifindex, bool (*keep)(const struct neighbour *n, void *arg), void *arg);

/* Return whether this is an address of this machine. Set *vrf to the index of the VRF that has the address, or to 0. */
bool address_here(struct fpisa_address address, __u32 *vrf);

/* Return the MTU of an interface, or -errno. */
int interface_mtu(const char *dev);

#endif
