// SPDX-License-Identifier: GPL-2.0-only
/*
 * Simulate the limit of chunks in flight (lib/congestion.h). Ranks have the real window and timeout, and their frames
 * share one port of a switch. The port queues some frames and drops the others. A tick is the time of one frame in the
 * port.
 */
#include "lib/window.h"
#include "workers.h"

#define WINDOW 64
#define MAX_FLOWS 2
#define MAX_QUEUE 1024
#define FRAME_BYTES 3456

struct port_plan {
	int ranks, flows;  /* number of ranks, and of Reno flows */
	uint64_t frame_ns; /* time to transmit one frame */
	int room;	   /* number of frames that the port holds */
	int delay;	   /* number of ticks from the aggregator back to a rank */
	int chunks;
	double loss; /* share of frames that are lost outside the port */
};

/*
 * State at the aggregator: ranks whose contributions have arrived, the last rank, the tick when ranks have the result,
 * and resent frames
 */
struct chunk {
	int there[MAX_RANKS], count, last, retransmit, result, resent[MAX_RANKS];
};

struct rank {
	struct fpisa_window w;
	struct fpisa_flight flight;
	struct fpisa_request req;
};

struct flow {
	double cwnd;
	int in_flight, reduced, ack[MAX_QUEUE * 4]; /* ack[] counts acknowledgements by tick, as a ring */
};

struct frame {
	int rank, chunk, flow, retransmit; /* rank below 0: the frame belongs to a flow */
};

struct sim {
	struct port_plan p;
	struct rank rank[MAX_RANKS];
	struct chunk *chunk;
	struct flow flow[MAX_FLOWS];
	struct frame queue[MAX_QUEUE];
	int head, queued, now, sent;
	int served[2]; /* number of served frames of ranks, and of flows */
	double queued_sum;
};

static uint64_t now_ns(const struct sim *s)
{
	return (uint64_t)s->now * s->p.frame_ns;
}

static int enqueue(struct sim *s, struct frame f)
{
	if (s->queued == s->p.room)
		return 0;
	s->queue[(s->head + s->queued++) % MAX_QUEUE] = f;
	return 1;
}

static void take(struct sim *s, int rank, struct fpisa_window_slot *slot, int resent)
{
	const struct chunk *c = &s->chunk[slot->chunk];
	const struct fpisa_answer a = {.resent = resent, .ours = c->last == rank, .retransmit = !resent && c->retransmit};

	fpisa_window_answered(&s->rank[rank].w, slot, &a, 0, now_ns(s));
	s->rank[rank].req.left--;
}

static void rank_turn(struct sim *s, int rank)
{
	struct rank *r = &s->rank[rank];
	struct fpisa_window_slot *slot;
	uint64_t now = now_ns(s);
	int sent = 0;

	for (uint32_t i = 0; i < r->w.slots; i++) {
		struct chunk *c;

		slot = &r->w.slot[i];
		c = slot->req ? &s->chunk[slot->chunk] : NULL;
		if (c && slot->tries && (c->result == s->now || c->resent[rank] == s->now))
			take(s, rank, slot, c->resent[rank] == s->now);
	}
	fpisa_window_expire(&r->w, now);
	while ((slot = fpisa_window_next_to_send(&r->w))) {
		int chunk = (int)slot->chunk, retransmit = slot->tries > 0;

		fpisa_window_sent(&r->w, slot, now + (uint64_t)sent++);
		s->sent++;
		if (drand48() >= s->p.loss)
			enqueue(s, (struct frame){.rank = rank, .chunk = chunk, .retransmit = retransmit});
	}
}

static void serve(struct sim *s)
{
	struct chunk *c;
	struct frame f;

	s->queued_sum += s->queued;
	if (!s->queued)
		return;
	f = s->queue[s->head];
	s->head = (s->head + 1) % MAX_QUEUE;
	s->queued--;
	s->served[f.rank < 0]++;
	if (f.rank < 0) {
		s->flow[f.flow].ack[(s->now + s->p.delay) % (MAX_QUEUE * 4)]++;
		return;
	}
	c = &s->chunk[f.chunk];
	if (c->count == s->p.ranks) {
		c->resent[f.rank] = s->now + s->p.delay;
	} else if (!c->there[f.rank]) {
		c->there[f.rank] = 1;
		c->last = f.rank;
		c->retransmit = f.retransmit;
		if (++c->count == s->p.ranks)
			c->result = s->now + s->p.delay;
	}
}

static void reno_turn(struct sim *s, struct flow *f, int index)
{
	int *acks = &f->ack[s->now % (MAX_QUEUE * 4)];

	for (; *acks; --*acks) {
		f->in_flight--;
		f->cwnd += 1 / f->cwnd;
	}
	while (f->in_flight < (int)f->cwnd) {
		if (enqueue(s, (struct frame){.rank = -1, .flow = index})) {
			f->in_flight++;
		} else {
			if (s->now > f->reduced) {
				f->cwnd = f->cwnd > 4 ? f->cwnd / 2 : 2;
				f->reduced = s->now + s->p.room;
			}
			break;
		}
	}
}

