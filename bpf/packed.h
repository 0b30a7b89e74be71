/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Partial sums as packed blocks (fpisa/packed.h) in a leaf's frames, for formats other than FP64. */
#ifndef FPISA_BPF_PACKED_H
#define FPISA_BPF_PACKED_H

#include "planes.h"

#if !EXACT64

/* A row of a packed block. */
struct bytes {
	__u8 d[FPISA_BLOCK];
} __attribute__((packed));

/* Return `size` bytes of the payload from `at` on, or NULL if they are not in the frame. */
static __always_inline void *bytes_at(struct xdp_md *ctx, __u32 at, __u32 size)
{
	__u64 offset = at;
	void *p;

	fpisa_opaque(offset);
	p = (void *)(long)ctx->data + FPISA_PAYLOAD_OFFSET + (offset & 0xfff);
	return p + size <= (void *)(long)ctx->data_end ? p : NULL;
}

GLOBAL_FN __u32 word_of(const struct fpisa_used *used, __u32 b)
{
	KEEP_ARGUMENT(b);
	return used ? fpisa_pack(used, LIMBS, b) : 0;
}

GLOBAL_FN int append_block(__u32 key, __u32 word)
{
	struct fpisa_partials *x = lookup(&fpisa_partials, key);

	KEEP_ARGUMENT(word);
	if (x)
		fpisa_packed_append_block(&x->packed, word);
	return 0;
}

/* Move carries up in block `b` of a round, and append it to the partial sum. */
GLOBAL_FN int pack_block(__u32 key, const struct fpisa_exp_block *e, man_block *m, __u32 b)
{
	struct fpisa_used used = {};

	if (!e || !m)
		return 0;
	FPISA_EACH(i) {
		__s64 *acc = fpisa_limbs_of(m, i, LIMBS);

		fpisa_packed_carry(acc, LIMBS);
		fpisa_packed_use(&used, acc, LIMBS, e->e[i]);
	}
	append_block(key, word_of(&used, b));
	return 0;
}

/* Seal the round in the registers for parts of up to `room` bytes. */
GLOBAL_FN int seal(struct fpisa_phv *phv, __u32 room)
{
	struct fpisa_exponents *e = exponents_of(phv);
	man_block *m = mantissas_of(phv);
	struct fpisa_partials *x;

	KEEP_ARGUMENT(room);
	if (!phv || !e || !m)
		return 0;
	x = lookup(&fpisa_partials, phv->key);
	if (!x)
		return 0;
	x->next = 0;
	fpisa_packed_begin(&x->packed, room, phv->blocks);
	EACH_BLOCK(b, phv)
		pack_block(phv->key, &e->b[b], &m[b], b);
	return 0;
}

/*
 * Return the largest size of a part. It fits the MTU of the route to the parent. If the frame cannot grow, it is the size
 * of a contribution, which every frame that will ask for the partial sum has.
 */
static __always_inline __u32 room_for(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	struct fpisa_leaf *leaf = lookup(&fpisa_leaves, phv->job);
	const __u32 have = payload_bytes(phv), room = leaf ? leaf->room : 0;

	return room > have && resize(ctx, room) ? have : room;
}

static __always_inline void seal_round(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	seal(phv, room_for(ctx, phv));
}

/*
 * Return the part to send: phv->part or, if that is 0, the first one that the parent lacks. The last part is not shorter
 * than the result, because the parent may not be able to make its frame longer.
 */
static __always_inline struct part choose_part(struct fpisa_phv *phv, const struct fpisa_partials *x)
{
	struct part part = {.number = phv->part ?: x->next};

	part.payload = fpisa_packed_payload(&x->packed, part.number);
	part.last = part.number + 1 >= x->packed.parts;
	part.reason = (__u16)(FPISA_PART_PACKED | part.number | x->packed.parts << FPISA_PART_COUNT_SHIFT);
	if (part.last && part.payload < payload_bytes(phv))
		part.payload = payload_bytes(phv);
	return part;
}

/* Return whether the sealed round has a part from `part` on. */
static __always_inline int has_part(__u32 key, const struct fpisa_partials *x, __u32 part)
{
	(void)key;
	return part < x->packed.parts;
}

