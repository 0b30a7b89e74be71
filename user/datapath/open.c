// SPDX-License-Identifier: GPL-2.0-only
/* Open a datapath by its pins, and read its maps. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/report.h"
#include "datapath.h"
#include "fpisa/tree.h"
#include "info.h"
#include "log.h"
#include "pin.h"

/* -- open -------------------------------------------------------------- */

static int map_memory(struct datapath *dp, int fd, const char *name, size_t size, void **out)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	/* The kernel maps only writable maps, so readers get a copy. */
	if (p == MAP_FAILED && (errno == EPERM || errno == EACCES)) {
		dp->read_only = true;
		p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	if (p == MAP_FAILED)
		return fail(-errno, NULL, "%s/%s: cannot map the memory", dp->pin, name);
	*out = p;
	return 0;
}

static int open_maps(struct datapath *dp)
{
	const struct {
		const char *name;
		int *fd;
	} maps[] = {
		{"fpisa_jobs", &dp->jobs_fd},		{"fpisa_sessions", &dp->sessions_fd},
		{"fpisa_peers", &dp->peers_fd},		{"fpisa_last_seen", &dp->last_seen_fd},
		{"fpisa_slots", &dp->slots_fd},		{"fpisa_counters", &dp->counters_fd},
		{"fpisa_control", &dp->control_fd},	{"fpisa_stages", &dp->stages_fd},
		{"fpisa_fanout", &dp->fanout_fd},	{"fpisa_replies", &dp->replies_fd},
		{"fpisa_histogram", &dp->histogram_fd}, {"fpisa_nh_keys", &dp->nh_keys_fd},
		{"fpisa_leaves", &dp->leaves_fd},
	};

	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		*maps[i].fd = pin_open(dp->pin, maps[i].name);
		if (*maps[i].fd == -EPERM || *maps[i].fd == -EACCES)
			return fail(*maps[i].fd, "run as root, or as a member of its group (fpisa load --group)",
				    "%s/%s", dp->pin, maps[i].name);
		if (*maps[i].fd < 0)
			return fail(*maps[i].fd, "remove the remains of the datapath with fpisa unload", "%s/%s",
				    dp->pin, maps[i].name);
	}
	return 0;
}

/*
 * Check the sizes of maps, and set slots_n. The stamp identifies the maps of this version, but a replaced map must not
 * overrun the structures.
 */
static int check_layout(struct datapath *dp)
{
	const struct {
		int fd;
		__u32 size;
	} maps[] = {
		{dp->jobs_fd, sizeof(struct fpisa_job)},	{dp->sessions_fd, sizeof(struct fpisa_session)},
		{dp->peers_fd, sizeof(struct fpisa_peer)},	{dp->last_seen_fd, sizeof(struct fpisa_last_seen)},
		{dp->slots_fd, sizeof(struct fpisa_slot)},	{dp->counters_fd, sizeof(struct fpisa_counters)},
		{dp->control_fd, sizeof(struct fpisa_control)}, {dp->histogram_fd, sizeof(struct fpisa_histogram)},
		{dp->nh_keys_fd, sizeof(struct fpisa_nh_key)},	{dp->leaves_fd, sizeof(struct fpisa_leaf)},
	};

	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		struct bpf_map_info info = {0};
		__u32 len = sizeof(info);

		if (bpf_obj_get_info_by_fd(maps[i].fd, &info, &len))
			return fail(-errno, NULL, "%s: cannot read the map's information", dp->pin);
		if (info.value_size != maps[i].size)
			return refuse(-EPROTO,
				      "%s/%s was made by another version of fpisa; run fpisa unload, then load again",
				      dp->pin, info.name);
		if (maps[i].fd == dp->slots_fd)
			dp->slots_n = info.max_entries / 2;
	}
	return 0;
}

/* Open the maps that only a steering datapath has. */
static int open_steering(struct datapath *dp)
{
	int err = datapath_steering(dp->pin, &dp->steering);

	if (err)
		return fail(err, NULL, "%s/fpisa_steering: cannot read", dp->pin);
	if (!dp->steering.cpus)
		return 0;
	dp->steered_fd = pin_open(dp->pin, "fpisa_steered");
	return dp->steered_fd < 0 ? fail(dp->steered_fd, NULL, "%s/fpisa_steered", dp->pin) : 0;
}

