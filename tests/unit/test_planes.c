/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compare sums of two levels by planes of digits (fpisa/planes.h) with the oracle's flat sum of all ranks, bit for bit.
 * Test every format of mode exact with sum, avg and scale, up to 64 leaves of 64 ranks, the ends of the range, and the
 * planes that are left out.
 */
#include <math.h>
#include "formats.h"
#include "lib/soft/planes.h"
#include "ranges.h"

#define LEAVES 64
#define RANKS 64

static const uint8_t ids[] = {FPISA_FORMAT_FP32, FPISA_FORMAT_FP16, FPISA_FORMAT_BF16,
			      FPISA_FORMAT_E4M3, FPISA_FORMAT_E5M2, FPISA_FORMAT_FP64};

/* Registers of one block that are never cleared, so a round begins with the remains of the last round */
struct registers {
	struct fpisa_exp_block e;
	struct fpisa_limbs64_block limbs;
};

struct tree {
	struct fpisa_job job;
	struct fpisa_format f;
	struct oracle_call call;
	uint32_t leaves, ranks; /* number of ranks of each leaf */
	struct registers leaf, root;
	bool packed;	 /* send packed blocks */
	uint32_t room;	 /* largest size of a part with packed blocks */
	uint32_t planes; /* number of planes that were sent */
	size_t bytes;	 /* size of the packed blocks that were sent */
};

static uint64_t words[LEAVES * RANKS][FPISA_BLOCK];

static struct tree tree_of(uint8_t format, uint32_t leaves, uint32_t ranks)
{
	const struct fpisa_format f = fpisa_register(format, FPISA_MODE_EXACT, ranks);

	return (struct tree){
		.job = {.workers = ranks,
			.format = format,
			.mode = FPISA_MODE_EXACT,
			.rounding = FPISA_ROUND_NEAREST,
			.pipeline = FPISA_PIPELINE_FUSED,
			.clz = FPISA_CLZ_BITS,
			.family = fpisa_family(f, FPISA_MODE_EXACT)},
		.f = f,
		.call = {.f = f, .mode = FPISA_MODE_EXACT, .rounding = FPISA_ROUND_NEAREST, .op = FPISA_OP_SUM},
		.leaves = leaves,
		.ranks = ranks,
	};
}

static struct fpisa_soft_registers registers_of(struct registers *r)
{
	return (struct fpisa_soft_registers){&r->e, &r->limbs};
}

/* Add the planes of the leaf's registers to the registers of the root. */
static void send_planes(struct tree *t, int first)
{
	const struct fpisa_planes set = fpisa_soft_carry(&t->job, registers_of(&t->leaf), 1);
	const uint32_t first_plane = fpisa_planes_next(&set, 0);
	__s32 digits[FPISA_BLOCK];

	for (uint32_t p = first_plane > FPISA_PLANE_SPECIALS ? 0 : first_plane; p <= FPISA_PLANE_SPECIALS;
	     p = fpisa_planes_next(&set, p + 1)) {
		assert_true(fpisa_plane_valid(p, fpisa_soft_limbs(&t->job)));
		fpisa_soft_get_plane(&t->job, p, digits, registers_of(&t->leaf), 1);
		fpisa_soft_add_plane(&t->job, p, digits, registers_of(&t->root), 1, first);
		first = 0;
		t->planes++;
	}
}

/* Write rows of packed numbers: in each row, the same byte or word of every element. Return their size. */
static size_t put_rows(uint8_t *out, __s64 *limbs, int n, uint32_t word)
{
	const uint32_t bytes = fpisa_packed_bytes(word), wide = bytes / 4 * 4;

	for (uint32_t k = 0; k < bytes; k++)
		for (int i = 0; i < FPISA_BLOCK; i++) {
			const uint32_t digit =
				fpisa_packed_bits(fpisa_limbs_of(limbs, i, n), n, fpisa_packed_from(word) + 8 * k);

			if (k < wide)
				out[k / 4 * 4 * FPISA_BLOCK + 4 * (uint32_t)i + k % 4] = (uint8_t)digit;
			else
				out[k * FPISA_BLOCK + (uint32_t)i] = (uint8_t)digit;
		}
	return FPISA_BLOCK * bytes;
}

