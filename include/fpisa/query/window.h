/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A window of the sequence numbers, from 1, that have been taken from a worker, so that each frame is taken only once.
 * `width` is FPISA_QUERY_WINDOW, or less in the model.
 *
 * A number leaves the window at the low end only if it has been taken, so all numbers below the window have been taken.
 * A worker whose numbers are at most its lowest unacknowledged number + width - 1 is never refused.
 */
#ifndef FPISA_QUERY_WINDOW_H
#define FPISA_QUERY_WINDOW_H

#include "../verdict.h"
#include "query.h"

/* Return all of the window's bits. */
static __always_inline __u64 fpisa_query_window_all(__u32 width)
{
	return ~0ull >> (64 - width);
}

/* Return an empty window, in which all numbers below 1 count as taken. */
static __always_inline struct fpisa_query_window fpisa_query_window_empty(__u32 width)
{
	return (struct fpisa_query_window){.taken = fpisa_query_window_all(width)};
}

/* Return 1 if the number is fresh, 0 if it was taken before, or a negated verdict. */
static __always_inline int fpisa_query_window_fresh(const struct fpisa_query_window *w, __u64 sequence, __u32 width)
{
	__u64 all = fpisa_query_window_all(width), by, leaving;

	if (!sequence)
		return -FPISA_V_sequence;
	if (sequence <= w->high) {
		by = w->high - sequence;
		return by < width && !(w->taken >> (by & 63) & 1);
	}
	by = sequence - w->high;
	if (by > width)
		return -FPISA_V_sequence;
	/* Return the `by` uppermost of `width` bits. */
	leaving = by == width ? all : all & ~(all >> (by & 63));
	return (w->taken & leaving) == leaving ? 1 : -FPISA_V_sequence;
}

/* Record that a fresh number has been taken. */
static __always_inline void fpisa_query_window_take(struct fpisa_query_window *w, __u64 sequence, __u32 width)
{
	__u64 by;

	if (sequence <= w->high) {
		w->taken |= 1ull << ((w->high - sequence) & 63);
		return;
	}
	by = sequence - w->high;
	w->taken = (by == 64 ? 0 : w->taken << (by & 63) & fpisa_query_window_all(width)) | 1;
	w->high = sequence;
}

/* Return whether all numbers up to `last` have been taken, and no number beyond `last`. */
static __always_inline int fpisa_query_window_full(const struct fpisa_query_window *w, __u64 last, __u32 width)
{
	return w->high == last && w->taken == fpisa_query_window_all(width);
}

#endif
