/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The outcome of a request, with its message. */
#include <errno.h>
#include "handle.h"
#include "outcome.h"

int fpisa_request_ended(const struct fpisa_request *r)
{
	return r->done || r->error || r->f->error;
}

/* Apply the handle's overflow policy to a request that is done. */
static int check_overflow(const struct fpisa_request *r)
{
	const struct fpisa *f = r->f;

	if (!(r->flags & FPISA_RESULT_OVERFLOW) || f->overflow == FPISA_OVERFLOW_FLAG ||
	    (f->overflow == FPISA_OVERFLOW_DEFAULT && r->mode == FPISA_MODE_FPISA_A))
		return 0;
	return fpisa_fail(-ERANGE,
			  "%s: job %u: call %u: an element of the sum overflowed; scale the values down, take a "
			  "wider format, or set options.overflow to FPISA_OVERFLOW_FLAG",
			  f->peer, f->job, r->call);
}

int fpisa_request_outcome(const struct fpisa_request *r)
{
	const struct fpisa *f = r->f;

	if (r->done)
		return check_overflow(r);
	if (r->given_up)
		return fpisa_fail(r->error, "%s: job %u: call %u was given up by a rejoin; start the call again",
				  f->peer, f->job, r->call);
	return fpisa_fail(r->error ? r->error : f->error, "%s", f->message);
}