/* Write a piece of the leaf's registers. Return its size. */
static size_t put_piece(struct tree *t, uint8_t *out, int n, uint32_t word)
{
	size_t size = sizeof(word);

	assert_true(fpisa_packed_valid(word, 1, (uint32_t)n) && fpisa_packed_size(word));
	memcpy(out, &word, sizeof(word));
	size += put_rows(out + size, (__s64 *)&t->leaf.limbs, n, word);
	if (word & FPISA_PACKED_SPECIALS)
		for (int i = 0; i < FPISA_BLOCK; i++)
			out[size++] = (uint8_t)fpisa_sticky_digit(t->leaf.e.e[i]);
	assert_int_equal(fpisa_packed_size(word), size);
	t->bytes += size;
	return size;
}

/* Add a part of the leaf's registers to the registers of the root. */
static void send_part(struct tree *t, const struct fpisa_packed *p, uint32_t part, int n, int first)
{
	_Alignas(8) uint8_t out[FPISA_PACKED_MOST + FPISA_PACKED_ROUND] = {0};
	size_t size = 0;

	for (uint32_t i = 0; i < p->pieces; i++)
		if (p->part[i] == part)
			size += put_piece(t, out + size, n, p->word[i]);
	assert_int_equal(size, p->size[part]);
	assert_true(size <= p->room);
	fpisa_soft_add_packed(&t->job, out, fpisa_packed_payload(p, part), registers_of(&t->root), 1, first);
}

/* Add the leaf's registers, packed, to the registers of the root. */
static void send_packed(struct tree *t, int first)
{
	const int n = (int)fpisa_soft_limbs(&t->job);
	__s64 *limbs = (__s64 *)&t->leaf.limbs;
	struct fpisa_used used = {0};
	struct fpisa_packed p;

	for (int i = 0; i < FPISA_BLOCK; i++) {
		fpisa_packed_carry(fpisa_limbs_of(limbs, i, n), n);
		fpisa_packed_use(&used, fpisa_limbs_of(limbs, i, n), n, t->leaf.e.e[i]);
	}
	fpisa_packed_begin(&p, t->room, 1);
	fpisa_packed_append_block(&p, fpisa_pack(&used, n, 0));
	assert_true(p.parts <= FPISA_PACKED_PARTS && p.pieces <= FPISA_PACKED_PARTS);
	for (uint32_t part = 0; part < p.parts; part++)
		send_part(t, &p, part, n, first && !part);
}

/* Sum the words of all ranks in two levels. The leaves are added in rotated order. Return the flags. */
static uint32_t sum(struct tree *t, uint32_t begin, struct fpisa_final fin, uint64_t *out)
{
	_Alignas(8) uint8_t payload[FPISA_BLOCK * 8];
	uint32_t flags;

	for (uint32_t n = 0; n < t->leaves; n++) {
		const uint32_t leaf = (begin + n) % t->leaves;

		for (uint32_t r = 0; r < t->ranks; r++) {
			for (int i = 0; i < FPISA_BLOCK; i++)
				fpisa_put_word(payload, i, t->f, words[leaf * t->ranks + r][i]);
			fpisa_soft_add(&t->job, (uint32_t)t->call.op, payload, registers_of(&t->leaf), 1, !r);
		}
		if (t->packed)
			send_packed(t, !n);
		else
			send_planes(t, !n);
	}
	flags = fpisa_soft_read(&t->job, &fin, payload, registers_of(&t->root), 1);
	for (int i = 0; i < FPISA_BLOCK; i++)
		out[i] = fpisa_get_word(payload, i, t->f);
	return flags;
}

