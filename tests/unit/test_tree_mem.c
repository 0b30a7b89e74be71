/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test trees of aggregators in this process, through the library. Compare every rank's bits with the oracle's flat sum,
 * with injected faults, and for 64 leaves of 64 ranks. Check the errors of ranks if a part is missing.
 */
#include "formats.h"
#include "lab/testbed/frame.h"
#include "lib/base/hello.h"
#include "lib/transport/transport.h"
#include "workers.h"

#define LEAVES 64
#define RANKS 64

struct tree;

struct member {
	struct tree *tree;
	struct fpisa_mem *leaf;
	uint32_t rank; /* number of the rank at its leaf */
	pthread_t thread;
	float *send, *recv;
	uint32_t flags;
	int rc;
	char error[512];
};

struct tree {
	uint32_t leaves, ranks;
	size_t count;
	int calls;
	enum fpisa_operation op;
	double factor;
	struct fpisa_options options;
	struct fpisa_mem *root, *leaf[LEAVES];
	struct member *member;
};

static struct fpisa_mem *mem_of(uint32_t workers, uint32_t elements, uint32_t window, uint8_t flags)
{
	const struct fpisa_mem_options o = {.size = sizeof(o),
					    .workers = workers,
					    .elements = elements,
					    .window = window,
					    .mode = FPISA_MODE_EXACT,
					    .flags = flags};
	struct fpisa_mem *m;

	if (fpisa_mem_create(&m, &o))
		fail_msg("%s", fpisa_error());
	return m;
}

static void grow(struct tree *t, uint32_t elements, uint32_t window)
{
	t->root = mem_of(t->leaves, elements, window, FPISA_JOB_LEAVES);
	t->member = calloc((size_t)t->leaves * t->ranks, sizeof(*t->member));
	for (uint32_t i = 0; i < t->leaves; i++) {
		t->leaf[i] = mem_of(t->ranks, elements, window, 0);
		assert_int_equal(fpisa_mem_set_parent(t->leaf[i], t->root, i), 0);
	}
	for (uint32_t i = 0; i < t->leaves * t->ranks; i++)
		t->member[i] = (struct member){.tree = t, .leaf = t->leaf[i / t->ranks], .rank = i % t->ranks};
}

static void fell(struct tree *t)
{
	for (uint32_t i = 0; i < t->leaves * t->ranks; i++) {
		free(t->member[i].send);
		free(t->member[i].recv);
	}
	free(t->member);
	for (uint32_t i = 0; i < t->leaves; i++)
		fpisa_mem_destroy(t->leaf[i]);
	fpisa_mem_destroy(t->root);
}

static void *run(void *arg)
{
	struct member *m = arg;
	const struct tree *t = m->tree;
	struct fpisa *f = NULL;

	m->rc = fpisa_mem_connect(&f, m->leaf, m->rank, &t->options);
	for (int i = 0; i < t->calls && !m->rc; i++) {
		uint32_t flags = 0;

		m->rc = fpisa_allreduce_op(f, m->send + (size_t)i * t->count, m->recv + (size_t)i * t->count, t->count,
					   FPISA_FLOAT32, t->op, t->factor, &flags);
		m->flags |= flags;
	}
	if (m->rc)
		snprintf(m->error, sizeof(m->error), "%s", fpisa_error());
	fpisa_close(f);
	return NULL;
}

/* Make the calls in all ranks except rank `skip`. */
static void run_all(struct tree *t, uint32_t skip)
{
	for (uint32_t i = 0; i < t->leaves * t->ranks; i++)
		if (i != skip)
			assert_int_equal(pthread_create(&t->member[i].thread, NULL, run, &t->member[i]), 0);
	for (uint32_t i = 0; i < t->leaves * t->ranks; i++)
		if (i != skip)
			pthread_join(t->member[i].thread, NULL);
}

static void fill(struct tree *t, struct vectors_rng *rng)
{
	const size_t n = t->count * (size_t)t->calls;

	for (uint32_t i = 0; i < t->leaves * t->ranks; i++) {
		t->member[i].send = malloc(n * sizeof(float));
		t->member[i].recv = malloc(n * sizeof(float));
	}
	for (size_t k = 0; k < n; k++) {
		const int kind = (int)vectors_below(rng, 8), middle = (int)vectors_below(rng, 255);

		for (uint32_t i = 0; i < t->leaves * t->ranks; i++) {
			const uint32_t word = (uint32_t)random_word(rng, FPISA_FP32, kind, middle);

			memcpy(&t->member[i].send[k], &word, sizeof(word));
		}
	}
}

