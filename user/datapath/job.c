// SPDX-License-Identifier: GPL-2.0-only
/*
 * Make, shrink and remove jobs. The datapath may run all the while: a job's
 * entry is written while it is not active, and replacing an inner map of
 * fpisa_fanout makes the kernel wait for programs that are running, so
 * whatever an earlier job of the same number still had under way is over
 * before its state is reset.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "cli/names.h"
#include "cli/print.h"
#include "cli/report.h"
#include "fpisa/discard.h"
#include "host/privilege.h"
#include "internal.h"

static int check_members(__u32 job, const struct fpisa_job *j)
{
	char a[ADDRESS_LEN];

	for (__u32 r = 0; r < j->workers; r++) {
		address_text(j->rank[r].addr, a);
		for (__u32 k = 0; k < r; k++)
			if (j->rank[k].addr == j->rank[r].addr && j->rank[k].port == j->rank[r].port)
				return refuse(
					-EINVAL,
					"job %u: ranks %u and %u are both %s:%u; give each its own port", job,
					k, r, a, ntohs(j->rank[r].port));
		if (j->fanout == FPISA_FANOUT_MULTICAST && j->rank[r].port != j->group_port)
			return refuse(
				-EINVAL,
				"job %u: multicast needs one UDP port for all, rank %u has %u and rank 0 has %u; "
				"try --fanout unicast",
				job, r, ntohs(j->rank[r].port), ntohs(j->group_port));
		if (j->rank[r].addr == j->address)
			return refuse(-EINVAL, "job %u: rank %u has the aggregator's address %s", job, r, a);
	}
	return 0;
}

static int check(__u32 job, const struct fpisa_job *j)
{
	struct fpisa_format f = fpisa_job_format(j);

	if (!f.bytes)
		return refuse(-EINVAL, "job %u: format %u is not known", job, j->format);
	if (job >= FPISA_MAX_JOBS)
		return refuse(-EINVAL, "job %u: numbers are 0 to %d", job, FPISA_MAX_JOBS - 1);
	if (!j->workers || j->workers > FPISA_MAX_WORKERS)
		return refuse(-EINVAL, "job %u: %u workers; 1 to %d are possible", job, j->workers,
			      FPISA_MAX_WORKERS);
	if (f.integer && j->mode != FPISA_MODE_FPISA)
		return refuse(-EINVAL, "job %u: integers have no modes; leave --mode out", job);
	if (f.integer && j->rounding == FPISA_ROUND_NEAREST)
		return refuse(-EINVAL, "job %u: integers are not rounded; leave --rounding out", job);
	if (j->flags & FPISA_JOB_RECIPROCAL && !fpisa_op_offered(f, j->mode, FPISA_OP_AVG))
		return refuse(-EINVAL, "job %u: %s has no averages; leave --reciprocal out", job,
			      name_of(format_names, j->format));
	if (f.bytes == 1 && j->flags & FPISA_JOB_BIG_ENDIAN)
		return refuse(-EINVAL, "job %u: values of one byte have no byte order; leave --big-endian out", job);
	if ((f.integer || j->mode == FPISA_MODE_EXACT) && j->flags & FPISA_JOB_HISTOGRAM)
		return refuse(-EINVAL,
			      "job %u: adds of int32 and of mode exact discard nothing; leave --histogram out", job);
	if (j->flags & FPISA_JOB_UNCOUNTED && j->flags & FPISA_JOB_HISTOGRAM)
		return refuse(-EINVAL, "job %u: a histogram is a statistic; leave --histogram or --no-statistics out", job);
	if (!fpisa_mode_offered(f, j->mode))
		return refuse(-EINVAL,
			      "job %u: exact sums of fp64 take 66 limbs an element, 220 KB a slot version, and are not "
			      "offered; try --mode fpisa64",
			      job);
	if (j->mode != FPISA_MODE_FPISA_A && j->mode != FPISA_MODE_EXACT && !f.integer &&
	    j->workers > 1ull << fpisa_headroom(f))
		return refuse(-EINVAL, "job %u: %u workers overflow the headroom of %d bits; at most %llu", job,
			      j->workers, fpisa_headroom(f), 1ull << fpisa_headroom(f));
	if (!j->elements || j->elements % FPISA_BLOCK || j->elements > fpisa_max_elements(f))
		return refuse(-EINVAL, "job %u: %u elements a frame; a multiple of %d up to %u is possible",
			      job, j->elements, FPISA_BLOCK, fpisa_max_elements(f));
	if (!j->window || j->window & (j->window - 1) || j->window > FPISA_MAX_SLOTS / 2)
		return refuse(-EINVAL, "job %u: window %u; a power of two up to %d is possible", job,
			      j->window, FPISA_MAX_SLOTS / 2);
	if (j->ports & (j->ports - 1) || j->ports > FPISA_MAX_PORTS)
		return refuse(-EINVAL, "job %u: %u ports; a power of two up to %d is possible", job, j->ports,
			      FPISA_MAX_PORTS);
	if (j->ports > j->window)
		return refuse(-EINVAL, "job %u: %u ports for a window of %u slots; at most --ports %u", job, j->ports,
			      j->window, j->window);
	return check_members(job, j);
}

int datapath_job_check(__u32 job, struct fpisa_job *j)
{
	j->guard = fpisa_register(j->format, j->mode, j->workers).guard;
	j->family = fpisa_family(fpisa_job_format(j), j->mode);
	return check(job, j);
}

/* First fit of `need` entries from `from` on, among the active jobs' regions. */
static __u32 first_fit(const struct fpisa_job *jobs, __u32 need, __u32 from)
{
	__u32 base = from;

	for (__u32 i = 0; i < FPISA_MAX_JOBS; i++) {
		const struct fpisa_job *other = &jobs[i];

		if (!other->active || base >= other->slot_base + 2 * other->window ||
		    other->slot_base >= base + need)
			continue;
		base = other->slot_base + 2 * other->window;
		/* Earlier entries may overlap the new place. */
		i = -1u;
	}
	return base;
}

