/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ioctls of ethtool, by the name of the interface. These functions print no errors, and return a value >= 0 or a
 * negative errno.
 */
#ifndef FPISA_ETHTOOL_H
#define FPISA_ETHTOOL_H

#include <stdbool.h>
#include <linux/types.h>

int ethtool_driver(const char *dev, char name[32]);
int ethtool_gro(const char *dev);     /* 0 or 1 */
int ethtool_lro(const char *dev);     /* 0 or 1 */
int ethtool_tso(const char *dev);     /* 0 or 1 */
int ethtool_vlan_rx(const char *dev); /* 1 if the device strips VLAN tags from received frames, else 0 */
int ethtool_vlan_tx(
	/* 1 if VLAN tags are passed to the device outside the frame and the device inserts them, else 0 */
	const char *dev);

/*
 * Return the state, 0 or 1, of the feature with this name in `ethtool -k`, or -EOPNOTSUPP if this kernel does not know
 * the name.
 */
int ethtool_feature(const char *dev, const char *name);

struct channels {
	__u32 rx, max_rx, tx;
	bool combined; /* receive queues are counted together with transmit queues */
};

int ethtool_channels(const char *dev, struct channels *c);

/* A rule that selects the queue of UDP over IPv4 by the destination port alone. */
struct port_rule {
	__u16 port; /* host order */
	__u32 queue, location;
};

/*
 * Return the number of these rules, and fill in at most `max` of them. Return -EOPNOTSUPP if the driver does not support
 * rules.
 */
int ethtool_port_rules(const char *dev, struct port_rule *rule, int max);
int ethtool_ntuple(const char *dev); /* 1 if rules are enabled, else 0 */

/* Set *fields to the fields that the receive hash of UDP over IPv4 covers, as RXH_ bits of linux/ethtool.h. */
int ethtool_udp_hash(const char *dev, __u64 *fields);

#endif
