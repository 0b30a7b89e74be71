/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The chunks in flight: self-clocking, retransmission, and the limit of the receiver. This file sends no frames and
 * reads no clock. send.c asks which chunks may leave, reply.c reports results, and progress.c reports overdue chunks.
 *
 * A slot with a chunk is in one queue: `fresh`, `ready`, one of the queues `waiting`, `held`, `lost` or `there`. There
 * is a waiting queue for each backoff. All slots of a waiting queue have the same timeout, so the queue is in the order
 * of expiry and only its head has to be checked.
 *
 * A chunk without a result is either lost or late. All ranks send chunks in order, even if results arrived in another
 * order. So a chunk whose timeout has passed counts as lost if a later chunk has its result. If no later chunk has its
 * result, a rank is probably late, and sending a whole window again would not help. In this case only the oldest chunk
 * is sent again and asks for a STATUS, while the other chunks are held. All ranks agree on the oldest chunk that lacks
 * a contribution, so this chunk completes, and then the others. This chunk is the oldest chunk of all windows, because
 * all windows wait for the same ranks. When all chunks of a call have been sent, each window asks. While results
 * arrive, the oldest chunk is in a queue of the network and not lost. So each result restarts its timeout, as each new
 * acknowledgement does in TCP (RFC 6298, 5.3).
 *
 * The result of a chunk also names the ranks whose contributions to the previous chunk were lost. These ranks send the
 * contribution again at once, unless frames may have been reordered. The other ranks wait one timeout for these ranks,
 * and do not have to ask.
 *
 * congestion.h limits the chunks in flight of all windows together. The oldest chunk of a window may always be in
 * flight. Otherwise two ranks that lost different results could each wait for a chunk that the other rank may not send.
 *
 * Windows take turns by start-time fair queueing (Goyal, Vin, Cheng 1996), in proportion to the weights of their
 * aggregators, and regardless of which results arrive first. Ranks begin with different aggregators, so their frames
 * stay spread over the ports. If each rank followed its results, all ranks would soon send to the same port at the same
 * time.
 */
#include <errno.h>
#include <stdlib.h>
#include "window.h"

#define TURN (1u << 20) /* length of a turn for one frame in a window of weight 1 */

