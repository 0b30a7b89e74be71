/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Add values to an accumulator. Lanes (kernel.h) add values that lie within about 35 powers of two. The values of a
 * refused batch are added one by one. If lanes refuse batches often, the window of exponents moves. If lanes still
 * refuse batches often, pieces are added to bins. Every method is exact.
 */
#include "internal.h"

#define PIECE SUMS_FRESH /* number of values for which the method is chosen anew */
#define MARGIN 3	 /* later values may be up to 2^MARGIN times larger */
#define OFTEN 8		 /* lanes are too slow after this number of refused batches in a piece */
#define MOST_SKIPPED 64	 /* maximum number of pieces that go to bins before lanes are tried again */
#define LEAST_BINS 64	 /* bins are faster if values outnumber their exponents by at least this number */
#define MANY_REFUSED 32	 /* bins are always faster after this number of refused batches */
#define LEAST_PADDED 6	 /* from this number of values on, a batch padded with zeros is faster than single adds */

/* -- bins ----------------------------------------------------------------------------- */

struct sums_bins *sums_bins_new(void)
{
	struct sums_bins *b = malloc(sizeof(*b));

	if (b)
		memset(b, 0, offsetof(struct sums_bins, fresh));
	return b;
}

/* Clear the bins of exponents in from..to - 1 before their first use. */
static void clear(struct sums_bins *b, __u32 from, __u32 to)
{
	const size_t bytes = (to - from) * sizeof(__u64);

	for (__u32 i = from; i < SUMS_BINS; i += SUMS_BINS / 2) {
		memset(&b->fresh[i], 0, bytes);
		memset(&b->low[i], 0, bytes);
		memset(&b->high[i], 0, bytes);
	}
}

/* Extend the range of bins to these exponents. */
static void widen(struct sums_bins *b, struct sums_extent e)
{
	if (!b->adds) {
		b->least = e.least;
		b->most = e.most;
		clear(b, e.least, e.most + 1);
		return;
	}
	if (e.least < b->least) {
		clear(b, e.least, b->least);
		b->least = e.least;
	}
	if (e.most > b->most) {
		clear(b, b->most + 1, e.most + 1);
		b->most = e.most;
	}
}

/* Move the sums in `fresh` to `low` and `high`. */
static void settle(struct sums_bins *b)
{
	for (__u32 sign = 0; sign < SUMS_BINS; sign += SUMS_BINS / 2) {
		for (__u32 i = sign + b->least; i <= sign + b->most; i++) {
			b->low[i] += (__u32)b->fresh[i];
			b->high[i] += b->fresh[i] >> 32;
			b->fresh[i] = 0;
		}
	}
	b->waiting = 0;
}

static void count_special(struct sums_bins *b, __u64 bits)
{
	if (bits << 12)
		b->nan++;
	else
		*(bits >> 63 ? &b->ninf : &b->pinf) += 1;
}

/* Add values that may include zeros, subnormals, infinities or NaN. */
static void add_any(struct sums_bins *b, const double *x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const __u64 bits = sums_bits(x[i]);

		if (fpisa_unlikely(sums_exponent(bits) == SUMS_INFINITE))
			count_special(b, bits);
		else
			b->fresh[bits >> 52] += sums_mantissa(bits);
	}
}

void sums_bins_add(struct sums_bins *b, const struct sums_kernels *k, const double *x, size_t n)
{
	const __u64 one = 1ull << 52;
	struct sums_extent extent = k->extent(x, n);

	if (b->waiting + n > SUMS_FRESH)
		settle(b);
	widen(b, extent);
	if (extent.least && extent.most < SUMS_INFINITE) {
		for (size_t i = 0; i < n; i++) {
			const __u64 bits = sums_bits(x[i]);

			b->fresh[bits >> 52] += (bits & (one - 1)) | one;
		}
	} else {
		add_any(b, x, n);
	}
	b->waiting += (__u32)n;
	b->adds += n;
}

static __always_inline __int128 taken(const struct sums_bins *b, __u32 i)
{
	return ((__int128)b->high[i] << 32) + b->low[i];
}

