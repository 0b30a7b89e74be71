/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compare the arithmetic in the kernel with the oracle, bit for bit. The shared vectors run through every composition:
 * the entry program in every slot, stage programs, and fused, each with trie and with bits. Test also the paper's
 * example with its registers, and empty slots in the program array.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <linux/bpf.h>
#include "harness.h"
#include "lab/oracle/oracle.h"
#include "vectors.h"

#define ELEMENTS 256
#define CONTRIBUTIONS 5

struct composition {
	const char *name;
	uint8_t pipeline, clz;
	enum harness_stages stages;
	uint8_t flags;
};

static const struct composition compositions[] = {
	{"staged, entry in every slot, lpm", FPISA_PIPELINE_STAGED, FPISA_CLZ_LPM, HARNESS_ENTRY},
	{"staged, stage programs, lpm", FPISA_PIPELINE_STAGED, FPISA_CLZ_LPM, HARNESS_PROGRAMS},
	{"staged, stage programs, bits", FPISA_PIPELINE_STAGED, FPISA_CLZ_BITS, HARNESS_PROGRAMS},
	{"fused, lpm", FPISA_PIPELINE_FUSED, FPISA_CLZ_LPM, HARNESS_PROGRAMS},
	{"fused, bits", FPISA_PIPELINE_FUSED, FPISA_CLZ_BITS, HARNESS_PROGRAMS},
	{"fused, bits, no statistics", FPISA_PIPELINE_FUSED, FPISA_CLZ_BITS, HARNESS_PROGRAMS, FPISA_JOB_UNCOUNTED},
};

#define N_COMPOSITIONS (sizeof(compositions) / sizeof(compositions[0]))

/* Run one round with every contribution in rank order. *out is the result frame. */
static void round_of(const struct fpisa_job *j, uint32_t id, uint64_t chunk, uint32_t count, const uint32_t *in,
		     struct frame *out)
{
	for (uint32_t r = 0; r < j->workers; r++) {
		harness_add(out, harness, j, id, r, chunk, count, in + r * count);
		harness_run(harness, out);
		assert_int_equal(out->action, r + 1 < j->workers ? XDP_DROP : XDP_REDIRECT);
	}
	assert_true(harness_checksums_right(out));
	assert_int_equal(harness_hdr(out)->type, FPISA_TYPE_RESULT);
	assert_int_equal(harness_hdr(out)->count, count);
}

static void expect(const uint32_t *in, uint32_t contributions, uint32_t count, uint8_t mode, uint8_t rounding,
		   uint32_t *out, struct oracle_events *events, uint32_t *flags)
{
	uint64_t words[FPISA_MAX_WORKERS];

	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t r = 0; r < contributions; r++)
			words[r] = in[r * count + i];
		out[i] = (uint32_t)oracle_replay(FPISA_FP32, mode, rounding, contributions, words, events, flags);
	}
}

/* Check the counts of job `id` since `before`. They are the oracle's events, or all zero. */
static void check_counted(const struct composition *c, const struct fpisa_counters *before, uint32_t id,
			  const struct oracle_events *events)
{
	const struct oracle_events none = {0}, *want = c->flags & FPISA_JOB_UNCOUNTED ? &none : events;
	struct fpisa_counters after = harness_counters(harness, id);

	assert_int_equal(after.rounded - before->rounded, want->rounded);
	assert_int_equal(after.overwritten - before->overwritten, want->overwritten);
	assert_int_equal(after.left_shifted - before->left_shifted, want->left_shifted);
	assert_int_equal(after.overflowed - before->overflowed, want->overflowed);
}

