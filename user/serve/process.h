/* SPDX-License-Identifier: GPL-2.0-only */
/* What `fpisa serve` does as a process, for groups and as another manager's aggregator alike. */
#ifndef FPISA_SERVE_PROCESS_H
#define FPISA_SERVE_PROCESS_H

#include <stdbool.h>

#include "helper.h"

/* Nobody, or who the configuration says: who talks to the network owns no pin, and its memory has the keys. 0 or -errno, reported. */
int process_drop(const struct manager_policy *policy);

/* A descriptor of SIGINT, SIGTERM and SIGHUP, which are blocked; -1, reported. */
int process_signals(void);

/* True: the process is to end. What SIGHUP asks for, the helper is asked for. */
bool process_take_signal(int signals, struct helper *h, int *failed);

void process_tell_systemd(void); /* of Type=notify, that it serves */

/*
 * A clock that only goes on, for limits of those that this process hears of: time in which it could not run does not count, for what they say
 * lies unread. Between two calls at most PROCESS_TURN_MS pass, which is longer than a turn of its loop takes.
 */
#define PROCESS_TURN_MS 300
__u64 process_ms(void);

#endif
