/* SPDX-License-Identifier: GPL-2.0-only */
/* What the kernel's routing says of a worker, its neighbour entry, and an interface's MTU. Nothing here reports. */
#ifndef FPISA_ROUTE_H
#define FPISA_ROUTE_H

#include <stdbool.h>
#include <linux/types.h>

struct route {
	__u32 ifindex;
	__be32 gateway; /* the router that frames go to first; 0: none */
	__be32 source; /* address that the kernel would send from; 0: none */
	bool local;	/* the destination is this machine */
	bool broadcast; /* it is all machines of a network */
};

/*
 * The route to `to`, through interface `ifindex` if that is not 0.
 * -ENETUNREACH and the like if there is none.
 */
int route_get(__be32 to, __u32 ifindex, struct route *r);

/*
 * Has the kernel keep the neighbour at `address`, in network order, resolved,
 * or no longer. An entry that somebody wrote for good stays as it is.
 */
int neighbour_manage(__be32 address, __u32 ifindex, bool manage);

/* MTU of an interface, or -errno. */
int interface_mtu(const char *dev);

#endif
