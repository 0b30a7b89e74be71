// SPDX-License-Identifier: GPL-2.0-only
/* Ports of jobs' results; fanout.h has the contracts. */
#include <bpf/bpf.h>
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "cli/report.h"
#include "egress.h"
#include "fanout.h"
#include "host/privilege.h"
#include "info.h"
#include "pin.h"

/*
 * Return the size of a map for `workers` workers. There are three sizes, because a broadcast also reads the empty
 * entries, which takes some 100 ns for 64 entries and no measurable time for 8.
 */
static __u32 room_for(__u32 workers)
{
	return workers <= 8 ? 8 : workers <= 16 ? 16 : FPISA_MAX_WORKERS;
}

static int make_map(__u32 job, __u32 room)
{
	int ports = bpf_map_create(BPF_MAP_TYPE_DEVMAP, "fpisa_ports", sizeof(__u32), sizeof(struct bpf_devmap_val),
				   room, NULL);

	return ports < 0 ? fail(-errno, NULL, "job %u: cannot create the map of interfaces for its results", job) :
			   ports;
}

static void keep_map(struct datapath *dp, __u32 job, int ports)
{
	if (dp->ports_fd[job] > 0)
		close(dp->ports_fd[job]);
	dp->ports_fd[job] = ports;
}

/*
 * Open the map of a job number, and set *room to its size. The map stays open. Return the descriptor, or -ENOENT, or
 * -EPERM without CAP_SYS_ADMIN. Report no errors.
 */
static int open_map(struct datapath *dp, __u32 job, __u32 *room)
{
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info), id;
	int ports;

	if (bpf_map_lookup_elem(dp->fanout_fd, &job, &id))
		return -errno;
	if (dp->ports_fd[job] <= 0 || map_id(dp->ports_fd[job]) != id) {
		ports = bpf_map_get_fd_by_id(id);
		if (ports < 0)
			return -errno;
		keep_map(dp, job, ports);
	}
	if (bpf_obj_get_info_by_fd(dp->ports_fd[job], &info, &len))
		return -errno;
	*room = info.max_entries;
	return dp->ports_fd[job];
}

/* Put a map into fpisa_fanout. This waits for a grace period. */
static int put_map(struct datapath *dp, __u32 job, int ports)
{
	if (bpf_map_update_elem(dp->fanout_fd, &job, &ports, BPF_ANY))
		return fail(-errno, NULL, "job %u: cannot set the interfaces of its results (map fpisa_fanout)", job);
	return 0;
}

static int make_and_put(struct datapath *dp, __u32 job, __u32 room)
{
	int ports = make_map(job, room);

	if (ports < 0)
		return ports;
	keep_map(dp, job, ports);
	return put_map(dp, job, ports);
}

__u32 datapath_job_room(struct datapath *dp, __u32 job)
{
	__u32 room = 0;

	return open_map(dp, job, &room) < 0 ? 0 : room;
}

/* -- a job's ports -------------------------------------------------------- */

static int set_port(__u32 job, int ports, __u32 key, __u32 ifindex, int prog_fd)
{
	struct bpf_devmap_val val = {.ifindex = ifindex, .bpf_prog.fd = prog_fd};

	if (bpf_map_update_elem(ports, &key, &val, BPF_ANY))
		return fail(-errno, "was the job created in this network namespace?",
			    "job %u: cannot send results through interface %u", job, ifindex);
	return 0;
}

static int clear_port(__u32 job, int ports, __u32 key)
{
	if (bpf_map_delete_elem(ports, &key) && errno != ENOENT)
		return fail(-errno, NULL,
			    "job %u: cannot remove the interface of rank %u from the interfaces for results", job, key);
	return 0;
}

/* Return the first rank that uses the port of rank `r`. */
static __u32 first_behind(const __u32 *ifindex, __u32 r)
{
	__u32 k = 0;

	while (ifindex[k] != ifindex[r])
		k++;
	return k;
}

enum fpisa_copies fanout_copies(const struct fpisa_job *j, const __u32 *ifindex)
{
	__u32 ports = 0;

	if (j->fanout != FPISA_FANOUT_MULTICAST)
		return FPISA_COPIES_NONE;
	for (__u32 r = 0; r < j->workers; r++)
		ports += first_behind(ifindex, r) == r;
	return ports == j->workers ? FPISA_COPIES_PORTS : ports == 1 ? FPISA_COPIES_ONE_PORT : FPISA_COPIES_NONE;
}

/*
 * Set the job's ports and clear all other entries. There is an entry for each rank, or for each port, at the first rank
 * that uses the port, if a multicast job cannot send copies.
 */
static int set_ports(__u32 job, const struct fpisa_job *j, const __u32 *ifindex, int ports, __u32 room, int prog_fd)
{
	bool each = j->fanout == FPISA_FANOUT_UNICAST || j->copies;
	int err = 0;

	for (__u32 r = 0; !err && r < room; r++)
		err = r < j->workers && (each || first_behind(ifindex, r) == r) ?
			      set_port(job, ports, r, ifindex[r], prog_fd) :
			      clear_port(job, ports, r);
	return err;
}

