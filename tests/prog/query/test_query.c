/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test frames of queries through the entry program: allowed senders, answers, receivers, and state that a new epoch
 * clears. Then two CPUs work on one query, with FPISA_ROUNDS frames of each worker, 2000 by default.
 */
#define _GNU_SOURCE /* for CPU sets */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <linux/bpf.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include "queries.h"
#include "query_oracle.h"
#include "lab/testbed/frame.h"
#include "vectors.h"

#define JOB 5
#define WORKERS 2
#define MASTER WORKERS
#define ROWS 100

static struct query q;
static struct vectors_rng rng;
static uint64_t token; /* token of new queries; 0: no token */

static void open_query(unsigned int kind, uint32_t limit)
{
	q = (struct query){.token = token,
			   .config = {.job = JOB, .key_bytes = 4, .limit = limit, .seed = vectors_next(&rng)}};
	query_open(&q, harness, kind, WORKERS);
}

/* Send keys first .. first + count - 1, each once, with this value. */
static void send_rows(struct frame *f, uint32_t rank, uint64_t sequence, uint32_t first, uint32_t count, float value,
		      bool last)
{
	uint8_t packed[FPISA_QUERY_ROWS * 8], *to = packed;

	for (uint32_t i = 0; i < count; i++) {
		const uint64_t key[FPISA_KEY_WORDS] = {first + i};

		to = query_pack(to, &q.config, key, value, 1);
	}
	query_rows(f, &q, rank, sequence, count, packed, last);
	harness_run(harness, f);
}

static void expect(struct frame *f, uint8_t type, uint32_t count)
{
	assert_int_equal(f->action, XDP_REDIRECT);
	assert_true(harness_checksums_right(f));
	assert_int_equal(harness_hdr(f)->type, type);
	assert_int_equal(harness_hdr(f)->count, count);
}

static void expect_to(const struct frame *f, uint32_t rank, uint32_t payload)
{
	const uint8_t mac[] = {2, 0, 0, 0, 1, (uint8_t)rank};
	__be16 port;
	__be32 to;

	assert_memory_equal(f->data, mac, sizeof(mac));
	memcpy(&to, f->data + 30, sizeof(to));
	memcpy(&port, f->data + 36, sizeof(port));
	assert_int_equal(to, q.job.rank[rank].addr.w[3]);
	assert_int_equal(port, q.job.rank[rank].port);
	assert_int_equal(f->len, FPISA_PAYLOAD_OFFSET + payload);
}

/*
 * Check that the frame proves to `rank` that it comes from the aggregator. The proof is the rank's cookie, or the tag,
 * which expect() has checked. No other rank's cookie may be in the frame.
 */
static void expect_shown(struct frame *f, uint32_t rank)
{
	if (token)
		assert_int_not_equal(harness_hdr(f)->bitmap,
				     fpisa_cookie(&q.job.key, rank == MASTER ? 1 : MASTER, HARNESS_INCARNATION));
	else
		assert_int_equal(harness_hdr(f)->secret, fpisa_cookie(&q.job.key, rank, HARNESS_INCARNATION));
}

static void expect_error(struct frame *f, enum fpisa_verdict why)
{
	expect(f, FPISA_TYPE_ERROR, 0);
	assert_int_equal(harness_hdr(f)->reason, why);
}

static uint64_t seal_frame(struct frame *f, uint64_t a, uint64_t b)
{
	const uint64_t last[WORKERS] = {a, b};

	query_seal(f, &q, last);
	harness_run(harness, f);
	expect(f, FPISA_TYPE_STATUS, 0);
	return harness_hdr(f)->bitmap;
}

static void read_groups(struct frame *f, uint64_t first, uint32_t count)
{
	query_frame(f, &q, FPISA_TYPE_READ, MASTER, first, count, sizeof(struct fpisa_query_group), NULL);
	harness_run(harness, f);
}

/*
 * Check a table of three groups with five keys. The remaining rows go to the master, the frame is acknowledged, and all
 * groups can be read.
 */
