// SPDX-License-Identifier: GPL-2.0-only
/* Routes and neighbours by rtnetlink; route.h has the contracts. */
#include <errno.h>
#include <net/if.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "request.h"
#include "route.h"

static int take_route(const struct nlmsghdr *m, void *arg)
{
	const struct rtmsg *rtm = mnl_nlmsg_get_payload(m);
	struct route *r = arg;
	const struct nlattr *a;

	r->local = rtm->rtm_type == RTN_LOCAL;
	r->broadcast = rtm->rtm_type == RTN_BROADCAST;
	mnl_attr_for_each(a, m, sizeof(*rtm)) {
		if (mnl_attr_get_type(a) == RTA_OIF)
			r->ifindex = mnl_attr_get_u32(a);
		if (mnl_attr_get_type(a) == RTA_GATEWAY)
			r->gateway = mnl_attr_get_u32(a);
		if (mnl_attr_get_type(a) == RTA_PREFSRC)
			r->source = mnl_attr_get_u32(a);
	}
	return MNL_CB_OK;
}

int route_get(__be32 to, __u32 ifindex, struct route *r)
{
	const struct rtmsg rtm = { .rtm_family = AF_INET, .rtm_dst_len = 32 };
	char buf[REQUEST_LEN];
	struct nlmsghdr *m = netlink_start(buf, RTM_GETROUTE, NLM_F_ACK, &rtm, sizeof(rtm));
	int err;

	memset(r, 0, sizeof(*r));
	mnl_attr_put_u32(m, RTA_DST, to);
	if (ifindex)
		mnl_attr_put_u32(m, RTA_OIF, ifindex);
	err = netlink_ask(NETLINK_ROUTE, m, take_route, r);
	return err ?: r->ifindex ? 0 : -ENETUNREACH;
}

static int take_state(const struct nlmsghdr *m, void *arg)
{
	*(__u16 *)arg = ((const struct ndmsg *)mnl_nlmsg_get_payload(m))->ndm_state;
	return MNL_CB_OK;
}

int neighbour_manage(__be32 address, __u32 ifindex, bool manage)
{
	struct ndmsg n = { .ndm_family = AF_INET, .ndm_ifindex = (int)ifindex };
	char buf[REQUEST_LEN];
	struct nlmsghdr *m = netlink_start(buf, RTM_GETNEIGH, NLM_F_ACK, &n, sizeof(n));
	__u16 state = 0;
	int err;

	mnl_attr_put_u32(m, NDA_DST, address);
	err = netlink_ask(NETLINK_ROUTE, m, take_state, &state);
	if (err && err != -ENOENT)
		return err;
	if (state & (NUD_PERMANENT | NUD_NOARP) || (err && !manage))
		return 0;
	/* Either flag leaves the state of an entry as it is. */
	n.ndm_flags = manage ? 0 : NTF_USE;
	m = netlink_start(buf, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, &n, sizeof(n));
	mnl_attr_put_u32(m, NDA_DST, address);
	if (manage)
		mnl_attr_put_u32(m, NDA_FLAGS_EXT, NTF_EXT_MANAGED);
	return netlink_ask(NETLINK_ROUTE, m, take_state, &state);
}

int interface_mtu(const char *dev)
{
	struct ifreq ifr = { 0 };
	int fd, err = 0;

	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", dev);
	if (ioctl(fd, SIOCGIFMTU, &ifr))
		err = -errno;
	close(fd);
	return err ?: ifr.ifr_mtu;
}
