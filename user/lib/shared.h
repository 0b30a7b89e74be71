/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The state of a handle that several threads may use (options.progress).
 *
 * A thread holds the handle's lock while it is within one of the handle's functions, and releases it while it sleeps.
 * One thread at a time drives the handle, which means that it advances the requests. The driver is the first thread
 * that waits for a request, and sleeps on the descriptors of the transport. The other threads wait for the driver, and
 * one of them becomes the driver when it leaves. If no thread waits, the progress engine drives the handle. So the lock
 * is the only additional cost of a blocking call.
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
 * The driver of a handle with an engine, which advances its requests:
 *
 * from		to	when
 * NONE		ENGINE	requests are in progress, and no thread waits: fpisa_shared_watch()
 * NONE, ENGINE	CALLER	a thread waits for a request, or joins: fpisa_shared_drive()
 * CALLER		SLEEPER	there is nothing to receive yet: fpisa_receive(), fpisa_await()
 * SLEEPER		CALLER	a frame or a timeout, or fpisa_shared_wake()
 * CALLER		NONE	its request or its join has ended: fpisa_shared_stop_driving()
 * ENGINE		NONE	the handle has failed: fpisa_shared_unwatch()
 * NONE		JOB	the handle is new and its job does not exist yet: fpisa_hold_open()
 * JOB		RANKS	the job exists, and the handle joins: fpisa_hold_join()
 * RANKS		NONE	all ranks have joined: fpisa_hold_turn()
 *
 * While the driver is CALLER or one of the later ones, all other waiting threads sleep until it is NONE.
 */
enum fpisa_driver {
	FPISA_DRIVER_NONE,
	FPISA_DRIVER_ENGINE,  /* the engine watches the descriptors */
	FPISA_DRIVER_CALLER,  /* a caller, which has the lock */
	FPISA_DRIVER_SLEEPER, /* the same caller without the lock, which sleeps on the descriptors */
	FPISA_DRIVER_JOB,     /* the engine, for a held handle (hold.h): nothing is sent, but deadlines apply */
	FPISA_DRIVER_RANKS,   /* the engine, for a held handle: it sends HELLO, and deadlines apply */
};

/* State of a caller's join. If another thread fails the join, it ends with the error of the handle. */
enum fpisa_join_state {
	FPISA_JOIN_NONE,
	FPISA_JOIN_UNDER_WAY,
	FPISA_JOIN_FAILED,
};

struct fpisa_shared {
	/*
	 * engine of the handle; NULL: only one thread at a time uses the handle, and the following members are not used
	 */
	struct fpisa_engine *engine;
	int own; /* the engine belongs to this handle alone */
	struct fpisa_engine_item item;
	struct fpisa_lock lock;
	pthread_cond_t changed;	       /* signalled when a request has ended, or when there is no longer a driver */
	int wake;		       /* eventfd that makes the driver check again */
	int events;		       /* eventfd of fpisa_eventfd(); -1: not created */
	int fd[FPISA_SHARED_FDS], fds; /* descriptors of the transports on which threads sleep, and their number */
	enum fpisa_driver driver;
	enum fpisa_join_state join;
	int callers;	   /* number of threads that wait or join */
	int calling;	   /* an on_done callback is running */
	uint64_t until_ns; /* time until which the driver sleeps */
};

/*
 * Share a handle whose transport is open, with this engine or, if it is NULL, with a new engine. Return 0, or a
 * negative errno with the message set.
 */
int fpisa_shared_init(struct fpisa *f, struct fpisa_engine *e);
void fpisa_shared_disown(struct fpisa_shared *s); /* call this in a child */
void fpisa_shared_free(struct fpisa *f);

/* Get the descriptors of the transports again after a join. */
int fpisa_shared_descriptors(struct fpisa *f);

/*
 * Receive as the transport's receive() does. Release the lock while waiting. fpisa_shared_wake() ends the wait within
 * 10 ms.
 */
int fpisa_receive(struct fpisa_shard *s, struct fpisa_in *in, uint64_t timeout_ns);

/*
 * Return how long fpisa_receive() of each shard must wait. Call this function before fpisa_receive(). With several
 * shards this function sleeps on all of them, and returns 0.
 */
uint64_t fpisa_await(struct fpisa *f, uint64_t timeout_ns);

/* Return whether fpisa_await() found nothing to receive. */
int fpisa_is_quiet(const struct fpisa_shard *s);

/* Return when to look next for frames that no descriptor reports, or FPISA_NEVER. */
uint64_t fpisa_frames_due(const struct fpisa *f);

/* Make waiting threads check again, because a request or a join has ended. */
void fpisa_shared_wake(struct fpisa_shared *s);

/*
 * Let the engine drive the handle from now on, and run its first turn at `ns` at the latest. Return 0, or -errno with
 * the message set.
 */
int fpisa_shared_watch(struct fpisa_shared *s, uint64_t ns);

/* Stop watching the handle, because it has failed. */
void fpisa_shared_unwatch(struct fpisa_shared *s);

/* Return the descriptor of fpisa_eventfd(), or a negative errno with the message set. */
int fpisa_shared_events(struct fpisa *f);

/*
 * Let the handle's requests signal this eventfd too, which other handles share. Requests that have already ended signal
 * at once. Return 0, or -errno with the message set.
 */
int fpisa_shared_events_with(struct fpisa *f, int fd);

/* Make the caller the driver in place of the engine, as soon as no other caller is the driver. */
void fpisa_shared_drive(struct fpisa_shared *s);

/* Stop driving, because the caller has finished or a held handle has joined. */
void fpisa_shared_stop_driving(struct fpisa_shared *s);

/* Return whether a driver exists, so that waiting threads do not advance the requests. */
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

/* Let other threads take the lock between two turns. */
static inline void fpisa_shared_yield(struct fpisa_shared *s)
{
	fpisa_unlock(&s->lock);
	fpisa_lock(&s->lock);
}

#endif
