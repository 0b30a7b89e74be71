/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Arrays in which a failed in-place call has left sums in some chunks, and input in the others. Another call that sends
 * such an array would add sums to input, so the call is refused until these chunks have been written again. During a
 * call no data are copied, but each chunk whose result differs from its input is marked. When the call fails, the
 * marked chunks are hashed, so that chunks that the program has written later can be recognised.
 *
 * Calls with options.restore do not need this. Calls for minima and maxima do not need it either, because they can be
 * repeated.
 */
#ifndef FPISA_UNCLEAN_H
#define FPISA_UNCLEAN_H

#include <stddef.h>
#include <stdint.h>
#include "fpisa/wire.h"

struct fpisa_unclean;

/*
 * Largest number of chunks of all the process's in-place calls that are in progress or have failed. A failed call
 * counts the chunks from its first to its last marked chunk, until the program has written and sent these chunks. A
 * chunk takes 4 bytes, so all chunks take 256 MiB.
 */
#define FPISA_UNCLEAN_MOST (1ull << 26)

/*
 * Allocate the record for an array of `count` elements, with `elements` per chunk. Return 0, or -ENOMEM with the
 * message set if there is no memory, or there would be more chunks than FPISA_UNCLEAN_MOST.
 */
int fpisa_unclean_new(struct fpisa_unclean **u, const void *array, uint64_t count, uint32_t elements,
		      struct fpisa_format format);
void fpisa_unclean_free(struct fpisa_unclean *u); /* u may be NULL */

void fpisa_unclean_mark(struct fpisa_unclean *u, uint64_t first, uint32_t n); /* mark the chunks of these elements */

/* Remember the marked chunks after the call has failed. The process owns `u` from now on. */
void fpisa_unclean_remember(struct fpisa_unclean *u);

/* Return 0, or -EUCLEAN with the message set if part of the array is unchanged since a failed call. */
int fpisa_unclean_refuse(const void *array, size_t size);

#endif
