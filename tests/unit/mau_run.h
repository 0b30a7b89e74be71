/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Run one chain of FP32 contributions, 32 elements wide, through every user-space composition of the nine units and
 * through the oracle. Registers and events must agree after each contribution. Packed values and flags of both
 * roundings must agree after the last contribution. Any difference fails the test.
 * 	lanes	mau.h element by element, with events and flags of each element
 * 	fused	block.h, one loop
 * 	staged	block.h, one unit at a time over the block's PHV
 */
#ifndef MAU_RUN_H
#define MAU_RUN_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "fpisa/block.h"
#include "lab/oracle/oracle.h"

typedef uint32_t contribution[FPISA_BLOCK];

/*
 * Do the paper's match (figure 5) without a map. Entry i has only bit 31 - i and a mask over the first i + 1 bits, and
 * the match gives i. Zero has no entry.
 */
static inline __u32 clz_prefixes(__u32 x)
{
	for (__u32 i = 0; i < 32; i++) {
		__u32 bit = 0x80000000u >> i, mask = ~(bit - 1);

		if ((x & mask) == bit)
			return i;
	}
	return 32;
}

static inline __u32 clz_builtin(__u32 x)
{
	return x ? (__u32)__builtin_clz(x) : 32;
}

/* The oracle's results for a block */
struct expected {
	struct oracle_reg reg[FPISA_BLOCK];
	struct fpisa_exp_block e;
	struct fpisa_man_block m;
	uint64_t event[FPISA_BLOCK]; /* events of the current add, packed as in format.h */
	uint64_t events;	     /* sum of event[] for the current add */
	uint64_t total;		     /* sum over all adds */
};

static inline uint64_t pack_events(const struct oracle_events *v)
{
	return v->rounded << FPISA_EV_ROUNDED | v->overwritten << FPISA_EV_OVERWRITTEN |
	       v->left_shifted << FPISA_EV_LEFT_SHIFTED | v->overflowed << FPISA_EV_OVERFLOWED;
}

static inline void expect_add(struct expected *x, const contribution w, int first, enum fpisa_mode mode)
{
	x->events = 0;
	for (int i = 0; i < FPISA_BLOCK; i++) {
		struct oracle_reg *r = &x->reg[i];
		struct oracle_events v = {0};

		if (first)
			oracle_set(r, FPISA_FP32, w[i]);
		else
			oracle_add(r, FPISA_FP32, mode, w[i], &v);
		x->e.e[i] = (__u16)(r->e | (r->nan ? FPISA_EXP_NAN : 0) | (r->pinf ? FPISA_EXP_PINF : 0) |
				    (r->ninf ? FPISA_EXP_NINF : 0));
		x->m.m[i] = (__s32)r->m;
		x->event[i] = pack_events(&v);
		x->events += x->event[i];
	}
	x->total += x->events;
}

static inline void mismatch(const char *what, const char *who, enum fpisa_mode mode, int n, const contribution *w,
			    int i, uint64_t got, uint64_t want)
{
	print_error("%s, %s, mode %d: element %d after %d contributions: got 0x%llx, oracle 0x%llx\n", what, who,
		    (int)mode, i, n, (unsigned long long)got, (unsigned long long)want);
	for (int c = 0; c < n; c++)
		print_error(" %08x", w[c][i]);
	print_error("\n");
	fail();
}

#define COMPARE(who, member, got, want)                                                                                \
	do {                                                                                                           \
		if (memcmp(got, want, sizeof(*(got))))                                                                 \
			for (int __i = 0; __i < FPISA_BLOCK; __i++)                                                    \
				if ((got)->member[__i] != (want)->member[__i])                                         \
					mismatch(what, who " " #member, mode, n, w, __i, (uint64_t)(got)->member[__i], \
						 (uint64_t)(want)->member[__i]);                                       \
	} while (0)

