/* SPDX-License-Identifier: GPL-2.0-only */
/* Interfaces of this network namespace, and the datapath on them. */
#ifndef FPISA_DATAPATH_INTERFACE_H
#define FPISA_DATAPATH_INTERFACE_H

#include "datapath.h"

/* Attach to an interface that has no XDP program; detach the program of prog_fd, or any if prog_fd is -1. -errno, reported. */
int interface_attach(const char *dev, __u32 ifindex, int prog_fd, enum datapath_mode mode);
int interface_detach(const char *dev, __u32 ifindex, enum datapath_mode mode, int prog_fd);

/*
 * Like datapath_attached(), by the id of the jobs map, or by the id of the entry if the caller
 * may not look at programs. The caller owns *prog_fd, if prog_fd is not NULL; in the second
 * case it stays unchanged.
 */
int interface_attached(__u32 ifindex, __u32 jobs_id, __u32 entry, struct datapath_interface *i, int *prog_fd);

/*
 * Call visit() for each interface of this network namespace on which interface_attached() finds
 * the datapath, until a call fails. Return the number of interfaces, or -errno. Errors of this
 * function itself are reported.
 */
int interfaces_each(__u32 jobs_id, __u32 entry,
		    int (*visit)(const struct datapath_interface *i, int prog_fd, void *arg), void *arg);

/* Like datapath_stacked(), for a datapath given by its ids; `any`: or for another one. */
bool interface_stacked(__u32 ifindex, bool up, __u32 jobs_id, __u32 entry, bool any, struct datapath_interface *i);

/* -EBUSY, reported, if an interface next above has a program: the kernel neither attaches nor detaches one below it. */
int interface_check_above(const char *dev, __u32 ifindex, const char *what, const char *dir);

/* Puts a program in the place of the datapath's on all interfaces of this network namespace. */
int interfaces_replace(__u32 jobs_id, int prog_fd);

/* Search other network namespaces. Return the number of interfaces and set *e, or return 0 and set e->hidden; -errno if the search failed. */
int interfaces_in_other_netns(__u32 jobs_id, __u32 entry, struct datapath_other_netns *e);

#endif
