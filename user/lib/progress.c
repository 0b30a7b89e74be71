/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Turns of the library. A turn sends ready chunks, receives frames and sends overdue chunks again. Turns run until a
 * request is done or its deadline has passed. The public functions of call.c run the turns and, with options.progress,
 * also background.c in the thread of the engine.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "handle.h"
#include "join.h"
#include "progress.h"
#include "reply.h"
#include "send.h"

/*
 * Send the slots again whose timeout has passed. Reduce the chunks in flight if this host's receiver dropped their
 * results.
 */
static void expire(struct fpisa_shard *s, uint64_t now)
{
	if (fpisa_window_expire(&s->window, now))
		fpisa_window_dropped(&s->window, fpisa_transport_drops(s->t), now);
}

/* Return the time of the next timeout, or `at` if that is earlier. */
static uint64_t next_expiry(const struct fpisa *f, uint64_t at)
{
	FPISA_EACH_SHARD(s, f)
		at = fpisa_window_expiry(&s->window, at);
	return at;
}

/*
 * Receive the frames of one aggregator, and find the chunks that are overdue there at time `looked`. All frames that
 * arrived before `looked` have been received. Set *ended if the handle must not continue although this function did not
 * fail.
 */
static int take_in(struct fpisa_shard *s, uint64_t wait_ns, uint64_t looked, int *ended)
{
	struct fpisa_in in[FPISA_BATCH];
	struct fpisa *f = s->f;
	int quiet = fpisa_is_quiet(s), n = quiet ? 0 : fpisa_receive(s, in, wait_ns), rc;
	uint64_t after;

	/*
	 * While the lock was free, a shared handle may have failed, or begun to join again. In these cases the frames
	 * are not for its arrays.
	 */
	if (f->error)
		return fpisa_poisoned(f);
	*ended = f->shared.join;
	if (*ended)
		return 0;
	if (n < 0) {
		fpisa_fail(n, "%s: job %u: cannot receive: %s", s->peer, s->job, fpisa_why(n));
		return fpisa_poison(f, n);
	}
	after = fpisa_now();
	fpisa_tick(f, after, wait_ns);
	s->taken = n;
	if (n)
		fpisa_heard(f, after);
	for (int i = 0; i < n; i++) {
		struct fpisa_shard *to = fpisa_shard_of(s, &in[i]);

		to->heard_ns = f->clock.ns;
		rc = fpisa_reply_take(to, &in[i], after);
		if (rc)
			return rc;
	}
	if (!fpisa_transport_more(s->t, n) && !fpisa_transport_more(s->first->t, s->first->taken))
		expire(s, n || quiet ? looked : after);
	return 0;
}

/*
 * Run one turn. Send ready chunks, wait for frames for at most wait_ns, receive the frames, and send the chunks that
 * they permit. A timeout counts only if the frame had not arrived when the timeout passed. So results that arrived
 * while this thread slept are not requested again.
 */
static int progress(struct fpisa *f, uint64_t wait_ns)
{
	uint64_t looked = f->clock.last_ns, before, wait, wait_each;
	int ended = 0, rc;

	rc = fpisa_send(f);
	if (rc)
		return rc;
	before = fpisa_now();
	fpisa_tick(f, before, 0);
	wait = next_expiry(f, before + wait_ns);
	wait_each = fpisa_await(f, wait > before ? wait - before : 0);
	if (f->layout.shards > 1)
		fpisa_tick(f, fpisa_now(), wait_ns);
	/* The engine sleeps between turns, not during a turn. */
	if (!f->shared.engine || wait_ns)
		looked = f->clock.last_ns;
	for (uint32_t i = 0; i < f->layout.shards && !rc && !ended; i++)
		rc = take_in(&f->shard[i], wait_each, looked, &ended);
	return rc || ended ? rc : fpisa_send(f);
}

#define PATH_CAUSE_LEN 160

/*
 * Write a hint about the path MTU, if it may be the reason that frames of the job get no answer, although the smaller
 * HELLO got one. Otherwise write nothing.
 */
