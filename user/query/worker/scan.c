// SPDX-License-Identifier: GPL-2.0-only
/* Compute batches ahead of the caller. scan.h documents the functions. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fpisa-query.h"
#include "lib/base/error.h"
#include "scan.h"

#define END_MS 1000 /* time for the thread to end by itself */

/* -- the thread ---------------------------------------------------------------------- */

static void put(struct scan *s, const struct ArrowArray *batch)
{
	pthread_mutex_lock(&s->lock);
	while (s->full && !s->stopped)
		pthread_cond_wait(&s->moved, &s->lock);
	s->ahead[(s->first + s->n++) % (SCAN_AHEAD + 1)] = *batch;
	s->full = s->n == SCAN_AHEAD;
	if (s->n == SCAN_HALF)
		pthread_cond_signal(&s->moved);
	pthread_mutex_unlock(&s->lock);
}

static bool stopped(struct scan *s)
{
	bool is;

	pthread_mutex_lock(&s->lock);
	is = s->stopped;
	pthread_mutex_unlock(&s->lock);
	return is;
}

static int check_types(const struct scan *s, const struct scan_columns *columns, struct ArrowArrayStream *rows)
{
	struct ArrowSchema given = {0};
	int err;

	if (rows->get_schema(rows, &given))
		return engine_said(s->table, rows->get_last_error(rows));
	err = batch_accepts(&given, columns->type, columns->n, columns->place, s->table);
	given.release(&given);
	return err;
}

/* Set *some if there was a batch. */
static int take_all(struct scan *s, bool *some)
{
	struct scan_columns columns;
	struct ArrowArrayStream rows;
	struct ArrowArray batch;
	char *sql = s->statement.write(s->statement.arg, &columns);
	int more = 0, err = sql ? engine_run(s->engine, sql, &rows, s->table) : -EINVAL;

	free(sql);
	if (err)
		return err;
	err = check_types(s, &columns, &rows);
	while (!err && !stopped(s) && (more = engine_next(&rows, &batch, s->table)) > 0) {
		put(s, &batch);
		*some = true;
	}
	rows.release(&rows);
	return err ?: more < 0 ? more : 0;
}

static void *run(void *arg)
{
	struct scan *s = arg;
	bool some = false;
	int err;

	do
		err = take_all(s, &some);
	while (err && !some && s->statement.again(s->statement.arg));

	pthread_mutex_lock(&s->lock);
	s->error = err;
	if (err)
		snprintf(s->why, sizeof(s->why), "%s", fpisa_query_error());
	s->over = true;
	pthread_cond_signal(&s->moved);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* -- the caller ------------------------------------------------------------------------ */

int scan_begin(struct scan **out, struct engine *engine, struct scan_statement statement, const char *table)
{
	struct scan *s = calloc(1, sizeof(*s));
	pthread_condattr_t monotonic;
	int err = s ? 0 : ENOMEM;

	if (s) {
		*s = (struct scan){.engine = engine, .statement = statement, .table = table};
		pthread_mutex_init(&s->lock, NULL);
		pthread_condattr_init(&monotonic);
		pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
		pthread_cond_init(&s->moved, &monotonic);
		pthread_condattr_destroy(&monotonic);
		err = pthread_create(&s->thread, NULL, run, s);
	}
	if (err) {
		free(s);
		return fpisa_fail(-err, "%s: cannot start a thread: %s", table, strerror(err));
	}
	*out = s;
	return 0;
}

/* Wait until the thread ends. With `some` set, also return when there are SCAN_HALF batches. The caller holds the lock. */
static void await(struct scan *s, bool some, int wait_ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (until.tv_nsec + wait_ms * 1000000l) / 1000000000;
	until.tv_nsec = (until.tv_nsec + wait_ms * 1000000l) % 1000000000;
	while (!(some && s->n >= SCAN_HALF) && !s->over && !pthread_cond_timedwait(&s->moved, &s->lock, &until))
		;
}

int scan_next(struct scan *s, struct ArrowArray *batch, int wait_ms)
{
	int rc = SCAN_LATER;

	pthread_mutex_lock(&s->lock);
	if (!s->n)
		await(s, true, wait_ms);
	if (s->n) {
		*batch = s->ahead[s->first];
		s->first = (s->first + 1) % (SCAN_AHEAD + 1);
		s->full &= --s->n > SCAN_HALF;
		if (s->n == SCAN_HALF)
			pthread_cond_signal(&s->moved);
		rc = 1;
	} else if (s->over) {
		rc = s->error ? fpisa_fail(s->error, "%s", s->why) : 0;
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static void stop(struct scan *s)
{
	pthread_mutex_lock(&s->lock);
	s->stopped = true;
	pthread_cond_signal(&s->moved);
	pthread_mutex_unlock(&s->lock);
}

void scan_end(struct scan *s)
{
	if (!s)
		return;
	stop(s);
	pthread_join(s->thread, NULL);
	for (; s->n; s->n--, s->first = (s->first + 1) % (SCAN_AHEAD + 1))
		s->ahead[s->first].release(&s->ahead[s->first]);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->moved);
	free(s);
}

bool scan_end_now(struct scan *s)
{
	bool over;

	if (!s)
		return true;
	stop(s);
	pthread_mutex_lock(&s->lock);
	await(s, false, END_MS);
	over = s->over;
	pthread_mutex_unlock(&s->lock);
	if (over)
		scan_end(s);
	return over;
}
