// SPDX-License-Identifier: GPL-2.0-only
/* Checks of a job, and the choice of its slots, which do not use the kernel. */
#include <errno.h>
#include <stdio.h>

#include "cli/names.h"
#include "cli/print.h"
#include "cli/report.h"
#include "datapath.h"
#include "job.h"

int datapath_refuse_mixed(__u32 job, const struct fpisa_job *j, const char *why)
{
	const __u32 r = datapath_other_family(j);
	char a[ADDRESS_LEN], b[ADDRESS_LEN];

	if (r >= j->workers)
		return 0;
	return refuse(-EINVAL,
		      "%s %u: rank 0 has address %s and rank %u has %s, but %s; use IPv4 for all or IPv6 for "
		      "all",
		      datapath_noun(j), job, address_text(j->rank[0].addr, a), r, address_text(j->rank[r].addr, b), why);
}

int datapath_refuse_own_member(__u32 query, const char *address)
{
	return refuse(
		-EINVAL,
		"query %u: %s is an address of this machine, but the workers and the master are on other machines than "
		"the aggregator; name other machines, or ask without an aggregator: run fpisa query run without "
		"--aggregator",
		query, address);
}

/*
 * Check that the addresses of a job are of the families of its ranks; 0 stands for an address that is not known yet. Only
 * unicast jobs may have ranks of both families.
 */
static int check_family(__u32 job, const struct fpisa_job *j)
{
	const bool v6 = fpisa_is_ipv6(&j->rank[0].addr);
	const char *is = datapath_noun(j);
	char a[ADDRESS_LEN], b[ADDRESS_LEN];
	int err = 0;

	if (fpisa_in_tree(j))
		err = datapath_refuse_mixed(job, j, "a tree's ranks have one family");
	else if (j->fanout == FPISA_FANOUT_MULTICAST)
		err = datapath_refuse_mixed(job, j, "multicast results have one family");
	if (err || datapath_is_mixed(j))
		return err;
	address_text(j->rank[0].addr, a);
	if (j->ipv4)
		return refuse(
			-EINVAL,
			"%s %u: all ranks use the address family of rank 0 (%s), but --address has two addresses; give "
			"one",
			is, job, a);
	if (fpisa_is_address(&j->address) && fpisa_is_ipv6(&j->address) != v6)
		return refuse(-EINVAL,
			      "%s %u: a rank has address %s, but --address is %s; use IPv4 for both or IPv6 for both",
			      is, job, a, address_text(j->address, b));
	if (j->flags & FPISA_JOB_LEAF && fpisa_is_ipv6(&j->parent.addr) != v6)
		return refuse(-EINVAL,
			      "%s %u: a rank has address %s, but --parent is %s; use IPv4 for both or IPv6 for both",
			      is, job, a, address_text(j->parent.addr, b));
	if (fpisa_is_address(&j->group) && fpisa_is_ipv6(&j->group) != v6)
		return refuse(-EINVAL,
			      "%s %u: a rank has address %s, but --group is %s; use IPv4 for both or IPv6 for both", is,
			      job, a, address_text(j->group, b));
	return 0;
}

int datapath_members_check(__u32 job, const struct fpisa_job *j)
{
	const char *is = datapath_noun(j);
	char a[ADDRESS_LEN], b[ENDPOINT_LEN];
	int err = check_family(job, j);

	if (err)
		return err;
	for (__u32 r = 0; r < j->workers; r++) {
		address_text(j->rank[r].addr, a);
		for (__u32 k = 0; k < r; k++)
			if (fpisa_same_address(&j->rank[k].addr, &j->rank[r].addr) && j->rank[k].port == j->rank[r].port)
				return refuse(-EINVAL,
					      "%s %u: ranks %u and %u both have address %s; give each its own "
					      "port",
					      is, job, k, r, endpoint_text(j->rank[r].addr, j->rank[r].port, b));
		if (j->fanout == FPISA_FANOUT_MULTICAST && j->rank[r].port != j->group_port)
			return refuse(
				-EINVAL,
				"job %u: multicast needs the same UDP port at all ranks, but rank %u has %u and rank "
				"0 has %u; try --fanout unicast",
				job, r, ntohs(j->rank[r].port), ntohs(j->group_port));
		if (fpisa_is_own_address(j, &j->rank[r].addr) && fpisa_is_query(j))
			return datapath_refuse_own_member(job, a);
		if (fpisa_is_own_address(j, &j->rank[r].addr) && !(j->flags & FPISA_JOB_LEAVES) &&
		    j->rank[r].port == htons(FPISA_PORT))
			return refuse(
				-EINVAL,
				"%s %u: rank %u has the aggregator's address %s; on the aggregator's host a rank needs "
				"another port, such as %s",
				is, job, r, a, endpoint_text(j->rank[r].addr, htons(FPISA_PORT + 1), b));
	}
	return 0;
}

