/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reach each reason of a drop in the kernel. The drop is counted and does not change the state. Test also ranks whose
 * calls differ.
 */
#include <stdlib.h>
#include <unistd.h>
#include "protocol.h"

#define TOKEN 0x1122334455667788ull

struct bad {
	enum fpisa_verdict verdict;
	void (*mutate)(struct frame *f);
	uint32_t key;
	int keep_checksums; /* leave the checksums unchanged */
	uint64_t token;
};

static void mutate_ip(struct frame *f)
{
	f->data[24] ^= 1;
}
static void mutate_type(struct frame *f)
{
	harness_hdr(f)->type = FPISA_TYPE_RESULT;
}
static void mutate_count(struct frame *f)
{
	harness_hdr(f)->count = N - 32;
}
static void mutate_count_zero(struct frame *f)
{
	harness_hdr(f)->count = 0;
}
static void mutate_secret(struct frame *f)
{
	harness_hdr(f)->secret ^= 1ull << 63;
}
static void mutate_secret_zero(struct frame *f)
{
	harness_hdr(f)->secret = 0;
}
static void mutate_source(struct frame *f)
{
	f->data[29] = 200;
}
static void mutate_port(struct frame *f)
{
	f->data[34] ^= 1;
}
static void mutate_rank(struct frame *f)
{
	harness_hdr(f)->rank = 1;
}
static void mutate_rank_range(struct frame *f)
{
	harness_hdr(f)->rank = 64;
}
static void mutate_payload(struct frame *f)
{
	harness_payload(f)[17] ^= 1;
}
static void mutate_chunk(struct frame *f)
{
	harness_hdr(f)->chunk ^= 4;
}
static void mutate_format(struct frame *f)
{
	harness_hdr(f)->format = 99;
}
static void mutate_op(struct frame *f)
{
	harness_hdr(f)->op = 99;
}
static void mutate_generation(struct frame *f)
{
	harness_hdr(f)->generation++;
}
static void mutate_generation_zero(struct frame *f)
{
	harness_hdr(f)->generation = 0;
}
static void mutate_slot(struct frame *f)
{
	harness_hdr(f)->slot ^= 2;
}
static void mutate_slot_range(struct frame *f)
{
	harness_hdr(f)->slot = 0x7fffffff;
}
static void mutate_ahead(struct frame *f)
{
	harness_hdr(f)->chunk += 8;
}
static void mutate_chunk_and_slot(struct frame *f)
{
	harness_hdr(f)->chunk++, harness_hdr(f)->slot += 2;
}
static void mutate_checksum(struct frame *f)
{
	harness_hdr(f)->checksum = 1;
}
static void mutate_cookie(struct frame *f)
{
	harness_hdr(f)->bitmap ^= 1;
}
static void mutate_digest(struct frame *f)
{
	harness_hdr(f)->digest++;
}
static void mutate_call(struct frame *f)
{
	harness_hdr(f)->call++;
}
static void mutate_op_other(struct frame *f)
{
	harness_hdr(f)->op = FPISA_OP_MAX;
}

