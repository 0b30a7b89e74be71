/* SPDX-License-Identifier: GPL-2.0-only */
/* The number of slots of a datapath, which its first load sets */
#ifndef FPISA_DATAPATH_SLOTS_H
#define FPISA_DATAPATH_SLOTS_H

#include <linux/types.h>

struct bpf_object;

/*
 * Choose the slots of a load into `dir` if the caller asks for `asked` (0: any). Refuse a number that differs from the
 * loaded datapath's.
 */
int slots_choose(const char *dir, __u32 asked, __u32 *slots);

/*
 * Make room for `slots` in the maps of an opened object. It shares pinned maps only if they have the same size. Return
 * 0 or -errno, reported.
 */
int slots_fit(struct bpf_object *o, __u32 slots);

#endif