/* Check the sum of the words against the oracle's sum. */
static void check(struct tree *t, struct vectors_rng *rng)
{
	const uint32_t n = t->leaves * t->ranks;
	uint64_t factor = 0, got[FPISA_BLOCK];
	uint32_t flags, want_flags = 0;

	memcpy(&factor, &t->call.factor, sizeof(factor));
	flags = sum(t, vectors_below(rng, t->leaves),
		    fpisa_final_of(t->f, (uint32_t)t->call.op, factor, n, t->call.reciprocal), got);
	for (int i = 0; i < FPISA_BLOCK; i++) {
		uint64_t column[LEAVES * RANKS], want;

		for (uint32_t r = 0; r < n; r++)
			column[r] = words[r][i];
		want = oracle_result(&t->call, n, column, NULL, &want_flags);
		if (got[i] != want)
			fail_msg("format %u, op %d, rounding %d, %u leaves of %u, element %d: %llx, oracle %llx",
				 t->job.format, t->call.op, (int)t->call.rounding, t->leaves, t->ranks, i,
				 (unsigned long long)got[i], (unsigned long long)want);
	}
	assert_int_equal(flags, want_flags);
}

/*
 * Fill columns with values. Each column has a kind. Often a value cancels a value of another leaf, except for the last
 * bit.
 */
static void fill(const struct tree *t, struct vectors_rng *rng)
{
	const uint64_t sign = 1ull << (t->f.ebits + t->f.mbits);

	for (int i = 0; i < FPISA_BLOCK; i++) {
		const int kind = (int)vectors_below(rng, 8), middle = (int)vectors_below(rng, (1u << t->f.ebits) - 1);

		for (uint32_t r = 0; r < t->leaves * t->ranks; r++) {
			words[r][i] = random_word(rng, t->f, kind, middle);
			if (r && !vectors_below(rng, 3))
				words[r][i] = words[vectors_below(rng, r)][i] ^ sign ^ !vectors_below(rng, 8);
		}
	}
}

/*
 * Fill columns whose average is half way between two values, or as near as three or more ranks allow. Most ranks
 * contribute the value below or the value above the average. Two others contribute twice the value below, and the
 * rest.
 */
static void fill_half_ways(const struct tree *t, struct vectors_rng *rng)
{
	const uint32_t n = t->leaves * t->ranks, least = t->f.mbits + 3u, most = (1u << t->f.ebits) - 3;

	for (int i = 0; i < FPISA_BLOCK; i++) {
		const uint64_t sign = (uint64_t)vectors_below(rng, 2) << (t->f.ebits + t->f.mbits),
			       e = least + vectors_below(rng, most - least),
			       below = sign | e << t->f.mbits | (vectors_next(rng) & (fpisa_frac_ones(t->f) - 1)),
			       rest = sign | (e - t->f.mbits - n % 2) << t->f.mbits;

		for (uint32_t r = 0; r < n; r++)
			words[r][i] = below + (r >= 2 && r < 2 + (n - 1) / 2);
		words[0][i] = below + (1ull << t->f.mbits);
		words[1][i] = rest + vectors_below(rng, 3) - 1;
	}
}

/* Choose an operation and a rounding. */
static void choose(struct tree *t, struct vectors_rng *rng)
{
	t->job.rounding = (uint8_t)(FPISA_ROUND_DOWN + vectors_below(rng, 2));
	t->job.pipeline = (uint8_t)(FPISA_PIPELINE_STAGED + vectors_below(rng, 2));
	t->call.rounding = (enum fpisa_rounding)t->job.rounding;
	t->call.op = (const int[]){FPISA_OP_SUM, FPISA_OP_SCALE, FPISA_OP_AVG}[vectors_below(rng, 3)];
	if (t->call.op == FPISA_OP_SCALE)
		t->call.factor = (vectors_below(rng, 2) ? 1.0 : -1.0) * (1 + vectors_below(rng, 1000)) /
				 (double)(1u << vectors_below(rng, 31));
	t->call.reciprocal = t->call.op == FPISA_OP_AVG && vectors_below(rng, 2);
	t->packed = t->job.format != FPISA_FORMAT_FP64 && vectors_below(rng, 2);
	t->room = vectors_below(rng, FPISA_PACKED_MOST + 64);
}

