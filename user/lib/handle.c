/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A handle's beginning, who may use it when, its error and its time; handle.h has the contracts. */
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
		{"loss", &to->loss},	   {"duplicate", &to->duplicate}, {"reorder", &to->reorder},
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
		return fpisa_fail(-EINVAL, "options.overflow is %u; it must be an enum fpisa_overflow",
				  to->overflow);
	return 0;
}

/* One that another thread was in a call with stays busy, for nothing but its transport is in order. */
static void in_child(struct fpisa_fork_hook *h)
{
	struct fpisa *f = (struct fpisa *)h;

	f->inherited = 1;
	if (f->t)
		f->t->ops->disown(f->t);
}

int fpisa_new(struct fpisa **out, const struct fpisa_options *options)
{
	struct fpisa_options o;
	struct fpisa *f;
	int rc = copy_options(&o, options);

	if (rc)
		return rc;
	f = calloc(1, sizeof(*f));
	if (!f)
		return fpisa_fail(-ENOMEM, "no memory for a handle");
	TAILQ_INIT(&f->requests);
	TAILQ_INIT(&f->given_up);
	f->local_port = o.local_port ? o.local_port : FPISA_PORT;
	f->token = o.token;
	f->timeout_ns = (o.timeout_ms ? o.timeout_ms : DEFAULT_TIMEOUT_MS) * 1000000ull;
	fpisa_clock_init(&f->clock, f->timeout_ns, fpisa_now());
	f->on_chunk = o.on_chunk;
	f->arg = o.arg;
	f->overflow = (enum fpisa_overflow)o.overflow;
	f->restore = o.restore != 0;
	f->transport = (enum fpisa_transport_name)o.transport;
	f->faults = (struct fpisa_fault_rates){o.loss, o.duplicate, o.reorder, o.delay, o.corrupt};
	f->seed = o.seed;
	f->fork.in_child = in_child;
	rc = fpisa_fork_add(&f->fork);
	if (rc)
		free(f);
	else
		*out = f;
	return rc;
}

int fpisa_poison(struct fpisa *f, int error)
{
	f->error = error;
	snprintf(f->message, sizeof(f->message), "%s", fpisa_error());
	if (!f->inherited)
		fpisa_requests_restore(f);
	return error;
}

int fpisa_poisoned(const struct fpisa *f)
{
	return fpisa_fail(f->error, "%s", f->message);
}

int fpisa_refuse_inherited(const struct fpisa *f)
{
	return fpisa_fail(-ECHILD,
			  "%s: job %u: the handle belongs to the process that made it, and this is a child; "
			  "close it here, and connect from a port of its own",
			  f->peer, f->job);
}

int fpisa_enter(struct fpisa *f)
{
	int rc = fpisa_given(f, "the handle");

	if (rc)
		return rc;
	if (f->inherited)
		return fpisa_refuse_inherited(f);
	if (f->busy)
		return fpisa_fail(-EBUSY,
				  "%s: job %u: the handle is in a call, whose on_chunk and other threads may "
				  "not use it; do so when the call has returned",
				  f->peer, f->job);
	f->busy = 1;
	return 0;
}

void fpisa_leave(struct fpisa *f)
{
	f->busy = 0;
}

/* What was in flight over a long gap is no measure of the round trip. */
void fpisa_tick(struct fpisa *f, uint64_t now, uint64_t waited_ns)
{
	if (fpisa_clock_tick(&f->clock, now, waited_ns) > f->rto.rto_ns)
		f->resumed_ns = now;
}
