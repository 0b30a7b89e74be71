/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A handle: what its calls, callers, errors and deadlines need, and what it has
 * learned by the last join. A generation is one run of a job, from one join of
 * all ranks to the next; an incarnation is the number of an attempt of a rank to
 * join (doc/protocol.md, section 4).
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

/*
 * The state of a handle at one aggregator. A call's chunks are spread over all of them, and each is a path of its own: with its
 * own address, generation, window and timeout. All paths follow one rule, which makes agreement between aggregators
 * unnecessary: no contribution leaves before all have joined one incarnation, an error of one is the handle's error, and
 * a rejoin is a rejoin with all.
 */
struct fpisa_shard {
	struct fpisa *f;
	uint32_t index; /* from 0, in the order of the list */
	uint32_t job;	/* its number there; a group's may have others elsewhere */
	struct fpisa_transport *t;
	char peer[32];	     /* the aggregator, for messages */
	uint16_t local_port; /* 0 without sockets */
	struct fpisa_joining joining;

	/* Since the last join. */
	struct fpisa_key rank_key, results_key; /* of tags, where the job has a token */
	uint32_t generation;
	struct fpisa_hello hello; /* of its WELCOME */
	struct fpisa_window window;
	int taken;	   /* frames in the last turn */
	uint64_t heard_ns; /* when some came, the last time, by the handle's clock */
	int fds;	   /* descriptors of its transport, after those of the shards before it in shared.fd */
};

struct fpisa {
	struct fpisa_fork_hook fork; /* first */
	struct fpisa_shard *shard;   /* layout.shards of them */
	struct fpisa_layout layout;
	struct fpisa_flight flight; /* of the shards' windows */
	char peer[64];		    /* the aggregators, for messages on all of them */
	uint32_t job;		    /* its number at the first aggregator */
	struct fpisa_key token;	    /* 0: the job has none */
	struct fpisa_nh_key nh;
	uint64_t timeout_ns;
	struct fpisa_clock clock; /* that deadlines go by */
	/* Time of that clock after which a call ends if no aggregator said anything; 0: never. Groups set it, because their calls have no deadline. */
	uint64_t silence_ns;
	void (*on_chunk)(void *arg, const struct fpisa_chunk *c);
	void *arg;
	enum fpisa_overflow overflow;
	int restore;   /* the array of a call in place that fails */
	int all_ranks; /* a result without one of the job's ranks is an error */
	int progress;  /* it has a progress thread of its own, unless it shares one */
	enum fpisa_transport_name transport;
	struct fpisa_fault_rates faults;
	uint64_t seed; /* of the faults */

	/* Since the last join. */
	struct fpisa_incarnation incarnation; /* the same at all aggregators */
	uint64_t digest;		      /* of all calls */
	struct fpisa_hello hello; /* of the first aggregator's WELCOME; the others agree in all that a call depends on */
	struct fpisa_format format;
	struct fpisa_requests requests; /* started and not released, in order */
	struct fpisa_request *oldest;	/* first of them that is not done */
	uint64_t quiet_ns;		/* by the clock: the aggregator was heard, or there was nothing to hear */
	uint64_t end;			/* the first chunk of the next request */
	uint32_t calls;			/* its number */
	uint64_t resumed_ns;		/* the last gap in our work, longer than a timeout, ended then */

	struct fpisa_shared shared;  /* with a progress thread */
	struct fpisa_requests ended; /* whose on_done is to be called */
	int busy;		     /* without one: one of its functions runs, or did in another thread at the fork */
	int inherited;		     /* it was made before this process was forked */
	struct fpisa_requests given_up; /* of earlier joins, not released */
	uint64_t unfinished; /* the least number in its group of a call that was released without all of its results; 0: of none */
	uint64_t unfinished_barrier; /* the same of barriers alone */
	int error;		     /* of the handle until it rejoins */
	char message[FPISA_MESSAGE_SIZE];
	uint64_t missing;	 /* what fpisa_missing() returns */
	struct fpisa_info count; /* its counters only */

	/* Atomic: other threads read them without its lock. */
	uint64_t heard_ns;   /* the aggregator, the last time; 0: never */
	uint64_t waiting_ns; /* since when calls or a join are under way; 0: none is */
	uint64_t result_ns;  /* the last result */
};

/* The key of NH of jobs whose frames have tags; NULL: they have checksums. */
static inline const __u64 *fpisa_nh_of(const struct fpisa *f)
{
	return f->token.k0 ? f->nh.w : NULL;
}