int fpisa_window_reset(struct fpisa_window *w, struct fpisa_flight *flight, uint32_t size, uint32_t capacity,
		       uint64_t drops, const struct fpisa_layout *layout, uint32_t shard)
{
	struct fpisa_window_slot *slot;

	while (size > capacity && size > 1)
		size /= 2;
	slot = calloc(size, sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	free(w->slot);
	*w = (struct fpisa_window){
		.flight = flight, .slots = size, .slot = slot, .drops = drops, .layout = layout, .shard = shard};
	flight->window[shard] = w;
	fpisa_rto_init(&w->rto);
	fpisa_base_init(&w->base);
	for (uint32_t i = 0; i < size; i++)
		slot[i].chunk = i;
	TAILQ_INIT(&w->fresh);
	TAILQ_INIT(&w->ready);
	for (int i = 0; i < FPISA_BACKOFFS; i++)
		TAILQ_INIT(&w->waiting[i]);
	TAILQ_INIT(&w->held);
	TAILQ_INIT(&w->lost);
	TAILQ_INIT(&w->there);
	return 0;
}

void fpisa_flight_init(struct fpisa_flight *flight, uint32_t windows, uint32_t frame_bytes, uint32_t ranks)
{
	uint32_t slots = 0;

	for (uint32_t i = 0; i < windows; i++)
		slots += flight->window[i]->slots;
	flight->windows = windows;
	flight->in_flight = flight->unanswered = 0;
	flight->turn = flight->result_ns = 0;
	fpisa_congestion_init(&flight->congestion, slots, frame_bytes, windows, ranks);
}

void fpisa_window_move(struct fpisa_window_slot *slot, struct fpisa_window_queue *to)
{
	if (slot->queue)
		TAILQ_REMOVE(slot->queue, slot, link);
	slot->queue = to;
	if (to)
		TAILQ_INSERT_TAIL(to, slot, link);
}

/* Return how many of the chunks before `chunk` belong to the window. */
static uint64_t own(const struct fpisa_window *w, uint64_t chunk)
{
	return w->layout ? fpisa_layout_own(w->layout, w->shard, chunk) : chunk;
}

void fpisa_window_start(struct fpisa_window *w, struct fpisa_request *r)
{
	uint64_t first = own(w, r->first), n = own(w, r->first + r->chunks) - first;

	/*
	 * Visit slots in the order of chunks, beginning with the slot of the request's first chunk. All earlier chunks
	 * are done or in a slot, so each idle slot gets the chunk of its position. A call of few chunks visits few
	 * slots.
	 */
	for (uint64_t i = 0; i < n && i < w->slots; i++) {
		struct fpisa_window_slot *slot = fpisa_window_slot_of(w, first + i);

		if (slot->req)
			continue;
		slot->req = r;
		fpisa_window_move(slot, &w->fresh);
	}
}

/*
 * Insert the slot among the chunks that have not been sent, in their order. So a rank that got a result late sends the
 * following chunks at the same time as all other ranks.
 */
static void move_to_fresh(struct fpisa_window *w, struct fpisa_window_slot *slot)
{
	struct fpisa_window_slot *before = TAILQ_LAST(&w->fresh, fpisa_window_queue);

	while (before && before->chunk > slot->chunk)
		before = TAILQ_PREV(before, fpisa_window_queue, link);
	fpisa_window_move(slot, NULL);
	slot->queue = &w->fresh;
	if (before)
		TAILQ_INSERT_AFTER(&w->fresh, before, slot, link);
	else
		TAILQ_INSERT_HEAD(&w->fresh, slot, link);
}

/* Insert the slot among the slots of the same timeout, in the order of since_ns. */
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
	w->flight->in_flight += (uint32_t)(in_flight - slot->in_flight);
	slot->in_flight = in_flight;
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

	if (!slot || w->flight->in_flight < w->flight->congestion.limit)
		return slot;
	slot = fpisa_window_oldest(w);
	return slot->queue == &w->fresh || slot->queue == &w->ready ? slot : NULL;
}

static uint32_t weight(const struct fpisa_window *w)
{
	return w->layout ? w->layout->weight[w->shard] : 1;
}

uint32_t fpisa_window_take_turn(struct fpisa_window *w)
{
	uint32_t windows = w->layout ? w->layout->shards : 1, frames = w->flight->congestion.limit / (4 * windows);

	w->flight->turn = w->turn = fpisa_window_turn(w);
	return windows == 1 ? UINT32_MAX : frames ? frames : 1;
}

void fpisa_window_sent(struct fpisa_window *w, struct fpisa_window_slot *slot, uint64_t ns)
{
	if (!slot->tries++) {
		slot->first_ns = ns;
		slot->among = ++w->flight->unanswered;
	}
	set_in_flight(w, slot, 1);
	slot->sent_ns = ns;
	slot->since_ns = ns;
	w->turn += TURN / weight(w);
	fpisa_window_move(slot, &w->waiting[slot->backoff]);
	if (slot->backoff < FPISA_BACKOFFS - 1)
		slot->backoff++;
}

/*
 * Note the result of a chunk whose first transmission was at first_ns. Restart the timeout of held slots and of the
 * oldest slot.
 */
static void heard(struct fpisa_window *w, uint64_t first_ns, uint64_t now)
{
	struct fpisa_window_slot *slot;

	w->result_ns = w->flight->result_ns = now;
	if (first_ns > w->heard_ns)
		w->heard_ns = first_ns;
	while ((slot = TAILQ_FIRST(&w->held))) {
		slot->since_ns = now;
		fpisa_window_move(slot, &w->waiting[slot->backoff - 1]);
	}
}

/*
 * Return whether the result answers a retransmission. If this is unknown, assume that it answers the first
 * transmission.
 */
static int answers_retransmission(const struct fpisa_window_slot *slot, const struct fpisa_answer *a)
{
	return slot->tries > 1 && (a->resent || (a->ours && a->retransmit));
}

