/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The window decides which chunks are in flight, and which chunk is sent next.
 *
 * A window is a set of w slots. Slot i carries the chunks i, i + w, i + 2w, ... one after the other. A chunk may be
 * sent when the result of the previous chunk of the slot has arrived. The rule of the protocol (send chunk c + W after
 * the result of chunk c) holds for any w that divides the job's window W. So a worker with a smaller receive buffer
 * uses fewer slots.
 */
#ifndef FPISA_WINDOW_H
#define FPISA_WINDOW_H

#include <stdint.h>
#include <sys/queue.h>
#include "congestion.h"
#include "fpisa/wire.h"
#include "layout.h"
#include "request.h"
#include "rto.h"

struct fpisa_window_slot {
	TAILQ_ENTRY(fpisa_window_slot) link;
	struct fpisa_window_queue *queue; /* queue of the slot; NULL: the slot has no chunk */
	struct fpisa_request *req;	  /* request of the chunk; NULL: not started yet */
	uint64_t chunk;
	uint64_t sent_ns;      /* time of the last transmission; no two transmissions have the same time */
	uint64_t first_ns;     /* time of the first transmission */
	uint64_t since_ns;     /* start of the timeout */
	uint64_t bitmap, live; /* ranks in the last STATUS of this chunk; live is 0 without a STATUS */
	int above;	       /* the last STATUS named leaves of the aggregator's parent, and not ranks */
	uint32_t tries;	       /* number of transmissions */
	/* number of chunks without a result just after the first transmission, including this chunk */
	uint32_t among;
	int in_flight;	      /* the chunk was sent and is not known to be lost */
	int gso;	      /* the first transmission was in a GSO batch */
	uint32_t backoff;     /* number of doublings of the timeout after the next transmission */
	struct fpisa_hdr hdr; /* header of the frame being sent */
};

/* Return the ranks for which the chunk waits, as far as known. */
static inline uint64_t fpisa_slot_missing(const struct fpisa_window_slot *slot)
{
	return slot->above ? 0 : slot->live & ~slot->bitmap;
}

TAILQ_HEAD(fpisa_window_queue, fpisa_window_slot);

/*
 * State that the windows of one handle share, because all their frames leave through one link. The state determines how
 * many chunks may be in flight, and which window has the next turn.
 */
struct fpisa_flight {
	struct fpisa_window *window[FPISA_MAX_SHARDS];
	uint32_t windows;
	struct fpisa_congestion congestion;
	uint32_t in_flight; /* number of slots of all windows in flight */
	/* number of slots whose chunk was sent and has no result, including chunks that may be lost */
	uint32_t unanswered;
	uint64_t turn;	    /* begin of the last sender's turn, in the units of fpisa_window.turn */
	uint64_t result_ns; /* time of the last result */
};

struct fpisa_window {
	struct fpisa_flight *flight;
	struct fpisa_rto rto;
	struct fpisa_base base;
	/* virtual time of the window's next turn; each frame of a window of weight w adds 1/w */
	uint64_t turn;
	uint32_t slots; /* number of slots, a power of two; 0 before the first join */
	/* layout of the chunks of a request over the windows; NULL: all chunks are in this window */
	const struct fpisa_layout *layout;
	uint32_t shard; /* index of the window's shard in `layout` */
	struct fpisa_window_slot *slot;
	struct fpisa_window_queue fresh;		   /* slots that were not sent yet, in the order of chunks */
	struct fpisa_window_queue ready;		   /* slots to send again now */
	struct fpisa_window_queue waiting[FPISA_BACKOFFS]; /* sent slots by backoff, in the order of since_ns */
	struct fpisa_window_queue held;			   /* sent slots that are overdue, until the next result */
	struct fpisa_window_queue lost; /* sent slots whose contribution the aggregator has reported as lost */
	/* sent slots for which the aggregator has reported only losses of other ranks */
	struct fpisa_window_queue there;
	uint64_t heard_ns;  /* latest first_ns of a chunk with a result */
	uint64_t result_ns; /* time of the window's last result */
	/* number of results since the last result of a chunk that was sent only once, in a GSO batch */
	uint32_t lost_gso;
	uint64_t drops; /* number of the transport's drops when it was last read */
};

