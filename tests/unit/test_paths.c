// SPDX-License-Identifier: GPL-2.0-only
/*
 * Simulate a call over several aggregators, with the real windows of each rank (lib/window.h) over hosts with one link
 * each. A host's link carries one frame per tick in each direction. The switch holds a limited number of frames for a
 * host and drops the others. Frames that a host sends wait in the host.
 */
#include "lib/window.h"
#include "workers.h"

#define WINDOW 64
#define MOST_RANKS 8
#define MOST_HOSTS (2 * MOST_RANKS)
#define FRAME_BYTES 3456
#define HELD 4096 /* room of a queue in frames, more than are ever in flight */
#define NOBODY 255

struct path_plan {
	int ranks, aggregators; /* aggregators on separate hosts, or on the ranks' hosts */
	int colocated;
	uint32_t weight[MOST_RANKS];
	uint64_t frame_ns; /* duration of a tick */
	int room;	   /* number of frames that the switch holds for a host */
	int small;	   /* number of calls of one chunk before the call of `chunks` chunks */
	int chunks;
	/* Share of frames lost on the path to a host, and share of ticks in which a rank stops for up to 8 ticks */
	double loss, stall;
};

struct frame {
	uint8_t result, rank, shard, resent, retransmit,
		last;  /* a result is for `rank`, or for all ranks if `rank` is NOBODY */
	int chunk;     /* number of the chunk at the aggregator */
	uint32_t lost; /* ranks whose contribution to the previous chunk is lost */
};

struct queue {
	struct frame frame[HELD];
	int head, n, most;
};

struct round {
	uint8_t there[MOST_RANKS], count, last, retransmit;
};

struct rank {
	struct fpisa_flight flight;
	struct fpisa_window w[MOST_RANKS];
	struct fpisa_request req;
	int stalled; /* tick at which the stall ends */
};

struct world {
	struct path_plan p;
	struct fpisa_layout layout;
	struct rank rank[MOST_RANKS];
	struct round *round[MOST_RANKS];
	struct queue out[MOST_HOSTS], in[MOST_HOSTS]; /* frames from a host to the switch, and back */
	int now, began;				      /* `began` is the start of the last call */
	uint64_t sent, again, dropped, vain;
};

static int host_of(const struct world *x, int shard)
{
	return x->p.colocated ? shard : x->p.ranks + shard;
}

static uint64_t ns(const struct world *x)
{
	return (uint64_t)(x->now + 1) * x->p.frame_ns;
}

static void put(struct queue *q, struct frame f)
{
	assert_true(q->n < HELD);
	q->frame[(q->head + q->n++) % HELD] = f;
	if (q->n > q->most)
		q->most = q->n;
}

static struct frame take(struct queue *q)
{
	struct frame f = q->frame[q->head];

	q->head = (q->head + 1) % HELD;
	q->n--;
	return f;
}

/* Pass a frame through the switch to a host. */
static void forward(struct world *x, int host, struct frame f)
{
	if (x->in[host].n == x->p.room || drand48() < x->p.loss)
		x->dropped++;
	else
		put(&x->in[host], f);
}

static void result_to(struct world *x, int rank, const struct frame *f)
{
	struct rank *r = &x->rank[rank];
	struct fpisa_window *w = &r->w[f->shard];
	struct fpisa_window_slot *slot = fpisa_window_slot_of(w, (uint64_t)f->chunk);
	const struct fpisa_answer a = {.resent = f->resent,
				       .ours = f->last == rank,
				       .retransmit = !f->resent && f->retransmit,
				       .lost_ours = f->lost >> rank & 1,
				       .lost_others = f->lost && !(f->lost >> rank & 1)};

	if (slot->chunk != (uint64_t)f->chunk || !slot->tries) {
		x->vain++;
		return;
	}
	fpisa_window_answered(w, slot, &a, 0, ns(x));
	r->req.left--;
}

/*
 * Send an aggregator's result to all ranks, as one frame or as one frame per rank. A rank on the same host gets it at
 * once.
 */
static void fan_out(struct world *x, struct frame f)
{
	int own = x->p.colocated ? f.shard : NOBODY;

	if (f.rank != NOBODY && f.rank == own) {
		result_to(x, own, &f);
	} else if (f.rank != NOBODY || !x->p.colocated) {
		put(&x->out[host_of(x, f.shard)], f);
	} else {
		for (f.rank = 0; f.rank < x->p.ranks; f.rank++)
			fan_out(x, f);
	}
}