GLOBAL_FN int put_words(struct digits *out, man_block *m, __u32 from)
{
	KEEP_ARGUMENT(from);
	if (!out || !m)
		return 0;
	FPISA_EACH(i)
		out->d[i] = (__s32)fpisa_packed_bits(fpisa_limbs_of(m, i, LIMBS), LIMBS, from);
	return 0;
}

GLOBAL_FN int put_bytes(struct bytes *out, man_block *m, __u32 from)
{
	KEEP_ARGUMENT(from);
	if (!out || !m)
		return 0;
	FPISA_EACH(i)
		out->d[i] = (__u8)fpisa_packed_bits(fpisa_limbs_of(m, i, LIMBS), LIMBS, from);
	return 0;
}

GLOBAL_FN int put_specials(struct bytes *out, const struct fpisa_exp_block *e)
{
	if (!out || !e)
		return 0;
	FPISA_EACH(i)
		out->d[i] = (__u8)fpisa_sticky_digit(e->e[i]);
	return 0;
}

/* Write piece `piece` of the sealed round into the payload from `at` on. Return where it ends. */
GLOBAL_FN __u32 put_piece(struct xdp_md *ctx, struct fpisa_phv *phv, __u32 piece, __u32 at)
{
	struct fpisa_exponents *e = exponents_of(phv);
	man_block *m = mantissas_of(phv);
	struct fpisa_partials *x;
	__u32 word, from, bytes, b, *front;

	KEEP_ARGUMENT(piece);
	KEEP_ARGUMENT(at);
	if (!phv || !e || !m)
		return at;
	x = lookup(&fpisa_partials, phv->key);
	front = bytes_at(ctx, at, sizeof(word));
	if (!x || !front)
		return at;
	word = x->packed.word[piece & (FPISA_PACKED_PARTS - 1)];
	b = word & FPISA_PACKED_BLOCK;
	if (b >= FAMILY_BLOCKS)
		return at;
	fpisa_opaque(b); /* the verifier of Linux 6.1 does not apply the bound to a copy made before the comparison */
	*front = word;
	at += sizeof(word);
	from = fpisa_packed_from(word);
	bytes = fpisa_packed_bytes(word);
	FPISA_ROLLED
	for (__u32 k = 0; k <= LIMBS && bytes >= 4; k++, bytes -= 4, from += 32, at += sizeof(struct digits))
		put_words(bytes_at(ctx, at, sizeof(struct digits)), &m[b], from);
	FPISA_ROLLED
	for (__u32 k = 0; k < 3 && bytes; k++, bytes--, from += 8, at += sizeof(struct bytes))
		put_bytes(bytes_at(ctx, at, sizeof(struct bytes)), &m[b], from);
	if (!(word & FPISA_PACKED_SPECIALS))
		return at;
	put_specials(bytes_at(ctx, at, sizeof(struct bytes)), &e->b[b]);
	return at + sizeof(struct bytes);
}

/* Write a part of the sealed round into the payload, and a word of zeros behind it. */
GLOBAL_FN int put_part(struct xdp_md *ctx, struct fpisa_phv *phv, __u32 part)
{
	struct fpisa_partials *x;
	__u32 at = 0, *zero;

	KEEP_ARGUMENT(part);
	if (!phv)
		return 0;
	x = lookup(&fpisa_partials, phv->key);
	if (!x)
		return 0;
	FPISA_ROLLED
	for (__u32 i = 0; i < FPISA_PACKED_PARTS && i < x->packed.pieces; i++)
		if (x->packed.part[i] == part)
			at = put_piece(ctx, phv, i, at);
	zero = bytes_at(ctx, at, sizeof(*zero));
	if (zero)
		*zero = 0;
	return 0;
}

/* Add a row of numbers. The highest row of a block, which is `last`, has signs. */
GLOBAL_FN int add_words(const struct digits *in, struct fpisa_exp_block *e, man_block *m, __u32 from, __u32 last)
{
	KEEP_ARGUMENT(from);
	KEEP_ARGUMENT(last);
	if (!in || !e || !m)
		return 0;
	FPISA_EACH(i) {
		__s64 number = last ? (__s64)in->d[i] : (__s64)(__u32)in->d[i];
		__u16 at = e->e[i];

		fpisa_packed_add(fpisa_limbs_of(m, i, LIMBS), &at, LIMBS, from, number);
		e->e[i] = at;
	}
	return 0;
}