static void vectors_all_compositions(void **state)
{
	static uint32_t in[CONTRIBUTIONS * ELEMENTS], want[ELEMENTS];
	const uint64_t rounds = getenv("FPISA_ROUNDS") ? strtoull(getenv("FPISA_ROUNDS"), NULL, 0) : 1024;
	uint64_t seed, cases = 0;

	(void)state;
	NEED_BPF();
	seed = vectors_seed();
	for (int config = 0; config < 4; config++) {
		uint8_t mode = config & 1 ? FPISA_MODE_FPISA_A : FPISA_MODE_FPISA;
		uint8_t rounding = config & 2 ? FPISA_ROUND_NEAREST : FPISA_ROUND_DOWN;
		struct fpisa_job jobs[N_COMPOSITIONS] = {0};
		struct oracle_events events = {0};
		uint32_t generation[N_COMPOSITIONS];

		for (size_t k = 0; k < N_COMPOSITIONS; k++) {
			jobs[k] = (struct fpisa_job){.workers = CONTRIBUTIONS,
						     .mode = mode,
						     .rounding = rounding,
						     .pipeline = compositions[k].pipeline,
						     .clz = compositions[k].clz,
						     .flags = compositions[k].flags,
						     .token = (uint64_t)config * k, /* most of these jobs have tags */
						     .slot_base = (uint32_t)k * 8};
			harness_job(harness, (uint32_t)k, &jobs[k]);
			generation[k] = harness->generation;
		}
		struct fpisa_counters before[N_COMPOSITIONS];

		for (size_t k = 0; k < N_COMPOSITIONS; k++)
			before[k] = harness_counters(harness, (uint32_t)k);

		for (uint64_t i = 0; i < rounds; i++) {
			uint32_t flags = 0;

			vectors_fill(seed, i + (uint64_t)config * rounds, CONTRIBUTIONS, ELEMENTS, in);
			expect(in, CONTRIBUTIONS, ELEMENTS, mode, rounding, want, &events, &flags);
			for (size_t k = 0; k < N_COMPOSITIONS; k++) {
				struct frame f;

				if (!k || compositions[k].stages != compositions[k - 1].stages)
					harness_stages(harness, compositions[k].stages);
				harness->generation = generation[k];
				round_of(&jobs[k], (uint32_t)k, i, ELEMENTS, in, &f);
				if (memcmp(harness_payload(&f), want, sizeof(want)) ||
				    harness_hdr(&f)->result_flags != flags) {
					for (uint32_t e = 0; e < ELEMENTS; e++)
						if (harness_payload(&f)[e] != want[e])
							print_error("element %u: %08x, oracle %08x\n", e,
								    harness_payload(&f)[e], want[e]);
					fail_msg("%s, mode %u, rounding %u, round %llu: flags %x, oracle %x",
						 compositions[k].name, mode, rounding, (unsigned long long)i,
						 harness_hdr(&f)->result_flags, flags);
				}
			}
			cases += ELEMENTS;
		}
		for (size_t k = 0; k < N_COMPOSITIONS; k++)
			check_counted(&compositions[k], &before[k], (uint32_t)k, &events);
	}
	print_message("%llu chains of %d, each through %zu compositions\n", (unsigned long long)cases, CONTRIBUTIONS,
		      N_COMPOSITIONS);
}

/* Check 3.0 + 1.0 (section 3.2, figure 4), with the registers after each packet. */
static void paper_example(void **state)
{
	uint32_t three[32], one[32];
	uint16_t e[FPISA_MAX_ELEMENTS];
	int32_t m[FPISA_MAX_ELEMENTS];
	struct fpisa_job j = {.pipeline = FPISA_PIPELINE_STAGED, .clz = FPISA_CLZ_LPM, .elements = 32};
	struct frame f;

	(void)state;
	NEED_BPF();
	for (int i = 0; i < 32; i++) {
		three[i] = 0x40400000;
		one[i] = 0x3f800000;
	}
	harness_stages(harness, HARNESS_PROGRAMS);
	harness_job(harness, 1, &j);
	harness_add(&f, harness, &j, 1, 0, 0, 32, three);
	harness_run(harness, &f);
	harness_slot(harness, 0, NULL, e, m);
	assert_int_equal(e[5], 128);
	assert_int_equal(m[5], 0xc00000);
	harness_add(&f, harness, &j, 1, 1, 0, 32, one);
	harness_run(harness, &f);
	harness_slot(harness, 0, NULL, e, m);
	assert_int_equal(e[5], 128);
	assert_int_equal(m[5], 0x1000000);
	assert_int_equal(f.action, XDP_REDIRECT);
	for (int i = 0; i < 32; i++)
		assert_int_equal(harness_payload(&f)[i], 0x40800000);
	assert_int_equal(harness_hdr(&f)->result_flags, 0);
}