/* Return the ranks whose contributions to a chunk the aggregator lacks. Return 0 if it has none or all. */
static uint32_t lacks(const struct world *x, const struct round *c)
{
	uint32_t lost = 0;

	for (int r = 0; r < x->p.ranks && c->count; r++)
		lost |= (uint32_t)!c->there[r] << r;
	return lost;
}

static void add(struct world *x, struct frame f)
{
	struct round *c = &x->round[f.shard][f.chunk];
	int done = c->count == x->p.ranks;

	if (!done && c->there[f.rank]) {
		x->vain++;
		return;
	}
	if (!done) {
		c->there[f.rank] = 1;
		c->last = f.rank;
		c->retransmit = f.retransmit;
		c->count++;
	}
	f.result = 1;
	f.last = c->last;
	f.resent = (uint8_t)done;
	f.retransmit = c->retransmit;
	f.rank = done ? f.rank : NOBODY;
	f.lost = !done && f.chunk ? lacks(x, c - 1) : 0;
	if (c->count == x->p.ranks)
		fan_out(x, f);
}

static void send_one(struct world *x, int rank, struct fpisa_window *w, uint64_t at)
{
	struct fpisa_window_slot *slot = fpisa_window_next_to_send(w);
	struct frame f = {.rank = (uint8_t)rank,
			  .shard = (uint8_t)w->shard,
			  .retransmit = slot->tries > 0,
			  .chunk = (int)slot->chunk};

	fpisa_window_sent(w, slot, at);
	x->sent++;
	x->again += f.retransmit;
	if (host_of(x, f.shard) == rank)
		add(x, f);
	else
		put(&x->out[rank], f);
}

/* Choose the next window as send.c does. */
static struct fpisa_window *whose_turn(struct rank *r, int rank, int aggregators)
{
	struct fpisa_window *next = NULL;

	for (int i = 1; i <= aggregators; i++) {
		struct fpisa_window *w = &r->w[(rank + i) % aggregators];

		if ((!next || fpisa_window_turn(w) < fpisa_window_turn(next)) && fpisa_window_next_to_send(w))
			next = w;
	}
	return next;
}

static void rank_turn(struct world *x, int rank)
{
	struct rank *r = &x->rank[rank];
	struct fpisa_window *w;
	uint64_t at = ns(x);

	if (drand48() < x->p.stall)
		r->stalled = x->now + (int)(drand48() * 8);
	if (r->stalled > x->now)
		return;
	for (int i = 0; i < x->p.aggregators; i++)
		fpisa_window_expire(&r->w[i], at);
	while ((w = whose_turn(r, rank, x->p.aggregators)))
		for (uint32_t n = fpisa_window_take_turn(w); n && fpisa_window_next_to_send(w); n--)
			send_one(x, rank, w, at++);
}

/* Run one tick of all links: one frame from each host, and one frame to each host. */
static void links_turn(struct world *x, int hosts)
{
	struct frame come[MOST_HOSTS];
	int has[MOST_HOSTS];

	for (int h = 0; h < hosts; h++) {
		has[h] = x->in[h].n > 0;
		if (has[h])
			come[h] = take(&x->in[h]);
	}
	for (int h = 0; h < hosts; h++) {
		struct frame f;

		if (!x->out[h].n)
			continue;
		f = take(&x->out[h]);
		if (!f.result)
			forward(x, host_of(x, f.shard), f);
		else if (f.rank != NOBODY)
			forward(x, f.rank, f);
		else
			for (int r = 0; r < x->p.ranks; r++)
				forward(x, r, f);
	}
	for (int h = 0; h < hosts; h++)
		if (has[h] && come[h].result)
			result_to(x, h, &come[h]);
		else if (has[h])
			add(x, come[h]);
}

