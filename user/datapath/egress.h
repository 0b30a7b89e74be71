/* SPDX-License-Identifier: GPL-2.0-only */
/* The egress program of a loaded datapath, and the ports by which single replies leave a network namespace */
#ifndef FPISA_DATAPATH_EGRESS_H
#define FPISA_DATAPATH_EGRESS_H

#include "datapath.h"

/* Open the egress program that is pinned in `dir`, or load it over the maps there and pin it. */
int egress_open(const char *dir, int *prog_fd);

/* Let single replies of jobs in this network namespace leave by these interfaces, with the egress program. */
int reply_ports_add(const char *dir, const __u32 *ifindex, int n);

/* Give a job such entries for these interfaces and for all interfaces to which the datapath is attached. */
int reply_ports_give(const struct datapath *dp, __u32 job, const __u32 *ifindex, int n, int prog_fd);

/* Create the map of this network namespace if it does not exist; _put() gives it to a job. */
int reply_ports_open(const struct datapath *dp);
int reply_ports_put(const struct datapath *dp, __u32 job);

/* Return whether the job's replies leave by the ports of this network namespace. Report nothing. */
bool reply_ports_here(const char *dir, __u32 job);

/* Put the egress program again into all entries of jobs in this network namespace. */
int reply_ports_renew(const struct datapath *dp);

#endif