/*
 * Return whether a retransmission that left after a timeout without any result completed the round. If so, all frames
 * that left before the retransmission are lost, as in RACK (RFC 8985). Otherwise each of them would take a timeout.
 */
static int ends_silence(const struct fpisa_window *w, const struct fpisa_window_slot *slot, const struct fpisa_answer *a)
{
	uint64_t since_ns = slot->first_ns > w->result_ns ? slot->first_ns : w->result_ns;

	return a->ours && a->retransmit && !a->resent && slot->sent_ns >= since_ns + w->rto.rto_ns;
}

/* Return the shortest round trip by any aggregator. */
static uint64_t shortest(const struct fpisa_flight *f)
{
	uint64_t ns = UINT64_MAX;

	for (uint32_t i = 0; i < f->windows; i++)
		if (f->window[i]->base.ns < ns)
			ns = f->window[i]->base.ns;
	return ns;
}

/*
 * Return the round trip of a chunk, or 0 if it is unknown. If another rank completed the round, the round trip contains
 * a wait for that rank. The timeout must cover this wait too, unless the wait was a timeout of the other rank, because
 * estimates from timeouts would increase each other.
 */
static uint64_t measure(struct fpisa_window *w, const struct fpisa_window_slot *slot, const struct fpisa_answer *a,
			uint64_t rtt_ns)
{
	if (slot->tries > 1 && (a->resent || a->retransmit || a->unknown)) {
		fpisa_rto_ambiguous(&w->rto, w->slots);
		return 0;
	}
	if (a->ours)
		fpisa_rto_sample(&w->rto, rtt_ns);
	else
		fpisa_rto_bound(&w->rto, rtt_ns, slot->among, !a->retransmit);
	fpisa_rto_load(&w->rto, slot->among);
	fpisa_base_sample(&w->base, rtt_ns);
	if (a->ours || a->unknown)
		fpisa_base_own(&w->base, rtt_ns, shortest(w->flight));
	return rtt_ns;
}

/* Move the slot to its next chunk. */
static void go_on(struct fpisa_window *w, struct fpisa_window_slot *slot)
{
	struct fpisa_request *r = slot->req;

	set_in_flight(w, slot, 0);
	w->flight->unanswered -= slot->tries != 0;
	slot->chunk += w->slots;
	slot->tries = 0;
	slot->gso = 0;
	slot->backoff = 0;
	slot->live = 0;
	slot->above = 0;
	while (r && slot->chunk >= own(w, r->first + r->chunks))
		r = TAILQ_NEXT(r, link);
	slot->req = r;
	if (r)
		move_to_fresh(w, slot);
	else
		fpisa_window_move(slot, NULL);
}

/* Process the report in the result of `slot` that contributions to the previous chunk were lost. */
static void told_lost(struct fpisa_window *w, const struct fpisa_window_slot *slot, const struct fpisa_answer *a,
		      uint64_t now)
{
	struct fpisa_window_slot *before = fpisa_window_slot_of(w, slot->chunk - 1);

	if (!slot->chunk || before->chunk != slot->chunk - 1 || !before->tries || before->sent_ns >= slot->first_ns ||
	    before->queue == &w->ready)
		return;
	fpisa_congestion_lost_by_any(&w->flight->congestion, &w->base, before->first_ns, now);
	before->since_ns = now;
	set_in_flight(w, before, 0);
	fpisa_window_move(before, a->lost_ours ? &w->lost : &w->there);
}

void fpisa_window_answered(struct fpisa_window *w, struct fpisa_window_slot *slot, const struct fpisa_answer *a,
			   uint64_t resumed_ns, uint64_t now)
{
	struct fpisa_congestion *c = &w->flight->congestion;
	uint64_t rtt_ns = slot->first_ns < resumed_ns ? 0 : measure(w, slot, a, now - slot->first_ns);

	if (answers_retransmission(slot, a) || (slot->tries > 1 && a->unknown))
		fpisa_congestion_lost(c, &w->base, slot->sent_ns, now);
	if (a->retransmit)
		fpisa_congestion_lost_by_any(c, &w->base, slot->first_ns, now);
	if (a->marked)
		fpisa_congestion_halve(c, slot->sent_ns, now);
	if (a->lost_ours || a->lost_others)
		told_lost(w, slot, a, now);
	heard(w, ends_silence(w, slot, a) ? slot->sent_ns : slot->first_ns, now);
	fpisa_congestion_result(c, rtt_ns, &w->base, a->ours || a->unknown, now);
	go_on(w, slot);
}

