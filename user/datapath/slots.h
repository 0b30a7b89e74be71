/* SPDX-License-Identifier: GPL-2.0-only */
/* The number of slots of a datapath, which the first load sets. */
#ifndef FPISA_DATAPATH_SLOTS_H
#define FPISA_DATAPATH_SLOTS_H

#include <linux/types.h>

struct bpf_object;

/*
 * Choose the number of slots of a load into `dir` if the caller asks for `asked` (0: any). Refuse a number that differs
 * from that of the loaded datapath.
 */
int slots_choose(const char *dir, __u32 asked, __u32 *slots);

/*
 * Set the sizes of the maps of an opened object for `slots` slots. The object shares pinned maps only if they have the
 * same size. Return 0, or report an error and return a negative errno.
 */
int slots_fit(struct bpf_object *o, __u32 slots);

#endif