/* Check each rank's bits. */
static void check(const struct tree *t)
{
	const struct oracle_call call = {.f = fpisa_register(FPISA_FORMAT_FP32, FPISA_MODE_EXACT, RANKS),
					 .mode = FPISA_MODE_EXACT,
					 .rounding = FPISA_ROUND_NEAREST,
					 .op = (int)t->op,
					 .factor = t->factor};
	const uint32_t n = t->leaves * t->ranks;
	uint64_t *column = calloc(n, sizeof(*column));

	for (uint32_t i = 0; i < n; i++)
		if (t->member[i].rc)
			fail_msg("rank %u of leaf %u: %s", i % t->ranks, i / t->ranks, t->member[i].error);
	for (size_t k = 0; k < t->count * (size_t)t->calls; k++) {
		uint32_t want, got, flags = 0;

		for (uint32_t i = 0; i < n; i++) {
			memcpy(&got, &t->member[i].send[k], sizeof(got));
			column[i] = got;
		}
		want = (uint32_t)oracle_result(&call, n, column, NULL, &flags);
		for (uint32_t i = 0; i < n; i++) {
			memcpy(&got, &t->member[i].recv[k], sizeof(got));
			if (got != want)
				fail_msg("op %u, element %zu, rank %u of leaf %u: %08x, oracle %08x", t->op, k,
					 i % t->ranks, i / t->ranks, got, want);
		}
	}
	free(column);
}

static struct fpisa_options options_of(uint32_t timeout_ms)
{
	return (struct fpisa_options){
		.size = sizeof(struct fpisa_options), .timeout_ms = timeout_ms, .overflow = FPISA_OVERFLOW_FLAG};
}

static void every_operation(void **state)
{
	static const enum fpisa_operation ops[] = {FPISA_SUM, FPISA_MIN, FPISA_MAX, FPISA_AVG, FPISA_SCALE};
	struct vectors_rng rng = {test_seed()};

	(void)state;
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		struct tree t = {.leaves = 1 + vectors_below(&rng, 4),
				 .ranks = 1 + vectors_below(&rng, 4),
				 .count = 1 + vectors_below(&rng, 1000),
				 .calls = 3,
				 .op = ops[i],
				 .factor = ops[i] == FPISA_SCALE ? -0.375 : 0,
				 .options = options_of(long_enough())};

		t.options.loss = i % 2 ? 0.05 : 0;
		t.options.duplicate = t.options.loss;
		t.options.reorder = t.options.loss;
		grow(&t, 64, 1u << vectors_below(&rng, 5));
		fill(&t, &rng);
		run_all(&t, UINT32_MAX);
		check(&t);
		fell(&t);
	}
}

/* One of 4,096 ranks, which one thread runs frame by frame */
struct port {
	struct fpisa_transport *t;
	struct fpisa_incarnation incarnation;
	struct fpisa_joining joining;
	uint32_t job, generation;
	struct fpisa_key token;
};

/* Take the frames that have arrived for a rank. The first RESULT of `chunk` goes to its array. */
static void take_frames(struct port *p, struct member *m, uint64_t chunk)
{
	struct fpisa_in in[FPISA_BATCH];
	int n = p->t->ops->receive(p->t, in, 0);

	for (int i = 0; i < n; i++) {
		const struct fpisa_hdr *h = in[i].data;

		if (h->type == FPISA_TYPE_RESULT && h->chunk == chunk) {
			memcpy(m->recv + chunk * FPISA_BLOCK, h + 1, FPISA_BLOCK * sizeof(float));
			assert_int_equal(h->contributors, LEAVES * RANKS);
			assert_int_equal(h->flags & FPISA_F_FEWER, 0);
			m->flags++;
		} else if (fpisa_welcome_take(&p->joining, &p->incarnation, h) == FPISA_WELCOME_JOINED) {
			p->joining.joined = 1;
			p->generation = h->generation;
		}
	}
}

