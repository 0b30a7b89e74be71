// SPDX-License-Identifier: GPL-2.0-only
/* Routes and neighbours by rtnetlink; route.h has the contracts. */
#include <errno.h>
#include <net/if.h>
#include <linux/if_ether.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netlink.h"
#include "route.h"
#include "stack.h"

/* Protocol number of neighbour entries that FPISA creates. rt_protos does not assign this number. */
#define OUR_PROTOCOL 70

/* Read an address of the route's family. */
static struct fpisa_address address_in(const struct nlattr *a, __u8 family)
{
	struct fpisa_address to = FPISA_NO_ADDRESS;

	if (family == AF_INET && mnl_attr_get_payload_len(a) == sizeof(__be32))
		to = fpisa_ipv4(mnl_attr_get_u32(a));
	if (family == AF_INET6 && mnl_attr_get_payload_len(a) == sizeof(to))
		memcpy(&to, mnl_attr_get_payload(a), sizeof(to));
	return to;
}

static void put_address(struct nlmsghdr *m, __u16 type, const struct fpisa_address *a)
{
	if (fpisa_is_ipv6(a))
		mnl_attr_put(m, type, sizeof(a->b), a->b);
	else
		mnl_attr_put_u32(m, type, a->w[3]);
}

static __u8 family_of(const struct fpisa_address *a)
{
	return fpisa_is_ipv6(a) ? AF_INET6 : AF_INET;
}

static size_t address_len(__u8 family)
{
	return family == AF_INET6 ? 16 : 4;
}

static void set_neighbour(struct neighbour *n, __u8 family, const void *address)
{
	n->family = family;
	memcpy(n->address, address, address_len(family));
}

void neighbour_of(struct fpisa_address address, struct neighbour *n)
{
	const __u8 family = family_of(&address);

	*n = (struct neighbour){.ifindex = 0};
	set_neighbour(n, family, family == AF_INET6 ? (const void *)address.b : &address.w[3]);
}

static void take_metrics(const struct nlattr *metrics, struct route *r)
{
	const struct nlattr *a;

	mnl_attr_for_each_nested(a, metrics)
		if (mnl_attr_get_type(a) == RTAX_MTU)
			r->mtu = mnl_attr_get_u32(a);
}

static int take_route(const struct nlmsghdr *m, void *arg)
{
	const struct rtmsg *rtm = mnl_nlmsg_get_payload(m);
	struct route *r = arg;
	const struct nlattr *a;

	r->local = rtm->rtm_type == RTN_LOCAL;
	r->broadcast = rtm->rtm_type == RTN_BROADCAST;
	mnl_attr_for_each(a, m, sizeof(*rtm)) {
		const struct rtvia *via = mnl_attr_get_payload(a);

		if (mnl_attr_get_type(a) == RTA_OIF)
			r->ifindex = r->next.ifindex = mnl_attr_get_u32(a);
		if (mnl_attr_get_type(a) == RTA_GATEWAY)
			set_neighbour(&r->next, rtm->rtm_family, mnl_attr_get_payload(a));
		if (mnl_attr_get_type(a) == RTA_VIA && via->rtvia_family == AF_INET6 &&
		    mnl_attr_get_payload_len(a) == sizeof(*via) + sizeof(r->next.address))
			set_neighbour(&r->next, AF_INET6, via->rtvia_addr);
		if (mnl_attr_get_type(a) == RTA_METRICS)
			take_metrics(a, r);
		/* Only an MTU that was learned expires. */
		if (mnl_attr_get_type(a) == RTA_CACHEINFO)
			r->mtu_learned = ((const struct rta_cacheinfo *)mnl_attr_get_payload(a))->rta_expires;
		if (mnl_attr_get_type(a) == RTA_PREFSRC)
			r->source = address_in(a, rtm->rtm_family);
	}
	return MNL_CB_OK;
}

