/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The checksum as fast as the machine can; sum.h has the contract. */
#include <stddef.h>
#include <string.h>
#include "sum.h"

static __always_inline void sum_lanes(struct fpisa_sum *s, const void *p, size_t words)
{
	size_t whole = words - words % FPISA_SUM_LANES;
	struct fpisa_lanes l = {{0}, {0}, {0}, {0}};
	fpisa_words w;

	for (size_t i = 0; i < whole; i += FPISA_SUM_LANES) {
		memcpy(&w, (const char *)p + 8 * i, sizeof(w));
		fpisa_lanes_take(&l, &w);
	}
	fpisa_lanes_join(s, &l, whole);
	fpisa_sum_words(s, (const char *)p + 8 * whole, (int)(words - whole));
}

#if defined(__x86_64__)
static __attribute__((target("avx2"))) void sum_avx2(struct fpisa_sum *s, const void *p, size_t words)
{
	sum_lanes(s, p, words);
}

static int has_avx2(void)
{
	return __builtin_cpu_supports("avx2");
}
#else
#define sum_avx2 sum_lanes
#define has_avx2() 0
#endif

void fpisa_sum_many(struct fpisa_sum *s, const void *p, size_t words)
{
	if (has_avx2())
		sum_avx2(s, p, words);
	else
		sum_lanes(s, p, words);
}
