// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test tags (fpisa/tag.h): first the hash and the PRF alone, then jobs with a token, whose frames no other host can
 * make, change or replay.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <arpa/inet.h>
#include <cmocka.h>
#include "lib/base/tag.h"
#include "soft_frames.h"
#include "vectors.h"

enum { RANKS = 3, ELEMENTS = 64, WINDOW = 4 };

/* Check the vectors of the reference code, with key 00 01 .. 0f and messages 00 01 02 .. of 16 and of 24 bytes. */
static void test_siphash_vectors(void **state)
{
	const struct fpisa_key key = {0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull};

	(void)state;
	assert_int_equal(fpisa_siphash(&key, 0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull), 0x3f2acc7f57c29bdbull);
	assert_int_equal(fpisa_siphash3(&key, 0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull, 0x1716151413121110ull),
			 0xb8ad50c6f649af94ull);
}

/*
 * Return NH as its paper defines it, with M and K of 32-bit words: the sum of (M[2i] + K[2i] mod 2^32) (M[2i + 1] +
 * K[2i + 1] mod 2^32) mod 2^64.
 */
static uint64_t nh_of_the_paper(const unsigned char *m, const unsigned char *k, size_t bytes)
{
	unsigned __int128 sum = 0;

	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t half[2];

		for (size_t j = 0; j < 2; j++) {
			uint64_t a = 0, b = 0;

			for (size_t n = 4; n--;) {
				a = 256 * a + m[i + 4 * j + n];
				b = 256 * b + k[i + 4 * j + n];
			}
			half[j] = (a + b) % 0x100000000ull;
		}
		sum += (unsigned __int128)half[0] * half[1];
	}
	return (uint64_t)sum;
}

/* Return A and B of some words by fpisa_nh_many(), with the final term of B. */
static struct fpisa_nh sums_of(const void *m, const __u64 *k, size_t words, size_t cut)
{
	struct fpisa_nh s = {.last = k[0] >> 32};

	fpisa_nh_many(&s, m, k + 1, cut);
	fpisa_nh_many(&s, (const char *)m + 8 * cut, k + 1 + cut, words - cut);
	s.b += s.last * (__u32)k[1 + words];
	return s;
}

/* Check A and B against the NH of the paper. B is NH over the same bytes with 4 zero bytes before and after them. */
static void test_nh(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	static __u64 m[FPISA_NH_WORDS], k[FPISA_NH_WORDS];
	static unsigned char between[8 * FPISA_NH_WORDS];

	(void)state;
	for (size_t words = 0; words < FPISA_NH_WORDS - 1; words++) {
		struct fpisa_nh s, t;
		size_t cut = words ? vectors_below(&rng, (uint32_t)words) : 0;

		for (size_t i = 0; i < FPISA_NH_WORDS; i++) {
			m[i] = vectors_next(&rng);
			k[i] = vectors_below(&rng, 8) ? vectors_next(&rng) : ~0ull;
		}
		memset(between, 0, sizeof(between));
		memcpy(between + 4, m, 8 * words);
		s = sums_of(m, k, words, words);
		assert_int_equal(s.a, nh_of_the_paper((void *)m, (void *)(k + 1), 8 * words));
		assert_int_equal(s.b, nh_of_the_paper(between, (unsigned char *)k + 4, 8 * words + 8));
		/* Hash in two pieces, at an address that is not aligned. */
		memmove((char *)m + 1, m, 8 * words);
		t = sums_of((char *)m + 1, k, words, cut);
		assert_memory_equal(&s, &t, sizeof(s));
	}
}

static void init(struct fpisa_soft *s, uint64_t token)
{
	*s = (struct fpisa_soft){.number = SOFT_JOB,
				 .job = {.active = 1,
					 .workers = RANKS,
					 .live = (1ull << RANKS) - 1,
					 .token = token,
					 .elements = ELEMENTS,
					 .window = WINDOW,
					 .format = FPISA_FORMAT_FP32,
					 .mode = FPISA_MODE_FPISA,
					 .rounding = FPISA_ROUND_DOWN,
					 .pipeline = FPISA_PIPELINE_FUSED,
					 .fanout = FPISA_FANOUT_UNICAST}};
	list_ranks(s);
	assert_int_equal(fpisa_soft_init(s), 0);
	join(s);
}

static enum fpisa_verdict contribute(struct fpisa_soft *s, struct frame *f, uint32_t rank, uint64_t chunk)
{
	memset(f->w, 0, sizeof(f->w));
	add(f, s, rank, chunk);
	return give(s, f, rank);
}

/* Check that a frame with a tag is not accepted if any bit changes, in its own header of 76 bytes or in its payload. */
static void test_every_bit(void **state)
{
	struct fpisa_soft s;
	struct frame f;

	(void)state;
	init(&s, SOFT_TOKEN);
	memset(f.w, 0x5a, sizeof(f.w));
	add(&f, &s, 1, 0);
	for (size_t bit = 0; bit < 8 * f.len; bit++) {
		struct frame g = f;
		enum fpisa_verdict v;

		((unsigned char *)&g)[bit / 8] ^= (unsigned char)(1u << bit % 8);
		v = give(&s, &g, 1);
		/* The changed header may be one of another kind of frame, which is checked first. */
		if (bit >= 8 * sizeof(f.h))
			assert_int_equal(v, FPISA_V_tag);
		assert_true(v == FPISA_V_not_ours || fpisa_is_drop(v));
		assert_int_equal(s.slot[0].bitmap, 0);
	}
	assert_int_equal(give(&s, &f, 1), FPISA_V_accepted);
	fpisa_soft_free(&s);
}

