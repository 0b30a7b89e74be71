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
 * A queue that other senders fill does not shrink when the ranks send less. If they always reduced their limits, they
 * would get no share of the link. So a test finds out who fills the queue, when the delay is not low. The rank lowers
 * its limit to a half for a round. With several aggregators the delay must be above twice LOW, because results wait for
 * other ranks. If the ranks fill the queue, the round trip becomes shorter in proportion (Little).
 * Otherwise other senders fill it. The limit then goes back to its former value, and for KEEP rounds the delay does not
 * count, but only losses and congestion marks, as for a competing TCP (Copa, NSDI 2018, also has two such modes). After
 * these rounds another test lowers the limit to a quarter, so that it sees a small queue of others. If the ranks fill
 * the queue, the delay counts, and the next test is KEEP rounds later. A limit that is too small to be halved is doubled
 * first. At the smallest limit a test soon follows, but not if there are many ranks, because their frames then fill a
 * short queue.
 *
 * The shortest round trip may contain a queue, if other senders had filled it before the ranks began. So the low mark is
 * at most LOW_MOST, and a test compares two round trips with each other.
 *
 * Beside other senders the ranks together behave as that many flows of TCP:
 *
 *	The limit grows by half a chunk per round trip, and by one each STEP, because CUBIC's growth depends on the time
 *	and not on the round trip. It grows only if this rank completed a chunk in the round. Otherwise other ranks
 *	determine the speed, and a higher limit would not help.
 *	All ranks lower their limits for a lost frame of any rank, and results tell them of it. If each rank lowered its
 *	limit for its own losses, the job would have the least of these limits.
 *	They lower it by one part in twice the number of ranks, because one of so many flows would halve its window
 *	(MulTCP, Crowcroft and Oechslin 1998), but at least by one part in PARTS.
 *
 * With several aggregators the queue of one of them may be full while others are empty. The smallest delay of a round is
 * then low. So each aggregator has a record of how long its own delay has been high. As long as such a queue exists,
 * losses at that aggregator lower the limit, by one part in the number of ranks, because the other aggregators have few
 * of the chunks in flight.
 */
#ifndef FPISA_CONGESTION_H
#define FPISA_CONGESTION_H

#include <stdint.h>

#define FPISA_CONGESTION_FIRST_BYTES 14600	/* initial window of TCP (RFC 6928) */
#define FPISA_CONGESTION_LEAST 2		/* minimum number of chunks in flight for each aggregator */
#define FPISA_CONGESTION_LOW_NS 4000000ull	/* smallest low mark */
#define FPISA_CONGESTION_LOW_MOST_NS 8000000ull /* largest low mark */
#define FPISA_CONGESTION_TRY 16			/* rounds between two increases of the limit near `ceiling` */
#define FPISA_CONGESTION_STEP_NS 40000000ull	/* time between two increases while other senders fill the queue */
#define FPISA_CONGESTION_ONE 256
#define FPISA_CONGESTION_PARTS 8  /* smallest reduction for a loss: this fraction of the limit */
#define FPISA_CONGESTION_KEEP 64  /* rounds for which the decision about the queue's cause is kept */
#define FPISA_CONGESTION_SOON 16  /* results after which a round ends if the delay is high */
#define FPISA_CONGESTION_RECENT 8 /* number of latest samples, of which only the shortest round trip counts */
#define FPISA_CONGESTION_QUEUED 3 /* runs of RECENT samples, all with a high delay, that show a lasting queue */
#define FPISA_CONGESTION_LOSS_ONE (1u << 22) /* fpisa_congestion.loss if every chunk is lost */
#define FPISA_CONGESTION_LOSS (FPISA_CONGESTION_LOSS_ONE / 2)
#define FPISA_CONGESTION_BASE_SAMPLES (1 << 18) /* samples after which the shortest round trip is measured again */

/* The shortest round trip by one aggregator. */
struct fpisa_base {
	uint64_t ns, next_ns; /* shortest so far, and shortest of the samples since then; UINT64_MAX: none */
	uint32_t samples;     /* number of samples since ns was set */
	/* number of chunks that this rank completed, and the shortest of their latest round trips, at most RECENT */
	uint32_t recent;
	uint64_t recent_ns;
	uint32_t queued; /* number of successive times that the shortest of RECENT of these was above the high mark */
};