/* Add the bins of 32 exponents together, because they begin in the same limb. Their sum has at most 117 bits. */
void sums_bins_drain(struct sums_bins *b, union fpisa_superacc_full *a)
{
	if (b->adds)
		settle(b);
	for (__u32 e = b->least; b->adds && e <= b->most;) {
		const __u32 limb = (e - !!e) >> 5;
		__int128 m = 0;

		for (; e <= b->most && (e - !!e) >> 5 == limb; e++)
			m += (taken(b, e) - taken(b, e + SUMS_BINS / 2)) * (1ll << ((e - !!e) & 31));
		if (m)
			sums_add_scaled(a, m, (int)(32 * limb) - 1074);
	}
	a->acc.nan += b->nan;
	a->acc.pinf += b->pinf;
	a->acc.ninf += b->ninf;
	memset(b, 0, offsetof(struct sums_bins, fresh));
}

/* Add the values one by one. This is for few values, or if there is no memory for bins. */
static void add_each(union fpisa_superacc_full *a, const double *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sums_add_double(a, x[i]);
}

static void to_bins(struct sums_run *r, const double *x, size_t n)
{
	if (!r->bins && n > LEAST_BINS) {
		const struct sums_extent e = r->kernels->extent(x, n);

		if (n > LEAST_BINS + e.most - e.least)
			r->bins = sums_bins_new();
	}
	if (!r->bins) {
		add_each(r->a, x, n);
		return;
	}
	sums_bins_add(r->bins, r->kernels, x, n);
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

/* Return the exponent field of the largest finite value. */
static __u32 largest_finite(const double *x, size_t n)
{
	__u32 largest = 0;

	for (size_t i = 0; i < n; i++) {
		__u32 e = sums_exponent(sums_bits(x[i]));

		largest = e > largest && e < SUMS_INFINITE ? e : largest;
	}
	return largest;
}

/* Open a window for values up to the largest finite value of x. */
static void open_window(struct sums_run *r, const double *x, size_t n)
{
	const __u32 most = r->kernels->extent(x, n).most;
	const int largest = (int)(most < SUMS_INFINITE ? most : largest_finite(x, n));
	const int k = largest - 1023 + 1 + MARGIN - SUMS_BOUND;

	drain(r);
	r->w.k = k < SUMS_LEAST_K ? SUMS_LEAST_K : k > SUMS_MOST_K ? SUMS_MOST_K : k;
	r->open = 1;
}

/* Add a batch that lanes have refused. */
static void refuse(struct sums_run *r, const double *x, size_t n)
{
	if (++r->refused > MANY_REFUSED && !r->bins)
		r->bins = sums_bins_new();
	to_bins(r, x, n);
}

/* Add the values after the last whole batch, padded with zeros. */
static void last(struct sums_run *r, const double *x, size_t n)
{
	double padded[SUMS_VECTORS * SUMS_WIDEST] = {0};

	if (n >= LEAST_PADDED) {
		memcpy(padded, x, n * sizeof(*x));
		if (r->kernels->add64(&r->w, padded, r->kernels->group))
			return;
	}
	add_each(r->a, x, n);
}

/*
 * Add a piece by lanes. Return the number of refused batches, or more than OFTEN
 * if the first batch of a window was refused.
 */
static __u32 piece(struct sums_run *r, const double *x, size_t n, int begins)
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
		if (n < group) {
			last(r, x, n);
			break;
		}
		if (begins && !done && !refused)
			refused = OFTEN;
		if (++refused > OFTEN) {
			to_bins(r, x, n);
			break;
		}
		refuse(r, x, group);
		x += group;
		n -= group;
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

		if (some < LEAST_PADDED) {
			add_each(r->a, x, some);
		} else if (r->skip) {
			to_bins(r, x, some);
			r->skip--;
		} else {
			const int begins = !r->open;

			if (begins)
				open_window(r, x, some);
			if (piece(r, x, some, begins) <= OFTEN) {
				r->penalty = 1;
			} else {
				/* Try another window next, and skip lanes for longer after each failure. */
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
