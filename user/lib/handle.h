/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A handle: the state for its calls, callers, errors and deadlines, and the results of the last join. A generation is
 * the time from one join of all ranks to the next. An incarnation is the number of a rank's attempt to join
 * (doc/protocol.md, section 4).
 */
#ifndef FPISA_HANDLE_H
#define FPISA_HANDLE_H

#include <stdint.h>
#include "base/address.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/hello.h"
#include "fpisa.h"
#include "fpisa/format.h"
#include "fpisa/tag.h"
#include "layout.h"
#include "request.h"
#include "shared.h"
#include "transport/faults.h"
#include "transport/transport.h"
#include "window.h"

/* The time for FPISA_FOREVER, which is 73 years, so that sums of times do not overflow. */
#define FPISA_FOREVER_NS (UINT64_MAX / 8)

/* Convert a timeout in ms of fpisa.h to ns. */
static inline uint64_t fpisa_timeout_ns(uint64_t timeout_ms)
{
	return timeout_ms == FPISA_FOREVER ? FPISA_FOREVER_NS : timeout_ms * 1000000;
}

/*
 * The state of a handle at one aggregator. A call's chunks are spread over all aggregators. Each aggregator has its own
 * path, with its own address, generation, window and timeout. All paths follow the same rules, so the aggregators need
 * not coordinate. No contribution is sent before this rank has joined at all aggregators in the same incarnation. An
 * error of one aggregator is the error of the handle, and a rejoin concerns all aggregators.
 */
struct fpisa_shard {
	struct fpisa *f;
	uint32_t index; /* index of the aggregator, from 0, in the order of the list */
	/*
	 * The first shard of this aggregator, of which other shards may have other jobs. Its socket gets the unicast frames of
	 * all of these jobs.
	 */
	struct fpisa_shard *first;
	/* number of the job at this aggregator; a group's job may have different numbers at other aggregators */
	uint32_t job;
	struct fpisa_transport *t;
	char peer[FPISA_ENDPOINT_LEN]; /* name of the aggregator in messages */
	uint16_t local_port;	       /* local UDP port; 0: the transport has no socket */
	struct fpisa_joining joining;

	/* The following members are set by the last join. */
	struct fpisa_key rank_key, results_key; /* keys of tags, if the job has a token */
	uint32_t generation;
	struct fpisa_hello hello; /* payload of the aggregator's WELCOME */
	struct fpisa_window window;
	int taken;	   /* number of frames received in the last turn */
	uint64_t heard_ns; /* time of the last frame, by the handle's clock */
	/* number of descriptors of the transport, which follow those of the previous shards in shared.fd */
	int fds;
};

/* In the tree of a group: size of the group, and its ranks that are the job's ranks, in this order. size 0: no tree */
struct fpisa_leaf_ranks {
	uint32_t size, n;
	uint16_t rank[FPISA_MAX_WORKERS];
};

struct fpisa {
	struct fpisa_fork_hook fork; /* must be the first member */
	struct fpisa_shard *shard;   /* array of layout.shards elements */
	struct fpisa_layout layout;
	struct fpisa_flight flight;	    /* state that the shards' windows share */
	char peer[FPISA_ENDPOINT_LEN + 16]; /* names of all aggregators in messages */
	uint32_t job;			    /* number of the job at the first aggregator */
	struct fpisa_key token;		    /* token of the job; 0: the job has no token */
	struct fpisa_nh_key nh;
	struct fpisa_leaf_ranks leaf;
	uint32_t group_rank; /* rank in the handle's group; hello.rank is that at the leaf once the handle has joined */
	uint64_t timeout_ns;
	struct fpisa_clock clock; /* the clock of deadlines */
	/*
	 * Time by this clock after which a call fails if no aggregator has answered; 0: never. Groups set this limit,
	 * because their calls have no deadline.
	 */
	uint64_t silence_ns;
	void (*on_chunk)(void *arg, const struct fpisa_chunk *c);
	void *arg;
	enum fpisa_overflow overflow;
	int restore;   /* restore the array of a failed in-place call */
	int all_ranks; /* a result that lacks a rank of the job is an error */
	int progress;  /* the handle has its own progress thread, unless it shares one */
	enum fpisa_transport_name transport;
	struct fpisa_fault_rates faults;
	uint64_t seed; /* seed of the faults */

