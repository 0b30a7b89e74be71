/* SPDX-License-Identifier: GPL-2.0-only */
/* The egress program of a loaded datapath, and the ports through which single replies leave a network namespace. */
#ifndef FPISA_DATAPATH_EGRESS_H
#define FPISA_DATAPATH_EGRESS_H

#include "datapath.h"

/* Open the egress program that is pinned in `dir`, or load it over the maps there and pin it. */
int egress_open(const char *dir, int *prog_fd);

/* Let single replies of jobs in this network namespace leave through these interfaces with the egress program. */
int reply_ports_add(const char *dir, const __u32 *ifindex, int n);

/*
 * Let single replies of a job leave through these interfaces, and through all interfaces to which the datapath is
 * attached.
 */
int reply_ports_give(const struct datapath *dp, __u32 job, const __u32 *ifindex, int n, int prog_fd);

/*
 * reply_ports_open() creates the map of this network namespace if it does not exist. reply_ports_put() assigns the map
 * to a job.
 */
int reply_ports_open(const struct datapath *dp);
int reply_ports_put(const struct datapath *dp, __u32 job);

/* Return whether the replies of the job leave through the ports of this network namespace. Report no errors. */
bool reply_ports_here(const char *dir, __u32 job);

/* Update the egress program in all entries of jobs in this network namespace. */
int reply_ports_renew(const struct datapath *dp);

#endif