static void table_once(void)
{
	struct fpisa_query_counters c;
	struct fpisa_query_group g;
	struct frame f;
	uint32_t row[2];

	open_query(FPISA_QUERY_TABLE, 3);
	send_rows(&f, 0, 1, 0, 3, 1.5f, false);
	expect(&f, FPISA_TYPE_ACK, 0);
	expect_to(&f, 0, 0);
	expect_shown(&f, 0);
	send_rows(&f, 1, 1, 1, 4, 2, false);
	for (int copy = 0; copy < 2; copy++) {
		expect(&f, FPISA_TYPE_ROWS, 2);
		expect_to(&f, MASTER, 32);
		assert_int_equal(harness_hdr(&f)->rank, 1);
		assert_int_equal(harness_hdr(&f)->chunk, 1);
		expect_shown(&f, MASTER);
		memcpy(row, harness_payload(&f) + 2, sizeof(row));
		assert_int_equal(row[0], 4);
		send_rows(&f, 1, 1, 1, 4, 2, false);
	}
	query_frame(&f, &q, FPISA_TYPE_ACK, MASTER, 1, 0, 0, NULL);
	harness_hdr(&f)->slot = 1;
	harness_set_checksums(&f);
	harness_run(harness, &f);
	expect(&f, FPISA_TYPE_ACK, 0);
	expect_to(&f, 1, 0);
	assert_int_equal(harness_hdr(&f)->rank, 1);
	expect_shown(&f, 1);
	read_groups(&f, 0, 8);
	expect_error(&f, FPISA_V_unsealed);
	/* The last frame goes to the master, although no row is left in it. */
	send_rows(&f, 0, 2, 0, 1, 1, true);
	expect(&f, FPISA_TYPE_ROWS, 0);
	expect_to(&f, MASTER, 0);
	assert_int_equal(harness_hdr(&f)->flags, FPISA_F_LAST);
	assert_int_equal(seal_frame(&f, 3, 1), 1);
	assert_int_equal(seal_frame(&f, 2, 0), 2);
	assert_int_equal(seal_frame(&f, 2, 1), 0);
	assert_int_equal(harness_hdr(&f)->aux, 3);
	send_rows(&f, 0, 3, 0, 1, 1, false);
	expect_error(&f, FPISA_V_sealed);
	send_rows(&f, 0, 2, 0, 1, 1, false);
	expect(&f, FPISA_TYPE_ACK, 0);
	read_groups(&f, 1, 8);
	expect(&f, FPISA_TYPE_GROUPS, 2);
	expect_to(&f, MASTER, 2 * sizeof(g));
	assert_int_equal(harness_hdr(&f)->aux, 3);
	memcpy(&g, harness_payload(&f), sizeof(g));
	assert_int_equal(g.key[0], 1);
	assert_int_equal(g.count, 2);
	read_groups(&f, 3, 8);
	expect(&f, FPISA_TYPE_GROUPS, 0);
	read_groups(&f, ~0ull, 1);
	expect(&f, FPISA_TYPE_GROUPS, 0);
	c = query_counters(&q);
	assert_int_equal(c.absorbed + c.residue, 8);
	assert_int_equal(c.residue, 2);
	query_close(&q);
}

/* Run the test without a token and with a token. */
static void twice(void (*test)(void))
{
	for (int with = 0; with < 2; with++) {
		token = with ? 0x5eadbeefcafe0001ull : 0;
		test();
	}
	token = 0;
}

static void a_table(void **state)
{
	(void)state;
	NEED_BPF();
	twice(table_once);
}

/* Check that both programs copy the aux of ROWS into the master's frame and into the ACK. */
static void echoes(void **state)
{
	const uint64_t echo = 0xfedcba9876543210;
	const uint32_t kinds[] = {FPISA_QUERY_TABLE, FPISA_QUERY_TOPN};
	uint32_t rows[2] = {1, 0};
	struct frame f;

	(void)state;
	NEED_BPF();
	for (int i = 0; i < 2; i++) {
		open_query(kinds[i], 1);
		send_rows(&f, 0, 1, 0, 1, 9, false);
		for (uint32_t key = 0; key < 2; key++) {
			/* A table has room for the first key, and a Top-N prunes 1. */
			rows[0] = key;
			rows[1] = i == 1 && key ? 0x41200000 : 0x3f800000;
			query_rows(&f, &q, 0, 2 + key, 1, rows, false);
			harness_hdr(&f)->aux = echo + key;
			harness_set_checksums(&f);
			harness_run(harness, &f);
			expect(&f, key ? FPISA_TYPE_ROWS : FPISA_TYPE_ACK, key);
			assert_true(harness_hdr(&f)->aux == echo + key);
		}
		query_frame(&f, &q, FPISA_TYPE_ACK, MASTER, 3, 0, 0, NULL);
		harness_hdr(&f)->aux = echo;
		harness_set_checksums(&f);
		harness_run(harness, &f);
		expect(&f, FPISA_TYPE_ACK, 0);
		assert_true(harness_hdr(&f)->aux == echo);
		query_close(&q);
	}
}

