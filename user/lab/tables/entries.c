// SPDX-License-Identifier: GPL-2.0-only
/*
 * The entries of the tables of fpisa/lab/tables.h, computed in integers.
 *
 * Products and quarter squares are exact. Reciprocals are the nearest integers
 * to 2^31 / (1 + i/1024). Roots are rounded up, so that the root of a square is
 * not too small. A logarithm is computed bit by bit to 2^-61 by repeated
 * squaring. An entry is the integer nearest to the computed logarithm. Its
 * error is at most half a unit plus 2^-20.
 */
#include "tables.h"

typedef unsigned __int128 u128;

struct fpisa_entry tables_entry[FPISA_TABLES][FPISA_SQUARES];

static uint32_t nearest_quotient(u128 a, u128 b)
{
	return (uint32_t)((a + b / 2) / b);
}

/* Return ceil(sqrt(x)) for x up to 2^63. */
static uint64_t root_up(uint64_t x)
{
	uint64_t root = 0;

	for (uint64_t bit = 1ull << 31; bit; bit >>= 1)
		if ((root + bit) * (root + bit) < x)
			root += bit;
	return root + 1;
}

static uint32_t reciprocal_node(uint32_t i)
{
	return nearest_quotient((u128)FPISA_NODES << 31, FPISA_NODES + i);
}

static uint32_t sqrt_node(uint32_t i)
{
	return (uint32_t)root_up((uint64_t)(FPISA_NODES + i) << (62 - FPISA_INDEX_BITS));
}

/*
 * Return 2^62 log2(1 + i/1024). Squaring doubles the logarithm, and then its
 * integer part is the next bit. Truncation by 2^-63 at bit k has weight 2^-k, so
 * the total error is below 2^-61.
 */
static uint64_t log2_fixed(uint32_t i)
{
	u128 y = (u128)(FPISA_NODES + i) << (63 - FPISA_INDEX_BITS);
	uint64_t log = 0;

	for (int bit = 61; bit >= 0; bit--) {
		y = y * y >> 63;
		if (y >> 64) {
			log |= 1ull << bit;
			y >>= 1;
		}
	}
	return log;
}

/* Return 2^31 / ln 2, which is the limit of log2(1 + t) / t at 0. ln 2 is the sum of 1 / (k 2^k). */
static uint32_t log2_limit(void)
{
	uint64_t ln2 = 0;

	for (int k = 1; k <= 62; k++)
		ln2 += (1ull << (62 - k)) / (uint64_t)k;
	return nearest_quotient((u128)1 << 93, ln2);
}

/* Return node i of the half `upper`. The node is t = i/1024, or (i - 1024) / 2048. */
static uint32_t log2_node(uint32_t i, int upper)
{
	if (i % FPISA_NODES == 0)
		return log2_limit();
	if (upper)
		return nearest_quotient((u128)((1ull << 62) - log2_fixed(i)) * 2 * FPISA_NODES, (u128)(FPISA_NODES - i)
													<< 31);
	return nearest_quotient((u128)log2_fixed(i) * FPISA_NODES, (u128)i << 31);
}

static struct fpisa_entry entry(uint32_t at, uint32_t next)
{
	return (struct fpisa_entry){.value = at, .step = (__s32)((int64_t)next - at)};
}

void tables_fill(void)
{
	for (uint32_t i = 0; i < FPISA_PRODUCTS; i++)
		tables_entry[FPISA_TABLE_PRODUCT][i].value = (8 + i / 8) * (8 + i % 8);
	for (uint32_t i = 0; i < FPISA_SQUARES; i++)
		tables_entry[FPISA_TABLE_SQUARE][i].value = i * i / 4;
	for (uint32_t i = 0; i < FPISA_NODES; i++) {
		int upper = i >= FPISA_NODES / 2;

		tables_entry[FPISA_TABLE_RECIPROCAL][i] = entry(reciprocal_node(i), reciprocal_node(i + 1));
		tables_entry[FPISA_TABLE_SQRT][i] = entry(sqrt_node(i), sqrt_node(i + 1));
		tables_entry[FPISA_TABLE_LOG2][i] = entry(log2_node(i, upper), log2_node(i + 1, upper));
	}
}