/* Check a job of a tree. */
static int check_tree(__u32 job, const struct fpisa_job *j)
{
	if (!fpisa_in_tree(j))
		return 0;
	if (j->flags & FPISA_JOB_LEAVES && j->flags & FPISA_JOB_LEAF)
		return refuse(-EINVAL,
			      "job %u: a tree has only two levels, so a job cannot have both leaves and a "
			      "parent; leave --leaves or --parent out",
			      job);
	if (!fpisa_may_be_in_tree(j))
		return refuse(-EINVAL,
			      "job %u: a tree needs mode exact, at all leaves and at their parent; give --mode exact",
			      job);
	if (j->pipeline != FPISA_PIPELINE_FUSED)
		return refuse(-EINVAL, "job %u: a tree needs the fused pipeline; leave --pipeline out", job);
	if (j->vlan)
		return refuse(-EINVAL, "job %u: the datapath does not support trees in a VLAN", job);
	if (j->flags & FPISA_JOB_LEAVES && j->fanout != FPISA_FANOUT_UNICAST)
		return refuse(-EINVAL, "job %u: leaves receive only unicast results; give --fanout unicast", job);
	return 0;
}

static int check(__u32 job, const struct fpisa_job *j)
{
	struct fpisa_format f = fpisa_job_format(j);

	if (!f.bytes)
		return refuse(-EINVAL, "job %u: format %u is not known", job, j->format);
	if (job >= FPISA_MAX_JOBS)
		return refuse(-EINVAL, "job %u: job numbers are 0 to %d", job, FPISA_MAX_JOBS - 1);
	if (!j->workers || j->workers > FPISA_MAX_WORKERS)
		return refuse(-EINVAL, "job %u: %u workers are not supported; give 1 to %d", job, j->workers,
			      FPISA_MAX_WORKERS);
	if (f.integer && j->mode != FPISA_MODE_FPISA)
		return refuse(-EINVAL, "job %u: int32 does not have modes; leave --mode out", job);
	if (f.integer && j->rounding == FPISA_ROUND_NEAREST)
		return refuse(-EINVAL, "job %u: sums of int32 are not rounded; leave --rounding out", job);
	if (j->flags & FPISA_JOB_RECIPROCAL && !fpisa_op_offered(f, j->mode, FPISA_OP_AVG))
		return refuse(-EINVAL, "job %u: %s does not support averages; leave --reciprocal out", job,
			      name_of(format_names, j->format));
	if (f.bytes == 1 && j->flags & FPISA_JOB_BIG_ENDIAN)
		return refuse(-EINVAL, "job %u: values of one byte do not have a byte order; leave --big-endian out",
			      job);
	if ((f.integer || j->mode == FPISA_MODE_EXACT) && j->flags & FPISA_JOB_HISTOGRAM)
		return refuse(-EINVAL,
			      "job %u: additions in int32 or in mode exact discard nothing, so a histogram "
			      "would be empty; leave --histogram out",
			      job);
	if (j->flags & FPISA_JOB_UNCOUNTED && j->flags & FPISA_JOB_HISTOGRAM)
		return refuse(-EINVAL, "job %u: a histogram is a statistic; leave --histogram or --no-statistics out",
			      job);
	if (j->mode != FPISA_MODE_FPISA_A && j->mode != FPISA_MODE_EXACT && !f.integer &&
	    j->workers > 1ull << fpisa_headroom(f))
		return refuse(-EINVAL, "job %u: %u workers overflow the headroom of %d bits; give at most %llu", job,
			      j->workers, fpisa_headroom(f), 1ull << fpisa_headroom(f));
	if (!fpisa_elements_valid(j->elements, fpisa_max_elements(f, j->mode)))
		return refuse(-EINVAL,
			      "job %u: %u elements per frame are not supported in this format and mode; "
			      "give a multiple of %d up to %u",
			      job, j->elements, FPISA_BLOCK, fpisa_max_elements(f, j->mode));
	if (!fpisa_window_valid(j->window))
		return refuse(-EINVAL, "job %u: window %u is not supported; give a power of two up to %d", job,
			      j->window, FPISA_MAX_WINDOW);
	if (j->ports & (j->ports - 1) || j->ports > FPISA_MAX_PORTS)
		return refuse(-EINVAL, "job %u: %u ports are not supported; give a power of two up to %d", job,
			      j->ports, FPISA_MAX_PORTS);
	if (j->ports > j->window)
		return refuse(-EINVAL,
			      "job %u: %u ports are too many for a window of %u slots; give at most --ports "
			      "%u",
			      job, j->ports, j->window, j->window);
	return check_tree(job, j) ?: datapath_members_check(job, j);
}

int datapath_job_check(__u32 job, struct fpisa_job *j)
{
	j->guard = fpisa_register(j->format, j->mode, j->workers).guard;
	j->family = fpisa_job_family(j);
	return check(job, j);
}

