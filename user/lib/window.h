/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The window: which chunks are in flight, and which is sent next.
 *
 * It is a set of slots. Slot i carries the chunks i, i + w, i + 2w, ... one
 * after the other: the next leaves when the result of the one before has
 * come. The wire's self-clock (chunk c + W after the result of c) holds for
 * any w that divides the job's window W, so a worker whose receiver holds
 * less uses fewer slots.
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
	struct fpisa_window_queue *queue; /* where it stands; NULL when it has nothing to carry */
	struct fpisa_request *req;	  /* of its chunk, NULL when that is not started yet */
	uint64_t chunk;
	uint64_t sent_ns;      /* last transmission; no two are equal */
	uint64_t first_ns;     /* first transmission */
	uint64_t since_ns;     /* its timeout counts from here */
	uint64_t bitmap, live; /* the last STATUS of this chunk; live is 0 without one */
	uint32_t tries;	       /* transmissions */
	uint32_t among;	       /* chunks without a result just after the first of them, this one too */
	int in_flight;	       /* the chunk was sent and is not known to be lost */
	int gso;	       /* the first of them was in a GSO batch */
	uint32_t backoff;      /* doublings of the timeout after the next transmission */
	struct fpisa_hdr hdr;  /* of the frame being sent */
};

TAILQ_HEAD(fpisa_window_queue, fpisa_window_slot);

/* What the windows of one handle share, for all their frames leave by one link: how many may be in flight, and whose turn it is. */
struct fpisa_flight {
	struct fpisa_window *window[FPISA_MAX_SHARDS];
	uint32_t windows;
	struct fpisa_congestion congestion;
	uint32_t in_flight;  /* slots of all windows that are */
	uint32_t unanswered; /* slots whose chunk was sent and has no result, those that may be lost too */
	uint64_t turn;	     /* when the last window that sent began to, in the time of fpisa_window.turn */
	uint64_t result_ns;  /* when the last result came */
};

struct fpisa_window {
	struct fpisa_flight *flight;
	struct fpisa_rto rto;
	struct fpisa_base base;
	uint64_t turn;			   /* when its next turn begins: a frame takes a window of weight w 1/w */
	uint32_t slots;			   /* a power of two; 0 before the first join */
	const struct fpisa_layout *layout; /* which chunks of a request are its own; NULL: all */
	uint32_t shard;			   /* which it is there */
	struct fpisa_window_slot *slot;
	struct fpisa_window_queue fresh;		   /* not yet sent, in the order of chunks */
	struct fpisa_window_queue ready;		   /* to be sent again now */
	struct fpisa_window_queue waiting[FPISA_BACKOFFS]; /* sent, by backoff, in the order of since_ns */
	struct fpisa_window_queue held;			   /* sent and overdue, until the next result */
	struct fpisa_window_queue lost;			   /* sent, and the aggregator says that it lacks it */
	struct fpisa_window_queue there; /* sent, and the aggregator says that it lacks others' alone */
	uint64_t heard_ns;		 /* the latest first_ns whose result is here */
	uint64_t result_ns;		 /* when the last of its results came */
	uint32_t lost_gso;		 /* results since the last to a chunk sent but once, in a GSO batch */
	uint64_t drops;			 /* of the transport, when last asked */
};

/* What a result says of itself and of the contribution that completed its round. */
struct fpisa_answer {
	int resent;	 /* it was kept, and this rank asked for it */
	int ours;	 /* the contribution was this rank's */
	int unknown;	 /* nobody knows whose it was */
	int retransmit;	 /* it was not the first copy that its rank sent */
	int lost_ours;	 /* of the chunk before this rank's contribution was lost */
	int lost_others; /* other ranks' were, and this rank's is there */
};

/*
 * Begins a generation with `size` slots, or as many as the receiver can hold results for. `shard` of `layout`, NULL: the only one.
 * -ENOMEM: it is as it was.
 */
int fpisa_window_reset(struct fpisa_window *w, struct fpisa_flight *flight, uint32_t size, uint32_t capacity,
		       uint64_t drops, const struct fpisa_layout *layout, uint32_t shard);

/* All its windows were reset: they begin a generation of frames of `frame_bytes` (0: as fpisa_congestion_init() has it). */
void fpisa_flight_init(struct fpisa_flight *flight, uint32_t windows, uint32_t frame_bytes);

/* A request was appended: idle slots whose chunk is in it have something to carry. */
void fpisa_window_start(struct fpisa_window *w, struct fpisa_request *r);

/* To the end of a queue; NULL: into none. */
void fpisa_window_move(struct fpisa_window_slot *slot, struct fpisa_window_queue *to);

/* The slot that carries the oldest chunk; NULL if none carries any. */
struct fpisa_window_slot *fpisa_window_oldest(struct fpisa_window *w);

/* The next slot that may send, if any: what was lost before what is new, as far as the limit allows. */
struct fpisa_window_slot *fpisa_window_next_to_send(struct fpisa_window *w);

/* When its next turn begins: of windows that may send, the one goes first for which that is the least. */
static inline uint64_t fpisa_window_turn(const struct fpisa_window *w)
{
	return w->turn > w->flight->turn ? w->turn : w->flight->turn;
}

/* Its turn begins; how many frames it may send in it. They go in one batch, so there are more of them where many are in flight. */
uint32_t fpisa_window_take_turn(struct fpisa_window *w);

/* It leaves; `ns` is now, and larger than of any transmission before. */
void fpisa_window_sent(struct fpisa_window *w, struct fpisa_window_slot *slot, uint64_t ns);

/* The slot's chunk has its result: learn from the time that it took, and go on with the chunk after it. `resumed`: when a pause of this process ended. */
void fpisa_window_answered(struct fpisa_window *w, struct fpisa_window_slot *slot, const struct fpisa_answer *a,
			   uint64_t resumed_ns, uint64_t now);

/* Slots whose timeout has passed become ready, or are held. Was there any? */
int fpisa_window_expire(struct fpisa_window *w, uint64_t now);

/* When the next timeout passes, `at` at the latest. */
uint64_t fpisa_window_expiry(const struct fpisa_window *w, uint64_t at);

/* Something is overdue, and the receiver has dropped so many so far: was it that? */
void fpisa_window_dropped(struct fpisa_window *w, uint64_t drops, uint64_t now);

static inline struct fpisa_window_slot *fpisa_window_slot_of(const struct fpisa_window *w, uint64_t chunk)
{
	return &w->slot[chunk & (w->slots - 1)];
}

/* Has the chunk its result? Then its slot has passed it. A window that never began a generation has no slots, and no results. */
static inline int fpisa_window_passed(const struct fpisa_window *w, uint64_t chunk)
{
	return w->slots && fpisa_window_slot_of(w, chunk)->chunk > chunk;
}

#endif
