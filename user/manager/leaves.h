/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The choice of a tree for a group: each site of its ranks has a leaf, and aggregators elsewhere, or a leaf, are the roots.
 * A site is a rack, or a host outside of all racks. The ranks of a site then take the bandwidth of one rank on the site's
 * link.
 */
#ifndef FPISA_MANAGER_LEAVES_H
#define FPISA_MANAGER_LEAVES_H

#include <linux/types.h>
#include <stdbool.h>

#include "fpisa/ranks.h"
#include "lib/base/shards.h"

/* An aggregator to choose from */
struct leaves_host {
	struct fpisa_ranks ranks; /* the group's ranks at its site */
	bool in_rack;		  /* its site is a rack */
	bool colocated;		  /* its own host has ranks of the group */
	double bits;		  /* rate of its link; any unit */
};

enum leaves_choice {
	LEAVES_TREE,
	LEAVES_NO_USE,	/* all ranks are at one site, or each rank has a site of its own */
	LEAVES_NO_ROOT, /* all aggregators are in racks or at sites with ranks, and no leaf can be the root */
	LEAVES_NO_LEAF, /* the site of a rank has no aggregator, or too few for its ranks */
	LEAVES_TOO_MANY /* the ranks need more leaves than a group can have */
};

#define LEAVES_MOST FPISA_MAX_WORKERS /* leaves of a group, and ranks of a leaf */

struct leaves_tree {
	__u32 n;     /* number of aggregators */
	__u32 roots; /* number of roots, at least 1 */
	/* the roots, of which a single one may be a leaf too, and then the leaves in the order of their lowest ranks */
	__u32 host[FPISA_MAX_SHARDS + LEAVES_MOST];
	__u8 leaf[FPISA_MAX_RANKS]; /* index of each rank's leaf in host[], from `roots` */
	__u32 without;		    /* LEAVES_NO_LEAF: the lowest rank for which its site has no aggregator */
};

/*
 * Choose the tree of a group with `size` ranks, 1 to FPISA_MAX_RANKS, among `n` aggregators. The roots are up to `roots`
 * aggregators, 1 to FPISA_MAX_SHARDS, that are neither in a rack nor at a site with ranks, the fastest first. If there is
 * none, the root is the fastest leaf whose own host has ranks, unless its link would then carry more than without a tree. If a site has several aggregators, its leaf is
 * the fastest of those whose own host has no ranks, or the fastest if all of these hosts have ranks. Among equally
 * fast aggregators, the first in the list is chosen, and among equally fast leaves, the first leaf. A leaf has up to
 * LEAVES_MOST ranks, the lowest of its site that have no leaf yet. For the others the site needs another aggregator. A group
 * with more ranks than a job always has a tree if each rank has a leaf. If there is no tree, the result is the reason.
 * NO_LEAF and TOO_MANY precede NO_USE, which precedes NO_ROOT.
 */
enum leaves_choice leaves_choose(const struct leaves_host *h, __u32 n, __u32 size, __u32 roots, struct leaves_tree *t);

#endif
