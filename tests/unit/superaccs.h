/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Helpers for the tests of superaccumulators and partials. Sums are in exactly the memory that their window takes, so
 * that the sanitizers see every access to other limbs. There are values of every relevant kind, and the oracle's
 * results.
 */
#ifndef SUPERACCS_H
#define SUPERACCS_H

#include <stdlib.h>
#include "fpisa/partial.h"
#include "lab/oracle/oracle.h"
#include "lab/oracle/value.h"
#include "vectors.h"

#define MOST 700

static inline struct fpisa_superacc *fresh(void)
{
	struct fpisa_superacc *a = malloc(fpisa_superacc_size(0));

	assert_non_null(a);
	fpisa_superacc_init(a, fpisa_superacc_size(0));
	return a;
}

static inline void enlarge(struct fpisa_superacc **a, struct fpisa_superacc_window w)
{
	assert_true(w.limbs > (*a)->limbs);
	*a = realloc(*a, fpisa_superacc_size(w.limbs));
	assert_non_null(*a);
	fpisa_superacc_move(*a, w);
}

static inline void add(struct fpisa_superacc **a, uint64_t word, struct fpisa_format f, int back)
{
	while (fpisa_superacc_add(*a, word, f, back))
		enlarge(a, fpisa_superacc_reach(*a, word, f));
}

static inline int merge(struct fpisa_superacc **a, const struct fpisa_superacc *b, struct fpisa_format f)
{
	int rc;

	while ((rc = fpisa_superacc_merge(*a, b)) == -ENOSPC)
		enlarge(a, fpisa_superacc_cover(*a, b, f));
	return rc;
}

/* -- values ------------------------------------------------------------------------ */

struct values {
	struct fpisa_format f;
	uint32_t n;
	uint64_t word[MOST];
};

static inline struct fpisa_format of(uint32_t which)
{
	return fpisa_superacc_format(which ? FPISA_FORMAT_FP64 : FPISA_FORMAT_FP32);
}

static inline uint64_t value(struct vectors_rng *rng, struct fpisa_format f, uint32_t kind, uint64_t centre)
{
	uint64_t bits = vectors_next(rng), ones = fpisa_exp_ones(f), e = centre;

	switch (kind) {
	case 0: /* any exponents */
		e = vectors_next(rng) % ones;
		break;
	case 1: /* exponents within a few limbs */
		e = centre > 60 ? centre - vectors_below(rng, 60) : vectors_below(rng, 60);
		break;
	case 2: /* zeros and subnormals */
		e = 0;
		bits &= vectors_below(rng, 3) ? ~0ull : 1ull << 63;
		break;
	case 3: /* the largest values */
		e = ones - 1;
		bits |= fpisa_frac_ones(f) & ~(uint64_t)vectors_below(rng, 2);
		break;
	case 4: /* values with few bits, which give ties */
		bits &= 1ull << 63 | 1ull << (f.mbits - 1) | 1;
		e = centre > 60 ? centre - vectors_below(rng, 2) * (f.mbits + 1) : centre;
		break;
	case 5: /* one sign and one exponent, which give carries */
		bits |= 1ull << 63;
		break;
	default: /* rarely a special */
		if (vectors_below(rng, 50))
			break;
		e = ones;
		bits &= vectors_below(rng, 3) ? 1ull << 63 : ~0ull;
	}
	return (bits >> 63) << (f.ebits + f.mbits) | e << f.mbits | (bits & fpisa_frac_ones(f));
}

static inline void choose(struct values *v, struct vectors_rng *rng)
{
	uint32_t kind = vectors_below(rng, 9);
	uint64_t centre;

	v->f = of(vectors_below(rng, 2));
	v->n = 1 + vectors_below(rng, vectors_below(rng, 4) ? 12 : MOST);
	centre = 1 + vectors_next(rng) % (fpisa_exp_ones(v->f) - 1);
	for (uint32_t i = 0; i < v->n; i++) {
		uint32_t one = kind < 8 ? kind : vectors_below(rng, 7);

		v->word[i] = value(rng, v->f, one, centre);
		/* Make values that cancel, and set the last value. */
		if (kind == 7 && i && i + 1 < v->n)
			v->word[i] = v->word[i - 1] ^ (uint64_t)(i & 1) << (v->f.ebits + v->f.mbits);
	}
}

