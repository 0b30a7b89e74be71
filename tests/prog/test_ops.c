/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compare the kernel's staged and fused programs and user space with the oracle, bit for bit, in every format x mode x
 * operation. Results, flags and counts must agree.
 * 	test_ops [--long] [FORMAT...]
 * Each combination has 100000 random cases, or FPISA_CASES. With --long it has 10^7, except in small formats. There it
 * has 100000 random cases and all pairs of words in the 8-bit formats, or all pairs of a stratified sample in the
 * 16-bit formats. --long also prints a line for each combination.
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
#include "cases.h"
#include "harness.h"
#include "lib/soft/blocks.h"

#define JOB 9

enum executor { KERNEL_FUSED, KERNEL_STAGED, USER_FUSED, USER_STAGED, EXECUTORS };

static const char *const executors[] = {"kernel, fused", "kernel, staged", "user space, fused", "user space, staged"};

struct outcome {
	uint8_t payload[FPISA_MAX_PAYLOAD + FPISA_SCALES];
	uint32_t flags;
	struct oracle_events events;
};

struct run {
	struct cases_call call;
	struct fpisa_job job[EXECUTORS];
	uint32_t generation[EXECUTORS];
	uint64_t chunk, cases;
};

static struct fpisa_job job_of(const struct cases_call *c, enum executor x, uint8_t flags)
{
	bool fused = x == KERNEL_FUSED || x == USER_FUSED;

	return (struct fpisa_job){
		.workers = c->workers,
		.elements = (uint16_t)fpisa_max_elements(fpisa_format_of(c->format), c->mode),
		.format = c->format,
		.mode = c->mode,
		.rounding = c->rounding,
		.pipeline = fused ? FPISA_PIPELINE_FUSED : FPISA_PIPELINE_STAGED,
		.clz = fused ? FPISA_CLZ_BITS : FPISA_CLZ_LPM,
		.guard = fpisa_register(c->format, (enum fpisa_mode)c->mode, c->workers).guard,
		.flags = (uint8_t)((c->reciprocal ? FPISA_JOB_RECIPROCAL : 0) | flags),
	};
}

static uint64_t operand_of(const struct cases_call *c)
{
	uint64_t bits = 0;

	if (c->op == FPISA_OP_SCALE)
		memcpy(&bits, &c->factor, sizeof(bits));
	return bits;
}

/* Reverse the bytes of every value. */
static void reverse(uint8_t *p, uint32_t n, uint8_t bytes)
{
	for (uint32_t i = 0; i < n; i++, p += bytes) {
		for (uint8_t k = 0; k < bytes / 2; k++) {
			uint8_t swap = p[k];

			p[k] = p[bytes - 1 - k];
			p[bytes - 1 - k] = swap;
		}
	}
}

/* Send the contributions and read the result through BPF_PROG_TEST_RUN. */
static void in_kernel(struct run *run, enum executor x, const struct cases_round *r, struct outcome *o)
{
	struct fpisa_job *j = &run->job[x];
	struct fpisa_format f = fpisa_format_of(j->format);
	bool swapped = j->flags & FPISA_JOB_BIG_ENDIAN;
	struct fpisa_counters a = harness_counters(harness, JOB + x), b;
	struct frame fr;

	for (uint32_t k = 0; k < j->workers; k++) {
		uint8_t in[sizeof(r->in[k])];

		memcpy(in, r->in[k], sizeof(in));
		if (swapped)
			reverse(in, r->elements, f.bytes);
		harness_add(&fr, harness, j, JOB + x, k, run->chunk, r->elements, in);
		harness_hdr(&fr)->generation = run->generation[x];
		harness_hdr(&fr)->op = run->call.op;
		harness_hdr(&fr)->aux = operand_of(&run->call);
		harness_set_checksums(&fr);
		harness_run(harness, &fr);
		if (fr.action != (k + 1 < j->workers ? XDP_DROP : XDP_REDIRECT))
			fail_msg("contribution %u of %u: action %d", k, j->workers, fr.action);
	}
	assert_true(harness_checksums_right(&fr));
	b = harness_counters(harness, JOB + x);
	memcpy(o->payload, harness_payload(&fr), fpisa_payload_bytes(f, r->elements));
	if (swapped)
		reverse(o->payload, r->elements, f.bytes);
	o->flags = harness_hdr(&fr)->result_flags;
	o->events = (struct oracle_events){b.rounded - a.rounded, b.overwritten - a.overwritten,
					   b.left_shifted - a.left_shifted, b.overflowed - a.overflowed};
}