/* Check every size that fits into a frame, each with different data. */
static void sizes(void **state)
{
	static uint32_t in[2 * FPISA_MAX_ELEMENTS], want[FPISA_MAX_ELEMENTS];
	uint64_t seed;

	(void)state;
	NEED_BPF();
	seed = vectors_seed();
	harness_stages(harness, HARNESS_PROGRAMS);
	for (uint32_t count = FPISA_BLOCK; count <= FPISA_MAX_ELEMENTS; count += FPISA_BLOCK) {
		for (size_t k = 0; k < N_COMPOSITIONS; k++) {
			struct fpisa_job j = {.elements = (uint16_t)count,
					      .pipeline = compositions[k].pipeline,
					      .clz = compositions[k].clz};
			uint32_t flags = 0;
			struct frame f;

			harness_job(harness, 2, &j);
			vectors_fill(seed, count, 2, (int)count, in);
			expect(in, 2, count, j.mode, j.rounding, want, NULL, &flags);
			round_of(&j, 2, 3, count, in, &f);
			assert_memory_equal(harness_payload(&f), want, count * 4);
			assert_int_equal(harness_hdr(&f)->result_flags, flags);
		}
	}
}

/*
 * Run one round with the slots `hole` and `other` of the program array empty. Results are correct, each miss is
 * counted, and stages are counted as run. After a miss at the entry the fused body runs. After a later miss the stages
 * run one by one.
 */
static void round_with_holes(uint64_t seed, enum harness_stages variant, int hole, int other)
{
	static uint32_t in[CONTRIBUTIONS * ELEMENTS], want[ELEMENTS];
	struct fpisa_job j = {.workers = CONTRIBUTIONS, .pipeline = FPISA_PIPELINE_STAGED, .clz = FPISA_CLZ_LPM};
	struct fpisa_counters a, b;
	const bool fused = hole == 0, read_fused = fused && other == 5;
	uint64_t missed = 0;
	uint32_t flags = 0;
	struct frame f;

	harness_stages(harness, variant);
	harness_job(harness, 3, &j);
	harness_hole(harness, 0, hole);
	if (other != hole)
		harness_hole(harness, 0, other);
	for (int k = 0; k < FPISA_STAGES; k++) {
		/* MAU1..4 do not run after the fused body. */
		if ((k == hole || k == other) && !(fused && k > 0 && k < 5))
			missed += k < 5 ? CONTRIBUTIONS : 1;
	}
	a = harness_counters(harness, 3);
	vectors_fill(seed, (uint64_t)(hole * FPISA_STAGES + other), CONTRIBUTIONS, ELEMENTS, in);
	expect(in, CONTRIBUTIONS, ELEMENTS, j.mode, j.rounding, want, NULL, &flags);
	round_of(&j, 3, 0, ELEMENTS, in, &f);
	assert_memory_equal(harness_payload(&f), want, sizeof(want));
	b = harness_counters(harness, 3);
	assert_int_equal(b.missed_tail_calls - a.missed_tail_calls, missed);
	assert_int_equal(b.fused - a.fused, fused ? CONTRIBUTIONS : 0);
	assert_int_equal(b.mau4 - a.mau4, fused ? 0 : CONTRIBUTIONS);
	assert_int_equal(b.fused_reads - a.fused_reads, read_fused);
	assert_int_equal(b.mau8 - a.mau8, !read_fused);
	assert_int_equal(b.v_pipeline - a.v_pipeline, 0);
}

