// SPDX-License-Identifier: GPL-2.0-only
/* Test the contents of replies (frame.h), and the order of verdicts that the datapath relies on (verdict.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "fpisa/frame.h"

#define RESULTS 0x726573756c7473ull

static const struct fpisa_slot done_slot = {
	.chunk = 6,
	.bitmap = 5,
	.order = 0x0100,
	.generation = 9,
	.arrivals = 2,
	.count = 64,
	.done = 1,
};

static struct fpisa_hdr an_add(void)
{
	return (struct fpisa_hdr){.magic = FPISA_MAGIC,
				  .version = FPISA_VERSION,
				  .type = FPISA_TYPE_ADD,
				  .flags = FPISA_F_RETRANSMIT | FPISA_F_PROBE,
				  .format = FPISA_FORMAT_FP32,
				  .op = FPISA_OP_SUM,
				  .job = 3,
				  .rank = 2,
				  .count = 64,
				  .chunk = 6,
				  .slot = 5,
				  .digest = 1000,
				  .call = 2,
				  .generation = 9,
				  .secret = 42,
				  .reason = 77,
				  .aux = 88,
				  .bitmap = 99};
}

/* Check the fields that every reply echoes. */
static void assert_echoed(const struct fpisa_hdr *h)
{
	const struct fpisa_hdr add = an_add();

	assert_int_equal(h->magic, FPISA_MAGIC);
	assert_int_equal(h->version, FPISA_VERSION);
	assert_int_equal(h->job, add.job);
	assert_int_equal(h->chunk, add.chunk);
	assert_int_equal(h->slot, add.slot);
	assert_int_equal(h->digest, add.digest);
	assert_int_equal(h->call, add.call);
	assert_int_equal(h->generation, add.generation);
	assert_int_equal(h->secret, h->type == FPISA_TYPE_RESULT ? RESULTS : add.secret);
}

static void test_make_result(void **state)
{
	struct fpisa_job job = {.workers = 3};
	struct fpisa_hdr h = an_add();

	(void)state;
	fpisa_make_result(&h, &done_slot, &job, RESULTS, FPISA_INEXACT | FPISA_INF, 0);
	assert_echoed(&h);
	assert_int_equal(h.type, FPISA_TYPE_RESULT);
	assert_int_equal(h.flags, FPISA_F_RETRANSMIT); /* as in the contribution that completed the round */
	assert_int_equal(h.result_flags, FPISA_INEXACT | FPISA_INF);
	assert_int_equal(h.rank, 0xffff);
	assert_int_equal(h.count, 64);
	assert_int_equal(h.contributors, 2);
	assert_int_equal(h.reason, 0);
	assert_int_equal(h.bitmap, 5);
	assert_int_equal(h.aux, 0x0100);

	h = an_add();
	fpisa_make_result(&h, &done_slot, &job, RESULTS, FPISA_INEXACT | FPISA_F_MARKED, 0);
	assert_int_equal(h.flags, FPISA_F_RETRANSMIT | FPISA_F_MARKED);
	assert_int_equal(h.result_flags, FPISA_INEXACT);

	job.workers = FPISA_ORDER_WORKERS;
	fpisa_make_result(&h, &done_slot, &job, RESULTS, FPISA_F_MARKED, 1);
	assert_int_equal(h.flags, FPISA_F_RESENT);
	assert_int_equal(h.aux, 0x0100);
	h.flags = FPISA_F_PROBE;
	fpisa_make_result(&h, &done_slot, &job, RESULTS, 0, 0);
	assert_int_equal(h.flags, 0);
	job.workers = FPISA_ORDER_WORKERS + 1;
	fpisa_make_result(&h, &done_slot, &job, RESULTS, 0, 1);
	assert_int_equal(h.aux, 0);
}

