/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The progress engine: a thread that runs items, as a handle is one, when one
 * of their descriptors is readable or their time has come. It sleeps
 * otherwise, and who gives it work does not wake it: the descriptors stand in
 * an epoll set, the earliest time in a timer.
 *
 * Signals are blocked in it, but for those that a fault of its own raises. A
 * child after fork() has no such thread: what it has of an engine it may stop.
 *
 * Locks: an item's may be held around all but fpisa_engine_stop() and
 * fpisa_engine_remove(); run() is called without any.
 */
#ifndef FPISA_ENGINE_H
#define FPISA_ENGINE_H

#include <stdint.h>
#include <sys/queue.h>

#define FPISA_ENGINE_FDS 32
#define FPISA_NEVER UINT64_MAX

struct fpisa_engine;

struct fpisa_engine_item {
	void (*run)(struct fpisa_engine_item *item);
	/* The engine's. */
	TAILQ_ENTRY(fpisa_engine_item) link;
	uint64_t due_ns;
	int readable;
	int fd[FPISA_ENGINE_FDS], fds; /* watched */
};

/* 0, or -errno with the message set. */
int fpisa_engine_start(struct fpisa_engine **e);

/* Ends the thread; no items are left, but in a child, where they are forgotten. Not from run(). NULL is fine. */
void fpisa_engine_stop(struct fpisa_engine *e);

/* Nothing is watched and no time set. Stays until removed. */
void fpisa_engine_add(struct fpisa_engine *e, struct fpisa_engine_item *item);

/* When this returns run() is over and is not called again. Not from run(). */
void fpisa_engine_remove(struct fpisa_engine *e, struct fpisa_engine_item *item);

/*
 * run() is called while one of these can be read; fds is 0 for none, at most FPISA_ENGINE_FDS. They are
 * taken out before they are closed. -errno: none is watched.
 */
int fpisa_engine_watch(struct fpisa_engine *e, struct fpisa_engine_item *item, const int *fd, int fds);

/* run() is called at this time (CLOCK_MONOTONIC; 0: at once) if not before; FPISA_NEVER. It takes the place of the last one. */
void fpisa_engine_due(struct fpisa_engine *e, struct fpisa_engine_item *item, uint64_t ns);

/* Is the caller within run()? */
int fpisa_engine_inside(const struct fpisa_engine *e);

#endif
