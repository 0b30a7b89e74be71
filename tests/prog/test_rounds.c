/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test rounds in the kernel, frame by frame: any order, resends, probes, the removal of ranks, operations, the port of
 * a slot.
 */
#include "protocol.h"

static void round_in_any_order(void **state)
{
	(void)state;
	NEED_BPF();
	for (uint8_t pipeline = FPISA_PIPELINE_STAGED; pipeline <= FPISA_PIPELINE_FUSED; pipeline++) {
		struct fpisa_job j = make(pipeline, 3);
		struct frame f;

		assert_int_equal(send_add(&j, &f, 2, 0, 1.0f, 0), XDP_DROP);
		assert_int_equal(send_add(&j, &f, 0, 0, 2.0f, 0), XDP_DROP);
		assert_int_equal(send_add(&j, &f, 0, 0, 2.0f, FPISA_F_RETRANSMIT), XDP_DROP); /* duplicate */
		assert_int_equal(send_add(&j, &f, 1, 0, 4.0f, 0), XDP_REDIRECT);
		assert_true(harness_checksums_right(&f));
		assert_true(first_value(&f) == 7.0f);
		assert_int_equal(harness_hdr(&f)->bitmap, 7);
		assert_int_equal(harness_hdr(&f)->contributors, 3);
		/* rank 2 came first, rank 0 second, rank 1 third */
		assert_int_equal(harness_hdr(&f)->aux, 0x021);
		assert_int_equal(harness_hdr(&f)->rank, 0xffff);
		/* to the multicast address, with address, port and MAC of RFC 1112 */
		assert_memory_equal(f.data + 30, &j.group.w[3], 4);
		assert_memory_equal(f.data, "\x01\0\x5e\x46\x46\x05", 6);
		/* the same bits on request, only to the sender */
		assert_int_equal(send_add(&j, &f, 1, 0, 4.0f, FPISA_F_RETRANSMIT), XDP_REDIRECT);
		check_reply(&f, &j, 1);
		assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_RESULT);
		assert_int_equal(harness_hdr(&f)->flags, FPISA_F_RESENT);
		assert_int_equal(harness_hdr(&f)->aux, 0x021);
		assert_true(first_value(&f) == 7.0f);
	}
}

/*
 * Check that the frame is a result that names these ranks as lost. In jobs of up to 16 workers it must have an order of
 * arrival.
 */
static void check_names(struct frame *f, uint32_t workers, uint64_t lost)
{
	const struct fpisa_hdr *h = harness_hdr(f);

	assert_true(harness_checksums_right(f));
	if (workers > FPISA_ORDER_WORKERS) {
		assert_int_equal(h->aux, lost);
		assert_int_equal(h->reason, 0);
	} else {
		assert_int_equal(h->reason, lost);
		assert_int_not_equal(h->aux, 0);
	}
}

/*
 * Check that a result tells all ranks which contributions to the previous chunk are lost, but not when the result is
 * sent again. The results that name lost contributions are counted.
 */
static void result_names_who_lost(void **state)
{
	static const uint32_t workers[] = {3, FPISA_ORDER_WORKERS, FPISA_ORDER_WORKERS + 1, FPISA_MAX_WORKERS};

	(void)state;
	NEED_BPF();
	for (uint32_t i = 0; i < 8; i++) {
		uint32_t n = workers[i / 2];
		struct fpisa_job j = make(i & 1 ? FPISA_PIPELINE_STAGED : FPISA_PIPELINE_FUSED, n);
		uint64_t told = harness_counters(harness, JOB).told_lost;
		struct frame f;

		send_add(&j, &f, 1, 0, 1.0f, 0);
		for (uint32_t chunk = 1; chunk < 3; chunk++) {
			for (uint32_t rank = 0; rank < n - 1; rank++)
				send_add(&j, &f, rank, chunk, 1.0f, 0);
			assert_int_equal(send_add(&j, &f, n - 1, chunk, 1.0f, 0), XDP_REDIRECT);
			/* chunk 0 lacks all ranks except rank 1, and chunk 1 lacks none */
			check_names(&f, n, chunk == 1 ? j.live & ~2ull : 0);
		}
		assert_int_equal(harness_counters(harness, JOB).told_lost, told + 1);
		assert_int_equal(send_add(&j, &f, 1, 1, 1.0f, FPISA_F_RETRANSMIT), XDP_REDIRECT);
		assert_int_equal(harness_hdr(&f)->flags, FPISA_F_RESENT);
		check_names(&f, n, 0);
	}
}

