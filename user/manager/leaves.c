// SPDX-License-Identifier: GPL-2.0-only
/* The choice of a group's tree; leaves.h has the contract. */
#include "leaves.h"

static bool is_among(const __u32 *host, __u32 n, __u32 i)
{
	for (__u32 k = 0; k < n; k++)
		if (host[k] == i)
			return true;
	return false;
}

/* Return the index of the fastest root besides those of the tree, or n. */
static __u32 root_of(const struct leaves_host *h, __u32 n, const struct leaves_tree *t)
{
	__u32 root = n;

	for (__u32 i = 0; i < n; i++)
		if (!fpisa_ranks_any(&h[i].ranks) && !h[i].in_rack && !is_among(t->host, t->roots, i) &&
		    (root == n || h[i].bits > h[root].bits))
			root = i;
	return root;
}

/* Add up to `roots` roots. If there is none, the index of the only root is n. */
static void add_roots(const struct leaves_host *h, __u32 n, __u32 roots, struct leaves_tree *t)
{
	for (__u32 i = root_of(h, n, t); i < n && t->roots < roots; i = root_of(h, n, t))
		t->host[t->roots++] = i;
	if (!t->roots)
		t->host[t->roots++] = n;
	t->n = t->roots;
}

static bool is_better(const struct leaves_host *a, const struct leaves_host *b)
{
	return a->colocated == b->colocated ? a->bits > b->bits : b->colocated;
}

static __u32 leaves_of(const struct leaves_tree *t)
{
	return t->n - t->roots;
}

/* Return the index of another leaf for this rank, or n if its site has none. */
static __u32 leaf_of(const struct leaves_host *h, __u32 n, __u32 rank, const struct leaves_tree *t)
{
	__u32 leaf = n;

	for (__u32 i = 0; i < n; i++)
		if (fpisa_ranks_has(&h[i].ranks, rank) && !is_among(t->host + t->roots, leaves_of(t), i) &&
		    (leaf == n || is_better(&h[i], &h[leaf])))
			leaf = i;
	return leaf;
}

/* Add the leaf of this rank, which ranks of its site have that do not have a leaf yet. */
static enum leaves_choice add_leaf(const struct leaves_host *h, __u32 n, __u32 rank, struct leaves_tree *t)
{
	const __u32 leaf = leaf_of(h, n, rank, t);
	__u32 ranks = 0;

	t->without = rank;
	if (leaf == n)
		return LEAVES_NO_LEAF;
	if (leaves_of(t) == LEAVES_MOST)
		return LEAVES_TOO_MANY;
	FPISA_EACH_RANK(r, &h[leaf].ranks)
		if (!t->leaf[r] && ranks++ < LEAVES_MOST)
			t->leaf[r] = (__u8)t->n;
	t->host[t->n++] = leaf;
	return LEAVES_TREE;
}

/*
 * Return whether a leaf may be the root. The link of a root at one of L sites carries the vectors of L - 1 leaves each way.
 * Without a tree, each site's link carries the vectors of its ranks to the aggregators at other sites, and as many results
 * to the ranks there: 2 x size / L x (L - 1) / L vectors. With more ranks than a job has, there is no other way.
 */
static bool leaf_may_be_root(__u32 leaves, __u32 size)
{
	return leaves * leaves <= 2 * size || size > FPISA_MAX_WORKERS;
}

/* Return the index of the leaf that is the root too, or n. Frames between the two go through lo, as those of ranks there. */
static __u32 root_of_leaves(const struct leaves_host *h, __u32 n, const struct leaves_tree *t)
{
	__u32 root = n;

	for (__u32 i = t->roots; i < t->n; i++)
		if (h[t->host[i]].colocated && (root == n || h[t->host[i]].bits > h[root].bits))
			root = t->host[i];
	return root;
}

enum leaves_choice leaves_choose(const struct leaves_host *h, __u32 n, __u32 size, __u32 roots, struct leaves_tree *t)
{
	enum leaves_choice choice = LEAVES_TREE;

	*t = (struct leaves_tree){.n = 0};
	add_roots(h, n, roots, t);
	for (__u32 r = 0; r < size && choice == LEAVES_TREE; r++)
		if (!t->leaf[r])
			choice = add_leaf(h, n, r, t);
	if (choice != LEAVES_TREE)
		return choice;
	if (leaves_of(t) == 1 || leaves_of(t) == size)
		return LEAVES_NO_USE;
	if (t->host[0] == n && leaf_may_be_root(leaves_of(t), size))
		t->host[0] = root_of_leaves(h, n, t);
	return t->host[0] == n ? LEAVES_NO_ROOT : LEAVES_TREE;
}
