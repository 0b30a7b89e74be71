/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_MANAGER_WATCH_H
#define FPISA_MANAGER_WATCH_H

#include "lib/base/address.h"

/*
 * Watch a TCP socket, connected or not yet, for the death of the other host, by probes each second and by
 * unacknowledged data. A death is detected early enough to inform other ranks within FPISA_MANAGER_SILENCE_MS.
 */
void fpisa_watch(int fd);

/* Connect a watched, non-blocking TCP socket to `to` within timeout_ms. Return the socket, or a negative errno. */
int fpisa_connect_within(const union fpisa_sockaddr *to, int timeout_ms);

#endif
