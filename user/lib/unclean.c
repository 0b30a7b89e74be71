/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Arrays that failed in-place calls have left unclean; unclean.h has the contracts. */
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
	uint64_t count;
	uint32_t elements; /* elements of a chunk; the last chunk may have fewer */
	struct fpisa_format format;
	uint64_t first, chunks; /* first chunk and number of chunks that `mark` covers */
	uint64_t left;		/* number of marked chunks */
	/* mark of each chunk; 0: not marked; after the call has failed, a hash of the chunk's bytes */
	uint32_t mark[];
};

/*
 * The list of unclean arrays, under the lock of fork.h, because a child has copies of the parent's arrays and must know
 * their state.
 */
static LIST_HEAD(uncleans, fpisa_unclean) all = LIST_HEAD_INITIALIZER(all);
static uint32_t arrays; /* length of the list, which is read without the lock */
static uint64_t held;	/* number of chunks of all structs, remembered or not; atomic */

int fpisa_unclean_new(struct fpisa_unclean **out, const void *array, uint64_t count, uint32_t elements,
		      struct fpisa_format format)
{
	uint64_t chunks = (count + elements - 1) / elements;
	struct fpisa_unclean *u = NULL;

	if (__atomic_add_fetch(&held, chunks, __ATOMIC_RELAXED) > FPISA_UNCLEAN_MOST) {
		__atomic_fetch_sub(&held, chunks, __ATOMIC_RELAXED);
		return fpisa_fail(
			-ENOMEM,
			"the in-place call has %llu chunks, but all in-place calls of this process, running or failed, may have %llu together; split the call, pass another array for the sum, or set options.restore",
			(unsigned long long)chunks, (unsigned long long)FPISA_UNCLEAN_MOST);
	}
	/* Unmarked parts of a long array only use address space. */
	u = calloc(1, sizeof(*u) + chunks * sizeof(u->mark[0]));
	if (!u) {
		__atomic_fetch_sub(&held, chunks, __ATOMIC_RELAXED);
		return fpisa_fail(-ENOMEM, "not enough memory for an in-place call of %llu elements; " FPISA_MORE_MEMORY,
				  (unsigned long long)count);
	}
	u->at = array;
	u->count = count;
	u->chunks = chunks;
	u->elements = elements;
	u->format = format;
	*out = u;
	return 0;
}

void fpisa_unclean_free(struct fpisa_unclean *u)
{
	if (u)
		__atomic_fetch_sub(&held, u->chunks, __ATOMIC_RELAXED);
	free(u);
}

void fpisa_unclean_mark(struct fpisa_unclean *u, uint64_t first, uint32_t n)
{
	for (uint64_t i = first / u->elements; i * u->elements < first + n; i++) {
		u->left += !u->mark[i];
		u->mark[i] = 1;
	}
}

struct part {
	const char *at;
	size_t bytes;
};

/* Set p[0] to the elements of the chunk, and p[1] to its scales, if the format has them. */
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

/* Hash a chunk. The result is never 0. */
static uint32_t hash_chunk(const struct fpisa_unclean *u, uint64_t chunk)
{
	struct part p[2];

	parts(u, chunk, p);
	return (uint32_t)hash_bytes(hash_bytes(1, p[0]), p[1]) | 1;
}

/* Release the memory before the first mark and after the last mark. */
static struct fpisa_unclean *trim(struct fpisa_unclean *u)
{
	uint64_t from = 0, to = u->chunks;
	struct fpisa_unclean *trimmed;

	while (!u->mark[from])
		from++;
	while (!u->mark[to - 1])
		to--;
	__atomic_fetch_sub(&held, u->chunks - (to - from), __ATOMIC_RELAXED);
	u->first = from;
	u->chunks = to - from;
	memmove(u->mark, u->mark + from, u->chunks * sizeof(u->mark[0]));
	trimmed = realloc(u, sizeof(*u) + u->chunks * sizeof(u->mark[0]));
	return trimmed ? trimmed : u;
}

void fpisa_unclean_remember(struct fpisa_unclean *u)
{
	if (!u->left) {
		fpisa_unclean_free(u);
		return;
	}
	u = trim(u);
	for (uint64_t i = 0; i < u->chunks; i++)
		if (u->mark[i])
			u->mark[i] = hash_chunk(u, u->first + i);
	fpisa_fork_hold();
	LIST_INSERT_HEAD(&all, u, link);
	__atomic_fetch_add(&arrays, 1, __ATOMIC_RELAXED);
	fpisa_fork_release();
}

/*
 * Return whether the part is within the array. If the chunk is not entirely within the array, its memory may have been
 * freed.
 */
static int within(struct part p, const char *array, size_t size)
{
	return !p.bytes || (p.at >= array && p.at + p.bytes <= array + size);
}

/* Return whether the array overlaps the chunks of `u`. Scales follow all elements. */
static int meets(const struct fpisa_unclean *u, const char *array, size_t size)
{
	const char *end = u->at + u->count * u->format.bytes + (u->format.shared ? u->count / FPISA_BLOCK : 0);

	return u->at + u->first * u->elements * u->format.bytes < array + size && array < end;
}

/* Count the array's marked chunks that have not changed since the failed call, and unmark the others. */
static uint64_t still(struct fpisa_unclean *u, const char *array, size_t size)
{
	uint64_t n = 0;

	for (uint64_t i = 0; meets(u, array, size) && i < u->chunks; i++) {
		struct part p[2];

		if (!u->mark[i])
			continue;
		parts(u, u->first + i, p);
		if (!within(p[0], array, size) || !within(p[1], array, size))
			continue;
		if (hash_chunk(u, u->first + i) == u->mark[i]) {
			n++;
		} else {
			u->mark[i] = 0;
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
			fpisa_unclean_free(u);
		}
	}
	fpisa_fork_release();
	if (!n)
		return 0;
	return fpisa_fail(
		-EUCLEAN,
		"%llu chunks of the array contain sums of a failed in-place call instead of input; write the input "
		"again, pass input with the same bytes in another array, or set options.restore, which restores the "
		"input",
		(unsigned long long)n);
}
