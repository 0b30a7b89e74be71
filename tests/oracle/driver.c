// SPDX-License-Identifier: GPL-2.0-only
/*
 * Run the C oracle as a filter, for fractions_check.py. Each line is one case. Words are hexadecimal. A block with a
 * shared exponent has 33 bytes, with the scale first.
 * 	E M R G finite integer shared mode rounding op factor reciprocal n word...
 * Each case gives one line of answers. The line for values, and for integers up to specials, is
 * 	result flags rounded overwritten left_shifted overflowed e m specials nearest ulps absolute
 * Here specials is nan + 2 x pinf + 4 x ninf, and nearest is the correctly rounded sum. If no register holds the
 * result, e, m and specials are 0. The line for blocks is
 * 	result flags rounded overwritten left_shifted overflowed e [m of each lane]
 */
#include <stdio.h>
#include <stdlib.h>

#include "lab/oracle/value.h"

#define MAX_WORDS 4096

static bool has_register(const struct oracle_call *c)
{
	return c->mode != FPISA_MODE_EXACT && c->op != FPISA_OP_MIN && c->op != FPISA_OP_MAX;
}

static void print_events(uint32_t flags, const struct oracle_events *events)
{
	printf(" %x %llu %llu %llu %llu", flags, (unsigned long long)events->rounded,
	       (unsigned long long)events->overwritten, (unsigned long long)events->left_shifted,
	       (unsigned long long)events->overflowed);
}

static void answer(const struct oracle_call *c, size_t n, const uint64_t *words)
{
	struct oracle_events events = {0}, again = {0};
	struct oracle_exact exact;
	struct oracle_reg reg = {0};
	uint32_t flags = 0;
	double ulps, absolute;
	uint64_t result;

	result = oracle_result(c, n, words, &events, &flags);
	for (size_t i = 0; i < n && has_register(c); i++) {
		if (i)
			oracle_op_add(&reg, c, words[i], &again);
		else
			oracle_op_set(&reg, c, words[i], &again);
	}
	printf("%llx", (unsigned long long)result);
	print_events(flags, &events);
	printf(" %d %lld %d", reg.e, (long long)reg.m, reg.nan + 2 * reg.pinf + 4 * reg.ninf);
	if (!c->f.integer) {
		oracle_exact_init(&exact, c->f);
		for (size_t i = 0; i < n; i++)
			oracle_exact_add(&exact, words[i]);
		ulps = oracle_ulp_error(c->f, result, n, words, &absolute);
		printf(" %llx %.17g %.17g", (unsigned long long)oracle_exact_read(&exact), ulps, absolute);
	}
	putchar('\n');
}

static void answer_block(const struct oracle_call *c, size_t n, const struct oracle_mx *blocks)
{
	struct oracle_events events = {0}, again = {0};
	struct oracle_reg reg[ORACLE_MX_LANES] = {0};
	struct oracle_mx out;
	uint32_t flags = 0;

	oracle_result_mx(c, n, blocks, &out, &events, &flags);
	printf("%02x", out.scale);
	for (int i = 0; i < ORACLE_MX_LANES; i++)
		printf("%02x", (uint8_t)out.k[i]);
	print_events(flags, &events);
	if (has_register(c))
		oracle_mx_set(reg, c, &blocks[0]);
	for (size_t i = 1; i < n && has_register(c); i++)
		oracle_mx_add(reg, c, &blocks[i], &again);
	printf(" %d", reg[0].e);
	for (int i = 0; i < ORACLE_MX_LANES && has_register(c); i++)
		printf(" %lld", (long long)reg[i].m);
	putchar('\n');
}

static bool read_block(struct oracle_mx *block)
{
	unsigned int byte;

	if (scanf(" %2x", &byte) != 1)
		return false;
	block->scale = (uint8_t)byte;
	for (int i = 0; i < ORACLE_MX_LANES; i++) {
		if (scanf("%2x", &byte) != 1)
			return false;
		block->k[i] = (int8_t)byte;
	}
	return true;
}

int main(void)
{
	static uint64_t words[MAX_WORDS];
	static struct oracle_mx blocks[MAX_WORDS];
	unsigned int ebits, mbits, rbits, guard, finite, integer, shared, mode, rounding, reciprocal, n;
	struct oracle_call c;
	int got;

	while ((got = scanf("%u %u %u %u %u %u %u %u %u %d %la %u %u", &ebits, &mbits, &rbits, &guard, &finite,
			    &integer, &shared, &mode, &rounding, &c.op, &c.factor, &reciprocal, &n)) == 13) {
		c.f = (struct fpisa_format){.ebits = (__u8)ebits,
					    .mbits = (__u8)mbits,
					    .rbits = (__u8)rbits,
					    .guard = (__u8)guard,
					    .bytes = (__u8)(shared ? 1 : (1 + ebits + mbits) / 8),
					    .finite = (__u8)finite,
					    .integer = (__u8)integer,
					    .shared = (__u8)shared};
		c.mode = mode;
		c.rounding = rounding;
		c.reciprocal = reciprocal;
		if (!n || n > MAX_WORDS)
			break;
		for (unsigned int i = 0; i < n; i++) {
			unsigned long long word = 0;

			if (!(shared ? read_block(&blocks[i]) : scanf("%llx", &word) == 1))
				return EXIT_FAILURE;
			words[i] = word;
		}
		if (shared)
			answer_block(&c, n, blocks);
		else
			answer(&c, n, words);
	}
	return got == EOF && fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
