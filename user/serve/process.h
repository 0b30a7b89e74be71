/* SPDX-License-Identifier: GPL-2.0-only */
/* Functions of the process `fpisa serve`, for the manager and for the agent of an aggregator. */
#ifndef FPISA_SERVE_PROCESS_H
#define FPISA_SERVE_PROCESS_H

#include <stdbool.h>

#include "helper.h"

/* Check that process_drop() will find its user. Return 0, or report an error and return -EINVAL. */
int process_check(const struct manager_policy *policy);

/*
 * Become user nobody, or the configured user. The user nobody owns no pins. Prevent other processes from reading the
 * memory of this process, which contains keys. Return 0, or report an error and return a negative errno.
 */
int process_drop(const struct manager_policy *policy);

/* Block SIGINT, SIGTERM and SIGHUP, and open a descriptor for them. On an error, report it and return -1. */
int process_signals(void);

/* Handle a signal. Pass a SIGHUP on to the helper. Return true if the process must end. */
bool process_take_signal(int signals, struct helper *h, int *failed);

void process_tell_systemd(void); /* inform systemd that the process serves (Type=notify) */

/*
 * Return the time of a monotonic clock for deadlines of peers. Time in which this process could not run does not count,
 * because messages of peers were not read. Between two calls the clock advances by at most PROCESS_TURN_MS, which is
 * longer than a turn of the loop.
 */
#define PROCESS_TURN_MS 300
__u64 process_ms(void);

#endif