/*
 * Check that a frame needs the token and the rank's cookie, and cannot be sent again for another chunk or incarnation.
 */
static void test_who_may_contribute(void **state)
{
	struct fpisa_soft s;
	struct fpisa_job guess, *j = &s.job;
	struct fpisa_key key;
	struct frame f, kept;

	(void)state;
	init(&s, SOFT_TOKEN);
	guess = *j;
	guess.token ^= 1;
	memset(f.w, 0, sizeof(f.w));
	/* Use another token, no tag, and a plain checksum. */
	add(&f, &s, 1, 0);
	frame_seal(&guess, &f.h, f.w, f.len - sizeof(f.h));
	assert_int_equal(give(&s, &f, 1), FPISA_V_tag);
	add(&f, &s, 1, 0);
	f.h.secret = 0;
	assert_int_equal(give(&s, &f, 1), FPISA_V_tag);
	add(&f, &s, 1, 0);
	f.h.checksum = frame_checksum(&f.h, f.w, f.len - sizeof(f.h));
	assert_int_equal(give(&s, &f, 1), FPISA_V_tag);
	/* A member that does not know rank 1's cookie uses its own key, then the key of results. */
	add(&f, &s, 1, 0);
	f.h.secret = frame_tag(j, &s.session.key[2], &f.h, f.w, f.len - sizeof(f.h));
	assert_int_equal(give(&s, &f, 1), FPISA_V_tag);
	key = s.session.results_key;
	f.h.secret = frame_tag(j, &key, &f.h, f.w, f.len - sizeof(f.h));
	assert_int_equal(give(&s, &f, 1), FPISA_V_tag);
	add(&f, &s, 1, 0);
	f.h.bitmap = s.session.secret[2];
	set_checksum(&f);
	assert_int_equal(give(&s, &f, 1), FPISA_V_secret);
	assert_true(intact(&f));
	/* Use rank 1's own frame, unchanged, and changed to another chunk. */
	memset(f.w, 0, sizeof(f.w));
	add(&kept, &s, 1, 0);
	memset(kept.w, 0, sizeof(kept.w));
	set_checksum(&kept);
	f = kept;
	assert_int_equal(give(&s, &f, 1), FPISA_V_accepted);
	f = kept;
	assert_int_equal(give(&s, &f, 1), FPISA_V_duplicate);
	f = kept;
	f.h.chunk = 1;
	f.h.slot = fpisa_slot_of(1, WINDOW);
	assert_int_equal(give(&s, &f, 1), FPISA_V_tag);
	/*
	 * In the next incarnation and generation, the answer to the old frame is an error, under the key of the old
	 * frame.
	 */
	for (int turn = 0; turn < 2; turn++)
		for (uint32_t r = 0; r < RANKS; r++) {
			hello(&s, &f, r, 1000 + r);
			assert_int_equal(give(&s, &f, r), FPISA_V_welcome);
		}
	f = kept;
	assert_int_equal(give(&s, &f, 1), FPISA_V_secret);
	assert_int_equal(f.h.type, FPISA_TYPE_ERROR);
	assert_true(intact(&f));
	f = kept;
	f.h.generation = s.session.generation;
	assert_int_equal(give(&s, &f, 1), FPISA_V_tag);
	f.h.bitmap = s.session.secret[1];
	assert_int_equal(give(&s, &f, 1), FPISA_V_tag);
	fpisa_soft_free(&s);
}

/*
 * Check that workers verify answers by their tags, that each generation has another key for results, and that WELCOME
 * proves its source.
 */
static void test_answers(void **state)
{
	struct fpisa_soft s;
	struct frame f, result;
	struct fpisa_hello *p;

	(void)state;
	init(&s, SOFT_TOKEN);
	for (uint32_t r = 0; r < RANKS; r++)
		assert_int_equal(contribute(&s, &result, r, 0), r < RANKS - 1 ? FPISA_V_accepted : FPISA_V_result);
	assert_int_equal(result.h.type, FPISA_TYPE_RESULT);
	assert_true(intact(&result));
	result.w[3] ^= 1;
	assert_false(intact(&result));
	result.w[3] ^= 1;
	result.h.generation++;
	assert_false(intact(&result));
	assert_int_equal(contribute(&s, &f, 0, 1), FPISA_V_accepted);
	add(&f, &s, 0, 1);
	f.h.flags = FPISA_F_PROBE;
	set_checksum(&f);
	assert_int_equal(give(&s, &f, 0), FPISA_V_status);
	assert_true(intact(&f));
	f.h.bitmap ^= 2;
	assert_false(intact(&f));
	hello(&s, &f, 0, 100);
	assert_int_equal(give(&s, &f, 0), FPISA_V_welcome);
	assert_true(intact(&f));
	p = (void *)f.w;
	p->results++;
	f.h.checksum = frame_checksum(&f.h, f.w, f.len - sizeof(f.h));
	assert_false(intact(&f));
	/* Send a HELLO that is correct except for a guessed token. */
	hello(&s, &f, 0, 200);
	((struct fpisa_hello *)f.w)->proof ^= 1;
	f.h.checksum = frame_checksum(&f.h, f.w, f.len - sizeof(f.h));
	assert_int_equal(give(&s, &f, 0), FPISA_V_token);
	fpisa_soft_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_siphash_vectors), cmocka_unit_test(test_nh),
		cmocka_unit_test(test_every_bit),	cmocka_unit_test(test_who_may_contribute),
		cmocka_unit_test(test_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
