/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Creation of a handle, checks of its callers, its error and its clock; handle.h has the contracts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "handle.h"

#define DEFAULT_TIMEOUT_MS 10000

static int copy_options(struct fpisa_options *to, const struct fpisa_options *from)
{
	const struct {
		const char *name;
		const double *value;
	} shares[] = {
		{"loss", &to->loss},   {"duplicate", &to->duplicate}, {"reorder", &to->reorder},
		{"delay", &to->delay}, {"corrupt", &to->corrupt},
	};
	int rc;

	*to = (struct fpisa_options){0};
	if (!from)
		return 0;
	rc = fpisa_copy_sized(to, sizeof(*to), from, sizeof(from->size), "options");
	if (rc)
		return rc;
	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
		if (!(*shares[i].value >= 0 && *shares[i].value <= FPISA_FAULT_MOST))
			return fpisa_fail(-EINVAL, "options.%s is %g; it must be in 0..%g", shares[i].name,
					  *shares[i].value, FPISA_FAULT_MOST);
	if (!fpisa_transport_known(to->transport))
		return fpisa_fail(-EINVAL, "options.transport is %u; it must be an enum fpisa_transport_name",
				  to->transport);
	if (to->overflow > FPISA_OVERFLOW_FLAG)
		return fpisa_fail(-EINVAL, "options.overflow is %u; it must be an enum fpisa_overflow", to->overflow);
	return 0;
}

/* Leave a handle busy if another thread was inside a call at fork(), because only its transport is in a known state. */
static void in_child(struct fpisa_fork_hook *h)
{
	struct fpisa *f = (struct fpisa *)h;

	f->inherited = 1;
	fpisa_shared_disown(&f->shared);
	FPISA_EACH_SHARD(s, f)
		if (s->t)
			s->t->ops->disown(s->t);
}

static int make_shards(struct fpisa *f, uint32_t shards, const uint32_t *weight, uint16_t local_port)
{
	f->shard = calloc(shards, sizeof(*f->shard));
	if (!f->shard || fpisa_layout_init(&f->layout, shards, weight))
		return fpisa_fail(-ENOMEM, "not enough memory for a handle; " FPISA_MORE_MEMORY);
	for (uint32_t i = 0; i < shards; i++) {
		f->shard[i].f = f;
		f->shard[i].index = i;
		f->shard[i].first = &f->shard[i];
		f->shard[i].local_port = local_port;
	}
	return 0;
}

static void free_new(struct fpisa *f)
{
	fpisa_layout_free(&f->layout);
	free(f->shard);
	free(f);
}

int fpisa_new(struct fpisa **out, const struct fpisa_options *options, uint32_t shards, const uint32_t *weight)
{
	struct fpisa_options o;
	struct fpisa *f;
	int rc = copy_options(&o, options);

	if (rc)
		return rc;
	f = calloc(1, sizeof(*f));
	if (!f)
		return fpisa_fail(-ENOMEM, "not enough memory for a handle; " FPISA_MORE_MEMORY);
	TAILQ_INIT(&f->requests);
	TAILQ_INIT(&f->given_up);
	TAILQ_INIT(&f->ended);
	rc = make_shards(f, shards, weight, o.local_port ? o.local_port : FPISA_PORT);
	if (rc) {
		free_new(f);
		return rc;
	}
	f->token.k0 = o.token;
	f->timeout_ns = fpisa_timeout_ns(o.timeout_ms ? o.timeout_ms : DEFAULT_TIMEOUT_MS);
	fpisa_clock_init(&f->clock, f->timeout_ns, fpisa_now());
	f->on_chunk = o.on_chunk;
	f->arg = o.arg;
	f->overflow = (enum fpisa_overflow)o.overflow;
	f->restore = o.restore != 0;
	f->all_ranks = o.all_ranks != 0;
	f->progress = o.progress != 0;
	f->transport = (enum fpisa_transport_name)o.transport;
	f->faults = (struct fpisa_fault_rates){o.loss, o.duplicate, o.reorder, o.delay, o.corrupt};
	f->seed = o.seed;
	f->fork.in_child = in_child;
	rc = fpisa_fork_add(&f->fork);
	if (rc)
		free_new(f);
	else
		*out = f;
	return rc;
}

int fpisa_poison(struct fpisa *f, int error)
{
	fpisa_end_generation(f, error, fpisa_error());
	return error;
}

void fpisa_end_generation(struct fpisa *f, int error, const char *message)
{
	f->error = error;
	snprintf(f->message, sizeof(f->message), "%s", message);
	if (f->inherited)
		return;
	fpisa_requests_restore(f);
	fpisa_requests_tell(f);
	fpisa_shared_unwatch(&f->shared);
}

int fpisa_poisoned(const struct fpisa *f)
{
	return fpisa_fail(f->error, "%s", f->message);
}

int fpisa_refuse_inherited(const struct fpisa *f)
{
	return fpisa_fail(-ECHILD,
			  "%s: job %u: the handle belongs to the process that created it, and this process is a "
			  "child; close the handle here, and connect from another port",
			  f->peer, f->job);
}

static int busy(const struct fpisa *f)
{
	return fpisa_fail(-EBUSY,
			  "%s: job %u: the handle is in a call, so neither on_chunk nor another thread may "
			  "use it; try again when the call has returned",
			  f->peer, f->job);
}