/* Check that a result names exactly the ranks that are missing in the open round of the previous chunk. */
static void test_tell_lost(void **state)
{
	const struct fpisa_job job = {.workers = 5}, large = {.workers = FPISA_ORDER_WORKERS + 1};
	const struct fpisa_hdr add = an_add();
	const struct fpisa_slot open = {.generation = add.generation, .chunk = add.chunk - 1, .bitmap = 5};
	struct fpisa_slot other[4] = {open, open, open, open};
	struct fpisa_hdr h = {.generation = add.generation, .chunk = add.chunk};

	(void)state;
	assert_int_equal(fpisa_tell_lost(&h, &large, &open, ~0ull), ~5ull);
	assert_int_equal(h.reason, 0);
	assert_int_equal(h.aux, ~5ull);
	assert_int_equal(fpisa_told_lost(&h, large.workers), ~5ull);
	assert_int_equal(fpisa_told_order(&h, large.workers), 0);
	h.aux = 0x10;
	assert_int_equal(fpisa_tell_lost(&h, &job, &open, 0xf), 0xa);
	assert_int_equal(h.reason, 0xa);
	assert_int_equal(h.aux, 0x10);
	assert_int_equal(fpisa_told_lost(&h, job.workers), 0xa);
	assert_int_equal(fpisa_told_order(&h, job.workers), 0x10);
	h.flags = FPISA_F_RESENT;
	assert_int_equal(fpisa_told_lost(&h, job.workers), 0);
	other[0].generation++;
	other[1].chunk--;
	other[2].done = 1;
	other[3].bitmap = 0;
	for (int i = 0; i < 4; i++) {
		assert_int_equal(fpisa_tell_lost(&h, &job, &other[i], 0xf), 0);
		assert_int_equal(h.reason, 0);
	}
	h = (struct fpisa_hdr){.generation = add.generation};
	fpisa_tell_lost(&h, &job, &open, 0xf);
	assert_int_equal(h.reason, 0);
}

static void test_make_status_and_error(void **state)
{
	struct fpisa_hdr h = an_add();

	(void)state;
	fpisa_make_status(&h, &done_slot, 7);
	assert_echoed(&h);
	assert_int_equal(h.type, FPISA_TYPE_STATUS);
	assert_int_equal(h.flags, 0);
	assert_int_equal(h.count, 0);
	assert_int_equal(h.contributors, 2);
	assert_int_equal(h.bitmap, 5);
	assert_int_equal(h.aux, 7);

	h = an_add();
	fpisa_make_error(&h, FPISA_V_mismatch);
	assert_echoed(&h);
	assert_int_equal(h.type, FPISA_TYPE_ERROR);
	assert_int_equal(h.flags, 0);
	assert_int_equal(h.count, 0);
	assert_int_equal(h.reason, FPISA_V_mismatch);
}

static void test_make_welcome(void **state)
{
	const struct fpisa_job job = {.workers = 3,
				      .live = 7,
				      .elements = 256,
				      .window = 64,
				      .format = 1,
				      .mode = 2,
				      .rounding = 2,
				      .pipeline = 1,
				      .clz = 2,
				      .fanout = 1,
				      .address = fpisa_ipv4(0xfe00000a),
				      .group = fpisa_ipv4(0x010000ef)};
	const struct fpisa_session s = {.generation = 9, .joining = 3, .incarnation = {0, 100}, .results = RESULTS};
	struct fpisa_hdr h = {.type = FPISA_TYPE_HELLO, .secret = 42, .aux = 200};
	struct fpisa_hello p = {.proof = 42};

	(void)state;
	fpisa_make_welcome(&h, &p, &job, &s, 1, 0);
	assert_int_equal(h.type, FPISA_TYPE_WELCOME);
	assert_int_equal(h.flags, FPISA_F_PENDING);
	assert_int_equal(h.bitmap, 3);
	assert_int_equal(h.aux, 100);
	assert_int_equal(h.rank, 1);
	assert_int_equal(h.generation, 9);
	fpisa_make_welcome(&h, &p, &job, &s, 1, 1);
	assert_int_equal(h.flags, 0);
	assert_int_equal(h.bitmap, 7);
	assert_int_equal(p.window, 64);
	assert_int_equal(p.elements, 256);
	assert_int_equal(p.workers, 3);
	assert_int_equal(p.rank, 1);
	assert_int_equal(p.mode, 2);
	assert_int_equal(p.rounding, 2);
	assert_int_equal(p.format, 1);
	assert_int_equal(p.pipeline, 1);
	assert_int_equal(p.clz, 2);
	assert_int_equal(p.fanout, 1);
	assert_int_equal(p.group, 0x010000ef);
	assert_int_equal(p.address, 0xfe00000a);
	assert_int_equal(p.live, 7);
	assert_int_equal(p.proof, 0);
	assert_int_equal(p.results, RESULTS);
	assert_int_equal(h.secret, 42);
	/* A rank that is not in the generation does not get the secret of results. */
	fpisa_make_welcome(&h, &p, &job, &s, 1, 0);
	assert_int_equal(p.results, 0);
}