enum ecn { NOT_ECT, ECT1, ECT0, CE };

static int send_with_ecn(const struct fpisa_job *j, struct frame *f, uint32_t rank, uint64_t chunk, enum ecn ecn)
{
	uint32_t w[N];

	values(w, 1.0f);
	harness_add(f, harness, j, JOB, rank, chunk, N, w);
	f->data[15] = 0xb8 | ecn; /* a class of service, which is not copied */
	harness_set_checksums(f);
	harness_run(harness, f);
	return f->action;
}

/*
 * Check that a result tells all ranks about a congestion mark on any contribution, once. The next result and a stored
 * result do not. The frame of the result may itself be marked if the last contribution could be marked.
 */
static void result_tells_of_marks(void **state)
{
	(void)state;
	NEED_BPF();
	for (uint32_t i = 0; i < 2 * 4 * 4; i++) {
		struct fpisa_job j = make(i & 1 ? FPISA_PIPELINE_STAGED : FPISA_PIPELINE_FUSED, 2);
		enum ecn first = i / 2 % 4, last = i / 8;
		uint64_t marked = harness_counters(harness, JOB).marked;
		struct frame f;

		assert_int_equal(send_with_ecn(&j, &f, 0, 0, first), XDP_DROP);
		assert_int_equal(send_with_ecn(&j, &f, 1, 0, last), XDP_REDIRECT);
		assert_true(harness_checksums_right(&f));
		assert_int_equal(f.data[15], last == NOT_ECT ? NOT_ECT : ECT0);
		assert_int_equal(harness_hdr(&f)->flags, first == CE || last == CE ? FPISA_F_MARKED : 0);
		assert_int_equal(harness_hdr(&f)->result_flags, 0);
		assert_int_equal(harness_counters(harness, JOB).marked, marked + (first == CE) + (last == CE));
		assert_int_equal(send_with_ecn(&j, &f, 1, 0, CE), XDP_REDIRECT);
		check_reply(&f, &j, 1);
		assert_int_equal(harness_hdr(&f)->flags, FPISA_F_RESENT);
		send_with_ecn(&j, &f, 0, 1, ECT0);
		assert_int_equal(send_with_ecn(&j, &f, 1, 1, ECT0), XDP_REDIRECT);
		assert_int_equal(harness_hdr(&f)->flags, 0);
	}
}

static void late_and_early_chunks(void **state)
{
	struct fpisa_job j;
	struct frame f;

	(void)state;
	NEED_BPF();
	j = make(FPISA_PIPELINE_FUSED, 2);
	send_add(&j, &f, 0, 0, 1, 0);
	/* chunk 8 = 0 + 2W arrives while round 0 is open */
	assert_int_equal(send_add(&j, &f, 0, 8, 1, 0), XDP_REDIRECT);
	assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_ERROR);
	assert_int_equal(harness_hdr(&f)->reason, FPISA_V_ahead);
	send_add(&j, &f, 1, 0, 1, 0);
	/* the round is done; a chunk two rounds ahead is too far */
	send_add(&j, &f, 0, 16, 1, 0);
	assert_int_equal(harness_hdr(&f)->reason, FPISA_V_ahead);
	assert_int_equal(send_add(&j, &f, 0, 8, 3, 0), XDP_DROP);
	/* a late copy of chunk 0 has no effect */
	uint64_t stale = harness_verdict(harness, JOB, FPISA_V_stale);

	assert_int_equal(send_add(&j, &f, 1, 0, 100, 0), XDP_DROP);
	assert_int_equal(harness_verdict(harness, JOB, FPISA_V_stale), stale + 1);
	send_add(&j, &f, 1, 8, 4, 0);
	assert_true(first_value(&f) == 7.0f);
	/* an entry that is empty in this generation accepts only its first chunk */
	send_add(&j, &f, 0, 9, 1, 0);
	assert_int_equal(harness_hdr(&f)->reason, FPISA_V_ahead);
}