static void begin(struct world *x, const struct path_plan *p)
{
	memset(x, 0, sizeof(*x));
	x->p = *p;
	assert_int_equal(fpisa_layout_init(&x->layout, (uint32_t)p->aggregators, p->weight), 0);
	for (int i = 0; i < p->aggregators; i++)
		x->round[i] = calloc((size_t)(p->small + p->chunks) + 1, sizeof(*x->round[i]));
	for (int i = 0; i < p->ranks; i++) {
		struct rank *r = &x->rank[i];
		const struct fpisa_layout *layout = p->aggregators > 1 ? &x->layout : NULL;

		for (int k = 0; k < p->aggregators; k++)
			assert_int_equal(
				fpisa_window_reset(&r->w[k], &r->flight, WINDOW, WINDOW, 0, layout, (uint32_t)k), 0);
		fpisa_flight_init(&r->flight, (uint32_t)p->aggregators, FRAME_BYTES, (uint32_t)p->ranks);
	}
}

static void end(struct world *x)
{
	for (int i = 0; i < x->p.ranks; i++)
		for (int k = 0; k < x->p.aggregators; k++)
			free(x->rank[i].w[k].slot);
	for (int i = 0; i < x->p.aggregators; i++)
		free(x->round[i]);
	fpisa_layout_free(&x->layout);
}

/* Run a call until it fails, or until all ranks have all its results. */
static void call(struct world *x, int chunks)
{
	const struct path_plan *p = &x->p;
	uint64_t left = (uint64_t)chunks;

	x->began = x->now;
	x->sent = x->again = x->vain = x->dropped = 0;
	for (int i = 0; i < p->ranks; i++) {
		struct rank *r = &x->rank[i];

		r->req = (struct fpisa_request){.first = r->req.first + r->req.chunks, .chunks = left, .left = left};
		for (int k = 0; k < p->aggregators; k++)
			fpisa_window_start(&r->w[k], &r->req);
	}
	for (; left; x->now++) {
		links_turn(x, p->colocated ? p->ranks : p->ranks + p->aggregators);
		left = 0;
		for (int i = 0; i < p->ranks; i++) {
			rank_turn(x, i);
			left += x->rank[i].req.left;
		}
		/* Allow 400 frames and two timeouts per chunk, and 100 s. */
		assert_true((uint64_t)(x->now - x->began) * p->frame_ns <
			    (uint64_t)chunks * (400 * p->frame_ns + 200000000) + 100000000000);
	}
}

static void run(struct world *x, const struct path_plan *p)
{
	begin(x, p);
	for (int i = 0; i < p->small; i++)
		call(x, 1);
	call(x, p->chunks);
	end(x);
}

static int ticks(const struct world *x)
{
	return x->now - x->began;
}

/* Return the minimum number of ticks that the busiest link needs. */
static double bound(const struct path_plan *p)
{
	double all = 0, most = 0;

	for (int i = 0; i < p->aggregators; i++) {
		all += p->weight[i];
		most = p->weight[i] > most ? p->weight[i] : most;
	}
	most = most / all * p->chunks * (p->colocated ? 2 * (p->ranks - 1) : p->ranks);
	return most > p->chunks ? most : p->chunks;
}

static double share(const struct world *x)
{
	return bound(&x->p) / ticks(x);
}

static int deepest(const struct world *x)
{
	int most = 0;

	for (int h = 0; h < MOST_HOSTS; h++)
		most = x->in[h].most > most ? x->in[h].most : most;
	return most;
}

static struct path_plan equal_links(int ranks, int aggregators, int colocated, uint64_t frame_ns)
{
	struct path_plan p = {.ranks = ranks,
			      .aggregators = aggregators,
			      .colocated = colocated,
			      .frame_ns = frame_ns,
			      .room = 36,
			      .chunks = 1200,
			      .stall = 0.02};

	for (int i = 0; i < aggregators; i++)
		p.weight[i] = 1;
	return p;
}

/*
 * Simulate one aggregator for each rank, with queues of 128 KB at the ports, and ranks that a scheduler delays. Check that
 * links are busy, that almost no frame is sent again, and that ports queue few frames. If the limit applied to each window, or a result released the next
 * frame to the same aggregator, ports would overflow.
 */
static void links_are_busy(void **state)
{
	static const uint64_t frame_ns[] = {1400000, 700000, 280000};

	(void)state;
	for (int ranks = 4; ranks <= MOST_RANKS; ranks *= 2)
		for (int colocated = 0; colocated < 2; colocated++)
			for (int i = 0; i < 3; i++) {
				struct path_plan p = equal_links(ranks, ranks, colocated, frame_ns[i]);
				static struct world x;

				run(&x, &p);
				print_message(
					"%d ranks, %s, %4d us a frame: share %.3f, sent again %llu of %llu, port %d\n",
					ranks, colocated ? "colocated" : "dedicated", (int)(p.frame_ns / 1000),
					share(&x), (unsigned long long)x.again, (unsigned long long)x.sent, deepest(&x));
				assert_true(share(&x) > 0.85);
				assert_true(x.again <= x.sent / 500);
				assert_true(deepest(&x) <= 2 * ranks);
				assert_int_equal(x.dropped, 0);
			}
}

