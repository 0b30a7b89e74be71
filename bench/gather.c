/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measure the minimum cost of sums per key, without exact arithmetic. The program reads keys and values, and adds
 * doubles at the places of the keys. It also does this for one part of the places at a time. bench/sums.py compares
 * this program with fpisa.sum(x, by=). The output is a line of JSON with CPU time in ns per element.
 *
 *     gather ELEMENTS GROUPS ROUNDS
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PART_BITS 15 /* same values as in groups.c */

static double *x, *sum, *part_x;
static uint32_t *part_key;
static int64_t *key, *start, n, groups;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void read_all(void)
{
	int64_t keys = 0;
	double values = 0;

	for (int64_t i = 0; i < n; i++) {
		keys ^= key[i];
		values += x[i];
	}
	sum[0] = values + (double)keys;
}

static void add_direct(void)
{
	for (int64_t i = 0; i < n; i++)
		sum[key[i]] += x[i];
}

/* Add one part at a time. The time does not include finding the places. */
static void add_by_parts(void)
{
	const int64_t parts = ((groups - 1) >> PART_BITS) + 1;
	int64_t *at = malloc((size_t)(parts + 1) * sizeof(*at));

	if (!at)
		exit(1);
	memcpy(at, start, (size_t)(parts + 1) * sizeof(*at));
	for (int64_t i = 0; i < n; i++) {
		int64_t to = at[key[i] >> PART_BITS]++;

		__builtin_prefetch(&part_x[to + 16], 1);
		__builtin_prefetch(&part_key[to + 32], 1);
		part_x[to] = x[i];
		part_key[to] = (uint32_t)key[i];
	}
	for (int64_t i = 0; i < n; i++)
		sum[part_key[i]] += part_x[i];
	free(at);
}

static int ascending(const void *a, const void *b)
{
	double p = *(const double *)a, q = *(const double *)b;

	return (p > q) - (p < q);
}

static double median(void (*call)(void), int rounds)
{
	double *taken = calloc((size_t)rounds, sizeof(*taken)), found;

	if (!taken)
		exit(1);
	call();
	for (int i = 0; i < rounds; i++) {
		double began = now();

		call();
		taken[i] = (now() - began) / (double)n * 1e9;
	}
	qsort(taken, (size_t)rounds, sizeof(*taken), ascending);
	found = taken[rounds / 2];
	free(taken);
	return found;
}

int main(int argc, char **argv)
{
	uint64_t random = 88172645463325252ull;
	int rounds = argc > 3 ? atoi(argv[3]) : 5;

	n = argc > 1 ? atoll(argv[1]) : 10000000;
	groups = argc > 2 ? atoll(argv[2]) : 1000000;
	if (n < 1 || groups < 1 || groups >> 32 || rounds < 1) {
		fprintf(stderr, "usage: gather ELEMENTS GROUPS ROUNDS\n");
		return 2;
	}
	x = malloc((size_t)n * sizeof(*x));
	key = malloc((size_t)n * sizeof(*key));
	sum = calloc((size_t)groups, sizeof(*sum));
	part_x = calloc((size_t)n + 16, sizeof(*part_x));
	part_key = calloc((size_t)n + 32, sizeof(*part_key));
	start = calloc((size_t)(groups >> PART_BITS) + 3, sizeof(*start));
	if (!x || !key || !sum || !part_x || !part_key || !start)
		return 1;
	for (int64_t i = 0; i < n; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		key[i] = (int64_t)(random % (uint64_t)groups);
		x[i] = (double)(random >> 11);
		start[(key[i] >> PART_BITS) + 1]++;
	}
	for (int64_t p = 0; p <= groups >> PART_BITS; p++)
		start[p + 1] += start[p];
	printf("{\"read\": %.3f, \"direct\": %.3f, \"parts\": %.3f}\n", median(read_all, rounds),
	       median(add_direct, rounds), median(add_by_parts, rounds));
	return 0;
}