static void run(struct sim *s, struct port_plan p)
{
	int left = 1;

	*s = (struct sim){.p = p, .now = 1};
	s->chunk = calloc((size_t)p.chunks, sizeof(*s->chunk));
	for (int i = 0; i < p.ranks; i++) {
		struct rank *r = &s->rank[i];

		r->req = (struct fpisa_request){.chunks = (uint64_t)p.chunks, .left = (uint64_t)p.chunks};
		assert_int_equal(fpisa_window_reset(&r->w, &r->flight, WINDOW, WINDOW, 0, NULL, 0), 0);
		fpisa_flight_init(&r->flight, 1, FRAME_BYTES, (uint32_t)p.ranks);
		fpisa_window_start(&r->w, &r->req);
	}
	for (int i = 0; i < p.flows; i++)
		s->flow[i].cwnd = 2;
	for (; left; s->now++) {
		serve(s);
		left = 0;
		for (int i = 0; i < p.flows; i++)
			reno_turn(s, &s->flow[i], i);
		for (int k = 0; k < p.ranks; k++) {
			int r = (k + s->now) % p.ranks;

			rank_turn(s, r);
			left |= s->rank[r].req.left != 0;
		}
		assert_true(s->now < 1000 * p.chunks * p.ranks);
	}
	for (int i = 0; i < p.ranks; i++)
		free(s->rank[i].w.slot);
	free(s->chunk);
}

/* Return the time that the port needs for the frames, divided by the duration of the run. */
static double share(const struct sim *s)
{
	return (double)s->p.chunks * s->p.ranks / s->now;
}

/*
 * Check ports of 20 and 100 Mbit/s with 128 KB and 1 MB. From two ranks on, a limit of 64 for each rank would be more
 * than the small port holds, and nearly all frames would be sent needlessly.
 */
static void one_port(void **state)
{
	static const uint64_t frame_ns[] = {1400000, 280000};
	static const int rooms[] = {36, 300};

	(void)state;
	for (int ranks = 2; ranks <= MAX_RANKS; ranks *= 2)
		for (int i = 0; i < 4; i++) {
			struct port_plan p = {.ranks = ranks,
					      .frame_ns = frame_ns[i & 1],
					      .room = rooms[i / 2],
					      .delay = 2,
					      .chunks = 600};
			struct sim s;

			run(&s, p);
			print_message(
				"%2d ranks, %4d us a frame, room for %3d: share %.3f, sent %.2f times, queue %.1f\n",
				ranks, (int)(p.frame_ns / 1000), p.room, share(&s), (double)s.sent / p.chunks / ranks,
				s.queued_sum / s.now);
			/* Two chunks of each of 16 ranks nearly fill the small port. */
			assert_true(share(&s) > (ranks < MAX_RANKS ? 0.75 : 0.4));
			assert_true(s.sent < 1.6 * p.chunks * ranks);
		}
}

/* Check that losses without a queue do not lower the rate. The limit stays above the capacity of the path. */
static void losses_without_a_queue(void **state)
{
	struct port_plan p = {.ranks = 4, .frame_ns = 280000, .room = 300, .delay = 2, .chunks = 2000, .loss = 0.01};
	struct sim s;

	(void)state;
	run(&s, p);
	print_message("1%% loss: share %.3f, sent %.2f times\n", share(&s), (double)s.sent / p.chunks / p.ranks);
	assert_true(share(&s) > 0.75);
}

/*
 * Check a call of any number of ranks while another flow fills the port. If ranks always reduced their limit when they
 * found their own frames in the queue, they would get a hundredth of the port. If each rank lowered its limit only for
 * its own losses, 4 ranks would get less than half.
 */
static void beside_another_flow(void **state)
{
	static const double least[] = {0.4, 0.5, 0.35};

	(void)state;
	for (int i = 0; i < 3; i++) {
		int ranks = 2 << i;
		struct port_plan p = {
			.ranks = ranks, .flows = 1, .frame_ns = 280000, .room = 300, .delay = 2, .chunks = 4000};
		struct sim s;
		double ours;

		run(&s, p);
		ours = (double)s.served[0] / (s.served[0] + s.served[1]);
		print_message("%d ranks beside another flow: %.2f of the port\n", ranks, ours);
		assert_true(ours > least[i]);
	}
}

int main(void)
{
	srand48((long)test_seed());
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_port),
		cmocka_unit_test(losses_without_a_queue),
		cmocka_unit_test(beside_another_flow),
	};

	return cmocka_run_group_tests_name("congestion", tests, NULL, NULL);
}
