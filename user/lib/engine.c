/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Chunks in flight: tracks, self-clock, retransmission, probes, deadline.
 * Above it api.c with requests, beside it reply.c, which takes in what the
 * aggregator answers, below it a transport.
 *
 * A track with a chunk stands in one queue: `fresh` or `ready`, or one of
 * `waiting`, one a backoff, or `held`. All tracks of a waiting queue have the same timeout,
 * so each is in the order of expiry and only heads are looked at.
 *
 * Lost or late? A chunk whose timeout passed was lost, as far as anybody can
 * tell, if a later transmission has its result. If none has, a rank is late
 * as likely as not, and a window sent again would help nobody: then the
 * oldest chunk alone is sent again, and asks, while the others are held. All
 * ranks agree on which is the oldest that lacks a contribution, so it, and
 * then the rest, comes through.
 *
 * A receiver that loses frames for want of room gets fewer: `limit` chunks fly,
 * half as many after such a loss, one more after some windows without. The
 * oldest chunk flies in any case. Else two ranks that lost different results
 * could each wait for a chunk that the other has no room to send. Losses on
 * the way change nothing: fewer in flight would not mend them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"
#include "base/sum.h"

/* Results, in windows, after which one more chunk flies: a try that fails costs a timeout. */
#define GROWTH 16

/* The tracks of a new generation, as many as the receiver can hold results for. */
int fpisa_tracks_reset(struct fpisa *f, uint32_t capacity)
{
	uint32_t tracks = f->window;
	struct fpisa_track *track;

	while (tracks > capacity && tracks > 1)
		tracks /= 2;
	track = calloc(tracks, sizeof(*track));
	if (!track)
		return -ENOMEM;
	free(f->track);
	f->track = track;
	f->tracks = tracks;
	for (uint32_t i = 0; i < tracks; i++)
		track[i].chunk = i;
	TAILQ_INIT(&f->fresh);
	TAILQ_INIT(&f->ready);
	for (int i = 0; i < FPISA_BACKOFFS; i++)
		TAILQ_INIT(&f->waiting[i]);
	TAILQ_INIT(&f->held);
	f->heard_ns = 0;
	f->lost_gso = 0;
	f->flying = 0;
	f->limit = tracks;
	f->calm = 0;
	f->drops = f->t->ops->drops ? f->t->ops->drops(f->t) : 0;
	fpisa_rto_init(&f->rto);
	return 0;
}

void fpisa_track_move(struct fpisa_track *l, struct fpisa_tracks *to)
{
	if (l->queue)
		TAILQ_REMOVE(l->queue, l, link);
	l->queue = to;
	if (to)
		TAILQ_INSERT_TAIL(to, l, link);
}

/* A request was appended: idle tracks whose chunk is in it have something to carry. */
void fpisa_tracks_start(struct fpisa *f, struct fpisa_request *r)
{
	/* In the order of chunks: the track of the request's first one leads. */
	for (uint32_t i = 0; i < f->tracks; i++) {
		struct fpisa_track *l = &f->track[(r->first + i) & (f->tracks - 1)];

		if (l->req || l->chunk >= r->first + r->chunks)
			continue;
		l->req = r;
		fpisa_track_move(l, &f->fresh);
	}
}

static void set_flying(struct fpisa *f, struct fpisa_track *l, int flying)
{
	f->flying += (uint32_t)(flying - l->flying);
	l->flying = flying;
}

/* The track's chunk has its result: go on with the chunk after it. */
void fpisa_track_next(struct fpisa *f, struct fpisa_track *l)
{
	struct fpisa_request *r = l->req;

	l->chunk += f->tracks;
	l->tries = 0;
	l->gso = 0;
	set_flying(f, l, 0);
	if (++f->calm >= GROWTH * f->limit && f->limit < f->tracks) {
		f->limit++;
		f->calm = 0;
	}
	l->backoff = 0;
	l->live = 0;
	while (r && l->chunk >= r->first + r->chunks)
		r = TAILQ_NEXT(r, link);
	l->req = r;
	fpisa_track_move(l, r ? &f->fresh : NULL);
}

