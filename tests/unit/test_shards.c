// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test a job of several aggregators: the distribution of chunks, sums of random jobs over `mem` and `udp` against the
 * oracle, and the same bits in mode exact with any shares. Test also different lists, and an aggregator that differs
 * from the others, starts again or removes a rank.
 */
#include "lib/aggregators.h"
#include "lib/api.h"
#include "lib/handle.h"
#include "udp_server.h"

#define TRIALS 40

struct aggregators {
	struct fpisa_mem *m[FPISA_MAX_SHARDS];
	uint32_t weight[FPISA_MAX_SHARDS], n;
};

static int connect_all(struct fpisa **f, uint32_t rank, const struct fpisa_options *o, void *arg)
{
	const struct aggregators *a = arg;

	return fpisa_mem_connect_shards(f, a->m, a->weight, a->n, rank, o);
}

static void make(struct aggregators *a, const struct plan *p, uint32_t n, uint64_t *random)
{
	a->n = n;
	for (uint32_t i = 0; i < n; i++) {
		struct plan own = *p;

		/* An aggregator with less memory has a smaller window. */
		own.window = p->window >> test_random(random) % 2;
		a->m[i] = mem_of_plan(&own);
		a->weight[i] = 1 + (uint32_t)(test_random(random) % (test_random(random) % 2 ? 4 : FPISA_MAX_WEIGHT));
	}
}

static void destroy(struct aggregators *a)
{
	for (uint32_t i = 0; i < a->n; i++)
		fpisa_mem_destroy(a->m[i]);
}

static void check(struct fleet *fl, struct plan p,
		  int (*connect)(struct fpisa **, uint32_t, const struct fpisa_options *, void *), void *arg)
{
	*fl = (struct fleet){.plan = p, .seed = test_seed() + p.count, .connect = connect, .arg = arg};
	run_fleet(fl);
	assert_all_succeeded(fl);
	if (p.outstanding > 1)
		check_whole_numbers(fl);
	else
		check_replayed(fl, p.mode, p.rounding);
}

static struct plan random_plan(uint64_t *random)
{
	static const uint8_t modes[] = {FPISA_MODE_FPISA, FPISA_MODE_EXACT};
	uint64_t r = test_random(random);
	struct plan p = {
		.workers = 1 + (uint32_t)(r % 4),
		.elements = 32 << (r >> 8) % 4,
		.window = 2 << (r >> 12) % 6,
		.mode = modes[(r >> 16) % 2],
		.count = (size_t)(test_random(random) % ((r >> 20) % 2 ? 300 : 20000)) + 1,
		.calls = 1 + (int)((r >> 24) % 5),
		.in_place = (int)((r >> 28) % 2),
		.progress = (int)((r >> 32) % 2),
	};

	p.rounding = p.mode == FPISA_MODE_EXACT ? FPISA_ROUND_NEAREST : FPISA_ROUND_DOWN;
	if ((r >> 40) % 4 == 0)
		p.outstanding = 2 + (int)((r >> 44) % 3);
	if ((r >> 48) % 2) {
		p.loss = 0.03;
		p.duplicate = 0.03;
		p.reorder = 0.05;
	}
	return p;
}

/*
 * Check that each chunk belongs to one shard, that the chunks of a shard are numbered without a gap, and that the
 * shares follow the weights.
 */
static void layouts(void **state)
{
	uint64_t random = test_seed();

	(void)state;
	for (int trial = 0; trial < TRIALS; trial++) {
		uint32_t n = 1 + (uint32_t)(test_random(&random) % FPISA_MAX_SHARDS), weight[FPISA_MAX_SHARDS], sum = 0;
		uint64_t next[FPISA_MAX_SHARDS] = {0};
		struct fpisa_layout l;

		for (uint32_t i = 0; i < n; i++)
			sum += weight[i] = 1 + (uint32_t)(test_random(&random) % FPISA_MAX_WEIGHT);
		assert_int_equal(fpisa_layout_init(&l, n, weight), 0);
		for (uint64_t chunk = 0; chunk < 3 * sum; chunk++) {
			uint32_t owner = fpisa_layout_owner(&l, chunk);

			assert_true(owner < n);
			assert_int_equal(fpisa_layout_chunk(&l, owner, next[owner]), chunk);
			next[owner]++;
			for (uint32_t i = 0; i < n; i++) {
				assert_int_equal(fpisa_layout_own(&l, i, chunk + 1), next[i]);
				/* Chunks are spread evenly, so each prefix is within two chunks of the exact share. */
				assert_true(next[i] * sum < (chunk + 1) * weight[i] + 2 * sum);
				assert_true(next[i] * sum + 2 * sum > (chunk + 1) * weight[i]);
			}
		}
		for (uint32_t i = 0; i < n; i++)
			assert_int_equal(next[i], 3 * weight[i]);
		fpisa_layout_free(&l);
	}
}