/* Keep the two smallest values of three, in order. */
static void keep_two(uint64_t two[2], uint64_t x)
{
	if (x < two[0]) {
		two[1] = two[0];
		two[0] = x;
	} else if (x < two[1]) {
		two[1] = x;
	}
}

/*
 * Return the window's timeout. Waits for ranks that are late at one aggregator lengthen the round trips of its window,
 * but all windows use the same link. So the second shortest round trip of all windows, and twice the second shortest
 * timeout, are sufficient. The shortest does not count, because one aggregator may be on this host.
 */
static struct fpisa_rto rto_of(const struct fpisa_window *w)
{
	uint64_t srtt[2] = {UINT64_MAX, UINT64_MAX}, timeout[2] = {UINT64_MAX, UINT64_MAX};
	struct fpisa_rto rto = w->rto;

	rto.rto_ns = fpisa_rto_among(&rto, rto.rto_ns, w->flight->unanswered);
	if (w->flight->windows > 1 && fpisa_base_queued(&w->base))
		return rto;
	for (uint32_t i = 0; i < w->flight->windows; i++) {
		const struct fpisa_rto *other = &w->flight->window[i]->rto;

		if (!other->srtt_ns)
			continue;
		keep_two(srtt, other->srtt_ns);
		keep_two(timeout, fpisa_rto_among(other, other->rto_ns, w->flight->unanswered));
	}
	if (srtt[1] < rto.srtt_ns)
		rto.srtt_ns = srtt[1];
	if (timeout[1] < rto.rto_ns / 2)
		rto.rto_ns = 2 * timeout[1];
	return rto;
}

/* Return the time at which the timeout of a slot in waiting[i] passes. */
static uint64_t due_ns(const struct fpisa_window *w, const struct fpisa_window_slot *slot, const struct fpisa_rto *rto,
		       uint32_t i)
{
	int overtaken = slot->sent_ns < w->heard_ns;

	return slot->since_ns + (overtaken ? fpisa_rto_overtaken(rto) : fpisa_rto_after(rto, i));
}

/* Return the number of the slot's chunk among all chunks of the handle. */
static uint64_t chunk_of(const struct fpisa_window *w, const struct fpisa_window_slot *slot)
{
	return w->layout ? fpisa_layout_chunk(w->layout, w->shard, slot->chunk) : slot->chunk;
}

/* Return whether the oldest chunk of the window is the oldest chunk of all windows. */
static int is_first(const struct fpisa_window *w, const struct fpisa_window_slot *oldest)
{
	for (uint32_t i = 0; i < w->flight->windows; i++) {
		struct fpisa_window *other = w->flight->window[i];
		const struct fpisa_window_slot *slot = other == w ? NULL : fpisa_window_oldest(other);

		if (slot && chunk_of(other, slot) < chunk_of(w, oldest))
			return 0;
	}
	return 1;
}

/* Return whether all chunks of started requests have been sent. If so, no later chunk can overtake a lost chunk. */
static int is_tail(const struct fpisa_window *w)
{
	for (uint32_t i = 0; i < w->flight->windows; i++)
		if (!TAILQ_EMPTY(&w->flight->window[i]->fresh))
			return 0;
	return 1;
}

/*
 * Return the time at which to ask a silent aggregator. This is after two timeouts, or after one timeout if is_tail().
 */
static uint64_t silent_from(const struct fpisa_window *w, uint64_t timeout)
{
	return w->result_ns + (is_tail(w) ? 1 : 2) * timeout;
}

/*
 * Return the time until which results count as arriving, and chunks without a result as queued. Results of any
 * aggregator count, because all results arrive through one link.
 */
