/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test a tree of aggregators in user space, frame by frame: leaves and a root, their ranks, and a network that loses,
 * duplicates, reorders and damages frames on both levels. Ranks, leaves and the root restart.
 *
 * Each result that a rank accepts has the bits of the oracle's sum over the ranks of its generation, without the ranks
 * that the result reports as removed. When restarts stop, all ranks finish.
 */
#include "formats.h"
#include "soft_frames.h"

#define LEAVES 4
#define RANKS 4
#define CHUNKS 7
#define ELEMENTS 64
#define MOST_FRAMES 512
#define JOB_OF_ROOT 5
#define GENERATIONS 256

/* A rank, as a client of its leaf */
struct rank {
	uint64_t incarnation, cookie, results;
	uint32_t generation, life;
	uint64_t have;		  /* chunks whose results the rank has */
	uint32_t patience, tries; /* turns without a result, and restarts since restarts by the test stopped */
};

enum place { TO_LEAF, TO_RANK, TO_ROOT, FROM_ROOT };

struct flight {
	enum place place;
	uint32_t leaf, rank, port;
	struct frame f;
};

struct world {
	struct vectors_rng rng;
	uint32_t leaves, ranks[LEAVES], op, loss; /* loss is in percent */
	uint64_t digest[LEAVES];		  /* digest of the calls of a leaf's ranks */
	int settled;				  /* restarts have stopped */
	uint64_t gone_leaves, gone[LEAVES];	  /* leaves removed at the root, and ranks removed at a leaf */
	struct fpisa_soft root, leaf[LEAVES];
	struct fpisa_format f;
	struct rank rank[LEAVES][RANKS];
	struct flight air[MOST_FRAMES];
	uint32_t frames;
	uint32_t lives[GENERATIONS][LEAVES][RANKS]; /* the life of each rank in a generation; 0: the rank has not joined it */
	uint64_t taken, fewer, above, errors;
};

static struct world *world_now; /* for the leaves' send function */

static uint32_t below(struct world *w, uint32_t n)
{
	return vectors_below(&w->rng, n);
}

/* Put a frame in flight, unless it is lost. */
static void launch(struct world *w, enum place place, uint32_t leaf, uint32_t rank, uint32_t port, const struct frame *f)
{
	struct flight *at;

	if (below(w, 100) < w->loss)
		return;
	at = w->frames < MOST_FRAMES ? &w->air[w->frames++] : &w->air[below(w, MOST_FRAMES)];
	at->place = place;
	at->leaf = leaf;
	at->rank = rank;
	at->port = port;
	memcpy(&at->f, f, sizeof(*f));
	if (below(w, 500) < w->loss)
		((uint8_t *)&at->f)[below(w, (uint32_t)f->len)] ^= (uint8_t)(1 << below(w, 8));
}

static void from_leaf(void *arg, uint32_t port, const void *frame, size_t len)
{
	static struct frame f;

	memcpy(&f, frame, len);
	f.len = len;
	launch(world_now, TO_ROOT, (uint32_t)((struct fpisa_soft *)arg - world_now->leaf), 0, port, &f);
}

static enum fpisa_mode mode_of(uint8_t format)
{
	return format == FPISA_FORMAT_INT32 ? FPISA_MODE_FPISA : FPISA_MODE_EXACT;
}

static struct fpisa_soft soft_of(const struct world *w, uint32_t workers, uint8_t flags, uint32_t number)
{
	return (struct fpisa_soft){
		.number = number,
		.job = {.active = 1,
			.workers = workers,
			.live = ~0ull >> (64 - workers),
			.elements = ELEMENTS,
			.window = w->root.job.window,
			.ports = w->root.job.ports,
			.token = w->root.job.token,
			.format = w->root.job.format,
			.mode = mode_of(w->root.job.format),
			.rounding = w->root.job.rounding,
			.pipeline = (uint8_t)(FPISA_PIPELINE_STAGED + w->leaves % 2),
			.fanout = FPISA_FANOUT_UNICAST,
			.flags = flags},
	};
}

