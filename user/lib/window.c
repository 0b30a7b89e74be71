/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Chunks in flight: self-clock, retransmission, and how many the receiver
 * bears. It sends nothing and reads no clock: send.c asks what may leave,
 * reply.c says what has come, progress.c what is overdue.
 *
 * A slot with a chunk stands in one queue: `fresh` or `ready`, or one of
 * `waiting`, one a backoff, or `held`. All slots of a waiting queue have the
 * same timeout, so each is in the order of expiry and only heads are looked at.
 *
 * Lost or late? A chunk whose timeout passed was lost, as far as anybody can
 * tell, if a later transmission has its result. If none has, a rank is late
 * as likely as not, and a window sent again would help nobody: then the
 * oldest chunk alone is sent again, and asks, while the others are held. All
 * ranks agree on which is the oldest that lacks a contribution, so it, and
 * then the rest, comes through. While results come, the oldest chunk is in a
 * queue and not lost: each result restarts its timeout, as each new
 * acknowledgement does in TCP (RFC 6298, 5.3).
 *
 * congestion.h says how many chunks may be in flight. The oldest chunk is in
 * any case. Else two ranks that lost different results could each wait for a
 * chunk that the other has no room to send.
 */
#include <errno.h>
#include <stdlib.h>
#include "window.h"

