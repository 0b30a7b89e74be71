// SPDX-License-Identifier: GPL-2.0-only
/*
 * Create, shrink and remove jobs while the datapath runs. A new job may get the number or the slots of an earlier job.
 * No function waits for programs that still process a frame of the earlier job.
 *
 * The entry of a job is written while the job is not active. A lock protects the state that such a frame may change,
 * and user space takes the lock too (own()). Programs check the state again under the lock. For a contribution, a
 * program compares the generation, which the session of a deleted job no longer has. For a HELLO, a program compares
 * the job (join_session() in bpf/hello.h). So a program that had the lock first has finished before the state is reset,
 * and a program that gets the lock later changes nothing. Results of the earlier job may still leave through the ports
 * of the new job. Ranks recognise their own results by the secret.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "cli/print.h"
#include "cli/report.h"
#include "datapath.h"
#include "family.h"
#include "fanout.h"
#include "fpisa/discard.h"
#include "fpisa/tree.h"
#include "generation.h"
#include "groups.h"
#include "host/privilege.h"
#include "job.h"
#include "kernel.h"
#include "log.h"
#include "pin.h"
#include "routes.h"

/* -- a leaf and its parent on this host ---------------------------------------- */

static bool has_parent_here(const struct fpisa_job *j, __u32 parent)
{
	return j->flags & FPISA_JOB_LEAF && j->parent.given && j->parent_job == parent;
}

/* Return the number of the leaf on this host whose parent is job `parent`, from 1, or 0. */
static __u32 leaf_below(const struct datapath *dp, __u32 parent)
{
	for (__u32 i = 0; i < FPISA_MAX_JOBS; i++)
		if (dp->jobs[i].active && has_parent_here(&dp->jobs[i], parent))
			return i + 1;
	return 0;
}

/* Refuse a second leaf of a parent on this host, because a frame from the parent does not name the leaf. */
static int refuse_second_leaf(const struct datapath *dp, __u32 job, const struct fpisa_job *j)
{
	const __u32 below = has_parent_here(j, j->parent_job) ? leaf_below(dp, j->parent_job) : 0;

	return !below ? 0 :
			refuse(-EEXIST,
			       "job %u: job %u is already the leaf of job %u on this machine; a parent has one leaf on each "
			       "machine",
			       job, below - 1, j->parent_job);
}

/* Tell the parent of a leaf, if it is on this host, that its leaf here is number `below`, from 1, or 0 for none. */
static void tell_parent(struct datapath *dp, const struct fpisa_job *leaf, __u32 below)
{
	struct fpisa_job *parent = &dp->jobs[leaf->parent_job % FPISA_MAX_JOBS];

	if (has_parent_here(leaf, leaf->parent_job) && parent->active && parent->flags & FPISA_JOB_LEAVES)
		__atomic_store_n(&parent->below, below, __ATOMIC_SEQ_CST);
}

/* -- state ------------------------------------------------------------- */

static int put(int fd, const char *what, __u32 key, const void *value)
{
	if (bpf_map_update_elem(fd, &key, value, BPF_ANY))
		return fail(-errno, NULL, "cannot write %s %u to the datapath's maps", what, key);
	return 0;
}

#define OWN_ATTEMPTS 64
#define OWN_PAUSE_NS 20000

/*
 * Take a lock that programs take too. A program holds a lock for microseconds, unless its CPU is stopped. If the lock
 * is still taken after all programs that run now have ended, it has no owner.
 */