static void start_leaf(struct world *w, uint32_t i)
{
	static uint64_t attempt = 1000;

	w->leaf[i] = soft_of(w, w->ranks[i], w->root.job.flags & FPISA_JOB_BIG_ENDIAN, SOFT_JOB);
	list_ranks(&w->leaf[i]);
	assert_int_equal(fpisa_soft_init(&w->leaf[i]), 0);
	assert_int_equal(fpisa_soft_set_parent(&w->leaf[i], JOB_OF_ROOT, i, from_leaf, &w->leaf[i]), 0);
	/* The incarnation follows the clock, but also rises if the test is faster than the clock. */
	w->leaf[i].up.attempt = attempt += 1000;
	w->leaf[i].job.live &= ~w->gone[i];
}

static void start_root(struct world *w, uint32_t next)
{
	w->root = soft_of(w, w->leaves, FPISA_JOB_LEAVES | (w->root.job.flags & FPISA_JOB_BIG_ENDIAN), JOB_OF_ROOT);
	list_ranks(&w->root);
	assert_int_equal(fpisa_soft_init(&w->root), 0);
	w->root.next_generation = next;
	w->root.job.live &= ~w->gone_leaves;
}

/*
 * Return the value of an element of a rank's contribution. It is the same for each copy that one life of the rank
 * sends. Integers are small, because a sum that saturates depends on the order.
 */
static uint64_t value_of(const struct world *w, uint32_t leaf, uint32_t rank, uint32_t life, uint64_t chunk, int element)
{
	struct vectors_rng one = {(uint64_t)element * 7919 + chunk * 104729};
	struct vectors_rng rng;
	int kind = (int)vectors_below(&one, 9),
	    middle = w->f.integer ? 0 : (int)vectors_below(&one, (1u << w->f.ebits) - 1);

	rng.state = one.state ^ ((uint64_t)leaf << 40 | (uint64_t)rank << 32 | life) * 0x9e3779b97f4a7c15ull;
	if (w->f.integer)
		return (uint32_t)((int32_t)vectors_next(&rng) >> 6);
	return kind == 8 ? 0 : random_word(&rng, w->f, kind, middle);
}

static void send_hello(struct world *w, uint32_t leaf, uint32_t rank)
{
	const struct rank *r = &w->rank[leaf][rank];
	static struct frame f;

	hello(&w->leaf[leaf], &f, rank, r->incarnation);
	f.h.secret = r->cookie;
	set_checksum(&f);
	launch(w, TO_LEAF, leaf, rank, 0, &f);
}

static void send_add(struct world *w, uint32_t leaf, uint32_t rank, uint64_t chunk, int again)
{
	const struct rank *r = &w->rank[leaf][rank];
	const struct fpisa_soft *s = &w->leaf[leaf];
	static struct frame f;

	for (int i = 0; i < ELEMENTS; i++)
		fpisa_put_word(f.w, i, w->f, value_of(w, leaf, rank, r->life, chunk, i));
	if (s->job.flags & FPISA_JOB_BIG_ENDIAN)
		for (int b = 0; b < ELEMENTS / FPISA_BLOCK; b++)
			fpisa_swap_block((char *)f.w + b * FPISA_BLOCK * w->f.bytes, w->f);
	frames_job = &s->job;
	f.h = frame_add(&s->job, SOFT_JOB, r->generation, rank, chunk, ELEMENTS, r->cookie);
	f.h.flags = again ? FPISA_F_RETRANSMIT | FPISA_F_PROBE : 0;
	f.h.op = (uint8_t)w->op;
	f.h.digest = w->digest[leaf];
	f.h.aux = w->op == FPISA_OP_SCALE ? 0xbfb8000000000000ull : 0; /* -3/32 */
	f.len = FPISA_HDR_LEN + fpisa_payload_bytes(w->f, ELEMENTS);
	set_checksum(&f);
	launch(w, TO_LEAF, leaf, rank, fpisa_port_index(f.h.slot >> 1, s->job.window, s->job.ports), &f);
}

/* Return the first chunk whose result the rank lacks. */
static uint64_t oldest(const struct rank *r)
{
	return (uint64_t)__builtin_ctzll(~r->have);
}