void datapath_refresh(struct datapath *dp)
{
	__u32 zero = 0;

	for (__u32 i = 0; dp->read_only && i < FPISA_MAX_JOBS; i++)
		if (bpf_map_lookup_elem(dp->jobs_fd, &i, &dp->jobs[i]))
			dp->jobs[i].active = 0;
	if (dp->read_only)
		bpf_map_lookup_elem(dp->control_fd, &zero, dp->control);
}

int datapath_open(struct datapath *dp, const char *pin)
{
	int err;

	memset(dp, 0, sizeof(*dp));
	dp->lock = -1;
	dp->jobs_fd = dp->sessions_fd = dp->peers_fd = dp->last_seen_fd = dp->slots_fd = -1;
	dp->counters_fd = dp->control_fd = dp->stages_fd = dp->fanout_fd = dp->replies_fd = -1;
	dp->histogram_fd = dp->nh_keys_fd = dp->leaves_fd = dp->steered_fd = -1;
	log_start();
	dp->cpus = libbpf_num_possible_cpus();
	if (dp->cpus < 0)
		return fail(dp->cpus, NULL, "cannot read the number of CPUs");
	err = pin_find(dp->pin, pin, false);
	if (!err)
		err = pin_abi(dp->pin);
	if (!err)
		err = open_maps(dp);
	if (!err)
		err = check_layout(dp);
	if (!err)
		err = open_steering(dp);
	if (!err)
		err = map_memory(dp, dp->jobs_fd, "fpisa_jobs", sizeof(*dp->jobs) * FPISA_MAX_JOBS, (void **)&dp->jobs);
	if (!err)
		err = map_memory(dp, dp->control_fd, "fpisa_control", sizeof(*dp->control), (void **)&dp->control);
	if (!err)
		datapath_refresh(dp);
	dp->jobs_id = err ? 0 : map_id(dp->jobs_fd);
	if (err)
		datapath_close(dp);
	return err;
}

int datapath_map_state(struct datapath *dp)
{
	int err = 0;

	if (dp->read_only)
		return 0; /* datapath_lock() refuses this later */
	if (!dp->sessions)
		err = map_memory(dp, dp->sessions_fd, "fpisa_sessions", sizeof(*dp->sessions) * FPISA_MAX_JOBS,
				 (void **)&dp->sessions);
	if (!err && !dp->slots)
		err = map_memory(dp, dp->slots_fd, "fpisa_slots", sizeof(*dp->slots) * 2 * dp->slots_n,
				 (void **)&dp->slots);
	return err;
}

static void close_fd(int *fd)
{
	if (*fd > 0)
		close(*fd);
	*fd = -1;
}

void datapath_close(struct datapath *dp)
{
	if (dp->jobs)
		munmap(dp->jobs, sizeof(*dp->jobs) * FPISA_MAX_JOBS);
	if (dp->control)
		munmap(dp->control, sizeof(*dp->control));
	if (dp->sessions)
		munmap(dp->sessions, sizeof(*dp->sessions) * FPISA_MAX_JOBS);
	if (dp->slots)
		munmap(dp->slots, sizeof(*dp->slots) * 2 * dp->slots_n);
	dp->jobs = NULL;
	dp->control = NULL;
	dp->sessions = NULL;
	dp->slots = NULL;
	close_fd(&dp->jobs_fd);
	close_fd(&dp->sessions_fd);
	close_fd(&dp->peers_fd);
	close_fd(&dp->last_seen_fd);
	close_fd(&dp->slots_fd);
	close_fd(&dp->counters_fd);
	close_fd(&dp->control_fd);
	close_fd(&dp->stages_fd);
	close_fd(&dp->fanout_fd);
	close_fd(&dp->replies_fd);
	close_fd(&dp->histogram_fd);
	close_fd(&dp->nh_keys_fd);
	close_fd(&dp->leaves_fd);
	close_fd(&dp->steered_fd);
	for (__u32 i = 0; i < FPISA_MAX_JOBS; i++)
		if (dp->ports_fd[i] > 0)
			close_fd(&dp->ports_fd[i]);
	if (dp->lock > 0)
		pin_unlock(&dp->lock);
}

static int refuse_unloaded(const struct datapath *dp)
{
	return refuse(-ESTALE, "%s: the datapath was unloaded meanwhile; try again", dp->pin);
}