static const struct bad bad[] = {
	{FPISA_V_fragment, mutate_fragment, FPISA_MAX_JOBS, 0},
	{FPISA_V_ip_checksum, mutate_ip, FPISA_MAX_JOBS, 1},
	{FPISA_V_truncated, mutate_length_ip, FPISA_MAX_JOBS, 0},
	{FPISA_V_version, mutate_version, JOB, 0},
	{FPISA_V_type, mutate_type, JOB, 0},
	{FPISA_V_no_job, mutate_job, FPISA_MAX_JOBS, 0},
	{FPISA_V_no_job, mutate_job_number, FPISA_MAX_JOBS, 0},
	{FPISA_V_length, mutate_count, JOB, 0},
	{FPISA_V_length, mutate_count_zero, JOB, 0},
	{FPISA_V_secret, mutate_secret, JOB, 0},
	{FPISA_V_secret, mutate_secret_zero, JOB, 0},
	{FPISA_V_unknown_peer, mutate_source, JOB, 0},
	{FPISA_V_unknown_peer, mutate_port, JOB, 0},
	{FPISA_V_rank, mutate_rank, JOB, 0},
	{FPISA_V_rank, mutate_rank_range, JOB, 0},
	{FPISA_V_checksum, mutate_payload, JOB, 1},
	{FPISA_V_checksum, mutate_digest, JOB, 1},
	{FPISA_V_tag, mutate_payload, JOB, 1, TOKEN},
	{FPISA_V_tag, mutate_chunk_and_slot, JOB, 1, TOKEN},
	{FPISA_V_tag, mutate_secret, JOB, 1, TOKEN},
	{FPISA_V_tag, mutate_checksum, JOB, 1, TOKEN},
	{FPISA_V_secret, mutate_cookie, JOB, 0, TOKEN},
	{FPISA_V_generation, mutate_generation, JOB, 0, TOKEN},
	{FPISA_V_format, mutate_format, JOB, 0},
	{FPISA_V_op, mutate_op, JOB, 0},
	{FPISA_V_generation, mutate_generation, JOB, 0},
	{FPISA_V_generation, mutate_generation_zero, JOB, 0},
	{FPISA_V_slot, mutate_slot, JOB, 0},
	{FPISA_V_slot, mutate_slot_range, JOB, 0},
	{FPISA_V_slot, mutate_chunk, JOB, 0},
	{FPISA_V_ahead, mutate_ahead, JOB, 0},
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
 * Check every drop. Rank 1 has opened a round in slot 0, and rank 0's contribution arrives with each mutation. The
 * verdict is counted once, no other part of the slots changes, and the valid frame afterwards completes the round.
 */
static void every_drop(void **state)
{
	static struct registers before, after;

	(void)state;
	NEED_BPF();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct fpisa_job j = make_with(i & 1 ? FPISA_PIPELINE_FUSED : FPISA_PIPELINE_STAGED, 2, bad[i].token);
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
			assert_true(harness_checksums_right(&f));
		} else {
			assert_int_equal(f.action, XDP_DROP);
		}
		assert_int_equal(send_add(&j, &f, 0, 0, 1, 0), XDP_REDIRECT);
		assert_true(first_value(&f) == 3.0f);
	}
}

/*
 * Check ranks that make different calls. The second rank gets an ERROR, and the registers do not change. The first rank
 * gets an ERROR when it asks, as does a rank that contributes to any other round of the generation. Finished results
 * are still available.
 */
static void calls_that_differ(void **state)
{
	void (*const mutate[])(struct frame *) = {mutate_digest, mutate_call, mutate_op_other};
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
		/* The next generation is not affected. */
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

/* -- states that `fpisa` never makes, but other programs that write the maps may make ---- */

static void put_ports(const struct bpf_devmap_val *to, uint32_t at)
{
	int ports = bpf_map_create(BPF_MAP_TYPE_DEVMAP, "ports", sizeof(at), sizeof(*to), FPISA_MAX_WORKERS, NULL);
	uint32_t id = JOB;

	assert_true(ports >= 0);
	if (to)
		assert_int_equal(bpf_map_update_elem(ports, &at, to, BPF_ANY), 0);
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(harness->skel->maps.fpisa_fanout), &id, &ports, BPF_ANY), 0);
	close(ports);
}

/*
 * Check a job without ports, and a job whose devices are all gone. The result is stored, and a rank gets it on request.
 */
