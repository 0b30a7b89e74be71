/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test IPv6 in the kernel. Every kind of answer has the right headers, whatever else is in the frame. Frames with
 * extension headers, for other addresses or of another family pass unchanged. Randomly damaged frames pass or are
 * dropped as doc/wire.md says. The headers here are written and read byte by byte. harness_run() checks the UDP
 * checksum of each frame that leaves.
 */
#include "lab/testbed/frame.h"
#include "protocol.h"
#include "vectors.h"

#define IP6 14
#define UDP6 54
#define OURS6 62
#define MORE 20 /* bytes by which the headers are longer than over IPv4 */

static const uint8_t aggregator[16] = {0x20, 1, 0xd, 0xb8, 0, 7, [15] = 0xfe};
static const uint8_t group[16] = {0xff, 0x15, [12] = 0xff, 0x46, 0x50, JOB};

static void worker(uint8_t to[16], uint32_t rank)
{
	memcpy(to, aggregator, 16);
	to[10] = 0x80;
	to[15] = (uint8_t)(rank + 1);
}

static struct fpisa_job make_ipv6(uint8_t pipeline, uint64_t token, uint8_t fanout, uint16_t vlan)
{
	struct fpisa_job j = {.workers = 2,
			      .elements = N,
			      .window = 4,
			      .pipeline = pipeline,
			      .token = token,
			      .slot_base = 16,
			      .vlan = vlan};
	uint32_t id = JOB;

	harness_job(harness, JOB, &j);
	j.fanout = fanout;
	j.group = FPISA_NO_ADDRESS;
	if (fanout == FPISA_FANOUT_MULTICAST)
		memcpy(&j.group, group, 16);
	memcpy(&j.address, aggregator, 16);
	for (uint32_t r = 0; r < j.workers; r++)
		worker(j.rank[r].addr.b, r);
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(harness->skel->maps.fpisa_jobs), &id, &j, BPF_ANY), 0);
	return j;
}

/* Give a frame that was made for IPv4 the headers of IPv6, with traffic class 0xb8 + ECT(0) and a flow label. */
static void to_ipv6(struct frame *f, uint32_t rank)
{
	uint16_t len = (uint16_t)(f->len - 34);
	uint8_t *ip = f->data + IP6;

	memmove(f->data + UDP6, f->data + 34, len);
	f->len += MORE;
	f->data[12] = 0x86;
	f->data[13] = 0xdd;
	memcpy(ip, (uint8_t[]){0x6b, 0xa1, 0x23, 0x45, (uint8_t)(len >> 8), (uint8_t)len, 17, 3}, 8);
	worker(ip + 8, rank);
	memcpy(ip + 24, aggregator, 16);
}

/* Check the IPv6 header and the port of an answer, and turn it into a frame over IPv4, with the addresses that job_of() knows. */
static void from_ipv6(struct frame *f, const uint8_t to[16], uint16_t port)
{
	const uint8_t *ip = f->data + IP6;
	uint16_t len = (uint16_t)(ip[4] << 8 | ip[5]), sum;

	assert_true(harness_is_ipv6(f) && f->len >= (uint32_t)UDP6 + len);
	assert_int_equal(ip[0], 0x60);
	/* ECT(0), and a flow label that is not 0 */
	assert_int_equal(ip[1] & 0xf0, 0x20);
	assert_true(ip[1] & 0xf || ip[2] || ip[3]);
	assert_int_equal(ip[6], 17);
	assert_int_equal(ip[7], 64);
	assert_memory_equal(ip + 8, aggregator, 16);
	assert_memory_equal(ip + 24, to, 16);
	assert_int_equal(f->data[UDP6] << 8 | f->data[UDP6 + 1], FPISA_PORT);
	assert_int_equal(f->data[UDP6 + 2] << 8 | f->data[UDP6 + 3], port);
	assert_int_equal(f->data[UDP6 + 4] << 8 | f->data[UDP6 + 5], len);
	f->len -= MORE;
	memmove(f->data + 34, f->data + UDP6, f->len - 34);
	memcpy(f->data + 12, (uint8_t[]){8, 0, 0x45, 0, (uint8_t)((len + 20) >> 8), (uint8_t)(len + 20)}, 6);
	memset(f->data + 18, 0, 16);
	sum = frame_ip_checksum(f->data + 14);
	memcpy(f->data + 24, &sum, sizeof(sum));
}

static int run(struct frame *f, uint16_t vlan)
{
	if (vlan)
		harness_tag(f, 0x8100, vlan);
	harness_run(harness, f);
	return f->action;
}

static int send_ipv6(const struct fpisa_job *j, struct frame *f, uint32_t rank, uint64_t chunk, float v, uint8_t flags)
{
	uint32_t w[N];

	values(w, v);
	harness_add(f, harness, j, JOB, rank, chunk, N, w);
	harness_hdr(f)->flags = flags;
	harness_set_checksums(f);
	to_ipv6(f, rank);
	return run(f, j->vlan);
}

