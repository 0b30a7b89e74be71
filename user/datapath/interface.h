/* SPDX-License-Identifier: GPL-2.0-only */
/* Interfaces of this network namespace, and the datapath on them */
#ifndef FPISA_DATAPATH_INTERFACE_H
#define FPISA_DATAPATH_INTERFACE_H

#include "datapath.h"

/*
 * Attach to an interface that has no XDP program; detach the program of prog_fd, or any if prog_fd is -1. Return 0 or
 * -errno, reported.
 */
int interface_attach(const char *dev, __u32 ifindex, int prog_fd, enum datapath_mode mode);
int interface_detach(const char *dev, __u32 ifindex, enum datapath_mode mode, int prog_fd);

/*
 * Do as datapath_attached(), by the id of the jobs map. If the caller may not look at programs, use the id of the
 * entry, and leave *prog_fd unchanged. Otherwise the caller owns *prog_fd, if prog_fd is not NULL.
 */
int interface_attached(__u32 ifindex, __u32 jobs_id, __u32 entry, struct datapath_interface *i, int *prog_fd);

/*
 * Call visit() for each interface of this network namespace on which interface_attached() finds the datapath, until a
 * call fails. Return the number of interfaces, or -errno, for example if an interface cannot be examined. This function
 * reports its own errors.
 */
int interfaces_each(__u32 jobs_id, __u32 entry,
		    int (*visit)(const struct datapath_interface *i, int prog_fd, void *arg), void *arg);

/* Do as datapath_stacked(), for a datapath given by its ids, or with `any` for any datapath. */
bool interface_stacked(__u32 ifindex, bool up, __u32 jobs_id, __u32 entry, bool any, struct datapath_interface *i);

/*
 * Return -EBUSY, reported, if an interface next above has a program: the kernel then neither attaches nor detaches a
 * program below it.
 */
int interface_check_above(const char *dev, __u32 ifindex, const char *what, const char *dir);

/* Return whether an interface of this network namespace has a datapath, or a program that may be one. Report nothing. */
bool interfaces_have_datapath(void);

/* Replace the datapath's program by another on all interfaces of this network namespace. */
int interfaces_replace(__u32 jobs_id, int prog_fd);

/*
 * Search other network namespaces. Return the number of interfaces and set *e, or return 0 and set e->hidden. Return
 * -errno if the search failed.
 */
int interfaces_in_other_netns(__u32 jobs_id, __u32 entry, struct datapath_other_netns *e);

#endif
