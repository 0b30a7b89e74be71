/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The protocol in the kernel, frame by frame: joining, rounds, resends,
 * probes, shrink; each reason of a drop reached and counted with no state
 * changed; what is not ours passes untouched.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <cmocka.h>
#include <linux/bpf.h>
#include "harness.h"
#include "vectors.h"

#define JOB 5
#define N 64

static struct fpisa_job make(uint8_t pipeline, uint32_t workers)
{
	struct fpisa_job j = { .workers = workers, .elements = N, .window = 4, .pipeline = pipeline,
			       .token = 0x1122334455667788ull, .slot_base = 16 };

	harness_job(harness, JOB, &j);
	return j;
}

static void values(uint32_t *w, float v)
{
	for (int i = 0; i < N; i++)
		memcpy(&w[i], &v, 4);
}

static int send_add(const struct fpisa_job *j, struct frame *f, uint32_t rank, uint64_t chunk, float v, uint8_t flags)
{
	uint32_t w[N];

	values(w, v);
	harness_add(f, harness, j, JOB, rank, chunk, N, w);
	harness_hdr(f)->flags = flags;
	harness_set_checksums(f);
	harness_run(harness, f);
	return f->action;
}

static float first_value(struct frame *f)
{
	float v;

	memcpy(&v, harness_payload(f), 4);
	return v;
}

static void set_live(const struct fpisa_job *j, uint64_t live)
{
	struct fpisa_job k = *j;
	uint32_t id = JOB;

	k.live = live;
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(harness->skel->maps.fpisa_jobs), &id, &k, BPF_ANY), 0);
}

/* A reply to the sender: addresses turned round, checksums right. */
static void check_reply(struct frame *f, const struct fpisa_job *j, uint32_t rank)
{
	uint32_t saddr, daddr;
	uint16_t sport, dport, check, ip_len, udp_len;

	assert_int_equal(f->action, XDP_REDIRECT);
	assert_true(harness_checksums_right(f));
	memcpy(&saddr, f->data + 26, 4);
	memcpy(&daddr, f->data + 30, 4);
	memcpy(&sport, f->data + 34, 2);
	memcpy(&dport, f->data + 36, 2);
	memcpy(&udp_len, f->data + 38, 2);
	memcpy(&check, f->data + 40, 2);
	memcpy(&ip_len, f->data + 16, 2);
	assert_int_equal(saddr, j->address);
	assert_int_equal(daddr, j->rank[rank].addr);
	assert_int_equal(sport, htons(FPISA_PORT));
	assert_int_equal(dport, j->rank[rank].port);
	assert_int_equal(check, 0);
	assert_int_equal(ntohs(ip_len), f->len - 14);
	assert_int_equal(ntohs(udp_len), f->len - 34);
	assert_memory_equal(f->data + 6, "\x02\0\0\0\0\xfe", 6);
	assert_int_equal(f->data[5], rank);
}

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
		/* rank 2 came first, 0 second, 1 third */
		assert_int_equal(harness_hdr(&f)->aux, 0x021);
		assert_int_equal(harness_hdr(&f)->rank, 0xffff);
		/* to the group: address, port and MAC of RFC 1112 */
		assert_memory_equal(f.data + 30, &j.group, 4);
		assert_memory_equal(f.data, "\x01\0\x5e\x46\x46\x05", 6);
		/* the same bits on request, to the sender alone */
		assert_int_equal(send_add(&j, &f, 1, 0, 4.0f, FPISA_F_RETRANSMIT), XDP_REDIRECT);
		check_reply(&f, &j, 1);
		assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_RESULT);
		assert_int_equal(harness_hdr(&f)->flags, FPISA_F_RESENT);
		assert_int_equal(harness_hdr(&f)->aux, 0x021);
		assert_true(first_value(&f) == 7.0f);
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
	/* 8 = 0 + 2W while round 0 is open */
	assert_int_equal(send_add(&j, &f, 0, 8, 1, 0), XDP_REDIRECT);
	assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_ERROR);
	assert_int_equal(harness_hdr(&f)->reason, FPISA_V_ahead);
	send_add(&j, &f, 1, 0, 1, 0);
	/* done; two rounds ahead is too far */
	send_add(&j, &f, 0, 16, 1, 0);
	assert_int_equal(harness_hdr(&f)->reason, FPISA_V_ahead);
	assert_int_equal(send_add(&j, &f, 0, 8, 3, 0), XDP_DROP);
	/* a late copy of chunk 0 changes nothing */
	uint64_t stale = harness_verdict(harness, JOB, FPISA_V_stale);

	assert_int_equal(send_add(&j, &f, 1, 0, 100, 0), XDP_DROP);
	assert_int_equal(harness_verdict(harness, JOB, FPISA_V_stale), stale + 1);
	send_add(&j, &f, 1, 8, 4, 0);
	assert_true(first_value(&f) == 7.0f);
	/* an entry that is empty in this generation takes only its first chunk */
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
	/* a probe that also contributes is answered with itself in the map */
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
	/* nothing new arrives: a retransmission finds the round complete */
	assert_int_equal(send_add(&j, &f, 0, 0, 1, FPISA_F_RETRANSMIT), XDP_REDIRECT);
	assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_RESULT);
	assert_int_equal(harness_hdr(&f)->contributors, 2);
	assert_int_equal(harness_hdr(&f)->flags, 0);
	assert_true(first_value(&f) == 3.0f);
	/* the rank that was taken out is told */
	send_add(&j, &f, 2, 0, 4, 0);
	check_reply(&f, &j, 2);
	assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_ERROR);
	assert_int_equal(harness_hdr(&f)->reason, FPISA_V_not_live);
}

