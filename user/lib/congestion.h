/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How many chunks may be in flight: as many as the paths carry and few more.
 *
 * Any part of a path may be the narrow one: this host's link, the one port
 * behind which an aggregator stands and where all ranks' frames meet, or the
 * socket's receive buffer. What is in flight beyond rate times round trip
 * stands in a queue there, delays other traffic, and in the end overflows it.
 * A rank's frames to all aggregators leave by one link and their results come
 * by it, so there is one limit for all of them.
 *
 * The limit starts at what TCP starts with (RFC 6928), doubles each round trip
 * until a queue shows, and then follows the queueing delay:
 * the round trip less the shortest that was seen of that aggregator. The delay is
 * the least of a whole round, so that a scheduler's delays and waits for other
 * ranks, which not every chunk has, do not count (Vegas, 1995; LEDBAT, RFC 6817).
 * Only what left after the limit changed says whether the change was enough. The
 * limit is at least two chunks an aggregator, one under way there and one on its
 * way back: of one alone every loss takes a timeout, for nothing can overtake it.
 *
 *	delay below LOW		one more
 *	between			as it is
 *	above twice LOW		what the low mark needs, half at least
 *	a loss while a queue stands, or by the receiver	half, once a round
 *
 * Where a frame was lost, a try that fails costs a timeout: above three quarters
 * of that limit one more is tried every TRY rounds only (CUBIC, RFC 9438, slows
 * down there too).
 *
 * A queue stands if most results of a round took a quarter longer than the
 * shortest; where there are several aggregators, and results wait for ranks that
 * send to others first, if the delay is not low besides. A loss without a queue is
 * not congestion: fewer in flight would not help. Nor is it where so few are in
 * flight that losses as frequent as these leave TCP more: n chunks in flight are
 * not too many while n^2 p is below LOSS, p being the share of chunks that are
 * lost (Mathis et al., 1997, have 1.5 for TCP; less leaves room for bursts).
 *
 * A queue that others fill does not shrink when we send less. Then giving way
 * would go on until nothing is left, so when half of the limit has not taken a
 * quarter off the round trip the delay is ignored for a while and losses alone
 * count, as for the TCP beside us: one more a round, half at a loss (Copa, NSDI
 * 2018, has this rule too). If it has, the queue is our own for as long. The
 * round trips that tell are those of rounds that this rank completed: those of
 * others contain a wait for other ranks, which no limit of ours makes shorter. A
 * limit too small to be halved is doubled first.
 */
#ifndef FPISA_CONGESTION_H
#define FPISA_CONGESTION_H

#include <stdint.h>

#define FPISA_CONGESTION_FIRST_BYTES 14600 /* RFC 6928 */
#define FPISA_CONGESTION_LEAST 2	   /* chunks in flight, of each aggregator */
#define FPISA_CONGESTION_LOW_NS 4000000ull
#define FPISA_CONGESTION_TRY 16		     /* rounds after which more is tried where a frame was lost before */
#define FPISA_CONGESTION_TRY_BESIDE 3	     /* the same where others fill the queue */
#define FPISA_CONGESTION_KEEP 64	     /* rounds for which it is known whose queue it is */
#define FPISA_CONGESTION_SOON 16	     /* results after which a round ends if the delay is high */
#define FPISA_CONGESTION_LOSS_ONE (1u << 22) /* fpisa_congestion.loss if every chunk is lost */
#define FPISA_CONGESTION_LOSS (FPISA_CONGESTION_LOSS_ONE / 2)
#define FPISA_CONGESTION_BASE_SAMPLES (1 << 18) /* after which the shortest round trip is looked for anew */

/* The shortest round trip by one aggregator. */
struct fpisa_base {
	uint64_t ns, next_ns; /* and of the samples since; UINT64_MAX: none */
	uint32_t samples;     /* since ns began */
};

/* What a round, which ends after `limit` results, has seen. Times are UINT64_MAX if it has not. */
struct fpisa_congestion_round {
	uint32_t results;
	uint32_t samples, slow; /* round trips; those a quarter longer than the shortest */
	uint64_t queue_ns;	/* the least delay */
	uint64_t delays_ns; /* the sum of all delays, each four times the low mark at most, lest one pause make the mean */
	uint64_t base_ns; /* and the shortest round trip by that aggregator */
	uint64_t own_ns;  /* the least round trip of a chunk that this rank completed */
};

struct fpisa_congestion {
	uint32_t limit, most; /* chunks in flight: now, and at most */
	uint32_t least;	      /* of it: two of each aggregator */
	uint32_t fixed;	      /* the limit stays */
	uint32_t low;	      /* the delay of the last round was */
	uint32_t starting;    /* no queue has shown yet */
	uint32_t ceiling;     /* where a frame was lost last; 0: nowhere */
	uint32_t tried;	      /* rounds since the limit grew, above three quarters of that */
	uint32_t ignored;     /* rounds for which delay does not count, for the queue is others' */
	uint32_t ours;	      /* rounds for which it counts, for the queue is ours */
	uint32_t high_limit;  /* the limit when the delay began to be high; 0: it is not */
	uint64_t high_ns;     /* and the round trip of own_ns then */
	uint32_t loss;	      /* share of chunks lost, a mean over some 64 of them, in 1/LOSS_ONE */
	struct fpisa_congestion_round round, last;
	uint64_t changed_ns; /* what left before tells nothing of the limit, for it changed then */
	uint64_t reduced_ns; /* losses of what left before this do not count again */
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

/* For `most` chunks of `frame_bytes` each, by so many aggregators; 0: there is no path between, and the limit is `most` for good. */
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

/* The limit is half of what it was when the delay began to be high: did that help? Then the queue is ours. */
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

/* Above the high mark: less, down to the least. With `wanted_ns` of round trip the delay would be low. */
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

/* A queue of one round trip costs no throughput where that is longer than the mark. */
static inline uint64_t fpisa_congestion_low(uint64_t base_ns)
{
	return base_ns > FPISA_CONGESTION_LOW_NS ? base_ns : FPISA_CONGESTION_LOW_NS;
}

/* A queue shows, of `delay_ns` on average: what the low mark needs is enough. */
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
 * A chunk has its result, rtt_ns after it was sent, 0: nobody knows; the shortest of that aggregator is base_ns. `own`: this rank
 * completed the round, or nobody knows who did.
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

/* So many in flight are not too many for the losses that there are. */
static inline int fpisa_congestion_bears(const struct fpisa_congestion *c, uint64_t n)
{
	return n * n * c->loss <= FPISA_CONGESTION_LOSS;
}

/* Half, for something that left at sent_ns, unless that is answered already. */
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

/* A frame of this rank was lost, and sent again at sent_ns. */
static inline void fpisa_congestion_lost(struct fpisa_congestion *c, uint64_t sent_ns, uint64_t now)
{
	c->loss += FPISA_CONGESTION_LOSS_ONE / 64;
	if ((c->low && c->least > FPISA_CONGESTION_LEAST) || fpisa_congestion_bears(c, c->limit))
		return;
	if (2 * c->round.slow >= c->round.samples || 2 * c->last.slow >= c->last.samples)
		fpisa_congestion_halve(c, sent_ns, now);
}

#endif
