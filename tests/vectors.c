/* SPDX-License-Identifier: GPL-2.0-only */
/* Test vectors. See vectors.h. */
#include "vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

uint64_t vectors_next(struct vectors_rng *rng)
{
	uint64_t z = rng->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

uint32_t vectors_below(struct vectors_rng *rng, uint32_t n)
{
	return (uint32_t)((vectors_next(rng) >> 32) * n >> 32);
}

uint64_t vectors_seed(void)
{
	const char *text = getenv("FPISA_SEED");
	struct timespec now;
	uint64_t seed;

	if (text) {
		seed = strtoull(text, NULL, 0);
	} else {
		clock_gettime(CLOCK_REALTIME, &now);
		seed = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	}
	fprintf(stderr, "FPISA_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

static uint32_t fp32(uint32_t sign, int exponent, uint32_t fraction)
{
	if (exponent < 0)
		exponent = 0;
	if (exponent > 254)
		exponent = 254;
	return sign << 31 | (uint32_t)exponent << 23 | (fraction & 0x7fffff);
}

static const uint32_t fractions[] = {
	0,	  1,	    2,	      3,	0x000080, 0x0000ff, 0x3fffff, 0x400000,
	0x400001, 0x555555, 0x2aaaaa, 0x7fff80, 0x7ffffd, 0x7ffffe, 0x7fffff,
};

static const int exponents[] = {
	0,   1,	  2,   3,   7,	 8,   9,   22,	23,  24,  25,  30,  31,	 32,  33,
	119, 120, 126, 127, 128, 134, 135, 150, 151, 158, 159, 222, 246, 253, 254,
};

static const uint32_t specials[] = {
	0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000,
	0x7f800001, 0xff800001, 0x7fbfffff, 0x7fffffff, 0xffffffff, 0x7fc12345,
};

/* Return contribution c of a column of this kind. `base` is the column's own random number. */
static uint32_t word_of(struct vectors_rng *rng, enum vectors_kind kind, uint64_t base, int c, uint32_t last)
{
	uint64_t r = vectors_next(rng);
	uint32_t bits = (uint32_t)(r >> 32), sign = bits >> 31;
	int middle = (int)(base % 255);

	switch (kind) {
	case VECTORS_NEAR:
		return fp32(sign, middle - 4 + (int)(r % 9), bits);
	case VECTORS_ALIGN:
		return fp32(sign, middle - 40 + (int)(r % 81), bits);
	case VECTORS_BOUNDARY:
		return fp32(sign, exponents[r % COUNT(exponents)], fractions[bits % COUNT(fractions)]);
	case VECTORS_SPECIAL:
		if (r % 3 == 0)
			return specials[bits % COUNT(specials)];
		return fp32(sign, middle - 4 + (int)(r % 9), bits);
	case VECTORS_SUBNORMAL:
		return fp32(sign, (int)(r % 8) / 6, r & 0x100 ? bits : bits & 0xff);
	case VECTORS_SATURATE:
		return fp32(r % 16 ? (uint32_t)(base >> 63) : sign, middle, 0x7fffff - (uint32_t)(r % 4));
	case VECTORS_CANCEL:
		return c & 1 ? (last ^ 0x80000000) + (uint32_t)(r % 3 == 0) : fp32(sign, middle - (int)(r % 5), bits);
	case VECTORS_TOP:
		return fp32(r % 8 ? (uint32_t)(base >> 63) : sign, 254 - (int)(r % 2), r & 0x100 ? bits : ~0u);
	case VECTORS_HEADROOM:
		return fp32(sign, (int)(base % 60) + 5 * c % 180 + (int)(r % 10), bits);
	case VECTORS_POWERS:
		return fp32(sign, middle - 16 + (int)(r % 33), 1u << bits % 24 | (r & 0x100 ? 0x400000 : 0));
	default:
		return bits;
	}
}

void vectors_fill(uint64_t seed, uint64_t index, int contributions, int elements, uint32_t *out)
{
	struct vectors_rng rng = {seed};

	rng.state = vectors_next(&rng) ^ index * 0xd6e8feb86659fd93ull;
	for (int i = 0; i < elements; i++) {
		uint64_t base = vectors_next(&rng);
		enum vectors_kind kind =
			index < VECTORS_KINDS ? (enum vectors_kind)index : vectors_below(&rng, VECTORS_KINDS);
		uint32_t last = 0;

		for (int c = 0; c < contributions; c++)
			last = out[c * elements + i] = word_of(&rng, kind, base, c, last);
	}
}
