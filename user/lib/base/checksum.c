/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Selection of the fastest checksum for this machine; checksum.h has the contract. */
#include <stddef.h>
#include <string.h>
#include "checksum.h"

static __always_inline void checksum_lanes(struct fpisa_sum *s, const void *p, size_t words)
{
	size_t whole = words - words % FPISA_CHECKSUM_LANES;
	struct fpisa_checksum_lanes l = {{0}, {0}, {0}, {0}};
	fpisa_checksum_words w;

	for (size_t i = 0; i < whole; i += FPISA_CHECKSUM_LANES) {
		memcpy(&w, (const char *)p + 8 * i, sizeof(w));
		fpisa_checksum_take(&l, &w);
	}
	fpisa_checksum_join(s, &l, whole);
	fpisa_sum_words(s, (const char *)p + 8 * whole, (int)(words - whole));
}

#if defined(__x86_64__)
static __attribute__((target("avx2"))) void checksum_avx2(struct fpisa_sum *s, const void *p, size_t words)
{
	checksum_lanes(s, p, words);
}

static int has_avx2(void)
{
	return __builtin_cpu_supports("avx2");
}
#else
#define checksum_avx2 checksum_lanes
#define has_avx2() 0
#endif

void fpisa_checksum_many(struct fpisa_sum *s, const void *p, size_t words)
{
	/* If there are no words, the pointer may be NULL, and C does not allow adding even 0 to NULL. */
	if (!words)
		return;
	if (has_avx2())
		checksum_avx2(s, p, words);
	else
		checksum_lanes(s, p, words);
}
