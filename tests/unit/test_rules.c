// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test the rules of a slot's rounds (slot.h), one by one. Sessions are in test_session.c, and CPUs that run the rules
 * at the same time in test_generation_races.c. tests/model explores how the rules act together.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "contribution.h"

static struct fpisa_claim a_claim(__u64 chunk, __u16 rank)
{
	struct fpisa_job job = a_job();
	struct fpisa_hdr h = an_add();

	h.chunk = chunk;
	h.rank = rank;
	return fpisa_claim_of(&h, &job);
}

static int admit(struct fpisa_slot *s, __u64 chunk, __u16 rank, __u64 live)
{
	struct fpisa_claim c = a_claim(chunk, rank);

	return fpisa_slot_admit(s, &c, live, 0);
}

/* Return the slot in the middle of chunk 6's round, after rank 2 and then rank 0 have contributed. */
static struct fpisa_slot an_open_round(void)
{
	struct fpisa_slot s = {0};

	assert_int_equal(admit(&s, 6, 2, 7), FPISA_STEP_SET);
	assert_false(fpisa_slot_commit(&s, 2, 7, 0));
	assert_int_equal(admit(&s, 6, 0, 7), FPISA_STEP_ADD);
	assert_false(fpisa_slot_commit(&s, 0, 7, FPISA_INEXACT));
	return s;
}

static struct fpisa_slot a_done_round(void)
{
	struct fpisa_slot s = an_open_round();

	assert_int_equal(admit(&s, 6, 1, 7), FPISA_STEP_ADD);
	assert_true(fpisa_slot_commit(&s, 1, 7, FPISA_OVERWRITE));
	s.done = 1;
	return s;
}

static void test_round(void **state)
{
	struct fpisa_slot s = an_open_round();

	(void)state;
	assert_int_equal(s.generation, 9);
	assert_int_equal(s.chunk, 6);
	assert_int_equal(s.digest, 1000);
	assert_int_equal(s.call, 2);
	assert_int_equal(s.count, 64);
	assert_int_equal(s.op, FPISA_OP_SUM);
	assert_int_equal(s.bitmap, 5);
	assert_int_equal(s.arrivals, 2);
	assert_int_equal(s.order, 0x001);
	assert_int_equal(s.flags, FPISA_INEXACT);
	s = a_done_round();
	assert_int_equal(s.bitmap, 7);
	assert_int_equal(s.arrivals, 3);
	assert_int_equal(s.order, 0x021); /* rank 2 came first, rank 0 second, rank 1 third */
	assert_int_equal(s.flags, FPISA_INEXACT | FPISA_OVERWRITE);
}

static int admit_with(struct fpisa_slot *s, __u64 chunk, __u16 rank, __u16 keepers)
{
	struct fpisa_claim c = a_claim(chunk, rank);

	c.keepers = keepers;
	return fpisa_slot_admit(s, &c, 7, 0);
}

/* Check that all ranks keep a result if contributions, or a later request for the result, name different keepers. */
static void test_keepers(void **state)
{
	struct fpisa_slot s = {0};

	(void)state;
	for (__u16 rank = 0; rank < 3; rank++) {
		admit_with(&s, 6, rank, fpisa_keepers(1, 2));
		assert_int_equal(fpisa_slot_commit(&s, rank, 7, 0), rank == 2);
		assert_int_equal(s.keepers, fpisa_keepers(1, 2));
	}
	s.done = 1;
	assert_int_equal(admit_with(&s, 6, 1, fpisa_keepers(1, 2)), FPISA_STEP_RESEND);
	assert_int_equal(s.keepers, fpisa_keepers(1, 2));
	assert_int_equal(admit_with(&s, 6, 0, 0), FPISA_STEP_RESEND);
	assert_int_equal(s.keepers, 0);
	assert_int_equal(admit_with(&s, 6 + 2 * WINDOW, 0, fpisa_keepers(0, 0)), FPISA_STEP_SET);
	assert_int_equal(s.keepers, fpisa_keepers(0, 0));
	assert_false(fpisa_slot_commit(&s, 0, 7, 0));
	assert_int_equal(admit_with(&s, 6 + 2 * WINDOW, 1, fpisa_keepers(0, 1)), FPISA_STEP_ADD);
	assert_int_equal(s.keepers, 0);
}

/* Check the values that name keepers, and that those of a leaf's ADD do not. */
static void test_names_of_keepers(void **state)
{
	struct fpisa_job job = a_job();
	struct fpisa_hdr h = an_add();

	(void)state;
	for (__u32 value = 0; value <= 0xffff; value++) {
		const __u32 first = value & 63, last = value >> 6 & 63;
		const int names = value >> 12 == 8;

		h.contributors = (__u16)value;
		assert_int_equal(fpisa_claim_of(&h, &job).keepers, names ? value : 0);
		for (__u32 rank = 0; rank < FPISA_MAX_WORKERS; rank += 7)
			assert_int_equal(fpisa_keeps((__u16)value, rank), !names || (first <= rank && rank <= last));
	}
	job.flags = FPISA_JOB_LEAVES;
	h.contributors = fpisa_keepers(0, 1);
	assert_int_equal(fpisa_claim_of(&h, &job).keepers, 0);
}

