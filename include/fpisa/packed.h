/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Exact sums, packed: the form of a partial sum that has fewer bytes than planes (planes.h), for the limbs of exact.h.
 *
 * For each block, a leaf sends only the bits between the lowest and the highest bit that some element of the block uses.
 * A word in front of the block says which bits these are. The bits of all elements follow, from the lowest on: 32
 * numbers of 32 bits as often as they fit, then up to three times 32 numbers of 8 bits. The last row of numbers is
 * signed, and the others are not. The sticky bits of specials are another row of 32 bytes. Blocks of zeros are left out.
 * A block that is too large for a frame is cut into pieces, each of which has a word.
 *
 * The parent adds a row at its place. As with planes, its sum has the same bits as one sum over all workers.
 */
#ifndef FPISA_PACKED_H
#define FPISA_PACKED_H

#include "planes.h"

/* The word in front of a block, or of a piece of a block. A word of zeros ends the blocks. */
#define FPISA_PACKED_BLOCK 0x1fu   /* number of the block in the chunk */
#define FPISA_PACKED_BYTES_SHIFT 5 /* bytes of an element, 0 to FPISA_PACKED_MOST_BYTES */
#define FPISA_PACKED_BYTES 0x3fu
#define FPISA_PACKED_SPECIALS (1u << 11) /* a row of sticky bits follows */
#define FPISA_PACKED_MORE (1u << 12) /* another piece has the block's higher rows, so this piece has no signed row */
#define FPISA_PACKED_FROM_SHIFT 16   /* number of the lowest bit */
#define FPISA_PACKED_FROM 0x1ffu
#define FPISA_PACKED_MOST_BYTES (4 * (FPISA_LIMBS + 1))

/* Largest size of a block with its word */
#define FPISA_PACKED_MOST (4 + FPISA_BLOCK * (FPISA_PACKED_MOST_BYTES + 1))
#define FPISA_PACKED_ROUND 32u /* a payload is a multiple of this */

/* The bits that the elements of a block use. Bit n is set if bit n of some element is set, or differs from its sign. */
struct fpisa_used {
	__u32 set[FPISA_LIMBS + 1], differ[FPISA_LIMBS + 1];
	__u32 specials;
};

static __always_inline __u32 fpisa_packed_bytes(__u32 word)
{
	return word >> FPISA_PACKED_BYTES_SHIFT & FPISA_PACKED_BYTES;
}

static __always_inline __u32 fpisa_packed_from(__u32 word)
{
	return word >> FPISA_PACKED_FROM_SHIFT & FPISA_PACKED_FROM;
}

/* Return the size of a block with its word, or 0 if the block is left out. */
static __always_inline __u32 fpisa_packed_size(__u32 word)
{
	__u32 rows = fpisa_packed_bytes(word) + !!(word & FPISA_PACKED_SPECIALS);

	return rows ? (__u32)sizeof(word) + FPISA_BLOCK * rows : 0;
}

/*
 * Maximum number of pieces of a chunk, and so of parts, a power of two. A part has room for 128 bytes for each block of
 * the chunk (fpisa_packed_begin()). So one block has at most 13 pieces, of 9 blocks each has at most 2, and further blocks
 * have one.
 */
#define FPISA_PACKED_PARTS 32

/* A partial sum of a sealed round, as its leaf stores it. */
struct fpisa_packed {
	__u32 word[FPISA_PACKED_PARTS]; /* the words in front of the pieces */
	__u16 size[FPISA_PACKED_PARTS]; /* sizes of the parts without padding */
	__u8 part[FPISA_PACKED_PARTS];	/* number of the part of each piece */
	__u32 pieces, parts;		/* numbers of pieces and of parts */
	__u32 room;			/* largest size of a part */
};

/*
 * Begin the partial sum of a round of `blocks` blocks, in parts of up to `room` bytes. Every job of a tree has frames
 * with room for the smallest size.
 */
