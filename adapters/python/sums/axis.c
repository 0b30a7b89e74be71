/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Sums along axes. One odometer steps over the remaining axes, and another over the summed axes. */
#include "internal.h"

#define MOST_AXES 64

/* Step to the next place. Return 0 after the last place. */
static int advance(const struct sums_axes *axes, __s64 *at, const char **p)
{
	for (int i = axes->ndim - 1; i >= 0; i--) {
		*p += axes->stride[i];
		if (++at[i] < axes->shape[i])
			return 1;
		*p -= axes->stride[i] * axes->shape[i];
		at[i] = 0;
	}
	return 0;
}

static __s64 size(const struct sums_axes *axes)
{
	__s64 n = 1;

	for (int i = 0; i < axes->ndim; i++)
		n *= axes->shape[i];
	return n;
}

/* Add all values at one place of the remaining axes. The last summed axis is a strided run of the array. */
static void add_all(union fpisa_superacc_full *a, const char *p, int type, const struct sums_axes *inner)
{
	struct sums_axes above = {inner->ndim - 1, inner->shape, inner->stride};
	struct sums_array x = {p, 1, 0, NULL, 0, type};
	__s64 at[MOST_AXES] = {0};
	struct sums_run run;

	if (inner->ndim) {
		x.n = inner->shape[above.ndim];
		x.stride = inner->stride[above.ndim];
	}
	sums_run_begin(&run, a);
	do {
		x.data = p;
		(void)sums_run_array(&run, &x);
	} while (inner->ndim && advance(&above, at, &p));
	sums_run_end(&run);
}

int sums_axis(const char *data, int type, const struct sums_axes *outer, const struct sums_axes *inner, int format,
	      int average, void *out)
{
	const __s64 each = size(inner);
	union fpisa_superacc_full a;
	__s64 at[MOST_AXES] = {0};
	sums_environment env;

	if (!sums_type_size(type) || outer->ndim > MOST_AXES || inner->ndim > MOST_AXES || outer->ndim < 0 ||
	    inner->ndim < 0)
		return -EINVAL;
	if (!size(outer))
		return 0;
	env = sums_environment_default();
	do {
		sums_init(&a);
		if (each)
			add_all(&a, data, type, inner);
		a.acc.rows = (__u64)each;
		out = (char *)out + sums_store(&a, format, average, out);
	} while (advance(outer, at, &data));
	sums_environment_restore(env);
	return 0;
}
