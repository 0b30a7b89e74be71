/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Arrays in which a failed call in place has left sums in some chunks, and input in the others. Another call that
 * sends such an array would add sums to input, so it is refused until those chunks have been written again. Nothing
 * is copied while a call is in progress. A chunk whose result differs from its input is marked. When the call fails
 * the marked chunks are hashed, so that chunks which the program has written since can be recognised.
 *
 * Calls with options.restore do not need this. Nor do minima and maxima, which may be taken twice.
 */
#ifndef FPISA_UNCLEAN_H
#define FPISA_UNCLEAN_H

#include <stddef.h>
#include <stdint.h>
#include "fpisa/wire.h"

struct fpisa_unclean;

/*
 * Chunks of all calls in place of the process, in progress or failed. A failed call counts from its first marked
 * chunk to its last, until the program has written these chunks and sent them. A chunk takes 4 bytes, all take 256 MiB.
 */
#define FPISA_UNCLEAN_MOST (1ull << 26)

/*
 * Remember an array of `count` elements, `elements` per chunk. Return 0, or -ENOMEM with the message set if there is no
 * memory, or there would be more chunks than FPISA_UNCLEAN_MOST.
 */
int fpisa_unclean_new(struct fpisa_unclean **u, const void *array, uint64_t count, uint32_t elements,
		      struct fpisa_format format);
void fpisa_unclean_free(struct fpisa_unclean *u); /* NULL is allowed */

void fpisa_unclean_mark(struct fpisa_unclean *u, uint64_t first, uint32_t n); /* mark the chunks of these elements */

/* Remember the marked chunks after the call has failed: the process owns `u` from now on. */
void fpisa_unclean_remember(struct fpisa_unclean *u);

/* Return 0, or -EUCLEAN with the message set if part of the data to be sent is as a failed call has left it. */
int fpisa_unclean_refuse(const void *array, size_t size);

#endif