/* Check an answer to rank `rank`, sent where its frame came from. */
static void check_answer(struct frame *f, uint32_t rank, uint8_t type)
{
	uint8_t to[16];

	worker(to, rank);
	assert_memory_equal(f->data, ((uint8_t[]){2, 0, 0, 0, 1, (uint8_t)rank, 2, 0, 0, 0, 0, 0xfe}), 12);
	from_ipv6(f, to, FPISA_PORT);
	assert_true(harness_checksums_right(f));
	assert_int_equal(harness_hdr(f)->type, type);
}

static void check_result(struct frame *f, const struct fpisa_job *j)
{
	static const uint8_t none[16];
	const bool all = j->fanout == FPISA_FANOUT_MULTICAST;

	if (all)
		assert_memory_equal(f->data, ((uint8_t[]){0x33, 0x33, 0xff, 0x46, 0x50, JOB}), 6);
	from_ipv6(f, all ? group : none, FPISA_PORT);
	assert_true(harness_checksums_right(f) && first_value(f) == 3.75f);
}

static void answers(void **state)
{
	(void)state;
	NEED_BPF();
	for (uint32_t k = 0; k < 16; k++) {
		struct fpisa_job j = make_ipv6(k & 1 ? FPISA_PIPELINE_STAGED : FPISA_PIPELINE_FUSED, k & 2 ? 0x1234 : 0,
					       k & 4 ? FPISA_FANOUT_UNICAST : FPISA_FANOUT_MULTICAST, k & 8 ? 7 : 0);
		const struct fpisa_hello *hello;
		struct frame f;

		assert_int_equal(send_ipv6(&j, &f, 0, 0, 1.5f, 0), XDP_DROP);
		assert_int_equal(send_ipv6(&j, &f, 0, 0, 1.5f, FPISA_F_PROBE), XDP_REDIRECT);
		assert_int_equal(f.vlan, j.vlan);
		check_answer(&f, 0, FPISA_TYPE_STATUS);
		assert_int_equal(send_ipv6(&j, &f, 1, 0, 2.25f, 0), XDP_REDIRECT);
		assert_int_equal(f.vlan, j.vlan);
		check_result(&f, &j);
		assert_int_equal(send_ipv6(&j, &f, 1, 0, 2.25f, FPISA_F_RETRANSMIT), XDP_REDIRECT);
		check_answer(&f, 1, FPISA_TYPE_RESULT);
		assert_true(first_value(&f) == 3.75f);
		harness->generation--;
		assert_int_equal(send_ipv6(&j, &f, 0, 1, 1, 0), XDP_REDIRECT);
		harness->generation++;
		check_answer(&f, 0, FPISA_TYPE_ERROR);
		assert_int_equal(harness_hdr(&f)->reason, FPISA_V_generation);
		harness_hello(&f, &j, JOB, 1, 50);
		to_ipv6(&f, 1);
		assert_int_equal(run(&f, j.vlan), XDP_REDIRECT);
		check_answer(&f, 1, FPISA_TYPE_WELCOME);
		hello = (const struct fpisa_hello *)harness_payload(&f);
		assert_int_equal(hello->address, 0);
		assert_memory_equal(&hello->group, j.group.b + 12, 4);
		assert_memory_equal(hello->group_high, j.group.b, 12);
	}
}

/* Send the frame. It passes unchanged, and the verdict is counted once, for job `id`. */
static void passes(struct frame *f, enum fpisa_verdict v, uint32_t id)
{
	uint64_t counted = harness_verdict(harness, id, v);

	passes_unchanged(f);
	assert_int_equal(harness_verdict(harness, id, v), counted + 1);
}

static void make_frame(struct frame *f, const struct fpisa_job *j)
{
	harness_add(f, harness, j, JOB, 0, 0, N, NULL);
	to_ipv6(f, 0);
}

static void others_pass(void **state)
{
	static const uint8_t extensions[] = {0, 43, 44, 50, 51, 60, 135, 139, 140}, others[] = {1, 2, 6, 58, 59, 255};
	struct fpisa_job j;
	struct frame f;

	(void)state;
	NEED_BPF();
	j = make_ipv6(FPISA_PIPELINE_FUSED, 0, FPISA_FANOUT_MULTICAST, 0);
	for (size_t i = 0; i < sizeof(extensions); i++) {
		make_frame(&f, &j);
		f.data[IP6 + 6] = extensions[i];
		passes(&f, FPISA_V_extension, FPISA_MAX_JOBS);
		make_frame(&f, &j);
		f.data[IP6 + 6] = extensions[i];
		f.data[IP6 + 39] ^= 1; /* for another machine */
		passes(&f, FPISA_V_not_ours, FPISA_MAX_JOBS);
	}
	for (size_t i = 0; i < sizeof(others); i++) {
		make_frame(&f, &j);
		f.data[IP6 + 6] = others[i];
		passes(&f, FPISA_V_not_ours, FPISA_MAX_JOBS);
	}
	/* An IPv4 frame to the last four bytes of the job's address, and the same address as a mapped one */
	harness_add(&f, harness, &j, JOB, 0, 0, N, NULL);
	passes(&f, FPISA_V_wrong_destination, JOB);
	j = make(FPISA_PIPELINE_FUSED, 2);
	make_frame(&f, &j);
	memcpy(f.data + IP6 + 24, &j.address, 16);
	memcpy(f.data + IP6 + 8, &j.rank[0].addr, 16);
	assert_int_equal((harness_run(harness, &f), f.action), XDP_DROP);
	make_frame(&f, &j);
	passes(&f, FPISA_V_wrong_destination, JOB);
}

