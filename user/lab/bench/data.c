// SPDX-License-Identifier: GPL-2.0-only
/* Payloads of the contributions that `bench` measures. bench.h documents the functions. */
#include <string.h>

#include "bench.h"
#include "fpisa/block.h"
#include "values/pack.h"
#include "values/random.h"

#define EXPONENTS 40 /* number of different exponents, enough to make a branch on an exponent unpredictable */

/* Return a random finite value of a floating-point format. Use all exponents of the format, but at most EXPONENTS. */
static uint64_t random_word(uint64_t bits, struct fpisa_format f)
{
	uint64_t ones = fpisa_exp_ones(f), spread = ones / 2 < EXPONENTS ? ones / 2 : EXPONENTS;
	uint64_t e = ones / 4 + (bits >> 32) % spread;

	return (bits >> 63) << (f.ebits + f.mbits) | e << f.mbits | (bits & fpisa_frac_ones(f));
}

static void fill_shared(struct bench_source *s, uint8_t *out)
{
	memset(out, 0, FPISA_SCALES);
	for (int b = 0; b < BENCH_ELEMENTS / FPISA_BLOCK; b++)
		out[b] = 100 + random_below(&s->random, EXPONENTS);
	for (int i = 0; i < BENCH_ELEMENTS; i++)
		out[FPISA_SCALES + i] = (uint8_t)(int8_t)((int)random_below(&s->random, 255) - 127);
}

static void fill_stored(struct bench_source *s, struct fpisa_format f, uint32_t rank, uint8_t *out)
{
	const struct gradients *g = s->file;
	uint64_t from = s->random % (g->elements - BENCH_ELEMENTS + 1);

	for (int i = 0; i < BENCH_ELEMENTS; i++)
		fpisa_put_word(out, i, f, pack_value(f, gradients_value(g, rank % g->rows, from + i)));
}

void bench_fill(struct bench_source *s, struct fpisa_format f, uint32_t rank, void *out)
{
	if (s->file) {
		fill_stored(s, f, rank, out);
	} else if (f.shared) {
		fill_shared(s, out);
	} else {
		for (int i = 0; i < BENCH_ELEMENTS; i++) {
			uint64_t bits = splitmix64(&s->random);

			/* Integers have 26 bits, so sums of 32 workers do not overflow. */
			fpisa_put_word(out, i, f, f.integer ? (uint64_t)((int64_t)bits >> 38) : random_word(bits, f));
		}
	}
}

void bench_next_chunk(struct bench_source *s)
{
	splitmix64(&s->random);
}