/* A round, which ends after `limit` results. Times without a sample are UINT64_MAX. */
struct fpisa_congestion_round {
	uint32_t results;
	uint32_t samples, slow; /* number of round trips, and of round trips a quarter longer than the shortest */
	uint32_t queued;	/* number of results by an aggregator with a lasting queue */
	uint64_t queue_ns;	/* smallest delay in the round */
	uint64_t delays_ns; /* sum of all delays, each limited to four times the low mark, so that one pause has little effect */
	uint64_t base_ns; /* shortest round trip by the aggregator of queue_ns */
	uint64_t own_ns;  /* shortest round trip of a chunk that this rank completed */
};

struct fpisa_congestion {
	uint32_t limit, most; /* limit of chunks in flight, and the largest value of the limit */
	uint32_t least;	      /* smallest value of the limit, which is two chunks for each aggregator */
	uint32_t ranks;	      /* number of ranks of the job */
	uint32_t fixed;	      /* the limit does not change */
	uint32_t low;	      /* the delay of the last round was low */
	uint32_t starting;    /* there has been no queue yet */
	uint32_t ceiling;     /* limit at the last loss of a frame; 0: no frame was lost */
	uint32_t tried;	      /* rounds above three quarters of `ceiling` since the limit grew */
	uint32_t beside;      /* rounds for which delay does not count, because other senders fill the queue */
	uint32_t beside_one;  /* rounds for which other senders fill the queue of one of several aggregators */
	uint32_t ours;	      /* rounds for which delay counts, because this rank fills the queue */
	uint32_t test_limit;  /* the limit before a test of who fills the queue; 0: there is no test */
	uint64_t test_ns;     /* shortest round trip of the round before the test */
	uint32_t credit;      /* part of the next increase, in 1/ONE */
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
	*b = (struct fpisa_base){.ns = UINT64_MAX, .next_ns = UINT64_MAX, .recent_ns = UINT64_MAX};
}

/*
 * Return the low mark. This is the shortest round trip, between LOW and LOW_MOST, because a queue of one round trip costs
 * no throughput.
 */
static inline uint64_t fpisa_congestion_low(uint64_t base_ns)
{
	if (base_ns > FPISA_CONGESTION_LOW_MOST_NS)
		return FPISA_CONGESTION_LOW_MOST_NS;
	return base_ns > FPISA_CONGESTION_LOW_NS ? base_ns : FPISA_CONGESTION_LOW_NS;
}

/*
 * Take the round trip of a chunk that this rank completed. `shortest_ns` is the shortest by any aggregator, because b->ns
 * contains a queue that was there before the ranks began.
 */
static inline void fpisa_base_own(struct fpisa_base *b, uint64_t rtt_ns, uint64_t shortest_ns)
{
	if (rtt_ns < b->recent_ns)
		b->recent_ns = rtt_ns;
	if (++b->recent % FPISA_CONGESTION_RECENT)
		return;
	b->queued = b->recent_ns - shortest_ns >= 2 * fpisa_congestion_low(shortest_ns) ? b->queued + 1 : 0;
	b->recent_ns = UINT64_MAX;
}

static inline void fpisa_base_sample(struct fpisa_base *b, uint64_t rtt_ns)
{
	if (rtt_ns < b->ns)
		b->ns = rtt_ns;
	if (rtt_ns < b->next_ns)
		b->next_ns = rtt_ns;
	if (++b->samples < FPISA_CONGESTION_BASE_SAMPLES)
		return;
	b->ns = b->next_ns;
	b->next_ns = UINT64_MAX;
	b->samples = 0;
}

/* Return whether there is a lasting queue on the path to the aggregator. */
static inline int fpisa_base_queued(const struct fpisa_base *b)
{
	return b->queued >= FPISA_CONGESTION_QUEUED;
}

/*
 * Initialise for at most `most` chunks in flight, frames of `frame_bytes` bytes, and the given numbers of aggregators
 * and ranks. If frame_bytes is 0, there is no network path, and the limit is always `most`.
 */
static inline void fpisa_congestion_init(struct fpisa_congestion *c, uint32_t most, uint32_t frame_bytes,
					 uint32_t aggregators, uint32_t ranks)
{
	uint32_t first = frame_bytes ? FPISA_CONGESTION_FIRST_BYTES / frame_bytes : most,
		 least = aggregators * FPISA_CONGESTION_LEAST;

	if (first < 2 * least)
		first = 2 * least;
	*c = (struct fpisa_congestion){
		.limit = first < most ? first : most,
		.most = most,
		.least = least,
		.ranks = ranks,
		.fixed = !frame_bytes,
		.starting = 1,
	};
	fpisa_congestion_begin_round(c);
}

/* Return whether there are several aggregators. */
static inline int fpisa_congestion_several(const struct fpisa_congestion *c)
{
	return c->least > FPISA_CONGESTION_LEAST;
}

