/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FPISA_HOST_LISTEN_H
#define FPISA_HOST_LISTEN_H

#include "lib/base/address.h"

/*
 * Listen on a TCP port of this address, or of all addresses of both families if it is ::. Return a non-blocking socket, or
 * a negative errno. An IPv4 peer of a socket for both has an address ::ffff:a.b.c.d.
 */
int listen_tcp(struct fpisa_address at, __u16 port, int backlog);

/* Write where listen_tcp() listens, "10.0.0.1:18000", or "*:18000" for all addresses, and return it. */
const char *listen_text(struct fpisa_address at, __u16 port, char text[FPISA_ENDPOINT_LEN]);

#endif