/* Contribution of a constant to chunk 0 of a call of `op`. */
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

		/* What a rank that was taken out had contributed before counts, in sum and number. */
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

static int send_hello(const struct fpisa_job *j, struct frame *f, uint32_t rank, uint64_t incarnation)
{
	harness_hello(f, j, JOB, rank, incarnation);
	if (incarnation > harness->incarnation[rank])
		harness->incarnation[rank] = incarnation;
	harness_run(harness, f);
	return f->action;
}

static void join_begins_generations(void **state)
{
	struct fpisa_hello *p;
	struct fpisa_job j;
	struct frame f;
	uint32_t first;

	(void)state;
	NEED_BPF();
	j = make(FPISA_PIPELINE_STAGED, 2);
	send_hello(&j, &f, 1, 50);
	check_reply(&f, &j, 1);
	p = (struct fpisa_hello *)harness_payload(&f);
	assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_WELCOME);
	assert_int_equal(harness_hdr(&f)->flags, FPISA_F_PENDING);
	assert_int_equal(harness_hdr(&f)->bitmap, 2);
	assert_int_equal(harness_hdr(&f)->aux, 50);
	assert_int_equal(p->window, 4);
	assert_int_equal(p->elements, N);
	assert_int_equal(p->workers, 2);
	assert_int_equal(p->rank, 1);
	assert_int_equal(p->live, 3);
	assert_int_equal(p->group, j.group);
	assert_int_equal(p->address, j.address);
	assert_int_equal(p->mode, FPISA_MODE_FPISA);
	/* rank 0 is new: rank 1 has to ask again, it may be dead by now */
	send_hello(&j, &f, 0, 60);
	assert_int_equal(harness_hdr(&f)->flags, FPISA_F_PENDING);
	assert_int_equal(harness_hdr(&f)->bitmap, 1);
	send_hello(&j, &f, 1, 50);
	assert_int_equal(harness_hdr(&f)->flags, 0);
	first = harness_hdr(&f)->generation;
	/* asked again: the same; an older incarnation: not let in */
	send_hello(&j, &f, 0, 60);
	assert_int_equal(harness_hdr(&f)->flags, 0);
	assert_int_equal(harness_hdr(&f)->generation, first);
	send_hello(&j, &f, 1, 49);
	assert_int_equal(harness_hdr(&f)->flags, FPISA_F_PENDING);
	assert_int_equal(harness_hdr(&f)->aux, 50);
	/* what an older generation sends is dropped and reported */
	harness->generation = first - 1;
	send_add(&j, &f, 0, 0, 1, 0);
	check_reply(&f, &j, 0);
	assert_int_equal(harness_hdr(&f)->reason, FPISA_V_generation);
	/* open a round, then both come back: a new generation, the old contribution gone */
	harness->generation = first;
	send_add(&j, &f, 0, 0, 100, 0);
	send_hello(&j, &f, 0, 70);
	send_hello(&j, &f, 1, 70);
	assert_int_equal(harness_hdr(&f)->flags, FPISA_F_PENDING);
	send_hello(&j, &f, 0, 70);
	assert_int_equal(harness_hdr(&f)->flags, 0);
	harness->generation = harness_hdr(&f)->generation;
	assert_true(harness->generation > first);
	send_add(&j, &f, 0, 0, 1, 0);
	send_add(&j, &f, 1, 0, 2, 0);
	assert_true(first_value(&f) == 3.0f);
}

