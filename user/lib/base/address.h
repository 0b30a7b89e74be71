/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Addresses of either family (fpisa/address.h) as text and as the kernel's sockets take them. */
#ifndef FPISA_BASE_ADDRESS_H
#define FPISA_BASE_ADDRESS_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "fpisa/address.h"
#include "order.h"

#define FPISA_ADDRESS_LEN INET6_ADDRSTRLEN
#define FPISA_ENDPOINT_LEN (FPISA_ADDRESS_LEN + 8)

/* Write "10.0.0.1" or "2001:db8::1". */
static inline const char *fpisa_address_text(const struct fpisa_address *a, char text[FPISA_ADDRESS_LEN])
{
	if (!fpisa_is_ipv6(a))
		return inet_ntop(AF_INET, &a->w[3], text, FPISA_ADDRESS_LEN);
	return inet_ntop(AF_INET6, a, text, FPISA_ADDRESS_LEN);
}

/* Write "10.0.0.1:18000" or "[2001:db8::1]:18000"; the port in host order. */
static inline const char *fpisa_endpoint_text(const struct fpisa_address *a, uint16_t port,
					      char text[FPISA_ENDPOINT_LEN])
{
	char address[FPISA_ADDRESS_LEN];

	snprintf(text, FPISA_ENDPOINT_LEN, fpisa_is_ipv6(a) ? "[%s]:%u" : "%s:%u", fpisa_address_text(a, address), port);
	return text;
}

/* Read an address of either family. Return whether the text is an address, but not an IPv4 address in IPv6's notation. */
static inline int fpisa_address_read(const char *text, struct fpisa_address *a)
{
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) == 1) {
		*a = fpisa_ipv4(fpisa_be32(v4.s_addr));
		return 1;
	}
	return inet_pton(AF_INET6, text, a) == 1 && !fpisa_is_ipv4(a);
}

/* Return whether the text is an IPv6 address, a colon and a port, and not an address as a whole. */
static inline int fpisa_lacks_brackets(const char *text)
{
	const char *port = strrchr(text, ':');
	char address[FPISA_ADDRESS_LEN];
	struct fpisa_address a;

	if (!port || !port[1] || port[1 + strspn(port + 1, "0123456789")] || fpisa_address_read(text, &a) ||
	    (size_t)(port - text) >= sizeof(address))
		return 0;
	memcpy(address, text, (size_t)(port - text));
	address[port - text] = 0;
	return fpisa_address_read(address, &a) && fpisa_is_ipv6(&a);
}

/*
 * Cut "[ADDR]:PORT", "ADDR:PORT" or "ADDR", where an IPv6 address with a port is in brackets. Return the text of the
 * address, or NULL if brackets are missing or do not match. Set *port to the text of the port, or to NULL if there is none.
 */
static inline char *fpisa_cut_endpoint(char *text, char **port)
{
	char *colon = strchr(text, ':'), *end;

	*port = NULL;
	if (*text == '[') {
		end = strchr(text++, ']');
		if (!end || (end[1] && end[1] != ':') || !colon || colon > end)
			return NULL;
		*port = end[1] ? end + 2 : NULL;
		*end = 0;
	} else if (colon && !strchr(colon + 1, ':')) {
		*port = colon + 1;
		*colon = 0;
	} else if (fpisa_lacks_brackets(text)) {
		return NULL;
	}
	return text;
}

/* Return the address with all bits after the first `bits` cleared. An IPv4 address has 96 bits more than its own. */
static inline struct fpisa_address fpisa_network_of(const struct fpisa_address *a, unsigned int bits)
{
	struct fpisa_address n = *a;

	for (unsigned int i = 0; i < sizeof(n.b); i++)
		n.b[i] &= (uint8_t)(bits >= 8 * (i + 1) ? 0xff : bits <= 8 * i ? 0 : 0xff00 >> bits % 8);
	return n;
}

/* Return whether an IPv6 address is link-local (fe80::/10), so that it is unknown on other links. */
static inline int fpisa_is_link_local(const struct fpisa_address *a)
{
	return a->b[0] == 0xfe && (a->b[1] & 0xc0) == 0x80;
}

/* Return whether the text is a link-local address, with or without its interface, as in fe80::1%eth0. */
static inline int fpisa_is_link_local_text(const char *text)
{
	char address[FPISA_ADDRESS_LEN] = "";
	const size_t n = strcspn(text, "%");
	struct fpisa_address a;

	if (n < sizeof(address))
		memcpy(address, text, n);
	return fpisa_address_read(address, &a) && fpisa_is_ipv6(&a) && fpisa_is_link_local(&a);
}

static inline int fpisa_is_multicast(const struct fpisa_address *a)
{
	return fpisa_is_ipv6(a) ? a->b[0] == 0xff : a->b[12] >> 4 == 14;
}

/* Return whether an IPv6 address is ::1. */
static inline int fpisa_is_loopback6(const struct fpisa_address *a)
{
	return !a->d[0] && !a->w[2] && a->w[3] == fpisa_be32(htonl(1));
}

union fpisa_sockaddr {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static inline socklen_t fpisa_sockaddr_len(const union fpisa_sockaddr *s)
{
	return s->any.sa_family == AF_INET6 ? sizeof(s->v6) : sizeof(s->v4);
}

/* Return the socket address; the port in host order. */
static inline union fpisa_sockaddr fpisa_sockaddr_of(const struct fpisa_address *a, uint16_t port)
{
	union fpisa_sockaddr s = {.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};

	if (fpisa_is_ipv6(a))
		memcpy(&s.v6.sin6_addr, a, sizeof(s.v6.sin6_addr));
	else
		s.v4 = (struct sockaddr_in){
			.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = fpisa_in_addr(a->w[3])};
	return s;
}

/* Return the port in host order. sin_port and sin6_port have one place. */
static inline uint16_t fpisa_sockaddr_port(const union fpisa_sockaddr *s)
{
	return ntohs(s->v4.sin_port);
}

/* Return the address, or :: if the family is neither. */
static inline struct fpisa_address fpisa_address_from(const union fpisa_sockaddr *s)
{
	struct fpisa_address a = {.d = {0, 0}};

	if (s->any.sa_family == AF_INET)
		a = fpisa_ipv4(fpisa_be32(s->v4.sin_addr.s_addr));
	else if (s->any.sa_family == AF_INET6)
		memcpy(&a, &s->v6.sin6_addr, sizeof(a));
	return a;
}

static inline int fpisa_same_sockaddr(const union fpisa_sockaddr *a, const union fpisa_sockaddr *b)
{
	if (a->any.sa_family != b->any.sa_family || a->v4.sin_port != b->v4.sin_port)
		return 0;
	return a->any.sa_family == AF_INET ? a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr :
					     !memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr));
}

#endif