	/* The following members are set by the last join. */
	struct fpisa_incarnation incarnation; /* incarnation of this rank, which is the same at all aggregators */
	uint64_t digest;		      /* digest of all calls */
	/* payload of the first aggregator's WELCOME; all parameters that calls use are the same at the others */
	struct fpisa_hello hello;
	struct fpisa_format format;
	struct fpisa_requests requests; /* requests that were started and not released, in the order of their starts */
	struct fpisa_request *oldest;	/* first request that is not done */
	/* time of the last frame from the aggregator, or of the last time when no frame was expected */
	uint64_t quiet_ns;
	uint64_t end;	     /* the first chunk of the next request */
	uint32_t calls;	     /* number of the next request */
	uint64_t resumed_ns; /* end of the last gap in the work of the library that was longer than a timeout */

	struct fpisa_shared shared;  /* state that is used with a progress thread */
	struct fpisa_requests ended; /* requests whose on_done is to be called */
	/* without a progress thread: a function of the handle runs, or was running in another thread at fork() */
	int busy;
	int inherited;			/* the handle was created before this process was forked */
	struct fpisa_requests given_up; /* requests of earlier joins that were not released */
	/* lowest number, in the group, of a call that was released without all of its results; 0: none */
	uint64_t unfinished;
	uint64_t unfinished_barrier; /* lowest number of an unfinished barrier; 0: none */
	uint64_t last_whole;	     /* highest number of a call that got all of its results; 0: none */
	int error;		     /* the handle's error until it rejoins */
	char message[FPISA_MESSAGE_SIZE];
	struct fpisa_ranks missing; /* ranks that fpisa_missing() returns, which are ranks of the group */
	struct fpisa_info count;    /* counters of the handle; the other members are not used */

	/* These members are atomic, because other threads read them without the lock of the handle. */
	uint64_t heard_ns;   /* time of the last frame from the aggregator; 0: never */
	uint64_t waiting_ns; /* time at which the calls or the join in progress began; 0: none */
	uint64_t result_ns;  /* time of the last result */
};

/* Return the NH key if the job's frames have tags, or NULL if they have checksums. */
static inline const __u64 *fpisa_nh_of(const struct fpisa *f)
{
	return f->token.k0 ? f->nh.w : NULL;
}

#define FPISA_EACH_SHARD(s, f) for (struct fpisa_shard *s = (f)->shard; s < (f)->shard + (f)->layout.shards; s++)

/*
 * Create a handle without transport, job and rank, for `shards` aggregators with these weights. Release it with
 * fpisa_close().
 */
int fpisa_new(struct fpisa **f, const struct fpisa_options *options, uint32_t shards, const uint32_t *weight);

/* Return the number that the shard's chunk `own` has among all chunks of the handle. */
static inline uint64_t fpisa_chunk_of(const struct fpisa_shard *s, uint64_t own)
{
	return fpisa_layout_chunk(&s->f->layout, s->index, own);
}

/* Return the shard of a frame that shard `s` has received: that of the same aggregator with the job of the frame, or `s`. */
static inline struct fpisa_shard *fpisa_shard_of(struct fpisa_shard *s, const struct fpisa_in *in)
{
	const struct fpisa_hdr *h = in->data;

	if (in->len < sizeof(*h) || h->job == s->job)
		return s;
	FPISA_EACH_SHARD(other, s->f)
		if (other->first == s->first && other->job == h->job)
			return other;
	return s;
}

/* Return the place of the shard's chunk `own`, which is a chunk of this request, among the chunks of the request. */
static inline uint64_t fpisa_position(const struct fpisa_shard *s, const struct fpisa_request *r, uint64_t own)
{
	return r->spread ? fpisa_spread_position(r->spread, s->index, own) : fpisa_chunk_of(s, own) - r->first;
}

/*
 * Return the slot with the oldest chunk in flight at any aggregator, and set *s to the aggregator. Return NULL if no
 * chunk is in flight.
 */
struct fpisa_window_slot *fpisa_oldest_slot(struct fpisa *f, struct fpisa_shard **s);

/* return the ranks that an aggregator reports as not joined */
struct fpisa_ranks fpisa_not_joined(const struct fpisa *f);

/* Return the ranks of the handle's group that are these ranks of its job. */
static inline struct fpisa_ranks fpisa_ranks_of(const struct fpisa *f, uint64_t ranks)
{
	struct fpisa_ranks of = FPISA_NO_RANKS;

	if (!f->leaf.size)
		return fpisa_ranks_word(0, ranks);
	for (uint32_t i = 0; i < f->leaf.n; i++)
		if (ranks >> i & 1)
			fpisa_ranks_add(&of, f->leaf.rank[i]);
	return of;
}

