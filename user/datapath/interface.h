/* SPDX-License-Identifier: GPL-2.0-only */
/* Interfaces of this network namespace, and the datapath on them. */
#ifndef FPISA_DATAPATH_INTERFACE_H
#define FPISA_DATAPATH_INTERFACE_H

#include "datapath.h"

/*
 * interface_attach() attaches to an interface that has no XDP program. interface_detach() detaches the program of
 * prog_fd, or any program if prog_fd is -1.
 */
int interface_attach(const char *dev, __u32 ifindex, int prog_fd, enum datapath_mode mode);
int interface_detach(const char *dev, __u32 ifindex, enum datapath_mode mode, int prog_fd);

/*
 * Do as datapath_attached() does, by the id of the jobs map. If the caller may not examine programs, use the id of the
 * entry and do not set *prog_fd. Otherwise, if prog_fd is not NULL, set *prog_fd to a descriptor that the caller owns.
 */
int interface_attached(__u32 ifindex, __u32 jobs_id, __u32 entry, struct datapath_interface *i, int *prog_fd);

/*
 * Call visit() for each interface of this network namespace on which interface_attached() finds the datapath, until a
 * call fails. Return the number of interfaces, or a negative errno, for example if an interface cannot be examined.
 * Report errors except those of visit().
 */
int interfaces_each(__u32 jobs_id, __u32 entry,
		    int (*visit)(const struct datapath_interface *i, int prog_fd, void *arg), void *arg);

/* Do as datapath_stacked() does, for the datapath with these ids, or with `any` for any datapath. */
bool interface_stacked(__u32 ifindex, bool up, __u32 jobs_id, __u32 entry, bool any, struct datapath_interface *i);

/*
 * If an interface directly above has a program, report this and return -EBUSY, because the kernel does not attach or
 * detach a program below such an interface.
 */
int interface_check_above(const char *dev, __u32 ifindex, const char *what, const char *dir);

/*
 * Return whether an interface of this network namespace has a datapath, or a program that may be a datapath. Report no
 * errors.
 */
bool interfaces_have_datapath(void);

/* Replace the datapath's program by another on all interfaces of this network namespace. */
int interfaces_replace(__u32 jobs_id, int prog_fd);

/*
 * Search other network namespaces for the datapath. Return the number of its interfaces and set *e. If there are none,
 * return 0 and set e->hidden. Return a negative errno if the search failed.
 */
int interfaces_in_other_netns(__u32 jobs_id, __u32 entry, struct datapath_other_netns *e);

#endif
