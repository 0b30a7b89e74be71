/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * This datapath as an aggregator of another host's manager. The agent registers there. It creates and deletes jobs
 * through the helper as the manager says, within the limits of the configuration. It tells the manager if a user of
 * this host has ended a job. The agent connects to that manager only, and accepts no connections.
 */
#ifndef FPISA_SERVE_AGENT_H
#define FPISA_SERVE_AGENT_H

#include "config/config.h"

/* Run until a signal ends the process. Return 0, or -errno, reported. */
int agent_run(struct config *c, const char *pin);

#endif
