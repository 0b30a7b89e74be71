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

/* A group's ranks, each on a host, and aggregators on hosts. Hosts have numbers; rates are 1 to 3. */
struct site {
	uint32_t size, n;
	uint32_t host_of_rank[FPISA_MAX_WORKERS], host_of[MOST_HOSTS];
	struct leaves_host h[MOST_HOSTS];
};

static void fill(struct site *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		s->h[i].ranks = 0;
		for (uint32_t r = 0; r < s->size; r++)
			if (s->host_of_rank[r] == s->host_of[i])
				s->h[i].ranks |= 1ull << r;
	}
}

/* Return the first aggregator on a host, or n. */
static uint32_t first_on(const struct site *s, uint32_t host)
{
	uint32_t i = 0;

	while (i < s->n && s->host_of[i] != host)
		i++;
	return i;
}

/* Return the root by the contract, or n: of the aggregators without ranks the fastest, and of these the first. */
static uint32_t right_root(const struct site *s)
{
	for (int rate = 3; rate; rate--)
		for (uint32_t i = 0; i < s->n; i++)
			if (s->h[i].bits == rate && !s->h[i].ranks)
				return i;
	return s->n;
}

/* Return the number of hosts that the ranks have, or 0 if one of them has no aggregator. */
static uint32_t hosts_of(const struct site *s)
{
	uint32_t hosts = 0;

	for (uint32_t r = 0; r < s->size; r++) {
		uint32_t earlier = 0;

		if (first_on(s, s->host_of_rank[r]) == s->n)
			return 0;
		while (s->host_of_rank[earlier] != s->host_of_rank[r])
			earlier++;
		hosts += earlier == r;
	}
	return hosts;
}

/* Return whether the site has a tree. If it has one, check the choice. */
static bool check(struct site *s)
{
	struct leaves_tree t;
	const uint32_t hosts = hosts_of(s), root = right_root(s);
	const bool right = root < s->n && hosts > 1 && hosts < s->size && hosts < FPISA_MAX_SHARDS;
	uint32_t lowest = 0;

	assert_int_equal(leaves_choose(s->h, s->n, s->size, &t), right);
	if (!right)
		return false;
	assert_int_equal(t.n, hosts + 1);
	assert_int_equal(t.host[0], root);
	for (uint32_t r = 0; r < s->size; r++) {
		assert_true(t.leaf[r] && t.leaf[r] < t.n);
		assert_int_equal(t.host[t.leaf[r]], first_on(s, s->host_of_rank[r]));
		/* Leaves are ordered by their lowest rank. */
		assert_true(t.leaf[r] <= lowest + 1);
		lowest = t.leaf[r] > lowest ? t.leaf[r] : lowest;
	}
	for (uint32_t r = s->size; r < FPISA_MAX_WORKERS; r++)
		assert_int_equal(t.leaf[r], 0);
	return true;
}

static void random_sites(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	uint32_t trees = 0;

	(void)state;
	for (int i = 0; i < 100000; i++) {
		struct site s = {.size = 1 + vectors_below(&rng, FPISA_MAX_WORKERS),
				 .n = 1 + vectors_below(&rng, MOST_HOSTS)};
		const uint32_t hosts = 1 + vectors_below(&rng, s.n + 1);

		for (uint32_t k = 0; k < s.n; k++) {
			/* Most hosts have one aggregator. */
			s.host_of[k] = vectors_below(&rng, 8) ? k : vectors_below(&rng, s.n);
			s.h[k].bits = 1 + vectors_below(&rng, 3);
		}
		for (uint32_t r = 0; r < s.size; r++)
			s.host_of_rank[r] = vectors_below(&rng, hosts);
		fill(&s);
		trees += check(&s);
	}
	assert_true(trees > 10000);
}

/* Hosts 0 and 1 have two ranks each, and host 2 has none. */
static struct site small(void)
{
	struct site s = {.size = 4,
			 .n = 3,
			 .host_of_rank = {0, 1, 0, 1},
			 .host_of = {0, 1, 2},
			 .h = {{.bits = 3}, {.bits = 3}, {.bits = 1}}};

	fill(&s);
	return s;
}

static void no_tree(void **state)
{
	struct site s = small();

	(void)state;
	assert_true(check(&s));
	s.n = 2;
	assert_false(check(&s));
	s = small();
	s.host_of_rank[3] = 7;
	fill(&s);
	assert_false(check(&s));
	s = small();
	s.host_of_rank[1] = s.host_of_rank[3] = 0;
	fill(&s);
	assert_false(check(&s));
	s = small();
	s.size = 2;
	fill(&s);
	assert_false(check(&s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_tree),
		cmocka_unit_test(random_sites),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
