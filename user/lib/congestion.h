/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The limit of chunks in flight, which is as many as the paths carry, and a few more.
 *
 * Any part of a path may be the bottleneck: this host's link, the port of an aggregator, where the frames of all
 * ranks meet, or the socket's receive buffer. Chunks in flight beyond rate times round trip stand in a queue there,
 * delay other traffic, and in the end overflow it. A rank's frames to all aggregators leave by one link and their
 * results come by that link, so all aggregators share one limit.
 *
 * The limit starts at TCP's initial window (RFC 6928) and doubles each round trip until a queue shows. Then it
 * follows the queueing delay: the round trip less the shortest that was seen of that aggregator. The delay is the
 * least of a whole round, so delays that only some chunks have do not count: the scheduler's, and waits for other
 * ranks (Vegas, 1995; LEDBAT, RFC 6817). Only chunks that left after the limit changed show whether the change was
 * enough. The limit is at least two chunks an aggregator: the aggregator works on one while the other is on its way
 * back. With a single chunk every loss takes a timeout, because no later chunk can overtake the lost chunk.
 *
 *	delay below LOW		one more
 *	between			unchanged
 *	above twice LOW		what the low mark needs, half at least
 *	a loss while a queue stands, or by the receiver	half, once a round
 *	a mark of the path (ECN)	half, once a round
 *
 * Where a frame was lost, an attempt that fails costs a timeout. Above three quarters of that limit the limit
 * therefore grows by one only every TRY rounds (CUBIC, RFC 9438, slows down there too).
 *
 * A queue exists if most results of a round took a quarter longer than the shortest. With several aggregators, results
 * also wait for ranks that send to other aggregators first, so the delay must exceed the low mark too. A loss without a
 * queue is not congestion: fewer chunks in flight would not help. A loss does not count either if so few chunks are in
 * flight that TCP would keep more at this loss rate. n chunks in flight are not too many while n^2 p is below LOSS, p
 * being the share of chunks that are lost (Mathis et al., 1997, have 1.5 for TCP; less leaves room for bursts).
 *
 * A queue that other senders fill does not shrink when this rank sends less. If this rank kept giving way, nothing
 * would be left for it. So if halving the limit has not shortened the round trip by a quarter, the delay is ignored for
 * a while. Only losses count then, as for a competing TCP: one more a round, half at a loss (Copa, NSDI 2018, has this
 * rule too). If the round trip did shrink, the queue is treated as our own for the same time. Only round trips of
 * rounds that this rank completed count here: the others contain a wait for other ranks, which no limit of ours makes
 * shorter. A limit too small to be halved is doubled first.
 */
#ifndef FPISA_CONGESTION_H
#define FPISA_CONGESTION_H

#include <stdint.h>

#define FPISA_CONGESTION_FIRST_BYTES 14600 /* RFC 6928 */
#define FPISA_CONGESTION_LEAST 2	   /* chunks in flight, of each aggregator */
#define FPISA_CONGESTION_LOW_NS 4000000ull
#define FPISA_CONGESTION_TRY 16		     /* rounds after which the limit grows where a frame was lost before */
#define FPISA_CONGESTION_TRY_BESIDE 3	     /* the same where others fill the queue */
#define FPISA_CONGESTION_KEEP 64	     /* rounds for which the owner of the queue is known */
#define FPISA_CONGESTION_SOON 16	     /* results after which a round ends if the delay is high */
#define FPISA_CONGESTION_LOSS_ONE (1u << 22) /* fpisa_congestion.loss if every chunk is lost */
#define FPISA_CONGESTION_LOSS (FPISA_CONGESTION_LOSS_ONE / 2)
#define FPISA_CONGESTION_BASE_SAMPLES (1 << 18) /* samples after which the shortest round trip is measured again */

/* The shortest round trip by one aggregator. */
struct fpisa_base {
	uint64_t ns, next_ns; /* shortest so far, and of the samples since; UINT64_MAX: none */
	uint32_t samples;     /* since ns began */
};

/* A round, which ends after `limit` results. Times that were not seen are UINT64_MAX. */
struct fpisa_congestion_round {
	uint32_t results;
	uint32_t samples, slow; /* round trips; how many are a quarter longer than the shortest */
	uint64_t queue_ns;	/* the least delay */
	uint64_t delays_ns; /* sum of all delays, each capped at four times the low mark, so that one pause does not dominate the mean */
	uint64_t base_ns; /* the shortest round trip by the aggregator of queue_ns */
	uint64_t own_ns;  /* the least round trip of a chunk that this rank completed */
};

