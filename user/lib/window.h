/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The window decides which chunks are in flight, and which chunk is sent next.
 *
 * A window is a set of slots. Slot i carries the chunks i, i + w, i + 2w, ... one after the other. A chunk leaves when
 * the result of the chunk before it in the slot has come. The wire's self-clock (chunk c + W after the result of c)
 * holds for any w that divides the job's window W. So a worker whose receiver holds less uses fewer slots.
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
	struct fpisa_window_queue *queue; /* the queue of the slot; NULL if it has no chunk to carry */
	struct fpisa_request *req;	  /* request of its chunk, NULL if not started yet */
	uint64_t chunk;
	uint64_t sent_ns;      /* last transmission; all times differ */
	uint64_t first_ns;     /* first transmission */
	uint64_t since_ns;     /* start of the timeout */
	uint64_t bitmap, live; /* the last STATUS of this chunk; live is 0 without STATUS */
	int above;	       /* it named leaves of the aggregator's parent, and not ranks */
	uint32_t tries;	       /* transmissions */
	uint32_t among;	       /* chunks without a result just after the first transmission, including this chunk */
	int in_flight;	       /* the chunk was sent and is not known to be lost */
	int gso;	       /* the first transmission was in a GSO batch */
	uint32_t backoff;      /* doublings of the timeout after the next transmission */
	struct fpisa_hdr hdr;  /* header of the frame being sent */
};

/* Return the ranks that the chunk waits for, as far as known. */
static inline uint64_t fpisa_slot_missing(const struct fpisa_window_slot *slot)
{
	return slot->above ? 0 : slot->live & ~slot->bitmap;
}

TAILQ_HEAD(fpisa_window_queue, fpisa_window_slot);

/*
 * State that the windows of one handle share, because all their frames leave by one link: how many chunks may be in
 * flight, and whose turn it is.
 */
struct fpisa_flight {
	struct fpisa_window *window[FPISA_MAX_SHARDS];
	uint32_t windows;
	struct fpisa_congestion congestion;
	uint32_t in_flight;  /* slots of all windows in flight */
	uint32_t unanswered; /* slots whose chunk was sent and has no result, including those that may be lost */
	uint64_t turn;	     /* begin of the last sender's turn, in the time of fpisa_window.turn */
	uint64_t result_ns;  /* time of the last result */
};

struct fpisa_window {
	struct fpisa_flight *flight;
	struct fpisa_rto rto;
	struct fpisa_base base;
	uint64_t turn;			   /* time of its next turn; each frame of a window of weight w adds 1/w */
	uint32_t slots;			   /* a power of two; 0 before the first join */
	const struct fpisa_layout *layout; /* tells which chunks of a request are the window's; NULL: all */
	uint32_t shard;			   /* index of the window's shard in `layout` */
	struct fpisa_window_slot *slot;
	struct fpisa_window_queue fresh;		   /* not yet sent, in the order of chunks */
	struct fpisa_window_queue ready;		   /* to be sent again now */
	struct fpisa_window_queue waiting[FPISA_BACKOFFS]; /* sent, by backoff, in the order of since_ns */
	struct fpisa_window_queue held;			   /* sent and overdue, until the next result */
	struct fpisa_window_queue lost; /* sent, and the aggregator reported that it lacks the chunk */
	struct fpisa_window_queue there; /* sent, and the aggregator reported that it lacks only other ranks' contributions */
	uint64_t heard_ns;		 /* the latest first_ns of a chunk with a result */
	uint64_t result_ns;		 /* time of the window's last result */
	uint32_t lost_gso;		 /* results since the last result to a chunk sent only once, in a GSO batch */
	uint64_t drops;			 /* drops of the transport, when last read */
};

/* A result's report about itself and about the contribution that completed its round. */
struct fpisa_answer {
	int resent;	 /* the result was kept, and this rank asked for it */
	int ours;	 /* the contribution was this rank's */
	int unknown;	 /* the contributor is not known */
	int retransmit;	 /* the contribution was not the first copy that its rank sent */
	int lost_ours;	 /* this rank's contribution to the chunk before was lost */
	int lost_others; /* only other ranks' contributions to the chunk before were lost */
	int marked;	 /* the result, or a contribution to it, was marked on its way (ECN) */
};

/*
 * Begin a generation with `size` slots, or as many as the receiver can hold results for. `shard` of `layout`, NULL:
 * the only one. -ENOMEM: nothing changed.
 */
int fpisa_window_reset(struct fpisa_window *w, struct fpisa_flight *flight, uint32_t size, uint32_t capacity,
		       uint64_t drops, const struct fpisa_layout *layout, uint32_t shard);

/* Begin a generation of frames of `frame_bytes` (0: as in fpisa_congestion_init()), after all windows were reset. */
void fpisa_flight_init(struct fpisa_flight *flight, uint32_t windows, uint32_t frame_bytes);

/* Give idle slots whose chunk is in an appended request something to carry. */
void fpisa_window_start(struct fpisa_window *w, struct fpisa_request *r);

/* Move a slot to the end of a queue; NULL: into no queue. */
void fpisa_window_move(struct fpisa_window_slot *slot, struct fpisa_window_queue *to);

/* Return the slot that carries the oldest chunk; NULL if no slot carries a chunk. */
struct fpisa_window_slot *fpisa_window_oldest(struct fpisa_window *w);

/* Return the next slot that may send, if any: lost chunks before new ones, as far as the limit allows. */
struct fpisa_window_slot *fpisa_window_next_to_send(struct fpisa_window *w);

/* Return when the window's next turn begins: of the windows that may send, the one with the least value goes first. */
static inline uint64_t fpisa_window_turn(const struct fpisa_window *w)
{
	return w->turn > w->flight->turn ? w->turn : w->flight->turn;
}

/*
 * Begin the window's turn and return how many frames it may send in it. The frames go in one batch, so there are more
 * of them if many are in flight.
 */
uint32_t fpisa_window_take_turn(struct fpisa_window *w);

/* Record a transmission; `ns` is now, and larger than of any transmission before. */
void fpisa_window_sent(struct fpisa_window *w, struct fpisa_window_slot *slot, uint64_t ns);

/*
 * Record the result of the slot's chunk: learn from the time that it took, and continue with the slot's next chunk.
 * `resumed_ns`: when a pause of this process ended.
 */
void fpisa_window_answered(struct fpisa_window *w, struct fpisa_window_slot *slot, const struct fpisa_answer *a,
			   uint64_t resumed_ns, uint64_t now);

/* Make slots whose timeout has passed ready, or hold them. Return whether any timeout has passed. */
int fpisa_window_expire(struct fpisa_window *w, uint64_t now);

/* Return the time of the next timeout, or `at` if that is earlier. */
uint64_t fpisa_window_expiry(const struct fpisa_window *w, uint64_t at);

/* Check whether the receiver's drops explain why a result is overdue; `drops` is their number so far. */
void fpisa_window_dropped(struct fpisa_window *w, uint64_t drops, uint64_t now);

static inline struct fpisa_window_slot *fpisa_window_slot_of(const struct fpisa_window *w, uint64_t chunk)
{
	return &w->slot[chunk & (w->slots - 1)];
}

/*
 * Return whether the chunk has its result. If so, its slot has moved on. A window that never began a generation has no
 * slots, and no results.
 */
static inline int fpisa_window_passed(const struct fpisa_window *w, uint64_t chunk)
{
	return w->slots && fpisa_window_slot_of(w, chunk)->chunk > chunk;
}

#endif
