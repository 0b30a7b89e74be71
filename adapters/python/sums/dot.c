/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Dot products. A fused multiply-add gives x y as p + e, which are both doubles. This
 * is not exact if the product is so small that e loses bits, or so large that p is
 * infinite. Such products are first scaled by powers of two, and have separate
 * accumulators.
 */
#include <math.h>

#include "internal.h"

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

/*
 * Add a product of finite values in units of 2^(-SUMS_DOT_SCALE) or 2^SUMS_DOT_SCALE. Add an infinity or NaN without
 * scaling.
 */
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
	/*
	 * The scaling is exact, because exponents of small products are in -2148..-960, and those of large products in
	 * 1000..2048.
	 */
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

/* The values of one operand. Each value is the sum of two halves. half[1] is 0 if the values have only one half. */
struct side {
	struct sums_array part[2];
	int parts;
	double half[2][SUMS_BLOCK];
};

static void fetch(struct side *side, __s64 at, size_t n)
{
	for (int h = 0; h < side->parts; h++)
		(void)sums_fetch_all(&side->part[h], at, n, side->half[h]);
	for (size_t i = 0; side->parts == 2 && i < n; i++)
		side->half[1][i] *= SUMS_HALF;
}

static void zero(struct side *x, struct side *y, size_t i)
{
	x->half[0][i] = x->half[1][i] = y->half[0][i] = y->half[1][i] = 0;
}

/* Fetch the values of both operands, and set pairs with a null to zero. Return the number of pairs without a null. */
static __u64 fetch_both(struct side *x, struct side *y, __s64 at, size_t n)
{
	__u64 rows = 0;

	fetch(x, at, n);
	fetch(y, at, n);
	for (size_t i = 0; i < n; i++) {
		if (sums_is_valid(x->part, at + (__s64)i) && sums_is_valid(y->part, at + (__s64)i))
			rows++;
		else
			zero(x, y, i);
	}
	return rows;
}

/*
 * Add the products that are infinite or NaN, and set their halves to zero. Multiply the whole integers. A half may be 0
 * or have the other sign, so its product with an infinity would be wrong.
 */
static void take_specials(struct products *s, struct side *x, struct side *y, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		double wx = x->half[0][i] + x->half[1][i], wy = y->half[0][i] + y->half[1][i];

		if (isfinite(wx) && isfinite(wy))
			continue;
		sums_add_double(s->a, wx * wy);
		zero(x, y, i);
	}
}

/* Add all products. Return the number of pairs without a null. */
static __u64 add_sides(struct products *s, struct side *x, struct side *y)
{
	const __s64 all = x->part->n;
	__u64 rows = 0;

	for (__s64 at = 0; at < all; at += SUMS_BLOCK) {
		size_t n = all - at < SUMS_BLOCK ? (size_t)(all - at) : SUMS_BLOCK;

		rows += fetch_both(x, y, at, n);
		if (x->parts + y->parts > 2)
			take_specials(s, x, y, n);
		for (int i = 0; i < x->parts; i++)
			for (int j = 0; j < y->parts; j++)
				add_block(s, x->half[i], y->half[j], n);
	}
	return rows;
}

int sums_dot(union fpisa_superacc_full a[3], const struct sums_array *x, const struct sums_array *y)
{
	const __u64 had = a->acc.rows;
	struct products s = {.a = a};
	struct side sx = {0}, sy = {0};
	__u64 rows;
	sums_environment env;

	if (x->n != y->n || x->n < 0 || !sums_type_size(x->type) || !sums_type_size(y->type))
		return -EINVAL;
	if ((had + (__u64)x->n) >> 63)
		return -ERANGE;
	env = sums_environment_default();
	sums_run_begin(&s.p, a);
	sums_run_begin(&s.e, a);
	sx.parts = sums_halves(x, sx.part);
	sy.parts = sums_halves(y, sy.part);
	rows = add_sides(&s, &sx, &sy);
	sums_run_end(&s.p);
	sums_run_end(&s.e);
	sums_environment_restore(env);
	a->acc.rows = had + rows;
	return 0;
}