static void probe_names_who_is_there(void **state)
{
	struct fpisa_job j;
	struct frame f;

	(void)state;
	NEED_BPF();
	j = make(FPISA_PIPELINE_STAGED, 3);
	assert_int_equal(send_add(&j, &f, 1, 0, 1, 0), XDP_DROP);
	assert_int_equal(send_add(&j, &f, 1, 0, 1, FPISA_F_PROBE | FPISA_F_RETRANSMIT), XDP_REDIRECT);
	check_reply(&f, &j, 1);
	assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_STATUS);
	assert_int_equal(f.len, FPISA_PAYLOAD_OFFSET);
	assert_int_equal(harness_hdr(&f)->bitmap, 2);
	assert_int_equal(harness_hdr(&f)->aux, 7);
	assert_int_equal(harness_hdr(&f)->chunk, 0);
	/* a probe that also contributes gets an answer whose bitmap includes its sender */
	assert_int_equal(send_add(&j, &f, 2, 0, 1, FPISA_F_PROBE), XDP_REDIRECT);
	assert_int_equal(harness_hdr(&f)->bitmap, 6);
	/* a probe that completes the round gets the result */
	assert_int_equal(send_add(&j, &f, 0, 0, 1, FPISA_F_PROBE), XDP_REDIRECT);
	assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_RESULT);
	assert_true(first_value(&f) == 3.0f);
}

static void shrink_completes_open_rounds(void **state)
{
	struct fpisa_job j;
	struct frame f;

	(void)state;
	NEED_BPF();
	j = make(FPISA_PIPELINE_STAGED, 3);
	send_add(&j, &f, 0, 0, 1, 0);
	send_add(&j, &f, 1, 0, 2, 0);
	set_live(&j, 3);
	/* no new contribution arrives, so a retransmission finds the round complete */
	assert_int_equal(send_add(&j, &f, 0, 0, 1, FPISA_F_RETRANSMIT), XDP_REDIRECT);
	assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_RESULT);
	assert_int_equal(harness_hdr(&f)->contributors, 2);
	assert_int_equal(harness_hdr(&f)->flags, FPISA_F_RETRANSMIT);
	assert_true(first_value(&f) == 3.0f);
	/* the removed rank gets an ERROR */
	send_add(&j, &f, 2, 0, 4, 0);
	check_reply(&f, &j, 2);
	assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_ERROR);
	assert_int_equal(harness_hdr(&f)->reason, FPISA_V_not_live);
}

/* Contribute a constant to chunk 0 of a call of `op`. */
static int send_call(const struct fpisa_job *j, struct frame *f, uint32_t rank, float v, uint8_t op, double factor)
{
	uint32_t w[N];

	values(w, v);
	harness_add(f, harness, j, JOB, rank, 0, N, w);
	harness_hdr(f)->op = op;
	if (op == FPISA_OP_SCALE)
		memcpy(&harness_hdr(f)->aux, &factor, sizeof(factor));
	harness_set_checksums(f);
	harness_run(harness, f);
	return f->action;
}

