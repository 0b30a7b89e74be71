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
