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
 * until a queue shows, and then follows the queueing delay: the round trip
 * less the shortest that was seen of that aggregator. The delay is the least of
 * a whole round, so that a scheduler's delays and waits for other ranks, which
 * not every chunk has, do not count (Vegas, 1995; LEDBAT, RFC 6817). It is at
 * least two chunks an aggregator, one under way there and one on its way back.
 *
 *	delay below LOW		one more
 *	between			as it is
 *	above HIGH		an eighth less
 *	a loss while a queue stands, or by the receiver	half, once a round
 *
 * Where a frame was lost, a try that fails costs a timeout: above three quarters
 * of that limit one more is tried every TRY rounds only (CUBIC, RFC 9438, slows
 * down there too).
 *
 * A queue stands if most results of a round took a quarter longer than the
 * shortest; where there are several aggregators, and results wait for ranks that
 * send to others first, if the delay is not low besides. A loss without a queue is
 * not congestion: fewer in flight would not help.
 *
 * A queue that others fill does not shrink when we send less. Then giving way
 * would go on until nothing is left, so when half of the limit has not taken a
 * quarter off the round trip the delay is ignored for a while and losses alone
 * count, as for the TCP beside us: one more a round, half at a loss (Copa, NSDI
 * 2018, has this rule too). If it has, the queue is our own for as long.
 */
#ifndef FPISA_CONGESTION_H
#define FPISA_CONGESTION_H

#include <stdint.h>

#define FPISA_CONGESTION_FIRST_BYTES 14600 /* RFC 6928 */
#define FPISA_CONGESTION_LEAST 2	   /* chunks in flight, of each aggregator, that delay alone leaves */
#define FPISA_CONGESTION_LOW_NS 4000000ull
#define FPISA_CONGESTION_HIGH_NS 8000000ull
#define FPISA_CONGESTION_TRY 16			/* rounds after which more is tried where a frame was lost before */
#define FPISA_CONGESTION_TRY_BESIDE 3		/* the same where others fill the queue */
#define FPISA_CONGESTION_KEEP 64		/* rounds for which it is known whose queue it is */
#define FPISA_CONGESTION_BASE_SAMPLES (1 << 18) /* after which the shortest round trip is looked for anew */

/* The shortest round trip by one aggregator. */
struct fpisa_base {
	uint64_t ns, next_ns; /* and of the samples since; UINT64_MAX: none */
	uint32_t samples;     /* since ns began */
};

struct fpisa_congestion {
	uint32_t limit, most;	      /* chunks in flight: now, and at most */
	uint32_t least, floor;	      /* what delay alone leaves, what losses leave */
	uint32_t results;	      /* of this round, which ends after `limit` of them */
	uint32_t fixed;		      /* the limit stays */
	uint32_t low;		      /* the delay of the last round was */
	uint32_t starting;	      /* no queue has shown yet */
	uint32_t ceiling;	      /* where a frame was lost last */
	uint32_t tried;		      /* rounds since the limit grew, above three quarters of that */
	uint32_t ignored;	      /* rounds for which delay does not count, for the queue is others' */
	uint32_t ours;		      /* rounds for which it counts, for the queue is ours */
	uint32_t high_limit;	      /* the limit when the delay began to be high; 0: it is not */
	uint64_t high_ns;	      /* and the round trip then */
	uint64_t queue_ns;	      /* the least delay of this round; UINT64_MAX: none */
	uint64_t queue_base_ns;	      /* and the shortest round trip by that aggregator */
	uint32_t slow[2], samples[2]; /* results that were in a queue, of all: this round's, the last one's */
	uint64_t reduced_ns;	      /* losses of what left before this do not count again */
};

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
	*c = (struct fpisa_congestion){.limit = first < most ? first : most,
				       .most = most,
				       .least = least,
				       .floor = aggregators > 1 ? least : 1,
				       .fixed = !frame_bytes,
				       .starting = 1,
				       .queue_ns = UINT64_MAX};
}

static inline void fpisa_congestion_set(struct fpisa_congestion *c, uint32_t limit)
{
	c->limit = limit < c->most ? limit : c->most;
	if (!c->limit)
		c->limit = 1;
}

