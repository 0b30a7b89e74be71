/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The progress engine's work for a handle; background.h has the contracts. */
#include <stddef.h>
#include "background.h"
#include "handle.h"
#include "hold.h"
#include "outcome.h"
#include "progress.h"

/*
 * Largest number of consecutive turns for frames that have already arrived, so that a flood of frames does not block
 * the engine's other handles.
 */
#define TURNS 16

static struct fpisa *handle_of(struct fpisa_engine_item *item)
{
	return (struct fpisa *)((char *)item - offsetof(struct fpisa, shared.item));
}

void fpisa_background_resume(struct fpisa *f)
{
	struct fpisa_shared *s = &f->shared;
	uint64_t at;
	int rc;

	if (s->join || f->error)
		return;
	if (fpisa_is_driven(s) && !fpisa_is_held(s)) {
		if (s->driver == FPISA_DRIVER_SLEEPER && fpisa_next_turn(f) < s->until_ns)
			fpisa_shared_wake(s);
		return;
	}
	if (!f->oldest && s->driver == FPISA_DRIVER_NONE) {
		s->until_ns = FPISA_NEVER;
		return;
	}
	at = (!fpisa_is_held(s) && fpisa_more(f)) || !TAILQ_EMPTY(&f->ended) ? 0 : fpisa_next_turn(f);
	rc = fpisa_shared_watch(s, at);
	if (rc)
		fpisa_poison(f, rc);
}

/*
 * Call the callbacks of requests that have ended. Release the lock while a callback runs, because the callback may
 * start the next request.
 */
static void call_back(struct fpisa *f)
{
	struct fpisa_shared *s = &f->shared;
	struct fpisa_request *r;

	while ((r = TAILQ_FIRST(&f->ended))) {
		int rc = fpisa_request_outcome(r);

		TAILQ_REMOVE(&f->ended, r, link);
		s->calling = 1;
		fpisa_unlock(&s->lock);
		r->on_done(r->arg, rc, r->flags);
		if (f->inherited) {
			fpisa_request_free(r);
			return;
		}
		fpisa_lock(&s->lock);
		fpisa_request_free(r);
		s->calling = 0;
	}
	pthread_cond_broadcast(&s->changed);
}

void fpisa_background_run(struct fpisa_engine_item *item)
{
	struct fpisa *f = handle_of(item);
	struct fpisa_shared *s = &f->shared;

	fpisa_lock(&s->lock);
	if (fpisa_is_held(s) && !f->error)
		fpisa_hold_turn(f);
	for (int i = 0; i < TURNS && s->driver == FPISA_DRIVER_ENGINE; i++) {
		fpisa_advance(f, NULL, 0);
		if (f->inherited || !fpisa_more(f))
			break;
		fpisa_shared_yield(s);
	}
	if (!f->inherited)
		call_back(f);
	if (f->inherited)
		return;
	fpisa_background_resume(f);
	fpisa_unlock(&s->lock);
}

void fpisa_background_drain(struct fpisa *f)
{
	struct fpisa_shared *s = &f->shared;

	while (s->calling || !TAILQ_EMPTY(&f->ended))
		fpisa_lock_wait(&s->lock, &s->changed);
}
