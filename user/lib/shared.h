/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The parts of a handle that threads share with options.progress.
 *
 * A thread holds the handle's lock while it is within one of the handle's functions, and releases it while it sleeps.
 * One thread at a time moves the handle's requests: the first thread that waits for one of them. That thread sleeps on
 * the transport's descriptors itself. The other threads wait for it, and one of them takes over when it leaves. If no
 * thread waits, the progress engine moves the requests. So the lock is the only extra cost of a blocking call.
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
	FPISA_DRIVER_ENGINE,  /* the engine watches the descriptors */
	FPISA_DRIVER_CALLER,  /* a caller, with the lock */
	FPISA_DRIVER_SLEEPER, /* the same thread without the lock, asleep on the descriptors */
	FPISA_DRIVER_JOB,     /* the engine, for a held handle (hold.h): nothing is sent, deadlines apply */
	FPISA_DRIVER_RANKS,   /* the engine, for a held handle: it sends HELLO, and deadlines apply */
};

/* A caller's join, which another thread may fail: then the join ends with the handle's error. */
enum fpisa_join_state {
	FPISA_JOIN_NONE,
	FPISA_JOIN_UNDER_WAY,
	FPISA_JOIN_FAILED,
};

struct fpisa_shared {
	struct fpisa_engine *engine; /* NULL: one thread at a time uses the handle, and nothing below is used */
	int own;		     /* whether the engine belongs to this handle */
	struct fpisa_engine_item item;
	struct fpisa_lock lock;
	pthread_cond_t changed;	       /* a request has ended, or there is no driver any more */
	int wake;		       /* an eventfd that makes the driver check again */
	int events;		       /* eventfd of fpisa_eventfd(); -1: not created */
	int fd[FPISA_SHARED_FDS], fds; /* descriptors of the transports; none where threads do not sleep on them */
	enum fpisa_driver driver;
	enum fpisa_join_state join;
	int callers;	   /* number of threads that wait or join */
	int calling;	   /* an on_done callback is running */
	uint64_t until_ns; /* the driver sleeps until then */
};

/* Share a handle whose transport is open, with this engine or with its own. -errno with the message set. */
int fpisa_shared_init(struct fpisa *f, struct fpisa_engine *e);
void fpisa_shared_disown(struct fpisa_shared *s); /* in a child */
void fpisa_shared_free(struct fpisa *f);

/* Get the transports' descriptors again after they have joined. */
int fpisa_shared_descriptors(struct fpisa *f);

/*
 * Receive as the transport's receive() does. The lock is free meanwhile, and a wake() ends it early, 10 ms later at
 * the latest.
 */
int fpisa_receive(struct fpisa_shard *s, struct fpisa_in *in, uint64_t timeout_ns);

/*
 * Return how long fpisa_receive() of each shard is to wait; call it before them. With several shards it sleeps here,
 * on all of them, and returns 0.
 */
uint64_t fpisa_await(struct fpisa *f, uint64_t timeout_ns);

/* Return whether there is nothing to receive after that. */
int fpisa_is_quiet(const struct fpisa_shard *s);

/* Return when frames come that no descriptor reports; FPISA_NEVER. */
uint64_t fpisa_frames_due(const struct fpisa *f);

/* Make waiting threads check again, because a request or a join has ended. */
void fpisa_shared_wake(struct fpisa_shared *s);

/* Let the engine move the requests from now on, at `ns` at the latest. Return 0, or -errno with the message set. */
int fpisa_shared_watch(struct fpisa_shared *s, uint64_t ns);

/* Stop watching the handle: it has failed. */
void fpisa_shared_unwatch(struct fpisa_shared *s);

/* Return the descriptor of fpisa_eventfd(); -errno with the message set. */
int fpisa_shared_events(struct fpisa *f);

/*
 * Let the handle's requests signal this eventfd too, which other handles share. Requests that have ended before signal
 * at once. Return 0, or -errno with the message set.
 */
int fpisa_shared_events_with(struct fpisa *f, int fd);

/* Make the caller the driver as soon as no other caller is; the engine no longer is. */
void fpisa_shared_drive(struct fpisa_shared *s);

/* Stop driving: the caller has finished, or a held handle has joined. */
void fpisa_shared_stop_driving(struct fpisa_shared *s);

/* Return whether a driver exists, so that waiting threads do not move the requests. */
static inline int fpisa_is_driven(const struct fpisa_shared *s)
{
	return s->driver >= FPISA_DRIVER_CALLER;
}

/* Return whether requests are held back until the handle has joined (hold.h). */
static inline int fpisa_is_held(const struct fpisa_shared *s)
{
	return s->driver >= FPISA_DRIVER_JOB;
}

/* Move a held handle on to FPISA_DRIVER_JOB or FPISA_DRIVER_RANKS; its descriptors may change. */
void fpisa_shared_hold(struct fpisa_shared *s, enum fpisa_driver driver);

/* Let other threads have the lock between two turns. */
static inline void fpisa_shared_yield(struct fpisa_shared *s)
{
	fpisa_unlock(&s->lock);
	fpisa_lock(&s->lock);
}

#endif
