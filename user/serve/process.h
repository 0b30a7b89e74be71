/* SPDX-License-Identifier: GPL-2.0-only */
/* Functions of the process of `fpisa serve`, both for the manager and for another manager's aggregator. */
#ifndef FPISA_SERVE_PROCESS_H
#define FPISA_SERVE_PROCESS_H

#include <stdbool.h>

#include "helper.h"

/* Become user nobody, or the configured user: the process that talks to the network owns no pin, and its memory has the keys. 0 or -errno, reported. */
int process_drop(const struct manager_policy *policy);

/* Open a descriptor of SIGINT, SIGTERM and SIGHUP, which are blocked; -1, reported. */
int process_signals(void);

/* Handle a signal. True: the process is to end. Pass a SIGHUP on to the helper. */
bool process_take_signal(int signals, struct helper *h, int *failed);

void process_tell_systemd(void); /* tell systemd that it serves, for Type=notify */

/*
 * A clock that only goes on, for limits of those that this process hears of: time in which it could not run does not count, for what they say
 * lies unread. Between two calls at most PROCESS_TURN_MS pass, which is longer than a turn of its loop takes.
 */
#define PROCESS_TURN_MS 300
__u64 process_ms(void);

#endif
