// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reproduce the paper's figure "Endianness conversion". Measure how many values per second a core converts from one
 * byte order to the other, and compute the number of cores that 100 Gbit/s need.
 *
 * 	endian [--rounds R]	9 rounds by default
 *
 * Values of 2, 4 and 8 bytes are converted from one buffer to another in three ways:
 *
 * 	each	one instruction per value that the compiler must not merge, as in DPDK's rte_bswap16() and others
 * 	plain	a loop over __builtin_bswap, which the compiler vectorises with 128 bits (-O3, SSE2)
 * 	avx2	32 bytes per instruction
 *
 * `packet` is 1 KB in the L1 cache, and `vector` is 64 MB in memory. Each round runs all three ways in turn. The output
 * is a JSON line for each case. A line has the median and quartiles of 10^9 values per second, and the number of cores
 * for 100 Gbit/s of payload, rounded up.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PACKET 1024
#define VECTOR (64 << 20)
#define LINE_RATE (100e9 / 8) /* in bytes per second */
#define MAX_ROUNDS 1000

typedef void swap_fn(void *out, const void *in, size_t bytes);

#define EACH(bits, instruction)                                                                           \
	static void each##bits(void *out, const void *in, size_t bytes)                                   \
	{                                                                                                 \
		const uint##bits##_t *from = in;                                                          \
		uint##bits##_t *to = out;                                                                 \
                                                                                                          \
		for (size_t i = 0; i < bytes / sizeof(*from); i++) {                                      \
			uint##bits##_t x = from[i];                                                       \
                                                                                                          \
			asm volatile(instruction : "+Q"(x));                                              \
			to[i] = x;                                                                        \
		}                                                                                         \
	}                                                                                                 \
	static void plain##bits(void *out, const void *in, size_t bytes)                                  \
	{                                                                                                 \
		const uint##bits##_t *restrict from = in;                                                 \
		uint##bits##_t *restrict to = out;                                                        \
                                                                                                          \
		for (size_t i = 0; i < bytes / sizeof(*from); i++)                                        \
			to[i] = __builtin_bswap##bits(from[i]);                                           \
	}                                                                                                 \
	__attribute__((target("avx2"))) static void avx2_##bits(void *out, const void *in, size_t bytes)  \
	{                                                                                                 \
		__m256i order;                                                                            \
		uint8_t at[32];                                                                           \
                                                                                                          \
		for (int i = 0; i < 32; i++)                                                              \
			at[i] = (uint8_t)((i ^ (bits / 8 - 1)) & 15);                                     \
		order = _mm256_loadu_si256((const __m256i *)at);                                          \
		for (size_t i = 0; i < bytes; i += 32) {                                                  \
			__m256i x = _mm256_loadu_si256((const __m256i *)((const char *)in + i));          \
                                                                                                          \
			_mm256_storeu_si256((__m256i *)((char *)out + i), _mm256_shuffle_epi8(x, order)); \
		}                                                                                         \
	}

EACH(16, "xchgb %b0, %h0")
EACH(32, "bswapl %0")
EACH(64, "bswapq %0")

static const struct way {
	const char *name;
	unsigned int size; /* size of a value in bytes */
	swap_fn *swap;
} ways[] = {
	{"each", 2, each16},  {"plain", 2, plain16}, {"avx2", 2, avx2_16},  {"each", 4, each32},  {"plain", 4, plain32},
	{"avx2", 4, avx2_32}, {"each", 8, each64},   {"plain", 8, plain64}, {"avx2", 8, avx2_64},
};

#define WAYS (sizeof(ways) / sizeof(ways[0]))

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Convert VECTOR bytes in runs of `bytes`. Return the bytes per second. */
static double rate(const struct way *w, char *out, const char *in, size_t bytes)
{
	double begin = seconds();

	for (size_t done = 0; done < VECTOR; done += bytes) {
		w->swap(out, in, bytes);
		asm volatile("" : : "r"(out) : "memory");
	}
	return VECTOR / (seconds() - begin);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_case(const struct way *w, const char *what, double *v, int rounds)
{
	double median;

	qsort(v, (size_t)rounds, sizeof(*v), compare);
	median = v[rounds / 2];
	printf("{\"bench\": \"endian\", \"way\": \"%s\", \"bytes\": %u, \"buffer\": \"%s\", \"gvalues_per_s\": %.3g, "
	       "\"gvalues_per_s_quartiles\": [%.3g, %.3g], \"cores_for_100_gbit\": %d}\n",
	       w->name, w->size, what, median / w->size / 1e9, v[rounds / 4] / w->size / 1e9,
	       v[3 * rounds / 4] / w->size / 1e9, (int)(LINE_RATE / median) + 1);
}

/* Check that every way converts each value. */
static int check(char *out, char *in)
{
	for (size_t i = 0; i < PACKET; i++)
		in[i] = (char)rand();
	for (const struct way *w = ways; w < ways + WAYS; w++) {
		w->swap(out, in, PACKET);
		for (size_t i = 0; i < PACKET; i++) {
			if (out[i] != in[i / w->size * w->size + w->size - 1 - i % w->size]) {
				fprintf(stderr, "endian: %s swaps values of %u bytes wrongly\n", w->name, w->size);
				return -1;
			}
		}
	}
	return 0;
}

static int measure(char *out, char *in, int rounds)
{
	static const struct {
		const char *name;
		size_t bytes;
	} buffers[] = {{"packet", PACKET}, {"vector", VECTOR}};
	static double v[2][WAYS][MAX_ROUNDS];

	memset(in, 1, VECTOR);
	memset(out, 1, VECTOR);
	for (int r = 0; r < rounds; r++)
		for (int b = 0; b < 2; b++)
			for (size_t w = 0; w < WAYS; w++)
				v[b][w][r] = rate(&ways[w], out, in, buffers[b].bytes);
	for (int b = 0; b < 2; b++)
		for (size_t w = 0; w < WAYS; w++)
			print_case(&ways[w], buffers[b].name, v[b][w], rounds);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"rounds", required_argument, NULL, 'r'}, {0}};
	char *in = aligned_alloc(64, VECTOR), *out = aligned_alloc(64, VECTOR);
	int rounds = 9, c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		char *end = optarg;

		if (c == 'r')
			rounds = (int)strtol(optarg, &end, 10);
		if (c != 'r' || *end || rounds < 1 || rounds > MAX_ROUNDS) {
			fprintf(stderr, "usage: endian [--rounds R], 1 to %d\n", MAX_ROUNDS);
			return 2;
		}
	}
	if (!in || !out || !__builtin_cpu_supports("avx2")) {
		fprintf(stderr, "endian: %s\n",
			in && out ? "this CPU has no AVX2" : "no memory for two buffers of 64 MB");
		return 1;
	}
	return check(out, in) || measure(out, in, rounds) ? 1 : 0;
}
