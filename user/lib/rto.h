/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The retransmission timeout, by Jacobson's estimator (RFC 6298) with Karn's rule and one addition. The time of a chunk
 * is a round trip only for the rank whose contribution completed the round. For other ranks the time contains a wait
 * for that rank, and perhaps that rank's own timeouts. Estimates from such times would increase each other until all
 * reach the maximum.
 *
 * An estimate is valid for up to twice as many chunks in flight as there were when its samples were sent. With more
 * chunks in flight a chunk may take proportionally longer, because a link sends one chunk after the other. TCP uses a
 * long minimum timeout for this case, but here every loss would take that time. So the timeout grows in proportion
 * until there are samples with more chunks in flight.
 */
#ifndef FPISA_RTO_H
#define FPISA_RTO_H

#include <stdint.h>

#define FPISA_RTO_FIRST_NS \
	100000000ull /* timeout before any sample, which is the time of 16 frames on a link of 5 Mbit/s */
#define FPISA_RTO_MIN_NS 5000000ull /* smallest timeout, above the jitter of a loaded scheduler */
#define FPISA_RTO_MAX_NS 250000000ull
#define FPISA_RTO_REORDER_NS 500000ull
#define FPISA_RTO_LOAD_ONE 256 /* value of fpisa_rto.load for one chunk */
#define FPISA_BACKOFF_MAX_NS 1000000000ull
#define FPISA_BACKOFFS 9 /* number of backoffs; RTO_MIN << 8 exceeds BACKOFF_MAX */

struct fpisa_rto {
	uint64_t srtt_ns, var_ns, rto_ns;
	uint32_t unsampled; /* number of chunks without a sample since the last sample */
	/* chunks in flight when the samples were sent, in 1/LOAD_ONE, smoothed as srtt_ns; 0: no sample */
	uint32_t load;
};

static inline void fpisa_rto_init(struct fpisa_rto *r)
{
	*r = (struct fpisa_rto){.rto_ns = FPISA_RTO_FIRST_NS};
}

/* Count a sample that was sent with `chunks` chunks in flight. */
static inline void fpisa_rto_load(struct fpisa_rto *r, uint32_t chunks)
{
	uint32_t load = chunks * FPISA_RTO_LOAD_ONE;

	r->load = r->load ? (7 * r->load + load) / 8 : load;
}

/*
 * Return `ns`, which was measured by samples, scaled to `chunks` chunks in flight. If the samples had fewer chunks in
 * flight, the result is at most the first timeout.
 */
static inline uint64_t fpisa_rto_among(const struct fpisa_rto *r, uint64_t ns, uint32_t chunks)
{
	uint64_t load = (uint64_t)chunks * FPISA_RTO_LOAD_ONE, more;

	if (!r->load || load <= 2ull * r->load || ns >= FPISA_RTO_FIRST_NS)
		return ns;
	more = ns * load / r->load;
	return more < FPISA_RTO_FIRST_NS ? more : FPISA_RTO_FIRST_NS;
}

/* Take a round trip sample of rtt_ns, from a chunk that was sent once and whose round this rank completed. */
static inline void fpisa_rto_sample(struct fpisa_rto *r, uint64_t rtt_ns)
{
	uint64_t off;

	if (!r->srtt_ns) {
		r->srtt_ns = rtt_ns;
		r->var_ns = rtt_ns / 2;
	} else {
		off = rtt_ns > r->srtt_ns ? rtt_ns - r->srtt_ns : r->srtt_ns - rtt_ns;
		r->var_ns = (3 * r->var_ns + off) / 4;
		r->srtt_ns = (7 * r->srtt_ns + rtt_ns) / 8;
	}
	r->unsampled = 0;
	r->rto_ns = r->srtt_ns + 4 * r->var_ns;
	if (r->rto_ns < FPISA_RTO_MIN_NS)
		r->rto_ns = FPISA_RTO_MIN_NS;
	if (r->rto_ns > FPISA_RTO_MAX_NS)
		r->rto_ns = FPISA_RTO_MAX_NS;
}

/*
 * Take an upper bound of the round trip, from a chunk whose round another or an unknown rank completed. Use the bound
 * if it is shorter than the estimate. With `grow`, the estimate may also rise, but at most to twice its value for
 * `chunks`, so that a single wait for other ranks has little effect.
 */
static inline void fpisa_rto_bound(struct fpisa_rto *r, uint64_t rtt_ns, uint32_t chunks, int grow)
{
	uint64_t known = r->srtt_ns ? fpisa_rto_among(r, r->srtt_ns, chunks) : FPISA_RTO_FIRST_NS;

	if (rtt_ns < known)
		fpisa_rto_sample(r, rtt_ns);
	else if (grow)
		fpisa_rto_sample(r, rtt_ns < 2 * known ? rtt_ns : 2 * known);
	else
		r->unsampled = 0;
}

/*
 * Count a result of a chunk that was sent more than once, which gives no sample (Karn). If a whole window gives no
 * sample, the timeout is shorter than the round trip.
 */
static inline void fpisa_rto_ambiguous(struct fpisa_rto *r, uint32_t window)
{
	if (++r->unsampled <= window)
		return;
	r->unsampled = 0;
	r->rto_ns = 2 * r->rto_ns < FPISA_RTO_MAX_NS ? 2 * r->rto_ns : FPISA_RTO_MAX_NS;
}

/*
 * Return how long to wait for a chunk after a later chunk's result has arrived. Every rank sends its chunks in order,
 * so on a path that preserves the order the chunk is already lost. The wait is for paths and CPUs that reorder frames,
 * as in RACK (RFC 8985).
 */
static inline uint64_t fpisa_rto_overtaken(const struct fpisa_rto *r)
{
	uint64_t ns = r->srtt_ns + r->srtt_ns / 4 + FPISA_RTO_REORDER_NS;

	return r->srtt_ns && ns < r->rto_ns ? ns : r->rto_ns;
}

/* Return how long to wait after transmission number `backoff`, counted from 0. */
static inline uint64_t fpisa_rto_after(const struct fpisa_rto *r, uint32_t backoff)
{
	uint64_t ns = r->rto_ns << backoff;

	return ns < FPISA_BACKOFF_MAX_NS ? ns : FPISA_BACKOFF_MAX_NS;
}

#endif
