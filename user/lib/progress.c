/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Turns of the library: what is ready leaves, what came is taken in, what is
 * overdue is sent again, until a request is done or its deadline has passed.
 * The public functions of call.c begin them, and with options.progress
 * background.c, in its thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "handle.h"
#include "progress.h"
#include "reply.h"
#include "send.h"

/* Slots whose timeout has passed are sent again; if it was our receiver, with fewer in flight. */
static void expire(struct fpisa *f, uint64_t now)
{
	if (fpisa_window_expire(&f->window, &f->rto, now))
		fpisa_window_dropped(&f->window, fpisa_transport_drops(f->t), now);
}

/*
 * One turn: send what is ready, wait for frames for wait_ns at most, take
 * them in, send what they have released. A timeout counts only against the
 * frames that had not come when it passed: results that lay unread while this
 * thread slept are not sent for again.
 */
static int progress(struct fpisa *f, uint64_t wait_ns)
{
	struct fpisa_in in[FPISA_BATCH];
	uint64_t looked = f->clock.last_ns, before, after, wait;
	int n, rc;

	rc = fpisa_send(f);
	if (rc)
		return rc;
	before = fpisa_now();
	fpisa_tick(f, before, 0);
	wait = fpisa_window_expiry(&f->window, &f->rto, before + wait_ns);
	wait = wait > before ? wait - before : 0;
	n = fpisa_receive(f, in, wait);
	/* Meanwhile a shared handle may have failed, or be about to join again: then nothing is for its arrays. */
	if (f->error)
		return fpisa_poisoned(f);
	if (f->shared.joining)
		return 0;
	if (n < 0) {
		fpisa_fail(n, "%s: job %u: receive: %s", f->peer, f->job, strerror(-n));
		return fpisa_poison(f, n);
	}
	after = fpisa_now();
	fpisa_tick(f, after, wait);
	f->taken = n;
	if (n)
		__atomic_store_n(&f->heard_ns, after, __ATOMIC_RELAXED);
	for (int i = 0; i < n; i++) {
		rc = fpisa_reply_take(f, &in[i], after);
		if (rc)
			return rc;
	}
	/* The engine sleeps between its turns, not within. */
	if (!fpisa_transport_more(f->t, n))
		expire(f, !n ? after : f->shared.engine && !wait_ns ? looked : before);
	return fpisa_send(f);
}

/* The deadline has passed: who is missing, by the last STATUS of the oldest chunk. */
static int timed_out(struct fpisa *f)
{
	const struct fpisa_window_slot *slot = fpisa_window_oldest(&f->window);
	unsigned int ms = (unsigned int)(f->timeout_ns / 1000000);
	char names[256], cause[96] = "";

	f->missing = slot->live & ~slot->bitmap;
	if (f->missing)
		fpisa_fail(-ETIMEDOUT, "%s: job %u: %s sent nothing for chunk %llu of call %u in %u ms", f->peer,
			   f->job, fpisa_rank_names(names, sizeof(names), f->missing),
			   (unsigned long long)(slot->chunk - slot->req->first), slot->req->call, ms);
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

	return f->clock.ns >= r->deadline_ns && (!f->taken || r->late++ > 2 * f->window.slots / FPISA_BATCH);
}

/* So long before its deadline a request begins to ask who is missing. */
static uint64_t final_ns(const struct fpisa *f)
{
	uint64_t ns = f->timeout_ns / 4;

	return ns < FPISA_FINAL_PROBE_NS ? ns : FPISA_FINAL_PROBE_NS;
}

uint64_t fpisa_time_left(struct fpisa_request *r)
{
	const struct fpisa *f = r->f;
	uint64_t until;

	if (!r->deadline_ns) {
		r->deadline_ns = f->clock.ns + f->timeout_ns;
		r->probe_ns = r->deadline_ns - final_ns(f);
	}
	until = !f->held && r->probe_ns < r->deadline_ns ? r->probe_ns : r->deadline_ns;
	return until > f->clock.ns ? until - f->clock.ns : 0;
}

static void ask_who_is_missing(struct fpisa_request *r)
{
	struct fpisa *f = r->f;
	struct fpisa_window_slot *slot = fpisa_window_oldest(&f->window);

	r->probe_ns = f->clock.ns + final_ns(f) / FPISA_FINAL_PROBES;
	/* As one that was sent twice already: it asks for a STATUS, which says who is missing. */
	slot->tries = slot->tries > 1 ? slot->tries : 2;
	fpisa_window_move(slot, &f->window.ready);
}

int fpisa_advance(struct fpisa *f, struct fpisa_request *r, int block)
{
	struct fpisa_request *due;
	int rc;

	fpisa_tick(f, fpisa_now(), 0);
	do {
		/* With a thread the time of each begins when it is the first in line. */
		due = f->shared.engine ? f->oldest : r;
		if (due && !fpisa_time_left(due) && f->clock.ns >= due->probe_ns)
			ask_who_is_missing(due);
		rc = progress(f, block && due ? fpisa_time_left(due) : 0);
		if (rc || (r && (r->done || r->given_up)))
			return rc;
		/* It may have ended meanwhile. */
		due = f->shared.engine ? f->oldest : r;
		if (due && due->deadline_ns && is_late(due))
			return timed_out(f);
		if (block && f->shared.engine)
			fpisa_shared_yield(&f->shared);
	} while (block && !f->error && !r->done && !r->given_up);
	return 0;
}

uint64_t fpisa_next_turn(struct fpisa *f)
{
	uint64_t now = fpisa_now(), due = f->joining.next_ns, at = FPISA_NEVER;

	if (f->oldest)
		at = now + fpisa_time_left(f->oldest);
	if (f->held)
		return f->held == FPISA_HELD_RANKS && due < at ? due : at;
	due = fpisa_transport_due(f->t);
	at = fpisa_window_expiry(&f->window, &f->rto, at);
	return due < at ? due : at;
}