static void restart(struct world *w, uint32_t leaf, uint32_t rank)
{
	struct rank *r = &w->rank[leaf][rank];

	*r = (struct rank){
		.incarnation = r->incarnation + 1 + below(w, 3),
		.life = r->life + 1,
		.tries = r->tries + (uint32_t)w->settled,
	};
}

static int is_gone(const struct world *w, uint32_t leaf, uint32_t rank)
{
	return (w->gone_leaves >> leaf & 1) || (w->gone[leaf] >> rank & 1);
}

static uint32_t count_ranks(const struct world *w)
{
	uint32_t n = 0;

	for (uint32_t leaf = 0; leaf < w->leaves; leaf++)
		n += w->ranks[leaf];
	return n;
}

/*
 * Check a result that a rank accepts against the oracle. A result with fewer ranks has all ranks except the removed
 * ones.
 */
static void check(struct world *w, const struct rank *r, const struct frame *f)
{
	const int all = f->h.contributors == count_ranks(w);
	const struct oracle_call call = {.f = w->f,
					 .mode = mode_of(w->root.job.format),
					 .rounding = (enum fpisa_rounding)w->root.job.rounding,
					 .op = (int)w->op,
					 .factor = -3.0 / 32};
	uint64_t column[LEAVES * RANKS];
	uint32_t flags = 0, words[ELEMENTS * 2];
	size_t n = 0;

	memcpy(words, f->w, f->len - FPISA_HDR_LEN);
	if (w->root.job.flags & FPISA_JOB_BIG_ENDIAN)
		for (int b = 0; b < ELEMENTS / FPISA_BLOCK; b++)
			fpisa_swap_block((char *)words + b * FPISA_BLOCK * w->f.bytes, w->f);
	for (int i = 0; i < ELEMENTS; i++) {
		uint64_t want, got = fpisa_get_word(words, i, w->f);

		n = 0;
		for (uint32_t leaf = 0; leaf < w->leaves; leaf++) {
			for (uint32_t rank = 0; rank < w->ranks[leaf]; rank++) {
				const uint32_t life = w->lives[r->generation % GENERATIONS][leaf][rank];

				if (!all && is_gone(w, leaf, rank))
					continue;
				assert_int_not_equal(life, 0);
				column[n++] = value_of(w, leaf, rank, life, f->h.chunk, i);
			}
		}
		want = oracle_result(&call, n, column, NULL, &flags);
		if (got != want)
			fail_msg("format %u, op %u, generation %u, chunk %llu, element %d: %llx, oracle %llx",
				 w->root.job.format, w->op, r->generation, (unsigned long long)f->h.chunk, i,
				 (unsigned long long)got, (unsigned long long)want);
	}
	assert_int_equal(f->h.contributors, n);
	assert_int_equal(f->h.result_flags, flags);
	assert_int_equal(!(f->h.flags & FPISA_F_FEWER), all);
	w->fewer += !all;
}

static void take_welcome(struct world *w, uint32_t leaf, uint32_t rank, const struct frame *f)
{
	const struct fpisa_hello *p = (const void *)f->w;
	struct rank *r = &w->rank[leaf][rank];

	if (r->generation || f->h.chunk != ~r->incarnation || f->h.aux != r->incarnation)
		return;
	if (f->h.flags & FPISA_F_CHALLENGE) {
		r->cookie = f->h.secret;
		return;
	}
	w->above += !!(f->h.flags & FPISA_F_ABOVE);
	if (f->h.flags & FPISA_F_PENDING)
		return;
	assert_int_equal(p->flags & FPISA_JOB_LEAF, FPISA_JOB_LEAF);
	r->generation = f->h.generation;
	r->results = p->results;
	assert_int_equal(w->lives[r->generation % GENERATIONS][leaf][rank], 0);
	w->lives[r->generation % GENERATIONS][leaf][rank] = r->life;
}

