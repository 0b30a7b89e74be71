/* SPDX-License-Identifier: GPL-2.0-only */
/* The formats that test_formats.c and test_blocks.c run, and random words of these formats */
#ifndef FORMATS_H
#define FORMATS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "fpisa/block.h"
#include "lab/oracle/oracle.h"
#include "vectors.h"

static const struct {
	const char *name;
	struct fpisa_format f;
} formats[] = {
	{"fp32", FPISA_FP32},
	{"fp32, 4 guard bits", {8, 23, 32, 4, 4}},
	{"fp32 in 64 bits", {8, 23, 64, 0, 4}},
	{"fpisa64 of fp32, 8 workers", {8, 23, 64, 36, 4}},
	{"fp16", {5, 10, 32, 0, 2}},
	{"fp16, 13 guard bits", {5, 10, 32, 13, 2}},
	{"bf16", {8, 7, 32, 0, 2}},
	{"bf16, 16 guard bits", {8, 7, 32, 16, 2}},
	{"fp64", {11, 52, 64, 0, 8}},
	{"fp64, 7 guard bits", {11, 52, 64, 7, 8}},
};

#define FORMATS ((int)(sizeof(formats) / sizeof(formats[0])))

/* Return a word of a chain whose exponents lie around `middle`. `kind` is 0..7. */
static inline uint64_t random_word(struct vectors_rng *rng, struct fpisa_format f, int kind, int middle)
{
	uint64_t bits = vectors_next(rng), fraction = vectors_next(rng) & ((1ull << f.mbits) - 1);
	int top = (1 << f.ebits) - 1, e = middle, spread = f.rbits + 3;

	switch (bits % 8) {
	case 0:
		fraction = 0;
		break;
	case 1:
		fraction = (1ull << f.mbits) - 1;
		break;
	case 2:
		fraction = 1ull << (bits >> 8) % f.mbits;
		break;
	}
	switch (kind) {
	case 0: /* values that saturate */
		bits = middle & 1 ? ~0ull : 0;
		fraction |= ((1ull << f.mbits) - 1) & ~3ull;
		break;
	case 1: /* any bits */
		e = (int)(bits >> 16) & top;
		break;
	case 2: /* subnormals and specials */
		e = (bits >> 16) % 5 ? (int)(bits >> 24) % 2 : top;
		break;
	case 3: /* the top of the range */
		e = top - 1 - (int)(bits >> 16) % 2;
		break;
	case 4: /* every distance of exponents that matters */
		e = middle - spread + (int)(bits >> 16) % (2 * spread + 1);
		break;
	default:
		e = middle - 2 + (int)(bits >> 16) % 5;
	}
	if (e < 0)
		e = 0;
	if (e >= top && kind != 2 && kind != 1)
		e = top - 1;
	return (bits >> 63) << (f.ebits + f.mbits) | (uint64_t)e << f.mbits | fraction;
}

static inline void assert_same(const char *what, int format, enum fpisa_mode mode, int n, const uint64_t *words,
			       uint64_t got, uint64_t want)
{
	if (got == want)
		return;
	print_error("%s, mode %d, %s: got 0x%llx, oracle 0x%llx\n", formats[format].name, (int)mode, what,
		    (unsigned long long)got, (unsigned long long)want);
	for (int i = 0; i < n; i++)
		print_error(" %llx", (unsigned long long)words[i]);
	print_error("\n");
	fail();
}

#endif