static void random_sums(void **state)
{
	uint64_t random = test_seed();

	(void)state;
	for (int trial = 0; trial < TRIALS; trial++) {
		struct plan p = random_plan(&random);
		struct fleet *fl = calloc(1, sizeof(*fl));
		struct aggregators a;

		make(&a, &p, 1 + (uint32_t)(test_random(&random) % 6), &random);
		check(fl, p, connect_all, &a);
		free_fleet(fl);
		free(fl);
		destroy(&a);
	}
}

static void exact_bits(void **state)
{
	uint64_t random = test_seed();
	struct plan p = {.workers = 3,
			 .elements = 64,
			 .window = 8,
			 .mode = FPISA_MODE_EXACT,
			 .rounding = FPISA_ROUND_NEAREST,
			 .count = 9000,
			 .calls = 1};
	float *first = malloc(p.count * sizeof(float));

	(void)state;
	for (uint32_t n = 1; n <= 8; n++) {
		struct fleet *fl = calloc(1, sizeof(*fl));
		struct aggregators a;

		make(&a, &p, n, &random);
		check(fl, p, connect_all, &a);
		if (n == 1)
			memcpy(first, fl->rank[0].r.recv, p.count * sizeof(float));
		assert_memory_equal(first, fl->rank[n % 3].r.recv, p.count * sizeof(float));
		free_fleet(fl);
		free(fl);
		destroy(&a);
	}
	free(first);
}

#define SERVERS 3

/* Aggregators over UDP. A rank has one port for all aggregators. */
struct udp_shards {
	struct server s[SERVERS];
	uint16_t port[MAX_RANKS];
	char list[128];
};

static int connect_udp(struct fpisa **f, uint32_t rank, const struct fpisa_options *options, void *arg)
{
	struct udp_shards *u = arg;
	struct fpisa_options o = *options;

	o.local_port = u->port[rank];
	return fpisa_connect(f, u->list, JOB, &o);
}

static void start_shards(struct udp_shards *u, const struct plan *p, uint32_t n)
{
	memset(u, 0, sizeof(*u));
	for (uint32_t i = 0; i < n; i++)
		start_server(&u->s[i], p);
	for (uint32_t rank = 0; rank < p->workers; rank++)
		u->port[rank] = ntohs(u->s[0].soft.job.rank[rank].port);
	for (uint32_t i = 0; i < n; i++) {
		size_t at = strlen(u->list);

		for (uint32_t rank = 0; rank < p->workers; rank++) {
			give_port(&u->s[i], rank);
			u->s[i].soft.job.rank[rank].port = htons(u->port[rank]);
		}
		snprintf(u->list + at, sizeof(u->list) - at, "%s127.0.0.1:%u*%u", i ? "," : "", u->s[i].port, i + 1);
		run_server(&u->s[i]);
	}
}

static void sums_over_udp(void **state)
{
	static const struct plan plans[] = {
		{.workers = 2, .elements = 256, .window = 64, .count = 50000, .calls = 3},
		{.workers = 3, .elements = 64, .window = 16, .count = 20000, .calls = 3, .progress = 1},
		{.workers = 3, .elements = 64, .window = 32, .count = 6000, .calls = 2, .in_place = 1, .loss = 0.05},
	};
	static struct udp_shards u;

	(void)state;
	for (size_t k = 0; k < sizeof(plans) / sizeof(plans[0]); k++) {
		struct plan p = plans[k];
		struct fleet *fl = calloc(1, sizeof(*fl));

		start_shards(&u, &p, SERVERS);
		p.mode = FPISA_MODE_FPISA;
		p.rounding = FPISA_ROUND_DOWN;
		check(fl, p, connect_udp, &u);
		for (uint32_t i = 0; i < SERVERS; i++)
			stop_server(&u.s[i]);
		free_fleet(fl);
		free(fl);
	}
}

