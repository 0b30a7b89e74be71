/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test frames that leave a port through the egress program, as live frames over a veth in a namespace of this process.
 * Copies are addressed one after the other, and again if a result is fanned out twice. A copy for which no rank is left
 * is dropped and counted. Other frames pass unchanged. A copy for a rank that does not keep the result has no payload.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cmocka.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "fpisa_egress.skel.h"
#include "harness.h"
#include "vectors.h"

#define JOB 5
#define N 32
#define WAIT_MS 3000
#define QUIET_MS 200

static struct fpisa_egress_bpf *egress;
static int redirect = -1, far = -1, ports = -1;
static uint32_t near_index;

static int load(const struct bpf_insn *insns, size_t n)
{
	int fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "test", "GPL", insns, n, NULL);

	assert_true(fd >= 0);
	return fd;
}

/* Create a veth pair. A frame redirected to v0 comes out of v1, which polls because it has a program. */
static void make_link(void)
{
	const struct bpf_insn pass[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = XDP_PASS},
					{.code = BPF_JMP | BPF_EXIT}};
	struct sockaddr_ll ll = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	int prog = load(pass, 2);

	assert_int_equal(system("ip link add v0 type veth peer name v1 && ip link set v0 up && ip link set v1 up"), 0);
	near_index = if_nametoindex("v0");
	ll.sll_ifindex = (int)if_nametoindex("v1");
	assert_int_equal(bpf_xdp_attach(ll.sll_ifindex, prog, XDP_FLAGS_DRV_MODE, NULL), 0);
	close(prog);
	far = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
	assert_int_equal(bind(far, (struct sockaddr *)&ll, sizeof(ll)), 0);
}

static void load_egress(void)
{
	struct bpf_devmap_val val = {.ifindex = near_index};
	struct bpf_map *m;
	uint32_t zero = 0;

	egress = fpisa_egress_bpf__open();
	assert_non_null(egress);
	bpf_object__for_each_map(m, egress->obj) {
		int fd = bpf_object__find_map_fd_by_name(harness->skel->obj, bpf_map__name(m));

		bpf_map__set_pin_path(m, NULL);
		if (!bpf_map__is_internal(m))
			assert_int_equal(bpf_map__reuse_fd(m, fd), 0);
	}
	assert_int_equal(fpisa_egress_bpf__load(egress), 0);
	val.bpf_prog.fd = bpf_program__fd(egress->progs.fpisa_egress);
	ports = bpf_map_create(BPF_MAP_TYPE_DEVMAP, "ports", sizeof(zero), sizeof(val), 1, NULL);
	assert_int_equal(bpf_map_update_elem(ports, &zero, &val, BPF_ANY), 0);
}

static int setup(void **state)
{
	struct bpf_insn insns[] = {
		{.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = BPF_REG_1, .src_reg = BPF_PSEUDO_MAP_FD},
		{.code = 0},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_2},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map},
		{.code = BPF_JMP | BPF_EXIT},
	};
	cpu_set_t one;

	harness_setup(state);
	if (!harness)
		return 0;
	/* The kernel keeps the order of copies on each CPU. */
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(unshare(CLONE_NEWNET), 0);
	make_link();
	load_egress();
	insns[0].imm = ports;
	redirect = load(insns, sizeof(insns) / sizeof(insns[0]));
	return 0;
}

static int teardown(void **state)
{
	fpisa_egress_bpf__destroy(egress);
	close(redirect);
	close(ports);
	close(far);
	return harness_teardown(state);
}

static void send_out(const struct frame *f)
{
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f->data, .data_size_in = f->len, .repeat = 1,
		    .flags = BPF_F_TEST_XDP_LIVE_FRAMES);

	assert_int_equal(bpf_prog_test_run_opts(redirect, &o), 0);
}

