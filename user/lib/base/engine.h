/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The progress engine: a thread that runs items, for example handles, when one of their descriptors is readable or
 * their time has come. It sleeps otherwise. Giving it work does not wake it: the descriptors are in an epoll set, and
 * the earliest time in a timer.
 *
 * Signals are blocked in it, except signals for faults in the thread itself. A child after fork() has no such thread:
 * it may only stop its copy of an engine.
 *
 * Locks: an item's lock may be held around all functions except fpisa_engine_stop() and fpisa_engine_remove(); run()
 * is called without any.
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
	/* Used by the engine. */
	TAILQ_ENTRY(fpisa_engine_item) link;
	uint64_t due_ns;
	int readable;
	int fd[FPISA_ENGINE_FDS], fds; /* watched */
};

/* Start an engine. Return 0, or -errno with the message set. */
int fpisa_engine_start(struct fpisa_engine **e);

/*
 * End the thread. No items may be left, except in a child, where they are dropped. Do not call it from run(). NULL is
 * allowed.
 */
void fpisa_engine_stop(struct fpisa_engine *e);

/* Add an item. No descriptor is watched and no time is set. The item stays until removed. */
void fpisa_engine_add(struct fpisa_engine *e, struct fpisa_engine_item *item);

/* Remove an item. When this returns, run() has ended and is not called again. Do not call it from run(). */
void fpisa_engine_remove(struct fpisa_engine *e, struct fpisa_engine_item *item);

/*
 * Watch descriptors: run() is called while one of these can be read; fds is 0 for none, at most FPISA_ENGINE_FDS.
 * Remove them before they are closed. Return 0, or -errno if none is watched.
 */
int fpisa_engine_watch(struct fpisa_engine *e, struct fpisa_engine_item *item, const int *fd, int fds);

/*
 * Set the time at which run() is called if not before (CLOCK_MONOTONIC; 0: at once); FPISA_NEVER. It replaces the
 * last one.
 */
void fpisa_engine_due(struct fpisa_engine *e, struct fpisa_engine_item *item, uint64_t ns);

/* Return whether the caller is inside run(). */
int fpisa_engine_inside(const struct fpisa_engine *e);

#endif
