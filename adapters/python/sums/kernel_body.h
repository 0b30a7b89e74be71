/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The code of a kernel (kernel.h) for vectors of WIDTH doubles. kernel.c includes this file for each vector unit.
 * TARGET is the attribute that lets the compiler use such vectors. ANY(v) tells whether any bit of a vector of integers
 * is set. LOWER and UPPER are the index lists that interleave two vectors.
 */
typedef double NAME(v) __attribute__((vector_size(8 * WIDTH)));
typedef double NAME(at64) __attribute__((vector_size(8 * WIDTH), aligned(1), may_alias));
typedef float NAME(f) __attribute__((vector_size(4 * WIDTH)));
typedef float NAME(at32) __attribute__((vector_size(4 * WIDTH), aligned(1), may_alias));
typedef __s64 NAME(i) __attribute__((vector_size(8 * WIDTH)));
typedef __u64 NAME(u) __attribute__((vector_size(8 * WIDTH)));

#define V NAME(v)
#define I NAME(i)
#define U NAME(u)
#define ONE (1ull << 52)

TARGET static __always_inline void NAME(flush)(struct sums_window *w, V *a, V *b, V sa, V sb)
{
	I ta, tb;

	__builtin_memcpy(&ta, w->a, sizeof(ta));
	__builtin_memcpy(&tb, w->b, sizeof(tb));
	for (int j = 0; j < SUMS_VECTORS; j++) {
		ta += (I)a[j] - (I)sa;
		tb += (I)b[j] - (I)sb;
		a[j] = sa;
		b[j] = sb;
	}
	__builtin_memcpy(w->a, &ta, sizeof(ta));
	__builtin_memcpy(w->b, &tb, sizeof(tb));
	w->groups = 0;
	w->flushes++;
}

/* Add one batch of values to the lanes. Return 0 if the batch was refused and nothing was added. */
TARGET static __always_inline int NAME(group)(V *a, V *b, const V *x, U above)
{
	V na[SUMS_VECTORS], nb[SUMS_VECTORS];
	U large = {0}, left = {0};

	for (int j = 0; j < SUMS_VECTORS; j++) {
		na[j] = a[j] + x[j];
		V rest = x[j] - (na[j] - a[j]);
		nb[j] = b[j] + rest;
		rest -= nb[j] - b[j];
		left |= (U)rest;
		/* The sum gets a sign bit for values at or above the bound, and for infinities and NaN. */
		large |= ((U)x[j] & ~SIGN) + above;
	}
	/* Ignore the sign of a rest, because a rest may be -0. */
	if (fpisa_unlikely(ANY((left & ~SIGN) | (large & SIGN))))
		return 0;
	for (int j = 0; j < SUMS_VECTORS; j++) {
		a[j] = na[j];
		b[j] = nb[j];
	}
	return 1;
}

#define KERNEL(bits, T, LOAD)                                                                                    \
	TARGET static size_t NAME(add##bits)(struct sums_window * w, const T *x, size_t n)                       \
	{                                                                                                        \
		const V none = {0}, sa = none + sums_power(w->k) * 1.5, sb = none + sums_power(w->k - 46) * 1.5; \
		const U above = (U){0} + (SIGN - ((__u64)(w->k + SUMS_BOUND + 1023) << 52));                     \
		V a[SUMS_VECTORS] = {sa, sa, sa, sa}, b[SUMS_VECTORS] = {sb, sb, sb, sb};                        \
		const size_t step = SUMS_VECTORS * WIDTH;                                                        \
		size_t at = 0;                                                                                   \
                                                                                                                 \
		for (; at + step <= n && w->flushes < SUMS_FLUSHES; at += step) {                                \
			V in[SUMS_VECTORS];                                                                      \
                                                                                                                 \
			for (int j = 0; j < SUMS_VECTORS; j++)                                                   \
				in[j] = LOAD(x + at + j * WIDTH);                                                \
			if (!NAME(group)(a, b, in, above))                                                       \
				break;                                                                           \
			if (++w->groups == SUMS_FLUSH)                                                           \
				NAME(flush)(w, a, b, sa, sb);                                                    \
		}                                                                                                \
		NAME(flush)(w, a, b, sa, sb);                                                                    \
		return at;                                                                                       \
	}

#define LOAD64(p) (*(const NAME(at64) *)(p))
#define LOAD32(p) __builtin_convertvector(*(const NAME(at32) *)(p), V)
KERNEL(64, double, LOAD64)
KERNEL(32, float, LOAD32)

/* Split one vector of values into limbs. Return a vector with bits set for values that do not fit into limbs. */
TARGET static __always_inline U NAME(split)(U x, U low, I *lo, I *hi)
{
	const U place = (x >> 52 & 2047) - low, ok = (U)(place <= SUMS_RANGE);
	const U m = ((x & (ONE - 1)) | ONE) & ok;
	const I sign = (I)x >> 63;

	*lo = ((I)(m << (place & 63) & ((1ull << SUMS_LIMB) - 1)) ^ sign) - sign;
	*hi = ((I)(m >> ((SUMS_LIMB - place) & 63)) ^ sign) - sign;
	return x << 1 & ~ok;
}

TARGET static int NAME(limbs)(const double *x, size_t n, int low, sums_cell *limb)
{
	const U base = (U){0} + (__u64)low;
	U other = {0};
	I lo, hi, cells[2];

	for (size_t i = 0; i < n; i += WIDTH) {
		U in = {0};

		if (i + WIDTH <= n)
			in = (U)LOAD64(x + i);
		else
			__builtin_memcpy(&in, x + i, (n - i) * sizeof(*x));
		other |= NAME(split)(in, base, &lo, &hi);
		cells[0] = __builtin_shuffle(lo, hi, (I){LOWER});
		cells[1] = __builtin_shuffle(lo, hi, (I){UPPER});
		__builtin_memcpy(limb + i, cells, sizeof(cells));
	}
	return ANY(other);
}

/* Return the extent. The compiler turns these comparisons into vector instructions for minima and maxima. */
TARGET static struct sums_extent NAME(extent)(const double *x, size_t n)
{
	__u64 least = ~0ull, most = 0;

	for (size_t i = 0; i < n; i++) {
		__u64 size;

		__builtin_memcpy(&size, x + i, sizeof(size));
		size <<= 1;
		least = size < least ? size : least;
		most = size > most ? size : most;
	}
	return (struct sums_extent){(__u32)(least >> 53), (__u32)(most >> 53)};
}

/* Compute x y as p + e. The result is exact unless e has bits below 2^-1074. sums_dot() handles such products. */
TARGET static void NAME(products)(const double *restrict x, const double *restrict y, double *restrict p,
				  double *restrict e, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		p[i] = x[i] * y[i];
		e[i] = FMA(x[i], y[i], -p[i]);
	}
}

const struct sums_kernels NAME(sums) = {LABEL,	     SUMS_VECTORS *WIDTH, NAME(add64),	 NAME(add32),
					NAME(limbs), NAME(extent),	  NAME(products)};

#undef KERNEL
#undef LOAD64
#undef ONE
#undef LOAD32
#undef V
#undef I
#undef U