/* -- drops ---------------------------------------------------------------- */

struct bad {
	enum fpisa_verdict verdict;
	void (*mutate)(struct frame *f);
	uint32_t key; /* of the counters */
	int keep_checksums; /* leave the checksums as they are */
};

static void mutate_fragment(struct frame *f) { f->data[20] = 0x20; }
static void mutate_ip(struct frame *f) { f->data[24] ^= 1; }
static void mutate_length_ip(struct frame *f) { f->data[16] = 0x0f; f->data[38] = 0x0e; f->data[39] = f->data[17] - 20; }
static void mutate_version(struct frame *f) { harness_hdr(f)->version = 1; }
static void mutate_type(struct frame *f) { harness_hdr(f)->type = FPISA_TYPE_RESULT; }
static void mutate_job(struct frame *f) { harness_hdr(f)->job = 63; }
static void mutate_job_number(struct frame *f) { harness_hdr(f)->job = 1u << 31; }
static void mutate_count(struct frame *f) { harness_hdr(f)->count = N - 32; }
static void mutate_count_zero(struct frame *f) { harness_hdr(f)->count = 0; }
static void mutate_secret(struct frame *f) { harness_hdr(f)->secret ^= 1ull << 63; }
static void mutate_secret_zero(struct frame *f) { harness_hdr(f)->secret = 0; }
static void mutate_source(struct frame *f) { f->data[29] = 200; }
static void mutate_port(struct frame *f) { f->data[34] ^= 1; }
static void mutate_rank(struct frame *f) { harness_hdr(f)->rank = 1; }
static void mutate_rank_range(struct frame *f) { harness_hdr(f)->rank = 64; }
static void mutate_payload(struct frame *f) { harness_payload(f)[17] ^= 1; }
static void mutate_chunk(struct frame *f) { harness_hdr(f)->chunk ^= 4; }
static void mutate_format(struct frame *f) { harness_hdr(f)->format = 99; }
static void mutate_op(struct frame *f) { harness_hdr(f)->op = 99; }
static void mutate_generation(struct frame *f) { harness_hdr(f)->generation++; }
static void mutate_generation_zero(struct frame *f) { harness_hdr(f)->generation = 0; }
static void mutate_slot(struct frame *f) { harness_hdr(f)->slot ^= 2; }
static void mutate_slot_range(struct frame *f) { harness_hdr(f)->slot = 0x7fffffff; }
static void mutate_ahead(struct frame *f) { harness_hdr(f)->chunk += 8; }
static void mutate_digest(struct frame *f) { harness_hdr(f)->digest++; }
static void mutate_call(struct frame *f) { harness_hdr(f)->call++; }

static void mutate_op_other(struct frame *f) { harness_hdr(f)->op = FPISA_OP_MAX; }

