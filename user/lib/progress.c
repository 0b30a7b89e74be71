/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Turns of the library: what is ready leaves, what came is taken in, what is
 * overdue is sent again, until a request is done or its deadline has passed.
 * Only the public functions of call.c begin any; there is no thread.
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
		fpisa_window_dropped(&f->window, fpisa_transport_drops(f->t));
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
	uint64_t before, after, wait;
	int n, rc;

	rc = fpisa_send(f);
	if (rc)
		return rc;
	before = fpisa_now();
	fpisa_tick(f, before, 0);
	wait = fpisa_window_expiry(&f->window, &f->rto, before + wait_ns);
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
		expire(f, n ? before : after);
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
		fpisa_fail(-ETIMEDOUT, "%s: job %u: %s sent nothing for chunk %llu of call %u in %u ms",
			   f->peer, f->job, fpisa_rank_names(names, sizeof(names), f->missing),
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

	return !f->taken || r->late++ > 2 * f->window.slots / FPISA_BATCH;
}

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
			struct fpisa_window_slot *slot = fpisa_window_oldest(&f->window);

			r->probe_ns = now + before / FPISA_FINAL_PROBES;
			/* As one that was sent twice already: it asks for a STATUS, which says who is missing. */
			slot->tries = slot->tries > 1 ? slot->tries : 2;
			fpisa_window_move(slot, &f->window.ready);
		}
		until = r->probe_ns < r->deadline_ns ? r->probe_ns : r->deadline_ns;
		rc = progress(f, block && until > now ? until - now : 0);
		if (rc || r->done)
			return rc;
		if (f->clock.ns >= r->deadline_ns && is_late(r))
			return timed_out(f);
	} while (block);
	return 0;
}