/* Check that the error names the aggregator that becomes silent, and the number of its job. */
static void the_silent_one_is_named(void **state)
{
	const struct fpisa_options o = {.size = sizeof(o), .timeout_ms = 10000, .progress = 1};
	const struct plan p = {.workers = 1, .elements = 32, .window = 4, .count = 1};
	static struct udp_shards u;
	char name[32];

	(void)state;
	for (int silent = 0; silent < 2; silent++) {
		struct fpisa_request *r = NULL;
		float data[32 * 16] = {1};
		struct fpisa *f = NULL;

		start_shards(&u, &p, 2);
		assert_int_equal(connect_udp(&f, 0, &o, &u), 0);
		f->silence_ns = 300000000;
		stop_server(&u.s[silent]);
		assert_int_equal(fpisa_allreduce_start(f, data, data, 32 * 16, FPISA_FLOAT32, &r), 0);
		assert_int_equal(fpisa_wait(&r, NULL), -ETIMEDOUT);
		snprintf(name, sizeof(name), "127.0.0.1:%u: job %d: ", u.s[silent].port, JOB);
		if (strncmp(fpisa_error(), name, strlen(name)))
			fail_msg("%s is not named: %s", name, fpisa_error());
		fpisa_close(f);
		stop_server(&u.s[!silent]);
	}
}

/* Two ranks on shared aggregators, a thread each, and the error of a failed call */
struct pair {
	struct aggregators of[2]; /* the aggregators in the order of each rank */
	struct fpisa *f[2];
	pthread_t thread[2];
	float data[2][4000];
	int rc[2];
	char error[2][512];
};

struct pair_rank {
	struct pair *p;
	uint32_t rank;
	int rejoin;
};

static void *join_and_sum(void *arg)
{
	const struct pair_rank *r = arg;
	struct pair *p = r->p;
	const struct fpisa_options o = {.size = sizeof(o), .timeout_ms = 2000};
	int rc = r->rejoin ? fpisa_rejoin(p->f[r->rank]) : connect_all(&p->f[r->rank], r->rank, &o, &p->of[r->rank]);

	for (int i = 0; i < 4000; i++)
		p->data[r->rank][i] = (float)(i + (int)r->rank);
	if (!rc)
		rc = fpisa_allreduce(p->f[r->rank], p->data[r->rank], p->data[r->rank], 4000, FPISA_FLOAT32, NULL);
	p->rc[r->rank] = rc;
	snprintf(p->error[r->rank], sizeof(p->error[0]), "%s", rc ? fpisa_error() : "");
	return NULL;
}

static void run_pair(struct pair *p, int rejoin)
{
	struct pair_rank r[2] = {{p, 0, rejoin}, {p, 1, rejoin}};

	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&p->thread[i], NULL, join_and_sum, &r[i]), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(p->thread[i], NULL);
}

static void assert_summed(const struct pair *p)
{
	for (int k = 0; k < 2; k++) {
		if (p->rc[k])
			fail_msg("rank %d: %s", k, p->error[k]);
		for (int i = 0; i < 4000; i++)
			assert_true(p->data[k][i] == (float)(2 * i + 1));
	}
}

static void end_pair(struct pair *p)
{
	fpisa_close(p->f[0]);
	fpisa_close(p->f[1]);
	p->f[0] = p->f[1] = NULL;
	destroy(&p->of[0]);
}

static void begin_pair(struct pair *p)
{
	const struct plan plan = {.workers = 2, .elements = 64, .window = 8};

	*p = (struct pair){0};
	for (uint32_t i = 0; i < 3; i++) {
		p->of[0].m[i] = mem_of_plan(&plan);
		p->of[0].weight[i] = i + 1;
	}
	p->of[0].n = 3;
	p->of[1] = p->of[0];
}

