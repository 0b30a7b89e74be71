/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every combination of format, mode and operation (doc/numbers.md), and rounds of random contributions for each
 * combination with the oracle's results. Payloads have the layout of the wire, little-endian.
 */
#ifndef CASES_H
#define CASES_H

#include <stdbool.h>
#include <stdint.h>
#include "fpisa/wire.h"
#include "lab/oracle/oracle.h"
#include "vectors.h"

#define CASES_WORKERS 9

struct cases_call {
	uint8_t format, mode, op;
	uint8_t rounding;
	bool reciprocal;
	uint32_t workers;
	double factor;
};

struct cases_round {
	uint32_t elements;
	uint8_t in[CASES_WORKERS][FPISA_MAX_PAYLOAD + FPISA_SCALES];
	uint8_t want[FPISA_MAX_PAYLOAD + FPISA_SCALES];
	uint32_t flags;
	struct oracle_events events;
};

/* Set mode and op of combination `index` of `format`. Return false if the combination does not exist. */
bool cases_combination(uint8_t format, unsigned int index, struct cases_call *c);

/* Choose the parameters that a combination leaves open: rounding, workers, reciprocal, factor. */
void cases_choose(struct vectors_rng *rng, struct cases_call *c);

/* Return the same call in the oracle's form. */
struct oracle_call cases_oracle(const struct cases_call *c);

/* Write a name such as "exact avg" into a buffer of 32 bytes or more. */
const char *cases_name(const struct cases_call *c, char *buf);
const char *cases_format(uint8_t format);

/* Make random contributions and the oracle's results. `elements` is a multiple of 32. */
void cases_random(struct vectors_rng *rng, const struct cases_call *c, uint32_t elements, struct cases_round *r);

/*
 * Do the same as cases_random(), but set all elements to zero except one (or one block, if the format shares an
 * exponent). The words of this element often include a special, so the round's flags belong to this element alone.
 */
void cases_sparse(struct vectors_rng *rng, const struct cases_call *c, uint32_t elements, struct cases_round *r);

/*
 * Make the rounds of two contributions that cover all pairs of a set of words, from pair number `first` on. The set has
 * all words of an 8-bit format, and every sign and exponent with three fractions of a 16-bit format. cases_pairs()
 * returns the number of pairs.
 */
uint64_t cases_pairs(uint8_t format);
void cases_pair_round(const struct cases_call *c, uint64_t first, uint32_t elements, struct cases_round *r);

#endif