/* Entries below `end` that active jobs have. */
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

/* Superaccumulators exist for the first entries alone: other jobs take those last. */
int datapath_job_place(const struct fpisa_job *jobs, __u32 job, struct fpisa_job *j)
{
	bool limbs = fpisa_family_limbs(j->family);
	__u32 need = 2 * j->window, all = limbs ? FPISA_MAX_EXACT_SLOTS : FPISA_MAX_SLOTS, base;

	base = first_fit(jobs, need, limbs ? 0 : FPISA_MAX_EXACT_SLOTS);
	if (base + need > all && !limbs)
		base = first_fit(jobs, need, 0);
	if (base + need > all)
		return refuse(-ENOSPC,
			      "job %u: window %u needs %u of %d slot entries%s, %u are taken; try a smaller "
			      "--window, or fpisa job del what is done",
			      job, j->window, need, all, limbs ? " of mode exact" : "", taken_below(jobs, all));
	j->slot_base = base;
	return 0;
}

/* -- fan-out ------------------------------------------------------------ */

static int set_port(__u32 job, int ports, __u32 key, __u32 ifindex, int prog_fd)
{
	struct bpf_devmap_val val = { .ifindex = ifindex, .bpf_prog.fd = prog_fd };

	if (bpf_map_update_elem(ports, &key, &val, BPF_ANY))
		return fail(-errno, "was it made in this network namespace?", "job %u: interface %u as port",
			    job, ifindex);
	return 0;
}

/* Multicast: an entry a port, at the first rank that uses it. Unicast: an entry a rank. */
static int fill_ports(__u32 job, const struct fpisa_job *j, const __u32 *ifindex, int ports, int prog_fd)
{
	bool unicast = j->fanout == FPISA_FANOUT_UNICAST;
	int err = 0;

	for (__u32 r = 0; !err && r < j->workers; r++) {
		__u32 k = 0;

		while (k < r && ifindex[k] != ifindex[r])
			k++;
		if (unicast || k == r)
			err = set_port(job, ports, r, ifindex[r], prog_fd);
	}
	return err;
}

static int make_fanout(struct datapath *dp, __u32 job, const struct fpisa_job *j, const __u32 *ifindex)
{
	int ports, egress = -1, err;

	/* A broadcast looks at every entry, also the empty ones. */
	ports = bpf_map_create(BPF_MAP_TYPE_DEVMAP, "fpisa_ports", sizeof(__u32),
			       sizeof(struct bpf_devmap_val), j->workers, NULL);
	if (ports < 0)
		return fail(-errno, NULL, "job %u: make device map", job);
	err = egress_open(dp->pin, &egress);
	if (!err)
		err = fill_ports(job, j, ifindex, ports, egress);
	if (!err)
		err = ways_give(dp, job, ifindex, j->workers, egress);
	if (!err)
		err = pin_share(dp->pin);
	if (!err && bpf_map_update_elem(dp->fanout_fd, &job, &ports, BPF_ANY))
		err = fail(-errno, NULL, "job %u: put device map into fpisa_fanout", job);
	if (egress >= 0)
		close(egress);
	close(ports);
	return err;
}

static int remove_fanout(struct datapath *dp, __u32 job)
{
	int err = 0;

	if (bpf_map_delete_elem(dp->fanout_fd, &job) && errno != ENOENT)
		err = fail(-errno, NULL, "job %u: remove device map", job);
	if (bpf_map_delete_elem(dp->replies_fd, &job) && errno != ENOENT)
		err = fail(-errno, NULL, "job %u: remove its way of replies", job);
	return err;
}