/* Check rule 1: an entry of another generation is empty, and accepts only its first chunk. */
static void test_generation_starts_at_first_chunk(void **state)
{
	struct fpisa_slot s = a_done_round();

	(void)state;
	s.generation = 8;
	assert_int_equal(admit(&s, 6 + 2 * WINDOW, 0, 7), -FPISA_V_ahead);
	assert_int_equal(s.generation, 8);
	assert_int_equal(s.bitmap, 7);
	assert_int_equal(admit(&s, 6, 0, 7), FPISA_STEP_SET);
	assert_int_equal(s.generation, 9);
	assert_int_equal(s.bitmap | s.order | s.arrivals | s.flags | s.done, 0);
	s.generation = 10;
	assert_int_equal(admit(&s, 2 * WINDOW, 0, 7), -FPISA_V_ahead);
	assert_int_equal(admit(&s, 2 * WINDOW - 1, 0, 7), FPISA_STEP_SET);
}

/* Check rule 2. */
static void test_stale_and_ahead(void **state)
{
	struct fpisa_slot s = a_done_round(), before;

	(void)state;
	assert_int_equal(admit(&s, 6 + 2 * WINDOW, 1, 7), FPISA_STEP_SET);
	assert_int_equal(s.chunk, 6 + 2 * WINDOW);
	assert_int_equal(s.bitmap | s.order | s.arrivals | s.flags | s.done, 0);
	assert_false(fpisa_slot_commit(&s, 1, 7, 0));
	before = s;
	assert_int_equal(admit(&s, 6, 0, 7), -FPISA_V_stale);
	assert_int_equal(admit(&s, 6 + 4 * WINDOW, 1, 7), -FPISA_V_ahead); /* the round is not done */
	s.done = before.done = 1;
	assert_int_equal(admit(&s, 6 + 6 * WINDOW, 1, 7), -FPISA_V_ahead); /* this skips a round */
	assert_int_equal(admit(&s, 6 + 3 * WINDOW, 1, 7), -FPISA_V_ahead); /* this chunk belongs to the other version */
	assert_int_equal(admit(&s, 0, 1, 7), -FPISA_V_stale);
	assert_memory_equal(&s, &before, sizeof(s));
}

/* Check rule 3: a contribution that differs from the round does not change the slot. */
static void test_mismatch(void **state)
{
	struct fpisa_slot s = an_open_round(), before = s;
	struct fpisa_claim c;

	(void)state;
#define DIFFER(field)                                                                \
	do {                                                                         \
		c = a_claim(6, 1);                                                   \
		c.field++;                                                           \
		assert_int_equal(fpisa_slot_admit(&s, &c, 7, 0), -FPISA_V_mismatch); \
		assert_memory_equal(&s, &before, sizeof(s));                         \
	} while (0)
	DIFFER(count);
	DIFFER(op);
	DIFFER(call);
	DIFFER(digest);
	s.done = before.done = 1;
	DIFFER(call);
#undef DIFFER
}

/* Check ranks that made different calls. No round begins or continues, but finished results are still available. */
static void test_broken(void **state)
{
	struct fpisa_slot s = an_open_round(), before = s;
	struct fpisa_claim c = a_claim(6, 1);

	(void)state;
	assert_int_equal(fpisa_slot_admit(&s, &c, 7, FPISA_V_mismatch), -FPISA_V_mismatch);
	c.rank = 2;
	assert_int_equal(fpisa_slot_admit(&s, &c, 7, FPISA_V_mismatch), -FPISA_V_mismatch);
	assert_int_equal(fpisa_slot_admit(&s, &c, 5, FPISA_V_mismatch), -FPISA_V_mismatch);
	assert_memory_equal(&s, &before, sizeof(s));
	s = before = a_done_round();
	assert_int_equal(fpisa_slot_admit(&s, &c, 7, FPISA_V_mismatch), FPISA_STEP_RESEND);
	c = a_claim(6 + 2 * WINDOW, 1);
	assert_int_equal(fpisa_slot_admit(&s, &c, 7, FPISA_V_mismatch), -FPISA_V_mismatch);
	assert_memory_equal(&s, &before, sizeof(s));
}

/*
 * Check that the generation is compared first, and that a mismatch breaks the running generation, once, for all its
 * ranks.
 */
