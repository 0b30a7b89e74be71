/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_HOST_LOOKUP_H
#define FPISA_HOST_LOOKUP_H

#include <netdb.h>
#include <stdint.h>

/*
 * Return a host's TCP addresses of both families as getaddrinfo() does, but wait for at most timeout_ns. getaddrinfo()
 * waits for name servers as long as resolv.conf says. A thread looks the name up; it ends by itself after the time
 * limit. Return 0 with *found, which freeaddrinfo() frees, or with the message set: -EINVAL if the name is not known,
 * -EAGAIN if it cannot be looked up now, -ETIMEDOUT if timeout_ns has passed, or an error of creating a thread.
 */
int fpisa_lookup(const char *host, uint64_t timeout_ns, struct addrinfo **found);

#endif
