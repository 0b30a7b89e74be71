// SPDX-License-Identifier: GPL-2.0-only
/* Median and quartiles of the figures of `fpisa bench`. bench.h documents the function. */
#include <string.h>

#include "bench.h"
#include "measure.h"

struct bench_spread bench_spread(const double *v, size_t n)
{
	static double sorted[BENCH_MAX_ROUNDS];
	struct bench_spread s;

	memcpy(sorted, v, n * sizeof(*v));
	s.median = quartile(sorted, (uint32_t)n, 2);
	s.low = quartile(sorted, (uint32_t)n, 1);
	s.high = quartile(sorted, (uint32_t)n, 3);
	return s;
}