/* The limit is half of what it was when the delay began to be high: did that help? Then the queue is ours. */
static inline void fpisa_congestion_halved(struct fpisa_congestion *c, uint64_t rtt_ns)
{
	if (4 * rtt_ns > 3 * c->high_ns) {
		fpisa_congestion_set(c, c->high_limit);
		c->ignored = FPISA_CONGESTION_KEEP;
	} else {
		c->ours = FPISA_CONGESTION_KEEP;
	}
	c->high_limit = 0;
}

/* Above the high mark: an eighth less, down to the least. Of few it is not worth knowing whose queue it is. */
static inline void fpisa_congestion_high(struct fpisa_congestion *c, uint64_t rtt_ns)
{
	uint32_t less = c->limit - (c->limit + 7) / 8;

	if (!c->high_limit && !c->ours && c->limit >= 2 * c->least) {
		c->high_limit = c->limit;
		c->high_ns = rtt_ns;
	}
	if (c->high_limit && 2 * c->limit <= c->high_limit)
		fpisa_congestion_halved(c, rtt_ns);
	else if (c->limit > c->least)
		fpisa_congestion_set(c, less > c->least ? less : c->least);
}

static inline void fpisa_congestion_grow(struct fpisa_congestion *c)
{
	if (c->starting)
		fpisa_congestion_set(c, 2 * c->limit);
	else if (4 * (c->limit + 1) <= 3 * c->ceiling ||
		 ++c->tried >= (c->ignored ? FPISA_CONGESTION_TRY_BESIDE : FPISA_CONGESTION_TRY)) {
		fpisa_congestion_set(c, c->limit + 1);
		c->tried = 0;
	}
}

static inline void fpisa_congestion_round(struct fpisa_congestion *c)
{
	uint64_t low = FPISA_CONGESTION_LOW_NS, high = FPISA_CONGESTION_HIGH_NS, queue_ns = c->queue_ns;

	c->results = 0;
	c->slow[1] = c->slow[0];
	c->samples[1] = c->samples[0];
	c->slow[0] = c->samples[0] = 0;
	if (queue_ns == UINT64_MAX)
		return;
	c->queue_ns = UINT64_MAX;
	/* A queue of one round trip costs no throughput where that is longer. */
	if (low < c->queue_base_ns) {
		low = c->queue_base_ns;
		high = 2 * low;
	}
	c->low = queue_ns < low;
	if (!c->low)
		c->starting = 0;
	c->ignored -= c->ignored != 0;
	c->ours -= c->ours != 0;
	if (queue_ns >= high && !c->ignored) {
		fpisa_congestion_high(c, queue_ns + c->queue_base_ns);
		return;
	}
	c->high_limit = 0;
	if (queue_ns < low || c->ignored)
		fpisa_congestion_grow(c);
}

/* A chunk has its result, rtt_ns after it was sent, 0: nobody knows; the shortest of that aggregator is base_ns. */
static inline void fpisa_congestion_result(struct fpisa_congestion *c, uint64_t rtt_ns, uint64_t base_ns)
{
	if (rtt_ns) {
		if (rtt_ns - base_ns < c->queue_ns) {
			c->queue_ns = rtt_ns - base_ns;
			c->queue_base_ns = base_ns;
		}
		c->samples[0]++;
		c->slow[0] += rtt_ns > base_ns + base_ns / 4;
	}
	if (++c->results >= c->limit && !c->fixed)
		fpisa_congestion_round(c);
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
	fpisa_congestion_set(c, c->limit / 2 > c->floor ? c->limit / 2 : c->floor);
}

/* A frame of this rank was lost, and sent again at sent_ns. */
static inline void fpisa_congestion_lost(struct fpisa_congestion *c, uint64_t sent_ns, uint64_t now)
{
	if (c->low && c->floor > 1)
		return;
	if (2 * c->slow[0] >= c->samples[0] || 2 * c->slow[1] >= c->samples[1])
		fpisa_congestion_halve(c, sent_ns, now);
}

#endif
