/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test UDP checksums of all kinds of replies, in every format and mode, at any length. This test makes the frames, and
 * harness_run() checks each frame that leaves. test_egress.c checks copies to single addresses.
 */
#include "protocol.h"
#include "cases.h"

#define ROUNDS 6 /* number of rounds of a combination */

/* The number of frames that have left, by their FPISA type */
static uint32_t left[FPISA_TYPE_ERROR + 1];

static void run(struct frame *f, uint8_t type)
{
	harness_run(harness, f);
	assert_int_equal(f->action, XDP_REDIRECT);
	assert_int_equal(harness_hdr(f)->type, type);
	assert_true(harness_checksums_right(f));
	left[type]++;
}

static void contribute(struct frame *f, const struct fpisa_job *j, uint32_t rank, uint64_t chunk, uint8_t op,
		       uint32_t count, const void *payload, uint8_t flags)
{
	harness_add(f, harness, j, JOB, rank, chunk, count, payload);
	harness_hdr(f)->op = op;
	harness_hdr(f)->flags = flags;
	harness_set_checksums(f);
}

static void every_reply(struct vectors_rng *rng, const struct fpisa_job *j, const struct cases_call *call)
{
	static struct cases_round r;
	static struct frame f;
	uint32_t count = FPISA_BLOCK * (1 + vectors_below(rng, j->elements / FPISA_BLOCK));
	uint64_t chunk = vectors_below(rng, j->window);

	cases_random(rng, call, count, &r);
	contribute(&f, j, 0, chunk, call->op, count, r.in[0], FPISA_F_PROBE);
	run(&f, FPISA_TYPE_STATUS);
	contribute(&f, j, 1, chunk, call->op, count, r.in[1], 0);
	run(&f, FPISA_TYPE_RESULT);
	contribute(&f, j, 1, chunk, call->op, count, r.in[1], FPISA_F_RETRANSMIT);
	run(&f, FPISA_TYPE_RESULT);
	contribute(&f, j, 0, chunk + 4ull * j->window, call->op, count, r.in[0], 0);
	run(&f, FPISA_TYPE_ERROR);
	harness_hello(&f, j, JOB, 0, vectors_next(rng) >> 1 | 1);
	harness_hdr(&f)->secret = 0;
	harness_hdr(&f)->chunk = vectors_next(rng);
	harness_set_checksums(&f);
	run(&f, FPISA_TYPE_WELCOME);
	harness_hello(&f, j, JOB, 0, HARNESS_INCARNATION);
	harness_hdr(&f)->chunk = vectors_next(rng);
	harness_set_checksums(&f);
	run(&f, FPISA_TYPE_WELCOME);
}

static void all_replies(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	struct cases_call call = {0};
	uint32_t combinations = 0;

	(void)state;
	NEED_BPF();
	for (uint8_t format = FPISA_FORMAT_FP32; format <= FPISA_FORMAT_MXINT8; format++) {
		for (unsigned int i = 0; cases_combination(format, i, &call); i++, combinations++) {
			for (int k = 0; k < ROUNDS; k++) {
				struct fpisa_job j = {.format = format,
						      .mode = call.mode,
						      .elements = (uint16_t)fpisa_max_elements(fpisa_format_of(format),
											       FPISA_MODE_FPISA),
						      .pipeline = k % 2 ? FPISA_PIPELINE_FUSED : FPISA_PIPELINE_STAGED,
						      .flags = k % 3 ? 0 : FPISA_JOB_BIG_ENDIAN,
						      .rounding = call.rounding};

				call.workers = 2;
				if (call.op == FPISA_OP_SCALE)
					continue;
				harness_job(harness, JOB, &j);
				every_reply(&rng, &j, &call);
			}
		}
	}
	assert_true(combinations > 30);
	assert_true(left[FPISA_TYPE_STATUS] && left[FPISA_TYPE_RESULT] == 2 * left[FPISA_TYPE_STATUS]);
	assert_true(left[FPISA_TYPE_ERROR] == left[FPISA_TYPE_STATUS] &&
		    left[FPISA_TYPE_WELCOME] == left[FPISA_TYPE_RESULT]);
}

/* Return a call number for which the reply *f would have UDP checksum 0. Replies echo the call number. */
static uint32_t aim(const struct frame *f)
{
	static struct frame g;

	g = *f;
	for (harness_hdr(&g)->call = 0; harness_hdr(&g)->call < 1u << 22; harness_hdr(&g)->call++) {
		harness_set_checksums(&g);
		if (harness_udp_checksum(&g) == 0xffff)
			break;
	}
	assert_true(harness_hdr(&g)->call < 1u << 22);
	return harness_hdr(&g)->call;
}

/* Check that checksum 0, which would mean no checksum, is sent as 0xffff. */
static void never_zero(void **state)
{
	static struct frame f;
	uint32_t w[N], call = 0;
	struct fpisa_job j;

	(void)state;
	NEED_BPF();
	j = make(FPISA_PIPELINE_FUSED, 1);
	values(w, 1.5f);
	for (uint64_t chunk = 0; chunk < 2; chunk++) {
		if (chunk) {
			/* aim() needs the chunk and the slot of the next result. */
			harness_hdr(&f)->chunk = chunk;
			harness_hdr(&f)->slot = fpisa_slot_of(chunk, j.window);
			call = aim(&f);
		}
		harness_add(&f, harness, &j, JOB, 0, chunk, N, w);
		harness_hdr(&f)->call = call;
		harness_set_checksums(&f);
		run(&f, FPISA_TYPE_RESULT);
	}
	assert_true(f.data[40] == 0xff && f.data[41] == 0xff);
	for (int k = 0; k < 2; k++) {
		call = k ? aim(&f) : 0;
		harness_hello(&f, &j, JOB, 0, HARNESS_INCARNATION);
		harness_hdr(&f)->call = call;
		harness_set_checksums(&f);
		run(&f, FPISA_TYPE_WELCOME);
	}
	assert_true(f.data[40] == 0xff && f.data[41] == 0xff);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_replies),
		cmocka_unit_test(never_zero),
	};

	return cmocka_run_group_tests_name("prog/udp_checksum", tests, harness_setup, harness_teardown);
}
