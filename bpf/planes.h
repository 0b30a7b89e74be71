/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Partial sums as planes of digits (fpisa/planes.h) in a leaf's frames. A parent takes planes in every format. Leaves of
 * FP64 send them, and the other leaves send packed blocks (packed.h).
 */
#ifndef FPISA_BPF_PLANES_H
#define FPISA_BPF_PLANES_H

#include "pipeline.h"
#include "fpisa/tree.h"

#define LIMBS FAMILY_LIMBS

/* Make the payload `payload` bytes long. Return nonzero on an error. Packet pointers become invalid. */
static __always_inline int resize(struct xdp_md *ctx, __u32 payload)
{
	long have = (long)ctx->data_end - (long)ctx->data;

	fpisa_opaque(have);
	return bpf_xdp_adjust_tail(ctx, (int)(FPISA_PAYLOAD_OFFSET + payload - have)) != 0;
}

/* A part of a sealed round, as the leaf sends it. */
struct part {
	__u32 number;  /* the plane, or the number of the part */
	__u32 payload; /* its bytes */
	__u16 reason;  /* describes the part in the header */
	__u8 last;
};

/* One block of a plane in the frame. */
struct digits {
	__s32 d[FPISA_BLOCK];
} __attribute__((packed, aligned(4)));

static __always_inline struct digits *digits_of(struct xdp_md *ctx, __u32 b)
{
	struct digits *p = (void *)(long)ctx->data + FPISA_PAYLOAD_OFFSET + b * sizeof(*p);

	return (void *)(p + 1) <= (void *)(long)ctx->data_end ? p : NULL;
}

/* Run fpisa_exact64_add_digit(). The functions of an element of FP64 are calls, as collapse64() is. */
GLOBAL_FN int add_digit(struct fpisa_limbs64_block *a, struct fpisa_exp_block *e, __u32 i, __u32 plane, __s32 digit)
{
	if (!a || !e || i >= FPISA_BLOCK)
		return 0;
	fpisa_exact64_add_digit(a, i, &e->e[i], plane, digit);
	return 0;
}

/* Set the sum of lane i to zero. */
static __always_inline void clear_lane(struct fpisa_exp_block *e, man_block *m, __u32 i)
{
	e->e[i] = EXACT64 ? FPISA_RANGE_NONE << 6 : 0;
	if (EXACT64)
		return;
	FPISA_ROLLED
	for (__u32 k = 0; k < LIMBS; k++)
		fpisa_limbs_of(m, i, LIMBS)[k] = 0;
}

static __always_inline void add_digit_to(struct fpisa_exp_block *e, man_block *m, __u32 i, __u32 plane, __s32 digit)
{
	__u16 at = e->e[i];

	if (plane == FPISA_PLANE_SPECIALS) {
		e->e[i] = fpisa_sticky_add(at, digit);
	} else if (EXACT64) {
		add_digit(LIMBS64(m), e, i, plane, digit);
	} else {
		fpisa_exact_add_digit(fpisa_limbs_of(m, i, LIMBS), &at, LIMBS, plane & 15, digit);
		e->e[i] = at;
	}
}

GLOBAL_FN int add_digits(const struct digits *in, struct fpisa_exp_block *e, man_block *m, __u32 plane, __u32 first)
{
	if (!in || !e || !m)
		return 0;
	FPISA_EACH(i) {
		if (first)
			clear_lane(e, m, i);
		add_digit_to(e, m, i, plane, in->d[i]);
	}
	return 0;
}

/* Add the plane in the payload to the registers. */
GLOBAL_FN int run_add_plane(struct xdp_md *ctx, struct fpisa_phv *phv, __u32 plane)
{
	struct fpisa_exponents *e = exponents_of(phv);
	man_block *m = mantissas_of(phv);

	KEEP_ARGUMENT(plane);
	if (!phv || !e || !m)
		return 0;
	EACH_BLOCK(b, phv) {
		struct digits *in = digits_of(ctx, b);

		if (!in)
			break;
		add_digits(in, &e->b[b], &m[b], plane, phv->first);
	}
	return 0;
}

/* -- a leaf of FP64 ------------------------------------------------------------------ */

#if EXACT64
GLOBAL_FN int carry_element(struct fpisa_limbs64_block *a, struct fpisa_exp_block *e, __u32 i)
{
	if (!a || !e || i >= FPISA_BLOCK)
		return 0;
	fpisa_exact64_carry(a, i, &e->e[i]);
	return 0;
}

/* Add the planes in which element i has a digit to the set. */
GLOBAL_FN int add_planes(struct fpisa_planes *set, const struct fpisa_limbs64_block *a, const struct fpisa_exp_block *e,
			 __u32 i)
{
	if (!set || !a || !e || i >= FPISA_BLOCK)
		return 0;
	FPISA_ROLLED
	for (__u32 plane = 0; plane <= FPISA_LIMBS64; plane++)
		if (fpisa_exact64_digit(a, i, e->e[i], plane))
			fpisa_planes_add(set, plane);
	return 0;
}