static uint64_t quiet_from(const struct fpisa_window *w, uint64_t timeout)
{
	uint64_t any = w->flight->result_ns + timeout, own = silent_from(w, timeout);

	return any < own ? any : own;
}

/*
 * Return whether the window's oldest chunk may be sent again although no report says that the chunk was lost. If a rank
 * is late, only one of all windows sends its chunk at first.
 */
static int may_ask(const struct fpisa_window *w, const struct fpisa_window_slot *oldest, uint64_t timeout, uint64_t now)
{
	if (oldest->tries == 1 && quiet_from(w, timeout) > now)
		return 0;
	return silent_from(w, timeout) <= now || is_first(w, oldest);
}

/*
 * Take an overdue chunk out of the count in flight if there are several windows. The chunk is lost, or waits at the
 * aggregator for other ranks. Ranks may wait for different chunks at different aggregators, so other chunks must be
 * sent in the meantime.
 */
static void overdue(struct fpisa_window *w, struct fpisa_window_slot *slot)
{
	if (w->flight->windows > 1)
		set_in_flight(w, slot, 0);
}

static void send_again(struct fpisa_window *w, struct fpisa_window_slot *slot)
{
	set_in_flight(w, slot, 0);
	fpisa_window_move(slot, &w->ready);
}

/* Return the time at which to send the first chunk of the queue `lost` or `there` again. */
static uint64_t told_due_ns(const struct fpisa_window_queue *q, uint64_t after_ns)
{
	const struct fpisa_window_slot *slot = TAILQ_FIRST(q);

	return slot ? slot->since_ns + after_ns : UINT64_MAX;
}

static void expire_told(struct fpisa_window *w, uint64_t timeout, uint64_t now)
{
	while (told_due_ns(&w->lost, FPISA_RTO_REORDER_NS) <= now)
		send_again(w, TAILQ_FIRST(&w->lost));
	while (told_due_ns(&w->there, timeout) <= now)
		send_again(w, TAILQ_FIRST(&w->there));
}

int fpisa_window_expire(struct fpisa_window *w, uint64_t now)
{
	const struct fpisa_window_slot *oldest = NULL;
	const struct fpisa_rto rto = rto_of(w);
	uint64_t timeout = fpisa_rto_after(&rto, 0), again_ns = now + timeout;

	expire_told(w, timeout, now);
	for (uint32_t i = 0; i < FPISA_BACKOFFS; i++) {
		struct fpisa_window_slot *slot;

		while ((slot = TAILQ_FIRST(&w->waiting[i])) && due_ns(w, slot, &rto, i) <= now) {
			if (!oldest)
				oldest = fpisa_window_oldest(w);
			overdue(w, slot);
			if (slot->sent_ns < w->heard_ns || (slot == oldest && may_ask(w, slot, timeout, now)))
				send_again(w, slot);
			else if (slot == oldest)
				rearm(slot, (quiet_from(w, timeout) > now ? quiet_from(w, timeout) : again_ns) -
						    fpisa_rto_after(&rto, i));
			else
				fpisa_window_move(slot, &w->held);
		}
	}
	return oldest != NULL;
}

uint64_t fpisa_window_expiry(const struct fpisa_window *w, uint64_t at)
{
	const struct fpisa_rto rto = rto_of(w);
	uint64_t lost = told_due_ns(&w->lost, FPISA_RTO_REORDER_NS),
		 there = told_due_ns(&w->there, fpisa_rto_after(&rto, 0));

	at = lost < at ? lost : at;
	at = there < at ? there : at;
	for (uint32_t i = 0; i < FPISA_BACKOFFS; i++) {
		struct fpisa_window_slot *slot = TAILQ_FIRST(&w->waiting[i]);
		uint64_t ns = slot ? due_ns(w, slot, &rto, i) : at;

		if (ns < at)
			at = ns;
	}
	return at;
}

void fpisa_window_dropped(struct fpisa_window *w, uint64_t drops, uint64_t now)
{
	if (drops > w->drops)
		fpisa_congestion_halve(&w->flight->congestion, now, now);
	w->drops = drops;
}