static const struct bad bad[] = {
	{ FPISA_V_fragment, mutate_fragment, FPISA_MAX_JOBS, 0 },
	{ FPISA_V_ip_checksum, mutate_ip, FPISA_MAX_JOBS, 1 },
	{ FPISA_V_truncated, mutate_length_ip, FPISA_MAX_JOBS, 0 },
	{ FPISA_V_version, mutate_version, JOB, 0 },
	{ FPISA_V_type, mutate_type, JOB, 0 },
	{ FPISA_V_no_job, mutate_job, FPISA_MAX_JOBS, 0 },
	{ FPISA_V_no_job, mutate_job_number, FPISA_MAX_JOBS, 0 },
	{ FPISA_V_length, mutate_count, JOB, 0 },
	{ FPISA_V_length, mutate_count_zero, JOB, 0 },
	{ FPISA_V_secret, mutate_secret, JOB, 0 },
	{ FPISA_V_secret, mutate_secret_zero, JOB, 0 },
	{ FPISA_V_unknown_peer, mutate_source, JOB, 0 },
	{ FPISA_V_unknown_peer, mutate_port, JOB, 0 },
	{ FPISA_V_rank, mutate_rank, JOB, 0 },
	{ FPISA_V_rank, mutate_rank_range, JOB, 0 },
	{ FPISA_V_checksum, mutate_payload, JOB, 1 },
	{ FPISA_V_checksum, mutate_digest, JOB, 1 },
	{ FPISA_V_format, mutate_format, JOB, 0 },
	{ FPISA_V_op, mutate_op, JOB, 0 },
	{ FPISA_V_generation, mutate_generation, JOB, 0 },
	{ FPISA_V_generation, mutate_generation_zero, JOB, 0 },
	{ FPISA_V_slot, mutate_slot, JOB, 0 },
	{ FPISA_V_slot, mutate_slot_range, JOB, 0 },
	{ FPISA_V_slot, mutate_chunk, JOB, 0 },
	{ FPISA_V_ahead, mutate_ahead, JOB, 0 },
};

struct registers {
	struct fpisa_slot slot[8];
	uint16_t e[8][FPISA_MAX_ELEMENTS];
	int32_t m[8][FPISA_MAX_ELEMENTS];
};

static void snapshot(struct registers *r)
{
	memset(r, 0, sizeof(*r));
	for (uint32_t k = 0; k < 8; k++)
		harness_slot(harness, 16 + k, &r->slot[k], r->e[k], r->m[k]);
}

/*
 * An open round of rank 1 in slot 0; rank 0's contribution arrives mutated in
 * each way: the verdict is counted once, nothing else of the slots changes,
 * and the good frame afterwards completes the round.
 */
static void every_drop(void **state)
{
	static struct registers before, after;

	(void)state;
	NEED_BPF();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct fpisa_job j = make(i & 1 ? FPISA_PIPELINE_FUSED : FPISA_PIPELINE_STAGED, 2);
		uint64_t count = harness_verdict(harness, bad[i].key, bad[i].verdict);
		uint32_t w[N];
		struct frame f;

		send_add(&j, &f, 1, 0, 2, 0);
		snapshot(&before);
		values(w, 1);
		harness_add(&f, harness, &j, JOB, 0, 0, N, w);
		bad[i].mutate(&f);
		if (!bad[i].keep_checksums)
			harness_set_checksums(&f);
		harness_run(harness, &f);
		snapshot(&after);
		if (harness_verdict(harness, bad[i].key, bad[i].verdict) != count + 1)
			fail_msg("case %zu: verdict %d not counted", i, bad[i].verdict);
		assert_memory_equal(&before, &after, sizeof(before));
		if (fpisa_reported(bad[i].verdict)) {
			check_reply(&f, &j, 0);
			assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_ERROR);
			assert_int_equal(harness_hdr(&f)->reason, bad[i].verdict);
		} else {
			assert_int_equal(f.action, XDP_DROP);
		}
		assert_int_equal(send_add(&j, &f, 0, 0, 1, 0), XDP_REDIRECT);
		assert_true(first_value(&f) == 3.0f);
	}
}

/*
 * Ranks that make different calls: the second is told, the registers stay, and
 * the first is told when it asks; so is whoever contributes to any other round
 * of the generation. What was finished before is still to be had.
 */
