/* SPDX-License-Identifier: GPL-2.0-only */
/* What the kernel's routing says of a worker, its neighbour entry, and an interface's MTU. Nothing here reports. */
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
 * Has the kernel keep a neighbour resolved (`managed`), under a protocol number of ours by which the entry is known again. One
 * that somebody else wrote stays as it is: for good, learned by a daemon, managed, or of another protocol.
 */
int neighbour_manage(const struct neighbour *n);

/* Ends that for all of ours on an interface but those that keep() wants. */
int neighbours_release(__u32 ifindex, bool (*keep)(const struct neighbour *n, void *arg), void *arg);

/* Is it an address of this machine's? If one of a VRF's, *vrf is its index, else 0. */
bool address_here(__be32 address, __u32 *vrf);

/* MTU of an interface, or -errno. */
int interface_mtu(const char *dev);

#endif