/* Empty each slot, and each pair of slots, in turn, with the entry program or the stage programs in the other slots. */
static void holes(void **state)
{
	uint64_t seed;

	(void)state;
	NEED_BPF();
	seed = vectors_seed();
	for (int variant = HARNESS_ENTRY; variant <= HARNESS_PROGRAMS; variant++)
		for (int hole = 0; hole < FPISA_STAGES; hole++)
			for (int other = hole; other < FPISA_STAGES; other++)
				round_with_holes(seed, variant, hole, other);
}

/* Check that the frame came back to its sender as an ERROR with reason `pipeline`. */
static void assert_lost(const struct fpisa_counters *before, struct frame *f)
{
	struct fpisa_counters after = harness_counters(harness, 5);

	assert_int_equal(f->action, XDP_REDIRECT);
	assert_int_equal(harness_hdr(f)->type, FPISA_TYPE_ERROR);
	assert_int_equal(harness_hdr(f)->reason, FPISA_V_pipeline);
	assert_int_equal(f->len, FPISA_PAYLOAD_OFFSET);
	assert_true(harness_checksums_right(f));
	assert_int_equal(after.v_pipeline - before->v_pipeline, 1);
	assert_int_equal(after.v_result - before->v_result, 0);
}

/*
 * Check an empty slot whose substitute is missing too. No sum is computed, every rank gets an ERROR, even after the
 * programs are back, and the slot is unlocked. In the next generation sums are correct.
 */
static void round_lost_at(uint64_t seed, int hole)
{
	static uint32_t in[CONTRIBUTIONS * ELEMENTS], want[ELEMENTS];
	struct fpisa_job j = {.workers = CONTRIBUTIONS, .pipeline = FPISA_PIPELINE_STAGED, .clz = FPISA_CLZ_LPM};
	const uint32_t lost = hole < 5 ? 1 : CONTRIBUTIONS - 1; /* rank whose contribution is lost */
	struct fpisa_counters before;
	struct fpisa_slot slot;
	uint32_t flags = 0;
	struct frame f;

	harness_job(harness, 5, &j);
	harness_stages(harness, HARNESS_PROGRAMS);
	vectors_fill(seed, (uint64_t)hole, CONTRIBUTIONS, ELEMENTS, in);
	for (uint32_t r = 0; r < lost; r++) {
		harness_add(&f, harness, &j, 5, r, 0, ELEMENTS, in + r * ELEMENTS);
		harness_run(harness, &f);
		assert_int_equal(f.action, XDP_DROP);
	}
	harness_hole(harness, 0, hole);
	harness_hole(harness, 0, FPISA_ADMISSION);
	before = harness_counters(harness, 5);
	harness_add(&f, harness, &j, 5, lost, 0, ELEMENTS, in + lost * ELEMENTS);
	harness_run(harness, &f);
	assert_lost(&before, &f);
	harness_slot(harness, j.slot_base, &slot, NULL, NULL);
	assert_int_equal(slot.lock, 0);
	assert_int_equal(slot.done, 0);
	harness_stages(harness, HARNESS_PROGRAMS);
	for (uint32_t r = 0; r < CONTRIBUTIONS; r++) {
		before = harness_counters(harness, 5);
		harness_add(&f, harness, &j, 5, r, 0, ELEMENTS, in + r * ELEMENTS);
		harness_run(harness, &f);
		assert_lost(&before, &f);
		/* Send another chunk of the window, which was complete before. */
		before = harness_counters(harness, 5);
		harness_add(&f, harness, &j, 5, r, 1, ELEMENTS, in + r * ELEMENTS);
		harness_run(harness, &f);
		assert_lost(&before, &f);
	}
	harness_job(harness, 5, &j);
	expect(in, CONTRIBUTIONS, ELEMENTS, j.mode, j.rounding, want, NULL, &flags);
	round_of(&j, 5, 0, ELEMENTS, in, &f);
	assert_memory_equal(harness_payload(&f), want, sizeof(want));
}