int datapath_check_pinned(const struct datapath *dp)
{
	int fd = pin_open(dp->pin, "fpisa_jobs");
	__u32 id = fd < 0 ? 0 : map_id(fd);

	if (fd >= 0)
		close(fd);
	else if (fd != -ENOENT)
		return fail(fd, NULL, "%s/fpisa_jobs: cannot open", dp->pin);
	return id == dp->jobs_id ? 0 : refuse_unloaded(dp);
}

int datapath_lock(struct datapath *dp)
{
	int err;

	if (dp->read_only)
		return refuse(-EACCES,
			      "%s: this user may read the datapath but not change it; run as the owner of this "
			      "directory",
			      dp->pin);
	err = pin_lock(dp->pin, &dp->lock);
	if (err == -ENOENT)
		return refuse_unloaded(dp);
	if (err)
		return fail(err, NULL, "%s: cannot lock", dp->pin);
	err = datapath_check_pinned(dp);
	if (err)
		pin_unlock(&dp->lock);
	return err;
}

void datapath_unlock(struct datapath *dp)
{
	pin_unlock(&dp->lock);
}

/* -- read -------------------------------------------------------------- */

int datapath_job(const struct datapath *dp, __u32 job, struct fpisa_job *out)
{
	if (job >= FPISA_MAX_JOBS || !__atomic_load_n(&dp->jobs[job].active, __ATOMIC_ACQUIRE))
		return refuse(-ENOENT, "job %u: no such job; see fpisa job list", job);
	if (fpisa_is_query(&dp->jobs[job]))
		return refuse(-ENOENT, "job %u is a query; see fpisa query show %u", job, job);
	memcpy(out, &dp->jobs[job], sizeof(*out));
	/* Check the values, because a user who may write the map may write any values. */
	if (out->workers > FPISA_MAX_WORKERS || out->window > FPISA_MAX_WINDOW)
		return refuse(
			-EPROTO,
			"job %u: invalid entry in fpisa_jobs, perhaps written by hand; run fpisa unload, then load the "
			"datapath again",
			job);
	return 0;
}

static int lookup(int fd, const char *what, __u32 key, void *out)
{
	if (bpf_map_lookup_elem(fd, &key, out))
		return fail(-errno, NULL, "cannot read %s %u from the datapath's maps", what, key);
	return 0;
}

int datapath_session(const struct datapath *dp, __u32 job, struct fpisa_session *out)
{
	return lookup(dp->sessions_fd, "session of job", job, out);
}

int datapath_peer(const struct datapath *dp, __u32 job, __u32 rank, struct fpisa_peer *out)
{
	return lookup(dp->peers_fd, "peer", job * FPISA_MAX_WORKERS + rank, out);
}

int datapath_last_seen(const struct datapath *dp, __u32 job, __u32 rank, struct fpisa_last_seen *out)
{
	return lookup(dp->last_seen_fd, "peer", job * FPISA_MAX_WORKERS + rank, out);
}

int datapath_slot(const struct datapath *dp, __u32 key, struct fpisa_slot *out)
{
	return lookup(dp->slots_fd, "slot", key, out);
}

int datapath_counters(const struct datapath *dp, __u32 key, struct fpisa_counters *sum)
{
	const int n = sizeof(*sum) / sizeof(__u64);
	__u64 *values = calloc(dp->cpus, sizeof(*sum)), *out = (__u64 *)sum;
	int err;

	if (!values)
		return fail(-ENOMEM, NULL, "cannot read the counters");
	memset(sum, 0, sizeof(*sum));
	err = lookup(dp->counters_fd, "counters", key, values);
	for (int cpu = 0; !err && cpu < dp->cpus; cpu++)
		for (int i = 0; i < n; i++)
			out[i] += values[cpu * n + i];
	free(values);
	return err;
}

int datapath_histogram(const struct datapath *dp, __u32 job, struct fpisa_histogram *out)
{
	return lookup(dp->histogram_fd, "histogram of job", job, out);
}

int datapath_port(const struct datapath *dp, __u32 job, __u32 key, __u32 *ifindex, __u32 *egress)
{
	struct bpf_devmap_val val = {0};
	__u32 id;
	int fd, err = 0;

	if (bpf_map_lookup_elem(dp->fanout_fd, &job, &id))
		return -errno;
	fd = bpf_map_get_fd_by_id(id);
	if (fd < 0)
		return -errno;
	if (bpf_map_lookup_elem(fd, &key, &val))
		err = -errno;
	close(fd);
	*ifindex = val.ifindex;
	*egress = val.bpf_prog.id;
	return err;
}
