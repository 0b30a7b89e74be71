/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_MANAGER_WATCH_H
#define FPISA_MANAGER_WATCH_H

/*
 * Of a TCP socket, connected or not yet: a host that is gone is found by probes each second, and by data that it does not
 * acknowledge, within FPISA_MANAGER_SILENCE_MS, of which those that are told need their share.
 */
void fpisa_watch(int fd);

struct sockaddr_in;

/* A watched TCP socket that is connected to `to` within timeout_ms, and never blocks; else -errno. */
int fpisa_connect_within(const struct sockaddr_in *to, int timeout_ms);

#endif
