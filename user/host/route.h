/* SPDX-License-Identifier: GPL-2.0-only */
/* Routes to a worker, its neighbour entry, and an interface's MTU, asked of the kernel. Nothing here reports. */
#ifndef FPISA_ROUTE_H
#define FPISA_ROUTE_H

#include <stdbool.h>
#include <linux/types.h>

struct neighbour {
	__u32 ifindex;
	__u8 family;	  /* AF_INET or AF_INET6 */
	__u8 address[16]; /* network order; of IPv4, the first four bytes */
};

struct route {
	__u32 ifindex;
	struct neighbour next; /* whom frames go to first: a router, or the destination itself */
	__be32 source;	       /* address that the kernel would send from if none was given; 0: none */
	bool local;	       /* the destination is this machine */
	bool broadcast;	       /* it is all machines of a network */
};

/*
 * The route to `to`, from `from` if that is this machine's, as rules and hashes over several next hops choose it;
 * through interface `ifindex` if that is not 0. -ENETUNREACH and the like if there is none.
 */
int route_get(__be32 to, __be32 from, __u32 ifindex, struct route *r);

/*
 * Have the kernel keep a neighbour resolved (`managed`), under a protocol number of ours by which the entry is recognised. An entry
 * that somebody else wrote stays as it is: permanent, learned by a daemon, managed, or of another protocol.
 */
int neighbour_manage(const struct neighbour *n);

/* Undo that for all our entries on an interface except those that keep() wants. */
int neighbours_release(__u32 ifindex, bool (*keep)(const struct neighbour *n, void *arg), void *arg);

/* Return whether this is an address of this machine. If a VRF has it, *vrf is the VRF's index, else 0. */
bool address_here(__be32 address, __u32 *vrf);

/* MTU of an interface, or -errno. */
int interface_mtu(const char *dev);

#endif
