/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The choice of a tree for a group: each host of its ranks is a leaf, and a host without ranks is the root. The ranks of
 * a host then take the bandwidth of one rank on the host's link.
 */
#ifndef FPISA_MANAGER_LEAVES_H
#define FPISA_MANAGER_LEAVES_H

#include <linux/types.h>
#include <stdbool.h>

#include "fpisa/job.h"
#include "lib/base/shards.h"

/* An aggregator to choose from */
struct leaves_host {
	__u64 ranks; /* bitmap of the group's ranks on its host */
	double bits; /* rate of its link; any unit */
};

struct leaves_tree {
	__u32 n;		      /* number of aggregators, 3 to FPISA_MAX_SHARDS */
	__u32 host[FPISA_MAX_SHARDS]; /* the root, and then the leaves in the order of their lowest ranks */
	__u8 leaf[FPISA_MAX_WORKERS]; /* index of each rank's leaf in host[], from 1 */
};

/*
 * Choose the tree of a group with `size` ranks, 1 to FPISA_MAX_WORKERS, among `n` aggregators. The fastest aggregator
 * without ranks is the root, and the first in the list if several are equally fast. If several aggregators are on one
 * host, only the first gets the host's ranks. Return false if there is no tree: no aggregator is without ranks, a rank's
 * host has no aggregator, all ranks are on one host, every host has one rank, or there are more leaves than a group can
 * have.
 */
bool leaves_choose(const struct leaves_host *h, __u32 n, __u32 size, struct leaves_tree *t);

#endif
