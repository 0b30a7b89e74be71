/* SPDX-License-Identifier: GPL-2.0-only */
/* The egress program of a loaded datapath, and the ports of a network namespace that single replies leave by. */
#ifndef FPISA_DATAPATH_EGRESS_H
#define FPISA_DATAPATH_EGRESS_H

#include "datapath.h"

/* Open the egress program that is pinned in `dir`, or load it over the maps there and pin it. */
int egress_open(const char *dir, int *prog_fd);

/* Single replies of jobs in this network namespace leave these interfaces by an entry with the egress program. */
int reply_ports_add(const char *dir, const __u32 *ifindex, int n);

/* Gives such entries to a job: of all interfaces that the datapath is attached to, and of these. */
int reply_ports_give(const struct datapath *dp, __u32 job, const __u32 *ifindex, int n, int prog_fd);

/* Make the map of this network namespace, if there is none; and let a job have it. */
int reply_ports_open(const struct datapath *dp);
int reply_ports_put(const struct datapath *dp, __u32 job);

/* Return whether the job's replies leave by the ports of this network namespace. Reports nothing. */
bool reply_ports_here(const char *dir, __u32 job);

/* Put the egress program again into all entries of jobs in this network namespace. */
int reply_ports_renew(const struct datapath *dp);

#endif