static void in_user_space(struct run *run, enum executor x, const struct cases_round *r, struct outcome *o)
{
	static struct fpisa_exp_block exponents[FPISA_MAX_BLOCKS];
	static union {
		struct fpisa_limbs_block limbs[FPISA_MAX_BLOCKS];
		struct fpisa_limbs64_block limbs64[FPISA_MAX_EXACT64_BLOCKS];
	} mantissas;
	const struct fpisa_soft_registers registers = {exponents, &mantissas};
	const struct fpisa_job *j = &run->job[x];
	struct fpisa_format f = fpisa_job_format(j);
	struct fpisa_final fin =
		fpisa_final_of(f, run->call.op, operand_of(&run->call), j->workers, j->flags & FPISA_JOB_RECIPROCAL);

	memset(o, 0, sizeof(*o));
	for (uint32_t k = 0; k < j->workers; k++) {
		uint8_t in[sizeof(r->in[k])] __attribute__((aligned(8)));
		uint64_t events;

		memcpy(in, r->in[k], sizeof(in));
		events = fpisa_soft_add(j, run->call.op, in, registers, r->elements / FPISA_BLOCK, !k);
		o->flags |= fpisa_event_flags(events);
		o->events.rounded += fpisa_event_count(events, FPISA_EV_ROUNDED);
		o->events.overwritten += fpisa_event_count(events, FPISA_EV_OVERWRITTEN);
		o->events.left_shifted += fpisa_event_count(events, FPISA_EV_LEFT_SHIFTED);
		o->events.overflowed += fpisa_event_count(events, FPISA_EV_OVERFLOWED);
	}
	o->flags |= fpisa_soft_read(j, &fin, o->payload, registers, r->elements / FPISA_BLOCK);
}

static void complain(const struct run *run, enum executor x, const struct cases_round *r, const struct outcome *o)
{
	const struct cases_call *c = &run->call;
	uint32_t size = fpisa_payload_bytes(fpisa_format_of(c->format), r->elements), at = 0;
	char name[32];

	while (at < size && o->payload[at] == r->want[at])
		at++;
	print_error("%s %s, %s: %u workers, rounding %u, factor %.17g%s: flags %x, oracle %x\n",
		    cases_format(c->format), cases_name(c, name), executors[x], c->workers, c->rounding, c->factor,
		    c->reciprocal ? ", reciprocal" : "", o->flags, r->flags);
	print_error("counts %llu %llu %llu %llu, oracle %llu %llu %llu %llu\n", (unsigned long long)o->events.rounded,
		    (unsigned long long)o->events.overwritten, (unsigned long long)o->events.left_shifted,
		    (unsigned long long)o->events.overflowed, (unsigned long long)r->events.rounded,
		    (unsigned long long)r->events.overwritten, (unsigned long long)r->events.left_shifted,
		    (unsigned long long)r->events.overflowed);
	if (at < size) {
		uint8_t bytes = fpisa_format_of(c->format).bytes;
		uint64_t got = 0, want = 0;

		at -= at % bytes;
		memcpy(&got, o->payload + at, bytes);
		memcpy(&want, r->want + at, bytes);
		print_error("at byte %u: %llx, oracle %llx, of", at, (unsigned long long)got, (unsigned long long)want);
		for (uint32_t k = 0; k < c->workers; k++) {
			memcpy(&got, r->in[k] + at, bytes);
			print_error(" %llx", (unsigned long long)got);
		}
		print_error("\n");
	}
	fail();
}

static void check_round(struct run *run, const struct cases_round *r)
{
	uint32_t size = fpisa_payload_bytes(fpisa_format_of(run->call.format), r->elements);

	for (enum executor x = 0; x < EXECUTORS; x++) {
		const struct oracle_events none = {0},
					   *want = run->job[x].flags & FPISA_JOB_UNCOUNTED ? &none : &r->events;
		struct outcome o;

		if (x == KERNEL_FUSED || x == KERNEL_STAGED)
			in_kernel(run, x, r, &o);
		else
			in_user_space(run, x, r, &o);
		if (memcmp(o.payload, r->want, size) || o.flags != r->flags || memcmp(&o.events, want, sizeof(o.events)))
			complain(run, x, r, &o);
	}
	run->chunk++;
	run->cases += r->elements;
}

/* Create the jobs of the call. The kernel's jobs get these flags. Every run starts a generation. */
static void begin(struct run *run, uint8_t flags)
{
	if (fpisa_format_of(run->call.format).bytes == 1)
		flags &= (uint8_t)~FPISA_JOB_BIG_ENDIAN;
	run->chunk = 0;
	for (enum executor x = 0; x < EXECUTORS; x++) {
		bool kernel = x == KERNEL_FUSED || x == KERNEL_STAGED;

		run->job[x] = job_of(&run->call, x, kernel ? flags : 0);
		run->job[x].slot_base = 16 * x;
		if (kernel)
			harness_job(harness, JOB + x, &run->job[x]);
		run->generation[x] = harness->generation;
	}
}

/* Run one combination on `cases` random cases, with a new random choice of the open parameters every 16 rounds. */
static void run_random(struct run *run, struct vectors_rng *rng, uint64_t cases)
{
	uint32_t elements = fpisa_max_elements(fpisa_format_of(run->call.format), run->call.mode);
	struct cases_round r;

	for (uint64_t n = 0; n < cases;) {
		cases_choose(rng, &run->call);
		begin(run, (uint8_t)((vectors_below(rng, 4) ? 0 : FPISA_JOB_BIG_ENDIAN) |
				     (vectors_below(rng, 4) ? 0 : FPISA_JOB_UNCOUNTED)));
		for (int i = 0; i < 16 && n < cases; i++, n += elements) {
			cases_random(rng, &run->call, elements, &r);
			check_round(run, &r);
		}
	}
}

