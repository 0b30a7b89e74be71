// SPDX-License-Identifier: GPL-2.0-only
/* The speed that the links of this aggregator allow a job; job.h has the contract. */
#include <stdio.h>

#include "cli/report.h"
#include "host/link.h"
#include "job.h"
#include "lib/manager/interface.h"
#include "plan/shares.h"

/*
 * Return the rate of the link in bits per second, or 0 if it is unknown. The rate is known only for hardware, because
 * the speed that a veth, a tun or a bridge reports is not real.
 */
static double link_bits(__u32 ifindex)
{
	struct link l;

	if (link_get(ifindex, &l) || *l.kind)
		return 0;
	return fpisa_link_rate(l.name) * 1e6;
}

static __u32 ranks_behind(const __u32 *ifindex, __u32 n, __u32 port)
{
	__u32 ranks = 0;

	for (__u32 r = 0; r < n; r++)
		ranks += ifindex[r] == port;
	return ranks;
}

/*
 * Return the time, in seconds, for one bit of the vector on the slowest port, or 0 if it is unknown. Set *fastest to
 * the rate of the fastest of these links.
 */
static double slowest_port(const __u32 *ifindex, __u32 n, double worker_bits, double *fastest)
{
	double seconds = 0;

	for (__u32 r = 0; r < n; r++) {
		double bits = ifindex[r] ? link_bits(ifindex[r]) ?: worker_bits : 0, own;

		if (!(bits > 0))
			return 0;
		own = ranks_behind(ifindex, n, ifindex[r]) / bits;
		seconds = own > seconds ? own : seconds;
		*fastest = bits > *fastest ? bits : *fastest;
	}
	return seconds;
}

bool job_links_text(const __u32 *ifindex, __u32 n, double worker_bits, char *text, size_t size)
{
	__u32 lo = if_nametoindex("lo");
	double fastest = 0, seconds;
	struct shares_host host = {.bits = 0};
	struct shares s;
	char why[256];

	if (n < 2 || ranks_behind(ifindex, n, lo))
		return false;
	seconds = slowest_port(ifindex, n, worker_bits, &fastest);
	if (!(seconds > 0))
		return false;
	worker_bits = worker_bits > 0 ? worker_bits : fastest;
	host.bits = n / seconds;
	s = shares_of(n, worker_bits, &host, 1);
	if (!shares_warning(&s, n, worker_bits, 1, why, sizeof(why)))
		return false;
	snprintf(text, size,
		 "%s; unless the job has further aggregators, add some, or make each worker's host an aggregator; see "
		 "fpisa plan --workers %u --rate %.0fM --colocated",
		 why, n, worker_bits / 1e6);
	return true;
}

void job_spec_warn_links(const struct job_spec *s, __u32 job)
{
	char text[512];

	if (job_links_text(s->ifindex, s->job.workers, s->worker_bits, text, sizeof(text)))
		warning("job %u: %s", job, text);
}
