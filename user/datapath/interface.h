/* SPDX-License-Identifier: GPL-2.0-only */
/* Interfaces of this network namespace, and the datapath on them. */
#ifndef FPISA_DATAPATH_INTERFACE_H
#define FPISA_DATAPATH_INTERFACE_H

#include "datapath.h"

/* Attach to one that has no XDP program; detach the program of prog_fd, or any if that is -1. -errno, reported. */
int interface_attach(const char *dev, __u32 ifindex, int prog_fd, enum datapath_mode mode);
int interface_detach(const char *dev, __u32 ifindex, enum datapath_mode mode, int prog_fd);

/*
 * As datapath_attached(), by the id of the jobs map, or of the entry where
 * programs may not be looked at; *prog_fd, if not NULL, becomes the
 * caller's, and stays as it is in that case.
 */
int interface_attached(__u32 ifindex, __u32 jobs_id, __u32 entry, struct datapath_interface *i, int *prog_fd);

/*
 * visit() of each interface of this network namespace that interface_attached() finds
 * to run the datapath, until one fails. How many there were, or -errno; what
 * goes wrong here is reported.
 */
int interfaces_each(__u32 jobs_id, __u32 entry,
		    int (*visit)(const struct datapath_interface *i, int prog_fd, void *arg), void *arg);

/* As datapath_stacked(), of a datapath by its ids; `any`: or of another one. */
bool interface_stacked(__u32 ifindex, bool up, __u32 jobs_id, __u32 entry, bool any, struct datapath_interface *i);

/* -EBUSY, reported, if an interface next above has a program: the kernel neither attaches nor detaches one below it. */
int interface_check_above(const char *dev, __u32 ifindex, const char *what, const char *dir);

/* Puts a program in the place of the datapath's on all interfaces of this network namespace. */
int interfaces_replace(__u32 jobs_id, int prog_fd);

/* Is one found in another network namespace? Their number, *e set, or 0, e->hidden set; -errno if it could not be looked at. */
int interfaces_in_other_netns(__u32 jobs_id, __u32 entry, struct datapath_other_netns *e);

#endif