/* Store, in `to`, the ranks of the handle's group in a result that has these ranks of its job: a bit for each rank. */
static inline void fpisa_result_ranks(const struct fpisa *f, uint64_t ranks, uint64_t *to)
{
	const uint64_t all = ~0ull >> (64 - f->hello.workers);
	const struct fpisa_ranks whole = fpisa_ranks_all(f->leaf.size), lost = fpisa_ranks_of(f, all & ~ranks),
				 in = fpisa_ranks_without(&whole, &lost);

	*to = ranks;
	for (uint32_t i = 0; i < (f->leaf.size + 63) / 64; i++)
		to[i] = in.word[i];
}

/* Return whether there may be frames that have not been received yet. */
static inline int fpisa_more(const struct fpisa *f)
{
	FPISA_EACH_SHARD(s, f)
		if (fpisa_transport_more(s->t, s->taken))
			return 1;
	return 0;
}

/* begin a public function; return 0, or the error if the handle cannot be used */
int fpisa_enter(struct fpisa *f);
int fpisa_enter_to_block(struct fpisa *f); /* do the same for a function that waits */
void fpisa_leave(struct fpisa *f);
/* return -EBUSY if another thread joins; for functions that begin a request */
int fpisa_joining(const struct fpisa *f);
int fpisa_look(struct fpisa *f); /* begin a function that on_chunk may call; pass the result to fpisa_look_away() */
void fpisa_look_away(struct fpisa *f, int locked);
int fpisa_refuse_inherited(const struct fpisa *f); /* return -ECHILD if the handle belongs to another process */
/*
 * Make the handle return this error until it rejoins. fpisa_poison() uses the message of the thread, and
 * fpisa_end_generation() uses `message`.
 */
int fpisa_poison(struct fpisa *f, int error);
void fpisa_end_generation(struct fpisa *f, int error, const char *message);
int fpisa_poisoned(const struct fpisa *f); /* return the error of the handle, and set the message of the thread */

/* Set the oldest request that lacks results, or NULL if all requests have all results. */
static inline void fpisa_set_oldest(struct fpisa *f, struct fpisa_request *r)
{
	if (!f->oldest || !r) {
		__atomic_store_n(&f->waiting_ns, r ? fpisa_now() : 0, __ATOMIC_RELAXED);
		f->quiet_ns = f->clock.ns;
	}
	f->oldest = r;
}

/*
 * Fail a handle that has a progress thread, from any thread. Calls in progress, including fpisa_rejoin(), and later
 * calls return `error` with this message until the handle has joined again. fpisa_missing() returns `missing`. A handle
 * that has not joined yet can no longer join. Return 0, or -EBUSY within the handle's on_chunk.
 */
int fpisa_handle_fail(struct fpisa *f, int error, const struct fpisa_ranks *missing, const char *message);

/* State of a handle that other threads read. */
struct fpisa_standing {
	int error; /* error of the handle, with its message; 0: none */
	char message[FPISA_MESSAGE_SIZE];
	struct fpisa_ranks failed; /* ranks that the error names */
	/* oldest request that lacks results, and its elements; number 0: no such request, or the handle is not in a group */
	uint64_t number, tag, count;
	/* lowest number of a request without all of its results, including released requests; 0: none */
	uint64_t first_unfinished;
	uint64_t unfinished_barrier; /* lowest number of an unfinished barrier; 0: none */
	uint64_t last_whole;	     /* highest number of a call that got all of its results; 0: none */
	uint64_t stuck_ns;	     /* time since which the oldest request has received no result; 0: none */
	struct fpisa_ranks missing;  /* ranks for which the request waits, as far as known */
};

void fpisa_handle_standing(struct fpisa *f, struct fpisa_standing *s);

/* Record that the aggregator has answered. */
static inline void fpisa_heard(struct fpisa *f, uint64_t now)
{
	__atomic_store_n(&f->heard_ns, now, __ATOMIC_RELAXED);
	f->quiet_ns = f->clock.ns;
}

/* Return whether the aggregator has been silent for so long that calls in progress fail. */
static inline int fpisa_is_silent(const struct fpisa *f)
{
	return f->silence_ns && f->clock.ns - f->quiet_ns >= f->silence_ns;
}

/* Update the clock. The library is working now, and has waited for up to waited_ns since the last tick. */
void fpisa_tick(struct fpisa *f, uint64_t now, uint64_t waited_ns);

#endif
