// SPDX-License-Identifier: GPL-2.0-only
/*
 * The state of a job: ranks that have joined, ranks for which the oldest round waits, and silent ranks; job.h has the
 * contracts.
 */
#include <math.h>
#include <stdio.h>

#include "job.h"
#include "lib/base/clock.h"

__u64 job_joined(const struct fpisa_job *j, const struct fpisa_session *s)
{
	__u64 known = 0;

	for (__u32 r = 0; r < j->workers && r < FPISA_MAX_WORKERS; r++)
		known |= (__u64) !!s->incarnation[r] << r;
	/* While ranks join a new generation, return the ranks that have sent HELLO for the new generation. */
	return s->joining ?: s->generation ? known & j->live : 0;
}

int job_missing(const struct datapath *dp, __u32 job, __u64 *missing, __u64 *chunk)
{
	const struct fpisa_job j = dp->jobs[job];
	struct fpisa_session session;
	struct fpisa_slot s;
	int err;

	*missing = 0;
	err = datapath_session(dp, job, &session);
	for (__u32 i = 0; !err && i < 2 * j.window; i++) {
		err = datapath_slot(dp, j.slot_base + i, &s);
		if (err || !job_round_open(&s, session.generation) || (*missing && s.chunk > *chunk))
			continue;
		*missing = j.live & ~s.bitmap;
		*chunk = s.chunk;
	}
	return err;
}

int job_silence(const struct datapath *dp, __u32 job, __u32 rank, double *seconds)
{
	struct fpisa_last_seen h = {0};
	int err = datapath_last_seen(dp, job, rank, &h);
	__u64 now;

	/* Read the clock after the entry, so that no age is negative. */
	now = fpisa_now();
	*seconds = !h.ns ? HUGE_VAL : now > h.ns ? (now - h.ns) / 1e9 : 0;
	return err;
}

void job_age_text(double s, char text[AGE_LEN])
{
	if (s < 10)
		snprintf(text, AGE_LEN, "%.1f s", s);
	else if (s < 120)
		snprintf(text, AGE_LEN, "%.0f s", s);
	else
		snprintf(text, AGE_LEN, "%.0f %s", s < 7200 ? s / 60 : s / 3600, s < 7200 ? "min" : "h");
}

int job_silence_text(const struct datapath *dp, __u32 job, __u64 ranks, char text[SILENCE_LEN])
{
	double s, longest = -1;
	__u32 rank = 0;
	char age[AGE_LEN];

	*text = 0;
	for (__u32 r = 0; r < FPISA_MAX_WORKERS; r++) {
		int err = ranks >> r & 1 ? job_silence(dp, job, r, &s) : 0;

		if (err)
			return err;
		if (ranks >> r & 1 && s > longest) {
			longest = s;
			rank = r;
		}
	}
	job_age_text(longest, age);
	if (isinf(longest))
		snprintf(text, SILENCE_LEN, "; rank %u never heard from", rank);
	else if (ranks)
		snprintf(text, SILENCE_LEN, "; rank %u silent for %s", rank, age);
	return 0;
}