static int own(struct datapath *dp, __u32 job, __u64 *lock)
{
	const struct timespec pause = {.tv_nsec = OWN_PAUSE_NS};
	int err;

	for (int i = 0; i < OWN_ATTEMPTS; i++) {
		__u64 free = 0;

		if (__atomic_compare_exchange_n(lock, &free, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			return 0;
		nanosleep(&pause, NULL);
	}
	err = fanout_wait(dp, job);
	if (!err)
		__atomic_store_n(lock, 1, __ATOMIC_SEQ_CST);
	return err;
}

/* Clear everything except the lock, which is the first member, and then release the lock. */
static int clear(struct datapath *dp, __u32 job, __u64 *lock, size_t size)
{
	int err = own(dp, job, lock);

	if (err)
		return err;
	memset(lock + 1, 0, size - sizeof(*lock));
	__atomic_store_n(lock, 0, __ATOMIC_SEQ_CST);
	return 0;
}

_Static_assert(!offsetof(struct fpisa_session, lock) && !offsetof(struct fpisa_slot, lock), "clear()");

/* End the generation of the job, so that no contribution and no result belongs to it from here on. */
static int end_session(struct datapath *dp, __u32 job)
{
	return clear(dp, job, &dp->sessions[job].lock, sizeof(dp->sessions[job]));
}

/* Return the state in which a leaf begins; its first attempt is larger than all its earlier attempts. */
static struct fpisa_uplink first_attempt(const struct fpisa_job *j)
{
	struct timespec t;

	if (!(j->flags & FPISA_JOB_LEAF))
		return (struct fpisa_uplink){0};
	clock_gettime(CLOCK_REALTIME, &t);
	return (struct fpisa_uplink){
		.attempt = t.tv_sec * 1000000000ull + t.tv_nsec, .job = j->parent_job, .rank = j->parent_rank};
}

/* Clear the state of an earlier job in all maps. */
static int reset(struct datapath *dp, __u32 job, const struct fpisa_job *j, const __u32 *ifindex)
{
	static const struct fpisa_histogram histogram;
	const struct fpisa_last_seen never = {0};
	const struct fpisa_leaf leaf = {.up = first_attempt(j)};
	struct fpisa_key token = fpisa_token_of(j);
	struct fpisa_nh_key nh = {0};
	void *counters = calloc(dp->cpus, sizeof(struct fpisa_counters));
	int err = counters ? end_session(dp, job) : fail(-ENOMEM, NULL, "job %u: cannot clear its counters", job);

	if (j->token)
		fpisa_nh_fill(nh.w, FPISA_NH_WORDS, &token);
	for (__u32 i = 0; !err && i < 2 * j->window; i++)
		err = clear(dp, job, &dp->slots[j->slot_base + i].lock, sizeof(*dp->slots));
	if (!err)
		err = put(dp->nh_keys_fd, "key of job", job, &nh);
	if (!err)
		err = put(dp->leaves_fd, "leaf", job, &leaf);
	if (!err)
		err = put(dp->counters_fd, "counters of job", job, counters);
	if (!err)
		err = put(dp->histogram_fd, "histogram of job", job, &histogram);
	/* The datapath uses the port in this entry until the HELLO of the worker replaces the entry. */
	for (__u32 r = 0; !err && r < FPISA_MAX_WORKERS; r++) {
		const struct fpisa_peer peer = {.ifindex = r < j->workers ? ifindex[r] : 0,
						.vlan_device = r < j->workers ? routes_vlan_device(j, r) : 0};

		err = put(dp->peers_fd, "peer", job * FPISA_MAX_WORKERS + r, &peer) ?:
			      put(dp->last_seen_fd, "peer", job * FPISA_MAX_WORKERS + r, &never);
	}
	free(counters);
	return err;
}

/*
 * Set the number of ports that the datapath accepts to the largest number of an active job, or to `ports` if that is
 * larger.
 */
static void listen_on(struct datapath *dp, __u32 ports)
{
	for (__u32 i = 0; i < FPISA_MAX_JOBS; i++)
		if (dp->jobs[i].active && dp->jobs[i].ports > ports)
			ports = dp->jobs[i].ports;
	__atomic_store_n(&dp->control->more_ports, ports ? ports - 1 : 0, __ATOMIC_RELEASE);
}

/*
 * Draw the job's key. Only the datapath and root may know the key, because every secret of the job's ranks is derived
 * from it.
 */
static int draw_key(__u32 job, struct fpisa_job *j)
{
	if (getrandom(&j->key, sizeof(j->key), 0) != sizeof(j->key))
		return fail(-errno, NULL, "job %u: cannot get a random key", job);
	return 0;
}

static int refuse_taken(__u32 number, bool wants_query, bool is_query)
{
	const char *is = is_query ? "query" : "job";

	if (wants_query == is_query)
		return refuse(-EEXIST, "%s %u already exists; run fpisa %s del %u, or take another number", is, number,
			      is, number);
	return refuse(
		-EEXIST,
		"%s %u: a %s has this number, and jobs and queries share the numbers 0 to %d; take another number, or "
		"run fpisa %s del %u",
		wants_query ? "query" : "job", number, is, FPISA_MAX_JOBS - 1, is, number);
}

int datapath_add(struct datapath *dp, __u32 job, struct fpisa_job *j, const __u32 *ifindex,
		 const struct datapath_kind *kind)
{
	int err;

	log_start();
	err = kind->check(job, j);
	if (!err)
		err = privilege_check(PRIVILEGE_LOAD, "job add");
	/* Check this here, because another loader may have attached the programs without this check. */
	if (!err)
		err = refuse_realtime();
	if (!err)
		err = datapath_map_state(dp) ?: datapath_lock(dp);
	if (err)
		return err;
	if (dp->jobs[job].active) {
		err = refuse_taken(job, fpisa_is_query(j), fpisa_is_query(&dp->jobs[job]));
		goto out;
	}
	j->active = 0;
	j->keyed = fpisa_wants_tags(j);
	j->copies = fanout_copies(j, ifindex);
	j->live = j->workers == 64 ? ~0ull : (1ull << j->workers) - 1;
	j->below = j->flags & FPISA_JOB_LEAVES ? leaf_below(dp, job) : 0;
	err = refuse_second_leaf(dp, job, j) ?: datapath_job_ports(dp->control->port ?: FPISA_PORT, job, j);
	if (!err)
		err = draw_key(job, j);
	if (!err)
		err = kind->load(dp, job, j);
	if (err)
		goto out;
	err = fanout_fill(dp, job, j, ifindex);
	if (!err)
		err = reset(dp, job, j, ifindex);
	/* This must be the last step that can fail, because it is not undone. */
	if (!err)
		err = routes_assert(dp, job, j);
	if (err) {
		fanout_empty(dp, job);
		if (kind->unload)
			kind->unload(dp, job);
		goto out;
	}
	generations_seed(dp->control);
	listen_on(dp, j->ports);
	memcpy(&dp->jobs[job], j, sizeof(*j));
	j->active = 1;
	__atomic_store_n(&dp->jobs[job].active, 1, __ATOMIC_SEQ_CST);
	tell_parent(dp, j, job + 1);
out:
	datapath_unlock(dp);
	return err;
}

static int load_family(const struct datapath *dp, __u32 job, struct fpisa_job *j)
{
	return datapath_job_place(dp->jobs, dp->slots_n, job, j) ?: family_load(dp, j->family);
}

int datapath_job_add(struct datapath *dp, __u32 job, struct fpisa_job *j, const __u32 *ifindex)
{
	static const struct datapath_kind jobs = {.check = datapath_job_check, .load = load_family};

	return datapath_add(dp, job, j, ifindex, &jobs);
}

int datapath_job_reassert(const struct datapath *dp, __u32 job)
{
	return routes_assert(dp, job, &dp->jobs[job]);
}

int datapath_take_away(struct datapath *dp, __u32 job)
{
	routes_release(dp, job);
	tell_parent(dp, &dp->jobs[job], 0);
	__atomic_store_n(&dp->jobs[job].active, 0, __ATOMIC_SEQ_CST);
	listen_on(dp, 1);
	return end_session(dp, job) ?: fanout_empty(dp, job);
}

int datapath_job_del(struct datapath *dp, __u32 job)
{
	struct fpisa_job j;
	int err;

	err = datapath_map_state(dp) ?: datapath_lock(dp);
	if (err)
		return err;
	err = datapath_job(dp, job, &j);
	if (!err)
		err = datapath_take_away(dp, job);
	datapath_unlock(dp);
	return err;
}

int datapath_job_end(struct datapath *dp, __u32 job, __u64 token)
{
	int err = datapath_map_state(dp) ?: datapath_lock(dp);

	if (err)
		return err;
	if (datapath_has_job(dp, job, token))
		err = datapath_take_away(dp, job);
	datapath_unlock(dp);
	return err;
}

/* -- shrink ------------------------------------------------------------ */

/* Refuse to shrink the job of a group, because the sums of a group must have all ranks. */
static int refuse_group(struct datapath *dp, __u32 job, const struct fpisa_job *j)
{
	char group[FPISA_MANAGER_NAME];
	int err = datapath_group_of(dp, j, group);

	if (err || !group[0])
		return err;
	return refuse(-EPERM,
		      "job %u belongs to group %s, whose sums need all ranks; end the rank's process, so that the other "
		      "ranks learn of it, or run fpisa group kill %s",
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
		err = refuse(-ENOENT, "job %u: these ranks are not live: %s; see fpisa job show %u", job,
			     ranks_text(ranks & ~j.live, text), job);
		goto out;
	}
	*live = j.live & ~ranks;
	if (!*live) {
		err = refuse(-EINVAL, "job %u: no rank would be left; to remove it, run fpisa job del %u", job, job);
		goto out;
	}
	err = privilege_check(PRIVILEGE_LOOK, "job shrink");
	if (err)
		goto out;
	__atomic_store_n(&dp->jobs[job].live, *live, __ATOMIC_SEQ_CST);
	fanout_shrink(dp, job, &j, ranks, *live);
out:
	datapath_unlock(dp);
	return err;
}

/* -- leftovers --------------------------------------------------------- */

int datapath_leftovers(const struct datapath *dp, uint64_t *n)
{
	struct fpisa_session session;
	struct fpisa_slot slot;
	int err = 0;

	for (__u32 job = 0; !err && job < FPISA_MAX_JOBS; job++) {
		*n += dp->jobs[job].active || fanout_any(dp, job);
		err = datapath_session(dp, job, &session);
		*n += !err && session.lock;
	}
	for (__u32 key = 0; !err && key < 2 * dp->slots_n; key++) {
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
