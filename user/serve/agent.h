/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * This datapath as an aggregator of another host's manager: registers there, makes and deletes jobs as that says, by the helper, within what the
 * configuration allows, and tells the manager when somebody here has ended one. It makes no connection but to that manager, and takes none.
 */
#ifndef FPISA_SERVE_AGENT_H
#define FPISA_SERVE_AGENT_H

#include "config/config.h"

/* Until a signal ends it: 0; or -errno, reported. */
int agent_run(struct config *c, const char *pin);

#endif
