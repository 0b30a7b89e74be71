/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which way a value takes into an accumulator. Lanes (kernel.h) take values that lie
 * within some 35 powers of two; a group that they refuse goes value by value. Where that is
 * often, the window moves, and if it is often then too, pieces go to bins. All of them are exact.
 */
#include "inner.h"

#define PIECE 2048 /* values between decisions */
#define MARGIN 3   /* powers of two that later values may be larger by */
#define OFTEN 8	   /* refused groups of a piece after which lanes do not pay */
#define MOST_SKIPPED 64
#define LEAST_BINS 1024 /* values for which bins are worth a drain */

/* -- bins ----------------------------------------------------------------------------- */

void sums_bins_add(struct sums_bins *b, const double *x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		__u64 bits = sums_bits(x[i]), m = sums_mantissa(bits);

		if (fpisa_unlikely(sums_exponent(bits) == SUMS_INFINITE)) {
			if (bits << 12)
				b->nan++;
			else
				*(bits >> 63 ? &b->ninf : &b->pinf) += 1;
			continue;
		}
		b->half[bits >> 52][0] += (__u32)m;
		b->half[bits >> 52][1] += m >> 32;
	}
	b->adds += n;
}

void sums_bins_drain(struct sums_bins *b, union fpisa_superacc_full *a)
{
	for (__u32 i = 0; b->adds && i < SUMS_BINS; i++) {
		__int128 m = (__int128)b->half[i][1] << 32;
		int e = (int)(i & SUMS_INFINITE);

		m += b->half[i][0];
		if (m)
			sums_add_scaled(a, i >> 11 ? -m : m, (e ? e : 1) - 1075);
	}
	a->acc.nan += b->nan;
	a->acc.pinf += b->pinf;
	a->acc.ninf += b->ninf;
	memset(b, 0, sizeof(*b));
}

/* Value by value: where they are few, or there is no memory for bins. */
static void add_each(union fpisa_superacc_full *a, const double *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sums_add_double(a, x[i]);
}

static void to_bins(struct sums_run *r, const double *x, size_t n)
{
	if (!r->bins && n >= LEAST_BINS)
		r->bins = calloc(1, sizeof(*r->bins));
	if (!r->bins) {
		add_each(r->a, x, n);
		return;
	}
	sums_bins_add(r->bins, x, n);
	if (r->bins->adds >= SUMS_BINS_ADDS)
		sums_bins_drain(r->bins, r->a);
}

/* -- lanes ----------------------------------------------------------------------------- */

static void drain(struct sums_run *r)
{
	__int128 a = 0, b = 0;

	if (!r->open)
		return;
	for (int i = 0; i < SUMS_WIDEST; i++) {
		a += r->w.a[i];
		b += r->w.b[i];
		r->w.a[i] = r->w.b[i] = 0;
	}
	r->w.flushes = 0;
	if (a)
		sums_add_scaled(r->a, a, r->w.k + SUMS_UNIT_A);
	if (b)
		sums_add_scaled(r->a, b, r->w.k + SUMS_UNIT_B);
}

/* A window for values up to the largest finite one of these. */
static void open_window(struct sums_run *r, const double *x, size_t n)
{
	__u64 largest = 0;
	int k;

	for (size_t i = 0; i < n; i++) {
		__u64 size = sums_bits(x[i]) << 1;

		largest = size > largest && size < (__u64)SUMS_INFINITE << 53 ? size : largest;
	}
	k = (int)(largest >> 53) - 1023 + 1 + MARGIN - SUMS_BOUND;
	drain(r);
	r->w.k = k < SUMS_LEAST_K ? SUMS_LEAST_K : k > SUMS_MOST_K ? SUMS_MOST_K : k;
	r->open = 1;
}

/* A group that lanes do not take. */
static void refuse(struct sums_run *r, const double *x, size_t n)
{
	if (++r->refused > LEAST_BINS / 32 && !r->bins)
		r->bins = calloc(1, sizeof(*r->bins));
	to_bins(r, x, n);
}

/* A piece by lanes. Returns how many groups they refused. */
static __u32 piece(struct sums_run *r, const double *x, size_t n)
{
	const size_t group = r->kernels->group;
	__u32 refused = 0;

	while (n) {
		size_t done = r->kernels->add64(&r->w, x, n);

		x += done;
		n -= done;
		if (r->w.flushes >= SUMS_FLUSHES) {
			drain(r);
			continue;
		}
		done = n < group ? n : group;
		if (n >= group) {
			refused++;
			refuse(r, x, done);
		} else {
			add_each(r->a, x, done);
		}
		x += done;
		n -= done;
		if (refused > OFTEN) {
			to_bins(r, x, n);
			break;
		}
	}
	return refused;
}

void sums_run_begin(struct sums_run *r, union fpisa_superacc_full *a)
{
	memset(r, 0, sizeof(*r));
	r->a = a;
	r->kernels = sums_kernels();
	r->penalty = 1;
}

void sums_run_add64(struct sums_run *r, const double *x, size_t n)
{
	while (n) {
		size_t some = n < PIECE ? n : PIECE;

		if (some < r->kernels->group) {
			add_each(r->a, x, some);
		} else if (r->skip) {
			to_bins(r, x, some);
			r->skip--;
		} else {
			if (!r->open)
				open_window(r, x, some);
			if (piece(r, x, some) <= OFTEN) {
				r->penalty = 1;
			} else {
				/* Once more with another window, and longer without lanes each time that it is in vain. */
				drain(r);
				r->open = 0;
				r->skip = r->penalty - 1;
				r->penalty = r->penalty < MOST_SKIPPED ? 2 * r->penalty : MOST_SKIPPED;
			}
		}
		x += some;
		n -= some;
	}
}

void sums_run_add32(struct sums_run *r, const float *x, size_t n)
{
	double buffer[SUMS_BLOCK];

	while (n) {
		size_t done = r->open && !r->skip ? r->kernels->add32(&r->w, x, n) : 0;

		x += done;
		n -= done;
		if (done && r->w.flushes >= SUMS_FLUSHES) {
			drain(r);
			continue;
		}
		done = n < SUMS_BLOCK ? n : SUMS_BLOCK;
		for (size_t i = 0; i < done; i++)
			buffer[i] = (double)x[i];
		sums_run_add64(r, buffer, done);
		x += done;
		n -= done;
	}
}

void sums_run_end(struct sums_run *r)
{
	drain(r);
	if (r->bins)
		sums_bins_drain(r->bins, r->a);
	free(r->bins);
}