/* Return the length of the next outgoing frame, ignoring IPv6 frames, or 0 after the time limit. */
static uint32_t came_out(uint8_t *data, int wait_ms)
{
	struct pollfd p = {.fd = far, .events = POLLIN};

	while (poll(&p, 1, wait_ms) > 0) {
		ssize_t n = recv(far, data, HARNESS_FRAME, 0);

		if (n > 0 && (data[12] != 0x86 || data[13] != 0xdd))
			return (uint32_t)n;
	}
	return 0;
}

static void passes(const struct frame *f)
{
	uint8_t data[HARNESS_FRAME];

	send_out(f);
	assert_int_equal(came_out(data, WAIT_MS), f->len);
	assert_memory_equal(data, f->data, f->len);
}

static void set_udp_checksum(struct frame *f)
{
	uint16_t check = htons(harness_udp_checksum(f));

	memcpy(f->data + 40, &check, sizeof(check));
}

/* Create a job of three unicast workers. Ranks 0 and 2 are behind v0. */
static struct fpisa_job make(struct frame *copy)
{
	struct fpisa_job j = {.workers = 3, .elements = N};
	uint32_t id = JOB, unaddressed = 0;

	harness_job(harness, JOB, &j);
	j.fanout = FPISA_FANOUT_UNICAST;
	j.group = FPISA_NO_ADDRESS;
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(harness->skel->maps.fpisa_jobs), &id, &j, BPF_ANY), 0);
	for (uint32_t r = 0; r < j.workers; r++) {
		struct fpisa_peer peer = {.mac = {2, 0, 0, 0, 7, (uint8_t)r},
					  .local_mac = {2, 0, 0, 0, 0, 1},
					  .ifindex = r == 1 ? 1 : near_index};
		uint32_t key = JOB * FPISA_MAX_WORKERS + r;

		assert_int_equal(
			bpf_map_update_elem(bpf_map__fd(harness->skel->maps.fpisa_peers), &key, &peer, BPF_ANY), 0);
	}
	harness_add(copy, harness, &j, JOB, 0, 0, N, NULL);
	harness_hdr(copy)->type = FPISA_TYPE_RESULT;
	memcpy(copy->data + 26, &j.address.w[3], 4);
	memcpy(copy->data + 30, &unaddressed, 4);
	harness_set_checksums(copy);
	set_udp_checksum(copy);
	return j;
}

/* Remove all live ranks behind v0. */
static void nobody_behind(struct fpisa_job j)
{
	uint32_t id = JOB;

	j.live = 1 << 1;
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(harness->skel->maps.fpisa_jobs), &id, &j, BPF_ANY), 0);
}

static void copies_are_addressed(void **state)
{
	static struct frame f, got;
	uint64_t lost;
	struct fpisa_job j;

	(void)state;
	NEED_BPF();
	j = make(&f);
	lost = harness_counters(harness, JOB).unaddressed;
	/* Fan the result out twice, as a leaf does if its parent sends the result again. */
	for (uint32_t i = 0, r = 0; i < 4; i++, r = 2 - r) {
		send_out(&f);
		got.len = came_out(got.data, WAIT_MS);
		assert_int_equal(got.len, f.len);
		assert_true(harness_checksums_right(&got) && harness_udp_checksum_right(&got));
		assert_memory_equal(got.data + 30, &j.rank[r].addr.w[3], 4);
		assert_memory_equal(got.data + 36, &j.rank[r].port, 2);
		assert_memory_equal(got.data, ((uint8_t[]){2, 0, 0, 0, 7, (uint8_t)r}), 6);
	}
	/* Send a copy when no rank is behind the port. */
	nobody_behind(j);
	send_out(&f);
	assert_int_equal(came_out(got.data, QUIET_MS), 0);
	assert_int_equal(harness_counters(harness, JOB).unaddressed, lost + 1);
}

/* Choose a payload for which the UDP checksum of rank 0's copy would be 0, because 0 means no checksum. */
static void aim(struct frame *f, const struct fpisa_job *j)
{
	static struct frame copy;
	uint16_t word = 0;

	for (int pass = 0; pass < 2; pass++) {
		memcpy(harness_payload(f), &word, sizeof(word));
		copy = *f;
		memcpy(copy.data + 30, &j->rank[0].addr.w[3], 4);
		memcpy(copy.data + 36, &j->rank[0].port, 2);
		word = htons(harness_udp_checksum(&copy));
	}
	assert_int_equal(word, 0xffff);
}

