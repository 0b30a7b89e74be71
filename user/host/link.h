/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Properties of an interface, read from the kernel. These functions print no errors, and return 0 or a negative errno.
 */
#ifndef FPISA_HOST_LINK_H
#define FPISA_HOST_LINK_H

#include <stdbool.h>
#include <net/if.h>
#include <linux/types.h>

#define LINK_IGMP 1u
#define LINK_MLD 2u

struct link {
	char name[IF_NAMESIZE];
	char kind[16]; /* "veth", "bridge", ...; empty for hardware */
	__u32 index, flags, mtu, num_tx;
	__u16 hardware;	 /* ARPHRD_* of the interface */
	__u16 vlan;	 /* VLAN ID of a VLAN device with 802.1Q tags; 0: not such a device */
	__u32 lower;	 /* IFLA_LINK: the interface below, or a veth's peer; 0: none */
	int lower_netns; /* id of the namespace of `lower`; -1: this namespace */
	__u32 master;	 /* bridge, bond or VRF of which the link is a port; 0: none */
	__u32 queriers;	 /* LINK_IGMP, LINK_MLD: protocols by which a bridge learns the ports of multicast addresses */
	bool vlan_filtering; /* a bridge that adds and removes VLAN tags by the settings of its ports */
	bool carrier;
};

int link_get(__u32 ifindex, struct link *l);

/*
 * Get the interface that carries the frames of a VLAN device with 802.1Q tags. Return -ENOENT if the link is not such a
 * device, or if that interface is in another network namespace.
 */
int link_below_vlan(const struct link *l, struct link *below);

/* The VLANs of a bridge that filters VLANs, or of its port */
struct link_vlans {
	__u32 ifindex;
	__u16 id;    /* VLAN ID that `tagged` is about */
	bool tagged; /* frames of this VLAN leave with their tag */
	__u16 pvid;  /* VLAN of received frames without a tag; 0: such frames are dropped */
};

/* Complete *v, of which ifindex and id are set. */
int link_vlans_get(struct link_vlans *v);

/*
 * Get all interfaces of this network namespace. The caller frees *links. Return the number of interfaces, or a negative
 * errno.
 */
int links_get(struct link **links);

#define NETDEV_XDP_BASIC 1u
#define NETDEV_XDP_REDIRECT 2u
#define NETDEV_XDP_NDO_XMIT 4u

/* Get the NETDEV_XDP_ flags of the interface. Return -EOPNOTSUPP if this kernel does not report them. */
int netdev_xdp_features(__u32 ifindex, __u64 *features);

/*
 * Return whether the driver has native XDP. If the kernel does not report this, assume that hardware, veth and bonds
 * have it.
 */
bool link_native(const struct link *l);

#endif
