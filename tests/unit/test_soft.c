/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test the in-process aggregator frame by frame: the output for each input, staged against fused on random bits, and
 * frames that no worker should send.
 */
#include <arpa/inet.h>
#include <time.h>
#include "soft_frames.h"

#define RANKS 4
#define ELEMENTS 128
#define WINDOW 4

static void init_with(struct fpisa_soft *s, uint8_t mode, uint8_t rounding, uint8_t pipeline, uint64_t token)
{
	*s = (struct fpisa_soft){
		.number = SOFT_JOB,
		.job =
			{
				.active = 1,
				.workers = RANKS,
				.live = (1ull << RANKS) - 1,
				.elements = ELEMENTS,
				.window = WINDOW,
				.format = FPISA_FORMAT_FP32,
				.mode = mode,
				.rounding = rounding,
				.pipeline = pipeline,
				.fanout = FPISA_FANOUT_UNICAST,
				.token = token,
			},
	};
	list_ranks(s);
	assert_int_equal(fpisa_soft_init(s), 0);
}

static void init(struct fpisa_soft *s, uint8_t mode, uint8_t rounding, uint8_t pipeline)
{
	init_with(s, mode, rounding, pipeline, 0);
}

static void a_round(void **state)
{
	struct fpisa_soft s;
	struct frame f, result;

	(void)state;
	init(&s, FPISA_MODE_FPISA, FPISA_ROUND_DOWN, FPISA_PIPELINE_FUSED);
	join(&s);
	for (uint32_t i = 0; i < RANKS; i++) {
		uint32_t rank = (i + 2) % RANKS;

		for (int k = 0; k < ELEMENTS; k++)
			f.w[k] = 0x3f800000; /* 1 */
		add(&f, &s, rank, 0);
		if (i == 2) {
			/*
			 * The answer to a probe names the ranks that have contributed. A repeated probe is added once.
			 */
			f.h.flags = FPISA_F_PROBE;
			set_checksum(&f);
			assert_int_equal(give(&s, &f, rank), FPISA_V_status);
			assert_int_equal(f.h.type, FPISA_TYPE_STATUS);
			assert_int_equal(f.len, sizeof(f.h));
			assert_int_equal(f.h.bitmap, 0xd);
			assert_int_equal(f.h.aux, 0xf);
			assert_int_equal(f.to, 1u << rank);
			assert_true(intact(&f));
			add(&f, &s, rank, 0);
			assert_int_equal(give(&s, &f, rank), FPISA_V_duplicate);
			assert_int_equal(f.to, 0);
			continue;
		}
		assert_int_equal(give(&s, &f, rank), i < RANKS - 1 ? FPISA_V_accepted : FPISA_V_result);
	}
	assert_int_equal(f.to, 0xf);
	assert_int_equal(f.h.type, FPISA_TYPE_RESULT);
	assert_int_equal(f.h.contributors, RANKS);
	assert_int_equal(f.h.bitmap, 0xf);
	assert_int_equal(f.h.aux, 0x1032); /* ranks 2, 3, 0, 1, from first to last */
	assert_true(intact(&f));
	for (int k = 0; k < ELEMENTS; k++)
		assert_int_equal(f.w[k], 0x40800000); /* 4 */
	result = f;
	add(&f, &s, 3, 0);
	assert_int_equal(give(&s, &f, 3), FPISA_V_resent);
	assert_int_equal(f.to, 1 << 3);
	assert_int_equal(f.h.flags, FPISA_F_RESENT);
	assert_memory_equal(f.w, result.w, ELEMENTS * 4);
	assert_int_equal(s.counters.elements, RANKS * ELEMENTS);
	assert_int_equal(s.counters.fused, RANKS);
	fpisa_soft_free(&s);
}

/* Check that a result reports a congestion mark on any contribution. */
static void marks(void **state)
{
	const struct fpisa_address at = fpisa_ipv4(htonl(10));
	struct fpisa_soft s;
	struct frame f = {0};

	(void)state;
	init(&s, FPISA_MODE_FPISA, FPISA_ROUND_DOWN, FPISA_PIPELINE_FUSED);
	join(&s);
	for (uint32_t chunk = 0; chunk <= RANKS; chunk++) {
		for (uint32_t rank = 0; rank < RANKS; rank++) {
			add(&f, &s, rank, chunk);
			fpisa_soft_frame(&s, &at, htons((uint16_t)(rank + 1)), 0, rank == chunk, &f, &f.len, &f.to);
		}
		assert_int_equal(f.h.type, FPISA_TYPE_RESULT);
		assert_true(intact(&f));
		assert_int_equal(f.h.flags, chunk < RANKS ? FPISA_F_MARKED : 0);
		assert_int_equal(f.h.result_flags & FPISA_F_MARKED, 0);
	}
	assert_int_equal(s.counters.marked, RANKS);
	fpisa_soft_free(&s);
}