int route_get(struct fpisa_address to, struct fpisa_address from, __u32 ifindex, struct route *r)
{
	const __u8 family = family_of(&to), bits = (__u8)(8 * address_len(family));
	const bool given = fpisa_is_address(&from);
	const struct rtmsg rtm = {.rtm_family = family, .rtm_dst_len = bits, .rtm_src_len = given ? bits : 0};
	char buf[REQUEST_LEN];
	struct nlmsghdr *m = netlink_start(buf, RTM_GETROUTE, NLM_F_ACK, &rtm, sizeof(rtm));
	struct route own;
	int err;

	*r = (struct route){.ifindex = 0};
	neighbour_of(to, &r->next);
	put_address(m, RTA_DST, &to);
	if (given)
		put_address(m, RTA_SRC, &from);
	if (ifindex)
		mnl_attr_put_u32(m, RTA_OIF, ifindex);
	err = netlink_ask(NETLINK_ROUTE, m, take_route, r);
	/* If `from` is not an address of this machine, the kernel finds no route. The error depends on the release. */
	if ((err == -EINVAL || err == -ENETUNREACH) && given &&
	    (route_get(from, FPISA_NO_ADDRESS, 0, &own) || !own.local))
		return route_get(to, FPISA_NO_ADDRESS, ifindex, r);
	return err ?: r->ifindex ? 0 : -ENETUNREACH;
}

/* -- neighbours ---------------------------------------------------------- */

struct entry {
	struct neighbour n;
	__u16 state;
	__u8 flags, protocol;
	bool managed;
	__u8 mac[ETH_ALEN]; /* 0: not known */
};

static int take_entry(const struct nlmsghdr *m, void *arg)
{
	const struct ndmsg *n = mnl_nlmsg_get_payload(m);
	struct entry *e = arg;
	const struct nlattr *a;

	*e = (struct entry){
		.n = {.ifindex = (__u32)n->ndm_ifindex, .family = n->ndm_family},
		.state = n->ndm_state,
		.flags = n->ndm_flags,
	};
	mnl_attr_for_each(a, m, sizeof(*n)) {
		if (mnl_attr_get_type(a) == NDA_DST && mnl_attr_get_payload_len(a) == address_len(e->n.family))
			memcpy(e->n.address, mnl_attr_get_payload(a), address_len(e->n.family));
		if (mnl_attr_get_type(a) == NDA_LLADDR && mnl_attr_get_payload_len(a) == sizeof(e->mac))
			memcpy(e->mac, mnl_attr_get_payload(a), sizeof(e->mac));
		if (mnl_attr_get_type(a) == NDA_PROTOCOL)
			e->protocol = mnl_attr_get_u8(a);
		if (mnl_attr_get_type(a) == NDA_FLAGS_EXT)
			e->managed = mnl_attr_get_u32(a) & NTF_EXT_MANAGED;
	}
	return MNL_CB_OK;
}

/* Write a neighbour entry. Do not change the state of the entry. */
static int write_entry(const struct neighbour *to, bool manage)
{
	const struct ndmsg n = {
		.ndm_family = to->family,
		.ndm_ifindex = (int)to->ifindex,
		.ndm_flags = manage ? 0 : NTF_USE,
	};
	char buf[REQUEST_LEN];
	struct nlmsghdr *m = netlink_start(buf, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, &n, sizeof(n));
	struct entry unused;

	mnl_attr_put(m, NDA_DST, address_len(to->family), to->address);
	if (manage) {
		mnl_attr_put_u32(m, NDA_FLAGS_EXT, NTF_EXT_MANAGED);
		mnl_attr_put_u8(m, NDA_PROTOCOL, OUR_PROTOCOL);
	}
	return netlink_ask(NETLINK_ROUTE, m, take_entry, &unused);
}

static int read_entry(const struct neighbour *to, struct entry *e)
{
	const struct ndmsg n = {.ndm_family = to->family, .ndm_ifindex = (int)to->ifindex};
	char buf[REQUEST_LEN];
	struct nlmsghdr *m = netlink_start(buf, RTM_GETNEIGH, NLM_F_ACK, &n, sizeof(n));

	*e = (struct entry){.state = 0};
	mnl_attr_put(m, NDA_DST, address_len(to->family), to->address);
	return netlink_ask(NETLINK_ROUTE, m, take_entry, e);
}

/* Return the VLAN ID under which the bridge knows neighbours on `ifindex`, the bridge or a VLAN device on it. */
static __u16 vlan_in_bridge(__u32 bridge, __u32 ifindex)
{
	struct link_vlans own = {.ifindex = bridge};
	struct link b, at;

	if (link_get(bridge, &b) || !b.vlan_filtering || link_get(ifindex, &at))
		return 0;
	return at.vlan || link_vlans_get(&own) ? at.vlan : own.pvid;
}

