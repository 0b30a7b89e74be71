/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The other end of a veth. It takes frames that an XDP program redirects to
 * it only if it polls: with GRO on, or with an XDP program of its own; otherwise the frames
 * vanish, uncounted. For load, job add and doctor.
 */
#ifndef FPISA_VETH_H
#define FPISA_VETH_H

#include "link.h"
#include "netns.h"

struct veth_peer {
	bool seen; /* the device is a veth whose peer can be looked at; if not, nothing else is set */
	struct link link;
	bool gro, xdp, tags; /* tags: it puts VLAN tags into frames itself */
	bool tso;
	int udp_forwarding;	      /* transmit queues */
	__u32 tx;		      /* queues that it sends on */
	char enter[NETNS_PREFIX_LEN]; /* before a command that concerns it */
};

/* Looks at the peer of `l`, in another network namespace too. */
void veth_look(const struct link *l, struct veth_peer *p);

/*
 * Do redirected frames arrive? 1 or 0; -ENOENT if neither the peer nor, with
 * `features`, the kernel tells. For anything but a veth 1.
 */
int veth_takes(const struct link *l, const struct veth_peer *p, const __u64 *features);

/* A warning if results that a native program redirects to this interface vanish; `p` as veth_look() left it. */
void veth_warn(const struct link *l, const struct veth_peer *p);

#endif
