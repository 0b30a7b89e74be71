/* SPDX-License-Identifier: GPL-2.0-only */
/* ethtool's ioctls, by name of the interface. These functions report nothing, and return a value >= 0, or -errno. */
#ifndef FPISA_ETHTOOL_H
#define FPISA_ETHTOOL_H

#include <stdbool.h>
#include <linux/types.h>

int ethtool_driver(const char *dev, char name[32]);
int ethtool_gro(const char *dev);     /* 0 or 1 */
int ethtool_lro(const char *dev);     /* 0 or 1 */
int ethtool_tso(const char *dev);     /* 0 or 1 */
int ethtool_vlan_rx(const char *dev); /* 0 or 1: tags are stripped from received frames */
int ethtool_vlan_tx(
	const char *dev); /* 0 or 1: tags are passed to the device outside the frame, and the device inserts them */

/*
 * Return a feature, by the name that `ethtool -k` has for it: 0 or 1, or -EOPNOTSUPP if this kernel does not know the
 * name.
 */
int ethtool_feature(const char *dev, const char *name);

struct channels {
	__u32 rx, max_rx, tx;
	bool combined; /* each receive queue is also a transmit queue */
};

int ethtool_channels(const char *dev, struct channels *c);

/* A rule that gives UDP over IPv4 to a queue by its destination port alone */
struct port_rule {
	__u16 port; /* host order */
	__u32 queue, location;
};

/* Return the number of such rules, and fill in at most `max`. Return -EOPNOTSUPP if the driver does not support rules. */
int ethtool_port_rules(const char *dev, struct port_rule *rule, int max);
int ethtool_ntuple(const char *dev); /* 0 or 1: rules are on */

/* Find the fields that the receive hash of UDP over IPv4 covers: RXH_ bits of linux/ethtool.h. */
int ethtool_udp_hash(const char *dev, __u64 *fields);

#endif