static void calls_that_differ(void **state)
{
	void (*const mutate[])(struct frame *) = { mutate_digest, mutate_call, mutate_op_other };
	static struct registers before, after;

	(void)state;
	NEED_BPF();
	for (size_t i = 0; i < 2 * sizeof(mutate) / sizeof(mutate[0]); i++) {
		struct fpisa_job j = make(i & 1 ? FPISA_PIPELINE_FUSED : FPISA_PIPELINE_STAGED, 2);
		struct fpisa_session session;
		uint32_t w[N], id = JOB;
		struct frame f;

		send_add(&j, &f, 0, 0, 1, 0);
		assert_int_equal(send_add(&j, &f, 1, 0, 2, 0), XDP_REDIRECT);
		send_add(&j, &f, 1, 1, 2, 0);
		snapshot(&before);
		values(w, 1);
		harness_add(&f, harness, &j, JOB, 0, 1, N, w);
		mutate[i / 2](&f);
		harness_set_checksums(&f);
		harness_run(harness, &f);
		check_reply(&f, &j, 0);
		assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_ERROR);
		assert_int_equal(harness_hdr(&f)->reason, FPISA_V_mismatch);
		for (uint32_t rank = 0; rank < 2; rank++) {
			for (uint64_t chunk = 1; chunk < 4; chunk++) {
				send_add(&j, &f, rank, chunk, 1, FPISA_F_PROBE);
				check_reply(&f, &j, rank);
				assert_int_equal(harness_hdr(&f)->reason, FPISA_V_mismatch);
			}
			send_add(&j, &f, rank, 0, 1, 0);
			assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_RESULT);
			assert_int_equal(harness_hdr(&f)->flags, FPISA_F_RESENT);
			assert_true(first_value(&f) == 3.0f);
		}
		snapshot(&after);
		assert_memory_equal(&before, &after, sizeof(before));
		/* The next generation knows nothing of it. */
		send_hello(&j, &f, 0, 5);
		send_hello(&j, &f, 1, 5);
		send_hello(&j, &f, 0, 5);
		assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(harness->skel->maps.fpisa_sessions), &id, &session), 0);
		harness->generation = session.generation;
		send_add(&j, &f, 0, 0, 1, 0);
		assert_int_equal(send_add(&j, &f, 1, 0, 2, 0), XDP_REDIRECT);
		assert_true(first_value(&f) == 3.0f);
	}
}

/* -- who may speak ------------------------------------------------------------- */

struct members {
	struct fpisa_session session;
	struct fpisa_peer peer[2];
};

static void look(struct members *m)
{
	uint32_t id = JOB;

	memset(m, 0, sizeof(*m));
	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(harness->skel->maps.fpisa_sessions), &id, &m->session), 0);
	for (uint32_t r = 0; r < 2; r++) {
		uint32_t key = JOB * FPISA_MAX_WORKERS + r;

		assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(harness->skel->maps.fpisa_peers), &key, &m->peer[r]), 0);
	}
}

/* Two ranks in a generation, rank 0 at a place of its own. */
static struct fpisa_job joined(void)
{
	struct fpisa_job j = make(FPISA_PIPELINE_FUSED, 2);
	struct frame f;

	for (int i = 0; i < 4; i++)
		send_hello(&j, &f, i % 2, 50);
	assert_int_equal(harness_hdr(&f)->flags, 0);
	harness->generation = harness_hdr(&f)->generation;
	return j;
}

