// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reason and advice for a port of a rank at which no frames of workers are received. These functions use only data from
 * resolve.c and doctor; port.h has the contracts.
 */
#include <stdio.h>

#include "host/stack.h"
#include "port.h"

enum job_port job_port(const struct link *at, const char *below, const char *above)
{
	if (!link_ethernet(at))
		return JOB_PORT_NO_ETHERNET;
	if (link_vrf(at))
		return JOB_PORT_VRF;
	if (above)
		return JOB_PORT_ABOVE;
	if (!below)
		return JOB_PORT_BARE;
	return link_answered_below(at) ? JOB_PORT_NAME : JOB_PORT_MOVE;
}

void job_port_text(enum job_port p, const struct link *at, const char *other, const char *off, bool native,
		   struct job_port_text *t)
{
	const char *mode = native ? "" : " --mode skb";

	*t = (struct job_port_text){.fix = ""};
	snprintf(t->why, sizeof(t->why), "this datapath is not loaded on it");
	switch (p) {
	case JOB_PORT_NO_ETHERNET:
		snprintf(t->why, sizeof(t->why),
			 "its frames have no Ethernet headers, so that no datapath can be loaded on it");
		snprintf(t->advice, sizeof(t->advice), "let workers reach this machine through another interface");
		return;
	case JOB_PORT_VRF:
		snprintf(t->why, sizeof(t->why), "it is a VRF, which receives no frames itself");
		snprintf(t->advice, sizeof(t->advice), "name the port of each worker, ADDR@PORT");
		return;
	case JOB_PORT_BARE:
		snprintf(t->fix, sizeof(t->fix), "fpisa load %s%s", at->name, mode);
		break;
	case JOB_PORT_NAME:
		snprintf(t->why, sizeof(t->why), "this datapath is on %s, below it", other);
		snprintf(t->advice, sizeof(t->advice), "give that interface for each worker behind it, ADDR@%s", other);
		return;
	case JOB_PORT_MOVE:
		snprintf(t->why, sizeof(t->why), "this datapath is on %s, below it", other);
		snprintf(t->fix, sizeof(t->fix), "%s && fpisa load %s%s", off, at->name, mode);
		break;
	case JOB_PORT_ABOVE:
		snprintf(t->why, sizeof(t->why), "this datapath is on %s, above it", other);
		snprintf(t->advice, sizeof(t->advice), "leave @%s out", at->name);
		return;
	}
	snprintf(t->advice, sizeof(t->advice), "run %s", t->fix);
}
