/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The limit of chunks in flight, which is slightly more than the paths carry.
 *
 * Any part of a path may be the bottleneck: this host's link, the port of an aggregator, where the frames of all ranks
 * meet, or the socket's receive buffer. Chunks in flight beyond rate times round trip wait in a queue at the
 * bottleneck, delay other traffic, and finally overflow the queue. A rank's frames to all aggregators leave through one
 * link, and all results arrive through this link, so all aggregators share one limit.
 *
 * The limit starts at the initial window of TCP (RFC 6928) and doubles each round trip until there is a queue. After
 * that, the limit follows the queueing delay, which is the round trip minus the shortest round trip of the same
 * aggregator so far. The delay is the least of a whole round, so delays that only some chunks have, such as those by
 * the scheduler and by other ranks, do not count (Vegas, 1995; LEDBAT, RFC 6817). Only chunks that left after a change
 * of the limit show its effect. The limit is at least two chunks for each aggregator, so that the aggregator can
 * process one while the other is on its way back. With a single chunk every loss would take a timeout, because no later
 * chunk could overtake the lost chunk.
 *
 *	delay below LOW		raise the limit by one
 *	between			unchanged
 *	above twice LOW		lower the limit to what the low mark needs, at most by half
 *	a loss while a queue exists, or at the receiver	halve the limit, once per round
 *	a congestion mark (ECN)	halve the limit, once per round
 *
 * Another loss at the limit at which a frame was lost would cost a timeout. So above three quarters of that value, the
 * limit grows by one only every TRY rounds (CUBIC, RFC 9438, also slows down there).
 *
 * A queue exists if most results of a round took at least a quarter longer than the shortest. With several aggregators,
 * results also wait for ranks that send to other aggregators first, so the delay must also exceed the low mark. A loss
 * without a queue is not congestion, because fewer chunks in flight would not help. A loss does not count either if so
 * few chunks are in flight that TCP would have more in flight at this loss rate. n chunks in flight are acceptable
 * while n^2 p is below LOSS, where p is the share of lost chunks (Mathis et al., 1997, have 1.5 for TCP; a lower value
 * leaves room for bursts).
 *
 * A queue that other senders fill does not shrink when this rank sends less. If this rank always reduced its limit, it
 * would get no share of the link. So if halving the limit has not shortened the round trip by a quarter, ignore the
 * delay for a while. During that time only losses count, as for a competing TCP, so the limit grows by one per round
 * and is halved at a loss (Copa, NSDI 2018, also has this rule). If the round trip has become shorter, treat the queue
 * as caused by this rank for the same time. Only round trips of rounds that this rank completed count for this
 * decision, because other round trips contain a wait for other ranks, which does not depend on the limit. A limit that
 * is too small to be halved is doubled first.
 */
#ifndef FPISA_CONGESTION_H
#define FPISA_CONGESTION_H

#include <stdint.h>

#define FPISA_CONGESTION_FIRST_BYTES 14600 /* initial window of TCP (RFC 6928) */
#define FPISA_CONGESTION_LEAST 2	   /* least chunks in flight for each aggregator */
#define FPISA_CONGESTION_LOW_NS 4000000ull
#define FPISA_CONGESTION_TRY 16		     /* rounds between two increases of the limit near a limit with a loss */
#define FPISA_CONGESTION_TRY_BESIDE 3	     /* rounds between two increases while other senders fill the queue */
#define FPISA_CONGESTION_KEEP 64	     /* rounds for which the decision about the queue's cause holds */
#define FPISA_CONGESTION_SOON 16	     /* results after which a round ends if the delay is high */
#define FPISA_CONGESTION_LOSS_ONE (1u << 22) /* fpisa_congestion.loss if every chunk is lost */
#define FPISA_CONGESTION_LOSS (FPISA_CONGESTION_LOSS_ONE / 2)
#define FPISA_CONGESTION_BASE_SAMPLES (1 << 18) /* samples after which the shortest round trip is measured again */

/* The shortest round trip by one aggregator. */
struct fpisa_base {
	uint64_t ns, next_ns; /* shortest so far, and shortest of the samples since then; UINT64_MAX: none */
	uint32_t samples;     /* number of samples since ns was set */
};

