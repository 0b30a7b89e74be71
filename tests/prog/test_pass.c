/* SPDX-License-Identifier: GPL-2.0-only */
/* Foreign frames, and frames for another host, pass the loaded datapath unchanged at every port. */
#include "protocol.h"
#include "vectors.h"

static void foreign_port(struct frame *f)
{
	f->data[37] ^= 1;
}
static void foreign_magic(struct frame *f)
{
	harness_hdr(f)->magic = 0x1234;
}
static void foreign_tcp(struct frame *f)
{
	f->data[23] = 6;
}
static void foreign_ipv6(struct frame *f)
{
	f->data[12] = 0x86;
	f->data[13] = 0xdd;
}
static void foreign_vlan(struct frame *f)
{
	f->data[12] = 0x81;
	f->data[13] = 0;
}
static void foreign_options(struct frame *f)
{
	f->data[14] = 0x46;
}
static void foreign_fragment(struct frame *f)
{
	f->data[21] = 9;
}
static void foreign_short(struct frame *f)
{
	f->len = 36;
}
static void foreign_udp_only(struct frame *f)
{
	f->len = 43;
}
static void foreign_address(struct frame *f)
{
	f->data[33] ^= 7;
}
static void foreign_random(struct frame *f)
{
	struct vectors_rng rng = {42};

	for (uint32_t i = 0; i < f->len; i++)
		f->data[i] = (uint8_t)vectors_next(&rng);
}

static void others_pass_untouched(void **state)
{
	void (*const change[])(struct frame *) = {
		foreign_port,	  foreign_magic, foreign_tcp,	   foreign_ipv6,    foreign_vlan,   foreign_options,
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

/* -- frames for another host ------------------------------------------------- */

static void no_change(struct frame *f)
{
	(void)f;
}
static void text(struct frame *f)
{
	f->len = 60;
	memset(f->data + 44, 'X', 16);
}
static void cut(struct frame *f)
{
	f->len -= 64;
}
static void wrong_sum(struct frame *f)
{
	f->data[24] ^= 1;
}

/* Check that frames for another aggregator, which this machine forwards, pass with any error in them. */
static void other_addresses_pass(void **state)
{
	void (*const change[])(struct frame *) = {
		no_change, mutate_job, mutate_job_number, mutate_fragment, mutate_length_ip, mutate_version,
		text,	   cut,	       wrong_sum};
	uint64_t counted, dropped;
	struct fpisa_job j;
	static struct frame f;

	(void)state;
	NEED_BPF();
	j = make(FPISA_PIPELINE_FUSED, 2);
	counted = harness_verdict(harness, FPISA_MAX_JOBS, FPISA_V_wrong_destination);
	for (size_t i = 0; i < sizeof(change) / sizeof(change[0]); i++) {
		harness_add(&f, harness, &j, JOB, 0, 0, N, NULL);
		/*
		 * The job must not exist. Otherwise a frame to job 5 of another aggregator is compared with the address
		 * of the local job 5.
		 */
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
	/* Frames with the number of an existing job count for that job. Short frames do not carry a number. */
	counted = harness_verdict(harness, FPISA_MAX_JOBS, FPISA_V_wrong_destination) - counted;
	assert_int_equal(counted, 4);
	/* Short frames to the job's address are dropped. */
	dropped = harness_verdict(harness, FPISA_MAX_JOBS, FPISA_V_truncated);
	harness_add(&f, harness, &j, JOB, 0, 0, N, NULL);
	text(&f);
	harness_run(harness, &f);
	assert_int_equal(f.action, XDP_DROP);
	assert_int_equal(harness_verdict(harness, FPISA_MAX_JOBS, FPISA_V_truncated), dropped + 1);
}

/* Check that foreign frames pass at the additional ports, and that all frames pass at ports that no job has. */
static void others_pass_at_all_ports(void **state)
{
	void (*const change[])(struct frame *) = {foreign_magic,    foreign_tcp,      foreign_options,
						  foreign_fragment, foreign_udp_only, foreign_address};
	static struct frame f;

	(void)state;
	NEED_BPF();
	for (uint8_t ports = 1; ports <= FPISA_MAX_PORTS; ports *= 2) {
		struct fpisa_job j = {.workers = 2, .elements = N, .window = 16, .ports = ports};

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
		/* Use the port below the first port. */
		harness_add(&f, harness, &j, JOB, 0, 0, N, NULL);
		harness_port(&f, -1u);
		harness_run(harness, &f);
		assert_int_equal(f.action, XDP_PASS);
	}
}

/* -- ICMP messages about results ------------------------------------------------- */

#define QUOTED 42 /* byte of the frame where the quoted IP header starts */

/* Make the message that the path to `rank` has this MTU. It quotes the first 104 bytes of a result. */
static void make_too_big(struct frame *f, const struct fpisa_job *j, uint32_t rank, uint16_t mtu)
{
	uint8_t quoted[104];

	harness_add(f, harness, j, JOB, rank, 0, N, NULL);
	memcpy(quoted, f->data + 14, sizeof(quoted));
	memcpy(quoted + 12, f->data + 30, 4); /* from the aggregator, to the rank */
	memcpy(quoted + 16, f->data + 26, 4);
	f->data[23] = 1;
	memcpy(f->data + 34, (uint8_t[]){3, 4, 0, 0, 0, 0, (uint8_t)(mtu >> 8), (uint8_t)mtu}, 8);
	memcpy(f->data + QUOTED, quoted, sizeof(quoted));
	f->len = QUOTED + sizeof(quoted);
}

/* Check that exactly the message about a frame of the job is counted, and that the rank keeps the smallest MTU. */
static void path_mtus(void **state)
{
	/* IHL and protocol, type and code, then the quoted IHL, protocol, source, destination, port, magic and job */
	static const uint32_t matters[] = {14,		23,	     34,	  35,	       QUOTED,	   QUOTED + 9,
					   QUOTED + 15, QUOTED + 19, QUOTED + 23, QUOTED + 28, QUOTED + 36};
	struct fpisa_job j;
	struct frame f;

	(void)state;
	NEED_BPF();
	j = make(FPISA_PIPELINE_FUSED, 2);
	for (size_t i = 0; i < sizeof(matters) / sizeof(matters[0]); i++) {
		make_too_big(&f, &j, 1, 1300);
		f.data[matters[i]] ^= 0x40;
		icmp_passes(&f, false);
	}
	for (f.len = 0; f.len < QUOTED + 40; f.len += 13) {
		uint32_t len = f.len < 14 ? 14 : f.len;

		make_too_big(&f, &j, 1, 1300);
		f.len = len;
		icmp_passes(&f, false);
	}
	assert_int_equal(path_mtu(1), 0);
	for (uint16_t mtu = 1300; mtu < 1500; mtu += 100) {
		make_too_big(&f, &j, 1, mtu);
		icmp_passes(&f, true);
		assert_int_equal(path_mtu(1), 1300);
	}
	make_too_big(&f, &j, 1, 1200);
	harness_tag(&f, 0x8100, 7);
	icmp_passes(&f, true);
	assert_int_equal(path_mtu(1), 1200);
	assert_int_equal(path_mtu(0), 0);
	/* A new incarnation of the rank may have another path. */
	send_hello(&j, &f, 1, 5);
	send_hello(&j, &f, 1, 5);
	assert_int_equal(path_mtu(1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(others_pass_untouched),
		cmocka_unit_test(other_addresses_pass),
		cmocka_unit_test(others_pass_at_all_ports),
		cmocka_unit_test(path_mtus),
	};

	return cmocka_run_group_tests_name("prog/pass", tests, harness_setup, harness_teardown);
}