/* Check that a random range of ranks gets the payload, in jobs with and without a token, and the others a header. */
static void keepers(void **state)
{
	uint64_t random = test_seed();

	(void)state;
	for (int i = 0; i < 100; i++) {
		const uint32_t first = test_random(&random) % RANKS, last = test_random(&random) % RANKS;
		struct fpisa_soft s;
		struct frame f;
		uint64_t bare, named = 0;

		init_with(&s, FPISA_MODE_FPISA, FPISA_ROUND_DOWN, FPISA_PIPELINE_FUSED, i % 2 ? SOFT_TOKEN : 0);
		join(&s);
		for (uint32_t rank = 0; rank < RANKS; rank++) {
			add(&f, &s, rank, 0);
			f.h.contributors = fpisa_keepers(first, last);
			set_checksum(&f);
			give(&s, &f, rank);
			named |= rank >= first && rank <= last ? 1ull << rank : 0;
		}
		assert_int_equal(f.h.type, FPISA_TYPE_RESULT);
		assert_int_equal(f.len, sizeof(f.h) + ELEMENTS * 4);
		assert_true(intact(&f));
		bare = fpisa_soft_bare(&s, &f, f.to);
		assert_int_equal(f.to & ~bare, named);
		assert_int_equal(fpisa_soft_bare(&s, &f, 1), bare & 1);
		fpisa_soft_cut(&s, &f, &f.len);
		assert_int_equal(f.len, sizeof(f.h));
		assert_int_equal(f.h.count, 0);
		assert_true(intact(&f));
		fpisa_soft_free(&s);
	}
}