#define MAX_BLOCK_SIZE (FPISA_BLOCK * 8)

/* `size` bytes and the zeros that make them a multiple of `block`. */
static void sum_padded(struct fpisa_sum *sum, const char *values, uint32_t size, uint32_t block)
{
	uint32_t whole = size - size % block;
	char tail[MAX_BLOCK_SIZE] = {0};

	fpisa_sum_many(sum, values, whole / 8);
	if (size > whole) {
		memcpy(tail, values + whole, size - whole);
		fpisa_sum_many(sum, tail, block / 8);
	}
}

static void add_part(struct fpisa_out *out, const void *p, uint32_t size)
{
	if (size)
		out->part[out->parts++] = (struct iovec){(void *)p, size};
}

/* The track's next transmission, straight from the caller's array. */
static void compose(struct fpisa *f, struct fpisa_track *l, struct fpisa_out *out)
{
	static const char zeros[MAX_BLOCK_SIZE];
	const struct fpisa_request *r = l->req;
	uint64_t offset = (l->chunk - r->first) * f->elements;
	uint32_t bytes = f->format.bytes, block = FPISA_BLOCK * bytes;
	const char *values = r->send + offset * bytes;
	uint32_t n = fpisa_min_u32(r->count - offset, f->elements), size = n * bytes;
	struct fpisa_sum sum = {};

	l->hdr = (struct fpisa_hdr){
		.magic = FPISA_MAGIC,
		.version = FPISA_VERSION,
		.type = FPISA_TYPE_ADD,
		.flags = (l->tries > 0 ? FPISA_F_RETRANSMIT : 0) | (l->tries > 1 ? FPISA_F_PROBE : 0),
		.format = f->hello.format,
		.op = r->op,
		.job = f->job,
		.generation = f->generation,
		.slot = fpisa_slot_of(l->chunk, f->window),
		.rank = f->rank,
		.count = (uint16_t)(n + -n % FPISA_BLOCK),
		.chunk = l->chunk,
		.digest = r->digest,
		.call = r->call,
		.secret = f->secret,
		.aux = r->operand,
	};
	fpisa_sum_words(&sum, &l->hdr, FPISA_SUM_HDR_WORDS);
	out->parts = 0;
	add_part(out, &l->hdr, sizeof(l->hdr));
	if (f->format.shared) {
		const char *scales = r->send + r->count + offset / FPISA_BLOCK;

		sum_padded(&sum, scales, n / FPISA_BLOCK, FPISA_SCALES);
		add_part(out, scales, n / FPISA_BLOCK);
		add_part(out, zeros, FPISA_SCALES - n / FPISA_BLOCK);
	}
	sum_padded(&sum, values, size, block);
	add_part(out, values, size);
	add_part(out, zeros, -size % block);
	l->hdr.checksum = fpisa_sum_fold(&sum);
	out->port = (uint16_t)fpisa_port_index(l->hdr.slot >> 1, f->window, f->hello.ports);
}

static struct fpisa_track *oldest_track(struct fpisa *f)
{
	struct fpisa_track *oldest = NULL;

	for (uint32_t i = 0; i < f->tracks; i++) {
		struct fpisa_track *l = &f->track[i];

		if (l->req && (!oldest || l->chunk < oldest->chunk))
			oldest = l;
	}
	return oldest;
}

/* The next track that may send, if any: what was lost before what is new. */
static struct fpisa_track *next_to_send(struct fpisa *f)
{
	struct fpisa_track *l = TAILQ_FIRST(&f->ready) ?: TAILQ_FIRST(&f->fresh);

	if (!l || f->flying < f->limit)
		return l;
	l = oldest_track(f);
	return l->queue == &f->fresh || l->queue == &f->ready ? l : NULL;
}