static void checksums_of_copies(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	static struct frame f, got;

	(void)state;
	NEED_BPF();
	for (int i = 0; i < 60; i++) {
		struct fpisa_job j = make(&f);
		uint32_t *payload = harness_payload(&f);

		for (uint32_t k = 0; k < N; k++)
			payload[k] = (uint32_t)vectors_next(&rng);
		if (i % 3 == 1)
			aim(&f, &j);
		set_udp_checksum(&f);
		/* A copy without a checksum stays without a checksum when it is addressed. */
		if (i % 3 == 2)
			memset(f.data + 40, 0, 2);
		send_out(&f);
		got.len = came_out(got.data, WAIT_MS);
		assert_int_equal(got.len, f.len);
		if (i % 3 == 2)
			assert_memory_equal(got.data + 40, f.data + 40, 2);
		else
			assert_true(harness_udp_checksum_right(&got));
	}
}

static void others_pass(void **state)
{
	static struct frame f;
	struct vectors_rng rng = {42};

	(void)state;
	NEED_BPF();
	/* Send replies of the datapath, to one rank or to a multicast address. */
	make(&f);
	f.data[33] = 9;
	passes(&f);
	harness_hdr(&f)->type = FPISA_TYPE_STATUS;
	passes(&f);
	/* The frame comes from another aggregator, whose job is unknown on this host. */
	harness_hdr(&f)->type = FPISA_TYPE_RESULT;
	harness_hdr(&f)->job = 62;
	passes(&f);
	/* Send a frame that is shorter than the headers, and a frame that is not IPv4. */
	make(&f);
	f.len = FPISA_PAYLOAD_OFFSET - 1;
	passes(&f);
	f.len = 60;
	passes(&f);
	make(&f);
	f.data[23] = IPPROTO_TCP;
	passes(&f);
	for (uint32_t i = 12; i < f.len; i++)
		f.data[i] = (uint8_t)vectors_next(&rng);
	passes(&f);
}

/* -- results that only some ranks keep ------------------------------------- */

#define MOST_RANKS 6

static struct vectors_rng dice;

/* Make a unicast job of random parameters, whose ranks are all behind v0. */
static struct fpisa_job draw_job(void)
{
	struct fpisa_job j = {.workers = 1 + vectors_below(&dice, MOST_RANKS),
			      .elements = N,
			      .token = vectors_below(&dice, 2) * 77,
			      .pipeline = vectors_below(&dice, 2) ? FPISA_PIPELINE_FUSED : FPISA_PIPELINE_STAGED};
	uint32_t id = JOB;

	harness_job(harness, JOB, &j);
	j.fanout = FPISA_FANOUT_UNICAST;
	j.group = FPISA_NO_ADDRESS;
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(harness->skel->maps.fpisa_jobs), &id, &j, BPF_ANY), 0);
	for (uint32_t r = 0; r < j.workers; r++) {
		struct fpisa_peer peer = {.mac = {2, 0, 0, 0, 7, (uint8_t)r}, .ifindex = near_index};
		uint32_t key = JOB * FPISA_MAX_WORKERS + r;

		assert_int_equal(
			bpf_map_update_elem(bpf_map__fd(harness->skel->maps.fpisa_peers), &key, &peer, BPF_ANY), 0);
	}
	return j;
}

static void send_contribution(struct frame *f, const struct fpisa_job *j, uint32_t rank, uint64_t chunk,
			      uint16_t keepers, const uint32_t *values)
{
	harness_add(f, harness, j, JOB, rank, chunk, N, values);
	harness_hdr(f)->contributors = keepers;
	harness_set_checksums(f);
	harness_run(harness, f);
}

