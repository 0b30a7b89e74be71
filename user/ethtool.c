// SPDX-License-Identifier: GPL-2.0-only
/* ethtool's ioctls that doctor needs; netlink.h has the contracts. */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netlink.h"

/* `request` starts with the command. */
static int ethtool(const char *dev, void *request)
{
	struct ifreq ifr = { .ifr_data = request };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;

	if (fd < 0)
		return -errno;
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", dev);
	if (ioctl(fd, SIOCETHTOOL, &ifr))
		err = -errno;
	close(fd);
	return err;
}

int ethtool_driver(const char *dev, char name[32])
{
	struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };
	int err = ethtool(dev, &info);

	snprintf(name, 32, "%.31s", info.driver);
	return err;
}

int ethtool_gro(const char *dev)
{
	struct ethtool_value v = { .cmd = ETHTOOL_GGRO };

	return ethtool(dev, &v) ?: !!v.data;
}

static int flag(const char *dev, __u32 bit)
{
	struct ethtool_value v = { .cmd = ETHTOOL_GFLAGS };

	return ethtool(dev, &v) ?: !!(v.data & bit);
}

int ethtool_lro(const char *dev)
{
	return flag(dev, ETH_FLAG_LRO);
}

int ethtool_vlan_rx(const char *dev)
{
	return flag(dev, ETH_FLAG_RXVLAN);
}

int ethtool_channels(const char *dev, struct channels *c)
{
	struct ethtool_channels e = { .cmd = ETHTOOL_GCHANNELS };
	int err = ethtool(dev, &e);

	/* A driver counts its receive queues as combined with sending ones, or by themselves. */
	c->combined = e.max_combined;
	c->rx = e.rx_count + e.combined_count;
	c->tx = e.tx_count + e.combined_count;
	c->max_rx = c->combined ? e.max_combined : e.max_rx;
	return err;
}

int ethtool_udp_hash(const char *dev, __u64 *fields)
{
	struct ethtool_rxnfc n = { .cmd = ETHTOOL_GRXFH, .flow_type = UDP_V4_FLOW };
	int err = ethtool(dev, &n);

	*fields = n.data;
	return err;
}
