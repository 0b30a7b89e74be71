/* SPDX-License-Identifier: GPL-2.0-only */
/* ethtool's ioctls, by name of the interface. Nothing here reports; all return a value >= 0, or -errno. */
#ifndef FPISA_ETHTOOL_H
#define FPISA_ETHTOOL_H

#include <stdbool.h>
#include <linux/types.h>

int ethtool_driver(const char *dev, char name[32]);
int ethtool_gro(const char *dev);     /* 0 or 1 */
int ethtool_lro(const char *dev);     /* 0 or 1 */
int ethtool_tso(const char *dev);     /* 0 or 1 */
int ethtool_vlan_rx(const char *dev); /* 0 or 1: tags are taken off received frames */
int ethtool_vlan_tx(const char *dev); /* 0 or 1: tags go beside the frame to the device, which puts them on */

/* A feature by the name that `ethtool -k` has for it: 0 or 1, -EOPNOTSUPP if this kernel has none of that name. */
int ethtool_feature(const char *dev, const char *name);

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

/* Return the number of such rules, and fill in at most `max`; -EOPNOTSUPP if the driver has no rules. */
int ethtool_port_rules(const char *dev, struct port_rule *rule, int max);
int ethtool_ntuple(const char *dev); /* 0 or 1: rules are on */

/* Find the fields that the receive hash of UDP over IPv4 covers: RXH_ bits of linux/ethtool.h. */
int ethtool_udp_hash(const char *dev, __u64 *fields);

#endif
