/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A handle: what its calls, callers, errors and deadlines need, and what it has learned by the last join. A generation
 * is the time from one join of all ranks to the next. An incarnation is the number of a rank's attempt to join
 * (doc/protocol.md, section 4).
 */
#ifndef FPISA_HANDLE_H
#define FPISA_HANDLE_H

#include <stdint.h>
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

/* FPISA_FOREVER as a time: 73 years, so that sums of times do not overflow */
#define FPISA_FOREVER_NS (UINT64_MAX / 8)

/* Return a deadline of fpisa.h as a time. */
static inline uint64_t fpisa_timeout_ns(uint64_t timeout_ms)
{
	return timeout_ms == FPISA_FOREVER ? FPISA_FOREVER_NS : timeout_ms * 1000000;
}

/*
 * The state of a handle at one aggregator. A call's chunks are spread over all aggregators. Each aggregator has its
 * own path, with its own address, generation, window and timeout. All paths follow the same rule, so the aggregators
 * need not agree with each other. No contribution is sent before all aggregators have joined one incarnation. An error
 * of one aggregator is the handle's error, and a rejoin is with all aggregators.
 */
struct fpisa_shard {
	struct fpisa *f;
	uint32_t index; /* from 0, in the order of the list */
	uint32_t job;	/* number of the job at this aggregator; a group's job may have other numbers at others */
	struct fpisa_transport *t;
	char peer[32];	     /* name of the aggregator in messages */
	uint16_t local_port; /* 0 without sockets */
	struct fpisa_joining joining;

	/* Since the last join. */
	struct fpisa_key rank_key, results_key; /* keys of tags, if the job has a token */
	uint32_t generation;
	struct fpisa_hello hello; /* the HELLO of its WELCOME */
	struct fpisa_window window;
	int taken;	   /* frames taken in the last turn */
	uint64_t heard_ns; /* time of the last frame, by the handle's clock */
	int fds;	   /* descriptors of its transport, after those of the shards before it in shared.fd */
};

struct fpisa {
	struct fpisa_fork_hook fork; /* first */
	struct fpisa_shard *shard;   /* layout.shards of them */
	struct fpisa_layout layout;
	struct fpisa_flight flight; /* state that the shards' windows share */
	char peer[64];		    /* names of all aggregators in messages */
	uint32_t job;		    /* the job's number at the first aggregator */
	struct fpisa_key token;	    /* 0: the job has no token */
	struct fpisa_nh_key nh;
	uint64_t timeout_ns;
	struct fpisa_clock clock; /* the clock of deadlines */
	/*
	 * Time of that clock after which a call ends if no aggregator answered; 0: never. Groups set it, because
	 * their calls have no deadline.
	 */
	uint64_t silence_ns;
	void (*on_chunk)(void *arg, const struct fpisa_chunk *c);
	void *arg;
	enum fpisa_overflow overflow;
	int restore;   /* restore the array of a call in place that fails */
	int all_ranks; /* a result that lacks a rank of the job is an error */
	int progress;  /* the handle has its own progress thread, unless it shares one */
	enum fpisa_transport_name transport;
	struct fpisa_fault_rates faults;
	uint64_t seed; /* seed of the faults */

	/* Since the last join. */
	struct fpisa_incarnation incarnation; /* the same at all aggregators */
	uint64_t digest;		      /* digest of all calls */
	struct fpisa_hello hello; /* HELLO of the first aggregator's WELCOME; the others agree in everything that a call depends on */
	struct fpisa_format format;
	struct fpisa_requests requests; /* requests that were started and not released, in order */
	struct fpisa_request *oldest;	/* first request that is not done */
	uint64_t quiet_ns;   /* time of the last frame from the aggregator, or when none was expected from it */
	uint64_t end;	     /* the first chunk of the next request */
	uint32_t calls;	     /* number of the next request */
	uint64_t resumed_ns; /* end of the last gap in our work that was longer than a timeout */

	struct fpisa_shared shared;  /* used with a progress thread */
	struct fpisa_requests ended; /* requests whose on_done is to be called */
	int busy; /* without a progress thread: a function of the handle runs, or did in another thread at the fork */
	int inherited;			/* the handle was created before this process was forked */
	struct fpisa_requests given_up; /* requests of earlier joins, not released */
	uint64_t unfinished; /* the least number in its group of a call that was released without all of its results; 0: none */
	uint64_t unfinished_barrier; /* the same for barriers alone */
	int error;		     /* the handle's error until it rejoins */
	char message[FPISA_MESSAGE_SIZE];
	uint64_t missing;	 /* return value of fpisa_missing() */
	struct fpisa_info count; /* only the counters are used */