__u32 bridge_port_towards(__u32 bridge, const struct neighbour *to)
{
	const struct ndmsg n = {.ndm_family = AF_BRIDGE};
	char buf[REQUEST_LEN];
	struct nlmsghdr *m = netlink_start(buf, RTM_GETNEIGH, NLM_F_ACK, &n, sizeof(n));
	static const __u8 unknown[ETH_ALEN];
	struct entry e, port = {.state = 0};
	__u16 vlan;

	if (read_entry(to, &e) || !memcmp(e.mac, unknown, sizeof(unknown)))
		return 0;
	mnl_attr_put(m, NDA_LLADDR, sizeof(e.mac), e.mac);
	mnl_attr_put_u32(m, NDA_MASTER, bridge);
	vlan = vlan_in_bridge(bridge, to->ifindex);
	if (vlan)
		mnl_attr_put_u16(m, NDA_VLAN, vlan);
	return netlink_ask(NETLINK_ROUTE, m, take_entry, &port) ? 0 : port.n.ifindex;
}

int neighbour_manage(const struct neighbour *to)
{
	struct entry e;
	int err = read_entry(to, &e);

	if (err && err != -ENOENT)
		return err;
	if (e.state & (NUD_PERMANENT | NUD_NOARP) || e.flags & NTF_EXT_LEARNED || e.managed ||
	    (e.protocol && e.protocol != OUR_PROTOCOL))
		return 0;
	return write_entry(to, true);
}

struct found {
	__u32 ifindex;
	struct neighbour *n;
	size_t count;
};

static int take_ours(const struct nlmsghdr *m, void *arg)
{
	struct found *f = arg;
	struct neighbour *more;
	struct entry e;

	take_entry(m, &e);
	if (e.n.ifindex != f->ifindex || !e.managed || e.protocol != OUR_PROTOCOL)
		return MNL_CB_OK;
	more = realloc(f->n, (f->count + 1) * sizeof(*more));
	if (!more)
		return MNL_CB_ERROR;
	f->n = more;
	more[f->count++] = e.n;
	return MNL_CB_OK;
}

int neighbours_release(__u32 ifindex, bool (*keep)(const struct neighbour *n, void *arg), void *arg)
{
	const struct ndmsg n = {.ndm_ifindex = (int)ifindex};
	struct found f = {.ifindex = ifindex};
	char buf[REQUEST_LEN];
	struct nlmsghdr *m = netlink_start(buf, RTM_GETNEIGH, NLM_F_DUMP, &n, sizeof(n));
	int err;

	mnl_attr_put_u32(m, NDA_IFINDEX, ifindex);
	err = netlink_ask(NETLINK_ROUTE, m, take_ours, &f);
	for (size_t i = 0; !err && i < f.count; i++)
		if (!keep(&f.n[i], arg))
			err = write_entry(&f.n[i], false);
	free(f.n);
	return err;
}

/* -- addresses ------------------------------------------------------------ */

struct owner {
	struct fpisa_address address;
	__u32 ifindex; /* interface that has the address; 0: none */
};

static int take_address(const struct nlmsghdr *m, void *arg)
{
	const struct ifaddrmsg *i = mnl_nlmsg_get_payload(m);
	struct owner *o = arg;
	const struct nlattr *a;

	/* Over IPv4 IFA_ADDRESS is the peer's on a link of two; over IPv6 only IFA_ADDRESS is sure to be there. */
	mnl_attr_for_each(a, m, sizeof(*i)) {
		const struct fpisa_address found = address_in(a, i->ifa_family);

		if (mnl_attr_get_type(a) == (i->ifa_family == AF_INET ? IFA_LOCAL : IFA_ADDRESS) &&
		    fpisa_same_address(&found, &o->address))
			o->ifindex = i->ifa_index;
	}
	return MNL_CB_OK;
}

bool address_here(struct fpisa_address address, __u32 *vrf)
{
	const struct ifaddrmsg i = {.ifa_family = family_of(&address)};
	struct owner o = {.address = address};
	struct link l, master = {.kind = ""};
	char buf[REQUEST_LEN];
	struct route r = {0};

	*vrf = 0;
	if (!route_get(address, FPISA_NO_ADDRESS, 0, &r) && r.local)
		return true;
	/* Look in the tables of VRFs, because a VRF has its routes in a separate table. */
	if (netlink_ask(NETLINK_ROUTE, netlink_start(buf, RTM_GETADDR, NLM_F_DUMP, &i, sizeof(i)), take_address, &o) ||
	    !o.ifindex || link_get(o.ifindex, &l))
		return false;
	if (l.master)
		link_get(l.master, &master);
	*vrf = link_vrf(&l) ? l.index : link_vrf(&master) ? master.index : 0;
	return *vrf;
}

int interface_mtu(const char *dev)
{
	struct ifreq ifr = {0};
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
