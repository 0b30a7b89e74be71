/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Route and neighbour by rtnetlink, and the interface by ioctls; nexthop.h has the contract. */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <linux/neighbour.h>
#include <net/if_arp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "nexthop.h"

struct query {
	struct nlmsghdr nlh;
	union {
		struct rtmsg route;
		struct ndmsg neighbour;
	} body;
	struct rtattr attribute; /* RTA_DST or NDA_DST */
	uint8_t value[16];	 /* the address; IPv4 takes 4 bytes */
};

union answer {
	struct nlmsghdr nlh;
	char bytes[4096];
};

_Static_assert(sizeof(struct rtmsg) == sizeof(struct ndmsg) && RTA_DST == (int)NDA_DST, "one shape for both");

static uint8_t family_of(const struct fpisa_address *a)
{
	return fpisa_is_ipv6(a) ? AF_INET6 : AF_INET;
}

static size_t size_of(const struct fpisa_address *a)
{
	return fpisa_is_ipv6(a) ? sizeof(a->b) : sizeof(a->w[3]);
}

/* Return the bytes of the address as netlink has them. */
static const void *bytes_of(const struct fpisa_address *a)
{
	return fpisa_is_ipv6(a) ? (const void *)a->b : &a->w[3];
}

/* Send one request about an address and receive its answer, of `type`. */
static int ask(int fd, struct query *q, const struct fpisa_address *about, uint16_t request, uint16_t type,
	       union answer *a)
{
	const size_t len = sizeof(*q) - sizeof(q->value) + size_of(about);
	ssize_t n;

	q->nlh = (struct nlmsghdr){.nlmsg_len = (uint32_t)len, .nlmsg_type = request, .nlmsg_flags = NLM_F_REQUEST};
	q->attribute = (struct rtattr){.rta_len = (uint16_t)RTA_LENGTH(size_of(about)), .rta_type = RTA_DST};
	memcpy(q->value, bytes_of(about), size_of(about));
	if (send(fd, q, len, 0) < 0)
		return -errno;
	n = recv(fd, a, sizeof(*a), 0);
	if (n < 0)
		return -errno;
	if (!NLMSG_OK(&a->nlh, (uint32_t)n))
		return -EBADMSG;
	if (a->nlh.nlmsg_type == NLMSG_ERROR)
		return ((const struct nlmsgerr *)NLMSG_DATA(&a->nlh))->error ?: -EBADMSG;
	return a->nlh.nlmsg_type == type ? 0 : -EBADMSG;
}

/* Copy attribute `type` of exactly `size` bytes, if it exists. */
static int attribute(const union answer *a, size_t body, uint16_t type, void *to, size_t size)
{
	const struct rtattr *r = (const void *)(a->bytes + NLMSG_LENGTH(NLMSG_ALIGN(body)));
	int left = (int)(a->nlh.nlmsg_len - NLMSG_LENGTH(NLMSG_ALIGN(body)));

	for (; RTA_OK(r, left); r = RTA_NEXT(r, left))
		if (r->rta_type == type && RTA_PAYLOAD(r) == size) {
			memcpy(to, RTA_DATA(r), size);
			return 1;
		}
	return 0;
}

/* Copy the attribute if it is an address of the family that *to has. */
static int address_attribute(const union answer *a, uint16_t type, struct fpisa_address *to)
{
	if (fpisa_is_ipv6(to))
		return attribute(a, sizeof(struct rtmsg), type, to->b, sizeof(to->b));
	return attribute(a, sizeof(struct rtmsg), type, &to->w[3], sizeof(to->w[3]));
}

/* Find the route. Set *gateway to the neighbour to which frames go. */
static int find_route(int fd, struct fpisa_route *h, const struct fpisa_address *address, struct fpisa_address *gateway)
{
	struct query q = {
		.body.route = {.rtm_family = family_of(address), .rtm_dst_len = (uint8_t)(8 * size_of(address))}};
	union answer a;
	int rc = ask(fd, &q, address, RTM_GETROUTE, RTM_NEWROUTE, &a);

	if (rc)
		return rc;
	if (((const struct rtmsg *)NLMSG_DATA(&a.nlh))->rtm_type != RTN_UNICAST)
		return -EOPNOTSUPP;
	*gateway = h->source = *address;
	address_attribute(&a, RTA_GATEWAY, gateway);
	if (!attribute(&a, sizeof(struct rtmsg), RTA_OIF, &h->ifindex, sizeof(h->ifindex)) ||
	    !address_attribute(&a, RTA_PREFSRC, &h->source))
		return -ENETUNREACH;
	return 0;
}

static int find_neighbour(int fd, struct fpisa_route *h, const struct fpisa_address *gateway)
{
	struct query q = {.body.neighbour = {.ndm_family = family_of(gateway), .ndm_ifindex = (int)h->ifindex}};
	union answer a;
	int rc = ask(fd, &q, gateway, RTM_GETNEIGH, RTM_NEWNEIGH, &a);

	if (rc)
		return rc == -ENOENT ? -EAGAIN : rc;
	return attribute(&a, sizeof(struct ndmsg), NDA_LLADDR, h->to, sizeof(h->to)) ? 0 : -EAGAIN;
}

static int find_interface(struct fpisa_route *h)
{
	struct ifreq ifr = {0};
	int fd, rc = 0;

	if (!if_indextoname(h->ifindex, h->dev))
		return -errno;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	memcpy(ifr.ifr_name, h->dev, sizeof(ifr.ifr_name));
	if (ioctl(fd, SIOCGIFMTU, &ifr))
		rc = -errno;
	h->mtu = (uint32_t)ifr.ifr_mtu;
	if (!rc && ioctl(fd, SIOCGIFHWADDR, &ifr))
		rc = -errno;
	close(fd);
	if (!rc && ifr.ifr_hwaddr.sa_family != ARPHRD_ETHER)
		rc = -EOPNOTSUPP;
	memcpy(h->from, ifr.ifr_hwaddr.sa_data, sizeof(h->from));
	return rc;
}

int fpisa_nexthop(struct fpisa_route *h, const struct fpisa_address *address)
{
	struct fpisa_address gateway;
	int fd, rc;

	*h = (struct fpisa_route){.ifindex = 0};
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return -errno;
	rc = find_route(fd, h, address, &gateway);
	if (!rc)
		rc = find_interface(h);
	if (!rc)
		rc = find_neighbour(fd, h, &gateway);
	close(fd);
	return rc;
}
