/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test VLAN tags in the kernel. Frames of a job with a VLAN ID have its tag, and so have all answers. A frame with
 * another tag, without a tag or with two tags passes to the stack unchanged, and is counted.
 */
#include <linux/if_ether.h>
#include "protocol.h"
#include "vectors.h"

#define ID 7

/* Create a job of two workers. */
static struct fpisa_job make_vlan(uint8_t pipeline, uint16_t vlan, uint8_t stripped, uint64_t token)
{
	struct fpisa_job j = {.workers = 2,
			      .elements = N,
			      .window = 4,
			      .pipeline = pipeline,
			      .token = token,
			      .slot_base = 16,
			      .vlan = vlan,
			      .stripped = stripped};

	harness_job(harness, JOB, &j);
	return j;
}

static int run_tagged(struct frame *f, uint16_t id)
{
	if (id)
		harness_tag(f, ETH_P_8021Q, id);
	harness_run(harness, f);
	return f->action;
}

static int send_tagged(const struct fpisa_job *j, struct frame *f, uint32_t rank, uint64_t chunk, float v,
		       uint8_t flags, uint16_t id)
{
	uint32_t w[N];

	values(w, v);
	harness_add(f, harness, j, JOB, rank, chunk, N, w);
	harness_hdr(f)->flags = flags;
	harness_set_checksums(f);
	return run_tagged(f, id);
}

/* Every kind of answer has the tag, whatever priority the frame had. */
static void answers_have_the_tag(void **state)
{
	(void)state;
	NEED_BPF();
	for (uint32_t k = 0; k < 4; k++) {
		struct fpisa_job j =
			make_vlan(k & 1 ? FPISA_PIPELINE_STAGED : FPISA_PIPELINE_FUSED, ID, 0, k & 2 ? 0x1234 : 0);
		struct frame f;

		assert_int_equal(send_tagged(&j, &f, 0, 0, 1.5f, 0, 5 << 13 | ID), XDP_DROP);
		/* STATUS goes only to the sender */
		assert_int_equal(send_tagged(&j, &f, 0, 0, 1.5f, FPISA_F_PROBE, ID), XDP_REDIRECT);
		assert_int_equal(f.vlan, ID);
		assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_STATUS);
		check_reply(&f, &j, 0);
		/* RESULT goes to all ranks */
		assert_int_equal(send_tagged(&j, &f, 1, 0, 2.25f, 0, ID), XDP_REDIRECT);
		assert_int_equal(f.vlan, ID);
		assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_RESULT);
		assert_true(harness_checksums_right(&f) && first_value(&f) == 3.75f);
		/* the stored RESULT goes to the sender */
		assert_int_equal(send_tagged(&j, &f, 1, 0, 2.25f, FPISA_F_RETRANSMIT, ID), XDP_REDIRECT);
		assert_int_equal(f.vlan, ID);
		assert_int_equal(harness_hdr(&f)->flags, FPISA_F_RESENT);
		assert_true(first_value(&f) == 3.75f);
		/* ERROR goes to the sender */
		harness->generation--;
		assert_int_equal(send_tagged(&j, &f, 0, 1, 1, 0, ID), XDP_REDIRECT);
		harness->generation++;
		assert_int_equal(f.vlan, ID);
		assert_int_equal(harness_hdr(&f)->reason, FPISA_V_generation);
		/* WELCOME goes to the sender */
		harness_hello(&f, &j, JOB, 1, 50);
		assert_int_equal(run_tagged(&f, ID), XDP_REDIRECT);
		assert_int_equal(f.vlan, ID);
		assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_WELCOME);
		check_reply(&f, &j, 1);
	}
}

/* Send the frame. It must pass unchanged, and the verdict is counted once, for job `id`. */
static void passes(struct frame *f, enum fpisa_verdict v, uint32_t id)
{
	uint64_t counted = harness_verdict(harness, id, v);

	passes_unchanged(f);
	assert_int_equal(harness_verdict(harness, id, v), counted + 1);
}

