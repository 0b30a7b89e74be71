// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test the choice of a group's tree (user/manager/leaves.c) on fixed and on random aggregators. A check of the contract,
 * written without the code, decides whether a choice is valid, and whether there is one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "manager/leaves.h"
#include "vectors.h"

#define MOST_HOSTS 24
#define MANY_HOSTS 100
#define MANY_RANKS 700
#define NOWHERE (-1)

/* A group's ranks, each on a host, and aggregators on hosts. Hosts have numbers, and may be in racks; rates are 1 to 3. */
struct site {
	uint32_t size, n, roots;
	uint32_t host_of_rank[MANY_RANKS], host_of[MANY_HOSTS];
	int rack_of_host[MANY_HOSTS + 1];
	struct leaves_host h[MANY_HOSTS];
	uint32_t right[MANY_RANKS]; /* the right leaf of each rank, or n */
};

static bool same_site(const struct site *s, uint32_t host, uint32_t other)
{
	return host == other || (s->rack_of_host[host] != NOWHERE && s->rack_of_host[host] == s->rack_of_host[other]);
}

static bool has_ranks(const struct site *s, uint32_t host)
{
	for (uint32_t r = 0; r < s->size; r++)
		if (s->host_of_rank[r] == host)
			return true;
	return false;
}

static void fill(struct site *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		s->h[i].ranks = FPISA_NO_RANKS;
		s->h[i].in_rack = s->rack_of_host[s->host_of[i]] != NOWHERE;
		s->h[i].colocated = has_ranks(s, s->host_of[i]);
		for (uint32_t r = 0; r < s->size; r++)
			if (same_site(s, s->host_of_rank[r], s->host_of[i]))
				fpisa_ranks_add(&s->h[i].ranks, r);
	}
}

/* Return the number of lower ranks at the site of this rank. */
static uint32_t place_of(const struct site *s, uint32_t rank)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < rank; r++)
		n += same_site(s, s->host_of_rank[r], s->host_of_rank[rank]);
	return n;
}

/*
 * Return the leaf of a rank by the contract, or n: without ranks before with ranks, then by rate, then by place. The site's
 * first aggregator has its first 64 ranks, the second the next 64.
 */
static uint32_t right_leaf(const struct site *s, uint32_t rank)
{
	uint32_t before = place_of(s, rank) / 64;

	for (int busy = 0; busy < 2; busy++)
		for (int rate = 3; rate; rate--)
			for (uint32_t i = 0; i < s->n; i++)
				if (same_site(s, s->host_of_rank[rank], s->host_of[i]) && s->h[i].bits == rate &&
				    s->h[i].colocated == busy && !before--)
					return i;
	return s->n;
}

/* Return whether the aggregator is a leaf, and its own host has ranks. */
static bool is_leaf_with_ranks(const struct site *s, uint32_t i)
{
	for (uint32_t r = 0; r < s->size; r++)
		if (s->right[r] == i)
			return has_ranks(s, s->host_of[i]);
	return false;
}

/* Return the lowest rank whose leaf is this aggregator. */
static uint32_t first_rank(const struct site *s, uint32_t i)
{
	uint32_t r = 0;

	while (s->right[r] != i)
		r++;
	return r;
}

/* Return the number of leaves that the ranks need. */
static uint32_t leaves_of(const struct site *s)
{
	uint32_t leaves = 0;

	for (uint32_t r = 0; r < s->size; r++)
		leaves += place_of(s, r) % 64 == 0;
	return leaves;
}

/*
 * Return whether the link of a root on a leaf's host carries at most as much as links do without a tree. The root receives a
 * vector from each other site. Without a tree, a site with its share of the ranks, which has its share of the vector, sends
 * the other sites' shares of its ranks' vectors, and its own share to all other ranks.
 */
static bool is_worth_it(const struct site *s, uint32_t sites)
{
	const double share = 1.0 / sites, ranks = (double)s->size / sites;

	return s->size > 64 || sites - 1 <= ranks * (1 - share) + (s->size - ranks) * share + 1e-9;
}

/*
 * Return the root of this place by the contract, or n: of the aggregators outside of racks and without ranks the fastest,
 * then the first; without any, of the leaves whose hosts have ranks the fastest, then that of the lowest rank.
 */
