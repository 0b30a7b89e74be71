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

struct fpisa_shared {
	struct fpisa_engine *engine; /* NULL: one thread at a time uses the handle, and nothing below means anything */
	int own;		     /* the engine is this handle's */
	struct fpisa_engine_item item;
	struct fpisa_lock lock;
	pthread_cond_t changed;	       /* a request has ended, or nobody drives any more */
	int wake;		       /* an eventfd: who drives shall look again */
	int events;		       /* an eventfd, fpisa_eventfd()'s; -1: nobody has asked for it */
	int fd[FPISA_SHARED_FDS], fds; /* of the transports; there are none where nobody sleeps on them */
	int watched;		       /* by the engine */
	int driven;		       /* a caller moves the requests */
	int asleep;		       /* he has let go of the lock */
	int callers;		       /* that wait or join */
	int joining;
	int failed;	   /* while joining, by another thread: it ends with the handle's error */
	int calling;	   /* an on_done is being called */
	uint64_t until_ns; /* who moves the requests sleeps until then */
};

/* Of a handle whose transport is open: with this engine, or one of its own. -errno with the message set. */
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
void fpisa_shared_unwatch(struct fpisa_shared *s);

/* fpisa_eventfd()'s; -errno with the message set. */
int fpisa_shared_events(struct fpisa *f);

/* Its requests signal this eventfd, too, which others have besides, and those that have ended before at once; the same. */
int fpisa_shared_events_with(struct fpisa *f, int fd);

/* The caller does, as soon as no other one does; the engine no longer. */
void fpisa_shared_drive(struct fpisa_shared *s);
void fpisa_shared_stop_driving(struct fpisa_shared *s);

/* Between two turns: others that want the lock have it first. */
static inline void fpisa_shared_yield(struct fpisa_shared *s)
{
	fpisa_unlock(&s->lock);
	fpisa_lock(&s->lock);
}

#endif