/* A HELLO of whoever can write the source address and knows job and token, but has heard no answer. */
static void hello_without_cookie(void **state)
{
	const uint64_t incarnations[] = { 1, 49, 50, 51, (1ull << 63) - 1 };
	const uint64_t guesses[] = { 0, 1, ~0ull };
	struct members before, after;
	struct fpisa_job j;
	struct frame f;

	(void)state;
	NEED_BPF();
	j = joined();
	look(&before);
	for (size_t i = 0; i < sizeof(incarnations) / sizeof(incarnations[0]); i++) {
		for (size_t g = 0; g < sizeof(guesses) / sizeof(guesses[0]); g++) {
			harness_hello(&f, &j, JOB, 0, incarnations[i]);
			f.data[11] ^= 0x40;
			harness_hdr(&f)->secret = guesses[g];
			harness_hdr(&f)->chunk = 7;
			harness_set_checksums(&f);
			harness_run(harness, &f);
			assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_WELCOME);
			assert_int_equal(harness_hdr(&f)->flags, FPISA_F_PENDING | FPISA_F_CHALLENGE);
			assert_int_equal(harness_hdr(&f)->secret, fpisa_cookie(&j.key, 0, incarnations[i]));
			assert_int_equal(harness_hdr(&f)->chunk, 7);
			assert_true(harness_checksums_right(&f));
			for (uint32_t k = 0; k < sizeof(struct fpisa_hello) / 4; k++)
				assert_int_equal(harness_payload(&f)[k], 0);
		}
	}
	/* Another life's cookie, or another rank's. */
	harness_hello(&f, &j, JOB, 0, 51);
	harness_hdr(&f)->secret = fpisa_cookie(&j.key, 0, 50);
	harness_set_checksums(&f);
	harness_run(harness, &f);
	assert_true(harness_hdr(&f)->flags & FPISA_F_CHALLENGE);
	harness_hello(&f, &j, JOB, 0, 51);
	harness_hdr(&f)->secret = fpisa_cookie(&j.key, 1, 51);
	harness_set_checksums(&f);
	harness_run(harness, &f);
	assert_true(harness_hdr(&f)->flags & FPISA_F_CHALLENGE);
	look(&after);
	assert_memory_equal(&before, &after, sizeof(before));
	send_add(&j, &f, 0, 0, 1, 0);
	assert_int_equal(send_add(&j, &f, 1, 0, 2, 0), XDP_REDIRECT);
	assert_true(first_value(&f) == 3.0f);
	/* Results do not tell what contributions need. */
	assert_int_equal(harness_hdr(&f)->secret, before.session.results);
	for (uint32_t r = 0; r < 2; r++)
		assert_int_not_equal(harness_hdr(&f)->secret, before.session.secret[r]);
}

/* A HELLO of an earlier life comes late and from elsewhere: it moves nothing. Nor does one that no life may send. */
static void late_hello(void **state)
{
	struct members before, after;
	uint64_t refused;
	struct fpisa_job j;
	struct frame f;

	(void)state;
	NEED_BPF();
	j = joined();
	look(&before);
	harness_hello(&f, &j, JOB, 0, 49);
	f.data[11] ^= 0x40;
	harness_run(harness, &f);
	assert_int_equal(harness_hdr(&f)->type, FPISA_TYPE_WELCOME);
	assert_int_equal(harness_hdr(&f)->flags, FPISA_F_PENDING);
	assert_int_equal(harness_hdr(&f)->aux, 50);
	refused = harness_verdict(harness, JOB, FPISA_V_incarnation);
	for (int i = 0; i < 3; i++) {
		harness_hello(&f, &j, JOB, 0, (uint64_t[]){ 0, 1ull << 63, ~0ull }[i]);
		harness_run(harness, &f);
		assert_int_equal(f.action, XDP_DROP);
	}
	assert_int_equal(harness_verdict(harness, JOB, FPISA_V_incarnation), refused + 3);
	refused = harness_verdict(harness, JOB, FPISA_V_token);
	harness_hello(&f, &j, JOB, 0, 51);
	((struct fpisa_hello *)harness_payload(&f))->token ^= 1;
	harness_set_checksums(&f);
	harness_run(harness, &f);
	assert_int_equal(f.action, XDP_DROP);
	assert_int_equal(harness_verdict(harness, JOB, FPISA_V_token), refused + 1);
	look(&after);
	assert_memory_equal(&before, &after, sizeof(before));
	/* The same life from another place is one that moved. */
	harness_hello(&f, &j, JOB, 0, 50);
	f.data[11] ^= 0x40;
	harness_run(harness, &f);
	look(&after);
	assert_int_equal(after.peer[0].mac[5], before.peer[0].mac[5] ^ 0x40);
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
	assert_int_equal(s.guard, 0);
	s.guard = 1;
	assert_int_equal(bpf_map_update_elem(fd, &key, &s, BPF_ANY), 0);
	uint64_t busy = harness_verdict(harness, JOB, FPISA_V_busy);

	assert_int_equal(send_add(&j, &f, 1, 0, 2, 0), XDP_DROP);
	assert_int_equal(harness_verdict(harness, JOB, FPISA_V_busy), busy + 1);
	s.guard = 0;
	assert_int_equal(bpf_map_update_elem(fd, &key, &s, BPF_ANY), 0);
	assert_int_equal(send_add(&j, &f, 1, 0, 2, 0), XDP_REDIRECT);
	assert_true(first_value(&f) == 3.0f);
}

