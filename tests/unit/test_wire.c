// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test the bytes of the frame (wire.h): every offset that doc/wire.md states, the slot word, and the bytes that the
 * checksum covers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fpisa/slot.h"
#include "lib/base/checksum.h"
#include "vectors.h"

#define AT(type, member, offset, size)                                      \
	do {                                                                \
		assert_int_equal(offsetof(struct type, member), offset);    \
		assert_int_equal(sizeof(((struct type *)0)->member), size); \
	} while (0)

static void test_header_layout(void **state)
{
	(void)state;
	AT(fpisa_hdr, magic, 0, 2);
	AT(fpisa_hdr, version, 2, 1);
	AT(fpisa_hdr, type, 3, 1);
	AT(fpisa_hdr, flags, 4, 1);
	AT(fpisa_hdr, result_flags, 5, 1);
	AT(fpisa_hdr, format, 6, 1);
	AT(fpisa_hdr, op, 7, 1);
	AT(fpisa_hdr, job, 8, 4);
	AT(fpisa_hdr, generation, 12, 4);
	AT(fpisa_hdr, slot, 16, 4);
	AT(fpisa_hdr, rank, 20, 2);
	AT(fpisa_hdr, count, 22, 2);
	AT(fpisa_hdr, chunk, 24, 8);
	AT(fpisa_hdr, digest, 32, 8);
	AT(fpisa_hdr, call, 40, 4);
	AT(fpisa_hdr, contributors, 44, 2);
	AT(fpisa_hdr, reason, 46, 2);
	AT(fpisa_hdr, secret, 48, 8);
	AT(fpisa_hdr, bitmap, 56, 8);
	AT(fpisa_hdr, aux, 64, 8);
	AT(fpisa_hdr, checksum, 72, 4);
	assert_int_equal(sizeof(struct fpisa_hdr), 76);
	assert_int_equal(FPISA_SUM_HDR_WORDS * 8, offsetof(struct fpisa_hdr, checksum));
	assert_int_equal(FPISA_OFFSET, 42);
	assert_int_equal(FPISA_PAYLOAD_OFFSET, 118);
}

static void test_hello_layout(void **state)
{
	(void)state;
	AT(fpisa_hello, window, 0, 4);
	AT(fpisa_hello, elements, 4, 2);
	AT(fpisa_hello, workers, 6, 2);
	AT(fpisa_hello, rank, 8, 2);
	AT(fpisa_hello, mode, 10, 1);
	AT(fpisa_hello, rounding, 11, 1);
	AT(fpisa_hello, format, 12, 1);
	AT(fpisa_hello, pipeline, 13, 1);
	AT(fpisa_hello, clz, 14, 1);
	AT(fpisa_hello, fanout, 15, 1);
	AT(fpisa_hello, group, 16, 4);
	AT(fpisa_hello, address, 20, 4);
	AT(fpisa_hello, live, 24, 8);
	AT(fpisa_hello, flags, 32, 1);
	AT(fpisa_hello, ports, 33, 1);
	AT(fpisa_hello, reserved, 34, 2);
	AT(fpisa_hello, faults, 36, 16);
	AT(fpisa_hello, faults.seed, 36, 4);
	AT(fpisa_hello, faults.share[FPISA_FAULT_DROP], 40, 2);
	AT(fpisa_hello, faults.share[FPISA_FAULT_DUPLICATE], 42, 2);
	AT(fpisa_hello, faults.share[FPISA_FAULT_REORDER], 44, 2);
	AT(fpisa_hello, faults.share[FPISA_FAULT_DELAY], 46, 2);
	AT(fpisa_hello, faults.share[FPISA_FAULT_CORRUPT], 48, 2);
	AT(fpisa_hello, group_high, 52, 12);
	AT(fpisa_hello, proof, 64, 8);
	AT(fpisa_hello, results, 72, 8);
	assert_int_equal(sizeof(struct fpisa_hello), 80);
}

