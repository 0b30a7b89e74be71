/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every combination of format, mode and operation (doc/numbers.md), and
 * rounds of random contributions for it with the oracle's results.
 * Payloads are as on the wire, little-endian.
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

/* Set mode and op of combination `index` of `format`; return false if it does not exist. */
bool cases_combination(uint8_t format, unsigned int index, struct cases_call *c);

/* Choose what a call leaves open: rounding, workers, reciprocal, factor. */
void cases_choose(struct vectors_rng *rng, struct cases_call *c);

/* Do the same for the oracle's call. */
struct oracle_call cases_oracle(const struct cases_call *c);

/* Write a name as "exact avg" into a buffer of 32 bytes or more. */
const char *cases_name(const struct cases_call *c, char *buf);
const char *cases_format(uint8_t format);

/* Make random contributions and the oracle's results; `elements` is a multiple of 32. */
void cases_random(struct vectors_rng *rng, const struct cases_call *c, uint32_t elements, struct cases_round *r);

/*
 * Do the same, but with all elements zero except one, or one block with a shared
 * exponent, often with a special among its words: the round's flags are then
 * that element's.
 */
void cases_sparse(struct vectors_rng *rng, const struct cases_call *c, uint32_t elements, struct cases_round *r);

/*
 * Make two contributions: pairs number `first` and up of all pairs of the words of
 * a set. 8-bit formats: all words; 16-bit formats: every sign and exponent with
 * three fractions. cases_pairs() returns the number of pairs.
 */
uint64_t cases_pairs(uint8_t format);
void cases_pair_round(const struct cases_call *c, uint64_t first, uint32_t elements, struct cases_round *r);

#endif