/* -- not ours ---------------------------------------------------------------- */

static void foreign_port(struct frame *f) { f->data[37] ^= 1; }
static void foreign_magic(struct frame *f) { harness_hdr(f)->magic = 0x1234; }
static void foreign_tcp(struct frame *f) { f->data[23] = 6; }
static void foreign_ipv6(struct frame *f) { f->data[12] = 0x86; f->data[13] = 0xdd; }
static void foreign_vlan(struct frame *f) { f->data[12] = 0x81; f->data[13] = 0; }
static void foreign_options(struct frame *f) { f->data[14] = 0x46; }
static void foreign_fragment(struct frame *f) { f->data[21] = 9; }
static void foreign_short(struct frame *f) { f->len = 36; }
static void foreign_udp_only(struct frame *f) { f->len = 43; }
static void foreign_address(struct frame *f) { f->data[33] ^= 7; }
static void foreign_random(struct frame *f)
{
	struct vectors_rng rng = { 42 };

	for (uint32_t i = 0; i < f->len; i++)
		f->data[i] = (uint8_t)vectors_next(&rng);
}

static void passes_unchanged(struct frame *f)
{
	static struct frame copy;

	copy = *f;
	harness_run(harness, f);
	assert_int_equal(f->action, XDP_PASS);
	assert_int_equal(f->len, copy.len);
	assert_memory_equal(f->data, copy.data, copy.len);
}

static void others_pass_untouched(void **state)
{
	void (*const change[])(struct frame *) = {
		foreign_port, foreign_magic, foreign_tcp, foreign_ipv6, foreign_vlan, foreign_options,
		foreign_fragment, foreign_short, foreign_udp_only, foreign_address, foreign_random,
	};
	struct fpisa_job j;

	(void)state;
	NEED_BPF();
	j = make(FPISA_PIPELINE_STAGED, 2);
	for (size_t i = 0; i < sizeof(change) / sizeof(change[0]); i++) {
		static struct frame f;
		uint32_t w[N];

		values(w, 1);
		harness_add(&f, harness, &j, JOB, 0, 0, N, w);
		change[i](&f);
		if (change[i] == foreign_address)
			harness_set_checksums(&f);
		passes_unchanged(&f);
	}
}

/* -- for somebody else ------------------------------------------------------- */

static void no_change(struct frame *f) { (void)f; }
static void text(struct frame *f) { f->len = 60; memset(f->data + 44, 'X', 16); }
static void cut(struct frame *f) { f->len -= 64; }
static void wrong_sum(struct frame *f) { f->data[24] ^= 1; }