#define FPISA_EACH_SHARD(s, f) for (struct fpisa_shard *s = (f)->shard; s < (f)->shard + (f)->layout.shards; s++)

/* A handle without transport, job and rank, of so many aggregators with these weights; fpisa_close() releases it. */
int fpisa_new(struct fpisa **f, const struct fpisa_options *options, uint32_t shards, const uint32_t *weight);

/* The number of the shard's chunk `own` among all of the handle's. */
static inline uint64_t fpisa_chunk_of(const struct fpisa_shard *s, uint64_t own)
{
	return fpisa_layout_chunk(&s->f->layout, s->index, own);
}

/* Has the chunk, of the handle's, its result? */
static inline int fpisa_has_result(const struct fpisa *f, uint64_t chunk)
{
	uint32_t shard = fpisa_layout_owner(&f->layout, chunk);

	return fpisa_window_passed(&f->shard[shard].window, fpisa_layout_own(&f->layout, shard, chunk));
}

/* The slot with the oldest chunk that is under way at any aggregator, *s; NULL: none is. */
struct fpisa_window_slot *fpisa_oldest_slot(struct fpisa *f, struct fpisa_shard **s);

uint64_t fpisa_not_joined(const struct fpisa *f); /* the ranks of which an aggregator says so */

/* Frames that are here may not have been taken yet. */
static inline int fpisa_more(const struct fpisa *f)
{
	FPISA_EACH_SHARD(s, f)
		if (fpisa_transport_more(s->t, s->taken))
			return 1;
	return 0;
}

int fpisa_enter(struct fpisa *f);	   /* a public function begins: 0, or why the handle cannot be used */
int fpisa_enter_to_block(struct fpisa *f); /* the same, of one that waits */
void fpisa_leave(struct fpisa *f);
int fpisa_joining(const struct fpisa *f); /* -EBUSY: another thread joins; of those that begin something */
int fpisa_look(struct fpisa *f); /* one begins that only reads, as on_chunk may too; its end gets what this returns */
void fpisa_look_away(struct fpisa *f, int locked);
int fpisa_refuse_inherited(const struct fpisa *f); /* -ECHILD: it belongs to another process */
int fpisa_poison(struct fpisa *f, int error);	   /* it returns this until it rejoins, with the thread's message */
void fpisa_end_generation(struct fpisa *f, int error, const char *message); /* the same, with that message */
int fpisa_poisoned(const struct fpisa *f); /* the handle's error, its message again the thread's */

/* `r` is the first that has not all of its results; NULL: all have. */
static inline void fpisa_set_oldest(struct fpisa *f, struct fpisa_request *r)
{
	if (!f->oldest || !r) {
		__atomic_store_n(&f->waiting_ns, r ? fpisa_now() : 0, __ATOMIC_RELAXED);
		f->quiet_ns = f->clock.ns;
	}
	f->oldest = r;
}

/*
 * Fail a handle that has a progress thread, from any thread. Its calls in progress, fpisa_rejoin() among them, and later ones
 * return `error` with this message until the handle has joined again; fpisa_missing() returns `missing`. A handle that has not joined
 * yet can no longer join. -EBUSY within its on_chunk.
 */
int fpisa_handle_fail(struct fpisa *f, int error, uint64_t missing, const char *message);

/* State of a handle, for other threads. */
struct fpisa_standing {
	int error; /* with its message; 0: none */
	char message[FPISA_MESSAGE_SIZE];
	uint64_t number,
		tag; /* of its oldest request that has not all of its results; number 0: there is none, or it is no group's */
	uint64_t first_unfinished; /* of all requests that had or have not all of their results, the least number; 0: there is none */
	uint64_t unfinished_barrier; /* the same of barriers alone */
	uint64_t stuck_ns;	     /* since when no result has come for that one; 0: there is none */
	uint64_t missing;	     /* ranks that it waits for, as far as is known */
};

void fpisa_handle_standing(struct fpisa *f, struct fpisa_standing *s);

/* The aggregator has said something. */
static inline void fpisa_heard(struct fpisa *f, uint64_t now)
{
	__atomic_store_n(&f->heard_ns, now, __ATOMIC_RELAXED);
	f->quiet_ns = f->clock.ns;
}

/* Has it said nothing for so long that calls under way end? */
static inline int fpisa_is_silent(const struct fpisa *f)
{
	return f->silence_ns && f->clock.ns - f->quiet_ns >= f->silence_ns;
}

/* The library works now, and has waited for up to waited_ns since the last tick. */
void fpisa_tick(struct fpisa *f, uint64_t now, uint64_t waited_ns);

#endif
