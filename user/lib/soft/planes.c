/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Planes of digits; planes.h has the contracts. */
#include <string.h>
#include "planes.h"

/* The registers of one element. */
struct element {
	struct fpisa_limbs64_block *wide; /* limbs of FP64, where the element has lane `lane`; NULL for other formats */
	__s64 *acc;
	__u16 *e;
	uint32_t lane;
	int limbs;
};

uint32_t fpisa_soft_limbs(const struct fpisa_job *j)
{
	uint32_t limbs = fpisa_family_limbs(j->family);

	return limbs ? limbs : 1;
}

static struct element element_of(const struct fpisa_job *j, struct fpisa_soft_registers r, uint32_t i)
{
	struct element x = {.lane = i % FPISA_BLOCK, .limbs = (int)fpisa_soft_limbs(j)};
	void *block = (char *)r.m + i / FPISA_BLOCK * fpisa_soft_block_size(j);

	x.e = &r.e[i / FPISA_BLOCK].e[x.lane];
	if (x.limbs == FPISA_LIMBS64)
		x.wide = block;
	else
		x.acc = fpisa_limbs_of(block, (int)x.lane, x.limbs);
	return x;
}

static __s32 digit_of(const struct element *x, uint32_t plane)
{
	if (plane == FPISA_PLANE_SPECIALS)
		return fpisa_sticky_digit(*x->e);
	if (x->wide)
		return fpisa_exact64_digit(x->wide, x->lane, *x->e, plane);
	return fpisa_exact_digit(x->acc, x->limbs, plane);
}

static void add_digit(const struct element *x, uint32_t plane, __s32 digit)
{
	if (plane == FPISA_PLANE_SPECIALS)
		*x->e = fpisa_sticky_add(*x->e, digit);
	else if (x->wide)
		fpisa_exact64_add_digit(x->wide, x->lane, x->e, plane, digit);
	else
		fpisa_exact_add_digit(x->acc, x->e, x->limbs, plane, digit);
}

static void clear(const struct element *x)
{
	*x->e = x->wide ? FPISA_RANGE_NONE << 6 : 0;
	if (!x->wide)
		memset(x->acc, 0, (size_t)x->limbs * sizeof(*x->acc));
}

struct fpisa_planes fpisa_soft_carry(const struct fpisa_job *j, struct fpisa_soft_registers r, uint32_t blocks)
{
	struct fpisa_planes set = {0};

	for (uint32_t i = 0; i < blocks * FPISA_BLOCK; i++) {
		const struct element x = element_of(j, r, i);

		if (x.wide)
			fpisa_exact64_carry(x.wide, x.lane, x.e);
		else
			fpisa_exact_carry(x.acc, x.limbs);
		for (uint32_t plane = 0; plane <= (uint32_t)x.limbs; plane++)
			if (digit_of(&x, plane))
				fpisa_planes_add(&set, plane);
		if (digit_of(&x, FPISA_PLANE_SPECIALS))
			fpisa_planes_add(&set, FPISA_PLANE_SPECIALS);
	}
	return set;
}

void fpisa_soft_get_plane(const struct fpisa_job *j, uint32_t plane, void *out, struct fpisa_soft_registers r,
			  uint32_t blocks)
{
	for (uint32_t i = 0; i < blocks * FPISA_BLOCK; i++) {
		const struct element x = element_of(j, r, i);
		const __s32 digit = digit_of(&x, plane);

		memcpy((char *)out + sizeof(digit) * i, &digit, sizeof(digit));
	}
}

void fpisa_soft_add_plane(const struct fpisa_job *j, uint32_t plane, const void *in, struct fpisa_soft_registers r,
			  uint32_t blocks, int first)
{
	for (uint32_t i = 0; i < blocks * FPISA_BLOCK; i++) {
		const struct element x = element_of(j, r, i);
		__s32 digit;

		memcpy(&digit, (const char *)in + sizeof(digit) * i, sizeof(digit));
		if (first)
			clear(&x);
		add_digit(&x, plane, digit);
	}
}

/* Add the number of element `i` in a row of 1 or 4 bytes for each element. The highest row of a block has signs. */
static void add_number(const struct element *x, const unsigned char *row, uint32_t i, uint32_t bytes, uint32_t from,
		       int last)
{
	__s32 number = (__s8)row[i];

	if (bytes == sizeof(number))
		memcpy(&number, row + sizeof(number) * i, sizeof(number));
	fpisa_packed_add(x->acc, x->e, x->limbs, from,
			 last			 ? number :
			 bytes == sizeof(number) ? (__s64)(__u32)number :
						   (__s64)(__u8)number);
}

/* Add the rows of a piece, which follow `word`, to its block. */
static void add_rows(const struct fpisa_job *j, const unsigned char *in, __u32 word, struct fpisa_soft_registers r)
{
	const uint32_t first = (word & FPISA_PACKED_BLOCK) * FPISA_BLOCK;
	uint32_t from = fpisa_packed_from(word), bytes;

	for (uint32_t left = fpisa_packed_bytes(word); left; left -= bytes) {
		bytes = left >= sizeof(__s32) ? sizeof(__s32) : 1;
		for (uint32_t i = 0; i < FPISA_BLOCK; i++) {
			const struct element x = element_of(j, r, first + i);

			add_number(&x, in, i, bytes, from, left == bytes && !(word & FPISA_PACKED_MORE));
		}
		in += FPISA_BLOCK * bytes;
		from += 8 * bytes;
	}
	for (uint32_t i = 0; word & FPISA_PACKED_SPECIALS && i < FPISA_BLOCK; i++) {
		const struct element x = element_of(j, r, first + i);

		*x.e = fpisa_sticky_add(*x.e, in[i]);
	}
}

void fpisa_soft_add_packed(const struct fpisa_job *j, const void *in, size_t size, struct fpisa_soft_registers r,
			   uint32_t blocks, int first)
{
	const unsigned char *at = in, *end = at + size;
	__u32 word;

	for (uint32_t i = 0; first && i < blocks * FPISA_BLOCK; i++) {
		const struct element x = element_of(j, r, i);

		clear(&x);
	}
	while ((size_t)(end - at) >= sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		if (!word || !fpisa_packed_valid(word, blocks, fpisa_soft_limbs(j)) ||
		    fpisa_packed_size(word) > (size_t)(end - at))
			return;
		if (fpisa_packed_size(word))
			add_rows(j, at + sizeof(word), word, r);
		at += fpisa_packed_size(word) ?: sizeof(word);
	}
}