static void an_epoch(void **state)
{
	struct frame f, old;

	(void)state;
	NEED_BPF();
	open_query(FPISA_QUERY_TABLE, 2);
	send_rows(&f, 0, 1, 0, 2, 1, false);
	query_rows(&old, &q, 0, 2, 0, NULL, false);
	query_join(&q);
	harness_run(harness, &old);
	expect_error(&old, FPISA_V_generation);
	/* Other keys find free places. */
	send_rows(&f, 0, 1, 7, 2, 1, false);
	expect(&f, FPISA_TYPE_ACK, 0);
	assert_int_equal(query_group(&q, 0).key[0], 7);
	assert_int_equal(query_group(&q, 0).count, 1);
	query_close(&q);
	open_query(FPISA_QUERY_TOPN, 1);
	send_rows(&f, 0, 1, 0, 1, 9, false);
	expect(&f, FPISA_TYPE_ROWS, 1);
	send_rows(&f, 0, 2, 0, 1, 3, false);
	expect(&f, FPISA_TYPE_ACK, 0);
	query_join(&q);
	send_rows(&f, 0, 2, 0, 1, 3, false);
	expect(&f, FPISA_TYPE_ROWS, 1);
	assert_int_equal(seal_frame(&f, 0, 0), 0);
	assert_int_equal(harness_hdr(&f)->aux, 0x80000000ull + 0x40400000 + 1);
	query_close(&q);
}

/* Check that frames that no member should send do not change anything. */
static void refused_once(void)
{
	enum fpisa_verdict damaged = token ? FPISA_V_tag : FPISA_V_checksum;
	struct {
		enum fpisa_verdict v;
		bool told;
	} cases[] = {{FPISA_V_secret, true},   {damaged, false},      {FPISA_V_unknown_peer, false},
		     {FPISA_V_rank, false},    {FPISA_V_type, false}, {FPISA_V_length, false},
		     {FPISA_V_format, true},   {FPISA_V_port, true},  {FPISA_V_generation, true},
		     {FPISA_V_sequence, true}, {FPISA_V_type, false}, {FPISA_V_length, false}};
	struct fpisa_query_state before, after;
	struct frame f;

	open_query(FPISA_QUERY_TABLE, 100);
	send_rows(&f, 0, 1, 0, ROWS, 1, false);
	before = query_state(&q);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t n = harness_verdict(harness, JOB, cases[i].v);
		uint8_t row[ROWS * 8] = {0};

		query_rows(&f, &q, 0, 2, ROWS, row, false);
		switch (i) {
		case 0:
			*(token ? &harness_hdr(&f)->bitmap : &harness_hdr(&f)->secret) ^= 1;
			break;
		case 2:
			f.data[29] ^= 0x40;
			break;
		case 3:
			harness_hdr(&f)->rank = 1;
			break;
		case 4:
			harness_hdr(&f)->type = 21;
			break;
		case 5:
			harness_hdr(&f)->count = 1;
			break;
		case 6:
			harness_hdr(&f)->format = FPISA_FORMAT_FP16;
			break;
		case 8:
			harness_hdr(&f)->generation--;
			break;
		case 9:
			harness_hdr(&f)->chunk = 100;
			break;
		case 10: /* a worker that acknowledges a frame */
			query_frame(&f, &q, FPISA_TYPE_ACK, 0, 1, 0, 0, NULL);
			harness_hdr(&f)->slot = 1;
			break;
		case 11: /* a member that uses the query for a sum */
			harness_hdr(&f)->type = FPISA_TYPE_ADD;
			break;
		}
		harness_set_checksums(&f);
		if (i == 1)
			*(harness_payload(&f) + 3) ^= 4;
		if (i == 7) {
			harness_port(&f, 1);
			harness_set_checksums(&f);
		}
		if (i == 7) {
			/* The datapath also listens on a second port, as it would for another job. */
			struct fpisa_control c = {.next_generation = harness->generation + 1000, .more_ports = 1};
			uint32_t zero = 0;

			bpf_map_update_elem(bpf_map__fd(harness->skel->maps.fpisa_control), &zero, &c, BPF_ANY);
		}
		harness_run(harness, &f);
		if (harness_verdict(harness, JOB, cases[i].v) != n + 1)
			fail_msg("case %zu is not counted", i);
		if (cases[i].told)
			expect_error(&f, cases[i].v);
		else
			assert_int_equal(f.action, XDP_DROP);
	}
	after = query_state(&q);
	assert_memory_equal(&before, &after, sizeof(before));
	/* Use a number without a query. */
	query_close(&q);
	send_rows(&f, 0, 2, 0, ROWS, 1, false);
	assert_int_equal(f.action, XDP_DROP);
}