/* The report of a result about itself and about the contribution that completed its round. */
struct fpisa_answer {
	int resent;	 /* the result is a kept result for which this rank asked */
	int ours;	 /* the contribution is from this rank */
	int unknown;	 /* the sender of the contribution is unknown */
	int retransmit;	 /* the contribution was a retransmission */
	int lost_ours;	 /* this rank's contribution to the previous chunk was lost */
	int lost_others; /* only other ranks' contributions to the previous chunk were lost */
	int marked;	 /* the result or a contribution to it had a congestion mark (ECN) */
};

/*
 * Begin a generation with `size` slots, or fewer if the receiver cannot hold as many results. The window belongs to
 * `shard` of `layout`, or is the only window if `layout` is NULL. Return 0, or -ENOMEM without any change.
 */
int fpisa_window_reset(struct fpisa_window *w, struct fpisa_flight *flight, uint32_t size, uint32_t capacity,
		       uint64_t drops, const struct fpisa_layout *layout, uint32_t shard);

/*
 * Begin a generation with frames of `frame_bytes` bytes, as in fpisa_congestion_init(). Call this after all windows
 * were reset.
 */
void fpisa_flight_init(struct fpisa_flight *flight, uint32_t windows, uint32_t frame_bytes, uint32_t ranks);

/* Assign chunks of an appended request to idle slots. */
void fpisa_window_start(struct fpisa_window *w, struct fpisa_request *r);

/* Move a slot to the end of a queue, or into no queue if `queue` is NULL. */
void fpisa_window_move(struct fpisa_window_slot *slot, struct fpisa_window_queue *to);

/* Return the slot that carries the oldest chunk, or NULL if no slot carries a chunk. */
struct fpisa_window_slot *fpisa_window_oldest(struct fpisa_window *w);

/*
 * Return the next slot that may send, or NULL. Lost chunks come before new chunks, and the limit of chunks in flight
 * applies.
 */
struct fpisa_window_slot *fpisa_window_next_to_send(struct fpisa_window *w);

/*
 * Return the virtual time of the window's next turn. Of the windows that may send, the one with the smallest value is next.
 */
static inline uint64_t fpisa_window_turn(const struct fpisa_window *w)
{
	return w->turn > w->flight->turn ? w->turn : w->flight->turn;
}

/*
 * Begin the turn of the window, and return how many frames the window may send in this turn. The frames are sent in one
 * batch, so the number is larger if many chunks are in flight.
 */
uint32_t fpisa_window_take_turn(struct fpisa_window *w);

/* Record a transmission at the time `ns`, which is later than that of any earlier transmission. */
void fpisa_window_sent(struct fpisa_window *w, struct fpisa_window_slot *slot, uint64_t ns);

/*
 * Record the result of the slot's chunk. Update the estimates by the time that the chunk took, and continue with the
 * next chunk of the slot. `resumed_ns` is the time at which the last pause of this process ended.
 */
void fpisa_window_answered(struct fpisa_window *w, struct fpisa_window_slot *slot, const struct fpisa_answer *a,
			   uint64_t resumed_ns, uint64_t now);

/* Make slots whose timeout has passed ready, or hold them. Return whether any timeout has passed. */
int fpisa_window_expire(struct fpisa_window *w, uint64_t now);

/* Return the time of the next timeout, or `at` if that is earlier. */
uint64_t fpisa_window_expiry(const struct fpisa_window *w, uint64_t at);

/* Check whether drops at the receiver explain why a result is overdue. `drops` is the number of drops so far. */
void fpisa_window_dropped(struct fpisa_window *w, uint64_t drops, uint64_t now);

static inline struct fpisa_window_slot *fpisa_window_slot_of(const struct fpisa_window *w, uint64_t chunk)
{
	return &w->slot[chunk & (w->slots - 1)];
}

/*
 * Return whether the chunk has its result. If so, its slot has moved on. A window that has never begun a generation has
 * no slots and no results.
 */
static inline int fpisa_window_passed(const struct fpisa_window *w, uint64_t chunk)
{
	return w->slots && fpisa_window_slot_of(w, chunk)->chunk > chunk;
}

#endif