static __always_inline void fpisa_packed_begin(struct fpisa_packed *p, __u32 room, __u32 blocks)
{
	const __u32 least = blocks * FPISA_BLOCK * FPISA_DIGIT_BYTES;

	p->size[0] = 0;
	p->pieces = 0;
	p->parts = 1;
	p->room = room > least ? room : least;
}

/* Return the word of the lowest piece of a block that fits `room` bytes. */
static __always_inline __u32 fpisa_packed_piece(__u32 word, __u32 room)
{
	const __u32 bytes = fpisa_packed_bytes(word), rows = (room - (__u32)sizeof(word)) / FPISA_BLOCK;

	if (fpisa_packed_size(word) <= room)
		return word;
	if (bytes <= rows)
		return word & ~FPISA_PACKED_SPECIALS;
	word &= ~(FPISA_PACKED_SPECIALS | FPISA_PACKED_BYTES << FPISA_PACKED_BYTES_SHIFT);
	return word | FPISA_PACKED_MORE | rows << FPISA_PACKED_BYTES_SHIFT;
}

/* Return the word for the rest of a block after this piece, or 0 if nothing is left. */
static __always_inline __u32 fpisa_packed_rest(__u32 word, __u32 piece)
{
	const __u32 bytes = piece & FPISA_PACKED_MORE ? fpisa_packed_bytes(word) - fpisa_packed_bytes(piece) : 0;
	const __u32 from = fpisa_packed_from(word) + 8 * fpisa_packed_bytes(piece);

	if (piece == word)
		return 0;
	return (word & (FPISA_PACKED_BLOCK | FPISA_PACKED_SPECIALS)) | bytes << FPISA_PACKED_BYTES_SHIFT |
	       (bytes ? from : 0) << FPISA_PACKED_FROM_SHIFT;
}

/* Put a piece into the last part, or into another one if it does not fit. */
static __always_inline void fpisa_packed_append(struct fpisa_packed *p, __u32 word)
{
	const __u32 more = fpisa_packed_size(word), last = p->parts - 1;
	const __u32 size = p->size[last & (FPISA_PACKED_PARTS - 1)];
	const __u32 part = last + (size && size + more > p->room), piece = p->pieces++;

	p->word[piece & (FPISA_PACKED_PARTS - 1)] = word;
	p->part[piece & (FPISA_PACKED_PARTS - 1)] = (__u8)part;
	p->size[part & (FPISA_PACKED_PARTS - 1)] = (__u16)((part == last ? size : 0) + more);
	p->parts = part + 1;
}

/* Append a block, whose word is `word`, in as many pieces as necessary. */
static __always_inline void fpisa_packed_append_block(struct fpisa_packed *p, __u32 word)
{
	FPISA_ROLLED
	for (int i = 0; i < FPISA_PACKED_PARTS && fpisa_packed_size(word); i++) {
		const __u32 piece = fpisa_packed_piece(word, p->room);

		fpisa_packed_append(p, piece);
		word = fpisa_packed_rest(word, piece);
	}
}

/* Return the smallest payload size of a part. */
static __always_inline __u32 fpisa_packed_payload(const struct fpisa_packed *p, __u32 part)
{
	const __u32 size = p->size[part & (FPISA_PACKED_PARTS - 1)];

	return size ? (size + FPISA_PACKED_ROUND - 1) & ~(FPISA_PACKED_ROUND - 1) : FPISA_PACKED_ROUND;
}

/* Return whether the word may be in front of a block of a chunk of `blocks` blocks, whose sums have `n` limbs. */
static __always_inline int fpisa_packed_valid(__u32 word, __u32 blocks, __u32 n)
{
	return (word & FPISA_PACKED_BLOCK) < blocks && fpisa_packed_bytes(word) <= 4 * (n + 1) &&
	       fpisa_packed_from(word) < 32 * (n + 1);
}

/*
 * Propagate carries until all limbs below the top limb are numbers of 32 bits without sign. The value of the accumulator
 * does not change.
 */