static void no_port(void **state)
{
	const struct bpf_devmap_val lo = {.ifindex = 1};

	(void)state;
	NEED_BPF();
	for (int left = 0; left < 4; left++) {
		struct fpisa_job j = make(FPISA_PIPELINE_FUSED, 2);
		uint64_t lost = harness_verdict(harness, JOB, FPISA_V_fanout);
		uint64_t results = harness_verdict(harness, JOB, FPISA_V_result);
		uint32_t id = JOB;
		struct frame f;

		if (left == 0)
			assert_int_equal(bpf_map_delete_elem(bpf_map__fd(harness->skel->maps.fpisa_fanout), &id), 0);
		else
			put_ports(left > 1 ? &lo : NULL, left == 2 ? 0 : FPISA_MAX_WORKERS - 1);
		send_add(&j, &f, 0, 0, 1, 0);
		assert_int_equal(send_add(&j, &f, 1, 0, 2, 0), left > 1 ? XDP_REDIRECT : XDP_DROP);
		assert_int_equal(harness_verdict(harness, JOB, FPISA_V_fanout), lost + (left < 2));
		assert_int_equal(harness_verdict(harness, JOB, FPISA_V_result), results + (left > 1));
		assert_int_equal(send_add(&j, &f, 0, 0, 1, 0), XDP_REDIRECT);
		assert_int_equal(harness_hdr(&f)->flags, FPISA_F_RESENT);
		assert_true(first_value(&f) == 3.0f);
	}
	put_ports(&lo, 0);
}

/*
 * Check a handmade exact job whose family lacks the registers for mode exact. No sum is computed, and its slot does not
 * change.
 */
static void no_registers(void **state)
{
	struct fpisa_job j = {.workers = 2,
			      .elements = N,
			      .mode = FPISA_MODE_EXACT,
			      .slot_base = 2 * FPISA_DEFAULT_SLOTS / FPISA_EXACT_SHARE};
	struct fpisa_slot before, after;

	(void)state;
	NEED_BPF();
	for (j.pipeline = FPISA_PIPELINE_STAGED; j.pipeline <= FPISA_PIPELINE_FUSED; j.pipeline++) {
		uint64_t count;
		struct frame f;

		harness_job(harness, JOB, &j);
		assert_true(fpisa_family_limbs(j.family));
		count = harness_verdict(harness, JOB, FPISA_V_internal);
		harness_slot(harness, j.slot_base, &before, NULL, NULL);
		for (uint32_t rank = 0; rank < 2; rank++)
			assert_int_equal(send_add(&j, &f, rank, 0, 1, 0), XDP_DROP);
		assert_int_equal(harness_verdict(harness, JOB, FPISA_V_internal), count + 2);
		harness_slot(harness, j.slot_base, &after, NULL, NULL);
		assert_memory_equal(&before, &after, sizeof(before));
	}
}

/* Check a stage whose PHV names a job that does not exist. The frame is dropped, and its slot is unlocked. */
static void no_job_halfway(void **state)
{
	struct bpf_map *m = harness ? harness->skel->maps.fpisa_phv : NULL;
	const uint32_t key = 16, zero = 0;
	size_t size = m ? bpf_map__value_size(m) : 0;
	struct fpisa_slot slot = {.lock = 1};
	uint32_t *phv;

	(void)state;
	NEED_BPF();
	size = (size + 7) / 8 * 8;
	phv = calloc((size_t)harness->cpus, size);
	assert_non_null(phv);
	for (int cpu = 0; cpu < harness->cpus; cpu++) {
		phv[(size_t)cpu * size / 4 + 1] = FPISA_MAX_JOBS; /* the PHV's job number */
		phv[(size_t)cpu * size / 4 + 2] = key;
	}
	for (int k = 3; k <= 8; k++) {
		char name[16];
		struct fpisa_job j = make(FPISA_PIPELINE_STAGED, 2);
		uint64_t count = harness_verdict(harness, FPISA_MAX_JOBS, FPISA_V_internal);
		uint8_t out[HARNESS_FRAME];
		struct frame f;
		LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f.data, .data_out = out, .data_size_out = sizeof(out),
			    .repeat = 1);

		if (k > 4 && k < 8)
			continue;
		/* After MAU3, both the next stage and its substitute are missing. */
		harness_hole(harness, 0, 4);
		harness_hole(harness, 0, FPISA_ADMISSION);
		harness_add(&f, harness, &j, JOB, 0, 0, N, NULL);
		o.data_size_in = f.len;
		assert_int_equal(bpf_map_update_elem(bpf_map__fd(m), &zero, phv, BPF_ANY), 0);
		assert_int_equal(
			bpf_map_update_elem(bpf_map__fd(harness->skel->maps.fpisa_slots), &key, &slot, BPF_ANY), 0);
		snprintf(name, sizeof(name), "fpisa_mau%d", k);
		assert_int_equal(bpf_prog_test_run_opts(
					 bpf_program__fd(bpf_object__find_program_by_name(harness->skel->obj, name)), &o),
				 0);
		assert_int_equal(o.retval, XDP_DROP);
		assert_int_equal(harness_verdict(harness, FPISA_MAX_JOBS, FPISA_V_internal), count + 1);
		harness_slot(harness, key, &slot, NULL, NULL);
		assert_int_equal(slot.lock, 0);
		slot.lock = 1;
		harness_stages(harness, HARNESS_PROGRAMS);
	}
	free(phv);
}