int fpisa_window_reset(struct fpisa_window *w, uint32_t size, uint32_t frame_bytes, uint32_t capacity, uint64_t drops)
{
	struct fpisa_window_slot *slot;

	while (size > capacity && size > 1)
		size /= 2;
	slot = calloc(size, sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	free(w->slot);
	*w = (struct fpisa_window){.slots = size, .slot = slot, .drops = drops};
	fpisa_congestion_init(&w->congestion, size, frame_bytes);
	for (uint32_t i = 0; i < size; i++)
		slot[i].chunk = i;
	TAILQ_INIT(&w->fresh);
	TAILQ_INIT(&w->ready);
	for (int i = 0; i < FPISA_BACKOFFS; i++)
		TAILQ_INIT(&w->waiting[i]);
	TAILQ_INIT(&w->held);
	return 0;
}

void fpisa_window_move(struct fpisa_window_slot *slot, struct fpisa_window_queue *to)
{
	if (slot->queue)
		TAILQ_REMOVE(slot->queue, slot, link);
	slot->queue = to;
	if (to)
		TAILQ_INSERT_TAIL(to, slot, link);
}

/* How many of the chunks before `chunk`, of all, are the window's own. */
static uint64_t own(const struct fpisa_window *w, uint64_t chunk)
{
	return w->layout ? fpisa_layout_own(w->layout, w->shard, chunk) : chunk;
}

void fpisa_window_start(struct fpisa_window *w, struct fpisa_request *r)
{
	uint64_t first = own(w, r->first), end = own(w, r->first + r->chunks);

	/* In the order of chunks: the slot of the request's first one leads. */
	for (uint32_t i = 0; i < w->slots; i++) {
		struct fpisa_window_slot *slot = &w->slot[(first + i) & (w->slots - 1)];

		if (slot->req || slot->chunk >= end)
			continue;
		slot->req = r;
		fpisa_window_move(slot, &w->fresh);
	}
}

/* To where it belongs among the slots of the same timeout, in the order of since_ns. */
static void rearm(struct fpisa_window_slot *slot, uint64_t since_ns)
{
	struct fpisa_window_queue *q = slot->queue;
	struct fpisa_window_slot *before;

	slot->since_ns = since_ns;
	TAILQ_REMOVE(q, slot, link);
	for (before = TAILQ_LAST(q, fpisa_window_queue); before && before->since_ns > since_ns;)
		before = TAILQ_PREV(before, fpisa_window_queue, link);
	if (before)
		TAILQ_INSERT_AFTER(q, before, slot, link);
	else
		TAILQ_INSERT_HEAD(q, slot, link);
}

static void set_in_flight(struct fpisa_window *w, struct fpisa_window_slot *slot, int in_flight)
{
	w->in_flight += (uint32_t)(in_flight - slot->in_flight);
	slot->in_flight = in_flight;
}

void fpisa_window_next(struct fpisa_window *w, struct fpisa_window_slot *slot, uint64_t rtt_ns)
{
	struct fpisa_request *r = slot->req;

	slot->chunk += w->slots;
	slot->tries = 0;
	slot->gso = 0;
	set_in_flight(w, slot, 0);
	fpisa_congestion_result(&w->congestion, rtt_ns);
	slot->backoff = 0;
	slot->live = 0;
	while (r && slot->chunk >= own(w, r->first + r->chunks))
		r = TAILQ_NEXT(r, link);
	slot->req = r;
	fpisa_window_move(slot, r ? &w->fresh : NULL);
}

struct fpisa_window_slot *fpisa_window_oldest(struct fpisa_window *w)
{
	struct fpisa_window_slot *oldest = NULL;

	for (uint32_t i = 0; i < w->slots; i++) {
		struct fpisa_window_slot *slot = &w->slot[i];

		if (slot->req && (!oldest || slot->chunk < oldest->chunk))
			oldest = slot;
	}
	return oldest;
}

struct fpisa_window_slot *fpisa_window_next_to_send(struct fpisa_window *w)
{
	struct fpisa_window_slot *slot = TAILQ_FIRST(&w->ready) ?: TAILQ_FIRST(&w->fresh);

	if (!slot || w->in_flight < w->congestion.limit)
		return slot;
	slot = fpisa_window_oldest(w);
	return slot->queue == &w->fresh || slot->queue == &w->ready ? slot : NULL;
}

void fpisa_window_sent(struct fpisa_window *w, struct fpisa_window_slot *slot, uint64_t ns)
{
	slot->tries++;
	set_in_flight(w, slot, 1);
	slot->sent_ns = ns;
	slot->since_ns = ns;
	fpisa_window_move(slot, &w->waiting[slot->backoff]);
	if (slot->backoff < FPISA_BACKOFFS - 1)
		slot->backoff++;
}

void fpisa_window_heard(struct fpisa_window *w, uint64_t sent_ns, uint64_t now)
{
	struct fpisa_window_slot *slot;

	w->result_ns = now;
	if (sent_ns > w->heard_ns)
		w->heard_ns = sent_ns;
	while ((slot = TAILQ_FIRST(&w->held))) {
		slot->since_ns = now;
		fpisa_window_move(slot, &w->waiting[slot->backoff - 1]);
	}
}

/* When the timeout of a slot passes that stands in waiting[i]. */
static uint64_t due_ns(const struct fpisa_window *w, const struct fpisa_window_slot *slot, const struct fpisa_rto *rto,
		       uint32_t i)
{
	int overtaken = slot->sent_ns < w->heard_ns;

	return slot->since_ns + (overtaken ? fpisa_rto_overtaken(rto) : fpisa_rto_after(rto, i));
}

int fpisa_window_expire(struct fpisa_window *w, const struct fpisa_rto *rto, uint64_t now)
{
	const struct fpisa_window_slot *oldest = NULL;
	uint64_t quiet_ns = w->result_ns + fpisa_rto_after(rto, 0); /* until then results come */

	for (uint32_t i = 0; i < FPISA_BACKOFFS; i++) {
		struct fpisa_window_slot *slot;

		while ((slot = TAILQ_FIRST(&w->waiting[i])) && due_ns(w, slot, rto, i) <= now) {
			if (!oldest)
				oldest = fpisa_window_oldest(w);
			if (slot->sent_ns < w->heard_ns || (slot == oldest && (slot->tries > 1 || quiet_ns <= now))) {
				set_in_flight(w, slot, 0);
				fpisa_window_move(slot, &w->ready);
			} else if (slot == oldest) {
				rearm(slot, quiet_ns - fpisa_rto_after(rto, i));
			} else {
				fpisa_window_move(slot, &w->held);
			}
		}
	}
	return oldest != NULL;
}

uint64_t fpisa_window_expiry(const struct fpisa_window *w, const struct fpisa_rto *rto, uint64_t at)
{
	for (uint32_t i = 0; i < FPISA_BACKOFFS; i++) {
		struct fpisa_window_slot *slot = TAILQ_FIRST(&w->waiting[i]);
		uint64_t ns = slot ? due_ns(w, slot, rto, i) : at;

		if (ns < at)
			at = ns;
	}
	return at;
}

void fpisa_window_dropped(struct fpisa_window *w, uint64_t drops, uint64_t now)
{
	if (drops > w->drops)
		fpisa_congestion_halve(&w->congestion, now, now);
	w->drops = drops;
}