static void take_result(struct world *w, uint32_t leaf, uint32_t rank, const struct frame *f)
{
	const struct fpisa_job *job = &w->leaf[leaf].job;
	struct rank *r = &w->rank[leaf][rank];

	if (is_gone(w, leaf, rank) || r->generation != f->h.generation || r->have >> f->h.chunk & 1 ||
	    f->h.chunk > oldest(r) + job->window)
		return;
	if (!job->keyed)
		assert_int_equal(f->h.secret, r->results);
	assert_int_equal(f->h.bitmap & job->live, job->live);
	assert_true(f->h.bitmap >> rank & 1);
	check(w, r, f);
	r->have |= 1ull << f->h.chunk;
	r->patience = 0;
	w->taken++;
}

/* Return whether a frame arrived intact. Ranks have the same keys as the aggregator. */
static int is_whole(const struct world *w, uint32_t leaf, uint32_t rank, const struct frame *f)
{
	const struct rank *r = &w->rank[leaf][rank];

	return f->len >= FPISA_HDR_LEN && f->h.type >= FPISA_TYPE_HELLO && f->h.type <= FPISA_TYPE_ERROR &&
	       frame_sealed(&w->leaf[leaf].job, &f->h, f->w, f->len - FPISA_HDR_LEN, rank, r->cookie);
}

static void to_rank(struct world *w, uint32_t leaf, uint32_t rank, struct frame *f)
{
	struct rank *r = &w->rank[leaf][rank];

	if (!is_whole(w, leaf, rank, f))
		return;
	assert_int_equal(f->h.job, SOFT_JOB);
	if (f->h.type == FPISA_TYPE_WELCOME)
		take_welcome(w, leaf, rank, f);
	else if (f->h.type == FPISA_TYPE_RESULT)
		take_result(w, leaf, rank, f);
	else if (f->h.type == FPISA_TYPE_STATUS)
		w->above += !!(f->h.flags & FPISA_F_ABOVE);
	else if (f->h.generation && f->h.generation == r->generation && !(r->have >> f->h.chunk & 1)) {
		w->errors++;
		restart(w, leaf, rank);
	}
}

/* Send an aggregator's answer to its receivers. */
static void answer(struct world *w, enum place place, uint32_t leaf, const struct frame *f)
{
	for (uint32_t i = 0; f->to >> i; i++)
		if (f->to >> i & 1)
			launch(w, place, place == TO_RANK ? leaf : i, i, 0, f);
}

/* Deliver a frame that is in flight. Often a copy stays in flight. */
static void deliver(struct world *w, uint32_t index)
{
	const struct fpisa_address at = fpisa_ipv4(htonl(10));
	static struct flight x;
	struct frame *f = &x.f;

	memcpy(&x, &w->air[index], sizeof(x));
	if (below(w, 100) >= w->loss / 2)
		memmove(&w->air[index], &w->air[--w->frames], sizeof(x));
	switch (x.place) {
	case TO_LEAF:
		fpisa_soft_frame(&w->leaf[x.leaf], &at, htons((uint16_t)(x.rank + 1)), x.port, 0, f, &f->len, &f->to);
		answer(w, TO_RANK, x.leaf, f);
		break;
	case TO_ROOT:
		fpisa_soft_frame(&w->root, &at, htons((uint16_t)(x.leaf + 1)), x.port, 0, f, &f->len, &f->to);
		answer(w, FROM_ROOT, 0, f);
		break;
	case FROM_ROOT:
		fpisa_soft_parent(&w->leaf[x.leaf], f, &f->len, &f->to);
		answer(w, TO_RANK, x.leaf, f);
		break;
	case TO_RANK:
		to_rank(w, x.leaf, x.rank, f);
	}
}

