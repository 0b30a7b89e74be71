/* SPDX-License-Identifier: GPL-2.0-only */
/* A rank's port on which the datapath is not: what `job add` warns of, and `doctor` finds. */
#ifndef FPISA_JOB_PORT_H
#define FPISA_JOB_PORT_H

#include "host/link.h"

enum job_port {
	JOB_PORT_BARE,	      /* load it there */
	JOB_PORT_NO_ETHERNET, /* it can not be */
	JOB_PORT_VRF,	      /* name the VRF's port */
	JOB_PORT_NAME,	      /* it is on an interface below, as a bridge's port: name that */
	JOB_PORT_MOVE, /* it is on one below by which results would leave wrongly, as a VLAN's parent: load it here instead */
	JOB_PORT_ABOVE, /* it is on one above: do not name this one */
};

/* `below` and `above`: the nearest interface there that has the datapath; NULL: none has. */
enum job_port job_port(const struct link *at, const char *below, const char *above);

struct job_port_text {
	char why[128];
	char advice[128];
	char fix[128]; /* a command; "": it is to make the job again with another list of workers, or there is none */
};

/* `other`: the name of the interface that has it. `native`: `at` has native XDP. */
void job_port_text(enum job_port p, const struct link *at, const char *other, bool native, struct job_port_text *t);

#endif
