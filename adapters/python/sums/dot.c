/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Dot products: x y is p + e, both doubles, by a fused multiply-add, where the product
 * is neither so small that e loses bits nor so large that p is infinite. Others are
 * scaled by powers of two first, and have accumulators of their own.
 */
#include <math.h>

#include "inner.h"

#define LEAST_PRODUCT 0x1p-960 /* e is a multiple of 2^(-960 - 106) */
#define MOST_PRODUCT 0x1p1000

struct products {
	struct sums_run p, e;
	union fpisa_superacc_full *a;
};

static int is_safe(double x, double y, double p)
{
	double size = fabs(p);

	return (size >= LEAST_PRODUCT && size <= MOST_PRODUCT) || x == 0 || y == 0 ? isfinite(p) : 0;
}

/* A product of finite values in units of 2^(-SUMS_DOT_SCALE) or 2^SUMS_DOT_SCALE, a special as it is. */
static void add_scaled(union fpisa_superacc_full *a, double x, double y, double p)
{
	const int small = fabs(p) < 1;
	int ex, ey, up = small ? SUMS_DOT_SCALE : -SUMS_DOT_SCALE;
	double mx, my, product, rest;

	if (!isfinite(x) || !isfinite(y)) {
		sums_add_double(a, p);
		return;
	}
	mx = frexp(x, &ex);
	my = frexp(y, &ey);
	product = mx * my;
	rest = fma(mx, my, -product);
	/* Both are scaled exactly: exponents of small products lie in -2148..-960, of large ones in 1000..2048. */
	a += small ? 1 : 2;
	sums_add_double(a, ldexp(product, ex + ey + up));
	sums_add_double(a, ldexp(rest, ex + ey + up));
}

static void add_block(struct products *s, const double *x, const double *y, size_t n)
{
	double p[SUMS_BLOCK], e[SUMS_BLOCK];

	s->p.kernels->products(x, y, p, e, n);
	for (size_t i = 0; i < n; i++) {
		if (fpisa_unlikely(!is_safe(x[i], y[i], p[i]))) {
			add_scaled(s->a, x[i], y[i], p[i]);
			p[i] = e[i] = 0;
		}
	}
	sums_run_add64(&s->p, p, n);
	sums_run_add64(&s->e, e, n);
}

/* Zeroes what is null on either side. Returns how many are not. */
static __u64 fetch_both(const struct sums_array *x, const struct sums_array *y, __s64 at, size_t n, double *bx,
			double *by)
{
	__u64 rows = 0;

	(void)sums_fetch_all(x, at, n, bx);
	(void)sums_fetch_all(y, at, n, by);
	for (size_t i = 0; i < n; i++) {
		if (sums_is_valid(x, at + (__s64)i) && sums_is_valid(y, at + (__s64)i))
			rows++;
		else
			bx[i] = by[i] = 0;
	}
	return rows;
}

/* The products of two halves, times a power of two. Returns how many there are. */
static __u64 add_arrays(struct products *s, const struct sums_array *x, const struct sums_array *y, double scale)
{
	double bx[SUMS_BLOCK], by[SUMS_BLOCK];
	__u64 rows = 0;

	for (__s64 at = 0; at < x->n; at += SUMS_BLOCK) {
		size_t n = x->n - at < SUMS_BLOCK ? (size_t)(x->n - at) : SUMS_BLOCK;

		rows += fetch_both(x, y, at, n, bx, by);
		/* Only integers are scaled, so the factor that is exact is the integer's. */
		for (size_t i = 0; scale != 1 && i < n; i++)
			bx[i] *= scale;
		add_block(s, bx, by, n);
	}
	return rows;
}

int sums_dot(union fpisa_superacc_full a[3], const struct sums_array *x, const struct sums_array *y)
{
	const __u64 had = a->acc.rows;
	struct products s = {.a = a};
	struct sums_array hx[2], hy[2];
	__u64 rows = 0;
	fenv_t env;

	if (x->n != y->n || x->n < 0 || !sums_type_size(x->type) || !sums_type_size(y->type))
		return -EINVAL;
	if ((had + (__u64)x->n) >> 63)
		return -ERANGE;
	(void)fegetenv(&env);
	(void)fesetenv(FE_DFL_ENV);
	sums_run_begin(&s.p, a);
	sums_run_begin(&s.e, a);
	for (int i = sums_halves(x, hx) - 1; i >= 0; i--)
		for (int j = sums_halves(y, hy) - 1; j >= 0; j--)
			rows = add_arrays(&s, &hx[i], &hy[j], (i ? SUMS_HALF : 1) * (j ? SUMS_HALF : 1));
	sums_run_end(&s.p);
	sums_run_end(&s.e);
	(void)fesetenv(&env);
	a->acc.rows = had + rows;
	return 0;
}
