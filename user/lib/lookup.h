/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_HOST_LOOKUP_H
#define FPISA_HOST_LOOKUP_H

#include <netdb.h>
#include <stdint.h>

/*
 * Find the TCP addresses of a host in both families as getaddrinfo() does, but wait for at most timeout_ns.
 * getaddrinfo() itself waits for name servers as long as resolv.conf says, so it runs in a thread. After a timeout the
 * thread ends when getaddrinfo() returns. Return 0 and set *found, which freeaddrinfo() frees. On an error, set the
 * message and return -EINVAL if the name is unknown, -EAGAIN if the name cannot be looked up now, -ETIMEDOUT if
 * timeout_ns has passed, or an error of creating a thread.
 */
int fpisa_lookup(const char *host, uint64_t timeout_ns, struct addrinfo **found);

#endif