/* A rank sends HELLO, or a chunk of its window. After a long time without a result the rank restarts. */
static void turn(struct world *w, uint32_t leaf, uint32_t rank)
{
	struct rank *r = &w->rank[leaf][rank];
	uint64_t first = oldest(r), chunk = first + below(w, w->root.job.window);

	if (is_gone(w, leaf, rank))
		return;
	if (!r->generation) {
		send_hello(w, leaf, rank);
		return;
	}
	if (first == CHUNKS && w->lives[r->generation % GENERATIONS][leaf][rank] == r->life && w->settled) {
		/* The rank has finished, and stays until all ranks have finished. */
		if (++r->patience > 4000)
			restart(w, leaf, rank);
		return;
	}
	/* A round trip takes many turns if many frames are in flight, so wait longer after each restart. */
	if (++r->patience > 400u << fpisa_min(r->tries, 4)) {
		restart(w, leaf, rank);
		return;
	}
	if (chunk >= CHUNKS || r->have >> chunk & 1)
		chunk = first;
	/* By the self clock, send chunk c + W only after the result of chunk c. */
	if (chunk < CHUNKS && (chunk < w->root.job.window || r->have >> (chunk - w->root.job.window) & 1))
		send_add(w, leaf, rank, chunk, below(w, 2) != 0);
}

static int finished(const struct world *w)
{
	const uint32_t generation = w->root.session.generation;

	for (uint32_t leaf = 0; leaf < w->leaves; leaf++)
		for (uint32_t rank = 0; rank < w->ranks[leaf]; rank++)
			if (!is_gone(w, leaf, rank) &&
			    (w->rank[leaf][rank].generation != generation || oldest(&w->rank[leaf][rank]) < CHUNKS))
				return 0;
	return generation != 0;
}

/* Remove a rank of a leaf, or a leaf from the root, at most once, if others are left. */
static void shrink(struct world *w, uint32_t leaf)
{
	if (w->gone_leaves || w->gone[0] || w->gone[1] || w->gone[2] || w->gone[3])
		return;
	if (w->ranks[leaf] > 1 && below(w, 2))
		w->gone[leaf] = 1ull << below(w, w->ranks[leaf]);
	else if (w->leaves > 1)
		w->gone_leaves = 1ull << leaf;
	fpisa_write_once(&w->leaf[leaf].job.live, w->leaf[leaf].job.live & ~w->gone[leaf]);
	fpisa_write_once(&w->root.job.live, w->root.job.live & ~w->gone_leaves);
}

/* Restart a rank (most often), a leaf or the root, which then loses all its state, or remove ranks. */
static void disturb(struct world *w)
{
	const uint32_t leaf = below(w, w->leaves), what = below(w, 12);

	if (what == 0) {
		fpisa_soft_free(&w->leaf[leaf]);
		start_leaf(w, leaf);
	} else if (what == 1) {
		const uint32_t next = w->root.next_generation + 3;

		fpisa_soft_free(&w->root);
		start_root(w, next);
	} else if (what == 2) {
		shrink(w, leaf);
	} else {
		restart(w, leaf, below(w, w->ranks[leaf]));
	}
}

static void step(struct world *w)
{
	const uint32_t leaf = below(w, w->leaves);

	if (w->frames && below(w, 5))
		deliver(w, below(w, w->frames));
	else
		turn(w, leaf, below(w, w->ranks[leaf]));
}

static void begin(struct world *w, uint64_t seed)
{
	static const uint8_t ids[] = {FPISA_FORMAT_FP32, FPISA_FORMAT_FP16, FPISA_FORMAT_BF16, FPISA_FORMAT_E4M3,
				      FPISA_FORMAT_E5M2, FPISA_FORMAT_FP64, FPISA_FORMAT_INT32};
	static const uint8_t ops[] = {FPISA_OP_SUM, FPISA_OP_SUM, FPISA_OP_MIN,
				      FPISA_OP_MAX, FPISA_OP_AVG, FPISA_OP_SCALE};

	memset(w, 0, sizeof(*w));
	world_now = w;
	w->rng.state = seed;
	w->leaves = 1 + below(w, LEAVES);
	w->root.job.format = ids[below(w, sizeof(ids))];
	do
		w->op = ops[below(w, sizeof(ops))];
	while (!fpisa_op_offered(fpisa_format_of(w->root.job.format), mode_of(w->root.job.format), w->op));
	w->loss = (const uint32_t[]){0, 5, 20, 40}[below(w, 4)];
	w->root.job.window = 1u << below(w, 3);
	w->root.job.ports = (uint8_t)(w->root.job.window > 1 ? 1 << below(w, 2) : 1);
	w->root.job.token = below(w, 2) ? SOFT_TOKEN : 0;
	w->root.job.rounding = (uint8_t)(FPISA_ROUND_DOWN + below(w, 2));
	w->f = fpisa_register(w->root.job.format, mode_of(w->root.job.format), RANKS);
	w->root.job.flags = w->f.bytes > 1 && below(w, 2) ? FPISA_JOB_BIG_ENDIAN : 0;
	start_root(w, 1);
	for (uint32_t i = 0; i < w->leaves; i++) {
		w->ranks[i] = 1 + below(w, RANKS);
		start_leaf(w, i);
		for (uint32_t r = 0; r < w->ranks[i]; r++)
			w->rank[i][r] = (struct rank){.incarnation = 100, .life = 1};
	}
}