/* Check that ranks whose shares or order of aggregators differ both get an error and no sum. */
static void lists_that_differ(void **state)
{
	static struct pair p;

	(void)state;
	for (int how = 0; how < 3; how++) {
		begin_pair(&p);
		if (how == 0)
			p.of[1].weight[0] = 2;
		if (how == 1)
			p.of[1].weight[0] = p.of[1].weight[1] = p.of[1].weight[2] = 1;
		if (how == 2) {
			for (uint32_t i = 0; i < 3; i++)
				p.of[0].weight[i] = p.of[1].weight[i] = 1;
			p.of[1].m[0] = p.of[0].m[1];
			p.of[1].m[1] = p.of[0].m[0];
		}
		run_pair(&p, 0);
		for (int k = 0; k < 2; k++) {
			assert_int_equal(p.rc[k], -EPROTO);
			assert_non_null(strstr(p.error[k], "one list of aggregators with the same weights"));
		}
		end_pair(&p);
	}
}

static void one_is_not_alike(void **state)
{
	const struct plan other = {.workers = 2, .elements = 32, .window = 8};
	static struct pair p;

	(void)state;
	begin_pair(&p);
	fpisa_mem_destroy(p.of[0].m[1]);
	p.of[0].m[1] = p.of[1].m[1] = mem_of_plan(&other);
	run_pair(&p, 0);
	for (int k = 0; k < 2; k++) {
		assert_int_equal(p.rc[k], -EINVAL);
		assert_non_null(strstr(p.error[k], "mem:1: job 0: elements: 32 here, 64 at mem"));
	}
	end_pair(&p);
}

/*
 * Check that a call ends at both ranks after an aggregator has lost its state, and that calls work after both have
 * joined again.
 */
static void one_begins_anew(void **state)
{
	static struct pair p;
	struct fpisa_soft *s;
	struct fpisa_job job;

	(void)state;
	begin_pair(&p);
	run_pair(&p, 0);
	assert_summed(&p);
	s = (struct fpisa_soft *)p.of[0].m[1];
	job = s->job;
	fpisa_soft_free(s);
	*s = (struct fpisa_soft){.job = job, .number = s->number};
	s->job.key = (struct fpisa_key){0};
	assert_int_equal(fpisa_soft_init(s), 0);
	for (int k = 0; k < 2; k++) {
		assert_int_equal(fpisa_allreduce(p.f[k], p.data[k], p.data[k], 4000, FPISA_FLOAT32, NULL), -ESTALE);
		assert_non_null(strstr(fpisa_error(), "mem:1: job 0: the job was created again"));
	}
	run_pair(&p, 1);
	assert_summed(&p);
	end_pair(&p);
}

/* Check that the error names an aggregator that does not answer, and that the other aggregators do not replace it. */
static void one_is_silent(void **state)
{
	static struct pair p;
	struct fpisa_soft *s;

	(void)state;
	begin_pair(&p);
	run_pair(&p, 0);
	s = (struct fpisa_soft *)p.of[0].m[2];
	s->number = 1;
	run_pair(&p, 1);
	for (int k = 0; k < 2; k++) {
		assert_int_equal(p.rc[k], -ETIMEDOUT);
		assert_non_null(strstr(p.error[k], "mem:2: job 0: no answer in 2000 ms"));
	}
	s->number = 0;
	run_pair(&p, 1);
	assert_summed(&p);
	end_pair(&p);
}

/*
 * Check that a rank that was removed at only one aggregator gets an error that says so, and that the other rank's error
 * names the rank and the aggregator.
 */
static void one_shrinks(void **state)
{
	static struct pair p;
	struct pair_rank r[2] = {{&p, 0, 0}, {&p, 1, 0}};

	(void)state;
	begin_pair(&p);
	run_pair(&p, 0);
	assert_summed(&p);
	((struct fpisa_soft *)p.of[0].m[0])->job.live = 1;
	run_pair(&p, 1);
	(void)r;
	assert_int_equal(p.rc[1], -EACCES);
	assert_non_null(strstr(p.error[1], "mem: job 0: this rank was removed from the job"));
	assert_int_equal(p.rc[0], -ETIMEDOUT);
	assert_non_null(strstr(p.error[0], "rank 1 did not join"));
	end_pair(&p);
}