static uint32_t right_root(const struct site *s, uint32_t place)
{
	uint32_t best = s->n, spare = 0;

	for (int rate = 3; rate; rate--)
		for (uint32_t i = 0; i < s->n; i++)
			if (s->h[i].bits == rate && s->rack_of_host[s->host_of[i]] == NOWHERE &&
			    !has_ranks(s, s->host_of[i]) && spare++ == place)
				return i;
	if (spare || place)
		return s->n;
	for (int rate = 3; rate && best == s->n && is_worth_it(s, leaves_of(s)); rate--)
		for (uint32_t i = 0; i < s->n; i++)
			if (s->h[i].bits == rate && is_leaf_with_ranks(s, i) &&
			    (best == s->n || first_rank(s, i) < first_rank(s, best)))
				best = i;
	return best;
}

static enum leaves_choice right_choice(const struct site *s, uint32_t *without)
{
	uint32_t leaves = 0;

	for (uint32_t r = 0; r < s->size; r++) {
		*without = r;
		if (s->right[r] == s->n)
			return LEAVES_NO_LEAF;
		leaves += place_of(s, r) % 64 == 0;
		if (leaves > LEAVES_MOST)
			return LEAVES_TOO_MANY;
	}
	if (leaves == 1 || leaves == s->size)
		return LEAVES_NO_USE;
	return right_root(s, 0) == s->n ? LEAVES_NO_ROOT : LEAVES_TREE;
}

/* Check the choice for a site, and return it. */
static enum leaves_choice check(struct site *s)
{
	struct leaves_tree t;
	uint32_t lowest = 0, without = 0;
	enum leaves_choice right;

	for (uint32_t r = 0; r < s->size; r++)
		s->right[r] = right_leaf(s, r);
	right = right_choice(s, &without);
	assert_int_equal(leaves_choose(s->h, s->n, s->size, s->roots, &t), right);
	if (right == LEAVES_NO_LEAF)
		assert_int_equal(t.without, without);
	if (right != LEAVES_TREE)
		return right;
	assert_int_equal(t.n, leaves_of(s) + t.roots);
	assert_true(t.roots && t.roots <= s->roots);
	for (uint32_t i = 0; i < t.roots; i++)
		assert_int_equal(t.host[i], right_root(s, i));
	assert_true(t.roots == s->roots || right_root(s, t.roots) == s->n);
	lowest = t.roots - 1;
	for (uint32_t r = 0; r < s->size; r++) {
		assert_true(t.leaf[r] >= t.roots && t.leaf[r] < t.n);
		assert_int_equal(t.host[t.leaf[r]], s->right[r]);
		/* Leaves are ordered by their lowest rank. */
		assert_true(t.leaf[r] <= lowest + 1);
		lowest = t.leaf[r] > lowest ? t.leaf[r] : lowest;
	}
	for (uint32_t r = s->size; r < FPISA_MAX_RANKS; r++)
		assert_int_equal(t.leaf[r], 0);
	return LEAVES_TREE;
}

/* Put hosts into racks: none in a third of the sites, and most hosts in the others. */
static void fill_racks(struct vectors_rng *rng, struct site *s)
{
	const uint32_t racks = vectors_below(rng, 3) ? 1 + vectors_below(rng, 6) : 0;

	for (uint32_t k = 0; k <= MANY_HOSTS; k++)
		s->rack_of_host[k] = racks && vectors_below(rng, 4) ? (int)vectors_below(rng, racks) : NOWHERE;
}

/* Put an aggregator on each host, and one in `rarely` on any host. Put the ranks on the first `hosts` hosts. */
static void fill_hosts(struct vectors_rng *rng, struct site *s, uint32_t hosts, uint32_t rarely)
{
	for (uint32_t k = 0; k < s->n; k++) {
		s->host_of[k] = vectors_below(rng, rarely) ? k : vectors_below(rng, s->n);
		s->h[k].bits = 1 + vectors_below(rng, 3);
	}
	for (uint32_t r = 0; r < s->size; r++)
		s->host_of_rank[r] = vectors_below(rng, hosts);
	fill(s);
}

static void random_sites(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	uint32_t seen[LEAVES_TOO_MANY + 1] = {0};

	(void)state;
	for (int i = 0; i < 30000; i++) {
		struct site s = {.size = 1 + vectors_below(&rng, FPISA_MAX_WORKERS),
				 .n = 1 + vectors_below(&rng, MOST_HOSTS),
				 .roots = 1 + vectors_below(&rng, 4)};
		const uint32_t hosts = 1 + vectors_below(&rng, s.n + 1);

		fill_racks(&rng, &s);
		fill_hosts(&rng, &s, hosts, 8);
		seen[check(&s)]++;
	}
	assert_true(seen[LEAVES_TREE] > 3000);
	for (int choice = 0; choice < LEAVES_TOO_MANY; choice++)
		assert_true(seen[choice] > 30);
	assert_int_equal(seen[LEAVES_TOO_MANY], 0);
}

