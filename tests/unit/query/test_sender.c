/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Send a worker's frames (user/query/worker/sender.h) over simulated networks. Measure how long sending takes, and how
 * many frames are sent needlessly.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "query/worker/sender.h"
#include "vectors.h"

#define MS 1000000ull
#define WORKERS 4
#define HELD 65536 /* maximum number of acknowledgements in flight */

static struct vectors_rng rng;

/* The network of a simulation, with its losses and delays */
struct network {
	uint32_t lost_percent;	     /* share of frames that are lost, together with their acknowledgements */
	uint64_t trip_ns, jitter_ns; /* round-trip time, and the maximum that is added to it */
	uint64_t frame_ns, free_ns;  /* a frame's time on the shared link, and the time when the link is free */
	int echoes;		     /* acknowledgements echo the copy that they answer */
};

struct worker {
	struct fpisa_transport transport;
	struct fpisa_member member;
	struct sender sender;
	uint64_t rows_left;
	uint64_t copies, in_vain; /* frames sent, and frames sent while an acknowledgement was already in flight */
	uint8_t answered[4096];
};

struct ack {
	uint64_t at_ns, sequence, copy;
	struct worker *worker;
};

static struct network net;
static struct ack held[HELD];
static size_t n_held;
static uint64_t now_ns;
static struct worker worker[WORKERS];

static int carry(struct fpisa_transport *t, const struct fpisa_out *out, int n)
{
	struct worker *w = (struct worker *)((char *)t - offsetof(struct worker, transport));

	for (int i = 0; i < n; i++) {
		const struct fpisa_hdr *h = out[i].part[0].iov_base;
		uint64_t at = now_ns;

		w->copies++;
		assert_true(h->chunk < sizeof(w->answered));
		w->in_vain += w->answered[h->chunk];
		if (net.frame_ns)
			at = net.free_ns = (net.free_ns > now_ns ? net.free_ns : now_ns) + net.frame_ns;
		if (vectors_below(&rng, 100) < net.lost_percent)
			continue;
		w->answered[h->chunk] = 1;
		at += net.trip_ns + (net.jitter_ns ? vectors_next(&rng) % net.jitter_ns : 0);
		assert_true(n_held < HELD);
		held[n_held++] = (struct ack){at, h->chunk, net.echoes ? h->aux : 0, w};
	}
	return 0;
}

static const struct fpisa_transport_ops ops = {.send = carry};

static int next_row(void *arg, struct fpisa_row *row)
{
	struct worker *w = arg;

	*row = (struct fpisa_row){.count = 1};
	return w->rows_left ? (int)!!w->rows_left-- : 0;
}

static void begin(uint64_t frames)
{
	n_held = 0;
	now_ns = 1000 * MS;
	net.free_ns = 0;
	for (int i = 0; i < WORKERS; i++) {
		struct worker *w = &worker[i];

		*w = (struct worker){.transport.ops = &ops, .member.key_bytes = 8};
		w->member.t = &w->transport;
		assert_int_equal(
			sender_begin(&w->sender, &w->member, FPISA_TYPE_ROWS, (struct sender_rows){next_row, w}, 1500),
			0);
		w->rows_left = frames * w->sender.a_frame;
	}
}

/* Return the time of the next event. */
static uint64_t next_time(int workers)
{
	uint64_t at = UINT64_MAX;

	for (size_t i = 0; i < n_held; i++)
		at = held[i].at_ns < at ? held[i].at_ns : at;
	for (int i = 0; i < workers; i++)
		at = sender_due(&worker[i].sender) < at ? sender_due(&worker[i].sender) : at;
	return at > now_ns ? at : now_ns;
}

static void hear(void)
{
	for (size_t i = 0; i < n_held;) {
		struct ack a = held[i];

		if (a.at_ns > now_ns) {
			i++;
			continue;
		}
		held[i] = held[--n_held];
		sender_acked(&a.worker->sender, a.sequence, a.copy, now_ns);
	}
}

/* Return the milliseconds until all workers are done. *in_vain is the share of copies that were not needed. */
static double run(int workers, uint64_t frames, double *in_vain)
{
	uint64_t copies = 0, vain = 0, begun;
	int done = 0;

	begin(frames);
	begun = now_ns;
	while (done < workers) {
		done = 0;
		for (int i = 0; i < workers; i++) {
			assert_int_equal(sender_turn(&worker[i].sender, now_ns), 0);
			done += sender_done(&worker[i].sender);
		}
		if (done == workers)
			break;
		now_ns = next_time(workers);
		hear();
	}
	for (int i = 0; i < WORKERS; i++) {
		copies += worker[i].copies;
		vain += worker[i].in_vain;
		sender_end(&worker[i].sender);
	}
	*in_vain = (double)vain / (double)copies;
	return (double)(now_ns - begun) / 1e6;
}

