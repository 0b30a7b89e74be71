/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A handle that threads share: what options.progress adds.
 *
 * Its lock is held by whoever is within one of its functions, and let go
 * while he sleeps. One thread at a time moves its requests: the first that
 * waits for one of them, who sleeps on the transport's descriptors himself; the
 * others wait for him, and the next of them goes on when he leaves. If nobody
 * waits the progress engine does it. So the thread costs a blocking call
 * nothing but the lock.
 */
#ifndef FPISA_SHARED_H
#define FPISA_SHARED_H

#include <pthread.h>
#include <stdint.h>
#include "base/engine.h"
#include "base/lock.h"
#include "layout.h"
#include "transport/transport.h"

struct fpisa;
struct fpisa_shard;

#define FPISA_SHARED_FDS (FPISA_MAX_SHARDS * FPISA_TRANSPORT_FDS)

/*
 * The driver of a handle with an engine, which moves its requests:
 *
 * from		to	when
 * NONE		ENGINE	requests are in progress, and no thread waits: fpisa_shared_watch()
 * NONE, ENGINE	CALLER	a thread waits for a request, or joins: fpisa_shared_drive()
 * CALLER		SLEEPER	there is nothing to take in yet: fpisa_receive(), fpisa_await()
 * SLEEPER		CALLER	a frame has come, or its time, or fpisa_shared_wake()
 * CALLER		NONE	its request has ended, or its join: fpisa_shared_stop_driving()
 * ENGINE		NONE	the handle has failed: fpisa_shared_unwatch()
 * NONE		JOB	the handle is new, its job does not exist yet: fpisa_hold_open()
 * JOB		RANKS	the job exists, and the handle joins: fpisa_hold_join()
 * RANKS		NONE	all ranks have joined: fpisa_hold_turn()
 *
 * While the driver is CALLER or one of the later ones, all other waiting threads sleep until it is NONE.
 */
enum fpisa_driver {
	FPISA_DRIVER_NONE,
	FPISA_DRIVER_ENGINE,  /* it watches the descriptors */
	FPISA_DRIVER_CALLER,  /* with the lock */
	FPISA_DRIVER_SLEEPER, /* the same thread without it, on the descriptors */
	FPISA_DRIVER_JOB,     /* the engine, of a handle that is held (hold.h): nothing leaves, deadlines hold */
	FPISA_DRIVER_RANKS,   /* the same; it says HELLO */
};

/* A join that a caller is in, which another thread may have failed: then it ends with the handle's error. */
enum fpisa_join_state {
	FPISA_JOIN_NONE,
	FPISA_JOIN_UNDER_WAY,
	FPISA_JOIN_FAILED,
};

struct fpisa_shared {
	struct fpisa_engine *engine; /* NULL: one thread at a time uses the handle, and nothing below means anything */
	int own;		     /* the engine is this handle's */
	struct fpisa_engine_item item;
	struct fpisa_lock lock;
	pthread_cond_t changed;	       /* a request has ended, or nobody drives any more */
	int wake;		       /* an eventfd: who drives shall look again */
	int events;		       /* an eventfd, fpisa_eventfd()'s; -1: nobody has asked for it */
	int fd[FPISA_SHARED_FDS], fds; /* of the transports; there are none where nobody sleeps on them */
	enum fpisa_driver driver;
	enum fpisa_join_state join;
	int callers;	   /* that wait or join */
	int calling;	   /* an on_done is being called */
	uint64_t until_ns; /* who moves the requests sleeps until then */
};

/* Share a handle whose transport is open, with this engine or with one of its own. -errno with the message set. */
int fpisa_shared_init(struct fpisa *f, struct fpisa_engine *e);
void fpisa_shared_disown(struct fpisa_shared *s); /* in a child */
void fpisa_shared_free(struct fpisa *f);

/* Asks the transports anew: they have joined. */
int fpisa_shared_descriptors(struct fpisa *f);

/* As the transport's receive(). The lock is free meanwhile, and a wake() ends it early, 10 ms later at the latest. */
int fpisa_receive(struct fpisa_shard *s, struct fpisa_in *in, uint64_t timeout_ns);

/*
 * Before fpisa_receive() of each shard, which is to wait for as long as this returns. Where there are several it is 0, for
 * the sleep, on all of them, was here.
 */
uint64_t fpisa_await(struct fpisa *f, uint64_t timeout_ns);

/* After that: there is nothing to receive. */
int fpisa_is_quiet(const struct fpisa_shard *s);

/* When frames come that no descriptor tells of; FPISA_NEVER. */
uint64_t fpisa_frames_due(const struct fpisa *f);

/* Whoever waits looks again: something has ended. */
void fpisa_shared_wake(struct fpisa_shared *s);

/* The engine moves the requests from now on, at `ns` at the latest; -errno with the message set. */
int fpisa_shared_watch(struct fpisa_shared *s, uint64_t ns);

/* Stop watching the handle: it has failed. */
void fpisa_shared_unwatch(struct fpisa_shared *s);

/* fpisa_eventfd()'s; -errno with the message set. */
int fpisa_shared_events(struct fpisa *f);

/* Its requests signal this eventfd, too, which others have besides, and those that have ended before at once; the same. */
int fpisa_shared_events_with(struct fpisa *f, int fd);

/* The caller does, as soon as no other one does; the engine no longer. */
void fpisa_shared_drive(struct fpisa_shared *s);

/* The caller does not any more; or a held handle has joined. */
void fpisa_shared_stop_driving(struct fpisa_shared *s);

/* Do other threads that wait leave the requests alone? */
static inline int fpisa_is_driven(const struct fpisa_shared *s)
{
	return s->driver >= FPISA_DRIVER_CALLER;
}

/* Are requests held back until the handle has joined? (hold.h) */
static inline int fpisa_is_held(const struct fpisa_shared *s)
{
	return s->driver >= FPISA_DRIVER_JOB;
}

/* A held handle goes on to FPISA_DRIVER_JOB or FPISA_DRIVER_RANKS: its descriptors may be others. */
void fpisa_shared_hold(struct fpisa_shared *s, enum fpisa_driver driver);

/* Between two turns: others that want the lock have it first. */
static inline void fpisa_shared_yield(struct fpisa_shared *s)
{
	fpisa_unlock(&s->lock);
	fpisa_lock(&s->lock);
}

#endif