static void others_pass(void **state)
{
	static const struct {
		uint16_t vlan, outer, inner, type;
		enum fpisa_verdict v;
	} cases[] = {
		{0, ID, 0, ETH_P_8021Q, FPISA_V_vlan},
		{ID, ID + 1, 0, ETH_P_8021Q, FPISA_V_vlan},
		{ID, 0, 0, 0, FPISA_V_vlan},
		{ID, ID, 0, ETH_P_8021AD, FPISA_V_qinq},
		{ID, ID, ID, ETH_P_8021Q, FPISA_V_qinq},
		{0, ID, ID, ETH_P_8021Q, FPISA_V_qinq},
		{ID, ID, ID, ETH_P_8021AD, FPISA_V_qinq},
	};
	struct frame f;

	(void)state;
	NEED_BPF();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fpisa_job j = make_vlan(FPISA_PIPELINE_FUSED, cases[i].vlan, 0, 0);

		harness_add(&f, harness, &j, JOB, 0, 0, N, NULL);
		if (cases[i].inner)
			harness_tag(&f, ETH_P_8021Q, cases[i].inner);
		if (cases[i].outer)
			harness_tag(&f, cases[i].type, cases[i].outer);
		passes(&f, cases[i].v, cases[i].v == FPISA_V_vlan ? JOB : FPISA_MAX_JOBS);
	}
}

/*
 * A tagged frame that is not of the protocol or for another address, or that is truncated anywhere, passes unchanged or
 * is dropped.
 */
static void foreign_tagged(void **state)
{
	struct fpisa_job j;
	struct frame f;

	(void)state;
	NEED_BPF();
	j = make_vlan(FPISA_PIPELINE_FUSED, ID, 0, 0);
	harness_add(&f, harness, &j, JOB, 0, 0, N, NULL);
	f.data[37] ^= 1;
	harness_tag(&f, ETH_P_8021Q, ID);
	passes(&f, FPISA_V_not_ours, FPISA_MAX_JOBS);
	harness_add(&f, harness, &j, JOB, 0, 0, N, NULL);
	f.data[33] ^= 7;
	harness_set_checksums(&f);
	harness_tag(&f, ETH_P_8021Q, ID);
	passes(&f, FPISA_V_wrong_destination, JOB);
	for (uint32_t len = 14; len < FPISA_PAYLOAD_OFFSET + FPISA_VLAN_LEN; len++) {
		harness_add(&f, harness, &j, JOB, 0, 0, N, NULL);
		harness_tag(&f, ETH_P_8021Q, ID);
		f.len = len;
		if (len < FPISA_OFFSET + FPISA_VLAN_LEN + 2)
			passes(&f, FPISA_V_not_ours, FPISA_MAX_JOBS);
		else
			assert_int_equal((harness_run(harness, &f), f.action), XDP_PASS);
	}
}

/* If a card removes tags, frames arrive without tags, and answers have tags. Frames with other tags still pass. */
static void stripped_tags(void **state)
{
	struct fpisa_job j;
	struct frame f;

	(void)state;
	NEED_BPF();
	j = make_vlan(FPISA_PIPELINE_FUSED, ID, 1, 0);
	assert_int_equal(send_tagged(&j, &f, 0, 0, 1.5f, 0, 0), XDP_DROP);
	assert_int_equal(send_tagged(&j, &f, 1, 0, 2.25f, 0, 0), XDP_REDIRECT);
	assert_int_equal(f.vlan, ID);
	assert_true(harness_checksums_right(&f) && first_value(&f) == 3.75f);
	assert_int_equal(send_tagged(&j, &f, 1, 0, 2.25f, 0, ID), XDP_REDIRECT);
	assert_int_equal(f.vlan, ID);
	harness_add(&f, harness, &j, JOB, 0, 1, N, NULL);
	harness_tag(&f, ETH_P_8021Q, ID + 1);
	passes(&f, FPISA_V_vlan, JOB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_have_the_tag),
		cmocka_unit_test(others_pass),
		cmocka_unit_test(foreign_tagged),
		cmocka_unit_test(stripped_tags),
	};

	return cmocka_run_group_tests_name("prog/vlan", tests, harness_setup, harness_teardown);
}
