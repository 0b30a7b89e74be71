/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compare paper/hw/fpisa_pipeline.v, simulated by Verilator, with include/fpisa/mau.h.
 * The comparison covers every word, flag and event that the pipeline outputs for each
 * contribution.
 *
 * 	pipeline CHAINS [PART PARTS]
 *
 * The first inputs are all pairs of boundary values, all 16-bit values, and the vectors
 * of tests/vectors.h of each kind, which are long enough to saturate. Then follow
 * CHAINS random chains of 2 to 64 terms over the twelve lanes, with bubbles and stalls.
 * PART of PARTS runs its share with a separate seed. The program fails if an output
 * differs, or if an event that a lane can cause never happened.
 */
#include "reference.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include "Vlanes.h"
#include "verilated.h"

extern "C" {
#include "vectors.h"
}

namespace
{

enum kind {
	UNIFORM,   /* all bits random */
	CLOSE,	   /* exponents within 4 */
	ALIGN,	   /* exponents within 40, which covers every shift distance */
	GROWING,   /* one sign and slowly increasing exponents, which fill the register */
	SATURATE,  /* one sign and one exponent, with the largest mantissas */
	SPECIAL,   /* one third of the values are zeros, infinities or NaNs */
	SUBNORMAL, /* the smallest values */
	CANCEL,	   /* x, followed by -x or its neighbour */
	TOP,	   /* the largest exponents */
	CLIMB,	   /* exponents that increase by 0..9, which cause left shifts and overwrites */
	FEW_BITS,  /* ties */
	KINDS,
};

enum { ROUNDED = 1, OVERWRITTEN = 2, LEFT_SHIFTED = 4, OVERFLOWED = 8 }; /* reference_result.events */
enum { OVERFLOW = 1, INEXACT = 2, IS_NAN = 8, IS_INF = 16 };		 /* reference_result.flags, format.h */

struct counts {
	uint64_t terms, wrong, rounded, overwritten, left_shifted, overflowed, beyond, inexact, nan, inf, subnormal;
};

Vlanes *rtl;
vectors_rng rng;
reference_lane lanes[LANES];
reference slots[LANES];
counts seen[LANES];
uint64_t chains, wrong;

/* Stop after this number of mismatches. A fault that affects everything does not need ten million chains. */
constexpr int GIVE_UP = 1000;

/* Number of contributions in flight, which is more than the pipeline can contain. */
constexpr int QUEUE = 16;
struct {
	uint32_t word[LANES];
	bool first;
	reference_result want[LANES];
} queue[QUEUE];
uint64_t put, got;

uint32_t pack(int lane, uint32_t sign, int exponent, uint32_t fraction)
{
	const reference_lane &f = lanes[lane];
	int ones = (1 << f.ebits) - 1;

	exponent = std::min(std::max(exponent, 0), ones);
	return (sign & 1) << (f.ebits + f.mbits) | (uint32_t)exponent << f.mbits | (fraction & ((1u << f.mbits) - 1));
}

void compare(int lane)
{
	const auto &q = queue[got % QUEUE];
	const reference_result &want = q.want[lane];
	uint32_t says = rtl->out_says[lane / 2] >> (16 * (lane & 1)) & 0xffff;
	uint32_t word = rtl->out_word[lane];
	const reference_lane &f = lanes[lane];
	counts &n = seen[lane];

	n.terms++;
	n.rounded += !!(want.events & ROUNDED);
	n.overwritten += !!(want.events & OVERWRITTEN);
	n.left_shifted += !!(want.events & LEFT_SHIFTED);
	n.overflowed += !!(want.events & OVERFLOWED);
	n.beyond += want.flags & OVERFLOW;
	n.inexact += !!(want.flags & INEXACT);
	n.nan += !!(want.flags & IS_NAN);
	n.inf += !!(want.flags & IS_INF);
	n.subnormal += want.word && !(want.word >> f.mbits & ((1u << f.ebits) - 1));
	if (word == want.word && says == (uint32_t)(want.flags | want.events << 5))
		return;
	n.wrong++;
	if (wrong == GIVE_UP) {
		printf("gives up after %d mismatches\n", GIVE_UP);
		exit(1);
	}
	if (wrong++ < 10)
		printf("%s: %s %08x: mau.h says %08x flags %02x events %x, the pipeline %08x flags %02x "
		       "events %x%s\n",
		       f.name, q.first ? "first" : "then", q.word[lane], want.word, want.flags, want.events, word,
		       says & 0x1f, says >> 5 & 0xf, says >> 15 ? ", its handshake unlike the first lane's" : "");
}

/* Run one clock cycle and compare the output. Return whether the pipeline took the input. */
bool cycle()
{
	bool taken;

	rtl->clk = 0;
	rtl->eval();
	taken = rtl->in_valid && rtl->in_ready;
	if (rtl->out_valid && rtl->out_ready) {
		if (got == put) {
			wrong++;
			printf("the pipeline says more than it was told\n");
		} else {
			for (int lane = 0; lane < LANES; lane++)
				compare(lane);
			got++;
		}
	}
	rtl->clk = 1;
	rtl->eval();
	return taken;
}

/* Feed a contribution. One eighth of the cycles are bubbles, and one eighth are stalls. */
void contribute(bool first, const uint32_t *words)
{
	auto &q = queue[put % QUEUE];

	q.first = first;
	memcpy(q.word, words, sizeof(q.word));
	for (int lane = 0; lane < LANES; lane++) {
		reference_add(lane, &slots[lane], first, words[lane], &q.want[lane]);
		rtl->in_word[lane] = words[lane];
	}
	rtl->in_first = first;
	for (bool taken = false; !taken;) {
		uint64_t r = vectors_next(&rng);

		rtl->in_valid = !!(r & 7);
		rtl->out_ready = !!(r >> 8 & 7);
		taken = cycle();
	}
	put++;
	rtl->in_valid = 0;
}

/* Drain the pipeline, and check that no contribution was lost. */
void drain()
{
	rtl->in_valid = 0;
	rtl->out_ready = 1;
	for (int i = 0; i < 2 * QUEUE; i++)
		cycle();
	if (got != put) {
		wrong++;
		printf("%llu contributions went in, %llu came out\n", (unsigned long long)put, (unsigned long long)got);
		got = put;
	}
}

void reset()
{
	rtl->reset = 1;
	rtl->in_valid = 0;
	rtl->out_ready = 1;
	for (int i = 0; i < 2; i++)
		cycle();
	rtl->reset = 0;
}

/* -- boundary values -------------------------------------------------------- */

/*
 * Return boundary values of both signs. Exponents are the smallest and the
 * largest, near the shift distances, and in the middle. Fractions are the
 * smallest and the largest, and near a tie.
 */
std::vector<uint32_t> boundary_values(int lane)
{
	const reference_lane &f = lanes[lane];
	int ones = (1 << f.ebits) - 1, headroom = 32 - 2 - f.mbits;
	uint32_t half = 1u << (f.mbits - 1);
	std::vector<int> exponents = {0,
				      1,
				      2,
				      3,
				      headroom - 1,
				      headroom,
				      headroom + 1,
				      headroom + 2,
				      headroom + 3,
				      f.mbits,
				      f.mbits + 1,
				      f.mbits + 2,
				      f.mbits + 3,
				      30,
				      31,
				      32,
				      33,
				      34,
				      ones / 2,
				      ones - 33,
				      ones - 32,
				      ones - headroom - 1,
				      ones - headroom,
				      ones - 2,
				      ones - 1,
				      ones};
	const uint32_t fractions[] = {0, 1, 2, 3, half - 1, half, half + 1, 0x555555, 0x7f, 0xff, ~2u, ~1u, ~0u};
	std::vector<uint32_t> values;

	for (int e : exponents)
		if (e >= 0 && e <= ones)
			for (uint32_t fraction : fractions)
				for (uint32_t sign = 0; sign < 2; sign++)
					values.push_back(pack(lane, sign, e, fraction));
	std::sort(values.begin(), values.end());
	values.erase(std::unique(values.begin(), values.end()), values.end());
	return values;
}

void boundary_pairs(unsigned int part, unsigned int parts)
{
	std::vector<uint32_t> values[LANES];
	size_t most = 0;

	for (int lane = 0; lane < LANES; lane++) {
		values[lane] = boundary_values(lane);
		most = std::max(most, values[lane].size());
	}
	for (size_t i = part; i < most; i += parts) {
		for (size_t j = 0; j < most; j++) {
			uint32_t first[LANES], then[LANES];

			for (int lane = 0; lane < LANES; lane++) {
				first[lane] = values[lane][i % values[lane].size()];
				then[lane] = values[lane][j % values[lane].size()];
			}
			contribute(true, first);
			contribute(false, then);
		}
	}
}

/* Feed every 16-bit value. FP32's lanes get these values too, with random bits as the lower part of the fraction. */
void every_half(unsigned int part, unsigned int parts)
{
	for (uint32_t half = part; half < 0x10000; half += parts) {
		uint32_t words[LANES];

		for (int lane = 0; lane < LANES; lane++)
			words[lane] = lane < 4 ? half << 16 | (vectors_next(&rng) & 0xffff) : half;
		contribute(true, words);
	}
}

/*
 * Convert a word of the FP32 test vectors. Other formats take the sign, a
 * similar exponent, and the low bits of the fraction.
 */
uint32_t narrow(int lane, uint32_t word)
{
	const reference_lane &f = lanes[lane];
	int e = word >> 23 & 0xff, ones = (1 << f.ebits) - 1;

	if (f.mbits == 23)
		return word;
	return pack(lane, word >> 31, e == 0xff ? ones : f.ebits == 8 ? e : e % ones, word);
}

void tree_vectors()
{
	constexpr int TERMS = 300, ELEMENTS = 16;
	static uint32_t out[TERMS * ELEMENTS];
	uint64_t seed = vectors_next(&rng);

	for (unsigned int index = 0; index < 2 * VECTORS_KINDS; index++) {
		vectors_fill(seed, index, TERMS, ELEMENTS, out);
		for (int i = 0; i < ELEMENTS; i++) {
			for (int c = 0; c < TERMS; c++) {
				uint32_t words[LANES];

				for (int lane = 0; lane < LANES; lane++)
					words[lane] = narrow(lane, out[c * ELEMENTS + i]);
				contribute(c == 0, words);
			}
		}
	}
}

/*
 * Fill registers in mode fpisa too. About 2^7 largest mantissas fill the register for FP32, and 2^31 / 2047, a little
 * over 2^20, for FP16. BF16 would need 2^23, which is not tested here. The sums of FP32 and FP16 are negative, and
 * those of BF16 are positive.
 */
void fill_registers()
{
	for (int i = 0; i < (1 << 20) + (1 << 10); i++) {
		uint32_t words[LANES];

		for (int lane = 0; lane < LANES; lane++)
			words[lane] = pack(lane, lane < 8, lanes[lane].ebits == 5 ? 12 : 120, ~0u);
		contribute(i == 0, words);
	}
}

/* -- random chains ----------------------------------------------------------- */

struct column {
	enum kind kind;
	int base;
	uint32_t sign, last;
};

uint32_t word_of(int lane, column &c, int term)
{
	const reference_lane &f = lanes[lane];
	int ones = (1 << f.ebits) - 1;
	uint64_t r = vectors_next(&rng);
	uint32_t bits = (uint32_t)(r >> 32), low = (uint32_t)r & 0xffffff, sign = bits >> 31;

	switch (c.kind) {
	case CLOSE:
		return pack(lane, sign, c.base - 4 + (int)(low % 9), bits);
	case ALIGN:
		return pack(lane, sign, c.base - 40 + (int)(low % 81), bits);
	case GROWING:
		return pack(lane, c.sign, c.base + term / 8 + (int)(low % 2), low & 0x100 ? ~0u : bits);
	case SATURATE:
		return pack(lane, low % 16 ? c.sign : sign, c.base, ~(uint32_t)(low >> 8 & 3));
	case SPECIAL:
		if (low % 3)
			return pack(lane, sign, c.base - 4 + (int)(low % 9), bits);
		return pack(lane, sign, low & 0x1000 ? ones : 0, low & 0x2000 ? bits : 0);
	case SUBNORMAL:
		return pack(lane, sign, (int)(low % 8) / 6, low & 0x1000 ? bits : bits & 0xf);
	case CANCEL:
		if (term & 1)
			return c.last ^ 1u << (f.ebits + f.mbits) ^ (low % 3 == 0);
		return c.last = pack(lane, sign, c.base - (int)(low % 5), bits);
	case TOP:
		return pack(lane, low % 8 ? c.sign : sign, ones - 1 - (int)(low >> 8 & 1), low & 0x1000 ? bits : ~0u);
	case CLIMB:
		return pack(lane, sign, std::min(c.base / 4 + 5 * term % ones + (int)(low % 10), ones - 1), bits);
	case FEW_BITS:
		return pack(lane, sign, c.base - 16 + (int)(low % 33), 1u << bits % f.mbits | (bits >> 8 & 1));
	default:
		return bits & (uint32_t)((1ull << (1 + f.ebits + f.mbits)) - 1);
	}
}

/* Return a length of 2 to 64 terms. Each octave has the same probability. */
int length()
{
	int octave = 1 + (int)vectors_below(&rng, 5);

	return (1 << octave) + (int)vectors_below(&rng, (1u << octave) + 1);
}

void random_chains(uint64_t n)
{
	for (; chains < n; chains += LANES) {
		column columns[LANES];
		int terms = length();

		for (int lane = 0; lane < LANES; lane++) {
			uint64_t r = vectors_next(&rng);

			columns[lane] = {(enum kind)vectors_below(&rng, KINDS),
					 (int)(r % ((1u << lanes[lane].ebits) - 1)), (uint32_t)(r >> 63), 0};
		}
		for (int term = 0; term < terms; term++) {
			uint32_t words[LANES];

			for (int lane = 0; lane < LANES; lane++)
				words[lane] = word_of(lane, columns[lane], term);
			contribute(term == 0, words);
		}
	}
}

/* -- report --------------------------------------------------------------------- */

void need(int lane, const char *what, uint64_t n, bool possible)
{
	if (possible == (n != 0))
		return;
	wrong++;
	printf("%s: %s: %s\n", lanes[lane].name, what,
	       possible ? "never happened: the vectors are too weak" : "cannot be");
}

void report(bool filled)
{
	for (int lane = 0; lane < LANES; lane++) {
		const counts &n = seen[lane];
		bool fpisa = lanes[lane].mode == 1;

		printf("%-20s %10llu terms: rounded %llu, overwritten %llu, left_shifted %llu, overflowed "
		       "%llu; "
		       "overflow %llu, nan %llu, inf %llu, subnormal %llu: %llu wrong\n",
		       lanes[lane].name, (unsigned long long)n.terms, (unsigned long long)n.rounded,
		       (unsigned long long)n.overwritten, (unsigned long long)n.left_shifted,
		       (unsigned long long)n.overflowed, (unsigned long long)n.beyond, (unsigned long long)n.nan,
		       (unsigned long long)n.inf, (unsigned long long)n.subnormal, (unsigned long long)n.wrong);
		need(lane, "rounded", n.rounded, true);
		need(lane, "overwritten", n.overwritten, !fpisa);
		need(lane, "left_shifted", n.left_shifted, !fpisa);
		/*
		 * In mode fpisa 2^headroom adds fit into a register. Only registers of FP32 can be filled by chains,
		 * and those of FP16 by fill_registers().
		 */
		need(lane, "overflowed", n.overflowed, !fpisa || lane < (filled ? 8 : 4));
		need(lane, "result beyond the range", n.beyond, true);
		need(lane, "inexact", n.inexact, true);
		need(lane, "nan", n.nan, true);
		need(lane, "inf", n.inf, true);
		need(lane, "subnormal", n.subnormal, true);
	}
}

} /* namespace */

int main(int argc, char **argv)
{
	uint64_t n = argc > 1 ? strtoull(argv[1], nullptr, 0) : 0;
	unsigned int part = argc > 3 ? (unsigned int)atoi(argv[2]) : 0,
		     parts = argc > 3 ? (unsigned int)atoi(argv[3]) : 1;
	bool fill = n / parts >= 1000000 && part == 0;

	if (argc < 2 || !parts || part >= parts) {
		fprintf(stderr, "usage: pipeline CHAINS [PART PARTS]\n");
		return 2;
	}
	rng.state = vectors_seed() + part;
	rtl = new Vlanes;
	for (int lane = 0; lane < LANES; lane++)
		lanes[lane] = reference_describe(lane);
	reset();
	boundary_pairs(part, parts);
	every_half(part, parts);
	tree_vectors();
	if (fill)
		fill_registers();
	random_chains(n / parts);
	drain();
	report(fill);
	printf("%llu chains, %llu contributions of %d lanes, %llu mismatches\n", (unsigned long long)chains,
	       (unsigned long long)got, LANES, (unsigned long long)wrong);
	rtl->final();
	delete rtl;
	return wrong != 0;
}