/*
 * Check a round that cannot be read out because other prefixes fill the trie. The round stays open, and completes once
 * the trie has room.
 */
static void full_trie(void **state)
{
	struct fpisa_job j = {.workers = 2, .elements = N, .pipeline = FPISA_PIPELINE_STAGED, .clz = FPISA_CLZ_LPM};
	int trie, control;
	struct fpisa_control c;
	uint32_t zero = 0;
	uint64_t busy;
	struct frame f;

	(void)state;
	NEED_BPF();
	trie = bpf_map__fd(harness->skel->maps.fpisa_lpm);
	control = bpf_map__fd(harness->skel->maps.fpisa_control);
	for (uint32_t lz = 0; lz < 32; lz++) {
		const uint32_t key[] = {lz + 1, htonl(0x80000000u >> lz)};

		bpf_map_delete_elem(trie, key);
	}
	for (uint32_t i = 0; i < bpf_map__max_entries(harness->skel->maps.fpisa_lpm); i++) {
		const uint32_t key[] = {32, htonl(i + 2)};

		assert_int_equal(bpf_map_update_elem(trie, key, &zero, BPF_ANY), 0);
	}
	assert_int_equal(bpf_map_lookup_elem(control, &zero, &c), 0);
	c.trie_state = 0;
	assert_int_equal(bpf_map_update_elem(control, &zero, &c, BPF_ANY), 0);
	harness_job(harness, JOB, &j);
	busy = harness_verdict(harness, JOB, FPISA_V_busy);
	for (uint32_t rank = 0; rank < 2; rank++)
		assert_int_equal(send_add(&j, &f, rank, 0, 1, 0), XDP_DROP);
	assert_int_equal(harness_verdict(harness, JOB, FPISA_V_busy), busy + 2);
	for (uint32_t i = 0; i < bpf_map__max_entries(harness->skel->maps.fpisa_lpm); i++) {
		const uint32_t key[] = {32, htonl(i + 2)};

		assert_int_equal(bpf_map_delete_elem(trie, key), 0);
	}
	send_add(&j, &f, 0, 0, 1, 0);
	assert_int_equal(send_add(&j, &f, 1, 0, 1, 0), XDP_REDIRECT);
	assert_true(first_value(&f) == 2.0f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_drop),	cmocka_unit_test(calls_that_differ), cmocka_unit_test(no_port),
		cmocka_unit_test(no_registers), cmocka_unit_test(no_job_halfway),    cmocka_unit_test(full_trie),
	};

	return cmocka_run_group_tests_name("prog/drops", tests, harness_setup, harness_teardown);
}