/* Sends what is ready or fresh, as far as the limit allows. -EMSGSIZE and the like poison the handle. */
int fpisa_tracks_send(struct fpisa *f)
{
	struct fpisa_out out[FPISA_BATCH];

	for (;;) {
		uint64_t now = fpisa_now();
		struct fpisa_track *l, *fresh = NULL;
		int n = 0, rc;

		while (n < FPISA_BATCH && (l = next_to_send(f))) {
			compose(f, l, &out[n]);
			out[n].no_gso = l->tries > 0;
			if (!l->tries && f->t->gso) {
				l->gso = fresh != NULL;
				if (fresh)
					fresh->gso = 1;
				fresh = l;
			}
			f->count.sent++;
			f->count.retransmits += l->tries > 0;
			l->tries++;
			set_flying(f, l, 1);
			l->sent_ns = now + (uint64_t)n++;
			l->since_ns = l->sent_ns;
			fpisa_track_move(l, &f->waiting[l->backoff]);
			if (l->backoff < FPISA_BACKOFFS - 1)
				l->backoff++;
		}
		if (!n)
			return 0;
		rc = f->t->ops->send(f->t, out, n);
		if (rc == -EMSGSIZE)
			fpisa_fail(rc,
				   "%s: job %u: a chunk of %u elements makes a packet larger than the MTU; "
				   "make the job with fewer elements or raise the MTU",
				   f->peer, f->job, f->elements);
		else if (rc)
			fpisa_fail(rc, "%s: job %u: send: %s", f->peer, f->job, strerror(-rc));
		if (rc)
			return fpisa_poison(f, rc);
	}
}

/* Something is overdue: was it our receiver? */
static void judge_receiver(struct fpisa *f)
{
	uint64_t drops = f->t->ops->drops ? f->t->ops->drops(f->t) : 0;

	if (drops > f->drops) {
		f->limit = f->limit > 1 ? f->limit / 2 : 1;
		f->calm = 0;
	}
	f->drops = drops;
}

/* Tracks whose timeout has passed become ready, or are held. */
static void expire_tracks(struct fpisa *f, uint64_t now)
{
	const struct fpisa_track *oldest = NULL;

	for (uint32_t i = 0; i < FPISA_BACKOFFS; i++) {
		uint64_t after = fpisa_rto_after(&f->rto, i);
		struct fpisa_track *l;

		while ((l = TAILQ_FIRST(&f->waiting[i])) && l->since_ns + after <= now) {
			if (!oldest) {
				oldest = oldest_track(f);
				judge_receiver(f);
			}
			if (l->sent_ns < f->heard_ns || l == oldest) {
				set_flying(f, l, 0);
				fpisa_track_move(l, &f->ready);
			} else {
				fpisa_track_move(l, &f->held);
			}
		}
	}
}

/* A transmission has its result: what is held gets its timeout once more. */
void fpisa_tracks_heard(struct fpisa *f, uint64_t sent_ns, uint64_t now)
{
	struct fpisa_track *l;

	if (sent_ns > f->heard_ns)
		f->heard_ns = sent_ns;
	while ((l = TAILQ_FIRST(&f->held))) {
		l->since_ns = now;
		fpisa_track_move(l, &f->waiting[l->backoff - 1]);
	}
}

static uint64_t next_expiry(const struct fpisa *f, uint64_t at)
{
	for (uint32_t i = 0; i < FPISA_BACKOFFS; i++) {
		struct fpisa_track *l = TAILQ_FIRST(&f->waiting[i]);
		uint64_t ns = l ? l->since_ns + fpisa_rto_after(&f->rto, i) : at;

		if (ns < at)
			at = ns;
	}
	return at;
}

/* The library works now. What was in flight over a long gap is no measure of the round trip. */
void fpisa_tick(struct fpisa *f, uint64_t now, uint64_t waited_ns)
{
	if (fpisa_clock_tick(&f->clock, now, waited_ns) > f->rto.rto_ns)
		f->resumed_ns = now;
}

