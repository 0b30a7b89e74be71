// SPDX-License-Identifier: GPL-2.0-only
/* Interfaces by rtnetlink and the netdev family; link.h has the contracts. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/if_bridge.h>
#include <linux/if_ether.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link.h"
#include "netlink.h"

/* Constants of linux/netdev.h, which headers before Linux 6.3 do not have. */
#define NETDEV_CMD_DEV_GET 1
#define NETDEV_A_DEV_IFINDEX 1
#define NETDEV_A_DEV_XDP_FEATURES 3

static void parse_vlan(const struct nlattr *data, struct link *l)
{
	__u16 id = 0, protocol = 0;
	const struct nlattr *a;

	mnl_attr_for_each_nested(a, data) {
		if (mnl_attr_get_type(a) == IFLA_VLAN_ID)
			id = mnl_attr_get_u16(a);
		if (mnl_attr_get_type(a) == IFLA_VLAN_PROTOCOL)
			protocol = mnl_attr_get_u16(a);
	}
	l->vlan = protocol == htons(ETH_P_8021Q) ? id : 0;
}

/* The kernel lists a querier only if the bridge snoops: its own, or one that it has heard. */
static void parse_queriers(const struct nlattr *state, struct link *l)
{
	const struct nlattr *a;

	mnl_attr_for_each_nested(a, state) {
		if (mnl_attr_get_type(a) == BRIDGE_QUERIER_IP_ADDRESS)
			l->queriers |= LINK_IGMP;
		if (mnl_attr_get_type(a) == BRIDGE_QUERIER_IPV6_ADDRESS)
			l->queriers |= LINK_MLD;
	}
}

static void parse_bridge(const struct nlattr *data, struct link *l)
{
	const struct nlattr *a;

	mnl_attr_for_each_nested(a, data) {
		if (mnl_attr_get_type(a) == IFLA_BR_MCAST_QUERIER_STATE)
			parse_queriers(a, l);
		if (mnl_attr_get_type(a) == IFLA_BR_VLAN_FILTERING)
			l->vlan_filtering = mnl_attr_get_u8(a);
	}
}

/* The kernel sends the kind before the data of that kind. */
static void parse_info(const struct nlattr *info, struct link *l)
{
	const struct nlattr *a;

	mnl_attr_for_each_nested(a, info) {
		if (mnl_attr_get_type(a) == IFLA_INFO_KIND)
			snprintf(l->kind, sizeof(l->kind), "%s", mnl_attr_get_str(a));
		if (mnl_attr_get_type(a) == IFLA_INFO_DATA && !strcmp(l->kind, "vlan"))
			parse_vlan(a, l);
		if (mnl_attr_get_type(a) == IFLA_INFO_DATA && !strcmp(l->kind, "bridge"))
			parse_bridge(a, l);
	}
}

static int take_link(const struct nlmsghdr *m, void *arg)
{
	const struct ifinfomsg *i = mnl_nlmsg_get_payload(m);
	struct link *l = arg;
	const struct nlattr *a;

	*l = (struct link){.lower_netns = -1, .index = i->ifi_index, .flags = i->ifi_flags, .hardware = i->ifi_type};
	mnl_attr_for_each(a, m, sizeof(*i)) {
		switch (mnl_attr_get_type(a)) {
		case IFLA_IFNAME:
			snprintf(l->name, sizeof(l->name), "%s", mnl_attr_get_str(a));
			break;
		case IFLA_MTU:
			l->mtu = mnl_attr_get_u32(a);
			break;
		case IFLA_LINK:
			l->lower = mnl_attr_get_u32(a);
			break;
		case IFLA_MASTER:
			l->master = mnl_attr_get_u32(a);
			break;
		case IFLA_LINK_NETNSID:
			l->lower_netns = mnl_attr_get_u32(a);
			break;
		case IFLA_CARRIER:
			l->carrier = mnl_attr_get_u8(a);
			break;
		case IFLA_NUM_TX_QUEUES:
			l->num_tx = mnl_attr_get_u32(a);
			break;
		case IFLA_LINKINFO:
			parse_info(a, l);
			break;
		}
	}
	return MNL_CB_OK;
}

int link_get(__u32 ifindex, struct link *l)
{
	const struct ifinfomsg i = {.ifi_index = (int)ifindex};
	char buf[REQUEST_LEN];

	memset(l, 0, sizeof(*l));
	return netlink_ask(NETLINK_ROUTE, netlink_start(buf, RTM_GETLINK, NLM_F_ACK, &i, sizeof(i)), take_link, l);
}

int link_below_vlan(const struct link *l, struct link *below)
{
	return l->vlan && l->lower_netns < 0 ? link_get(l->lower, below) : -ENOENT;
}