/* Let all ranks send HELLO in turn until they have joined. */
static void join_ports(struct port *port, struct tree *t)
{
	uint32_t joined = 0;

	for (uint32_t i = 0; i < LEAVES * RANKS; i++) {
		struct member *m = &t->member[i];

		assert_int_equal(fpisa_mem_open(&port[i].t, m->leaf, m->rank, &port[i].job, &port[i].token), 0);
		assert_int_equal(fpisa_incarnation_begin(&port[i].incarnation, 1 + i), 0);
	}
	for (int turns = 0; joined < LEAVES * RANKS; turns++) {
		assert_true(turns < 10);
		joined = 0;
		for (uint32_t i = 0; i < LEAVES * RANKS; i++) {
			struct fpisa_hello_frame f;
			struct fpisa_out out = {.part = {{&f, sizeof(f)}}, .parts = 1};

			fpisa_hello_write(&f, port[i].job, &port[i].incarnation, &port[i].joining, &port[i].token, 0);
			if (!port[i].joining.joined)
				port[i].t->ops->send(port[i].t, &out, 1);
			take_frames(&port[i], &t->member[i], 0);
			joined += (uint32_t)port[i].joining.joined;
		}
	}
}

static void contribute(struct port *p, struct member *m, uint64_t chunk)
{
	struct {
		struct fpisa_hdr h;
		float v[FPISA_BLOCK];
	} f;
	struct fpisa_out out = {.part = {{&f, sizeof(f)}}, .parts = 1};

	f.h = frame_add(&((struct fpisa_soft *)m->leaf)->job, p->job, p->generation, m->rank, chunk, FPISA_BLOCK,
			p->joining.cookie);
	memcpy(f.v, m->send + chunk * FPISA_BLOCK, sizeof(f.v));
	f.h.checksum = frame_checksum(&f.h, f.v, sizeof(f.v));
	p->t->ops->send(p->t, &out, 1);
}

/* Test 64 leaves of 64 ranks. Ranks contribute in a random order. */
static void ranks_4096(void **state)
{
	enum { CHUNKS = 5 };
	static struct port port[LEAVES * RANKS];
	struct vectors_rng rng = {test_seed()};
	struct tree t = {.leaves = LEAVES, .ranks = RANKS, .count = CHUNKS * FPISA_BLOCK, .calls = 1, .op = FPISA_SUM};

	(void)state;
	grow(&t, FPISA_BLOCK, 2);
	fill(&t, &rng);
	join_ports(port, &t);
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++) {
		const uint32_t start = vectors_below(&rng, LEAVES * RANKS);

		/* An odd step visits all elements of a power of two. */
		for (uint32_t i = 0, at = start; i < LEAVES * RANKS; i++, at = (at + 1237) % (LEAVES * RANKS))
			contribute(&port[at], &t.member[at], chunk);
		for (uint32_t i = 0; i < LEAVES * RANKS; i++)
			take_frames(&port[i], &t.member[i], chunk);
	}
	for (uint32_t i = 0; i < LEAVES * RANKS; i++) {
		assert_int_equal(t.member[i].flags, CHUNKS);
		port[i].t->ops->close(port[i].t);
	}
	check(&t);
	fell(&t);
}

static struct tree two_by_two(uint32_t timeout_ms)
{
	return (struct tree){
		.leaves = 2, .ranks = 2, .count = 32, .calls = 1, .op = FPISA_SUM, .options = options_of(timeout_ms)};
}

/* If a rank of one leaf is missing, the errors at other leaves say that the missing rank is not one of their ranks. */
static void missing_elsewhere(void **state)
{
	struct vectors_rng rng = {test_seed()};
	struct tree t = two_by_two(long_enough() / 10);

	(void)state;
	grow(&t, 32, 2);
	fill(&t, &rng);
	run_all(&t, 3);
	assert_int_equal(t.member[0].rc, -ETIMEDOUT);
	assert_non_null(strstr(t.member[0].error, "all ranks of this leaf of the tree joined, but others did not"));
	assert_non_null(strstr(t.member[2].error, "rank 1 did not join"));
	fell(&t);
}