static void end(struct world *w)
{
	fpisa_soft_free(&w->root);
	for (uint32_t i = 0; i < w->leaves; i++)
		fpisa_soft_free(&w->leaf[i]);
}

#define WORLDS 60
#define TROUBLE 20000 /* number of steps with restarts */
#define LIMIT 1000000 /* number of steps after which a rank counts as hanging */

static void bits_of_the_flat_sum(void **state)
{
	static struct world w;
	uint64_t seed = test_seed(), taken = 0, errors = 0, above = 0, fewer = 0, torn = 0;

	(void)state;
	for (int i = 0; i < WORLDS; i++) {
		uint64_t steps = 0;
		const int calm = i % 3 == 0;

		begin(&w, seed + (uint64_t)i);
		for (; !calm && steps < TROUBLE; steps++) {
			step(&w);
			if (!below(&w, 1500))
				disturb(&w);
		}
		w.settled = 1;
		for (; !finished(&w); steps++) {
			if (steps > LIMIT)
				fail_msg("world %d: %u leaves, loss %u%%, window %u: not finished after %llu steps", i,
					 w.leaves, w.loss, w.root.job.window, (unsigned long long)steps);
			step(&w);
		}
		taken += w.taken;
		errors += w.errors;
		above += w.above;
		fewer += w.fewer;
		torn += w.root.counters.v_torn;
		end(&w);
	}
	print_message(
		"%llu results, %llu of fewer ranks, %llu errors, %llu frames of torn rounds, %llu reports from above\n",
		(unsigned long long)taken, (unsigned long long)fewer, (unsigned long long)errors,
		(unsigned long long)torn, (unsigned long long)above);
	assert_true(taken && fewer && errors && above);
}

/* A tree of two leaves with two ranks each in one generation. The network loses no frames. */
static void begin_small(struct world *w, uint8_t format)
{
	begin(w, 1);
	end(w);
	w->loss = 0;
	w->leaves = 2;
	w->op = FPISA_OP_SUM;
	w->root.job.format = format;
	w->root.job.window = 1;
	w->root.job.ports = 1;
	w->root.job.token = 0;
	w->root.job.flags = 0;
	w->f = fpisa_register(format, FPISA_MODE_EXACT, RANKS);
	start_root(w, 1);
	for (uint32_t i = 0; i < 2; i++) {
		w->ranks[i] = 2;
		start_leaf(w, i);
		for (uint32_t r = 0; r < 2; r++)
			w->rank[i][r] = (struct rank){.incarnation = 100, .life = 1};
	}
	while (!w->rank[0][0].generation || !w->rank[0][1].generation || !w->rank[1][0].generation ||
	       !w->rank[1][1].generation) {
		for (uint32_t i = 0; i < 4; i++)
			if (!w->rank[i / 2][i % 2].generation)
				send_hello(w, i / 2, i % 2);
		while (w->frames)
			deliver(w, 0);
	}
}

/* Deliver the frames in flight to `place`, and the frames that these cause. Drop the others. */
static void deliver_to(struct world *w, enum place place)
{
	while (w->frames) {
		if (w->air[0].place == place)
			deliver(w, 0);
		else
			memmove(&w->air[0], &w->air[--w->frames], sizeof(w->air[0]));
	}
}

/*
 * Remove a leaf at the root when half of its partial sum is added. There is no result, and all other leaves get the
 * error.
 */