static inline void shuffle(struct values *v, struct vectors_rng *rng)
{
	for (uint32_t i = v->n; i > 1; i--) {
		uint32_t k = vectors_below(rng, i);
		uint64_t w = v->word[i - 1];

		v->word[i - 1] = v->word[k];
		v->word[k] = w;
	}
}

static inline void oracle_of(struct oracle_exact *x, const struct values *v)
{
	oracle_exact_init(x, v->f);
	for (uint32_t i = 0; i < v->n; i++)
		oracle_exact_add(x, v->word[i]);
}

/* -- the oracle's results ------------------------------------------------------------ */

/* Return the sum divided by n in format `to`, computed with rational numbers. */
static inline uint64_t quotient(const struct oracle_exact *x, uint64_t n, struct fpisa_format to, uint32_t *flags)
{
	int up = fpisa_superacc_quantum(x->f) - fpisa_superacc_quantum(to);
	uint64_t word;
	mpz_t num, den;

	if (oracle_pack_special(to, x->nan, x->pinf, x->ninf, &word, flags))
		return word;
	mpz_inits(num, den, NULL);
	oracle_exact_value(x, num);
	mpz_set_ui(den, n);
	oracle_ratio_shift(num, den, up);
	word = oracle_round_ratio(to, num, den, 1, FPISA_ROUND_NEAREST, flags);
	mpz_clears(num, den, NULL);
	return word;
}

/* Check the result of a read against the oracle. */
static inline void check_read(const struct fpisa_superacc *a, const struct oracle_exact *x, uint64_t n,
			      struct fpisa_format f)
{
	uint32_t flags = 0, want_flags = 0;
	uint64_t want = oracle_exact_round(x, FPISA_ROUND_NEAREST, &want_flags);

	assert_int_equal(fpisa_superacc_read(a, f, f, 0, &flags), want);
	assert_int_equal(flags, want_flags);
	assert_int_equal(a->rows, n);
	for (uint32_t i = 0; i < 2 && n; i++) {
		flags = want_flags = 0;
		want = quotient(x, n, of(i), &want_flags);
		assert_int_equal(fpisa_superacc_read(a, f, of(i), 1, &flags), want);
		assert_int_equal(flags, want_flags);
		flags = want_flags = 0;
		want = quotient(x, 1, of(i), &want_flags);
		assert_int_equal(fpisa_superacc_read(a, f, of(i), 0, &flags), want);
		assert_int_equal(flags, want_flags);
	}
}

/*
 * Return the merge of parts of the values, which are merged pairwise in a random order. One part of each pair is
 * converted to bytes and back.
 */
static inline struct fpisa_superacc *by_merges(const struct values *v, struct vectors_rng *rng)
{
	struct fpisa_superacc *part[16];
	uint32_t parts = 1 + vectors_below(rng, 16);

	for (uint32_t p = 0; p < parts; p++)
		part[p] = fresh();
	for (uint32_t i = 0; i < v->n; i++)
		add(&part[vectors_below(rng, parts)], v->word[i], v->f, 0);
	while (parts > 1) {
		uint32_t a = vectors_below(rng, parts), b = vectors_below(rng, parts - 1);
		uint8_t bytes[FPISA_PARTIAL_MOST];
		union fpisa_superacc_full read;
		const char *why;

		b += b >= a;
		assert_int_equal(
			fpisa_partial_read(bytes, fpisa_partial_write(part[b], v->f, bytes), v->f, &read, &why), 0);
		fpisa_superacc_narrow(&read.acc);
		assert_int_equal(merge(&part[a], vectors_below(rng, 2) ? &read.acc : part[b], v->f), 0);
		free(part[b]);
		part[b] = part[--parts];
	}
	return part[0];
}

#endif
