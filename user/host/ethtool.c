// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ioctls of ethtool that `fpisa doctor` needs; ethtool.h has the contracts. ioctls are used because netlink has no
 * requests for rules, and longer requests for everything else.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ethtool.h"

/* Run an ethtool request, which starts with the command. Return 0 or -errno. */
static int ethtool(const char *dev, void *request)
{
	struct ifreq ifr = {.ifr_data = request};
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
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	int err = ethtool(dev, &info);

	snprintf(name, 32, "%.31s", info.driver);
	return err;
}

int ethtool_gro(const char *dev)
{
	struct ethtool_value v = {.cmd = ETHTOOL_GGRO};

	return ethtool(dev, &v) ?: !!v.data;
}

int ethtool_tso(const char *dev)
{
	struct ethtool_value v = {.cmd = ETHTOOL_GTSO};

	return ethtool(dev, &v) ?: !!v.data;
}

/* Return the names of the features, or NULL if the kernel does not report them. Set *len to their number. */
static struct ethtool_gstrings *feature_names(const char *dev)
{
	struct {
		struct ethtool_sset_info info;
		__u32 n;
	} set = {.info = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ull << ETH_SS_FEATURES}};
	struct ethtool_gstrings *names;

	if (ethtool(dev, &set) || !set.info.sset_mask)
		return NULL;
	names = calloc(1, sizeof(*names) + (size_t)set.n * ETH_GSTRING_LEN);
	if (!names)
		return NULL;
	names->cmd = ETHTOOL_GSTRINGS;
	names->string_set = ETH_SS_FEATURES;
	names->len = set.n;
	if (ethtool(dev, names)) {
		free(names);
		return NULL;
	}
	return names;
}

int ethtool_feature(const char *dev, const char *name)
{
	struct ethtool_gstrings *names = feature_names(dev);
	struct ethtool_gfeatures *all = NULL;
	int value = -EOPNOTSUPP;
	__u32 bit = 0;

	if (!names)
		return value;
	while (bit < names->len &&
	       strncmp((const char *)names->data + (size_t)bit * ETH_GSTRING_LEN, name, ETH_GSTRING_LEN))
		bit++;
	if (bit < names->len)
		all = calloc(1, sizeof(*all) + (bit / 32 + 1) * sizeof(all->features[0]));
	if (all) {
		all->cmd = ETHTOOL_GFEATURES;
		all->size = bit / 32 + 1;
		value = ethtool(dev, all) ?: (int)(all->features[bit / 32].active >> bit % 32 & 1);
	}
	free(all);
	free(names);
	return value;
}

static int flag(const char *dev, __u32 bit)
{
	struct ethtool_value v = {.cmd = ETHTOOL_GFLAGS};

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

int ethtool_vlan_tx(const char *dev)
{
	return flag(dev, ETH_FLAG_TXVLAN);
}

int ethtool_ntuple(const char *dev)
{
	return flag(dev, ETH_FLAG_NTUPLE);
}

/* Return whether the rule is a struct port_rule as in ethtool.h. */
static bool by_port_alone(const struct ethtool_rx_flow_spec *f)
{
	const struct ethtool_tcpip4_spec *mask = &f->m_u.udp_ip4_spec;

	return f->flow_type == UDP_V4_FLOW && mask->pdst == 0xffff && !mask->psrc && !mask->ip4src && !mask->ip4dst &&
	       !mask->tos && f->ring_cookie <= ETHTOOL_RX_FLOW_SPEC_RING;
}

int ethtool_port_rules(const char *dev, struct port_rule *rule, int max)
{
	struct ethtool_rxnfc count = {.cmd = ETHTOOL_GRXCLSRLCNT}, *all;
	int err = ethtool(dev, &count), n = 0;

	if (err)
		return err;
	all = calloc(1, sizeof(*all) + count.rule_cnt * sizeof(all->rule_locs[0]));
	if (!all)
		return -ENOMEM;
	all->cmd = ETHTOOL_GRXCLSRLALL;
	all->rule_cnt = count.rule_cnt;
	if (count.rule_cnt)
		err = ethtool(dev, all);
	for (__u32 i = 0; !err && i < all->rule_cnt && i < count.rule_cnt && n < max; i++) {
		struct ethtool_rxnfc one = {.cmd = ETHTOOL_GRXCLSRULE, .fs.location = all->rule_locs[i]};

		/* Skip a rule that has been removed in the meantime. */
		if (!ethtool(dev, &one) && by_port_alone(&one.fs))
			rule[n++] = (struct port_rule){.port = ntohs(one.fs.h_u.udp_ip4_spec.pdst),
						       .queue = one.fs.ring_cookie,
						       .location = one.fs.location};
	}
	free(all);
	return err ?: n;
}

int ethtool_channels(const char *dev, struct channels *c)
{
	struct ethtool_channels e = {.cmd = ETHTOOL_GCHANNELS};
	int err = ethtool(dev, &e);

	/* A driver counts receive queues either separately or combined with transmit queues. */
	c->combined = e.max_combined;
	c->rx = e.rx_count + e.combined_count;
	c->tx = e.tx_count + e.combined_count;
	c->max_rx = c->combined ? e.max_combined : e.max_rx;
	return err;
}

int ethtool_udp_hash(const char *dev, __u64 *fields)
{
	struct ethtool_rxnfc n = {.cmd = ETHTOOL_GRXFH, .flow_type = UDP_V4_FLOW};
	int err = ethtool(dev, &n);

	*fields = n.data;
	return err;
}