static void every_format(void **state)
{
	struct vectors_rng rng = {vectors_seed()};

	(void)state;
	for (size_t k = 0; k < sizeof(ids); k++) {
		for (int round = 0; round < 60; round++) {
			const uint32_t leaves = 1 + vectors_below(&rng, round % 8 ? 6 : LEAVES);
			struct tree t = tree_of(ids[k], leaves, 1 + vectors_below(&rng, round % 8 ? 6 : RANKS));

			for (int again = 0; again < 3; again++) {
				choose(&t, &rng);
				fill(&t, &rng);
				check(&t, &rng);
			}
		}
	}
}

/* Averages of up to 4,096 ranks are rounded once, to the nearest value. */
static void averages(void **state)
{
	struct vectors_rng rng = {vectors_seed()};

	(void)state;
	for (size_t k = 0; k < sizeof(ids); k++)
		for (int round = 0; round < 40; round++) {
			struct tree t = tree_of(ids[k], 2 + vectors_below(&rng, LEAVES - 1),
						2 + vectors_below(&rng, RANKS - 1));

			choose(&t, &rng);
			t.call.op = FPISA_OP_AVG;
			t.call.reciprocal = round % 8 == 7;
			fill_half_ways(&t, &rng);
			check(&t, &rng);
		}
}

/*
 * The largest sums of 4,096 values need more bits than the top limb has. They cancel, or a factor makes them finite.
 */
static void ends_of_the_range(void **state)
{
	struct vectors_rng rng = {vectors_seed()};

	(void)state;
	for (size_t k = 0; k < sizeof(ids); k++) {
		struct tree t = tree_of(ids[k], LEAVES, RANKS);
		const uint64_t sign = 1ull << (t.f.ebits + t.f.mbits), most = fpisa_beyond(t.f) - 1;

		for (int round = 0; round < 4; round++) {
			for (int i = 0; i < FPISA_BLOCK; i++) {
				/*
				 * In half of the columns the last leaves cancel the first leaves, except for one value.
				 */
				const uint32_t turn = i % 2 ? LEAVES * RANKS / 2 : LEAVES * RANKS;
				const uint64_t negative = i / 2 % 2 ? sign : 0;

				for (uint32_t r = 0; r < LEAVES * RANKS; r++)
					words[r][i] = most ^ negative ^ (r < turn ? 0 : sign);
				words[vectors_below(&rng, LEAVES * RANKS)][i] = most ^ negative ^ vectors_below(&rng, 4);
			}
			t.packed = t.job.format != FPISA_FORMAT_FP64 && round % 2;
			t.room = vectors_below(&rng, FPISA_PACKED_MOST + 64);
			t.call.op = round % 2 ? FPISA_OP_SCALE : FPISA_OP_SUM;
			t.call.factor = round < 2 ? 0x1p-13 : -0x1.fffffep-14;
			t.job.rounding = (uint8_t)(FPISA_ROUND_DOWN + round / 2);
			t.call.rounding = (enum fpisa_rounding)t.job.rounding;
			check(&t, &rng);
		}
	}
}

/* Blocks of mxint8, whose elements share an exponent */
static void shared_exponents(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	static struct oracle_mx blocks[LEAVES * RANKS];

	(void)state;
	for (int round = 0; round < 60; round++) {
		struct tree t = tree_of(FPISA_FORMAT_MXINT8, 1 + vectors_below(&rng, round % 8 ? 6 : LEAVES),
					1 + vectors_below(&rng, round % 8 ? 6 : RANKS));
		const uint32_t n = t.leaves * t.ranks, middle = vectors_below(&rng, 254);
		const struct fpisa_final fin = fpisa_final_of(t.f, FPISA_OP_SUM, 0, n, 0);
		_Alignas(8) uint8_t payload[FPISA_SCALES + FPISA_BLOCK];
		struct oracle_mx want;
		uint32_t flags = 0;

		for (uint32_t r = 0; r < n; r++) {
			uint32_t scale = middle + vectors_below(&rng, 40);

			blocks[r].scale = (uint8_t)(scale < 255 ? scale : 254 + !vectors_below(&rng, 64));
			for (int i = 0; i < FPISA_BLOCK; i++)
				blocks[r].k[i] = (int8_t)vectors_below(&rng, 256);
			memset(payload, 0, sizeof(payload));
			payload[0] = blocks[r].scale;
			memcpy(payload + FPISA_SCALES, blocks[r].k, FPISA_BLOCK);
			fpisa_soft_add(&t.job, FPISA_OP_SUM, payload, registers_of(&t.leaf), 1, r % t.ranks == 0);
			if (r % t.ranks == t.ranks - 1)
				send_planes(&t, r < t.ranks);
		}
		oracle_result_mx(&t.call, n, blocks, &want, NULL, &flags);
		assert_int_equal(fpisa_soft_read(&t.job, &fin, payload, registers_of(&t.root), 1), flags);
		assert_int_equal(payload[0], want.scale);
		assert_memory_equal(payload + FPISA_SCALES, want.k, FPISA_BLOCK);
	}
}