struct fpisa_congestion {
	uint32_t limit, most; /* chunks in flight: now, and at most */
	uint32_t least;	      /* least limit: two of each aggregator */
	uint32_t fixed;	      /* the limit does not change */
	uint32_t low;	      /* the delay of the last round was low */
	uint32_t starting;    /* no queue has shown yet */
	uint32_t ceiling;     /* limit at the last loss of a frame; 0: no frame was lost */
	uint32_t tried;	      /* rounds since the limit grew, above three quarters of ceiling */
	uint32_t ignored;     /* rounds for which delay does not count, because others fill the queue */
	uint32_t ours;	      /* rounds for which delay counts, because the queue is ours */
	uint32_t high_limit;  /* the limit when the delay became high; 0: the delay is not high */
	uint64_t high_ns;     /* own_ns at that time */
	uint32_t loss;	      /* share of chunks lost, a mean over some 64 of them, in 1/LOSS_ONE */
	struct fpisa_congestion_round round, last;
	uint64_t changed_ns; /* time of the last change of the limit: frames that left before do not show its effect */
	uint64_t reduced_ns; /* losses of frames that left before this do not count again */
};

static inline void fpisa_congestion_begin_round(struct fpisa_congestion *c)
{
	c->round = (struct fpisa_congestion_round){.queue_ns = UINT64_MAX, .own_ns = UINT64_MAX};
}

static inline void fpisa_base_init(struct fpisa_base *b)
{
	*b = (struct fpisa_base){.ns = UINT64_MAX, .next_ns = UINT64_MAX};
}

static inline void fpisa_base_sample(struct fpisa_base *b, uint64_t rtt_ns)
{
	if (rtt_ns < b->ns)
		b->ns = rtt_ns;
	if (rtt_ns < b->next_ns)
		b->next_ns = rtt_ns;
	if (++b->samples < FPISA_CONGESTION_BASE_SAMPLES)
		return;
	*b = (struct fpisa_base){.ns = b->next_ns, .next_ns = UINT64_MAX};
}

/*
 * Initialise for `most` chunks of `frame_bytes` each, summed by `aggregators`. If frame_bytes is 0, there is no network
 * path, and the limit is always `most`.
 */
static inline void fpisa_congestion_init(struct fpisa_congestion *c, uint32_t most, uint32_t frame_bytes,
					 uint32_t aggregators)
{
	uint32_t first = frame_bytes ? FPISA_CONGESTION_FIRST_BYTES / frame_bytes : most,
		 least = aggregators * FPISA_CONGESTION_LEAST;

	if (first < 2 * least)
		first = 2 * least;
	*c = (struct fpisa_congestion){
		.limit = first < most ? first : most, .most = most, .least = least, .fixed = !frame_bytes, .starting = 1};
	fpisa_congestion_begin_round(c);
}

static inline void fpisa_congestion_set(struct fpisa_congestion *c, uint32_t limit)
{
	c->limit = limit < c->most ? limit : c->most;
	if (!c->limit)
		c->limit = 1;
}

/* Decide whether the queue is ours: the limit is half of its value when the delay became high. */
static inline void fpisa_congestion_halved(struct fpisa_congestion *c, uint64_t own_ns)
{
	if (own_ns == UINT64_MAX)
		return;
	if (8 * own_ns > 5 * c->high_ns) {
		fpisa_congestion_set(c, c->high_limit > c->ceiling / 2 ? c->high_limit : c->ceiling / 2);
		c->ignored = FPISA_CONGESTION_KEEP;
	} else {
		c->ours = FPISA_CONGESTION_KEEP;
	}
	c->high_limit = 0;
}

/* Lower the limit above the high mark, down to the least. With `wanted_ns` of round trip the delay would be low. */
static inline void fpisa_congestion_high(struct fpisa_congestion *c, const struct fpisa_congestion_round *r,
					 uint64_t wanted_ns)
{
	uint32_t half = (c->limit + 1) / 2, less = (uint32_t)(c->limit * wanted_ns / (r->queue_ns + r->base_ns));
	int known = r->own_ns != UINT64_MAX;

	if (known && c->limit <= c->least)
		c->ours = 0;
	if (known && !c->high_limit && !c->ours) {
		if (c->limit < 2 * c->least) {
			fpisa_congestion_set(c, 2 * c->least);
			return;
		}
		c->high_limit = c->limit;
		c->high_ns = r->own_ns;
	}
	less = less > half ? less : half;
	if (c->high_limit && 2 * c->limit <= c->high_limit)
		fpisa_congestion_halved(c, r->own_ns);
	else if (c->limit > c->least)
		fpisa_congestion_set(c, less > c->least ? less : c->least);
}

static inline void fpisa_congestion_grow(struct fpisa_congestion *c)
{
	if (c->starting) {
		fpisa_congestion_set(c, 2 * c->limit);
	} else if ((c->ignored && !c->ceiling) || 4 * (c->limit + 1) <= 3 * c->ceiling ||
		   ++c->tried >= (c->ignored ? FPISA_CONGESTION_TRY_BESIDE : FPISA_CONGESTION_TRY)) {
		fpisa_congestion_set(c, c->limit + 1);
		c->tried = 0;
	}
}

