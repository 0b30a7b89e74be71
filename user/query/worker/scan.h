/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The batches of a statement's result, which a thread takes from the engine ahead of the caller. The engine thus
 * computes one batch while the caller sends another, and the caller can serve its network while the engine finds no
 * row.
 */
#ifndef FPISA_QUERY_SCAN_H
#define FPISA_QUERY_SCAN_H

#include <pthread.h>
#include <stdbool.h>

#include "batch.h"
#include "engine.h"

#define SCAN_AHEAD 16 /* batches that the thread may be ahead */
#define SCAN_LATER 2

/* The columns of the result: `n` columns, behind a place if there is one. */
struct scan_columns {
	const struct fpisa_column *const *type;
	int n;
	bool place;
};

struct scan {
	struct engine *engine;
	const char *table;
	char *sql;
	struct scan_columns columns;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t moved;
	bool stopped, over; /* `over`: no batch follows those in `ahead` */
	int error;	    /* and its message, if `over` */
	char why[512];
	struct ArrowArray ahead[SCAN_AHEAD + 1]; /* a ring; the last place is for the batch at the stop */
	unsigned int n, first;
};

/*
 * Begin to run the statement; the scan takes over `sql`, which free() ends. Nothing else may use the engine until
 * scan_end(). A result with other columns is an error. Return 0, or -errno with the message set.
 */
int scan_begin(struct scan **s, struct engine *engine, char *sql, const char *table, struct scan_columns columns);

/* Wait up to `wait_ms` for the next batch. Return 1, 0 at the end, SCAN_LATER, or -errno with the message set. */
int scan_next(struct scan *s, struct ArrowArray *batch, int wait_ms);

/* End the scan, after the batch that the engine computes now; NULL is allowed. */
void scan_end(struct scan *s);

/*
 * End the scan if the engine computes no batch. Else return false: the process has to end without touching the scan or
 * the engine again.
 */
bool scan_end_now(struct scan *s);

#endif