static void path_cause(const struct fpisa_shard *s, char text[PATH_CAUSE_LEN])
{
	const struct fpisa *f = s->f;
	unsigned int headers = 0, mtu = fpisa_transport_path_mtu(s->t, &headers), bytes, elements = f->hello.elements;

	*text = 0;
	if (!mtu || !elements)
		return;
	headers += sizeof(struct fpisa_hdr);
	bytes = headers + (unsigned int)fpisa_payload_bytes(f->format, elements);
	while (elements && headers + fpisa_payload_bytes(f->format, elements) > mtu)
		elements -= FPISA_BLOCK;
	if (mtu < bytes)
		snprintf(text, PATH_CAUSE_LEN,
			 "; the MTU of the path to it is %u, but the job's packets have %u bytes; add the job with "
			 "--elements %u",
			 mtu, bytes, elements);
	else if (!f->flight.result_ns)
		snprintf(text, PATH_CAUSE_LEN,
			 "; no packet of the job's %u bytes has arrived yet, so check fpisa stats there for drops such "
			 "as vlan, then the MTU of the path",
			 bytes);
}

int fpisa_unanswered(const struct fpisa_shard *s, uint64_t ns)
{
	char cause[96] = "", path[PATH_CAUSE_LEN];

	if (s->t->send_error)
		snprintf(cause, sizeof(cause), " (last send: %s)", strerror(s->t->send_error));
	path_cause(s, path);
	return fpisa_fail(-ETIMEDOUT,
			  "%s: job %u: the aggregator did not answer in %llu ms%s; check the route to it; "
			  "there, check fpisa status%s",
			  s->peer, s->job, (unsigned long long)(ns / 1000000), cause, path);
}

/* Return the aggregator with chunks in flight that has been silent for longest. */
static const struct fpisa_shard *silent_shard(const struct fpisa *f)
{
	const struct fpisa_shard *silent = NULL;

	FPISA_EACH_SHARD(s, f)
		if (fpisa_window_oldest(&s->window) && (!silent || s->heard_ns < silent->heard_ns))
			silent = s;
	return silent ? silent : f->shard;
}

/*
 * Set the message for a passed deadline if neither the result of the chunk nor a STATUS has arrived, for example
 * because frames were lost.
 */
static void unanswered_chunk(const struct fpisa_shard *s, const struct fpisa_window_slot *slot)
{
	const struct fpisa *f = s->f;
	char path[PATH_CAUSE_LEN];

	if (s->heard_ns < slot->req->deadline_ns - slot->req->timeout_ns) {
		fpisa_unanswered(s, slot->req->timeout_ns);
		return;
	}
	path_cause(s, path);
	fpisa_fail(-ETIMEDOUT,
		   "%s: job %u: the aggregator did not answer for chunk %llu of call %u in %llu ms; its last answer for "
		   "another chunk came %llu ms ago; check the route to it; there, check fpisa status%s",
		   s->peer, s->job, (unsigned long long)fpisa_position(s, slot->req, slot->chunk), slot->req->call,
		   (unsigned long long)(slot->req->timeout_ns / 1000000),
		   (unsigned long long)((f->clock.ns - s->heard_ns) / 1000000), path);
}

/* Fail the handle because the deadline has passed. The last STATUS of the oldest chunk names the missing ranks. */
static int timed_out(struct fpisa *f)
{
	struct fpisa_shard *s;
	const struct fpisa_window_slot *slot = fpisa_oldest_slot(f, &s);
	char names[256];

	f->missing = fpisa_ranks_of(f, fpisa_slot_missing(slot));
	if (slot->above)
		fpisa_fail(-ETIMEDOUT,
			   "%s: job %u: other leaves of the tree sent nothing for chunk %llu of call %u in %u ms; "
			   "on the aggregator's parent, see fpisa job show",
			   s->peer, s->job, (unsigned long long)fpisa_position(s, slot->req, slot->chunk),
			   slot->req->call, (unsigned int)(f->timeout_ns / 1000000));
	else if (fpisa_ranks_any(&f->missing))
		fpisa_fail(
			-ETIMEDOUT,
			"%s: job %u: %s sent nothing for chunk %llu of call %u in %u ms; check that all ranks run and make the same calls",
			s->peer, s->job, fpisa_rank_names(names, sizeof(names), &f->missing),
			(unsigned long long)fpisa_position(s, slot->req, slot->chunk), slot->req->call,
			(unsigned int)(slot->req->timeout_ns / 1000000));
	else
		unanswered_chunk(s, slot);
	return fpisa_poison(f, -ETIMEDOUT);
}