/* Check that the numbers on the wire never change. */
static void test_wire_numbers(void **state)
{
	const struct fpisa_hdr h = {.magic = FPISA_MAGIC,
				    .version = FPISA_VERSION,
				    .type = FPISA_TYPE_ADD,
				    .job = 0x01020304,
				    .chunk = 0x1112131415161718};
	const uint8_t *bytes = (const uint8_t *)&h;
	const uint8_t first[] = {'F', 'P', 3, 3}, job[] = {4, 3, 2, 1};
	const uint8_t chunk[] = {0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11};

	(void)state;
	assert_memory_equal(bytes, first, sizeof(first));
	assert_memory_equal(bytes + 8, job, sizeof(job));
	assert_memory_equal(bytes + 24, chunk, sizeof(chunk));
	assert_int_equal(FPISA_TYPE_HELLO, 1);
	assert_int_equal(FPISA_TYPE_WELCOME, 2);
	assert_int_equal(FPISA_TYPE_RESULT, 4);
	assert_int_equal(FPISA_TYPE_STATUS, 5);
	assert_int_equal(FPISA_TYPE_ERROR, 6);
	assert_int_equal(FPISA_FORMAT_FP32, 1);
	assert_int_equal(FPISA_OP_SUM, 1);
}

/* Check ports against doc/wire.md, section 2. Runs have up to 8 slots, and each stretch of K runs has every port. */
static void test_port_index(void **state)
{
	(void)state;
	for (uint32_t window = 1; window <= FPISA_MAX_WINDOW; window *= 2) {
		for (uint32_t ports = 1; ports <= FPISA_MAX_PORTS && ports <= window; ports *= 2) {
			uint32_t run = window / ports < 8 ? window / ports : 8, slots[FPISA_MAX_PORTS] = {0};

			for (uint32_t slot = 0; slot < window; slot++) {
				uint32_t port = fpisa_port_index(slot, window, ports);

				assert_int_equal(port, slot / run % ports);
				slots[port]++;
			}
			for (uint32_t port = 0; port < ports; port++)
				assert_int_equal(slots[port], window / ports);
		}
		assert_int_equal(fpisa_port_index(window - 1, window, 0), 0);
	}
}

static void test_slot_of(void **state)
{
	struct vectors_rng rng = {vectors_seed()};

	(void)state;
	for (uint32_t window = 1; window <= FPISA_MAX_WINDOW; window *= 2) {
		for (uint64_t i = 0; i < 8ull * window + 100; i++) {
			uint64_t c = i < 8ull * window ? i : vectors_next(&rng);
			uint64_t slot = c % window, version = c / window % 2;

			assert_int_equal(fpisa_slot_of(c, window), slot * 2 + version);
		}
	}
}

/* -- checksum ---------------------------------------------------------- */

enum {
	ELEMENTS = 256,
	BYTES = FPISA_SUM_HDR_WORDS * 8 + ELEMENTS * 4, /* bytes that the checksum covers */
	WORDS = BYTES / 4,
};

/* header and payload; the checksum field of the frame lies between them */
struct covered {
	uint32_t w[WORDS];
};

static uint32_t checksum(const struct covered *c)
{
	const int header = FPISA_SUM_HDR_WORDS;
	struct fpisa_sum s = {0};

	fpisa_sum_words(&s, c->w, header);
	fpisa_sum_words(&s, c->w + 2 * header, BYTES / 8 - header);
	return fpisa_sum_fold(&s);
}

static void fill(struct covered *c, struct vectors_rng *rng)
{
	const struct fpisa_hdr h = {.magic = FPISA_MAGIC,
				    .version = FPISA_VERSION,
				    .type = FPISA_TYPE_ADD,
				    .format = FPISA_FORMAT_FP32,
				    .op = FPISA_OP_SUM,
				    .job = 7,
				    .generation = 1,
				    .count = ELEMENTS,
				    .digest = 1000000,
				    .secret = vectors_next(rng)};

	memcpy(c->w, &h, FPISA_SUM_HDR_WORDS * 8);
	vectors_fill(vectors_next(rng), VECTORS_NEAR, 1, ELEMENTS, c->w + 2 * FPISA_SUM_HDR_WORDS);
}

static void test_checksum_by_parts(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	struct fpisa_sum s = {0};
	struct covered c;

	(void)state;
	fill(&c, &rng);
	for (int i = 0; i < BYTES / 8; i++) {
		s.a_lo += c.w[2 * i];
		s.b_lo += s.a_lo;
		s.a_hi += c.w[2 * i + 1];
		s.b_hi += s.a_hi;
	}
	assert_int_equal(fpisa_sum_fold(&s), checksum(&c));
}

