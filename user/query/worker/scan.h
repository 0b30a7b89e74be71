/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The batches of a statement's result. A thread takes batches from the engine ahead of the caller. So the engine
 * computes one batch while the caller sends another, and the caller can use its network while the engine finds no rows.
 */
#ifndef FPISA_QUERY_SCAN_H
#define FPISA_QUERY_SCAN_H

#include <pthread.h>
#include <stdbool.h>

#include "batch.h"
#include "engine.h"

#define SCAN_AHEAD 16 /* maximum number of batches ahead of the caller */
/*
 * The thread and the caller wake each other when this many batches are ahead, because a wake-up takes as much time as
 * the work on a batch.
 */
#define SCAN_HALF (SCAN_AHEAD / 2)
#define SCAN_LATER 2

/* The columns of the result. A place precedes the `n` columns if `place` is set. */
struct scan_columns {
	const struct fpisa_column *const *type;
	int n;
	bool place;
};

/*
 * The thread calls these functions. write() returns the statement, which the scan frees, or NULL with the message set, and
 * sets the columns that the result must have. If there is an error before the first batch, again() returns whether to
 * write another statement.
 */
struct scan_statement {
	char *(*write)(void *arg, struct scan_columns *columns);
	bool (*again)(void *arg);
	void *arg;
};

struct scan {
	struct engine *engine;
	const char *table;
	struct scan_statement statement;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t moved;
	bool stopped, over; /* `over` means that no batch follows after those in `ahead` */
	bool full;	    /* the thread waits until SCAN_HALF batches are left */
	int error;	    /* the error if `over` is set, with its message in `why` */
	char why[512];
	/* a ring, with one more place for a batch that arrives while the scan stops */
	struct ArrowArray ahead[SCAN_AHEAD + 1];
	unsigned int n, first;
};

/*
 * Begin to write the statement, and then to run it. Nothing else may use the engine until scan_end(). Return 0,
 * or -errno with the message set.
 */
int scan_begin(struct scan **s, struct engine *engine, struct scan_statement statement, const char *table);

/* Wait up to `wait_ms` for the next batch. Return 1, 0 at the end, SCAN_LATER, or -errno with the message set. */
int scan_next(struct scan *s, struct ArrowArray *batch, int wait_ms);

/* End the scan after the batch that the engine is computing. `s` may be NULL. */
void scan_end(struct scan *s);

/*
 * End the scan if the engine is not computing a batch. Otherwise return false. Then the process must end without using
 * the scan or the engine again.
 */
bool scan_end_now(struct scan *s);

#endif
