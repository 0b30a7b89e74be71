/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the kernel says of an interface: rtnetlink, the netdev family,
 * ethtool's ioctls; and namespaces that are peers of ours. Nothing here
 * reports; all return 0, or a value >= 0, or -errno.
 */
#ifndef FPISA_NETLINK_H
#define FPISA_NETLINK_H

#include <stdbool.h>
#include <net/if.h>
#include <linux/types.h>

struct link {
	char name[IF_NAMESIZE];
	char kind[16]; /* "veth", "bridge", ...; empty for hardware */
	__u32 index, flags, mtu, num_tx;
	__u32 lower;	 /* IFLA_LINK: the interface below, a veth's peer; 0: none */
	int lower_netns; /* id of the namespace that it is in, -1: ours */
	__u32 master;	 /* the bridge or bond whose port it is; 0: none */
	bool carrier;
};

int link_get(__u32 ifindex, struct link *l);

/* Name of the first VLAN interface on top of `ifindex`; -ENOENT if there is none. */
int link_vlan_on(__u32 ifindex, char name[IF_NAMESIZE]);

/*
 * Has the kernel keep the neighbour at `address`, in network order, resolved,
 * or no longer. An entry that somebody wrote for good stays as it is.
 */
int neighbour_manage(__be32 address, __u32 ifindex, bool manage);

#define NETDEV_XDP_BASIC 1u
#define NETDEV_XDP_REDIRECT 2u
#define NETDEV_XDP_NDO_XMIT 4u

/* NETDEV_XDP_ flags of the interface; -EOPNOTSUPP if this kernel does not tell. */
int netdev_xdp_features(__u32 ifindex, __u64 *features);

/*
 * A process or name that leads into the namespace whose id is `id` here:
 * `prefix` gets the command before a command, *fd the caller's descriptor.
 * -ENOENT if none is to be seen.
 */
#define NETNS_PREFIX_LEN 300
int netns_find(int id, char prefix[NETNS_PREFIX_LEN], int *fd);

/*
 * fn() in each other namespace that a name, a process or its descriptor leads to and this
 * process may enter, with the command before a command, until it is not 0:
 * that, or 0. -errno if it could not look at all.
 */
int netns_others(int (*fn)(const char *prefix, void *arg), void *arg);

/* Moves this thread into `fd`; *home gets what netns_leave() takes back, and closes. */
int netns_enter(int fd, int *home);
void netns_leave(int home);

/* -- ethtool, by name of the interface ------------------------------------ */

int ethtool_driver(const char *dev, char name[32]);
int ethtool_gro(const char *dev);     /* 0 or 1 */
int ethtool_lro(const char *dev);     /* 0 or 1 */
int ethtool_vlan_rx(const char *dev); /* 0 or 1: tags are taken off received frames */
int ethtool_vlan_tx(const char *dev); /* 0 or 1: tags go beside the frame to the device, which puts them on */

struct channels {
	__u32 rx, max_rx, tx;
	bool combined; /* with as many for sending */
};

int ethtool_channels(const char *dev, struct channels *c);

/* A rule that gives UDP over IPv4 to a queue by its destination port, and by nothing else. */
struct port_rule {
	__u16 port; /* host order */
	__u32 queue, location;
};

/* How many of those there are, of which `max` are filled in at most; -EOPNOTSUPP if the driver has no rules. */
int ethtool_port_rules(const char *dev, struct port_rule *rule, int max);
int ethtool_ntuple(const char *dev); /* 0 or 1: rules are on */

/* What the receive hash of UDP over IPv4 covers: RXH_ bits of linux/ethtool.h. */
int ethtool_udp_hash(const char *dev, __u64 *fields);

#endif