/* Check any number of words, at any address, after other words. */
static void test_checksum_many(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	struct covered c;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct fpisa_sum one = {vectors_next(&rng) >> 20, vectors_next(&rng) >> 20, vectors_next(&rng) >> 20,
					vectors_next(&rng) >> 20};
		struct fpisa_sum many = one;
		size_t at = vectors_below(&rng, 32), words = vectors_below(&rng, BYTES / 8 - 4);
		const char *p = (const char *)c.w + at;

		if (i % 100 == 0)
			for (int k = 0; k < WORDS; k++)
				c.w[k] = i ? (uint32_t)vectors_next(&rng) : ~0u;
		fpisa_sum_words(&one, p, (int)words);
		fpisa_checksum_many(&many, p, words);
		assert_memory_equal(&one, &many, sizeof(one));
	}
}

/*
 * Check the sum of 16-bit words that is computed from sums of 32-bit words, for any contents of a frame, including the
 * largest words.
 */
static void test_checksum_16(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	uint16_t w[4 * (FPISA_SUM_HDR_WORDS + FPISA_MAX_PAYLOAD / 8)];

	(void)state;
	for (int i = 0; i < 5000; i++) {
		uint32_t words = vectors_below(&rng, sizeof(w) / 8 + 1);
		struct fpisa_sum s = {0};
		uint64_t sum = 0;

		for (uint32_t k = 0; k < 4 * words; k++)
			sum += w[k] = i % 4 ? (uint16_t)vectors_next(&rng) : 0xffff;
		fpisa_sum_words(&s, w, (int)words);
		assert_int_equal(fpisa_sum_16(&s) % 65535, sum % 65535);
		assert_true(fpisa_sum_16(&s) < 1 << 27);
		/* Only the sum of no words is 0. For a checksum, 0 differs from 65535. */
		assert_int_equal(!fpisa_sum_16(&s), !sum);
	}
}

static void test_checksum_single_flips(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	struct covered c;
	uint32_t good;

	(void)state;
	for (int zero = 0; zero < 2; zero++) {
		fill(&c, &rng);
		if (zero)
			memset(c.w + 2 * FPISA_SUM_HDR_WORDS, 0, ELEMENTS * 4);
		good = checksum(&c);
		for (int bit = 0; bit < BYTES * 8; bit++) {
			c.w[bit / 32] ^= 1u << bit % 32;
			assert_int_not_equal(checksum(&c), good);
			c.w[bit / 32] ^= 1u << bit % 32;
		}
		assert_int_equal(checksum(&c), good);
	}
}

static void swap(uint32_t *a, uint32_t *b)
{
	uint32_t t = *a;

	*a = *b;
	*b = t;
}

static void test_checksum_swaps(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	struct covered c;
	uint32_t good;
	int swapped = 0;

	(void)state;
	fill(&c, &rng);
	good = checksum(&c);
	/* Swap all pairs that are adjacent, one 64-bit word apart or one block apart, and a sample of the other pairs. */
	for (int distance = 1; distance < WORDS; distance++) {
		for (int i = 0; i + distance < WORDS; i += distance <= 2 || distance == FPISA_BLOCK ? 1 : 97) {
			if (c.w[i] == c.w[i + distance])
				continue;
			swap(&c.w[i], &c.w[i + distance]);
			assert_int_not_equal(checksum(&c), good);
			swap(&c.w[i], &c.w[i + distance]);
			swapped++;
		}
	}
	assert_true(swapped > 3 * ELEMENTS);
}

static void flip_both(struct covered *c, uint32_t good, int a, int b, uint32_t bit)
{
	c->w[a] ^= bit;
	c->w[b] ^= bit;
	assert_int_not_equal(checksum(c), good);
	c->w[a] ^= bit;
	c->w[b] ^= bit;
}

