/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * This datapath as an aggregator of another host's manager: register there, make and delete jobs through the helper as the manager says, within the limits of the
 * configuration, and tell the manager when somebody on this host has ended a job. The agent connects to that manager only, and accepts no connections.
 */
#ifndef FPISA_SERVE_AGENT_H
#define FPISA_SERVE_AGENT_H

#include "config/config.h"

/* Until a signal ends it: 0; or -errno, reported. */
int agent_run(struct config *c, const char *pin);

#endif