static void avg_divides_by_contributors(void **state)
{
	(void)state;
	NEED_BPF();
	for (uint8_t pipeline = FPISA_PIPELINE_STAGED; pipeline <= FPISA_PIPELINE_FUSED; pipeline++) {
		struct fpisa_job j = make(pipeline, 3);
		struct frame f;

		assert_int_equal(send_call(&j, &f, 0, 1, FPISA_OP_AVG, 0), XDP_DROP);
		assert_int_equal(send_call(&j, &f, 1, 2, FPISA_OP_AVG, 0), XDP_DROP);
		set_live(&j, 3);
		assert_int_equal(send_call(&j, &f, 0, 1, FPISA_OP_AVG, 0), XDP_REDIRECT);
		assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_RESULT);
		assert_int_equal(harness_hdr(&f)->contributors, 2);
		assert_true(first_value(&f) == 1.5f);

		/* The earlier contributions of a removed rank still count, in the sum and in the number of values. */
		j = make(pipeline, 3);
		assert_int_equal(send_call(&j, &f, 2, 6, FPISA_OP_AVG, 0), XDP_DROP);
		set_live(&j, 3);
		assert_int_equal(send_call(&j, &f, 0, 1, FPISA_OP_AVG, 0), XDP_DROP);
		assert_int_equal(send_call(&j, &f, 1, 2, FPISA_OP_AVG, 0), XDP_REDIRECT);
		assert_int_equal(harness_hdr(&f)->contributors, 3);
		assert_true(first_value(&f) == 3.0f);
	}
}

static void factors_must_agree(void **state)
{
	struct fpisa_job j;
	struct frame f;

	(void)state;
	NEED_BPF();
	j = make(FPISA_PIPELINE_FUSED, 2);
	assert_int_equal(send_call(&j, &f, 0, 1, FPISA_OP_SCALE, 0.5), XDP_DROP);
	send_call(&j, &f, 1, 2, FPISA_OP_SCALE, -0.5);
	check_reply(&f, &j, 1);
	assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_ERROR);
	assert_int_equal(harness_hdr(&f)->reason, FPISA_V_mismatch);
}

static void busy_slot(void **state)
{
	struct fpisa_slot s;
	struct fpisa_job j;
	struct frame f;
	uint32_t key = 16;
	int fd;

	(void)state;
	NEED_BPF();
	j = make(FPISA_PIPELINE_FUSED, 2);
	fd = bpf_map__fd(harness->skel->maps.fpisa_slots);
	send_add(&j, &f, 0, 0, 1, 0);
	harness_slot(harness, key, &s, NULL, NULL);
	assert_int_equal(s.lock, 0);
	s.lock = 1;
	assert_int_equal(bpf_map_update_elem(fd, &key, &s, BPF_ANY), 0);
	uint64_t busy = harness_verdict(harness, JOB, FPISA_V_busy);

	assert_int_equal(send_add(&j, &f, 1, 0, 2, 0), XDP_DROP);
	assert_int_equal(harness_verdict(harness, JOB, FPISA_V_busy), busy + 1);
	s.lock = 0;
	assert_int_equal(bpf_map_update_elem(fd, &key, &s, BPF_ANY), 0);
	assert_int_equal(send_add(&j, &f, 1, 0, 2, 0), XDP_REDIRECT);
	assert_true(first_value(&f) == 3.0f);
}

/* Check that the padding of short Ethernet frames, after the IP packet, is ignored. */
static void padded_frame(void **state)
{
	struct fpisa_job j;
	struct frame f;

	(void)state;
	NEED_BPF();
	j = make(FPISA_PIPELINE_FUSED, 2);
	send_add(&j, &f, 0, 0, 1, 0);
	uint32_t w[N];

	values(w, 2);
	harness_add(&f, harness, &j, JOB, 1, 0, N, w);
	f.len += 7;
	memset(f.data + f.len - 7, 0xee, 7);
	harness_run(harness, &f);
	assert_int_equal(f.action, XDP_REDIRECT);
	f.len -= 7;
	assert_true(harness_checksums_right(&f));
	assert_true(first_value(&f) == 3.0f);
}

/* -- several ports --------------------------------------------------------------- */