#define REFUSED(name, reply, ...)                                     \
	do {                                                          \
		add(&f, &s, 1, 0);                                    \
		__VA_ARGS__;                                          \
		assert_int_equal(give(&s, &f, from), FPISA_V_##name); \
		assert_int_equal(f.to != 0, reply);                   \
		from = 1;                                             \
	} while (0)

static void refusals(void **state)
{
	struct fpisa_soft s;
	struct frame f = {0};
	uint32_t from = 1;

	(void)state;
	init(&s, FPISA_MODE_FPISA, FPISA_ROUND_DOWN, FPISA_PIPELINE_STAGED);
	REFUSED(secret, 1, );
	join(&s);
	REFUSED(not_ours, 0, f.h.magic++);
	REFUSED(not_ours, 0, f.len = 1);
	REFUSED(truncated, 0, f.len = sizeof(f.h) - 1);
	REFUSED(version, 0, f.h.version++);
	REFUSED(type, 0, f.h.type = FPISA_TYPE_RESULT);
	REFUSED(no_job, 0, f.h.job++);
	REFUSED(length, 0, f.len -= 4);
	REFUSED(length, 0, f.h.count = 0, f.len = sizeof(f.h));
	REFUSED(secret, 1, f.h.secret++, set_checksum(&f));
	REFUSED(secret, 1, f.h.secret = s.session.secret[0], set_checksum(&f));
	REFUSED(rank, 0, f.h.rank = RANKS);
	REFUSED(rank, 0, from = 2);
	REFUSED(unknown_peer, 0, from = RANKS);
	REFUSED(checksum, 0, f.w[5] ^= 1);
	REFUSED(checksum, 0, f.h.digest ^= 1);
	REFUSED(slot, 0, f.h.slot ^= 1, set_checksum(&f));
	REFUSED(format, 1, f.h.format = 77, set_checksum(&f));
	REFUSED(op, 1, f.h.op = 77, set_checksum(&f));
	REFUSED(generation, 1, f.h.generation++, set_checksum(&f));
	REFUSED(ahead, 1, add(&f, &s, 1, 2 * WINDOW));
	assert_int_equal(f.h.type, FPISA_TYPE_ERROR);
	assert_int_equal(f.h.reason, FPISA_V_ahead);
	assert_int_equal(f.len, sizeof(f.h));
	assert_true(intact(&f));
	/* The refused frames changed no state. */
	for (uint32_t i = 0; i < 2 * WINDOW; i++)
		assert_int_equal(s.slot[i].bitmap, 0);
	add(&f, &s, 1, 0);
	assert_int_equal(give(&s, &f, 1), FPISA_V_accepted);
	add(&f, &s, 0, 0);
	f.h.call = 1;
	set_checksum(&f);
	assert_int_equal(give(&s, &f, 0), FPISA_V_mismatch);
	assert_int_equal(f.to, 1);
	s.job.live = 0xe;
	add(&f, &s, 0, 0);
	assert_int_equal(give(&s, &f, 0), FPISA_V_not_live);
	hello(&s, &f, 0, 1000);
	assert_int_equal(give(&s, &f, 0), FPISA_V_not_live);
	assert_int_equal(f.h.type, FPISA_TYPE_ERROR);
	assert_int_equal(f.h.generation, 0);
	fpisa_soft_free(&s);
}

/* Return random bits, often specials, subnormals and distant exponents. */
static uint32_t arbitrary(uint64_t *random)
{
	uint64_t r = test_random(random);

	switch (r >> 40 & 7) {
	case 0:
		return (uint32_t)r & 0x807fffff;
	case 1:
		return (uint32_t)r | ((r >> 50 & 15) ? 0x7f000000 : 0x7f800000);
	case 2:
		return (uint32_t)r & 0x80000000;
	case 3:
		return (uint32_t)r;
	default:
		return ((uint32_t)r & 0x807fffff) | (uint32_t)(120 + (r >> 50 & 15)) << 23;
	}
}

static void staged_equals_fused(void **state)
{
	uint64_t random = test_seed();

	(void)state;
	for (int variant = 0; variant < 4; variant++) {
		uint8_t mode = variant & 1 ? FPISA_MODE_FPISA_A : FPISA_MODE_FPISA;
		uint8_t rounding = variant & 2 ? FPISA_ROUND_NEAREST : FPISA_ROUND_DOWN;
		struct fpisa_soft staged, fused;
		struct frame a = {0}, b;

		init(&staged, mode, rounding, FPISA_PIPELINE_STAGED);
		init(&fused, mode, rounding, FPISA_PIPELINE_FUSED);
		fused.job.key = staged.job.key; /* the same key makes the frames equal */
		join(&staged);
		join(&fused);
		for (uint64_t chunk = 0; chunk < 200; chunk++) {
			for (uint32_t rank = 0; rank < RANKS; rank++) {
				for (int k = 0; k < ELEMENTS; k++)
					a.w[k] = arbitrary(&random);
				add(&a, &staged, rank, chunk);
				b = a;
				assert_int_equal(give(&staged, &a, rank), give(&fused, &b, rank));
				assert_int_equal(a.len, b.len);
				assert_memory_equal(&a, &b, a.len);
			}
			assert_int_equal(a.h.type, FPISA_TYPE_RESULT);
		}
		assert_int_equal(staged.counters.rounded, fused.counters.rounded);
		assert_int_equal(staged.counters.overwritten, fused.counters.overwritten);
		assert_int_equal(staged.counters.left_shifted, fused.counters.left_shifted);
		assert_int_equal(staged.counters.overflowed, fused.counters.overflowed);
		assert_int_equal(staged.counters.mau0, 200 * RANKS);
		assert_int_equal(staged.counters.mau8, 200);
		assert_int_equal(fused.counters.mau0, 0);
		fpisa_soft_free(&staged);
		fpisa_soft_free(&fused);
	}
}

/* Check damaged frames of any length with a right checksum. No access is invalid, and replies are complete. */
static void hostile(void **state)
{
	uint64_t random = test_seed();
	struct fpisa_soft s;
	struct frame f = {0};

	(void)state;
	init(&s, FPISA_MODE_FPISA_A, FPISA_ROUND_NEAREST, FPISA_PIPELINE_FUSED);
	join(&s);
	for (int i = 0; i < 100000; i++) {
		uint32_t rank = test_random(&random) % RANKS;

		if (test_random(&random) % 8)
			add(&f, &s, rank, test_random(&random) % 32);
		else
			hello(&s, &f, rank, test_random(&random) % 200);
		for (uint64_t n = test_random(&random) % 4; n; n--)
			((unsigned char *)&f)[test_random(&random) % (sizeof(f.h) + 64)] ^=
				(unsigned char)(1 << test_random(&random) % 8);
		if (!(test_random(&random) % 4))
			f.len = test_random(&random) % (FPISA_SOFT_FRAME + 1);
		if (f.len >= sizeof(f.h) && test_random(&random) % 8)
			set_checksum(&f);
		give(&s, &f, rank);
		if (f.to)
			assert_true(intact(&f));
		for (uint32_t k = 0; k < 2 * WINDOW; k++)
			assert_int_equal(s.slot[k].lock, 0);
	}
	fpisa_soft_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_round),
		cmocka_unit_test(marks),
		cmocka_unit_test(keepers),
		cmocka_unit_test(refusals),
		cmocka_unit_test(staged_equals_fused),
		cmocka_unit_test(hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
