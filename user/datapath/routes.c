// SPDX-License-Identifier: GPL-2.0-only
/*
 * What lets the datapath ask the kernel for the route to a rank (find_way() in
 * bpf/ingress.h), for jobs whose ranks are looked for by routes:
 *
 * - forwarding on `lo`, as if from where the question is asked: the kernel
 *   answers nobody else. On `lo` it does nothing else. The kernel switches it
 *   off with net.ipv4.ip_forward, so whoever adds or applies a job asserts it;
 * - the neighbour entries of the ranks, or of the routers before them, managed:
 *   the kernel then keeps them resolved by itself. A program cannot make it
 *   look for an address, and what XDP hands to the stack may end in a firewall.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "cli/print.h"
#include "cli/report.h"
#include "host/route.h"
#include "pin.h"
#include "routes.h"

#define LO_FORWARDING "/proc/sys/net/ipv4/conf/lo/forwarding"

static bool any_routed(const struct fpisa_job *j)
{
	for (__u32 r = 0; r < j->workers; r++)
		if (!j->rank[r].given)
			return true;
	return false;
}

/* The neighbour that frames to a rank go to first. */
static int next_hop(const struct fpisa_rank *rank, struct route *via, __be32 *neighbour)
{
	int err = rank->given ? -ENOENT : route_get(rank->addr, 0, via);

	*neighbour = via->gateway ?: rank->addr;
	return err;
}

/* '1', '0', or 0 if that is not to be read. */
static char forwarding(void)
{
	int fd = open(LO_FORWARDING, O_RDONLY | O_CLOEXEC);
	char on = 0;

	if (fd < 0)
		return 0;
	if (read(fd, &on, 1) != 1)
		on = 0;
	close(fd);
	return on;
}

/* Where it is on already, it may be that nobody may write it. */
static int switch_forwarding_on(__u32 job)
{
	int fd, err = 0;

	if (forwarding() == '1')
		return 0;
	fd = open(LO_FORWARDING, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "1", 1) != 1)
		err = fail(-errno, "mount /proc/sys writable, or name the workers' ports: ADDR@DEV",
			   "job %u: " LO_FORWARDING, job);
	if (fd >= 0)
		close(fd);
	return err;
}

int routes_assert(__u32 job, const struct fpisa_job *j)
{
	struct route via;
	char a[ADDRESS_LEN];
	__be32 neighbour;
	int err;

	if (!any_routed(j))
		return 0;
	err = switch_forwarding_on(job);
	for (__u32 r = 0; !err && r < j->workers; r++) {
		if (next_hop(&j->rank[r], &via, &neighbour))
			continue;
		err = neighbour_manage(neighbour, via.ifindex, true);
		if (err)
			err = fail(err, NULL, "job %u: neighbour entry of %s", job, address_text(neighbour, a));
	}
	return err;
}

static bool still_needed(const struct datapath *dp, __be32 neighbour, __u32 ifindex)
{
	struct route via;
	__be32 other;

	for (__u32 job = 0; job < FPISA_MAX_JOBS; job++)
		for (__u32 r = 0; dp->jobs[job].active && r < dp->jobs[job].workers; r++)
			if (!next_hop(&dp->jobs[job].rank[r], &via, &other) && other == neighbour &&
			    via.ifindex == ifindex)
				return true;
	return false;
}

void routes_release(const struct datapath *dp, const struct fpisa_job *j)
{
	struct route via;
	__be32 neighbour;

	for (__u32 r = 0; r < j->workers && r < FPISA_MAX_WORKERS; r++)
		if (!next_hop(&j->rank[r], &via, &neighbour) && !(dp && still_needed(dp, neighbour, via.ifindex)))
			neighbour_manage(neighbour, via.ifindex, false);
}

void routes_release_all(const char *dir)
{
	int jobs_fd = pin_open(dir, "fpisa_jobs");
	struct fpisa_job j;

	for (__u32 job = 0; jobs_fd >= 0 && job < FPISA_MAX_JOBS; job++)
		if (!bpf_map_lookup_elem(jobs_fd, &job, &j) && j.active)
			routes_release(NULL, &j);
	if (jobs_fd >= 0)
		close(jobs_fd);
}

int datapath_routes_asked(const struct fpisa_job *j)
{
	return !any_routed(j) || forwarding() != '0';
}
