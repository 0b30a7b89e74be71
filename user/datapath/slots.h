/* SPDX-License-Identifier: GPL-2.0-only */
/* The number of slots of a datapath, which its first load sets. */
#ifndef FPISA_DATAPATH_SLOTS_H
#define FPISA_DATAPATH_SLOTS_H

#include <linux/types.h>

struct bpf_object;

/* Slots of what is loaded into `dir`, where `asked` were asked for (0: any). Refuses other ones than it has. */
int slots_choose(const char *dir, __u32 asked, __u32 *slots);

/* Make room for `slots` in the maps of an opened object, which shares pinned maps only if they have as much. -errno, reported. */
int slots_fit(struct bpf_object *o, __u32 slots);

#endif
