/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_ADDRESS_H
#define FPISA_ADDRESS_H

#include <netinet/in.h>
#include <stdint.h>

/* "10.0.0.1" or "10.0.0.1:18000"; *port in host order. -EINVAL, with the message set, if it is no host's. */
int fpisa_parse_address(const char *text, struct in_addr *address, uint16_t *port);

#define FPISA_HOST_ADDRESSES 8

/*
 * "HOST" or "HOST:PORT": an IPv4 address, or a name that has some; without a port FPISA_PORT. Returns how many of its addresses stand in
 * `to`, in the order in which to try them. -EINVAL, -EAGAIN where names cannot be looked up now, -ETIMEDOUT where that takes longer than
 * timeout_ns, with the message set.
 */
int fpisa_find_host(const char *text, uint64_t timeout_ns, struct sockaddr_in to[FPISA_HOST_ADDRESSES]);

#endif