/* Return the first place from `from` on where `need` entries fit between the regions of the active jobs. */
static __u32 first_fit(const struct fpisa_job *jobs, __u32 need, __u32 from)
{
	__u32 base = from;

	for (__u32 i = 0; i < FPISA_MAX_JOBS; i++) {
		const struct fpisa_job *other = &jobs[i];

		if (!other->active || base >= other->slot_base + 2 * other->window || other->slot_base >= base + need)
			continue;
		base = other->slot_base + 2 * other->window;
		/* Check all jobs again, because an earlier job may overlap the new place. */
		i = -1u;
	}
	return base;
}

/* Count the entries below `end` that active jobs have. */
static __u32 taken_below(const struct fpisa_job *jobs, __u32 end)
{
	__u32 taken = 0;

	for (__u32 i = 0; i < FPISA_MAX_JOBS; i++) {
		const struct fpisa_job *j = &jobs[i];
		__u32 from = j->slot_base, to = j->slot_base + 2 * j->window;

		if (j->active && from < end)
			taken += (to < end ? to : end) - from;
	}
	return taken;
}

__u64 datapath_job_limbs(const struct fpisa_job *j)
{
	return 2ull * j->window * j->elements * fpisa_family_limbs(j->family) * sizeof(__u64);
}

/* Describe the memory that the job would need, for an error message. */
static const char *room_text(const struct fpisa_job *j, char text[64])
{
	text[0] = 0;
	if (fpisa_family_limbs(j->family))
		snprintf(text, 64, "; its superaccumulators take %llu KB",
			 (unsigned long long)datapath_job_limbs(j) / 1024);
	return text;
}

/* Return the number of entries that jobs can have, with superaccumulators or without. */
static __u32 entries(__u32 slots, bool limbs)
{
	return limbs ? 2 * slots / FPISA_EXACT_SHARE : 2 * slots;
}

/* Return whether the job needs what only the first entries have: superaccumulators, or parts of partial sums. */
static bool needs_first(const struct fpisa_job *j)
{
	return fpisa_family_limbs(j->family) || fpisa_in_tree(j);
}

/*
 * Choose the job's entries. Only the first entries have superaccumulators. Jobs without superaccumulators use these
 * entries last. The entries of a job begin at a multiple of their number.
 */
bool datapath_job_fit(const struct fpisa_job *jobs, __u32 slots, struct fpisa_job *j)
{
	bool limbs = needs_first(j);
	__u32 exact = entries(slots, true), all = entries(slots, limbs), need = 2 * j->window, base;

	base = first_fit(jobs, need, limbs ? 0 : (exact + need - 1) / need * need);
	if (base + need > all && !limbs)
		base = first_fit(jobs, need, 0);
	if (base + need > all)
		return false;
	j->slot_base = base;
	return true;
}

/*
 * Place the job. The error message begins with the limit and --slots, because its end may be truncated after the names
 * of a group and an aggregator.
 */
int datapath_job_place(const struct fpisa_job *jobs, __u32 slots, __u32 job, struct fpisa_job *j)
{
	bool limbs = needs_first(j);
	__u32 need = 2 * j->window, all = entries(slots, limbs);
	char room[64];

	if (!datapath_job_fit(jobs, slots, j))
		return refuse(-ENOSPC,
			      "job %u: window %u needs %u of %u slot entries%s, but %u are taken; load with --slots "
			      "greater than %u, delete finished jobs (fpisa job del), or try a smaller --window%s",
			      job, j->window, need, all, limbs ? " of mode exact" : "", taken_below(jobs, all), slots,
			      room_text(j, room));
	return 0;
}

int datapath_job_ports(__u32 port, __u32 job, const struct fpisa_job *j)
{
	if (j->ports > 1 && port + j->ports - 1 > 65535)
		return refuse(-EINVAL,
			      "job %u: %u ports from %u on would end above 65535; load with a lower --port, or give fewer "
			      "--ports",
			      job, j->ports, port);
	/*
	 * Refuse a rank on this machine that uses a port of the datapath. Frames to this rank would pass through the
	 * datapath on lo, and its socket would receive the frames that the datapath passes to the stack.
	 */
	for (__u32 r = 0; r < j->workers; r++) {
		__u32 own = ntohs(j->rank[r].port);

		/* The leaf on this machine has the port of the datapath. */
		if (j->flags & FPISA_JOB_LEAVES && own == port)
			continue;
		if (fpisa_is_own_address(j, &j->rank[r].addr) && own >= port && own < port + j->ports)
			return refuse(-EINVAL,
				      "job %u: rank %u has the aggregator's address and port %u, which the datapath "
				      "uses; "
				      "give it another port",
				      job, r, own);
	}
	return 0;
}
