/* SPDX-License-Identifier: GPL-2.0-only */
/* What the kernel's routing says of a worker, and an interface's MTU. */
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
 * The route to `to`, through interface `ifindex` if that is not 0. Reports
 * nothing. -ENETUNREACH and the like if there is none.
 */
int route_get(__be32 to, __u32 ifindex, struct route *r);

/* MTU of an interface, or -errno. Reports nothing. */
int interface_mtu(const char *dev);

#endif