static void refused(void **state)
{
	(void)state;
	NEED_BPF();
	twice(refused_once);
}

/* -- two CPUs ------------------------------------------------------------------- */

static uint64_t sent;

static void count_frames(void)
{
	const char *said = getenv("FPISA_ROUNDS");

	sent = said ? strtoull(said, NULL, 0) : 2000;
}

struct side {
	pthread_t thread;
	uint32_t rank;
	uint64_t taken, busy;
	float *passed;
	size_t n;
};

static void pin_to(uint32_t cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
}

static void run_sides(struct side side[WORKERS], void *(*run)(void *))
{
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&side[i].thread, NULL, run, &side[i]), 0);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(side[i].thread, NULL);
}

static void *one_side(void *arg)
{
	struct side *side = arg;
	struct frame f;

	pin_to(side->rank);
	for (uint64_t s = 1; s <= sent;) {
		send_rows(&f, side->rank, s, (uint32_t)s % 50, ROWS, 0.1f, false);
		if (f.action == XDP_REDIRECT) {
			side->taken += harness_hdr(&f)->type == FPISA_TYPE_ACK;
			s++;
		} else {
			side->busy++;
		}
	}
	return NULL;
}

static void two_cpus(void **state)
{
	static struct query_oracle want, got;
	struct side side[WORKERS] = {{.rank = 0}, {.rank = 1}};
	struct fpisa_query_state s;

	(void)state;
	NEED_BPF();
	query_oracle_init(&want);
	query_oracle_init(&got);
	count_frames();
	open_query(FPISA_QUERY_TABLE, 1000);
	run_sides(side, one_side);
	s = query_state(&q);
	assert_int_equal(s.lock, 0);
	for (uint64_t n = 1; n <= sent; n++)
		for (uint32_t i = 0; i < ROWS; i++)
			for (int w = 0; w < WORKERS; w++)
				query_oracle_row(&want, (uint32_t)n % 50 + i, 0.1f, 1);
	for (uint32_t i = 0; i < s.used; i++) {
		struct fpisa_query_group g = query_group(&q, i);

		query_oracle_merge(&got, (uint32_t)g.key[0], &g);
	}
	assert_true(query_oracle_equal(&want, &got));
	assert_int_equal(side[0].taken + side[1].taken, 2 * sent);
	query_close(&q);
	query_oracle_free(&want);
	query_oracle_free(&got);
}

/* Return the value of row i of a frame. Many values are equal, and some are above all earlier values. */
static float topn_value(uint32_t rank, uint64_t s, uint32_t i)
{
	uint64_t h = fpisa_digest_word(fpisa_digest_word(rank, s), i);

	return (float)(h % 50000) + (float)(h >> 32 & 1023 ? 0 : s);
}

/* Send every frame of both workers on both CPUs. For each frame, choose at random which CPU's copy the master gets. */
static void *topn_side(void *arg)
{
	struct side *side = arg;
	struct frame f;

	pin_to(side->rank);
	for (uint64_t k = 0; k < WORKERS * sent; k++) {
		uint32_t rank = (uint32_t)(k + side->rank) % WORKERS;
		uint8_t packed[ROWS * 8], *to = packed;
		uint64_t s = k / WORKERS + 1;

		for (uint32_t i = 0; i < ROWS; i++) {
			const uint64_t key[FPISA_KEY_WORDS] = {i};

			to = query_pack(to, &q.config, key, topn_value(rank, s, i), 1);
		}
		query_rows(&f, &q, rank, s, ROWS, packed, false);
		harness_run(harness, &f);
		side->busy += f.action != XDP_REDIRECT;
		if ((fpisa_digest_word(s, rank) >> 40 & 1) != side->rank || harness_hdr(&f)->type != FPISA_TYPE_ROWS)
			continue;
		for (uint32_t i = 0; i < harness_hdr(&f)->count; i++)
			memcpy(&side->passed[side->n++], harness_payload(&f) + 2 * i + 1, sizeof(float));
	}
	return NULL;
}

static int down(const void *a, const void *b)
{
	return query_order(*(const float *)b, *(const float *)a);
}