/* -- state ------------------------------------------------------------- */

static int put(int fd, const char *what, __u32 key, const void *value)
{
	if (bpf_map_update_elem(fd, &key, value, BPF_ANY))
		return fail(-errno, NULL, "%s %u: write", what, key);
	return 0;
}

/* Nothing of an earlier job stays, in any map. */
static int reset(struct datapath *dp, __u32 job, const struct fpisa_job *j, const __u32 *ifindex)
{
	static const struct fpisa_histogram histogram;
	const struct fpisa_session session = { 0 };
	const struct fpisa_heard heard = { 0 };
	const struct fpisa_slot slot = { 0 };
	void *counters = calloc(dp->cpus, sizeof(struct fpisa_counters));
	int err = counters ? 0 : fail(-ENOMEM, NULL, "counters");

	if (!err)
		err = put(dp->counters_fd, "counters of job", job, counters);
	if (!err)
		err = put(dp->sessions_fd, "session of job", job, &session);
	if (!err)
		err = put(dp->histogram_fd, "histogram of job", job, &histogram);
	for (__u32 i = 0; !err && i < 2 * j->window; i++)
		err = put(dp->slots_fd, "slot", j->slot_base + i, &slot);
	/* The worker's own HELLO replaces this; until then it tells the port. */
	for (__u32 r = 0; !err && r < FPISA_MAX_WORKERS; r++) {
		const struct fpisa_peer peer = { .ifindex = r < j->workers ? ifindex[r] : 0 };

		err = put(dp->peers_fd, "peer", job * FPISA_MAX_WORKERS + r, &peer) ?:
			      put(dp->heard_fd, "peer", job * FPISA_MAX_WORKERS + r, &heard);
	}
	free(counters);
	return err;
}

void generations_seed(struct fpisa_control *control)
{
	__u32 old = __atomic_load_n(&control->next_generation, __ATOMIC_RELAXED), now;
	struct timespec t = { 0 };

	clock_gettime(CLOCK_REALTIME, &t);
	now = (__u32)t.tv_sec * FPISA_GENERATIONS_S + (__u32)t.tv_nsec / (1000000000 / FPISA_GENERATIONS_S);
	/* 0 is that of a datapath which nobody has seeded. Numbers wrap: the difference says which is later. */
	while ((!old || (__s32)(now - old) > 0) &&
	       !__atomic_compare_exchange_n(&control->next_generation, &old, now, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED))
		;
}

/* The parser looks at as many ports as the job with the most has. */
static void listen_on(struct datapath *dp, __u32 ports)
{
	for (__u32 i = 0; i < FPISA_MAX_JOBS; i++)
		if (dp->jobs[i].active && dp->jobs[i].ports > ports)
			ports = dp->jobs[i].ports;
	__atomic_store_n(&dp->control->more_ports, ports ? ports - 1 : 0, __ATOMIC_RELEASE);
}

int datapath_job_ports(__u32 port, __u32 job, const struct fpisa_job *j)
{
	if (j->ports > 1 && port + j->ports - 1 > 65535)
		return refuse(-EINVAL, "job %u: %u ports from %u on; 65535 is the last there is", job, j->ports, port);
	return 0;
}

/* Nobody but the datapath and root may know it: every secret of the job's ranks follows from it. */
static int draw_key(__u32 job, struct fpisa_job *j)
{
	if (getrandom(&j->key, sizeof(j->key), 0) != sizeof(j->key))
		return fail(-errno, NULL, "job %u: random key", job);
	return 0;
}

int datapath_job_add(struct datapath *dp, __u32 job, struct fpisa_job *j, const __u32 *ifindex)
{
	int err;

	log_start();
	err = datapath_job_check(job, j);
	if (!err)
		err = privilege_check(PRIVILEGE_LOAD, "job add");
	/* Whatever else attached the programs did not look. */
	if (!err)
		err = refuse_realtime();
	if (!err)
		err = datapath_lock(dp);
	if (err)
		return err;
	if (dp->jobs[job].active) {
		err = refuse(-EEXIST, "job %u: exists already; fpisa job del %u, or take another number", job,
			     job);
		goto out;
	}
	j->active = 0;
	j->live = j->workers == 64 ? ~0ull : (1ull << j->workers) - 1;
	err = datapath_job_ports(dp->control->port ?: FPISA_PORT, job, j);
	if (!err)
		err = draw_key(job, j);
	if (!err)
		err = routes_assert(job, j);
	if (!err)
		err = datapath_job_place(dp->jobs, job, j);
	if (!err)
		err = family_load(dp, j->family);
	if (err)
		goto out;
	err = make_fanout(dp, job, j, ifindex);
	if (!err)
		err = reset(dp, job, j, ifindex);
	if (err) {
		remove_fanout(dp, job);
		goto out;
	}
	generations_seed(dp->control);
	listen_on(dp, j->ports);
	memcpy(&dp->jobs[job], j, sizeof(*j));
	j->active = 1;
	__atomic_store_n(&dp->jobs[job].active, 1, __ATOMIC_SEQ_CST);
out:
	datapath_unlock(dp);
	return err;
}

