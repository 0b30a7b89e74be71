// SPDX-License-Identifier: GPL-2.0-only
/* The choice of a group's tree; leaves.h has the contract. */
#include "leaves.h"

/* Return the index of the fastest aggregator without ranks, or n. */
static __u32 root_of(const struct leaves_host *h, __u32 n)
{
	__u32 root = n;

	for (__u32 i = 0; i < n; i++)
		if (!h[i].ranks && (root == n || h[i].bits > h[root].bits))
			root = i;
	return root;
}

/* Add the leaf of this rank. Return false if its host has no aggregator, or if there are too many leaves. */
static bool add_leaf(const struct leaves_host *h, __u32 n, __u32 rank, struct leaves_tree *t)
{
	__u32 i = 0;

	while (i < n && !(h[i].ranks >> rank & 1))
		i++;
	if (i == n || t->n == FPISA_MAX_SHARDS)
		return false;
	for (__u32 r = rank; r < FPISA_MAX_WORKERS; r++)
		if (h[i].ranks >> r & 1)
			t->leaf[r] = (__u8)t->n;
	t->host[t->n++] = i;
	return true;
}

bool leaves_choose(const struct leaves_host *h, __u32 n, __u32 size, struct leaves_tree *t)
{
	const __u32 root = root_of(h, n);

	*t = (struct leaves_tree){.n = 1, .host = {root}};
	if (root == n)
		return false;
	for (__u32 r = 0; r < size; r++)
		if (!t->leaf[r] && !add_leaf(h, n, r, t))
			return false;
	return t->n > 2 && t->n - 1 < size;
}