static void take_vlan(const struct bridge_vlan_info *vlan, struct link_vlans *v)
{
	if (vlan->flags & BRIDGE_VLAN_INFO_PVID)
		v->pvid = vlan->vid;
	if (vlan->vid == v->id)
		v->tagged = !(vlan->flags & BRIDGE_VLAN_INFO_UNTAGGED);
}

static int take_vlans(const struct nlmsghdr *m, void *arg)
{
	const struct ifinfomsg *i = mnl_nlmsg_get_payload(m);
	struct link_vlans *v = arg;
	const struct nlattr *a, *vlan;

	if (i->ifi_index != (int)v->ifindex)
		return MNL_CB_OK;
	mnl_attr_for_each(a, m, sizeof(*i)) {
		if (mnl_attr_get_type(a) != IFLA_AF_SPEC)
			continue;
		mnl_attr_for_each_nested(vlan, a)
			if (mnl_attr_get_type(vlan) == IFLA_BRIDGE_VLAN_INFO)
				take_vlan(mnl_attr_get_payload(vlan), v);
	}
	return MNL_CB_OK;
}

int link_vlans_get(struct link_vlans *v)
{
	const struct ifinfomsg i = {.ifi_family = AF_BRIDGE};
	char buf[REQUEST_LEN];
	struct nlmsghdr *m = netlink_start(buf, RTM_GETLINK, NLM_F_DUMP, &i, sizeof(i));

	mnl_attr_put_u32(m, IFLA_EXT_MASK, RTEXT_FILTER_BRVLAN);
	return netlink_ask(NETLINK_ROUTE, m, take_vlans, v);
}

struct dump {
	struct link *links;
	int n, room;
};

static int take_links(const struct nlmsghdr *m, void *arg)
{
	struct dump *d = arg;

	if (d->n == d->room) {
		struct link *more = reallocarray(d->links, d->room + 64, sizeof(*more));

		if (!more)
			return MNL_CB_ERROR;
		d->links = more;
		d->room += 64;
	}
	return take_link(m, &d->links[d->n++]);
}

int links_get(struct link **links)
{
	const struct ifinfomsg i = {0};
	struct dump d = {.links = NULL};
	char buf[REQUEST_LEN];
	int err;

	/* Try again after EINTR, which means that the list of links has changed. */
	do {
		d.n = 0;
		err = netlink_ask(NETLINK_ROUTE, netlink_start(buf, RTM_GETLINK, NLM_F_DUMP, &i, sizeof(i)), take_links,
				  &d);
	} while (err == -EINTR);
	*links = err ? NULL : d.links;
	if (err)
		free(d.links);
	return err ?: d.n;
}

/* -- the netdev family --------------------------------------------------- */

static int take_family(const struct nlmsghdr *m, void *arg)
{
	const struct nlattr *a;

	mnl_attr_for_each(a, m, GENL_HDRLEN)
		if (mnl_attr_get_type(a) == CTRL_ATTR_FAMILY_ID)
			*(__u16 *)arg = mnl_attr_get_u16(a);
	return MNL_CB_OK;
}

static int take_features(const struct nlmsghdr *m, void *arg)
{
	const struct nlattr *a;

	mnl_attr_for_each(a, m, GENL_HDRLEN) {
		if (mnl_attr_get_type(a) == NETDEV_A_DEV_XDP_FEATURES && mnl_attr_validate(a, MNL_TYPE_U64) >= 0) {
			*(__u64 *)arg = mnl_attr_get_u64(a);
			return MNL_CB_OK;
		}
	}
	errno = EBADMSG;
	return MNL_CB_ERROR;
}

int netdev_xdp_features(__u32 ifindex, __u64 *features)
{
	const struct genlmsghdr find = {.cmd = CTRL_CMD_GETFAMILY, .version = 1};
	const struct genlmsghdr get = {.cmd = NETDEV_CMD_DEV_GET, .version = 1};
	char buf[REQUEST_LEN];
	struct nlmsghdr *m;
	__u16 family = 0;

	m = netlink_start(buf, GENL_ID_CTRL, NLM_F_ACK, &find, sizeof(find));
	mnl_attr_put_strz(m, CTRL_ATTR_FAMILY_NAME, "netdev");
	if (netlink_ask(NETLINK_GENERIC, m, take_family, &family) || !family)
		return -EOPNOTSUPP;
	m = netlink_start(buf, family, NLM_F_ACK, &get, sizeof(get));
	mnl_attr_put_u32(m, NETDEV_A_DEV_IFINDEX, ifindex);
	return netlink_ask(NETLINK_GENERIC, m, take_features, features);
}

bool link_native(const struct link *l)
{
	__u64 features;

	if (!netdev_xdp_features(l->index, &features))
		return features & NETDEV_XDP_BASIC && features & NETDEV_XDP_REDIRECT;
	return !*l->kind || !strcmp(l->kind, "veth") || !strcmp(l->kind, "bond");
}