static void rounds_lost(void **state)
{
	uint64_t seed;

	(void)state;
	NEED_BPF();
	seed = vectors_seed();
	for (int hole = 1; hole < FPISA_STAGES; hole++)
		round_lost_at(seed, hole);
}

/* Check that in a second family the admission program replaces each missing stage, and each pair of missing stages. */
static void holes_of_a_family(void **state)
{
	static uint32_t in[CONTRIBUTIONS * ELEMENTS];
	struct fpisa_job j = {.workers = CONTRIBUTIONS, .pipeline = FPISA_PIPELINE_STAGED, .mode = FPISA_MODE_FPISA64};
	struct frame whole, f;

	(void)state;
	NEED_BPF();
	vectors_fill(vectors_seed(), 0, CONTRIBUTIONS, ELEMENTS, in);
	harness_job(harness, 6, &j);
	assert_int_not_equal(j.family, 0);
	round_of(&j, 6, 0, ELEMENTS, in, &whole);
	for (int i = 0; i < FPISA_STAGES * FPISA_STAGES; i++) {
		const int hole = i / FPISA_STAGES, other = i % FPISA_STAGES;
		struct fpisa_counters a, b;
		uint64_t missed = 0;

		if (other < hole)
			continue;
		/* MAU1..4 do not run after the fused body. */
		for (int k = 0; k < FPISA_STAGES; k++)
			if ((k == hole || k == other) && !(hole == 0 && k > 0 && k < 5))
				missed += k < 5 ? CONTRIBUTIONS : 1;
		harness_job(harness, 6, &j);
		harness_fill(harness, j.family);
		harness_hole(harness, j.family, hole);
		if (other != hole)
			harness_hole(harness, j.family, other);
		a = harness_counters(harness, 6);
		round_of(&j, 6, 0, ELEMENTS, in, &f);
		b = harness_counters(harness, 6);
		assert_memory_equal(harness_payload(&f), harness_payload(&whole), ELEMENTS * 4);
		assert_int_equal(harness_hdr(&f)->result_flags, harness_hdr(&whole)->result_flags);
		assert_int_equal(b.missed_tail_calls - a.missed_tail_calls, missed);
	}
	harness_fill(harness, j.family);
}

/* Check the counts with a full program array. MAU0..4 count contributions, and MAU5..8 count results. */
static void stage_counters(void **state)
{
	static uint32_t in[CONTRIBUTIONS * ELEMENTS];
	struct fpisa_job j = {.workers = CONTRIBUTIONS, .pipeline = FPISA_PIPELINE_STAGED, .clz = FPISA_CLZ_LPM};
	struct fpisa_counters a, b;
	struct frame f;

	(void)state;
	NEED_BPF();
	harness_stages(harness, HARNESS_PROGRAMS);
	harness_job(harness, 4, &j);
	a = harness_counters(harness, 4);
	for (uint64_t chunk = 0; chunk < 7; chunk++)
		round_of(&j, 4, chunk, ELEMENTS, in, &f);
	b = harness_counters(harness, 4);
	for (int k = 0; k < FPISA_STAGES; k++)
		assert_int_equal((&b.mau0)[k] - (&a.mau0)[k], k < 5 ? 7 * CONTRIBUTIONS : 7);
	assert_int_equal(b.missed_tail_calls - a.missed_tail_calls, 0);
	assert_int_equal(b.fused - a.fused, 0);
	assert_int_equal(b.elements - a.elements, 7 * CONTRIBUTIONS * ELEMENTS);
	assert_int_equal(b.v_result - a.v_result, 7);
	assert_int_equal(b.v_accepted - a.v_accepted, 7 * (CONTRIBUTIONS - 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vectors_all_compositions),
		cmocka_unit_test(paper_example),
		cmocka_unit_test(sizes),
		cmocka_unit_test(holes),
		cmocka_unit_test(holes_of_a_family),
		cmocka_unit_test(rounds_lost),
		cmocka_unit_test(stage_counters),
	};

	return cmocka_run_group_tests_name("prog/pipeline", tests, harness_setup, harness_teardown);
}