/*
 * Return whether frames arrived in the last turn from any aggregator. Set *slots to the number of slots of all windows.
 */
static int frames_came(const struct fpisa *f, uint32_t *slots)
{
	int taken = 0;

	*slots = 0;
	FPISA_EACH_SHARD(s, f) {
		taken |= s->taken;
		*slots += s->window.slots;
	}
	return taken;
}

/*
 * Return whether the deadline has passed and waiting frames have been received. Waiting frames are received for a few
 * turns, which is enough for all frames in the receiver but limits a flood.
 */
static int is_late(struct fpisa_request *r)
{
	const struct fpisa *f = r->f;
	uint32_t slots;

	return f->clock.ns >= r->deadline_ns && (!frames_came(f, &slots) || r->late++ > 2 * slots / FPISA_BATCH);
}

/* Return how long before its deadline a request begins to ask which ranks are missing. */
static uint64_t final_ns(const struct fpisa_request *r)
{
	uint64_t ns = r->timeout_ns / 4;

	return ns < FPISA_FINAL_PROBE_NS ? ns : FPISA_FINAL_PROBE_NS;
}

uint64_t fpisa_time_left(struct fpisa_request *r)
{
	const struct fpisa *f = r->f;
	uint64_t until;

	if (!r->deadline_ns) {
		r->deadline_ns = f->clock.ns + r->timeout_ns;
		r->probe_ns = r->deadline_ns - final_ns(r);
	}
	until = !fpisa_is_held(&f->shared) && r->probe_ns < r->deadline_ns ? r->probe_ns : r->deadline_ns;
	return until > f->clock.ns ? until - f->clock.ns : 0;
}

static void ask_who_is_missing(struct fpisa_request *r)
{
	struct fpisa *f = r->f;

	r->probe_ns = f->clock.ns + final_ns(r) / FPISA_FINAL_PROBES;
	FPISA_EACH_SHARD(s, f) {
		struct fpisa_window_slot *slot = fpisa_window_oldest(&s->window);

		/* Do not ask about a chunk that was not sent yet, because the oldest chunk is always sent first. */
		if (!slot || !slot->tries)
			continue;
		/*
		 * Treat the chunk as sent twice, because its next transmission then asks for a STATUS, which names the
		 * missing ranks.
		 */
		slot->tries = slot->tries > 1 ? slot->tries : 2;
		fpisa_window_move(slot, &s->window.ready);
	}
}

int fpisa_advance(struct fpisa *f, struct fpisa_request *r, int block)
{
	struct fpisa_request *due;
	int rc;

	fpisa_tick(f, fpisa_now(), 0);
	do {
		/* With a progress thread the time of a request begins when the request is the oldest. */
		due = f->shared.engine ? f->oldest : r;
		if (due && !fpisa_time_left(due) && f->clock.ns >= due->probe_ns)
			ask_who_is_missing(due);
		rc = progress(f, block && due ? fpisa_time_left(due) : 0);
		if (rc || (r && (r->done || r->given_up)))
			return rc;
		/* The request may have ended in the meantime. */
		due = f->shared.engine ? f->oldest : r;
		if (due && due->deadline_ns && is_late(due))
			return timed_out(f);
		if (due && fpisa_is_silent(f))
			return fpisa_poison(f, fpisa_unanswered(silent_shard(f), f->silence_ns));
		if (block && f->shared.engine)
			fpisa_shared_yield(&f->shared);
	} while (block && !f->error && !r->done && !r->given_up);
	return 0;
}

uint64_t fpisa_next_turn(struct fpisa *f)
{
	uint64_t now = fpisa_now(), due, at = FPISA_NEVER;

	if (f->oldest)
		at = now + fpisa_time_left(f->oldest);
	if (fpisa_is_held(&f->shared)) {
		due = f->shared.driver == FPISA_DRIVER_RANKS ? fpisa_join_due(f) : at;
		return due < at ? due : at;
	}
	due = fpisa_frames_due(f);
	at = next_expiry(f, at);
	return due < at ? due : at;
}
