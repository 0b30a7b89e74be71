/* SPDX-License-Identifier: GPL-2.0-only */
/* A rank's port without the datapath: `job add` warns of it, and `doctor` reports it */
#ifndef FPISA_JOB_PORT_H
#define FPISA_JOB_PORT_H

#include "host/link.h"

enum job_port {
	JOB_PORT_BARE,	      /* load the datapath on it */
	JOB_PORT_NO_ETHERNET, /* the datapath cannot be loaded on it */
	JOB_PORT_VRF,	      /* name the VRF's port */
	JOB_PORT_NAME,	      /* found on an interface below, such as a bridge's port: name that interface */
	JOB_PORT_MOVE, /* found below, for example on a VLAN's parent, from which results would be wrong: load the datapath here */
	JOB_PORT_ABOVE, /* found on an interface above: do not name this one */
};

/* Decide what to do about a port. `below` and `above` are the nearest interfaces there that have the datapath, or NULL. */
enum job_port job_port(const struct link *at, const char *below, const char *above);

struct job_port_text {
	char why[128];
	char advice[128];
	char fix[128]; /* a command; "": make the job again with another list of workers, or no command helps */
};

/* Describe the port. `other` is the name of the interface that has the datapath; `native`: `at` has native XDP. */
void job_port_text(enum job_port p, const struct link *at, const char *other, bool native, struct job_port_text *t);

#endif