/* Return the mean of several runs. */
static double mean(struct network of, int workers, uint64_t frames, double *in_vain)
{
	enum { RUNS = 8 };
	double ms = 0, share, all = 0;

	for (int i = 0; i < RUNS; i++) {
		net = of;
		ms += run(workers, frames, &share) / RUNS;
		all += share / RUNS;
	}
	*in_vain = all;
	print_message("%d worker(s), %u%% lost, %.1f to %.1f ms: %.0f ms, %.3f in vain\n", workers, of.lost_percent,
		      of.trip_ns / 1e6, (of.trip_ns + of.jitter_ns) / 1e6, ms, all);
	return ms;
}

/*
 * Check a loss of three frames in four, as if both ends lost 30% in each direction. The frame that has waited longest
 * does not stop the others.
 */
static void test_losses(void **state)
{
	double in_vain;

	(void)state;
	assert_true(mean((struct network){.lost_percent = 76, .trip_ns = MS / 3, .jitter_ns = MS, .echoes = 1}, 1, 234,
			 &in_vain) < 1200);
	assert_true(in_vain < 0.02);
	/* Simulate a busy machine. */
	assert_true(mean((struct network){.lost_percent = 76, .trip_ns = 50 * MS, .jitter_ns = 50 * MS, .echoes = 1}, 1,
			 234, &in_vain) < 25000);
	assert_true(in_vain < 0.04);
	/* Simulate a master that does not echo copies. */
	assert_true(mean((struct network){.lost_percent = 76, .trip_ns = MS / 3, .jitter_ns = MS}, 1, 234, &in_vain) <
		    1200);
}

/*
 * Check four workers that fill a 100 Mbit/s link. They make the round trip longer, and late frames do not count as
 * lost.
 */
static void test_full_link(void **state)
{
	struct network of = {.trip_ns = MS, .frame_ns = 120000, .echoes = 1};
	double in_vain, idle = 4 * 2000 * 0.12;

	(void)state;
	assert_true(mean(of, 4, 2000, &in_vain) < 1.05 * idle);
	assert_true(in_vain < 0.03);
	of.echoes = 0;
	assert_true(mean(of, 4, 2000, &in_vain) < 1.10 * idle);
	assert_true(in_vain < 0.06);
	of = (struct network){.lost_percent = 1, .trip_ns = MS, .jitter_ns = 5 * MS, .frame_ns = 120000, .echoes = 1};
	assert_true(mean(of, 4, 2000, &in_vain) < 1.10 * idle);
	assert_true(in_vain < 0.05);
}

/* Check that the echoed copy determines the round trip. An unknown copy gives no sample (Karn's rule). */
static void test_samples(void **state)
{
	struct sender *s = &worker[0].sender;
	uint64_t begun, rto, again;

	(void)state;
	for (int echo = 0; echo < 3; echo++) {
		net = (struct network){.lost_percent = 100};
		begin(100);
		begun = now_ns;
		assert_int_equal(sender_turn(s, now_ns), 0);
		rto = sender_due(s) - now_ns;
		now_ns = again = sender_due(s);
		assert_int_equal(sender_turn(s, now_ns), 0);
		now_ns += 2 * MS;
		/* aux as on the wire is 1 + nanoseconds since the first frame */
		assert_true(sender_acked(s, 1, !echo ? 0 : echo == 1 ? 1 : 1 + again - begun, now_ns));
		assert_false(sender_acked(s, 1, 0, now_ns));
		assert_int_equal(s->rto.srtt_ns, !echo ? 0 : echo == 1 ? rto + 2 * MS : 2 * MS);
		/* An echo that matches no copy is ignored. */
		assert_true(sender_acked(s, 2, 2 + again - begun, now_ns));
		assert_true(sender_acked(s, 3, ~0ull, now_ns));
		assert_int_equal(s->rto.srtt_ns, !echo ? 0 : echo == 1 ? rto + 2 * MS : 2 * MS);
		for (int i = 0; i < WORKERS; i++)
			sender_end(&worker[i].sender);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_full_link),
		cmocka_unit_test(test_samples),
	};

	rng.state = vectors_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
