/* SPDX-License-Identifier: GPL-2.0-only */
/* Functions of the process of `fpisa serve`, shared by the manager and by another manager's aggregator. */
#ifndef FPISA_SERVE_PROCESS_H
#define FPISA_SERVE_PROCESS_H

#include <stdbool.h>

#include "helper.h"

/* Check that process_drop() will find its user. Return 0 or -EINVAL, reported. */
int process_check(const struct manager_policy *policy);

/*
 * Become user nobody, or the configured user. The process that talks to the network owns no pin, and its memory has the
 * keys. Return 0 or -errno, reported.
 */
int process_drop(const struct manager_policy *policy);

/* Open a descriptor of SIGINT, SIGTERM and SIGHUP, which are blocked. Return -1, reported, if this fails. */
int process_signals(void);

/* Handle a signal, and pass a SIGHUP on to the helper. Return true if the process is to end. */
bool process_take_signal(int signals, struct helper *h, int *failed);

void process_tell_systemd(void); /* tell systemd that the process serves, for Type=notify */

/*
 * Return the time of a clock that only goes forward, for deadlines of peers. Time in which this process could not run
 * does not count, because peers' messages lay unread. At most PROCESS_TURN_MS pass between two calls, which is longer
 * than a turn of the process's loop takes.
 */
#define PROCESS_TURN_MS 300
__u64 process_ms(void);

#endif