static __always_inline void fpisa_packed_carry(__s64 *acc, int n)
{
	__s64 carry = 0, limb;

	FPISA_ROLLED
	for (int k = 0; k < n - 1; k++) {
		limb = acc[k] + carry;
		acc[k] = (__u32)(__u64)limb;
		carry = limb >> 32;
	}
	acc[n - 1] += carry;
}

/* Return bits 32 k to 32 k + 31 of an accumulator after fpisa_packed_carry(), in two's complement. */
static __always_inline __u32 fpisa_packed_word(const __s64 *acc, int n, __u32 k)
{
	__s64 top = acc[n - 1];

	if (k >= (__u32)n)
		return (__u32)(__u64)(k == (__u32)n ? top >> 32 : top >> 63);
	return (__u32)(__u64)acc[fpisa_limb_of(k, n)];
}

/* Record the bits that an accumulator uses after fpisa_packed_carry(). `e` is its exponent register. */
static __always_inline void fpisa_packed_use(struct fpisa_used *used, const __s64 *acc, int n, __u16 e)
{
	const __u32 sign = fpisa_packed_word(acc, n, (__u32)n + 1);

	FPISA_ROLLED
	for (int k = 0; k <= n; k++) {
		__u32 word = fpisa_packed_word(acc, n, (__u32)k);

		used->set[k] |= word;
		used->differ[k] |= word ^ sign;
	}
	used->specials |= (__u32)fpisa_sticky_digit(e);
}

static __always_inline __u32 fpisa_lowest_bit(__u32 word)
{
	__u32 n = 0;

	FPISA_ROLLED
	while (n < 31 && !(word >> n & 1))
		n++;
	return n;
}

/* Return the number of the highest bit of a word that is not 0. */
static __always_inline __u32 fpisa_highest_bit(__u32 word)
{
	__u32 n = 31;

	FPISA_ROLLED
	while (n && !(word >> n & 1))
		n--;
	return n;
}

/* Return the word in front of block `b`. */
static __always_inline __u32 fpisa_pack(const struct fpisa_used *used, int n, __u32 b)
{
	__u32 word = b | (used->specials ? FPISA_PACKED_SPECIALS : 0), from = 0, end = 0, bytes;
	int any = 0;

	FPISA_ROLLED
	for (int k = n; k >= 0; k--)
		if (used->set[k]) {
			from = 32 * (__u32)k + fpisa_lowest_bit(used->set[k]);
			any = 1;
		}
	FPISA_ROLLED
	for (int k = 0; k <= n; k++)
		if (used->differ[k])
			end = 32 * (__u32)k + fpisa_highest_bit(used->differ[k]) + 1;
	if (!any)
		return word;
	/* `end` is at least `from`, and one bit more is for the sign. */
	bytes = (end - from) / 8 + 1;
	return word | bytes << FPISA_PACKED_BYTES_SHIFT | from << FPISA_PACKED_FROM_SHIFT;
}

/* Return 32 bits of an accumulator after fpisa_packed_carry(), from bit `from` on. */
static __always_inline __u32 fpisa_packed_bits(const __s64 *acc, int n, __u32 from)
{
	__u64 low = fpisa_packed_word(acc, n, from / 32), high = fpisa_packed_word(acc, n, from / 32 + 1);

	return (__u32)((high << 32 | low) >> from % 32);
}

/*
 * Add a number to an accumulator, in units of bit `from`, which is below 32 (n + 1). The number has 32 bits, or with
 * sign 33.
 */
static __always_inline void fpisa_packed_add(__s64 *acc, __u16 *e, int n, __u32 from, __s64 number)
{
	__s64 placed = (__s64)((__u64)number << from % 32);
	__u32 k = from / 32;

	if (k >= (__u32)n) {
		fpisa_exact_add_digit(acc, e, n, (__u32)n, (__s32)placed);
		return;
	}
	acc[fpisa_limb_of(k, n)] += (__u32)(__u64)placed;
	if (k + 1 < (__u32)n)
		acc[fpisa_limb_of(k + 1, n)] += placed >> 32;
	else
		fpisa_exact_add_digit(acc, e, n, (__u32)n, (__s32)(placed >> 32));
}

#endif