/*
 * Lose 1% of the frames. Ranks do not wait for a timeout at each loss, which would take ten times as long. About one
 * call in fifty takes twice as long, so the test checks the mean of several calls.
 */
static void losses(void **state)
{
	enum { CALLS = 4 };

	(void)state;
	for (int colocated = 0; colocated < 2; colocated++) {
		struct path_plan p = equal_links(MOST_RANKS, MOST_RANKS, colocated, 1400000);
		static struct world x;
		double without, with = 0;

		run(&x, &p);
		without = ticks(&x);
		p.loss = 0.01;
		for (int i = 0; i < CALLS; i++) {
			run(&x, &p);
			with += (double)ticks(&x) / CALLS;
			assert_true(x.again < x.sent / 20);
		}
		print_message("1%% loss, %s: %.2f times as long, sent again %llu of %llu\n",
			      colocated ? "colocated" : "dedicated", with / without, (unsigned long long)x.again,
			      (unsigned long long)x.sent);
		assert_true(with < 1.6 * without);
	}
}

/*
 * Check a longer call after calls of one chunk. The frames of the longer call wait in queues behind one aggregator or
 * eight, but the earlier round trips were short. The waiting frames must not count as lost. With a timeout for the
 * short round trips, a fifth of the frames of 20 chunks was sent again.
 */
static void after_small_calls(void **state)
{
	static const struct {
		int aggregators, colocated;
	} at[] = {{1, 0}, {MOST_RANKS, 0}, {MOST_RANKS, 1}};
	static const uint64_t frame_ns[] = {2800000, 1400000, 280000};

	(void)state;
	for (int i = 0; i < 18; i++) {
		struct path_plan p =
			equal_links(MOST_RANKS, at[i % 3].aggregators, at[i % 3].colocated, frame_ns[i / 6]);
		static struct world x;

		p.small = 40;
		p.chunks = i / 3 % 2 ? 315 : 20;
		p.room = 300;
		run(&x, &p);
		print_message(
			"%d chunks after small calls, %d aggregators, %s, %4d us a frame: sent again %llu of %llu\n",
			p.chunks, p.aggregators, p.colocated ? "colocated" : "dedicated", (int)(p.frame_ns / 1000),
			(unsigned long long)x.again, (unsigned long long)x.sent);
		assert_true(x.again <= (uint64_t)p.ranks + x.sent / 50);
	}
}

/* Check that all results arrive over any paths, and that almost no frame is sent again if none is dropped. */
static void random_paths(void **state)
{
	(void)state;
	for (int i = 0; i < 60; i++) {
		int ranks = 2 + (int)(drand48() * (MOST_RANKS - 1)), colocated = drand48() < 0.5;
		struct path_plan p = equal_links(ranks, colocated ? ranks : 1 + (int)(drand48() * MOST_RANKS),
						 colocated, (uint64_t)(100000 + drand48() * 4000000));
		static struct world x;

		for (int k = 0; k < p.aggregators; k++)
			p.weight[k] = 1 + (uint32_t)(drand48() * 5);
		p.room = 8 + (int)(drand48() * 300);
		p.loss = drand48() < 0.5 ? 0 : drand48() * 0.1;
		p.stall = drand48() * 0.05;
		p.chunks = 1 + (int)(drand48() * 600);
		run(&x, &p);
		/* Before a rank knows the round trip to an aggregator, it may send one needless frame to it. */
		if (!x.dropped)
			assert_true(x.again <= (uint64_t)p.ranks * (2 + p.aggregators) + x.sent / 50);
	}
}

int main(void)
{
	srand48((long)test_seed());
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_are_busy),
		cmocka_unit_test(losses),
		cmocka_unit_test(after_small_calls),
		cmocka_unit_test(random_paths),
	};

	return cmocka_run_group_tests_name("paths", tests, NULL, NULL);
}