/* Check the same bit flipped in two words. A plain sum of words misses half of these changes. */
static void test_checksum_paired_flips(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	struct covered c;
	uint32_t good;

	(void)state;
	fill(&c, &rng);
	good = checksum(&c);
	for (int bit = 0; bit < 32; bit++) {
		for (int a = 0; a + 1 < WORDS; a++)
			flip_both(&c, good, a, a + 1, 1u << bit);
		for (int i = 0; i < 1000; i++) {
			int a = (int)vectors_below(&rng, WORDS), b = (int)vectors_below(&rng, WORDS);

			if (a != b)
				flip_both(&c, good, a, b, 1u << bit);
		}
	}
	assert_int_equal(checksum(&c), good);
}

/*
 * Return whether +2^bit, -2^(bit + 1) and +2^bit, or the reverse, in `lane` at words i, i + d, i + 2d cancel
 * (doc/protocol.md, section 5).
 */
static int cancels(const struct covered *c, int lane, int i, int d, int bit)
{
	uint32_t a = c->w[2 * i + lane] >> bit & 1, b = c->w[2 * (i + d) + lane] >> (bit + 1) & 1,
		 e = c->w[2 * (i + 2 * d) + lane] >> bit & 1;

	return a == e && a != b;
}

static void flip_three(struct covered *c, int lane, int i, int d, int bit)
{
	c->w[2 * i + lane] ^= 1u << bit;
	c->w[2 * (i + d) + lane] ^= 2u << bit;
	c->w[2 * (i + 2 * d) + lane] ^= 1u << bit;
}

static int in_order(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void flip_bits(struct covered *c, const int bit[3])
{
	for (int i = 0; i < 3; i++)
		c->w[bit[i] / 32] ^= 1u << bit[i] % 32;
}

/*
 * Return whether three bits, in order and in different words, have the form of cancels(). The answer is the same before
 * and after a flip.
 */
static int bits_cancel(const struct covered *c, const int bit[3])
{
	int i = bit[0] / 64, d = bit[1] / 64 - i, lane = bit[0] / 32 % 2, k = bit[0] % 32;

	return d > 0 && bit[2] / 64 - bit[1] / 64 == d && bit[1] / 32 % 2 == lane && bit[2] / 32 % 2 == lane &&
	       bit[1] % 32 == k + 1 && bit[2] % 32 == k && cancels(c, lane, i, d, k);
}

/*
 * Check that a flip of three bits escapes exactly if it cancels. The test tries all flips that cancel, and many others.
 */
static void test_checksum_three_flips(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	const int words = WORDS / 2;
	struct covered c;
	uint32_t good;
	int escaped = 0;

	(void)state;
	for (int i = 0; i < WORDS; i++)
		c.w[i] = (uint32_t)vectors_next(&rng);
	good = checksum(&c);
	for (int lane = 0; lane < 2; lane++)
		for (int d = 1; 2 * d < words; d++)
			for (int i = 0; i + 2 * d < words; i++)
				for (int bit = 0; bit < 31; bit++) {
					int through = cancels(&c, lane, i, d, bit);

					escaped += through;
					if (!through && vectors_below(&rng, 16))
						continue;
					flip_three(&c, lane, i, d, bit);
					assert_int_equal(checksum(&c) == good, through);
					flip_three(&c, lane, i, d, bit);
				}
	print_message("%d of the triples of bits in %d bytes escape\n", escaped, BYTES);
	for (int k = 0; k < 300000; k++) {
		int bit[3];

		for (int i = 0; i < 3; i++)
			bit[i] = (int)vectors_below(&rng, BYTES * 8);
		if (bit[0] == bit[1] || bit[0] == bit[2] || bit[1] == bit[2])
			continue;
		qsort(bit, 3, sizeof(*bit), in_order);
		flip_bits(&c, bit);
		assert_int_equal(checksum(&c) == good, bits_cancel(&c, bit));
		flip_bits(&c, bit);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_header_layout),
		cmocka_unit_test(test_hello_layout),
		cmocka_unit_test(test_wire_numbers),
		cmocka_unit_test(test_slot_of),
		cmocka_unit_test(test_port_index),
		cmocka_unit_test(test_checksum_by_parts),
		cmocka_unit_test(test_checksum_many),
		cmocka_unit_test(test_checksum_16),
		cmocka_unit_test(test_checksum_swaps),
		cmocka_unit_test(test_checksum_single_flips),
		cmocka_unit_test(test_checksum_paired_flips),
		cmocka_unit_test(test_checksum_three_flips),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