/* A rank that joins and makes no call */
static void silent_elsewhere(void **state)
{
	struct vectors_rng rng = {test_seed()};
	struct tree t = two_by_two(long_enough() / 10);
	struct member silent;
	struct tree none = t;

	(void)state;
	grow(&t, 32, 2);
	fill(&t, &rng);
	none.calls = 0;
	silent = t.member[3];
	t.member[3].tree = &none;
	run_all(&t, UINT32_MAX);
	t.member[3].tree = silent.tree;
	assert_int_equal(t.member[0].rc, -ETIMEDOUT);
	assert_non_null(strstr(t.member[0].error, "other leaves of the tree sent nothing for chunk 0"));
	assert_non_null(strstr(t.member[2].error, "rank 1 sent nothing for chunk 0"));
	fell(&t);
}

/* An average over more ranks than a job has is rounded once. */
static void average_of_many(void **state)
{
	struct vectors_rng rng = {test_seed()};
	struct tree t = {
		.leaves = 5, .ranks = 13, .count = 32, .calls = 1, .op = FPISA_AVG, .options = options_of(long_enough())};

	(void)state;
	grow(&t, 32, 2);
	fill(&t, &rng);
	run_all(&t, UINT32_MAX);
	check(&t);
	fell(&t);
}

/* If a rank of another leaf was removed, sums report this, and a handle that requires all ranks refuses such sums. */
static void removed_elsewhere(void **state)
{
	struct vectors_rng rng = {test_seed()};

	(void)state;
	for (int all = 0; all < 2; all++) {
		struct tree t = two_by_two(long_enough());

		t.options.all_ranks = (uint64_t)all;
		grow(&t, 32, 2);
		fill(&t, &rng);
		((struct fpisa_soft *)t.leaf[1])->job.live = 1;
		run_all(&t, 3);
		for (uint32_t i = 0; i < 3; i++) {
			assert_int_equal(t.member[i].rc, all ? -ECONNRESET : 0);
			if (!all)
				assert_int_equal(t.member[i].flags & FPISA_RESULT_FEWER_RANKS, FPISA_RESULT_FEWER_RANKS);
		}
		if (all)
			assert_non_null(strstr(t.member[0].error, "lacks ranks of another leaf of the tree"));
		fell(&t);
	}
}

static void refusals(void **state)
{
	struct fpisa_mem *root = mem_of(2, 32, 2, FPISA_JOB_LEAVES), *flat = mem_of(2, 32, 2, 0);
	struct fpisa_mem *leaf = mem_of(1, 32, 2, 0), *other = mem_of(1, 64, 2, 0);
	const struct fpisa_options o = options_of(200);
	struct fpisa *f = NULL;

	(void)state;
	assert_int_equal(fpisa_mem_set_parent(NULL, root, 0), -EINVAL);
	assert_int_equal(fpisa_mem_set_parent(leaf, NULL, 0), -EINVAL);
	assert_int_equal(fpisa_mem_set_parent(leaf, flat, 0), -EINVAL);
	assert_non_null(strstr(fpisa_error(), "does not accept leaves"));
	assert_int_equal(fpisa_mem_set_parent(leaf, root, 2), -EINVAL);
	assert_int_equal(fpisa_mem_set_parent(other, root, 0), -EINVAL);
	assert_non_null(strstr(fpisa_error(), "differ"));
	assert_int_equal(fpisa_mem_set_parent(root, root, 0), -EINVAL);
	assert_int_equal(fpisa_mem_set_parent(leaf, root, 0), 0);
	assert_int_equal(fpisa_mem_set_parent(leaf, root, 1), -EBUSY);
	assert_int_equal(fpisa_mem_set_parent(flat, root, 0), -EBUSY);
	assert_int_equal(fpisa_mem_connect(&f, root, 1, &o), -EPROTO);
	assert_non_null(strstr(fpisa_error(), "leaves of a tree; connect to a leaf"));
	fpisa_close(f);
	fpisa_mem_destroy(leaf);
	assert_int_equal(fpisa_mem_set_parent(flat, root, 0), 0);
	fpisa_mem_destroy(flat);
	fpisa_mem_destroy(other);
	fpisa_mem_destroy(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation),   cmocka_unit_test(ranks_4096),
		cmocka_unit_test(missing_elsewhere), cmocka_unit_test(silent_elsewhere),
		cmocka_unit_test(average_of_many),   cmocka_unit_test(removed_elsewhere),
		cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