/* Return the low mark: a queue of one round trip costs no throughput if that is longer than the mark. */
static inline uint64_t fpisa_congestion_low(uint64_t base_ns)
{
	return base_ns > FPISA_CONGESTION_LOW_NS ? base_ns : FPISA_CONGESTION_LOW_NS;
}

/* End the start phase: a queue shows, of `delay_ns` on average, so the limit becomes what the low mark needs. */
static inline void fpisa_congestion_started(struct fpisa_congestion *c, uint64_t delay_ns, uint64_t base_ns)
{
	uint64_t wanted_ns = base_ns + fpisa_congestion_low(base_ns);
	uint32_t less = (uint32_t)(c->limit * wanted_ns / (base_ns + delay_ns));

	c->starting = 0;
	fpisa_congestion_set(c, less > c->least ? less : c->least);
}

static inline void fpisa_congestion_round_ends(struct fpisa_congestion *c, uint64_t now)
{
	const struct fpisa_congestion_round r = c->last = c->round;
	uint64_t low = fpisa_congestion_low(r.base_ns);
	uint32_t before = c->limit;

	fpisa_congestion_begin_round(c);
	if (r.queue_ns == UINT64_MAX)
		return;
	c->low = r.queue_ns < low;
	c->ignored -= c->ignored != 0;
	c->ours -= c->ours != 0;
	if (c->starting && r.delays_ns >= r.samples * low)
		fpisa_congestion_started(c, r.delays_ns / r.samples, r.base_ns);
	if (r.queue_ns >= 2 * low && !c->ignored) {
		fpisa_congestion_high(c, &r, low + r.base_ns);
	} else {
		c->high_limit = 0;
		if (c->low || c->ignored)
			fpisa_congestion_grow(c);
	}
	if (c->limit < before || c->limit > before + 1)
		c->changed_ns = now;
}

/*
 * Count the result of a chunk, which came rtt_ns after it was sent; 0: unknown. The shortest round trip of that
 * aggregator is base_ns. `own`: this rank completed the round, or the rank that did is unknown.
 */
static inline void fpisa_congestion_result(struct fpisa_congestion *c, uint64_t rtt_ns, uint64_t base_ns, int own,
					   uint64_t now)
{
	struct fpisa_congestion_round *r = &c->round;

	c->loss -= c->loss / 64;
	if (rtt_ns) {
		uint64_t delay = rtt_ns - base_ns, low = fpisa_congestion_low(base_ns);

		if (now - rtt_ns < c->changed_ns)
			return;
		if (delay < r->queue_ns) {
			r->queue_ns = delay;
			r->base_ns = base_ns;
		}
		if (own && rtt_ns < r->own_ns)
			r->own_ns = rtt_ns;
		r->samples++;
		r->slow += delay > base_ns / 4;
		r->delays_ns += delay < 4 * low ? delay : 4 * low;
	}
	r->results++;
	if (!c->fixed && (r->results >= c->limit || (r->results >= FPISA_CONGESTION_SOON && r->queue_ns != UINT64_MAX &&
						     r->queue_ns >= 2 * fpisa_congestion_low(r->base_ns))))
		fpisa_congestion_round_ends(c, now);
}

/* Return whether n chunks in flight are acceptable at the present loss rate. */
static inline int fpisa_congestion_bears(const struct fpisa_congestion *c, uint64_t n)
{
	return n * n * c->loss <= FPISA_CONGESTION_LOSS;
}

/*
 * Halve the limit for a frame that left at sent_ns and was lost or marked (ECN), unless the limit was halved since: once
 * a round trip. RFC 3168 wants a mark to count as a loss, and ATP (NSDI 2021) does so too. A marked frame is not sent
 * again.
 */
static inline void fpisa_congestion_halve(struct fpisa_congestion *c, uint64_t sent_ns, uint64_t now)
{
	if (c->fixed || sent_ns < c->reduced_ns)
		return;
	c->reduced_ns = now;
	c->starting = 0;
	c->ceiling = c->limit;
	c->tried = 0;
	fpisa_congestion_set(c, c->limit / 2 > c->least ? c->limit / 2 : c->least);
}

/* Count a loss: a frame of this rank was lost, and sent again at sent_ns. */
static inline void fpisa_congestion_lost(struct fpisa_congestion *c, uint64_t sent_ns, uint64_t now)
{
	c->loss += FPISA_CONGESTION_LOSS_ONE / 64;
	if ((c->low && c->least > FPISA_CONGESTION_LEAST) || fpisa_congestion_bears(c, c->limit))
		return;
	if (2 * c->round.slow >= c->round.samples || 2 * c->last.slow >= c->last.samples)
		fpisa_congestion_halve(c, sent_ns, now);
}

#endif