/* Pass modes to the units as constants, as the BPF programs do. */
#define WITH_MODE(mode, call) ((mode) == FPISA_MODE_FPISA_A ? call(FPISA_MODE_FPISA_A) : call(FPISA_MODE_FPISA))

static inline uint64_t lane_add(struct fpisa_exp_block *e, struct fpisa_man_block *m, int i, uint32_t word, int first,
				enum fpisa_mode mode)
{
	struct fpisa_lane l = {.word = word};

	fpisa_mau0_extract(&l, FPISA_FP32);
	fpisa_mau1_implied_one(&l, FPISA_FP32);
	if (first) {
		e->e[i] = fpisa_mau2_first(&l);
		m->m[i] = (__s32)l.m;
		return 0;
	}
	e->e[i] = fpisa_mau2_exponent(&l, e->e[i], FPISA_FP32, mode);
	fpisa_mau3_align(&l, FPISA_FP32, mode);
	m->m[i] = (__s32)fpisa_mau4_add(&l, m->m[i], FPISA_FP32, mode);
	return l.events;
}

static inline uint64_t fused_add(const struct fpisa_word_block *in, struct fpisa_exp_block *e,
				 struct fpisa_man_block *m, int first, enum fpisa_mode mode)
{
	if (first) {
		fpisa_block_set(in, e, m, FPISA_FP32);
		return 0;
	}
#define CALL(constant) fpisa_block_add(in, e, m, FPISA_FP32, constant)
	return WITH_MODE(mode, CALL);
#undef CALL
}

static inline uint64_t staged_add(const struct fpisa_word_block *in, struct fpisa_exp_block *e,
				  struct fpisa_man_block *m, int first, enum fpisa_mode mode)
{
	struct fpisa_phv_block p;
	uint64_t events;

	memset(&p, 0xa5, sizeof(p)); /* leave the contents of another block in the PHV */
	fpisa_stage0(in, FPISA_PHV(&p), FPISA_FP32);
	fpisa_stage1(FPISA_PHV(&p), FPISA_FP32);
	if (first) {
		fpisa_stage2_first(FPISA_PHV(&p), e);
		fpisa_stage4_first(FPISA_PHV(&p), m, FPISA_FP32);
		return 0;
	}
	if (mode == FPISA_MODE_FPISA_A)
		fpisa_stage2(FPISA_PHV(&p), e, FPISA_FP32, FPISA_MODE_FPISA_A);
	else
		fpisa_stage2(FPISA_PHV(&p), e, FPISA_FP32, FPISA_MODE_FPISA);
#define CALL(constant) fpisa_stage3(FPISA_PHV(&p), FPISA_FP32, constant)
	events = WITH_MODE(mode, CALL);
#undef CALL
#define CALL(constant) fpisa_stage4(FPISA_PHV(&p), m, FPISA_FP32, constant)
	return events + WITH_MODE(mode, CALL);
#undef CALL
}

static inline uint32_t lane_read(const struct fpisa_exp_block *e, const struct fpisa_man_block *m, int i,
				 enum fpisa_rounding rounding, uint32_t *word)
{
	struct fpisa_lane l = {.m = m->m[i], .e = e->e[i]};
	__u32 lz;

	fpisa_mau5_sign(&l);
	lz = clz_builtin((__u32)l.m);
	fpisa_mau6_normalise(&l, FPISA_FP32, lz);
	fpisa_mau7_exponent(&l, FPISA_FP32, lz);
	fpisa_mau8_assemble(&l, FPISA_FP32, rounding);
	*word = (uint32_t)l.word;
	return l.flags;
}

#define STAGED_READ(out, e, m, rounding, clz)                             \
	({                                                                \
		struct fpisa_phv_block __p;                               \
		memset(&__p, 0x5a, sizeof(__p));                          \
		fpisa_stage5(e, m, FPISA_PHV(&__p), FPISA_FP32);          \
		fpisa_stage6(FPISA_PHV(&__p), FPISA_FP32, clz);           \
		fpisa_stage7(FPISA_PHV(&__p), FPISA_FP32);                \
		fpisa_stage8(FPISA_PHV(&__p), out, FPISA_FP32, rounding); \
	})

