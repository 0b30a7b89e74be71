/* SPDX-License-Identifier: GPL-2.0-only */
/* A rank's port without the datapath, about which `job add` warns and which `doctor` reports. */
#ifndef FPISA_JOB_PORT_H
#define FPISA_JOB_PORT_H

#include "host/link.h"

enum job_port {
	JOB_PORT_BARE,	      /* load the datapath on it */
	JOB_PORT_NO_ETHERNET, /* the datapath cannot be loaded on it */
	JOB_PORT_VRF,	      /* name the VRF's port */
	/* name the interface below, such as a port of a bridge, which has the datapath */
	JOB_PORT_NAME,
	/* load the datapath here, because an interface below, such as the parent of a VLAN, would send wrong results */
	JOB_PORT_MOVE,
	JOB_PORT_ABOVE, /* do not name this interface, because an interface above has the datapath */
};

/*
 * Decide what to do about a port. `below` and `above` are the nearest interfaces below and above the port that have the
 * datapath, or NULL.
 */
enum job_port job_port(const struct link *at, const char *below, const char *above);

#define JOB_PORT_FIX_LEN 512

struct job_port_text {
	char why[128];
	char advice[JOB_PORT_FIX_LEN + 4];
	char fix[JOB_PORT_FIX_LEN]; /* a command; "": create the job again with another list of workers, or no command helps */
};

#define JOB_PORT_UNKNOWN "PORT" /* stands for a port towards a worker that this machine does not know */

/*
 * Describe the port. `other` is the name of the interface that has the datapath. `off` detaches it from all interfaces
 * below `at`, for JOB_PORT_MOVE. `native` says that `at` has native XDP.
 */
void job_port_text(enum job_port p, const struct link *at, const char *other, const char *off, bool native,
		   struct job_port_text *t);

#endif