static void test_admit(void **state)
{
	struct fpisa_session session = {.generation = 9, .results = 77};
	struct fpisa_slot s = an_open_round(), before = s;
	struct fpisa_claim c = a_claim(6, 1);
	__u64 results;

	(void)state;
	session.generation = 10;
	assert_int_equal(fpisa_admit(&session, &s, &c, 7, &results), -FPISA_V_generation);
	c.generation = session.generation = 0;
	assert_int_equal(fpisa_admit(&session, &s, &c, 7, &results), -FPISA_V_generation);
	assert_memory_equal(&s, &before, sizeof(s));
	c.generation = session.generation = 9;
	assert_int_equal(fpisa_admit(&session, &s, &c, 7, &results), FPISA_STEP_ADD);
	assert_int_equal(results, 77);
	c.digest++;
	assert_int_equal(fpisa_admit(&session, &s, &c, 7, &results), -FPISA_V_mismatch);
	assert_int_equal(fpisa_broken(&session, 9), FPISA_V_mismatch);
	assert_int_equal(fpisa_broken(&session, 10), 0);
	c = a_claim(6, 2);
	assert_int_equal(fpisa_admit(&session, &s, &c, 7, &results), -FPISA_V_mismatch);
	assert_memory_equal(&s, &before, sizeof(s));
	/* All ranks get the first reason. */
	fpisa_break(&session, 9, FPISA_V_pipeline);
	assert_int_equal(fpisa_admit(&session, &s, &c, 7, &results), -FPISA_V_mismatch);
	c = a_claim(6, 0);
	assert_int_equal(fpisa_admit(&session, &s, &c, 5, &results), -FPISA_V_mismatch);
	assert_memory_equal(&s, &before, sizeof(s));
	/* The next generation is not broken. */
	session.generation = c.generation = 10;
	c.chunk = 2;
	assert_int_equal(fpisa_admit(&session, &s, &c, 7, &results), FPISA_STEP_SET);
	/* A late CPU of the previous generation does not remove a mark. */
	fpisa_break(&session, 10, FPISA_V_mismatch);
	fpisa_break(&session, 9, FPISA_V_pipeline);
	assert_int_equal(fpisa_broken(&session, 10), FPISA_V_mismatch);
	/* Ranks get each possible reason. */
	session.generation = c.generation = 11;
	fpisa_break(&session, 11, FPISA_V_pipeline);
	assert_int_equal(fpisa_admit(&session, &s, &c, 7, &results), -FPISA_V_pipeline);
}

/* Check rules 4 and 5. */
static void test_duplicates(void **state)
{
	struct fpisa_slot s = an_open_round(), before = s;

	(void)state;
	assert_int_equal(admit(&s, 6, 2, 7), FPISA_STEP_WAIT);
	assert_int_equal(admit(&s, 6, 0, 7), FPISA_STEP_WAIT);
	assert_int_equal(admit(&s, 6, 0, 5), FPISA_STEP_FINISH); /* rank 1 was removed */
	assert_memory_equal(&s, &before, sizeof(s));
	s = before = a_done_round();
	for (__u16 rank = 0; rank < WORKERS; rank++)
		assert_int_equal(admit(&s, 6, rank, 7), FPISA_STEP_RESEND);
	assert_memory_equal(&s, &before, sizeof(s));
}

/*
 * Check a rank that is removed in the middle of a round. The round completes without it, and its contributions stay in
 * the sum.
 */
static void test_shrink(void **state)
{
	struct fpisa_slot s = an_open_round();

	(void)state;
	assert_int_equal(admit(&s, 6, 1, 3), FPISA_STEP_ADD);
	assert_true(fpisa_slot_commit(&s, 1, 3, 0));
	assert_int_equal(s.bitmap, 7);
	assert_int_equal(s.arrivals, 3);
	s.done = 1;
	assert_int_equal(admit(&s, 6, 0, 3), FPISA_STEP_RESEND);

	/* The round completed without rank 1, and later frames of rank 1 do not reopen it. */
	s = an_open_round();
	s.done = 1;
	assert_int_equal(admit(&s, 6, 1, 7), FPISA_STEP_RESEND);
}

/*
 * Check that a first contribution that was admitted and never committed leaves the round open for the next first
 * contribution.
 */
static void test_uncommitted_first(void **state)
{
	struct fpisa_slot s = {0};

	(void)state;
	assert_int_equal(admit(&s, 6, 0, 7), FPISA_STEP_SET);
	assert_int_equal(admit(&s, 6, 1, 7), FPISA_STEP_SET);
	assert_false(fpisa_slot_commit(&s, 1, 7, 0));
	assert_int_equal(admit(&s, 6, 0, 7), FPISA_STEP_ADD);
}

/* Check that results have the positions of the first 16 ranks, four bits each, and that the bitmap has all 64. */
static void test_order(void **state)
{
	struct fpisa_slot s = {0};

	(void)state;
	for (int i = 0; i < 16; i++)
		assert_int_equal(fpisa_slot_commit(&s, (__u16)(15 - i), 0xffff, 0), i == 15);
	assert_int_equal(s.order, 0x0123456789abcdef);
	for (int i = 16; i < 64; i++)
		assert_int_equal(fpisa_slot_commit(&s, (__u16)i, ~0ull, 0), i == 63);
	assert_int_equal(s.order, 0x0123456789abcdef);
	assert_int_equal(s.bitmap, ~0ull);
	assert_int_equal(s.arrivals, 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round),
		cmocka_unit_test(test_keepers),
		cmocka_unit_test(test_names_of_keepers),
		cmocka_unit_test(test_generation_starts_at_first_chunk),
		cmocka_unit_test(test_stale_and_ahead),
		cmocka_unit_test(test_mismatch),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_admit),
		cmocka_unit_test(test_duplicates),
		cmocka_unit_test(test_shrink),
		cmocka_unit_test(test_uncommitted_first),
		cmocka_unit_test(test_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