/* Return the number of planes that a leaf of 8 ranks sends for values near 2^e. */
static uint32_t planes_of(struct vectors_rng *rng, uint8_t format, int e, uint64_t special)
{
	struct tree t = tree_of(format, 1, 8);
	uint64_t got[FPISA_BLOCK];

	for (uint32_t r = 0; r < 8; r++)
		for (int i = 0; i < FPISA_BLOCK; i++)
			words[r][i] = e ? random_word(rng, t.f, 5, e) : 0;
	words[3][5] = special ? special : words[3][5];
	sum(&t, 0, fpisa_final_of(t.f, FPISA_OP_SUM, 0, 8, 0), got);
	return t.planes;
}

static void planes_left_out(void **state)
{
	struct vectors_rng rng = {vectors_seed()};

	(void)state;
	assert_int_equal(planes_of(&rng, FPISA_FORMAT_FP32, 0, 0), 1);
	assert_uint_in_range(planes_of(&rng, FPISA_FORMAT_FP32, 127, 0), 1, 2);
	assert_uint_in_range(planes_of(&rng, FPISA_FORMAT_FP64, 1023, 0), 2, 4);
	assert_uint_in_range(planes_of(&rng, FPISA_FORMAT_FP16, 15, 0), 1, 2);
	assert_int_equal(planes_of(&rng, FPISA_FORMAT_FP32, 0, 0x7f800000), 1);
	assert_uint_in_range(planes_of(&rng, FPISA_FORMAT_FP32, 127, 0x7f800000), 2, 3);
}

/* Return the bytes that a leaf of 8 ranks takes for a packed block of whole numbers below `most`, in units of 2^e. */
static size_t bytes_of(struct vectors_rng *rng, uint32_t most, int e)
{
	struct tree t = tree_of(FPISA_FORMAT_FP32, 1, 8);
	uint64_t got[FPISA_BLOCK];

	t.packed = true;
	t.room = FPISA_MAX_PAYLOAD;
	for (uint32_t r = 0; r < 8; r++)
		for (int i = 0; i < FPISA_BLOCK; i++) {
			const float value = ldexpf((float)vectors_below(rng, most) - (float)(most / 2), e);
			uint32_t word;

			memcpy(&word, &value, sizeof(word));
			words[r][i] = word;
		}
	sum(&t, 0, fpisa_final_of(t.f, FPISA_OP_SUM, 0, 8, 0), got);
	return t.bytes;
}

/* A packed block has as many bytes as the sums need, wherever they begin. */
static void packed_bytes(void **state)
{
	struct vectors_rng rng = {vectors_seed()};

	(void)state;
	assert_int_equal(bytes_of(&rng, 1, 0), 0);
	for (int e = -149; e < 100; e++) {
		assert_int_equal(bytes_of(&rng, 16, e), 4 + FPISA_BLOCK);
		assert_uint_in_range(bytes_of(&rng, 2002, e), 4 + FPISA_BLOCK, 4 + 2 * FPISA_BLOCK);
		assert_uint_in_range(bytes_of(&rng, 1 << 23, e), 4 + 3 * FPISA_BLOCK, 4 + 4 * FPISA_BLOCK);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_format),	     cmocka_unit_test(averages),
		cmocka_unit_test(ends_of_the_range), cmocka_unit_test(shared_exponents),
		cmocka_unit_test(planes_left_out),   cmocka_unit_test(packed_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