static void two_cpus_topn(void **state)
{
	struct side side[WORKERS] = {{.rank = 0}, {.rank = 1}};
	size_t rows, n = 0;
	float *all;

	(void)state;
	NEED_BPF();
	count_frames();
	rows = WORKERS * sent * ROWS;
	all = malloc(rows * sizeof(*all));
	for (int i = 0; i < WORKERS; i++)
		side[i].passed = malloc((rows + 1) * sizeof(*all));
	for (uint32_t rank = 0; rank < WORKERS; rank++)
		for (uint64_t s = 1; s <= sent; s++)
			for (uint32_t i = 0; i < ROWS; i++)
				all[n++] = topn_value(rank, s, i);
	qsort(all, rows, sizeof(*all), down);
	for (uint32_t limit = 1; limit <= 1000; limit *= 10) {
		size_t passed, want = limit < rows ? limit : rows;

		open_query(FPISA_QUERY_TOPN, limit);
		side[0].n = side[1].n = 0;
		run_sides(side, topn_side);
		assert_int_equal(query_state(&q).lock, 0);
		assert_int_equal(side[0].busy + side[1].busy, 0);
		passed = side[0].n + side[1].n;
		memcpy(side[0].passed + side[0].n, side[1].passed, side[1].n * sizeof(*all));
		qsort(side[0].passed, passed, sizeof(*all), down);
		assert_true(passed >= want);
		for (size_t i = 0; i < want; i++)
			if (query_order(all[i], side[0].passed[i]))
				fail_msg("limit %u: row %zu of the first is %a, the master has %a", limit, i,
					 (double)all[i], (double)side[0].passed[i]);
		query_close(&q);
	}
	for (int i = 0; i < WORKERS; i++)
		free(side[i].passed);
	free(all);
}

/* Send 4 rows of a table of 3 keys in a frame with a tag of this type, or without one if `type` is 0. */
static void send_tagged(struct frame *f, uint64_t sequence, uint16_t type, uint16_t id)
{
	uint8_t packed[4 * 8], *to = packed;

	for (uint32_t i = 0; i < 4; i++)
		to = query_pack(to, &q.config, (const uint64_t[FPISA_KEY_WORDS]){i}, 1, 1);
	query_rows(f, &q, 0, sequence, 4, packed, false);
	if (type)
		harness_tag(f, type, id);
	harness_run(harness, f);
}

/* Check that a query with a VLAN ID takes only frames with its tag, and that its answers have the tag. */
static void tags(void **state)
{
	uint64_t vlan, qinq;
	struct frame f;

	(void)state;
	NEED_BPF();
	for (token = 0; token < 2; token++) {
		q = (struct query){.token = token,
				   .vlan = 7,
				   .config = {.job = JOB, .key_bytes = 4, .limit = 3, .seed = vectors_next(&rng)}};
		query_open(&q, harness, FPISA_QUERY_TABLE, WORKERS);
		send_tagged(&f, 1, 0x8100, 7);
		assert_int_equal(f.vlan, 7);
		expect(&f, FPISA_TYPE_ROWS, 1);
		expect_to(&f, MASTER, 32);
		query_frame(&f, &q, FPISA_TYPE_ACK, MASTER, 1, 0, 0, NULL);
		harness_tag(&f, 0x8100, 7);
		harness_run(harness, &f);
		assert_int_equal(f.vlan, 7);
		expect_to(&f, 0, 0);
		vlan = harness_verdict(harness, JOB, FPISA_V_vlan);
		qinq = harness_verdict(harness, FPISA_MAX_JOBS, FPISA_V_qinq);
		send_tagged(&f, 2, 0, 0);
		assert_int_equal(f.action, XDP_PASS);
		send_tagged(&f, 2, 0x8100, 8);
		assert_int_equal(f.action, XDP_PASS);
		send_tagged(&f, 2, 0x88a8, 7);
		assert_int_equal(f.action, XDP_PASS);
		assert_int_equal(harness_verdict(harness, JOB, FPISA_V_vlan), vlan + 2);
		assert_int_equal(harness_verdict(harness, FPISA_MAX_JOBS, FPISA_V_qinq), qinq + 1);
		query_close(&q);
	}
	token = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_table), cmocka_unit_test(echoes),   cmocka_unit_test(an_epoch),
		cmocka_unit_test(refused), cmocka_unit_test(two_cpus), cmocka_unit_test(two_cpus_topn),
		cmocka_unit_test(tags),
	};

	rng.state = vectors_seed();
	return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