int fanout_fill(struct datapath *dp, __u32 job, const struct fpisa_job *j, const __u32 *ifindex)
{
	__u32 room = 0;
	int ports = open_map(dp, job, &room), egress = -1, err;
	bool new = ports < 0 || room < j->workers;

	if (new) {
		room = room_for(j->workers);
		ports = make_map(job, room);
		if (ports < 0)
			return ports;
		keep_map(dp, job, ports);
	}
	err = egress_open(dp->pin, &egress);
	if (!err)
		err = set_ports(job, j, ifindex, ports, room, egress);
	if (!err)
		err = reply_ports_give(dp, job, ifindex, j->workers, egress);
	if (!err)
		err = pin_share(dp->pin);
	if (!err && new)
		err = put_map(dp, job, ports);
	if (egress >= 0)
		close(egress);
	return err;
}

int fanout_empty(struct datapath *dp, __u32 job)
{
	__u32 room = 0;
	int ports = open_map(dp, job, &room), err = 0;

	/*
	 * Another process has created the map, and this process may neither open it nor, perhaps, create another map.
	 */
	if (ports == -EPERM)
		return privilege_has(PRIVILEGE_LOAD) ? make_and_put(dp, job, room_for(dp->jobs[job].workers)) :
						       fanout_remove(dp, job);
	if (ports < 0)
		return ports == -ENOENT ? 0 :
					  fail(ports, NULL, "job %u: cannot read the interfaces of its results", job);
	for (__u32 r = 0; !err && r < room; r++)
		err = clear_port(job, ports, r);
	return err;
}

int fanout_remove(struct datapath *dp, __u32 job)
{
	if (bpf_map_delete_elem(dp->fanout_fd, &job) && errno != ENOENT)
		return fail(-errno, NULL, "job %u: cannot remove the interfaces of its results (map fpisa_fanout)", job);
	return 0;
}

/* Wait by putting a map into the array. The job must have no ports. */
int fanout_wait(struct datapath *dp, __u32 job)
{
	__u32 room = FPISA_MAX_WORKERS;
	int ports = open_map(dp, job, &room);

	return ports < 0 ? make_and_put(dp, job, room) : put_map(dp, job, ports);
}

bool fanout_any(const struct datapath *dp, __u32 job)
{
	__u32 ifindex, egress;

	for (__u32 r = 0; r < FPISA_MAX_WORKERS; r++)
		if (!datapath_port(dp, job, r, &ifindex, &egress))
			return true;
	return false;
}

void fanout_shrink(struct datapath *dp, __u32 job, const struct fpisa_job *j, __u64 ranks, __u64 live)
{
	struct fpisa_peer peer[FPISA_MAX_WORKERS] = {0};
	__u32 room = 0;
	int ports = open_map(dp, job, &room);

	if (ports < 0)
		return;
	for (__u32 r = 0; r < j->workers; r++)
		if (datapath_peer(dp, job, r, &peer[r]))
			return;
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
}

/* -- maps for future jobs --------------------------------------------------- */

struct preparation {
	struct datapath *dp;
	__u32 job, room;
	int err;
	pthread_t thread;
};

static void *prepare(void *arg)
{
	struct preparation *p = arg;

	if (!p->dp->jobs[p->job].active && !datapath_job_room(p->dp, p->job))
		p->err = make_and_put(p->dp, p->job, p->room);
	p->err = p->err ?: reply_ports_put(p->dp, p->job);
	return NULL;
}

/* Use a thread for each number, so that all of them wait for a grace period at the same time. */
int datapath_jobs_prepare(struct datapath *dp, __u64 jobs)
{
	struct preparation p[FPISA_MAX_JOBS];
	__u32 n = 0, all = (__u32)__builtin_popcountll(jobs);
	int err = datapath_lock(dp);

	if (err)
		return err;
	err = reply_ports_open(dp);
	for (__u32 job = 0; !err && job < FPISA_MAX_JOBS; job++) {
		if (!(jobs >> job & 1))
			continue;
		/* Half of the maps are small, because most groups are small. */
		p[n] = (struct preparation){.dp = dp,
					    .job = job,
					    .room = n < all / 2	    ? room_for(1) :
						    n < all / 4 * 3 ? room_for(16) :
								      FPISA_MAX_WORKERS};
		err = -pthread_create(&p[n].thread, NULL, prepare, &p[n]);
		if (err)
			fail(err, NULL, "job %u: cannot start the thread that prepares its map of interfaces", job);
		else
			n++;
	}
	while (n--) {
		pthread_join(p[n].thread, NULL);
		err = err ?: p[n].err;
	}
	datapath_unlock(dp);
	return err;
}