static void parsing(void **state)
{
	static const char *const wrong[] = {"",
					    ",",
					    "10.0.0.1,",
					    "10.0.0.1*0",
					    "10.0.0.1*101",
					    "10.0.0.1*x",
					    "10.0.0.1*",
					    "10.0.0.1*1x",
					    "*3",
					    "10.0.0.1 , 10.0.0.2",
					    "10.0.0.1,10.0.0.1*2",
					    "10.0.0.1/2,10.0.0.1:18000/2",
					    "10.0.0.1/3,10.0.0.1,10.0.0.1/0*2",
					    "10.0.0.1/",
					    "10.0.0.1/64",
					    "10.0.0.1/100",
					    "10.0.0.1/-1",
					    "10.0.0.1/x",
					    "10.0.0.1*2/3",
					    "/3",
					    "10.0.0.1,224.0.0.1",
					    "10.0.0.1*-1",
					    "::",
					    "ff15::1",
					    "fe80::1",
					    "::ffff:10.0.0.1",
					    "[2001:db8::1",
					    "[2001:db8::1]5",
					    "[2001:db8::1]:",
					    "[2001:db8::1]:0",
					    "[10.0.0.1]:5",
					    "2001:db8::1,[2001:db8:0::1]:18000"};
	struct fpisa_aggregator a[FPISA_MAX_SHARDS];
	char many[512] = "10.0.0.1";

	(void)state;
	assert_int_equal(fpisa_parse_aggregators("10.0.0.1:5*7,10.0.0.2,10.0.0.1*100", 9, a), 3);
	assert_int_equal(ntohl(a[0].address.w[3]), 0x0a000001);
	assert_int_equal(a[0].port, 5);
	assert_int_equal(a[0].weight, 7);
	assert_int_equal(a[1].port, FPISA_PORT);
	assert_int_equal(a[1].weight, 1);
	assert_int_equal(a[2].weight, 100);
	assert_true(a[0].job == 9 && a[1].job == 9 && a[2].job == 9);
	/* An aggregator may have several jobs of a handle. */
	assert_int_equal(fpisa_parse_aggregators("10.0.0.1,10.0.0.1:5/63*7,[2001:db8::1]:5/0", 9, a), 3);
	assert_true(a[0].job == 9 && a[1].job == 63 && a[2].job == 0);
	assert_true(a[1].port == 5 && a[1].weight == 7 && a[2].port == 5);
	assert_int_equal(fpisa_parse_aggregators("10.0.0.1/3", 9, a), 1);
	assert_int_equal(a->job, 3);
	assert_int_equal(fpisa_parse_aggregators("10.0.0.1:5*7,10.0.0.2,10.0.0.1*100", 9, a), 3);
	/* An IPv6 address with a port is in brackets, and may be without a port. */
	assert_int_equal(fpisa_parse_aggregators("2001:db8::1,[2001:db8::2]:5*7,[2001:db8::3],10.0.0.1", 0, a), 4);
	for (int i = 0; i < 3; i++)
		assert_memory_equal(a[i].address.b, ((uint8_t[]){0x20, 1, 0xd, 0xb8, [15] = (uint8_t)(i + 1)}), 16);
	assert_int_equal(a[0].port, FPISA_PORT);
	assert_int_equal(a[1].port, 5);
	assert_int_equal(a[1].weight, 7);
	assert_int_equal(a[2].port, FPISA_PORT);
	assert_true(fpisa_is_ipv4(&a[3].address) && !fpisa_is_ipv6(&a[3].address));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (fpisa_parse_aggregators(wrong[i], 0, a) != -EINVAL)
			fail_msg("'%s' is taken", wrong[i]);
	for (int i = 2; i <= FPISA_MAX_SHARDS + 1; i++)
		snprintf(many + strlen(many), sizeof(many) - strlen(many), ",10.0.0.%d", i);
	assert_int_equal(fpisa_parse_aggregators(many, 0, a), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layouts),
		cmocka_unit_test(parsing),
		cmocka_unit_test(random_sums),
		cmocka_unit_test(exact_bits),
		cmocka_unit_test(sums_over_udp),
		cmocka_unit_test(lists_that_differ),
		cmocka_unit_test(one_is_not_alike),
		cmocka_unit_test(one_begins_anew),
		cmocka_unit_test(one_is_silent),
		cmocka_unit_test(one_shrinks),
		cmocka_unit_test(the_silent_one_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
