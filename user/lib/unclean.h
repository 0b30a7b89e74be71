/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Arrays that a failed call in place has left with sums in some chunks, and input in the others. A call that sends such
 * an array would add sums to input: it is refused until those chunks have been written again. Nothing is copied while a call
 * is under way: a chunk whose result differs from what it had is marked, and when the call fails the marked chunks
 * are hashed, so that a chunk which the program has written since is told from one which it has not.
 *
 * Sums of options.restore need none of this, nor do minima and maxima, which may be taken twice.
 */
#ifndef FPISA_UNCLEAN_H
#define FPISA_UNCLEAN_H

#include <stddef.h>
#include <stdint.h>
#include "fpisa/wire.h"

struct fpisa_unclean;

/*
 * Chunks of all calls in place of the process, under way or failed: a failed one counts from its first marked chunk to its last
 * one, until the program has written these and sent them. 4 bytes each, 256 MiB.
 */
#define FPISA_UNCLEAN_MOST (1ull << 26)

/*
 * Remember an array of `count` elements, `elements` a chunk. 0, or -ENOMEM with the message set: no memory, or more chunks than
 * FPISA_UNCLEAN_MOST.
 */
int fpisa_unclean_new(struct fpisa_unclean **u, const void *array, uint64_t count, uint32_t elements,
		      struct fpisa_format format);
void fpisa_unclean_free(struct fpisa_unclean *u); /* NULL is fine */

void fpisa_unclean_mark(struct fpisa_unclean *u, uint64_t first, uint32_t n); /* the chunks of these elements */

/* The call has failed: from now on the process remembers the marked chunks, and owns `u`. */
void fpisa_unclean_remember(struct fpisa_unclean *u);

/* 0, or -EUCLEAN with the message set: part of what is to be sent is as a failed call has left it. */
int fpisa_unclean_refuse(const void *array, size_t size);

#endif
