// SPDX-License-Identifier: GPL-2.0-only
/*
 * Make, shrink and remove jobs. The datapath may run all the while: a job's
 * entry is written while it is not active, and replacing an inner map of
 * fpisa_fanout makes the kernel wait for programs that are running, so
 * whatever an earlier job of the same number still had under way is over
 * before its state is reset.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cli/print.h"
#include "cli/report.h"
#include "datapath.h"
#include "egress.h"
#include "family.h"
#include "fpisa/discard.h"
#include "generation.h"
#include "groups.h"
#include "host/privilege.h"
#include "kernel.h"
#include "log.h"
#include "pin.h"
#include "query.h"
#include "routes.h"

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
		err = reply_ports_give(dp, job, ifindex, j->workers, egress);
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
		err = fail(-errno, NULL, "job %u: remove its ports for replies", job);
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
	const struct fpisa_last_seen never = { 0 };
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
			      put(dp->last_seen_fd, "peer", job * FPISA_MAX_WORKERS + r, &never);
	}
	free(counters);
	return err;
}

/* The parser looks at as many ports as the job with the most has. */
static void listen_on(struct datapath *dp, __u32 ports)
{
	for (__u32 i = 0; i < FPISA_MAX_JOBS; i++)
		if (dp->jobs[i].active && dp->jobs[i].ports > ports)
			ports = dp->jobs[i].ports;
	__atomic_store_n(&dp->control->more_ports, ports ? ports - 1 : 0, __ATOMIC_RELEASE);
}

/* Nobody but the datapath and root may know it: every secret of the job's ranks follows from it. */
static int draw_key(__u32 job, struct fpisa_job *j)
{
	if (getrandom(&j->key, sizeof(j->key), 0) != sizeof(j->key))
		return fail(-errno, NULL, "job %u: random key", job);
	return 0;
}

static int refuse_taken(__u32 number, bool wants_query, bool is_query)
{
	const char *is = is_query ? "query" : "job";

	if (wants_query == is_query)
		return refuse(-EEXIST, "%s %u: exists already; fpisa %s del %u, or take another number", is, number, is, number);
	return refuse(-EEXIST, "%s %u: a %s has this number, and jobs and queries share the numbers 0 to %d; take another number, or "
			       "fpisa %s del %u", wants_query ? "query" : "job", number, is, FPISA_MAX_JOBS - 1, is, number);
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
		err = refuse_taken(job, fpisa_is_query(j), fpisa_is_query(&dp->jobs[job]));
		goto out;
	}
	j->active = 0;
	j->live = j->workers == 64 ? ~0ull : (1ull << j->workers) - 1;
	err = datapath_job_ports(dp->control->port ?: FPISA_PORT, job, j);
	if (!err)
		err = draw_key(job, j);
	if (!err)
		err = fpisa_is_query(j) ? query_load(dp, job, j) :
					  datapath_job_place(dp->jobs, job, j) ?: family_load(dp, j->family);
	if (err)
		goto out;
	err = make_fanout(dp, job, j, ifindex);
	if (!err)
		err = reset(dp, job, j, ifindex);
	/* The last that may be refused: nothing takes it back. */
	if (!err)
		err = routes_assert(job, j);
	if (err) {
		remove_fanout(dp, job);
		if (fpisa_is_query(j))
			query_unload(dp, job);
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

static int take_away(struct datapath *dp, __u32 job)
{
	routes_release(dp, job);
	__atomic_store_n(&dp->jobs[job].active, 0, __ATOMIC_SEQ_CST);
	listen_on(dp, 1);
	return remove_fanout(dp, job);
}

int datapath_job_del(struct datapath *dp, __u32 job)
{
	struct fpisa_job j;
	int err;

	err = datapath_lock(dp);
	if (err)
		return err;
	err = datapath_job(dp, job, &j);
	if (!err)
		err = take_away(dp, job);
	datapath_unlock(dp);
	return err;
}

int datapath_query_del(struct datapath *dp, __u32 query)
{
	struct fpisa_job j;
	int err;

	err = datapath_lock(dp);
	if (err)
		return err;
	err = datapath_query(dp, query, &j);
	if (!err)
		err = take_away(dp, query);
	query_unload(dp, query);
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

/* A group's sums are over all of its ranks, or there is none. */
static int refuse_group(struct datapath *dp, __u32 job, const struct fpisa_job *j)
{
	char group[FPISA_MANAGER_NAME];
	int err = datapath_group_of(dp, j, group);

	if (err || !group[0])
		return err;
	return refuse(-EPERM,
		      "job %u: it is of group %s, whose sums need all of its ranks; end the rank's process, and the others hear "
		      "which rank is gone, or fpisa group kill %s",
		      job, group, group);
}

int datapath_job_shrink(struct datapath *dp, __u32 job, __u64 ranks, __u64 *live)
{
	char text[RANKS_LEN];
	struct fpisa_job j;
	int err;

	err = datapath_lock(dp);
	if (err)
		return err;
	err = datapath_job(dp, job, &j) ?: refuse_group(dp, job, &j);
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
		*n += !err && session.lock;
	}
	for (__u32 key = 0; !err && key < FPISA_MAX_SLOTS; key++) {
		err = datapath_slot(dp, key, &slot);
		*n += !err && slot.lock;
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