static inline void fpisa_congestion_set(struct fpisa_congestion *c, uint32_t limit)
{
	c->limit = limit < c->most ? limit : c->most;
	if (!c->limit)
		c->limit = 1;
}

/*
 * Return whether other senders fill the queue, in the round of a test. If the ranks of this job fill it, the round trip
 * has become shorter in proportion to the limit, or is that of an empty path.
 */
static inline int fpisa_congestion_others(const struct fpisa_congestion *c, const struct fpisa_congestion_round *r)
{
	uint64_t expected_ns = c->test_ns * c->limit / c->test_limit,
		 least_ns = r->base_ns < FPISA_CONGESTION_LOW_MOST_NS ? r->base_ns : FPISA_CONGESTION_LOW_MOST_NS;

	if (expected_ns < least_ns)
		expected_ns = least_ns;
	return r->queue_ns + r->base_ns > expected_ns + expected_ns / 4 + FPISA_CONGESTION_LOW_NS / 2;
}

/* Return the limit, lowered such that the delay becomes low, at most by half and not below `least`. */
static inline uint32_t fpisa_congestion_lower(const struct fpisa_congestion *c, uint32_t limit, uint64_t rtt_ns,
					      uint64_t wanted_ns)
{
	uint32_t half = (limit + 1) / 2, less = (uint32_t)(limit * wanted_ns / rtt_ns);

	less = less > half ? less : half;
	if (less > limit)
		return limit;
	return less > c->least ? less : c->least;
}

/* Begin a test of who fills the queue. Lower the limit by `parts` for a round. */
static inline void fpisa_congestion_test(struct fpisa_congestion *c, const struct fpisa_congestion_round *r,
					 uint32_t parts)
{
	uint32_t less = c->limit / parts;

	c->test_limit = c->limit;
	c->test_ns = r->queue_ns + r->base_ns;
	fpisa_congestion_set(c, less > c->least ? less : c->least);
}

/* End the test. With a round trip of `wanted_ns` the delay would be low. */
static inline void fpisa_congestion_tested(struct fpisa_congestion *c, const struct fpisa_congestion_round *r,
					   uint64_t wanted_ns)
{
	if (fpisa_congestion_others(c, r)) {
		fpisa_congestion_set(c, c->test_limit);
		c->beside = FPISA_CONGESTION_KEEP;
	} else {
		fpisa_congestion_set(c, fpisa_congestion_lower(c, c->test_limit, c->test_ns, wanted_ns));
		c->ours = FPISA_CONGESTION_KEEP;
	}
	c->test_limit = 0;
}

/*
 * Lower the limit because the delay is above the high mark, or begin a test. With a round trip of `wanted_ns` the delay
 * would be low. Double a limit that is too small for a test, but only if this rank completed a chunk, because another
 * rank may determine the speed.
 */
static inline void fpisa_congestion_high(struct fpisa_congestion *c, const struct fpisa_congestion_round *r,
					 uint64_t wanted_ns)
{
	if (c->limit <= c->least && c->ours > 2 * c->ranks)
		c->ours = 2 * c->ranks;
	if (c->ours)
		fpisa_congestion_set(c, fpisa_congestion_lower(c, c->limit, r->queue_ns + r->base_ns, wanted_ns));
	else if (c->limit >= 2 * c->least)
		fpisa_congestion_test(c, r, 2);
	else if (r->own_ns != UINT64_MAX)
		fpisa_congestion_set(c, 2 * c->least);
}

static inline void fpisa_congestion_grow(struct fpisa_congestion *c, uint64_t rtt_ns)
{
	if (c->beside || c->beside_one) {
		c->credit +=
			FPISA_CONGESTION_ONE / 2 + (uint32_t)(FPISA_CONGESTION_ONE * rtt_ns / FPISA_CONGESTION_STEP_NS);
		fpisa_congestion_set(c, c->limit + c->credit / FPISA_CONGESTION_ONE);
		c->credit %= FPISA_CONGESTION_ONE;
	} else if (c->starting) {
		fpisa_congestion_set(c, 2 * c->limit);
	} else if (4 * (c->limit + 1) <= 3 * c->ceiling || ++c->tried >= FPISA_CONGESTION_TRY) {
		fpisa_congestion_set(c, c->limit + 1);
		c->tried = 0;
	}
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
	c->beside_one -= c->beside_one != 0;
	c->ours -= c->ours != 0;
	if (r.queued && fpisa_congestion_several(c) && !c->starting)
		c->beside_one = FPISA_CONGESTION_KEEP;
	if (c->starting && r.delays_ns >= r.samples * low)
		fpisa_congestion_started(c, r.delays_ns / r.samples, r.base_ns);
	if (c->test_limit)
		fpisa_congestion_tested(c, &r, low + r.base_ns);
	else if (c->beside && !--c->beside)
		fpisa_congestion_test(c, &r, 4);
	else if (!c->beside && r.queue_ns >= 2 * low)
		fpisa_congestion_high(c, &r, low + r.base_ns);
	else if (!c->beside && !c->low && !c->ours && c->limit >= 2 * c->least && !fpisa_congestion_several(c))
		fpisa_congestion_test(c, &r, 2);
	else if (c->beside ? r.own_ns != UINT64_MAX : c->low)
		fpisa_congestion_grow(c, r.queue_ns + r.base_ns);
	if (c->limit < before || (c->limit > before + 1 && !c->beside))
		c->changed_ns = now;
}

