/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Parsing of an aggregator's address; address.h has the contract. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include "address.h"
#include "base/address.h"
#include "base/error.h"
#include "fpisa/wire.h"
#include "lookup.h"

/*
 * Exclude network 0.0.0.0/8, ::, multicast, reserved and broadcast addresses. The broadcast address of a network is
 * detected in udp.c.
 */
static int is_host(const struct fpisa_address *a)
{
	return fpisa_is_ipv6(a) ? !fpisa_is_multicast(a) : a->b[12] && a->b[12] < 0xe0;
}

/* Parse the number of a port. If `text` is NULL, leave the default in *port. Return whether it is a port. */
static int read_port(const char *text, uint16_t *port)
{
	unsigned int number = *port;
	char end;

	if (text && (*text < '0' || *text > '9' || sscanf(text, "%5u%c", &number, &end) != 1))
		return 0;
	*port = (uint16_t)number;
	return number && number <= 0xffff;
}

static int refuse_link_local(const char *text)
{
	return fpisa_fail(
		-EINVAL,
		"'%s' is a link-local address, which is valid on one link only; give a global or a unique local address",
		text);
}

int fpisa_parse_address(const char *text, struct fpisa_address *address, uint16_t *port)
{
	return fpisa_parse_endpoint(text, FPISA_PORT, address, port);
}

int fpisa_parse_endpoint(const char *text, uint16_t default_port, struct fpisa_address *address, uint16_t *port)
{
	char copy[FPISA_ENDPOINT_LEN] = "", *number, *host;

	if (text && strlen(text) < sizeof(copy))
		strcpy(copy, text);
	host = fpisa_cut_endpoint(copy, &number);
	*port = default_port;
	if (host && fpisa_is_link_local_text(host))
		return refuse_link_local(text);
	if (!host || !read_port(number, port) || !fpisa_address_read(host, address))
		return fpisa_fail(
			-EINVAL,
			"'%s' is not an address with an optional port, such as 10.0.0.1:18000 or [2001:db8::1]:18000",
			text ? text : "");
	if (!is_host(address))
		return fpisa_no_host(text);
	return 0;
}

/* Store a found address. Return whether other hosts can use the address. */
static int take_found(const struct addrinfo *a, uint16_t port, union fpisa_sockaddr *to)
{
	union fpisa_sockaddr found = {.v6 = {.sin6_family = AF_UNSPEC}};
	struct fpisa_address address;

	if (a->ai_addrlen <= sizeof(found))
		memcpy(&found, a->ai_addr, a->ai_addrlen);
	address = fpisa_address_from(&found);
	*to = fpisa_sockaddr_of(&address, port);
	return fpisa_is_address(&address) && !(fpisa_is_ipv6(&address) && fpisa_is_link_local(&address));
}

int fpisa_find_host(const char *text, uint64_t timeout_ns, union fpisa_sockaddr to[FPISA_HOST_ADDRESSES])
{
	struct addrinfo *found;
	struct fpisa_address address;
	int addresses = 0, rc;
	char copy[256] = "", *number, *host;
	uint16_t port = FPISA_PORT;

	if (strlen(text) < sizeof(copy))
		strcpy(copy, text);
	host = fpisa_cut_endpoint(copy, &number);
	if (host && fpisa_is_link_local_text(host))
		return refuse_link_local(text);
	if (!host || !*host || !read_port(number, &port) || (strchr(host, ':') && !fpisa_address_read(host, &address)))
		return fpisa_fail(
			-EINVAL,
			"'%s' is not a host with an optional port, such as aggregator:18000 or [2001:db8::1]:18000",
			text);
	rc = fpisa_lookup(host, timeout_ns, &found);
	if (rc)
		return rc;
	for (const struct addrinfo *a = found; a && addresses < FPISA_HOST_ADDRESSES; a = a->ai_next)
		addresses += take_found(a, port, &to[addresses]);
	freeaddrinfo(found);
	return addresses ?
		       addresses :
		       fpisa_fail(-EINVAL,
				  "'%s' has only link-local addresses, which are valid on one link only; give it a global or a "
				  "unique local address",
				  host);
}
