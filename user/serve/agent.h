/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The agent, which makes this datapath an aggregator of a manager on another host. The agent registers at the manager.
 * On request of the manager, the agent creates and deletes jobs through the helper, within the limits of the
 * configuration. The agent informs the manager if a user of this host has ended a job. It connects only to this
 * manager, and accepts no connections.
 */
#ifndef FPISA_SERVE_AGENT_H
#define FPISA_SERVE_AGENT_H

#include "config/config.h"

/* Run until a signal ends the process. Return 0, or report an error and return a negative errno. */
int agent_run(struct config *c, const char *pin);

#endif