GLOBAL_FN int add_bytes(const struct bytes *in, struct fpisa_exp_block *e, man_block *m, __u32 from, __u32 last)
{
	KEEP_ARGUMENT(from);
	KEEP_ARGUMENT(last);
	if (!in || !e || !m)
		return 0;
	FPISA_EACH(i) {
		__s64 number = last ? (__s64)(__s8)in->d[i] : (__s64)in->d[i];
		__u16 at = e->e[i];

		fpisa_packed_add(fpisa_limbs_of(m, i, LIMBS), &at, LIMBS, from, number);
		e->e[i] = at;
	}
	return 0;
}

GLOBAL_FN int add_specials(const struct bytes *in, struct fpisa_exp_block *e)
{
	if (!in || !e)
		return 0;
	FPISA_EACH(i)
		e->e[i] = fpisa_sticky_add(e->e[i], in->d[i]);
	return 0;
}

GLOBAL_FN int clear_block(struct fpisa_exp_block *e, man_block *m)
{
	if (!e || !m)
		return 0;
	FPISA_EACH(i)
		clear_lane(e, m, i);
	return 0;
}

/* Add the piece in the payload from `at` on to the registers. Return where it ends, or the payload's end. */
GLOBAL_FN __u32 add_piece(struct xdp_md *ctx, struct fpisa_phv *phv, __u32 at)
{
	struct fpisa_exponents *e = exponents_of(phv);
	man_block *m = mantissas_of(phv);
	__u32 word, from, bytes, b, signs, *front;

	KEEP_ARGUMENT(at);
	if (!phv || !e || !m)
		return FPISA_MAX_PAYLOAD;
	front = bytes_at(ctx, at, sizeof(word));
	if (!front)
		return phv->payload;
	word = *front;
	b = word & FPISA_PACKED_BLOCK;
	if (b >= FAMILY_BLOCKS)
		return phv->payload;
	fpisa_opaque(b); /* as in put_piece() */
	if (!word || !fpisa_packed_valid(word, phv->blocks, LIMBS))
		return phv->payload;
	at += sizeof(word);
	from = fpisa_packed_from(word);
	bytes = fpisa_packed_bytes(word);
	signs = !(word & FPISA_PACKED_MORE);
	FPISA_ROLLED
	for (__u32 k = 0; k <= LIMBS && bytes >= 4; k++, bytes -= 4, from += 32, at += sizeof(struct digits))
		add_words(bytes_at(ctx, at, sizeof(struct digits)), &e->b[b], &m[b], from, bytes == 4 && signs);
	FPISA_ROLLED
	for (__u32 k = 0; k < 3 && bytes; k++, bytes--, from += 8, at += sizeof(struct bytes))
		add_bytes(bytes_at(ctx, at, sizeof(struct bytes)), &e->b[b], &m[b], from, bytes == 1 && signs);
	if (!(word & FPISA_PACKED_SPECIALS))
		return at;
	add_specials(bytes_at(ctx, at, sizeof(struct bytes)), &e->b[b]);
	return at + sizeof(struct bytes);
}

/* Add the packed blocks in the payload to the registers. */
GLOBAL_FN int run_add_packed(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	struct fpisa_exponents *e = exponents_of(phv);
	man_block *m = mantissas_of(phv);
	__u32 at = 0;

	if (!phv || !e || !m)
		return 0;
	if (phv->first)
		EACH_BLOCK(b, phv)
			clear_block(&e->b[b], &m[b]);
	FPISA_ROLLED
	for (__u32 k = 0; k < FAMILY_BLOCKS && at < phv->payload; k++)
		at = add_piece(ctx, phv, at);
	return 0;
}

/* Add a part with planes or packed blocks to the registers. */
static __always_inline void add_sums(struct xdp_md *ctx, struct fpisa_phv *phv, __u16 part)
{
	if (part & FPISA_PART_PACKED)
		run_add_packed(ctx, phv);
	else
		run_add_plane(ctx, phv, part & FPISA_PART_PLANE);
}

#endif

#endif
