/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The other end of a veth. A veth accepts frames that an XDP program redirects to it only if the veth polls, which
 * needs GRO or an XDP program on the veth. Otherwise the frames are lost without being counted. load, job add and
 * doctor use this file.
 */
#ifndef FPISA_VETH_H
#define FPISA_VETH_H

#include "link.h"
#include "netns.h"

struct veth_peer {
	bool seen; /* the device is a veth whose peer can be examined; if 0, the other members are not set */
	struct link link;
	bool gro, xdp,
		tags; /* state of the peer: GRO is on, it has a native program, it inserts VLAN tags into frames */
	bool tso;
	int udp_forwarding;	      /* rx-udp-gro-forwarding: 0 or 1, or -errno */
	__u32 tx;		      /* number of transmit queues */
	char enter[NETNS_PREFIX_LEN]; /* prefix of a command in the peer's namespace */
};

/* Examine the peer of `l`, even in another network namespace. */
void veth_look(const struct link *l, struct veth_peer *p);

/*
 * Return 1 if redirected frames arrive, else 0. Return -ENOENT if neither the peer nor, with `features`, the kernel
 * reports this. Return 1 if the link is not a veth.
 */
int veth_takes(const struct link *l, const struct veth_peer *p, const __u64 *features);

/* Warn if results that a native program redirects to this interface would be lost. `p` is the result of veth_look(). */
void veth_warn(const struct link *l, const struct veth_peer *p);

#endif