/* A round, which ends after `limit` results. Times without a sample are UINT64_MAX. */
struct fpisa_congestion_round {
	uint32_t results;
	uint32_t samples, slow; /* number of round trips, and of those that are a quarter longer than the shortest */
	uint64_t queue_ns;	/* least delay of the round */
	uint64_t delays_ns; /* sum of all delays, each limited to four times the low mark, so that one pause has little effect */
	uint64_t base_ns; /* shortest round trip by the aggregator of queue_ns */
	uint64_t own_ns;  /* the least round trip of a chunk that this rank completed */
};

struct fpisa_congestion {
	uint32_t limit, most; /* limit of chunks in flight, and the largest value of the limit */
	uint32_t least;	      /* smallest value of the limit, which is two chunks for each aggregator */
	uint32_t fixed;	      /* the limit does not change */
	uint32_t low;	      /* the delay of the last round was low */
	uint32_t starting;    /* there has been no queue yet */
	uint32_t ceiling;     /* limit at the last loss of a frame; 0: no frame was lost */
	uint32_t tried;	      /* rounds since the limit grew, above three quarters of ceiling */
	uint32_t ignored;     /* rounds for which delay does not count, because other senders fill the queue */
	uint32_t ours;	      /* rounds for which delay counts, because this rank fills the queue */
	uint32_t high_limit;  /* the limit when the delay became high; 0: the delay is not high */
	uint64_t high_ns;     /* own_ns at that time */
	uint32_t loss;	      /* share of lost chunks in 1/LOSS_ONE, as a mean over some 64 chunks */
	struct fpisa_congestion_round round, last;
	/* time of the last change of the limit; frames that left earlier do not show the effect of the change */
	uint64_t changed_ns;
	/* time of the last reduction for a loss; losses of frames that left earlier do not count */
	uint64_t reduced_ns;
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
 * Initialise for at most `most` chunks in flight, frames of `frame_bytes` bytes, and the given number of aggregators.
 * If frame_bytes is 0, there is no network path, and the limit is always `most`.
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

/*
 * Decide whether this rank fills the queue. Call this when the limit is half of its value at the time when the delay
 * became high.
 */
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

/*
 * Lower the limit because the delay is above the high mark, but not below `least`. With a round trip of `wanted_ns` the
 * delay would be low.
 */
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

/*
 * Return the low mark. This is the round trip if that is longer, because a queue of one round trip costs no throughput.
 */
static inline uint64_t fpisa_congestion_low(uint64_t base_ns)
{
	return base_ns > FPISA_CONGESTION_LOW_NS ? base_ns : FPISA_CONGESTION_LOW_NS;
}

/*
 * End the start phase, because there is a queue with an average delay of `delay_ns`. Set the limit to what the low mark
 * needs.
 */
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
 * Count the result of a chunk, which arrived rtt_ns after the chunk was sent; 0 means unknown. base_ns is the shortest
 * round trip by the aggregator. `own` is nonzero if this rank completed the round, or if it is unknown which rank did.
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

/* Return whether the present loss rate permits n chunks in flight. */
static inline int fpisa_congestion_bears(const struct fpisa_congestion *c, uint64_t n)
{
	return n * n * c->loss <= FPISA_CONGESTION_LOSS;
}

/*
 * Halve the limit for a frame that left at sent_ns and was lost or marked (ECN), unless the limit was halved after that
 * time. So the limit is halved at most once per round trip. A mark counts as a loss by RFC 3168, and in ATP (NSDI 2021)
 * too. A marked frame is not sent again.
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

/* Count a lost frame of this rank, whose retransmission left at sent_ns. */
static inline void fpisa_congestion_lost(struct fpisa_congestion *c, uint64_t sent_ns, uint64_t now)
{
	c->loss += FPISA_CONGESTION_LOSS_ONE / 64;
	if ((c->low && c->least > FPISA_CONGESTION_LEAST) || fpisa_congestion_bears(c, c->limit))
		return;
	if (2 * c->round.slow >= c->round.samples || 2 * c->last.slow >= c->last.samples)
		fpisa_congestion_halve(c, sent_ns, now);
}

#endif
