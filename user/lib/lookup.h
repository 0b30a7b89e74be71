/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_HOST_LOOKUP_H
#define FPISA_HOST_LOOKUP_H

#include <netdb.h>
#include <stdint.h>

/*
 * As getaddrinfo() of a host's TCP addresses of both families, but for timeout_ns at most: how long that waits for name servers
 * resolv.conf says. A name is looked up by a thread, which ends by itself if it is given up. 0 with *found, which freeaddrinfo() takes;
 * -EINVAL: the name is not known; -EAGAIN: it cannot be looked up now; -ETIMEDOUT; -ENOMEM, or what else a thread lacks. With the message set.
 */
int fpisa_lookup(const char *host, uint64_t timeout_ns, struct addrinfo **found);

#endif