/*
 * One turn: send what is ready, wait for frames for wait_ns at most, take
 * them in, send what they have released. A timeout counts only against the
 * frames that had not come when it passed: results that lay unread while this
 * thread slept are not sent for again.
 */
int fpisa_progress(struct fpisa *f, uint64_t wait_ns)
{
	struct fpisa_in in[FPISA_BATCH];
	uint64_t before, after, wait;
	int n, rc;

	rc = fpisa_tracks_send(f);
	if (rc)
		return rc;
	before = fpisa_now();
	fpisa_tick(f, before, 0);
	wait = next_expiry(f, before + wait_ns);
	wait = wait > before ? wait - before : 0;
	n = f->t->ops->receive(f->t, in, wait);
	if (n < 0) {
		fpisa_fail(n, "%s: job %u: receive: %s", f->peer, f->job, strerror(-n));
		return fpisa_poison(f, n);
	}
	after = fpisa_now();
	fpisa_tick(f, after, wait);
	f->taken = n;
	for (int i = 0; i < n; i++) {
		rc = fpisa_reply_take(f, &in[i], after);
		if (rc)
			return rc;
	}
	if (n < FPISA_BATCH)
		expire_tracks(f, n ? before : after);
	return fpisa_tracks_send(f);
}

/* The deadline has passed: who is missing, by the last STATUS of the oldest chunk. */
static int timed_out(struct fpisa *f)
{
	const struct fpisa_track *l = oldest_track(f);
	unsigned int ms = (unsigned int)(f->timeout_ns / 1000000);
	char names[256], cause[96] = "";

	f->missing = l->live & ~l->bitmap;
	if (f->missing)
		fpisa_fail(-ETIMEDOUT, "%s: job %u: %s sent nothing for chunk %llu of call %u in %u ms",
			   f->peer, f->job, fpisa_rank_names(names, sizeof(names), f->missing),
			   (unsigned long long)(l->chunk - l->req->first), l->req->call, ms);
	else {
		if (f->t->send_error)
			snprintf(cause, sizeof(cause), " (last send: %s)", strerror(f->t->send_error));
		fpisa_fail(-ETIMEDOUT,
			   "%s: job %u: the aggregator did not answer in %u ms%s; check the route to it "
			   "and fpisa status there",
			   f->peer, f->job, ms, cause);
	}
	return fpisa_poison(f, -ETIMEDOUT);
}

/*
 * The deadline has passed. What waits to be read is taken in before that is
 * said, a few turns long: all that the receiver can hold, and no endless flood.
 */
static int is_late(struct fpisa_request *r)
{
	const struct fpisa *f = r->f;

	return !f->taken || r->late++ > 2 * f->tracks / FPISA_BATCH;
}

/*
 * Works for request r: one turn that waits for nothing, or, with `block`,
 * turns until r is done. The time of a request counts from the first call.
 */
int fpisa_advance(struct fpisa_request *r, int block)
{
	struct fpisa *f = r->f;
	uint64_t now, until, before = f->timeout_ns / 4;
	int rc;

	fpisa_tick(f, fpisa_now(), 0);
	if (before > FPISA_FINAL_PROBE_NS)
		before = FPISA_FINAL_PROBE_NS;
	if (!r->deadline_ns) {
		r->deadline_ns = f->clock.ns + f->timeout_ns;
		r->probe_ns = r->deadline_ns - before;
	}
	do {
		now = f->clock.ns;
		if (now >= r->probe_ns) {
			struct fpisa_track *l = oldest_track(f);

			r->probe_ns = now + before / FPISA_FINAL_PROBES;
			l->tries = l->tries > 1 ? l->tries : 2;
			fpisa_track_move(l, &f->ready);
		}
		until = r->probe_ns < r->deadline_ns ? r->probe_ns : r->deadline_ns;
		rc = fpisa_progress(f, block && until > now ? until - now : 0);
		if (rc || r->done)
			return rc;
		if (f->clock.ns >= r->deadline_ns && is_late(r))
			return timed_out(f);
	} while (block);
	return 0;
}