GLOBAL_FN int get_digit(const struct fpisa_limbs64_block *a, const struct fpisa_exp_block *e, __u32 i, __u32 plane)
{
	return !a || !e || i >= FPISA_BLOCK ? 0 : fpisa_exact64_digit(a, i, e->e[i], plane);
}

/* Move carries up in a block, and add its planes to the set. */
GLOBAL_FN int carry_block(struct fpisa_planes *set, struct fpisa_exp_block *e, man_block *m)
{
	if (!set || !e || !m)
		return 0;
	FPISA_EACH(i) {
		carry_element(LIMBS64(m), e, i);
		add_planes(set, LIMBS64(m), e, i);
		if (fpisa_sticky_digit(e->e[i]))
			fpisa_planes_add(set, FPISA_PLANE_SPECIALS);
	}
	return 0;
}

/* Seal the round in the registers: store its planes. */
GLOBAL_FN int seal(struct fpisa_phv *phv)
{
	struct fpisa_exponents *e = exponents_of(phv);
	man_block *m = mantissas_of(phv);
	struct fpisa_partials *x;

	if (!phv || !e || !m)
		return 0;
	x = lookup(&fpisa_partials, phv->key);
	if (!x)
		return 0;
	x->next = 0;
	x->planes = (struct fpisa_planes){};
	EACH_BLOCK(b, phv)
		carry_block(&x->planes, &e->b[b], &m[b]);
	return 0;
}

/* Return the first plane of the sealed round from `plane` on; above FPISA_PLANE_SPECIALS if there is none. */
GLOBAL_FN __u32 plane_from(__u32 key, __u32 plane)
{
	struct fpisa_partials *x = lookup(&fpisa_partials, key);

	return x ? fpisa_planes_next(&x->planes, plane) : FPISA_PLANE_SPECIALS + 1;
}

/* Return the number of parts of the sealed round. */
GLOBAL_FN __u32 parts_of(__u32 key)
{
	struct fpisa_partials *x = lookup(&fpisa_partials, key);

	return (x ? fpisa_planes_count(&x->planes) : 0) ?: 1;
}

GLOBAL_FN int get_digits(struct digits *out, const struct fpisa_exp_block *e, man_block *m, __u32 plane)
{
	if (!out || !e || !m)
		return 0;
	FPISA_EACH(i)
		out->d[i] = plane == FPISA_PLANE_SPECIALS ? fpisa_sticky_digit(e->e[i]) :
							    get_digit(LIMBS64(m), e, i, plane);
	return 0;
}

/* Write a plane into the payload. */
GLOBAL_FN int put_part(struct xdp_md *ctx, struct fpisa_phv *phv, __u32 plane)
{
	struct fpisa_exponents *e = exponents_of(phv);
	man_block *m = mantissas_of(phv);

	KEEP_ARGUMENT(plane);
	if (!phv || !e || !m)
		return 0;
	EACH_BLOCK(b, phv) {
		struct digits *out = digits_of(ctx, b);

		if (!out)
			break;
		get_digits(out, &e->b[b], &m[b], plane);
	}
	return 0;
}

static __always_inline void seal_round(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	(void)ctx;
	seal(phv);
}

/*
 * Return the part to send: the first one from phv->part on or, if that is 0, the first one that the parent lacks. The last
 * part is as long as the result, because the parent may not be able to make its frame longer.
 */
static __always_inline struct part choose_part(struct fpisa_phv *phv, const struct fpisa_partials *x)
{
	struct part part = {.payload = phv->blocks * sizeof(struct digits)};

	part.number = plane_from(phv->key, phv->part ?: x->next);
	/* The sum is zero. */
	if (part.number > FPISA_PLANE_SPECIALS)
		part.number = 0;
	part.last = plane_from(phv->key, part.number + 1) > FPISA_PLANE_SPECIALS;
	if (part.last)
		part.payload = payload_bytes(phv);
	part.reason = (__u16)(part.number | parts_of(phv->key) << FPISA_PART_COUNT_SHIFT);
	return part;
}

/* Return whether the sealed round has a part from `part` on. */
static __always_inline int has_part(__u32 key, const struct fpisa_partials *x, __u32 part)
{
	(void)x;
	return plane_from(key, part) <= FPISA_PLANE_SPECIALS;
}

static __always_inline void add_sums(struct xdp_md *ctx, struct fpisa_phv *phv, __u16 part)
{
	run_add_plane(ctx, phv, part & FPISA_PART_PLANE);
}
#endif

#endif