	/* Atomic: other threads read them without its lock. */
	uint64_t heard_ns;   /* the aggregator, the last time; 0: never */
	uint64_t waiting_ns; /* time at which the calls or the join in progress began; 0: none */
	uint64_t result_ns;  /* time of the last result */
};

/* Return the key of NH for jobs whose frames have tags; NULL if they have checksums. */
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

/* Return whether this chunk of the handle has its result. */
static inline int fpisa_has_result(const struct fpisa *f, uint64_t chunk)
{
	uint32_t shard = fpisa_layout_owner(&f->layout, chunk);

	return fpisa_window_passed(&f->shard[shard].window, fpisa_layout_own(&f->layout, shard, chunk));
}

/* Return the slot with the oldest chunk in flight at any aggregator, *s; NULL if no chunk is in flight. */
struct fpisa_window_slot *fpisa_oldest_slot(struct fpisa *f, struct fpisa_shard **s);

uint64_t fpisa_not_joined(const struct fpisa *f); /* ranks that an aggregator reports as not joined */

/* Return whether there may be frames that have not been received yet. */
static inline int fpisa_more(const struct fpisa *f)
{
	FPISA_EACH_SHARD(s, f)
		if (fpisa_transport_more(s->t, s->taken))
			return 1;
	return 0;
}

int fpisa_enter(struct fpisa *f);	   /* begin a public function: 0, or why the handle cannot be used */
int fpisa_enter_to_block(struct fpisa *f); /* the same, for a function that waits */
void fpisa_leave(struct fpisa *f);
int fpisa_joining(const struct fpisa *f); /* -EBUSY if another thread joins; for functions that begin something */
int fpisa_look(struct fpisa *f); /* begin a function that only reads, which on_chunk may call; pass the result to fpisa_look_away() */
void fpisa_look_away(struct fpisa *f, int locked);
int fpisa_refuse_inherited(const struct fpisa *f); /* -ECHILD: the handle belongs to another process */
/* Make the handle return this error, with the thread's message, until it rejoins. */
int fpisa_poison(struct fpisa *f, int error);
void fpisa_end_generation(struct fpisa *f, int error, const char *message); /* the same, with that message */
int fpisa_poisoned(const struct fpisa *f); /* return the handle's error, and make its message the thread's */

/* Set the oldest request that lacks results; NULL: all requests have all results. */
static inline void fpisa_set_oldest(struct fpisa *f, struct fpisa_request *r)
{
	if (!f->oldest || !r) {
		__atomic_store_n(&f->waiting_ns, r ? fpisa_now() : 0, __ATOMIC_RELAXED);
		f->quiet_ns = f->clock.ns;
	}
	f->oldest = r;
}

/*
 * Fail a handle that has a progress thread, from any thread. Its calls in progress, fpisa_rejoin() among them, and
 * later ones return `error` with this message until the handle has joined again; fpisa_missing() returns `missing`. A
 * handle that has not joined yet can no longer join. Return 0, or -EBUSY within its on_chunk.
 */
int fpisa_handle_fail(struct fpisa *f, int error, uint64_t missing, const char *message);

/* State of a handle that other threads read. */
struct fpisa_standing {
	int error; /* with its message; 0: no error */
	char message[FPISA_MESSAGE_SIZE];
	uint64_t number, tag; /* oldest request that lacks results; number 0: there is none, or it is not a group's */
	uint64_t first_unfinished; /* lowest number of a request that does not have, or did not get, all of its results; 0: none */
	uint64_t unfinished_barrier; /* the same for barriers alone */
	uint64_t stuck_ns;	     /* time since which that request has got no result; 0: none */
	uint64_t missing;	     /* ranks that the request waits for, as far as known */
};

void fpisa_handle_standing(struct fpisa *f, struct fpisa_standing *s);

/* Record that the aggregator has answered. */
static inline void fpisa_heard(struct fpisa *f, uint64_t now)
{
	__atomic_store_n(&f->heard_ns, now, __ATOMIC_RELAXED);
	f->quiet_ns = f->clock.ns;
}

/* Return whether the aggregator has been silent for so long that calls in progress end. */
static inline int fpisa_is_silent(const struct fpisa *f)
{
	return f->silence_ns && f->clock.ns - f->quiet_ns >= f->silence_ns;
}

/* Update the clock: the library works now, and has waited for up to waited_ns since the last tick. */
void fpisa_tick(struct fpisa *f, uint64_t now, uint64_t waited_ns);

#endif
