/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Choose the kernels of this process. Use the widest vector unit that the CPU supports, or the limit that a test has
 * set.
 */
#include "internal.h"

static int allowed(const struct sums_kernels *k)
{
#ifdef __x86_64__
	if (k == &sums_avx512)
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
	if (k == &sums_avx2)
		return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
	return k == &sums_baseline;
}

static const struct sums_kernels *const kernels[] = {
#ifdef __x86_64__
	&sums_avx512,
	&sums_avx2,
#endif
	&sums_baseline,
};

#define KERNELS (sizeof(kernels) / sizeof(*kernels))

/* Return the widest supported kernel, starting with `from`. */
static const struct sums_kernels *widest(size_t from)
{
	while (!allowed(kernels[from]))
		from++;
	return kernels[from];
}

/* Several threads may choose at the same time, because all of them make the same choice. */
static const struct sums_kernels *chosen;

const struct sums_kernels *sums_kernels(void)
{
	const struct sums_kernels *k = fpisa_read_once(&chosen);

	if (!k) {
		k = widest(0);
		fpisa_write_once(&chosen, k);
	}
	return k;
}

const char *sums_vectors(const char *limit)
{
	for (size_t i = 0; limit && i < KERNELS; i++)
		if (!strcmp(limit, kernels[i]->name))
			fpisa_write_once(&chosen, widest(i));
	return sums_kernels()->name;
}