/* Check four ports for 16 slots. Every contribution is sent to each port, and only the port of its slot accepts it. */
static void slots_have_ports(void **state)
{
	struct fpisa_job j = {.workers = 2, .elements = N, .window = 16, .ports = 4, .slot_base = 16};
	uint64_t wrong;
	struct frame f;
	uint32_t w[N];

	(void)state;
	NEED_BPF();
	harness_job(harness, JOB, &j);
	wrong = harness_verdict(harness, JOB, FPISA_V_port);
	values(w, 1);
	for (uint64_t chunk = 0; chunk < 64; chunk++) {
		for (uint32_t port = 0; port < 4; port++) {
			uint32_t rank = port & 1;

			harness_add(&f, harness, &j, JOB, rank, chunk, N, w);
			harness_port(&f, port);
			harness_run(harness, &f);
			if (port == chunk % 16 / 4) {
				assert_int_equal(f.action, XDP_DROP);
				continue;
			}
			check_reply(&f, &j, rank);
			assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_ERROR);
			assert_int_equal(harness_hdr(&f)->reason, FPISA_V_port);
			assert_int_equal(harness_verdict(harness, JOB, FPISA_V_port), ++wrong);
		}
		/* The other rank completes the round. A late copy at the first port gets the stored result too. */
		for (int late = 0; late < 2; late++) {
			assert_int_equal(send_add(&j, &f, !(chunk % 16 / 4 & 1), chunk, 1, 0), XDP_REDIRECT);
			assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_RESULT);
			assert_true(first_value(&f) == 2.0f);
			if (late)
				check_reply(&f, &j, !(chunk % 16 / 4 & 1));
			else
				assert_memory_equal(f.data + 34, "\x46\x50", 2);
		}
	}
}

/* Check that HELLO belongs to the first port, and that a job of one port can share the datapath with a job of four. */
static void first_port(void **state)
{
	struct fpisa_job j = {.workers = 2, .ports = 4}, one = {.workers = 2, .elements = N, .window = 16};
	struct fpisa_control c;
	uint32_t w[N], zero = 0;
	uint64_t wrong;
	struct frame f;

	(void)state;
	NEED_BPF();
	harness_job(harness, JOB, &j);
	wrong = harness_verdict(harness, JOB, FPISA_V_port);
	harness_hello(&f, &j, JOB, 0, 5);
	harness_port(&f, 1);
	harness_run(harness, &f);
	assert_int_equal(f.action, XDP_DROP);
	assert_int_equal(harness_verdict(harness, JOB, FPISA_V_port), wrong + 1);
	send_hello(&j, &f, 0, 5);
	check_reply(&f, &j, 0);
	assert_int_equal(((struct fpisa_hello *)harness_payload(&f))->ports, 4);

	harness_job(harness, JOB, &one);
	c = (struct fpisa_control){.more_ports = 3};
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(harness->skel->maps.fpisa_control), &zero, &c, BPF_ANY), 0);
	values(w, 1);
	harness_add(&f, harness, &one, JOB, 0, 5, N, w);
	harness_port(&f, 1);
	harness_run(harness, &f);
	check_reply(&f, &one, 0);
	assert_int_equal(harness_hdr(&f)->reason, FPISA_V_port);
	assert_int_equal(send_add(&one, &f, 0, 5, 1, 0), XDP_DROP);
	assert_int_equal(send_add(&one, &f, 1, 5, 1, 0), XDP_REDIRECT);
	assert_true(first_value(&f) == 2.0f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_in_any_order),
		cmocka_unit_test(result_names_who_lost),
		cmocka_unit_test(result_tells_of_marks),
		cmocka_unit_test(late_and_early_chunks),
		cmocka_unit_test(probe_names_who_is_there),
		cmocka_unit_test(shrink_completes_open_rounds),
		cmocka_unit_test(avg_divides_by_contributors),
		cmocka_unit_test(factors_must_agree),
		cmocka_unit_test(busy_slot),
		cmocka_unit_test(padded_frame),
		cmocka_unit_test(slots_have_ports),
		cmocka_unit_test(first_port),
	};

	return cmocka_run_group_tests_name("prog/rounds", tests, harness_setup, harness_teardown);
}