/* Groups with more ranks than a leaf, whose sites may need several leaves, or have too many */
static void random_many_ranks(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	uint32_t seen[LEAVES_TOO_MANY + 1] = {0};

	(void)state;
	for (int i = 0; i < 200; i++) {
		/* The ranks of every fourth site are on too many hosts, which all have an aggregator. */
		const bool too_many = i % 4 == 0;
		struct site s = {.size = too_many ? MANY_RANKS : 65 + vectors_below(&rng, MANY_RANKS - 64),
				 .n = too_many ? MANY_HOSTS : 2 + vectors_below(&rng, MANY_HOSTS - 1),
				 .roots = 1 + vectors_below(&rng, FPISA_MAX_SHARDS)};
		const uint32_t hosts = too_many ? MANY_HOSTS - 20 : 1 + vectors_below(&rng, s.n < 8 ? s.n : 8);

		memset(s.rack_of_host, 0xff, sizeof(s.rack_of_host));
		if (!too_many && vectors_below(&rng, 2))
			fill_racks(&rng, &s);
		fill_hosts(&rng, &s, hosts, vectors_below(&rng, 2) ? 10 : 10000);
		seen[check(&s)]++;
	}
	assert_int_equal(seen[LEAVES_NO_USE], 0);
	assert_true(seen[LEAVES_TREE] && seen[LEAVES_NO_LEAF] && seen[LEAVES_TOO_MANY]);
}

/* Hosts 0 and 1 have two ranks each, and host 2 has none. */
static struct site small(void)
{
	struct site s = {.size = 4,
			 .n = 3,
			 .roots = 2,
			 .host_of_rank = {0, 1, 0, 1},
			 .host_of = {0, 1, 2},
			 .h = {{.bits = 3}, {.bits = 3}, {.bits = 1}}};

	for (int k = 0; k <= MANY_HOSTS; k++)
		s.rack_of_host[k] = NOWHERE;
	fill(&s);
	return s;
}

static void no_tree(void **state)
{
	struct site s = small();

	(void)state;
	assert_int_equal(check(&s), LEAVES_TREE);
	/* Without host 2, a leaf is the root. */
	s.n = 2;
	assert_int_equal(check(&s), LEAVES_TREE);
	s = small();
	s.host_of_rank[3] = 7;
	fill(&s);
	assert_int_equal(check(&s), LEAVES_NO_LEAF);
	s = small();
	s.host_of_rank[1] = s.host_of_rank[3] = 0;
	fill(&s);
	assert_int_equal(check(&s), LEAVES_NO_USE);
	s = small();
	s.size = 2;
	fill(&s);
	assert_int_equal(check(&s), LEAVES_NO_USE);
}

/* Two racks of two hosts with a rank each. The aggregators of the first rack are on a host without ranks and with ranks. */
static void two_racks(void **state)
{
	struct site s = {.size = 4,
			 .n = 4,
			 .roots = 1,
			 .host_of_rank = {0, 1, 2, 3},
			 .host_of = {0, 4, 3, 5},
			 .rack_of_host = {0, 0, 1, 1, 0, NOWHERE},
			 .h = {{.bits = 3}, {.bits = 1}, {.bits = 1}, {.bits = 1}}};
	struct leaves_tree t;

	(void)state;
	fill(&s);
	assert_int_equal(check(&s), LEAVES_TREE);
	assert_int_equal(leaves_choose(s.h, s.n, s.size, s.roots, &t), LEAVES_TREE);
	assert_true(t.n == 3 && t.host[0] == 3 && t.host[1] == 1 && t.host[2] == 2);
	assert_true(t.leaf[0] == 1 && t.leaf[1] == 1 && t.leaf[2] == 2 && t.leaf[3] == 2);
	/* An aggregator in a rack without ranks is not the root, but the leaf of the second rack, whose host has ranks. */
	s.rack_of_host[5] = 2;
	fill(&s);
	assert_int_equal(leaves_choose(s.h, s.n, s.size, s.roots, &t), LEAVES_TREE);
	assert_true(t.n == 3 && t.host[0] == 2 && t.host[1] == 1 && t.host[2] == 2);
	/* Neither leaf's host has ranks. */
	s.host_of[2] = 5;
	s.rack_of_host[5] = 1;
	s.n = 3;
	fill(&s);
	assert_int_equal(check(&s), LEAVES_NO_ROOT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_tree),
		cmocka_unit_test(two_racks),
		cmocka_unit_test(random_sites),
		cmocka_unit_test(random_many_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
