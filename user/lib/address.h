/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_ADDRESS_H
#define FPISA_ADDRESS_H

#include <stdint.h>
#include "base/address.h"

/*
 * Parse "10.0.0.1", "10.0.0.1:18000", "2001:db8::1" or "[2001:db8::1]:18000"; *port is in host order. Return 0, or -EINVAL
 * with the message set if `text` is not the address of a host.
 */
int fpisa_parse_address(const char *text, struct fpisa_address *address, uint16_t *port);

/* Do the same with another default port. */
int fpisa_parse_endpoint(const char *text, uint16_t default_port, struct fpisa_address *address, uint16_t *port);

#define FPISA_HOST_ADDRESSES 8

/*
 * Look up "HOST", "HOST:PORT" or "[HOST]:PORT", where HOST is an address or a name, and an IPv6 address with a port is in
 * brackets. The default port is FPISA_PORT. Return the number of addresses in `to`, in the order in which to try them. On
 * an error, set the message and return -EINVAL, or -EAGAIN if names cannot be looked up now, or -ETIMEDOUT if the lookup
 * takes longer than timeout_ns.
 */
int fpisa_find_host(const char *text, uint64_t timeout_ns, union fpisa_sockaddr to[FPISA_HOST_ADDRESSES]);

#endif