/* Return whether the round has enough results. */
static inline int fpisa_congestion_is_round(const struct fpisa_congestion *c)
{
	const struct fpisa_congestion_round *r = &c->round;

	if (r->results >= c->limit)
		return 1;
	return !c->beside && r->results >= FPISA_CONGESTION_SOON && r->queue_ns != UINT64_MAX &&
	       r->queue_ns >= 2 * fpisa_congestion_low(r->base_ns);
}

/*
 * Count the result of a chunk, which arrived rtt_ns after the chunk was sent; 0 means unknown. `b` has the round trips
 * by the aggregator. `own` is nonzero if this rank completed the round, or if it is unknown which rank did.
 */
static inline void fpisa_congestion_result(struct fpisa_congestion *c, uint64_t rtt_ns, const struct fpisa_base *b,
					   int own, uint64_t now)
{
	struct fpisa_congestion_round *r = &c->round;
	uint64_t base_ns = b->ns;

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
	r->queued += fpisa_base_queued(b);
	r->results++;
	if (!c->fixed && fpisa_congestion_is_round(c))
		fpisa_congestion_round_ends(c, now);
}

/* Return whether the current loss rate permits n chunks in flight. */
static inline int fpisa_congestion_bears(const struct fpisa_congestion *c, uint64_t n)
{
	return n * n * c->loss <= FPISA_CONGESTION_LOSS;
}

/* Return by which part of the limit to lower it for a loss, as the denominator. */
static inline uint32_t fpisa_congestion_parts(const struct fpisa_congestion *c)
{
	uint32_t parts = 2;

	if (c->beside || c->beside_one)
		parts = fpisa_congestion_several(c) ? c->ranks : 2 * c->ranks;
	if (parts < 2)
		return 2;
	return parts < FPISA_CONGESTION_PARTS ? parts : FPISA_CONGESTION_PARTS;
}

/*
 * Halve the limit for a frame that left at sent_ns and was lost or marked (ECN), or lower it less beside other senders,
 * unless the limit was lowered after that time. So the limit is lowered at most once per round trip. A mark counts as a
 * loss by RFC 3168, and in ATP (NSDI 2021) too. A marked frame is not sent again.
 */
static inline void fpisa_congestion_halve(struct fpisa_congestion *c, uint64_t sent_ns, uint64_t now)
{
	uint32_t parts = fpisa_congestion_parts(c), less = c->limit - (c->limit + parts - 1) / parts;

	if (c->fixed || sent_ns < c->reduced_ns)
		return;
	c->reduced_ns = now;
	c->starting = 0;
	c->ceiling = c->limit;
	c->tried = 0;
	fpisa_congestion_set(c, less > c->least ? less : c->least);
}

/* Count a lost frame of this rank, whose retransmission left at sent_ns. */
static inline void fpisa_congestion_lost(struct fpisa_congestion *c, const struct fpisa_base *b, uint64_t sent_ns,
					 uint64_t now)
{
	c->loss += FPISA_CONGESTION_LOSS_ONE / 64;
	if (fpisa_congestion_bears(c, c->limit))
		return;
	if (c->low && fpisa_congestion_several(c) && !fpisa_base_queued(b))
		return;
	if (2 * c->round.slow >= c->round.samples || 2 * c->last.slow >= c->last.samples)
		fpisa_congestion_halve(c, sent_ns, now);
}

/*
 * Count a lost frame of any rank, whose chunk this rank sent first at first_ns. This counts only beside other senders.
 */
static inline void fpisa_congestion_lost_by_any(struct fpisa_congestion *c, const struct fpisa_base *b,
						uint64_t first_ns, uint64_t now)
{
	if (!fpisa_congestion_bears(c, c->limit) && (c->beside || (c->beside_one && fpisa_base_queued(b))))
		fpisa_congestion_halve(c, first_ns, now);
}

#endif
