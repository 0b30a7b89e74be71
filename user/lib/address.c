/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Parsing of an aggregator's address; address.h has the contract. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include "address.h"
#include "base/error.h"
#include "fpisa/wire.h"
#include "lookup.h"

/*
 * Exclude network 0.0.0.0/8, multicast, reserved and broadcast addresses. The broadcast address of a network is
 * detected in udp.c.
 */
static int is_host(uint32_t address)
{
	return address >> 24 && address < 0xe0000000;
}

int fpisa_parse_address(const char *text, struct in_addr *address, uint16_t *port)
{
	char host[INET_ADDRSTRLEN] = "", end;
	const char *colon = text ? strchr(text, ':') : NULL;
	size_t len = !text ? 0 : colon ? (size_t)(colon - text) : strlen(text);
	unsigned int number = FPISA_PORT;

	if (len < sizeof(host))
		memcpy(host, text ? text : "", len);
	if (colon && (colon[1] < '0' || colon[1] > '9' || sscanf(colon + 1, "%5u%c", &number, &end) != 1))
		number = 0;
	if (!number || number > 0xffff || inet_pton(AF_INET, host, address) != 1)
		return fpisa_fail(-EINVAL, "'%s' is not an IPv4 address with an optional port, such as 10.0.0.1:18000",
				  text ? text : "");
	if (!is_host(ntohl(address->s_addr)))
		return fpisa_no_host(text);
	*port = (uint16_t)number;
	return 0;
}

int fpisa_find_host(const char *text, uint64_t timeout_ns, struct sockaddr_in to[FPISA_HOST_ADDRESSES])
{
	const char *colon = strchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : strlen(text);
	struct addrinfo *found;
	int addresses = 0;
	unsigned int port = FPISA_PORT;
	char host[256], end;
	int rc;

	if (!n || n >= sizeof(host) ||
	    (colon && (sscanf(colon + 1, "%5u%c", &port, &end) != 1 || !port || port > 65535 || colon[1] == '+' ||
		       colon[1] == '-' || colon[1] == ' ')))
		return fpisa_fail(-EINVAL, "'%s' is not an IPv4 host with an optional port, such as aggregator:18000",
				  text);
	memcpy(host, text, n);
	host[n] = 0;
	/* Ask for both families, to distinguish a name with only IPv6 addresses from an unknown name. */
	rc = fpisa_lookup(host, timeout_ns, &found);
	if (rc)
		return rc;
	for (const struct addrinfo *a = found; a && addresses < FPISA_HOST_ADDRESSES; a = a->ai_next) {
		if (a->ai_family != AF_INET)
			continue;
		memcpy(&to[addresses], a->ai_addr, sizeof(*to));
		to[addresses++].sin_port = htons((uint16_t)port);
	}
	freeaddrinfo(found);
	return addresses ? addresses : fpisa_fail(-EINVAL, "'%s' has no IPv4 address, and IPv6 is not supported", host);
}