/*
 * Check that every composition and match reads equal registers out to equal values in one rounding, which is a
 * constant.
 */
#define CHECK_READ(x, rounding)                                                                                \
	do {                                                                                                   \
		struct fpisa_word_block want, got;                                                             \
		uint32_t flags, all = 0;                                                                       \
		for (int i = 0; i < FPISA_BLOCK; i++) {                                                        \
			uint32_t word, raised = 0;                                                             \
			want.w[i] = (uint32_t)oracle_read(&(x)->reg[i], FPISA_FP32, rounding, &raised);        \
			flags = lane_read(&(x)->e, &(x)->m, i, rounding, &word);                               \
			if (word != want.w[i])                                                                 \
				mismatch(what, "lanes result", mode, n, w, i, word, want.w[i]);                \
			if (flags != raised)                                                                   \
				mismatch(what, "lanes flags", mode, n, w, i, flags, raised);                   \
			all |= raised;                                                                         \
		}                                                                                              \
		CHECK_BLOCK("fused, bits",                                                                     \
			    fpisa_block_read(&got, &(x)->e, &(x)->m, FPISA_FP32, rounding, fpisa_clz32_bits)); \
		CHECK_BLOCK("fused, prefixes",                                                                 \
			    fpisa_block_read(&got, &(x)->e, &(x)->m, FPISA_FP32, rounding, clz_prefixes));     \
		CHECK_BLOCK("staged, bits", STAGED_READ(&got, &(x)->e, &(x)->m, rounding, fpisa_clz32_bits));  \
		CHECK_BLOCK("staged, prefixes", STAGED_READ(&got, &(x)->e, &(x)->m, rounding, clz_prefixes));  \
	} while (0)

#define CHECK_BLOCK(who, call)                                                   \
	do {                                                                     \
		flags = call;                                                    \
		COMPARE(who, w, &got, &want);                                    \
		if (flags != all)                                                \
			mismatch(what, who " flags", mode, n, w, 0, flags, all); \
	} while (0)

/* Return the oracle's results for the chain, for tests with further checks. */
static inline struct expected check_chain(const char *what, int contributions, const contribution *w,
					  enum fpisa_mode mode)
{
	struct expected x = {.total = 0};
	struct fpisa_exp_block le, fe, se;
	struct fpisa_man_block lm, fm, sm;

	for (int c = 0; c < contributions; c++) {
		const struct fpisa_word_block *in = (const void *)w[c];
		uint64_t events;
		int n = c + 1;

		expect_add(&x, w[c], c == 0, mode);
		for (int i = 0; i < FPISA_BLOCK; i++) {
			events = lane_add(&le, &lm, i, w[c][i], c == 0, mode);
			if (events != x.event[i])
				mismatch(what, "lanes events", mode, n, w, i, events, x.event[i]);
		}
		COMPARE("lanes", e, &le, &x.e);
		COMPARE("lanes", m, &lm, &x.m);
		events = fused_add(in, &fe, &fm, c == 0, mode);
		COMPARE("fused", e, &fe, &x.e);
		COMPARE("fused", m, &fm, &x.m);
		if (events != x.events)
			mismatch(what, "fused events", mode, n, w, 0, events, x.events);
		events = staged_add(in, &se, &sm, c == 0, mode);
		COMPARE("staged", e, &se, &x.e);
		COMPARE("staged", m, &sm, &x.m);
		if (events != x.events)
			mismatch(what, "staged events", mode, n, w, 0, events, x.events);
	}
	int n = contributions;

	CHECK_READ(&x, FPISA_ROUND_DOWN);
	CHECK_READ(&x, FPISA_ROUND_NEAREST);
	return x;
}

#endif
