/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What failed calls in place have left in their arrays; unclean.h has the contracts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include "base/error.h"
#include "base/fork.h"
#include "unclean.h"

struct fpisa_unclean {
	LIST_ENTRY(fpisa_unclean) link;
	const char *at;
	uint64_t count, chunks;
	uint32_t elements; /* of a chunk; the last may have fewer */
	struct fpisa_format format;
	uint64_t left;	 /* marked chunks */
	uint64_t hash[]; /* of each chunk; 0: it is not marked */
};

/* Under the lock of fork.h: a child has the parent's arrays, and what is known of them. */
static LIST_HEAD(uncleans, fpisa_unclean) all = LIST_HEAD_INITIALIZER(all);
static uint32_t arrays; /* its length, read without the lock */

struct fpisa_unclean *fpisa_unclean_new(const void *array, uint64_t count, uint32_t elements, struct fpisa_format format)
{
	uint64_t chunks = (count + elements - 1) / elements;
	/* Of a long array only what is marked costs more than address space. */
	struct fpisa_unclean *u = calloc(1, sizeof(*u) + chunks * sizeof(u->hash[0]));

	if (!u)
		return NULL;
	u->at = array;
	u->count = count;
	u->chunks = chunks;
	u->elements = elements;
	u->format = format;
	return u;
}

void fpisa_unclean_free(struct fpisa_unclean *u)
{
	free(u);
}

void fpisa_unclean_mark(struct fpisa_unclean *u, uint64_t chunk)
{
	u->left += !u->hash[chunk];
	u->hash[chunk] = 1;
}

struct part {
	const char *at;
	size_t bytes;
};

/* The elements of a chunk, and its scales, if the format has them. */
static void parts(const struct fpisa_unclean *u, uint64_t chunk, struct part p[2])
{
	uint64_t first = chunk * u->elements, left = u->count - first, n = left < u->elements ? left : u->elements;

	p[0] = (struct part){u->at + first * u->format.bytes, n * u->format.bytes};
	p[1] = (struct part){u->at + u->count + first / FPISA_BLOCK, u->format.shared ? n / FPISA_BLOCK : 0};
}

static uint64_t hash_bytes(uint64_t h, struct part p)
{
	for (size_t i = 0; i < p.bytes; i += sizeof(h)) {
		uint64_t word = 0;

		memcpy(&word, p.at + i, p.bytes - i < sizeof(word) ? p.bytes - i : sizeof(word));
		h = (h ^ word) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 32;
	}
	return h;
}

/* Never 0. */
static uint64_t hash_chunk(const struct fpisa_unclean *u, uint64_t chunk)
{
	struct part p[2];

	parts(u, chunk, p);
	return hash_bytes(hash_bytes(1, p[0]), p[1]) | 1;
}

void fpisa_unclean_remember(struct fpisa_unclean *u)
{
	if (!u->left) {
		free(u);
		return;
	}
	for (uint64_t i = 0; i < u->chunks; i++)
		if (u->hash[i])
			u->hash[i] = hash_chunk(u, i);
	fpisa_fork_hold();
	LIST_INSERT_HEAD(&all, u, link);
	__atomic_fetch_add(&arrays, 1, __ATOMIC_RELAXED);
	fpisa_fork_release();
}

/* Of a chunk that is not all within the array some memory may be gone. */
static int within(struct part p, const char *array, size_t size)
{
	return !p.bytes || (p.at >= array && p.at + p.bytes <= array + size);
}

/* How many marked chunks in the array are as they were left; the others there are marked no more. */
static uint64_t still(struct fpisa_unclean *u, const char *array, size_t size)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < u->chunks; i++) {
		struct part p[2];

		if (!u->hash[i])
			continue;
		parts(u, i, p);
		if (!within(p[0], array, size) || !within(p[1], array, size))
			continue;
		if (hash_chunk(u, i) == u->hash[i]) {
			n++;
		} else {
			u->hash[i] = 0;
			u->left--;
		}
	}
	return n;
}

int fpisa_unclean_refuse(const void *array, size_t size)
{
	struct fpisa_unclean *u, *next;
	uint64_t n = 0;

	if (!__atomic_load_n(&arrays, __ATOMIC_RELAXED))
		return 0;
	fpisa_fork_hold();
	for (u = LIST_FIRST(&all); u; u = next) {
		next = LIST_NEXT(u, link);
		n += still(u, array, size);
		if (!u->left) {
			LIST_REMOVE(u, link);
			__atomic_fetch_sub(&arrays, 1, __ATOMIC_RELAXED);
			free(u);
		}
	}
	fpisa_fork_release();
	if (!n)
		return 0;
	return fpisa_fail(
		-EUCLEAN,
		"the array has sums of a call in place that failed, in %llu of its chunks, and no input; write it again, "
		"give input that has the same bytes in another array, "
		"or set options.restore, which puts the input back",
		(unsigned long long)n);
}