int datapath_job_reassert(const struct datapath *dp, __u32 job)
{
	return routes_assert(job, &dp->jobs[job]);
}

int datapath_job_del(struct datapath *dp, __u32 job)
{
	struct fpisa_job j;
	int err;

	err = datapath_lock(dp);
	if (err)
		return err;
	err = datapath_job(dp, job, &j);
	if (err)
		goto out;
	__atomic_store_n(&dp->jobs[job].active, 0, __ATOMIC_SEQ_CST);
	listen_on(dp, 1);
	routes_release(dp, &j);
	err = remove_fanout(dp, job);
out:
	datapath_unlock(dp);
	return err;
}

/* -- shrink ------------------------------------------------------------ */

/* Ports that no live rank needs get no more copies. */
static void shrink_fanout(struct datapath *dp, __u32 job, const struct fpisa_job *j, __u64 ranks, __u64 live)
{
	struct fpisa_peer peer[FPISA_MAX_WORKERS] = { 0 };
	__u32 inner = 0;
	int ports;

	if (bpf_map_lookup_elem(dp->fanout_fd, &job, &inner))
		return;
	ports = bpf_map_get_fd_by_id(inner);
	for (__u32 r = 0; r < j->workers; r++)
		if (datapath_peer(dp, job, r, &peer[r]))
			goto out;
	for (__u32 r = 0; r < j->workers; r++) {
		struct bpf_devmap_val val;
		bool needed = false;

		if (bpf_map_lookup_elem(ports, &r, &val))
			continue;
		if (j->fanout == FPISA_FANOUT_UNICAST) {
			needed = !(ranks >> r & 1);
		} else {
			bool left = false;

			for (__u32 k = 0; k < j->workers; k++)
				if (peer[k].ifindex == val.ifindex) {
					needed |= live >> k & 1;
					left |= ranks >> k & 1;
				}
			needed |= !left;
		}
		if (!needed)
			bpf_map_delete_elem(ports, &r);
	}
out:
	if (ports >= 0)
		close(ports);
}

int datapath_job_shrink(struct datapath *dp, __u32 job, __u64 ranks, __u64 *live)
{
	char text[RANKS_LEN];
	struct fpisa_job j;
	int err;

	err = datapath_lock(dp);
	if (err)
		return err;
	err = datapath_job(dp, job, &j);
	if (err)
		goto out;
	if (ranks & ~j.live) {
		err = refuse(-ENOENT, "job %u: not among the live ranks: %s; see fpisa job show %u", job,
			     ranks_text(ranks & ~j.live, text), job);
		goto out;
	}
	*live = j.live & ~ranks;
	if (!*live) {
		err = refuse(-EINVAL, "job %u: no rank would be left; fpisa job del %u removes the job", job,
			     job);
		goto out;
	}
	err = privilege_check(PRIVILEGE_LOOK, "job shrink");
	if (err)
		goto out;
	__atomic_store_n(&dp->jobs[job].live, *live, __ATOMIC_SEQ_CST);
	shrink_fanout(dp, job, &j, ranks, *live);
out:
	datapath_unlock(dp);
	return err;
}

/* -- leftovers --------------------------------------------------------- */

int datapath_leftovers(const struct datapath *dp, uint64_t *n)
{
	struct fpisa_session session;
	struct fpisa_slot slot;
	__u32 inner;
	int err = 0;

	for (__u32 job = 0; !err && job < FPISA_MAX_JOBS; job++) {
		*n += dp->jobs[job].active != 0;
		*n += !bpf_map_lookup_elem(dp->fanout_fd, &job, &inner);
		*n += !bpf_map_lookup_elem(dp->replies_fd, &job, &inner);
		err = datapath_session(dp, job, &session);
		*n += !err && session.guard;
	}
	for (__u32 key = 0; !err && key < FPISA_MAX_SLOTS; key++) {
		err = datapath_slot(dp, key, &slot);
		*n += !err && slot.guard;
	}
	return err;
}

bool datapath_remains(__u32 jobs_id)
{
	int fd = bpf_map_get_fd_by_id(jobs_id);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}