static void torn_round(void **state)
{
	static struct world w;

	(void)state;
	begin_small(&w, FPISA_FORMAT_FP64);
	for (uint32_t i = 0; i < 2; i++)
		send_add(&w, 1, i, 0, 0);
	deliver(&w, 0);
	deliver(&w, 0);
	assert_true(w.frames > 1);
	deliver(&w, 0);
	w.frames = 0;
	assert_int_equal(w.root.counters.v_accepted, 1);
	assert_int_equal(w.root.partials[0].torn, 2);
	w.gone_leaves = 2;
	fpisa_write_once(&w.root.job.live, 1);
	send_add(&w, 0, 0, 0, 0);
	send_add(&w, 0, 1, 0, 0);
	while (w.frames)
		deliver(&w, 0);
	assert_int_equal(w.root.counters.v_torn, 1);
	assert_int_equal(w.root.counters.v_result, 0);
	assert_int_equal(w.errors, 1);
	assert_int_equal(fpisa_broken(&w.leaf[0].session, w.leaf[0].session.generation), FPISA_V_torn);
	for (w.settled = 1; !finished(&w);)
		step(&w);
	end(&w);
}

/*
 * Let ranks of two leaves make different calls. The root detects the difference, and its leaves send an error to their
 * ranks.
 */
static void different_calls(void **state)
{
	static struct world w;

	(void)state;
	begin_small(&w, FPISA_FORMAT_FP32);
	w.digest[1] = 7;
	for (uint32_t i = 0; i < 4; i++)
		send_add(&w, i / 2, i % 2, 0, 0);
	while (w.frames)
		deliver(&w, 0);
	assert_true(w.root.counters.v_mismatch > 0);
	for (uint32_t i = 0; i < 4; i++)
		if (w.rank[i / 2][i % 2].generation)
			send_add(&w, i / 2, i % 2, 0, 1);
	while (w.frames)
		deliver(&w, 0);
	assert_int_equal(w.taken, 0);
	assert_int_equal(w.errors, 4);
	end(&w);
}

/* The level that waits answers a probe. */
static void who_is_missing(void **state)
{
	static struct world w;

	(void)state;
	begin_small(&w, FPISA_FORMAT_FP32);
	w.above = 0;
	send_add(&w, 0, 1, 0, 1);
	deliver(&w, 0);
	assert_int_equal(w.air[0].f.h.type, FPISA_TYPE_STATUS);
	assert_int_equal(w.air[0].f.h.flags, 0);
	assert_int_equal(w.air[0].f.h.bitmap, 2);
	w.frames = 0;
	send_add(&w, 0, 0, 0, 0);
	deliver(&w, 0);
	deliver_to(&w, TO_ROOT);
	send_add(&w, 0, 1, 0, 1);
	deliver(&w, 0);
	for (uint32_t i = 0; i < w.frames;) {
		if (w.air[i].place == TO_RANK)
			i++;
		else
			deliver(&w, i);
	}
	assert_int_equal(w.frames, 1);
	assert_int_equal(w.air[0].rank, 1);
	assert_int_equal(w.air[0].f.h.type, FPISA_TYPE_STATUS);
	assert_int_equal(w.air[0].f.h.flags, FPISA_F_ABOVE);
	assert_int_equal(w.air[0].f.h.rank, 1);
	assert_int_equal(w.air[0].f.h.bitmap, 1);
	assert_int_equal(w.air[0].f.h.aux, 3);
	assert_int_equal(w.leaf[0].counters.v_up_again, 1);
	end(&w);
}

/* Send a copy of a contribution to the sealed round of leaf 0. Return whether the leaf sends its partial sum again. */
static int is_sent_again(struct world *w, uint32_t rank, uint64_t chunk)
{
	w->frames = 0;
	send_add(w, 0, rank, chunk, 1);
	deliver(w, 0);
	return w->frames > 0;
}

/*
 * A leaf sends its partial sum again for the first rank that asks, for the second copy of each rank, and for no other
 * copy. This begins anew with each round.
 */