static int enter(struct fpisa *f, int to_block)
{
	struct fpisa_shared *s;
	int rc = fpisa_given(f, "the handle");

	if (rc)
		return rc;
	if (f->inherited)
		return fpisa_refuse_inherited(f);
	s = &f->shared;
	if (!s->engine) {
		if (f->busy)
			return busy(f);
		f->busy = 1;
		return 0;
	}
	if (fpisa_lock_is_ours(&s->lock))
		return busy(f);
	if (to_block && fpisa_engine_inside(s->engine))
		return fpisa_fail(-EBUSY,
				  "%s: job %u: a callback must not wait for a request, because it runs on the "
				  "thread that moves requests; wait in another thread",
				  f->peer, f->job);
	fpisa_lock(&s->lock);
	return 0;
}

int fpisa_joining(const struct fpisa *f)
{
	if (!f->shared.join)
		return 0;
	return fpisa_fail(-EBUSY, "%s: job %u: another thread is in fpisa_rejoin(); call again when it has returned",
			  f->peer, f->job);
}

int fpisa_enter(struct fpisa *f)
{
	return enter(f, 0);
}

int fpisa_enter_to_block(struct fpisa *f)
{
	return enter(f, 1);
}

void fpisa_leave(struct fpisa *f)
{
	f->busy = 0;
	if (f->shared.engine)
		fpisa_unlock(&f->shared.lock);
}

int fpisa_look(struct fpisa *f)
{
	struct fpisa_shared *s = &f->shared;

	if (!s->engine || f->inherited || fpisa_lock_is_ours(&s->lock))
		return 0;
	fpisa_lock(&s->lock);
	return 1;
}

void fpisa_look_away(struct fpisa *f, int locked)
{
	if (locked)
		fpisa_unlock(&f->shared.lock);
}

int fpisa_handle_fail(struct fpisa *f, int error, const struct fpisa_ranks *missing, const char *message)
{
	struct fpisa_shared *s = &f->shared;

	if (f->inherited)
		return fpisa_refuse_inherited(f);
	if (fpisa_lock_is_ours(&s->lock))
		return busy(f);
	fpisa_lock(&s->lock);
	fpisa_end_generation(f, error, message);
	f->missing = *missing;
	if (s->join)
		s->join = FPISA_JOIN_FAILED;
	fpisa_shared_wake(s);
	fpisa_unlock(&s->lock);
	return 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

void fpisa_handle_standing(struct fpisa *f, struct fpisa_standing *s)
{
	const struct fpisa_request *r;
	const struct fpisa_window_slot *slot;
	struct fpisa_shard *shard;
	int locked = fpisa_look(f);

	*s = (struct fpisa_standing){
		.error = f->error,
		.first_unfinished = f->unfinished,
		.unfinished_barrier = f->unfinished_barrier,
		.last_whole = f->last_whole,
	};
	snprintf(s->message, sizeof(s->message), "%s", f->message);
	s->failed = f->missing;
	TAILQ_FOREACH(r, &f->requests, link) {
		s->first_unfinished = least(s->first_unfinished, r->left ? r->number : 0);
		s->unfinished_barrier = least(s->unfinished_barrier, r->left && r->barrier ? r->number : 0);
	}
	TAILQ_FOREACH(r, &f->ended, link)
		s->first_unfinished = least(s->first_unfinished, r->left ? r->number : 0);
	r = f->oldest;
	if (r) {
		s->number = r->number;
		s->tag = r->tag;
		s->count = r->count;
		s->stuck_ns = f->result_ns > f->waiting_ns ? f->result_ns : f->waiting_ns;
		slot = fpisa_is_held(&f->shared) ? NULL : fpisa_oldest_slot(f, &shard);
		s->missing = slot ? fpisa_ranks_of(f, fpisa_slot_missing(slot)) : fpisa_not_joined(f);
	}
	fpisa_look_away(f, locked);
}

struct fpisa_window_slot *fpisa_oldest_slot(struct fpisa *f, struct fpisa_shard **oldest)
{
	struct fpisa_window_slot *first = NULL;

	FPISA_EACH_SHARD(s, f) {
		struct fpisa_window_slot *slot = fpisa_window_oldest(&s->window);

		if (!slot || (first && fpisa_chunk_of(s, slot->chunk) > fpisa_chunk_of(*oldest, first->chunk)))
			continue;
		first = slot;
		*oldest = s;
	}
	return first;
}

struct fpisa_ranks fpisa_not_joined(const struct fpisa *f)
{
	uint64_t ranks = 0;

	FPISA_EACH_SHARD(s, f)
		ranks |= s->joining.missing;
	return fpisa_ranks_of(f, ranks);
}

static uint64_t longest_timeout(const struct fpisa *f)
{
	uint64_t ns = 0;

	FPISA_EACH_SHARD(s, f)
		if (s->window.rto.rto_ns > ns)
			ns = s->window.rto.rto_ns;
	return ns;
}

/* Update the clock. Frames that were in flight during a long gap give no sample of the round trip. */
void fpisa_tick(struct fpisa *f, uint64_t now, uint64_t waited_ns)
{
	/* Another thread may drive the handle and sleep, so this is not a gap. */
	if (f->shared.until_ns > f->clock.last_ns && f->shared.until_ns - f->clock.last_ns > waited_ns)
		waited_ns = f->shared.until_ns - f->clock.last_ns;
	if (fpisa_clock_tick(&f->clock, now, waited_ns) > longest_timeout(f))
		f->resumed_ns = now;
}
