/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The only set of FP32 test vectors. The unit tests (user space against the oracle) and the BPF tests (tests/prog) use
 * these vectors, so that every executor sees the same contributions. Every vector is a function of (seed, index).
 */
#ifndef VECTORS_H
#define VECTORS_H

#include <stdint.h>

/* splitmix64. Every state is valid, so a seed may be any number. */
struct vectors_rng {
	uint64_t state;
};

uint64_t vectors_next(struct vectors_rng *rng);

/* Return a uniform number in 0..n-1, for n > 0. */
uint32_t vectors_below(struct vectors_rng *rng, uint32_t n);

/* Return the seed of this run, which is FPISA_SEED from the environment, else the time. Print the seed to stderr. */
uint64_t vectors_seed(void);

/*
 * Fill out[contribution][element] with chain `index` of `seed`. A column has one element's contributions in the order
 * in which they are added, and belongs to one of the kinds below. Indexes below VECTORS_KINDS hold one kind each, and
 * the others mix the kinds.
 */
void vectors_fill(uint64_t seed, uint64_t index, int contributions, int elements, uint32_t *out);

enum vectors_kind {
	VECTORS_UNIFORM,   /* all bits random, so exponents are mostly far apart, and a few values are special */
	VECTORS_NEAR,	   /* exponents within 4 of each other */
	VECTORS_ALIGN,	   /* exponents within 40, which gives every shift distance that matters */
	VECTORS_BOUNDARY,  /* boundary exponents and mantissas */
	VECTORS_SPECIAL,   /* a third zeros, infinities and NaNs */
	VECTORS_SUBNORMAL, /* subnormals and the smallest normals */
	VECTORS_SATURATE,  /* one exponent, largest mantissas, mostly one sign */
	VECTORS_CANCEL,	   /* pairs x, -x with a residue */
	VECTORS_TOP,	   /* the two largest exponents, whose sums are beyond the range */
	VECTORS_HEADROOM,  /* exponents that climb by 0..9, for left shift and overwrite */
	VECTORS_POWERS,	   /* few set bits, for exact shifts and ties */
	VECTORS_KINDS,
};

#endif