/* Check that a challenge contains the cookie for a rank that lacks it, and no other secret. */
static void test_make_challenge(void **state)
{
	struct fpisa_hdr h = {.type = FPISA_TYPE_HELLO, .aux = 200, .chunk = 3};
	const struct fpisa_hello nothing = {0};
	struct fpisa_hello p = {.proof = 42, .window = 4};

	(void)state;
	fpisa_make_challenge(&h, &p, 77);
	assert_int_equal(h.type, FPISA_TYPE_WELCOME);
	assert_int_equal(h.flags, FPISA_F_PENDING | FPISA_F_CHALLENGE);
	assert_int_equal(h.secret, 77);
	assert_int_equal(h.chunk, 3);
	assert_int_equal(h.aux, 200);
	assert_int_equal(h.generation, 0);
	assert_memory_equal(&p, &nothing, sizeof(p));
}

/* Check that the numbers of the wire's first version are unchanged, and that members get errors only about drops. */
static void test_verdict_order(void **state)
{
	static const enum fpisa_verdict_class class_of[] = {
#define X(name, class, text) [FPISA_V_##name] = FPISA_CLASS_##class,
		FPISA_VERDICTS(X)
#undef X
	};

	(void)state;
	assert_int_equal(sizeof(class_of) / sizeof(class_of[0]), FPISA_VERDICT_COUNT);
	for (int v = 0; v < FPISA_VERDICT_COUNT; v++) {
		assert_int_equal(fpisa_class_of((__u32)v), class_of[v]);
		assert_int_equal(fpisa_is_drop((__u32)v), class_of[v] == FPISA_CLASS_DROP);
		if (fpisa_reported((enum fpisa_verdict)v))
			assert_int_equal(class_of[v], FPISA_CLASS_DROP);
	}
	assert_int_equal(FPISA_V_truncated, 8);
	assert_int_equal(FPISA_V_port, 31);
	assert_true(fpisa_reported(FPISA_V_mismatch));	    /* rule 3 */
	assert_false(fpisa_reported(FPISA_V_unknown_peer)); /* frames are not reflected to unknown peers */
	assert_false(fpisa_reported(FPISA_V_token));
	assert_false(fpisa_reported(FPISA_V_checksum));
}

/* Check that a HELLO with its cookie joins, and that a HELLO of an earlier incarnation only gets the answer. */
static void test_welcome(void **state)
{
	const struct fpisa_job job = {.workers = 1, .live = 1, .key = {1, 2}};
	const struct fpisa_hdr hello = {.type = FPISA_TYPE_HELLO, .aux = 200, .secret = 78};
	struct fpisa_session s = {0}, before;
	struct fpisa_hello p = {.proof = 42};
	struct fpisa_hdr h = hello;
	__u32 next = 5;

	(void)state;
	assert_int_equal(fpisa_challenge(&h, &p, 77), FPISA_V_challenge);
	assert_int_equal(h.secret, 77);
	h = hello;
	assert_int_equal(fpisa_challenge(&h, &p, 78), FPISA_V_ok);
	assert_memory_equal(&h, &hello, sizeof(h));
	assert_true(fpisa_welcome(&h, &p, &job, &s, 0, 1, &next));
	assert_int_equal(h.type, FPISA_TYPE_WELCOME);
	assert_int_equal(h.flags, 0);
	assert_int_equal(h.generation, 5);
	assert_int_equal(s.incarnation[0], 200);
	before = s;
	h = hello;
	h.aux = 199;
	assert_false(fpisa_welcome(&h, &p, &job, &s, 0, 1, &next));
	assert_int_equal(h.flags, FPISA_F_PENDING);
	assert_int_equal(h.aux, 200);
	assert_memory_equal(&s, &before, sizeof(s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_make_result),	      cmocka_unit_test(test_tell_lost),
		cmocka_unit_test(test_make_status_and_error), cmocka_unit_test(test_make_welcome),
		cmocka_unit_test(test_make_challenge),	      cmocka_unit_test(test_welcome),
		cmocka_unit_test(test_verdict_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