/* Check the flags with rounds of one element, because a frame of random elements always raises INEXACT. */
#define SPARSE 64
#define SPARSE_ELEMENTS 64

static void run_sparse(struct run *run, struct vectors_rng *rng)
{
	struct cases_round r;

	for (int n = 0; n < SPARSE; n++) {
		if (n % 8 == 0) {
			cases_choose(rng, &run->call);
			begin(run, vectors_below(rng, 2) ? 0 : FPISA_JOB_UNCOUNTED);
		}
		cases_sparse(rng, &run->call, SPARSE_ELEMENTS, &r);
		check_round(run, &r);
	}
}

static void run_pairs(struct run *run, struct vectors_rng *rng)
{
	uint64_t pairs = cases_pairs(run->call.format);
	uint32_t elements = fpisa_max_elements(fpisa_format_of(run->call.format), run->call.mode);
	struct cases_round r;

	for (int rounding = FPISA_ROUND_DOWN; rounding <= FPISA_ROUND_NEAREST; rounding++) {
		cases_choose(rng, &run->call);
		run->call.rounding = (uint8_t)rounding;
		run->call.workers = 2;
		begin(run, 0);
		for (uint64_t first = 0; first < pairs; first += elements) {
			cases_pair_round(&run->call, first, elements, &r);
			check_round(run, &r);
		}
	}
}

static bool thorough;
static char **chosen; /* chosen formats; empty: all formats */

static bool is_chosen(uint8_t format)
{
	bool found = !*chosen;

	for (char **name = chosen; *name; name++)
		found |= !strcmp(*name, cases_format(format));
	return found;
}

static uint64_t cases_wanted(bool pairs)
{
	const char *text = getenv("FPISA_CASES");

	return text ? strtoull(text, NULL, 0) : thorough && !pairs ? 10000000 : 100000;
}

static void run_format(uint8_t format)
{
	struct fpisa_format f = fpisa_format_of(format);
	bool pairs = thorough && f.bytes < 4 && !f.shared;
	struct vectors_rng rng;
	struct run run;
	char name[32];

	NEED_BPF();
	harness_stages(harness, HARNESS_PROGRAMS);
	rng.state = vectors_seed();
	for (unsigned int i = 0; cases_combination(format, i, &run.call); i++) {
		run.cases = 0;
		if (pairs)
			run_pairs(&run, &rng);
		run_sparse(&run, &rng);
		run_random(&run, &rng, cases_wanted(pairs));
		if (thorough)
			print_message("%s %s: %llu cases, 4 executors, 0 wrong\n", cases_format(format),
				      cases_name(&run.call, name), (unsigned long long)run.cases);
	}
}

#define FORMAT_TEST(name, id)          \
	static void name(void **state) \
	{                              \
		(void)state;           \
		run_format(id);        \
	}

FORMAT_TEST(fp32, FPISA_FORMAT_FP32)
FORMAT_TEST(fp16, FPISA_FORMAT_FP16)
FORMAT_TEST(bf16, FPISA_FORMAT_BF16)
FORMAT_TEST(fp64, FPISA_FORMAT_FP64)
FORMAT_TEST(e4m3, FPISA_FORMAT_E4M3)
FORMAT_TEST(e5m2, FPISA_FORMAT_E5M2)
FORMAT_TEST(int32, FPISA_FORMAT_INT32)
FORMAT_TEST(mxint8, FPISA_FORMAT_MXINT8)

int main(int argc, char **argv)
{
	static const struct {
		uint8_t format;
		struct CMUnitTest test;
	} all[] = {
		{FPISA_FORMAT_FP32, cmocka_unit_test(fp32)},   {FPISA_FORMAT_FP16, cmocka_unit_test(fp16)},
		{FPISA_FORMAT_BF16, cmocka_unit_test(bf16)},   {FPISA_FORMAT_FP64, cmocka_unit_test(fp64)},
		{FPISA_FORMAT_E4M3, cmocka_unit_test(e4m3)},   {FPISA_FORMAT_E5M2, cmocka_unit_test(e5m2)},
		{FPISA_FORMAT_INT32, cmocka_unit_test(int32)}, {FPISA_FORMAT_MXINT8, cmocka_unit_test(mxint8)},
	};
	struct CMUnitTest tests[sizeof(all) / sizeof(all[0])];
	size_t n = 0;

	thorough = argc > 1 && !strcmp(argv[1], "--long");
	chosen = argv + 1 + thorough;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (is_chosen(all[i].format))
			tests[n++] = all[i].test;
	return _cmocka_run_group_tests("ops", tests, n, harness_setup, harness_teardown);
}