#define QUOTED 62 /* byte of the frame where the quoted IPv6 header starts */

/* Make the message that the path to `rank` has MTU 1300. It quotes the first 124 bytes of a result. */
static void make_too_big(struct frame *f, const struct fpisa_job *j, uint32_t rank)
{
	uint8_t quoted[124];

	harness_add(f, harness, j, JOB, rank, 0, N, NULL);
	to_ipv6(f, rank);
	memcpy(quoted, f->data + IP6, sizeof(quoted));
	memcpy(quoted + 8, aggregator, 16);
	worker(quoted + 24, rank);
	f->data[IP6 + 6] = 58;
	memcpy(f->data + UDP6, (uint8_t[]){2, 0, 0, 0, 0, 0, 1300 >> 8, 1300 & 0xff}, 8);
	memcpy(f->data + QUOTED, quoted, sizeof(quoted));
	f->len = QUOTED + sizeof(quoted);
}

/* Check that exactly the message about a frame of the job is counted. */
static void path_mtus(void **state)
{
	/* version and next header, type, then the quoted next header, source, destination, port, magic and job */
	static const uint32_t matters[] = {IP6,		IP6 + 6,     UDP6,	  QUOTED + 6, QUOTED + 23,
					   QUOTED + 39, QUOTED + 43, QUOTED + 48, QUOTED + 56};
	struct fpisa_job j;
	struct frame f;

	(void)state;
	NEED_BPF();
	j = make_ipv6(FPISA_PIPELINE_FUSED, 0, FPISA_FANOUT_UNICAST, 0);
	for (size_t i = 0; i < sizeof(matters) / sizeof(matters[0]); i++) {
		make_too_big(&f, &j, 1);
		f.data[matters[i]] ^= 0x40;
		icmp_passes(&f, false);
	}
	assert_int_equal(path_mtu(1), 0);
	make_too_big(&f, &j, 1);
	icmp_passes(&f, true);
	assert_int_equal(path_mtu(1), 1300);
	assert_int_equal(path_mtu(0), 0);
}

/* Return whether the frame passes to the stack by the rules of doc/wire.md. */
static bool foreign(const struct frame *f)
{
	const uint8_t *d = f->data;

	if (f->len < OURS6 + 2 || d[12] != 0x86 || d[13] != 0xdd || d[IP6] >> 4 != 6 || d[IP6 + 6] != 17)
		return true;
	if ((d[UDP6 + 2] << 8 | d[UDP6 + 3]) != FPISA_PORT || d[OURS6] != 'F' || d[OURS6 + 1] != 'P')
		return true;
	return memcmp(d + IP6 + 24, aggregator, 16) != 0;
}

/*
 * Change one byte of the headers, or cut the frame, and compare the outcome with foreign(). The values are added only
 * if the frame is whole.
 */
static void damage(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	uint32_t passed = 0, taken = 0;
	struct fpisa_job j;
	struct frame f;

	(void)state;
	NEED_BPF();
	for (uint32_t i = 0; i < 3000; i++) {
		uint64_t accepted;
		bool pass, whole;

		j = make_ipv6(FPISA_PIPELINE_FUSED, 0, FPISA_FANOUT_MULTICAST, 0);
		make_frame(&f, &j);
		if (vectors_below(&rng, 3))
			f.data[vectors_below(&rng, OURS6 + 76)] ^= (uint8_t)(1 + vectors_below(&rng, 255));
		else
			f.len = 14 + vectors_below(&rng, f.len - 14);
		/* Skip tags, which this test does not model. */
		if (f.data[12] == 0x81 || f.data[12] == 0x88)
			continue;
		accepted = harness_verdict(harness, JOB, FPISA_V_accepted);
		pass = foreign(&f);
		whole = f.len == OURS6 + 76 + 4 * N;
		if (pass) {
			passes_unchanged(&f);
			passed++;
		} else {
			harness_run(harness, &f);
			assert_int_not_equal(f.action, XDP_PASS);
			taken++;
		}
		if (pass || !whole)
			assert_int_equal(harness_verdict(harness, JOB, FPISA_V_accepted), accepted);
	}
	assert_true(passed > 300 && taken > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers),
		cmocka_unit_test(others_pass),
		cmocka_unit_test(path_mtus),
		cmocka_unit_test(damage),
	};

	return cmocka_run_group_tests_name("prog/ipv6", tests, harness_setup, harness_teardown);
}
