/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The engine's turns for a handle whose job does not exist yet. hold.h has the contracts, and api.c the other functions
 * of hold.h.
 */
#include <errno.h>
#include "handle.h"
#include "hold.h"
#include "join.h"
#include "progress.h"
#include "send.h"

/* Send the held requests, because all ranks have joined. */
static int release(struct fpisa *f)
{
	struct fpisa_request *r;
	int rc = fpisa_join_end(f);

	if (rc)
		return rc;
	fpisa_shared_stop_driving(&f->shared);
	TAILQ_FOREACH(r, &f->requests, link)
		fpisa_request_place(r);
	rc = fpisa_send(f);
	if (!rc)
		fpisa_requests_complete(f);
	return rc;
}

static int late(struct fpisa *f)
{
	const uint64_t timeout_ns = f->oldest->timeout_ns;
	unsigned int ms = (unsigned int)(timeout_ns / 1000000);
	char names[256];

	f->missing = f->shared.driver == FPISA_DRIVER_RANKS ? fpisa_not_joined(f) : FPISA_NO_RANKS;
	if (fpisa_ranks_any(&f->missing))
		return fpisa_fail(-ETIMEDOUT, "%s: job %u: %s did not join the job in %u ms; start the missing ranks",
				  f->peer, f->job, fpisa_rank_names(names, sizeof(names), &f->missing), ms);
	if (f->shared.driver == FPISA_DRIVER_RANKS)
		return fpisa_unanswered(fpisa_joins_at(f), timeout_ns);
	return fpisa_fail(
		-ETIMEDOUT,
		"%s: the group's first call of this type got no job in %u ms, because some ranks have not made that "
		"call; make it at all ranks",
		f->peer, ms);
}

void fpisa_hold_turn(struct fpisa *f)
{
	int rc = 0;

	fpisa_tick(f, fpisa_now(), 0);
	if (f->shared.driver == FPISA_DRIVER_RANKS)
		rc = fpisa_join_turn(f, 0);
	if (rc > 0)
		rc = release(f);
	else if (!rc && f->oldest && !fpisa_time_left(f->oldest))
		rc = late(f);
	else if (!rc && f->oldest && f->shared.driver == FPISA_DRIVER_RANKS && fpisa_is_silent(f))
		rc = fpisa_unanswered(fpisa_joins_at(f), f->silence_ns);
	if (rc)
		fpisa_poison(f, rc);
}
