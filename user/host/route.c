// SPDX-License-Identifier: GPL-2.0-only
/* RTM_GETROUTE by hand: one request, one answer. */
#include <errno.h>
#include <net/if.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "route.h"

struct request {
	struct nlmsghdr nlh;
	struct rtmsg rtm;
	char attributes[32];
};

static void put_u32(struct request *req, unsigned short type, __u32 value)
{
	struct rtattr *a = (struct rtattr *)((char *)req + NLMSG_ALIGN(req->nlh.nlmsg_len));

	a->rta_type = type;
	a->rta_len = RTA_LENGTH(sizeof(value));
	memcpy(RTA_DATA(a), &value, sizeof(value));
	req->nlh.nlmsg_len = NLMSG_ALIGN(req->nlh.nlmsg_len) + RTA_ALIGN(a->rta_len);
}

static int parse(const struct nlmsghdr *nlh, int len, struct route *r)
{
	const struct rtmsg *rtm = NLMSG_DATA(nlh);
	const struct rtattr *a;
	int left;

	if (!NLMSG_OK(nlh, len))
		return -EBADMSG;
	if (nlh->nlmsg_type == NLMSG_ERROR)
		return ((const struct nlmsgerr *)NLMSG_DATA(nlh))->error ?: -EBADMSG;
	if (nlh->nlmsg_type != RTM_NEWROUTE)
		return -EBADMSG;
	r->local = rtm->rtm_type == RTN_LOCAL;
	r->broadcast = rtm->rtm_type == RTN_BROADCAST;
	left = RTM_PAYLOAD(nlh);
	for (a = RTM_RTA(rtm); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type == RTA_OIF)
			memcpy(&r->ifindex, RTA_DATA(a), sizeof(r->ifindex));
		if (a->rta_type == RTA_GATEWAY)
			memcpy(&r->gateway, RTA_DATA(a), sizeof(r->gateway));
		if (a->rta_type == RTA_PREFSRC)
			memcpy(&r->source, RTA_DATA(a), sizeof(r->source));
	}
	return r->ifindex ? 0 : -ENETUNREACH;
}

int route_get(__be32 to, __u32 ifindex, struct route *r)
{
	struct request req = {
		.nlh = { .nlmsg_len = NLMSG_LENGTH(sizeof(req.rtm)),
			 .nlmsg_type = RTM_GETROUTE,
			 .nlmsg_flags = NLM_F_REQUEST },
		.rtm = { .rtm_family = AF_INET, .rtm_dst_len = 32 },
	};
	union {
		struct nlmsghdr nlh;
		char bytes[4096];
	} answer;
	int fd, len, err = 0;

	memset(r, 0, sizeof(*r));
	put_u32(&req, RTA_DST, to);
	if (ifindex)
		put_u32(&req, RTA_OIF, ifindex);
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return -errno;
	if (send(fd, &req, req.nlh.nlmsg_len, 0) < 0) {
		err = -errno;
		goto out;
	}
	len = recv(fd, &answer, sizeof(answer), 0);
	err = len < 0 ? -errno : parse(&answer.nlh, len, r);
out:
	close(fd);
	return err;
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
