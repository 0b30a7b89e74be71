/* SPDX-License-Identifier: GPL-2.0-only */
/* Test joining in the kernel, frame by frame: generations, and the senders that may act for a rank. */
#include "protocol.h"
#include "lab/testbed/frame.h"

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
	assert_int_equal(p->group, j.group.w[3]);
	assert_int_equal(p->address, j.address.w[3]);
	assert_int_equal(p->mode, FPISA_MODE_FPISA);
	/* rank 0 is new, so rank 1 has to send HELLO again, because it may have died meanwhile */
	send_hello(&j, &f, 0, 60);
	assert_int_equal(harness_hdr(&f)->flags, FPISA_F_PENDING);
	assert_int_equal(harness_hdr(&f)->bitmap, 1);
	send_hello(&j, &f, 1, 50);
	assert_int_equal(harness_hdr(&f)->flags, 0);
	first = harness_hdr(&f)->generation;
	/* a repeated HELLO gets the same answer, and an older incarnation is not admitted */
	send_hello(&j, &f, 0, 60);
	assert_int_equal(harness_hdr(&f)->flags, 0);
	assert_int_equal(harness_hdr(&f)->generation, first);
	send_hello(&j, &f, 1, 49);
	assert_int_equal(harness_hdr(&f)->flags, FPISA_F_PENDING);
	assert_int_equal(harness_hdr(&f)->aux, 50);
	/* frames of an older generation are dropped, and their senders get an ERROR */
	harness->generation = first - 1;
	send_add(&j, &f, 0, 0, 1, 0);
	check_reply(&f, &j, 0);
	assert_int_equal(harness_hdr(&f)->reason, FPISA_V_generation);
	/* open a round, then both ranks join again, and the new generation does not have the old contribution */
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

/* -- permitted senders --------------------------------------------------------- */

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

		assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(harness->skel->maps.fpisa_peers), &key, &m->peer[r]),
				 0);
	}
}

/* Make two ranks in a generation. Rank 0 has its own address and port. */
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

/* Check a HELLO whose sender forges the source address and knows job and token, but has not received an answer. */
static void hello_without_cookie(void **state)
{
	const uint64_t incarnations[] = {1, 49, 50, 51, (1ull << 63) - 1};
	const uint64_t guesses[] = {0, 1, ~0ull};
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
	/* Use the cookie of another incarnation, or of another rank. */
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
	/* Results do not carry the secret that contributions need. */
	assert_int_equal(harness_hdr(&f)->secret, before.session.results);
	for (uint32_t r = 0; r < 2; r++)
		assert_int_not_equal(harness_hdr(&f)->secret, before.session.secret[r]);
}

/*
 * Check that a late HELLO of an earlier incarnation from another address changes nothing. A HELLO of an invalid
 * incarnation changes nothing either.
 */
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
		harness_hello(&f, &j, JOB, 0, (uint64_t[]){0, 1ull << 63, ~0ull}[i]);
		harness_run(harness, &f);
		assert_int_equal(f.action, XDP_DROP);
	}
	assert_int_equal(harness_verdict(harness, JOB, FPISA_V_incarnation), refused + 3);
	refused = harness_verdict(harness, JOB, FPISA_V_token);
	harness_hello(&f, &j, JOB, 0, 51);
	((struct fpisa_hello *)harness_payload(&f))->proof ^= 1;
	harness_hdr(&f)->checksum = frame_checksum(harness_hdr(&f), harness_payload(&f), sizeof(struct fpisa_hello));
	harness_run(harness, &f);
	assert_int_equal(f.action, XDP_DROP);
	assert_int_equal(harness_verdict(harness, JOB, FPISA_V_token), refused + 1);
	look(&after);
	assert_memory_equal(&before, &after, sizeof(before));
	/* The same incarnation from another address is a rank that moved. */
	harness_hello(&f, &j, JOB, 0, 50);
	f.data[11] ^= 0x40;
	harness_run(harness, &f);
	look(&after);
	assert_int_equal(after.peer[0].mac[5], before.peer[0].mac[5] ^ 0x40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(join_begins_generations),
		cmocka_unit_test(hello_without_cookie),
		cmocka_unit_test(late_hello),
	};

	return cmocka_run_group_tests_name("prog/join", tests, harness_setup, harness_teardown);
}