static void first_copies(void **state)
{
	static struct world w;

	(void)state;
	begin_small(&w, FPISA_FORMAT_FP32);
	for (uint64_t chunk = 0; chunk < 4; chunk++) {
		w.frames = 0;
		for (uint32_t rank = 0; rank < 2; rank++) {
			send_add(&w, 0, rank, chunk, 0);
			deliver(&w, 0);
		}
		assert_true(is_sent_again(&w, 0, chunk));
		assert_false(is_sent_again(&w, 1, chunk));
		assert_true(is_sent_again(&w, 0, chunk));
		assert_true(is_sent_again(&w, 1, chunk));
		assert_int_equal(w.leaf[0].counters.v_duplicate, chunk + 1);
	}
	end(&w);
}

/* A leaf accepts no frame from a parent whose job differs from its own, and does not join it. */
static void another_parent(void **state)
{
	static const struct {
		size_t offset;
		uint8_t value;
		uint32_t rank; /* bits in which a leaf's rank at the parent differs from that in its own job */
	} other[] = {
		{offsetof(struct fpisa_job, rounding), FPISA_ROUND_DOWN},
		{offsetof(struct fpisa_job, window), 2},
		{offsetof(struct fpisa_job, elements), 32},
		{offsetof(struct fpisa_job, format), FPISA_FORMAT_BF16},
		{offsetof(struct fpisa_job, mode), FPISA_MODE_FPISA64},
		{offsetof(struct fpisa_job, flags), 0},
		{offsetof(struct fpisa_job, flags), FPISA_JOB_LEAVES | FPISA_JOB_BIG_ENDIAN},
		{offsetof(struct fpisa_job, flags), FPISA_JOB_LEAVES | FPISA_JOB_RECIPROCAL},
		{offsetof(struct fpisa_job, flags), FPISA_JOB_LEAVES, .rank = 1},
	};
	static struct world w;

	(void)state;
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		begin_small(&w, FPISA_FORMAT_FP32);
		w.root.job.rounding = FPISA_ROUND_NEAREST;
		for (uint32_t leaf = 0; leaf < 2; leaf++) {
			w.leaf[leaf].job.rounding = FPISA_ROUND_NEAREST;
			w.leaf[leaf].up.rank ^= other[i].rank;
		}
		((uint8_t *)&w.root.job)[other[i].offset] = other[i].value;
		for (uint32_t k = 0; k < 4; k++)
			restart(&w, k / 2, k % 2);
		for (uint32_t turn = 0; turn < 40; turn++) {
			send_hello(&w, turn % 4 / 2, turn % 2);
			while (w.frames)
				deliver(&w, 0);
		}
		for (uint32_t k = 0; k < 4; k++)
			assert_int_equal(w.rank[k / 2][k % 2].generation, 0);
		assert_true(w.leaf[0].counters.v_unlike && w.leaf[1].counters.v_unlike);
		end(&w);
	}
}

/* A job of leaves accepts only partial sums, and only planes that its format has. */
static void no_partial_sums(void **state)
{
	static struct world w;
	struct frame f;

	(void)state;
	begin_small(&w, FPISA_FORMAT_FP32);
	for (int i = 0; i < 6; i++) {
		const uint16_t parts = 1 << FPISA_PART_COUNT_SHIFT;

		memset(&f, 0, sizeof(f));
		add(&f, &w.root, 0, 0);
		f.h.job = JOB_OF_ROOT;
		f.h.contributors = i == 0 ? 0 : i == 1 ? 65 : 2;
		f.h.reason = i == 2 ? 0 : i == 3 ? parts | 9 : i == 4 ? parts | FPISA_PART_VALUES : parts | 8;
		set_checksum(&f);
		assert_int_equal(give(&w.root, &f, 0), i < 5 ? FPISA_V_partial : FPISA_V_accepted);
		assert_int_equal(f.to, 0);
	}
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bits_of_the_flat_sum), cmocka_unit_test(torn_round),
		cmocka_unit_test(different_calls),	cmocka_unit_test(who_is_missing),
		cmocka_unit_test(first_copies),		cmocka_unit_test(another_parent),
		cmocka_unit_test(no_partial_sums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
