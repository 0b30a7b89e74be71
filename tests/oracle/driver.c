// SPDX-License-Identifier: GPL-2.0-only
/*
 * The C oracle as a filter, for fractions_check.py. One case a line, words in
 * hexadecimal:
 *
 *	E M R G mode rounding n word...
 *
 * and one line of answers for it:
 *
 *	result flags rounded overwritten left_shifted overflowed e m specials nearest ulps absolute
 *
 * specials is nan + 2 x pinf + 4 x ninf; nearest is the correctly rounded sum.
 */
#include <stdio.h>
#include <stdlib.h>

#include "oracle.h"

#define MAX_WORDS 4096

static int answer(struct fpisa_format f, enum fpisa_mode mode, enum fpisa_rounding rounding, size_t n,
		  const uint64_t *words)
{
	struct oracle_events events = {0}, again = {0};
	struct oracle_exact exact;
	struct oracle_reg reg;
	uint32_t flags = 0;
	double ulps, absolute;
	uint64_t result;

	result = oracle_replay(f, mode, rounding, n, words, &events, &flags);
	ulps = oracle_ulp_error(f, result, n, words, &absolute);

	oracle_set(&reg, f, words[0]);
	oracle_exact_init(&exact, f);
	oracle_exact_add(&exact, words[0]);
	for (size_t i = 1; i < n; i++) {
		oracle_add(&reg, f, mode, words[i], &again);
		oracle_exact_add(&exact, words[i]);
	}
	return printf("%llx %x %llu %llu %llu %llu %d %lld %d %llx %.17g %.17g\n", (unsigned long long)result,
		      flags, (unsigned long long)events.rounded, (unsigned long long)events.overwritten,
		      (unsigned long long)events.left_shifted, (unsigned long long)events.overflowed, reg.e,
		      (long long)reg.m, reg.nan + 2 * reg.pinf + 4 * reg.ninf,
		      (unsigned long long)oracle_exact_read(&exact), ulps, absolute);
}

int main(void)
{
	static uint64_t words[MAX_WORDS];
	unsigned int ebits, mbits, rbits, guard, mode, rounding, n;
	int got;

	while ((got = scanf("%u %u %u %u %u %u %u", &ebits, &mbits, &rbits, &guard, &mode, &rounding, &n)) ==
	       7) {
		struct fpisa_format f = {(__u8)ebits, (__u8)mbits, (__u8)rbits, (__u8)guard,
					 (__u8)((1 + ebits + mbits) / 8)};

		if (!n || n > MAX_WORDS)
			break;
		for (unsigned int i = 0; i < n; i++) {
			unsigned long long word;

			if (scanf("%llx", &word) != 1)
				return EXIT_FAILURE;
			words[i] = word;
		}
		if (answer(f, mode, rounding, n, words) < 0)
			return EXIT_FAILURE;
	}
	return got == EOF && fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
