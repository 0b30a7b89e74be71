/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Rates and addresses of interfaces; interface.h has the contracts. */
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "interface.h"
#include "lib/base/address.h"

uint32_t fpisa_link_rate(const char *dev)
{
	struct ethtool_cmd get = {.cmd = ETHTOOL_GSET};
	struct ifreq r = {.ifr_data = (char *)&get};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t rate = 0;

	if (fd < 0)
		return 0;
	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", dev);
	if (!ioctl(fd, SIOCETHTOOL, &r))
		/* not by ethtool_cmd_speed(), which shifts a signed number */
		rate = (uint32_t)get.speed_hi << 16 | get.speed;
	close(fd);
	/* Drivers report SPEED_UNKNOWN for a link whose rate they do not know. */
	return rate == (uint32_t)SPEED_UNKNOWN ? 0 : rate;
}

/* Return an address of getifaddrs(), or :: if there is none. */
static struct fpisa_address address_of(const struct sockaddr *a)
{
	union fpisa_sockaddr s = {.any = {.sa_family = AF_UNSPEC}};

	if (a && a->sa_family == AF_INET)
		memcpy(&s, a, sizeof(s.v4));
	else if (a && a->sa_family == AF_INET6)
		memcpy(&s, a, sizeof(s.v6));
	return fpisa_address_from(&s);
}

static int has_address(const struct ifaddrs *i, const struct fpisa_address *address)
{
	const struct fpisa_address own = address_of(i->ifa_addr);

	return fpisa_is_address(&own) && fpisa_same_address(&own, address);
}

uint32_t fpisa_interface_rate(const struct fpisa_address *address)
{
	uint32_t own = 0, fastest = 0;
	struct ifaddrs *all = NULL;
	int on_lo = 0;

	if (getifaddrs(&all))
		return 0;
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		uint32_t rate =
			i->ifa_flags & IFF_UP && !(i->ifa_flags & IFF_LOOPBACK) ? fpisa_link_rate(i->ifa_name) : 0;

		fastest = rate > fastest ? rate : fastest;
		own = has_address(i, address) ? rate : own;
		on_lo |= has_address(i, address) && i->ifa_flags & IFF_LOOPBACK;
	}
	freeifaddrs(all);
	return on_lo ? fastest : own;
}

/*
 * Return whether the interface is `lo` and its IPv4 network contains the address. All addresses of an IPv4 network on `lo`
 * belong to the host.
 */
static int has_network(const struct ifaddrs *i, const struct fpisa_address *address)
{
	const struct fpisa_address own = address_of(i->ifa_addr), mask = address_of(i->ifa_netmask);

	return i->ifa_flags & IFF_LOOPBACK && fpisa_is_ipv4(&own) && fpisa_is_ipv4(&mask) && fpisa_is_ipv4(address) &&
	       !((own.w[3] ^ address->w[3]) & mask.w[3]);
}

int fpisa_address_is_here(const struct fpisa_address *address)
{
	struct ifaddrs *all = NULL;
	int here = 0;

	if (getifaddrs(&all))
		return 0;
	for (const struct ifaddrs *i = all; i && !here; i = i->ifa_next)
		here = has_address(i, address) || has_network(i, address);
	freeifaddrs(all);
	return here;
}