/* Another aggregator's, which this machine forwards, and what merely begins like ours: whatever is wrong with it. */
static void other_addresses_pass(void **state)
{
	void (*const change[])(struct frame *) = { no_change, mutate_job, mutate_job_number, mutate_fragment, mutate_length_ip,
						   mutate_version, text, cut, wrong_sum };
	uint64_t counted, dropped;
	struct fpisa_job j;
	static struct frame f;

	(void)state;
	NEED_BPF();
	j = make(FPISA_PIPELINE_FUSED, 2);
	counted = harness_verdict(harness, FPISA_MAX_JOBS, FPISA_V_wrong_destination);
	for (size_t i = 0; i < sizeof(change) / sizeof(change[0]); i++) {
		harness_add(&f, harness, &j, JOB, 0, 0, N, NULL);
		/* Of a job that is not there: what job 5 of another aggregator carries is judged by job 5's address. */
		if (change[i] == no_change)
			harness_hdr(&f)->job = 62;
		f.data[33] ^= 7;
		if (change[i] != wrong_sum)
			change[i](&f);
		harness_set_checksums(&f);
		if (change[i] == wrong_sum)
			change[i](&f);
		passes_unchanged(&f);
	}
	/* Those with a job number that is there count there: short ones do not say it. */
	counted = harness_verdict(harness, FPISA_MAX_JOBS, FPISA_V_wrong_destination) - counted;
	assert_int_equal(counted, 4);
	/* To the job's address all of that is dropped. */
	dropped = harness_verdict(harness, FPISA_MAX_JOBS, FPISA_V_truncated);
	harness_add(&f, harness, &j, JOB, 0, 0, N, NULL);
	text(&f);
	harness_run(harness, &f);
	assert_int_equal(f.action, XDP_DROP);
	assert_int_equal(harness_verdict(harness, FPISA_MAX_JOBS, FPISA_V_truncated), dropped + 1);
}

/* -- several ports --------------------------------------------------------------- */

/* Four ports for 16 slots: every contribution comes to each of them, and is taken by that of its slot alone. */
static void slots_have_ports(void **state)
{
	struct fpisa_job j = { .workers = 2, .elements = N, .window = 16, .ports = 4, .slot_base = 16 };
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
		/* The other rank completes the round; a late copy has the kept result from the first port too. */
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

/* HELLO belongs to the first port; a job of one port shares the datapath with one of four. */
static void first_port(void **state)
{
	struct fpisa_job j = { .workers = 2, .ports = 4 }, one = { .workers = 2, .elements = N, .window = 16 };
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
	c = (struct fpisa_control){ .more_ports = 3 };
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

/* The ports behind the first are others' too: what is not ours there, and all to ports that no job has, passes. */
static void others_pass_at_all_ports(void **state)
{
	void (*const change[])(struct frame *) = { foreign_magic, foreign_tcp, foreign_options, foreign_fragment,
						   foreign_udp_only, foreign_address };
	static struct frame f;

	(void)state;
	NEED_BPF();
	for (uint8_t ports = 1; ports <= FPISA_MAX_PORTS; ports *= 2) {
		struct fpisa_job j = { .workers = 2, .elements = N, .window = 16, .ports = ports };

		harness_job(harness, JOB, &j);
		for (uint32_t port = 0; port <= FPISA_MAX_PORTS; port++) {
			for (size_t i = 0; i < sizeof(change) / sizeof(change[0]); i++) {
				harness_add(&f, harness, &j, JOB, 0, 0, N, NULL);
				harness_port(&f, port);
				if (port < ports)
					change[i](&f);
				if (change[i] == foreign_address)
					harness_set_checksums(&f);
				passes_unchanged(&f);
			}
		}
		/* The port below the first. */
		harness_add(&f, harness, &j, JOB, 0, 0, N, NULL);
		harness_port(&f, -1u);
		harness_run(harness, &f);
		assert_int_equal(f.action, XDP_PASS);
	}
}

/* Ethernet pads short frames; what follows the IP packet is not ours. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_in_any_order),
		cmocka_unit_test(late_and_early_chunks),
		cmocka_unit_test(probe_names_who_is_there),
		cmocka_unit_test(shrink_completes_open_rounds),
		cmocka_unit_test(avg_divides_by_contributors),
		cmocka_unit_test(factors_must_agree),
		cmocka_unit_test(join_begins_generations),
		cmocka_unit_test(every_drop),
		cmocka_unit_test(calls_that_differ),
		cmocka_unit_test(hello_without_cookie),
		cmocka_unit_test(late_hello),
		cmocka_unit_test(busy_slot),
		cmocka_unit_test(others_pass_untouched),
		cmocka_unit_test(other_addresses_pass),
		cmocka_unit_test(padded_frame),
		cmocka_unit_test(slots_have_ports),
		cmocka_unit_test(first_port),
		cmocka_unit_test(others_pass_at_all_ports),
	};

	return cmocka_run_group_tests_name("prog/protocol", tests, harness_setup, harness_teardown);
}