/* Add one contribution of each rank to the chunk. asked[r] names the keepers in that of rank r. The result is left in *f. */
static void sum(struct frame *f, const struct fpisa_job *j, uint64_t chunk, const uint16_t *asked, uint32_t (*values)[N])
{
	for (uint32_t r = 0; r < j->workers; r++)
		send_contribution(f, j, r, chunk, asked[r], values[r]);
	assert_int_equal(f->action, XDP_REDIRECT);
	assert_int_equal(harness_hdr(f)->type, FPISA_TYPE_RESULT);
	assert_int_equal(harness_hdr(f)->contributors, j->workers);
}

/* Check the frame of a rank. It has the payload of `whole` if the rank keeps the result, and otherwise no payload. */
static void has_payload_if(struct frame *got, bool keeps, const struct frame *whole)
{
	assert_int_equal(got->len, keeps ? whole->len : FPISA_PAYLOAD_OFFSET);
	assert_int_equal(harness_hdr(got)->count, keeps ? N : 0);
	assert_memory_equal(got->data + FPISA_PAYLOAD_OFFSET, whole->data + FPISA_PAYLOAD_OFFSET,
			    got->len - FPISA_PAYLOAD_OFFSET);
	assert_true(harness_checksums_right(got) && harness_udp_checksum_right(got));
}

/* Compare all copies of a result, and the results that ranks request later, with `whole`, the result that all keep. */
static void check_copies(const struct frame *result, const struct fpisa_job *j, uint16_t keepers, const uint16_t *asked,
			 uint32_t (*values)[N], const struct frame *whole)
{
	static struct frame got;

	for (uint32_t r = 0; r < j->workers; r++) {
		send_out(result);
		got.len = came_out(got.data, WAIT_MS);
		assert_memory_equal(got.data + 30, &j->rank[r].addr.w[3], 4);
		has_payload_if(&got, fpisa_keeps(keepers, r), whole);
	}
	for (uint32_t r = 0; r < j->workers; r++) {
		send_contribution(&got, j, r, 1, asked[r], values[r]);
		assert_int_equal(got.action, XDP_REDIRECT);
		assert_int_equal(harness_hdr(&got)->flags, FPISA_F_RESENT);
		has_payload_if(&got, fpisa_keeps(keepers, r), whole);
	}
}

/*
 * Sum random values, first for all ranks and then for some. The payload has the same bits, and only the ranks that keep
 * the result get it. If the ranks name different keepers, all get it.
 */
static void keepers_get_the_payload(void **state)
{
	static struct frame whole, result;

	(void)state;
	NEED_BPF();
	dice.state = vectors_seed();
	for (int i = 0; i < 60; i++) {
		const struct fpisa_job j = draw_job();
		const uint32_t first = vectors_below(&dice, j.workers), last = vectors_below(&dice, j.workers);
		uint16_t all[MOST_RANKS] = {0}, asked[MOST_RANKS], keepers = fpisa_keepers(first, last);
		uint32_t values[MOST_RANKS][N];

		vectors_fill(dice.state, (uint64_t)i, (int)j.workers, N, values[0]);
		for (uint32_t r = 0; r < j.workers; r++)
			asked[r] = keepers;
		if (j.workers > 1 && vectors_below(&dice, 3) == 0) {
			asked[vectors_below(&dice, j.workers)] = vectors_below(&dice, 2) ? 0 : fpisa_keepers(63, 63);
			keepers = FPISA_KEEPERS_ALL;
		}
		sum(&whole, &j, 0, all, values);
		assert_int_equal(harness_hdr(&whole)->rank, FPISA_KEEPERS_ALL);
		sum(&result, &j, 1, asked, values);
		assert_int_equal(harness_hdr(&result)->rank, keepers);
		check_copies(&result, &j, keepers, asked, values, &whole);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_are_addressed),
		cmocka_unit_test(checksums_of_copies),
		cmocka_unit_test(others_pass),
		cmocka_unit_test(keepers_get_the_payload),
	};

	return cmocka_run_group_tests_name("prog/egress", tests, setup, teardown);
}
