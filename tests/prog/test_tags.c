/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test tags in the datapath (fpisa/tag.h). User space, fused and staged programs agree on frames of every length, and a
 * frame with a changed bit is never added. tests/unit/test_tags.c checks senders and replays, and the packet fuzzer
 * tests both together.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <linux/bpf.h>
#include "harness.h"
#include "vectors.h"

#define JOB 7
#define TOKEN 0x1122334455667788ull

static struct fpisa_job make(uint8_t pipeline, uint16_t elements)
{
	struct fpisa_job j = {.elements = elements, .window = 4, .pipeline = pipeline, .slot_base = 16, .token = TOKEN};

	harness_job(harness, JOB, &j);
	return j;
}

/*
 * Check in both pipelines that the datapath accepts a contribution's tag from user space, and that the result's tag is
 * right.
 */
static void every_length(void **state)
{
	struct vectors_rng rng;
	uint32_t in[FPISA_MAX_ELEMENTS];
	struct frame f;

	(void)state;
	NEED_BPF();
	rng = (struct vectors_rng){vectors_seed()};
	for (uint16_t count = FPISA_BLOCK; count <= FPISA_MAX_ELEMENTS; count += FPISA_BLOCK) {
		struct fpisa_job j = make(count / FPISA_BLOCK % 2 ? FPISA_PIPELINE_STAGED : FPISA_PIPELINE_FUSED, count);

		for (uint32_t r = 0; r < 2; r++) {
			for (uint32_t i = 0; i < count; i++)
				in[i] = (uint32_t)vectors_next(&rng);
			harness_add(&f, harness, &j, JOB, r, 0, count, in);
			harness_run(harness, &f);
			assert_int_equal(f.action, r ? XDP_REDIRECT : XDP_DROP);
		}
		assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_RESULT);
		assert_true(harness_checksums_right(&f));
		harness_payload(&f)[count - 1] ^= 1;
		assert_false(harness_checksums_right(&f));
	}
}

static void every_bit(void **state)
{
	struct fpisa_job j;
	struct frame f, g;
	uint64_t accepted, tags, changed = 0;

	(void)state;
	NEED_BPF();
	j = make(FPISA_PIPELINE_FUSED, FPISA_BLOCK);
	harness_add(&f, harness, &j, JOB, 0, 0, FPISA_BLOCK, NULL);
	tags = harness_verdict(harness, JOB, FPISA_V_tag);
	accepted = harness_verdict(harness, JOB, FPISA_V_accepted);
	for (uint32_t bit = 8 * FPISA_OFFSET; bit < 8 * f.len; bit++) {
		g = f;
		g.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		harness_run(harness, &g);
		changed += bit >= 8 * FPISA_PAYLOAD_OFFSET;
	}
	assert_int_equal(harness_verdict(harness, JOB, FPISA_V_accepted), accepted);
	/* Only the tag protects the payload. Frames with other values in some header fields are refused earlier. */
	assert_true(harness_verdict(harness, JOB, FPISA_V_tag) >= tags + changed);
	harness_run(harness, &f);
	assert_int_equal(harness_verdict(harness, JOB, FPISA_V_accepted), accepted + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_length),
		cmocka_unit_test(every_bit),
	};

	return cmocka_run_group_tests_name("prog/tags", tests, harness_setup, harness_teardown);
}
