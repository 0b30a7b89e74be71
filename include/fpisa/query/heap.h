/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The steps of a heap whose first key is the smallest. Key i is the parent of keys 2 i + 1 and 2 i + 2. Each step moves a
 * hole, which is the position to which a key will be written. Define fpisa_heap_at(heap, i) before including this file.
 */
#ifndef FPISA_QUERY_HEAP_H
#define FPISA_QUERY_HEAP_H

#include "../base.h"

/*
 * Move the hole at position i of n keys down if `key` does not belong at i. Return the new position of the hole, or 0
 * if it has not moved.
 */
static __always_inline __u32 fpisa_heap_sink_step(void *heap, __u32 i, __u32 n, __u32 key)
{
	__u32 child = 2 * i + 1, *least, *other, *at;

	if (child >= n)
		return 0;
	least = fpisa_heap_at(heap, child);
	other = fpisa_heap_at(heap, child + 1);
	at = fpisa_heap_at(heap, i);
	if (!least || !at)
		return 0;
	if (child + 1 < n && other && *other < *least) {
		least = other;
		child++;
	}
	if (*least >= key)
		return 0;
	*at = *least;
	return child;
}

/* Move the hole at position i up to (i - 1) / 2 if `key` does not belong at i. Return nonzero if the hole moved. */
static __always_inline int fpisa_heap_rise_step(void *heap, __u32 i, __u32 key)
{
	__u32 *above, *at;

	if (!i)
		return 0;
	above = fpisa_heap_at(heap, (i - 1) / 2);
	at = fpisa_heap_at(heap, i);
	if (!above || !at || *above <= key)
		return 0;
	*at = *above;
	return 1;
}

#endif
