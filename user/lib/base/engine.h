/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The progress engine: a thread that runs items, for example handles, when one of their descriptors is readable or
 * their time has come. Otherwise the thread sleeps. Adding work does not need to wake the thread, because the
 * descriptors are in an epoll set and the earliest time is in a timer.
 *
 * Signals are blocked in the thread, except signals for faults in the thread itself. A child after fork() does not have
 * the thread, and may only stop its copy of an engine.
 *
 * Locks: an item's lock may be held around all functions except fpisa_engine_stop() and fpisa_engine_remove(); run() is
 * called without any lock.
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
	/* The following members belong to the engine. */
	TAILQ_ENTRY(fpisa_engine_item) link;
	uint64_t due_ns;
	int readable;
	int fd[FPISA_ENGINE_FDS], fds; /* watched descriptors, and their number */
};

/* Start an engine. Return 0, or -errno with the message set. */
int fpisa_engine_start(struct fpisa_engine **e);

/*
 * End the thread and free the engine. All items must have been removed, except in a child, where they are dropped. Do
 * not call this function from run(). `e` may be NULL.
 */
void fpisa_engine_stop(struct fpisa_engine *e);

/* Add an item, at first without watched descriptors and without a time. The item stays until it is removed. */
void fpisa_engine_add(struct fpisa_engine *e, struct fpisa_engine_item *item);

/*
 * Remove an item. When this function returns, run() of the item has ended and is not called again. Do not call this
 * function from run().
 */
void fpisa_engine_remove(struct fpisa_engine *e, struct fpisa_engine_item *item);

/*
 * Watch `fds` descriptors, 0 to FPISA_ENGINE_FDS, in place of the current ones. run() is called while one of them is
 * readable. Stop watching descriptors before they are closed. On an error, return a negative errno and watch no
 * descriptor.
 */
int fpisa_engine_watch(struct fpisa_engine *e, struct fpisa_engine_item *item, const int *fd, int fds);

/*
 * Set the time at which run() is called at the latest, by CLOCK_MONOTONIC. 0 means at once, and FPISA_NEVER means no
 * time. The new time replaces the previous time.
 */
void fpisa_engine_due(struct fpisa_engine *e, struct fpisa_engine_item *item, uint64_t ns);

/* Return whether the caller is inside run(). */
int fpisa_engine_inside(const struct fpisa_engine *e);

#endif
