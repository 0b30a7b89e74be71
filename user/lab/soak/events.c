// SPDX-License-Identifier: GPL-2.0-only
/* Cause events for workers, links, jobs and loaders while the ranks of the soak make calls. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/report.h"
#include "soak.h"
#include "lab/testbed/lab.h"
#include "values/random.h"

#define MS 1000000ull
#define GROUP 0xef465100u /* 239.70.81.JOB */

enum event { KILL, LINK, JOB, SHRINK, LOADER, MANAGER, EVENTS };

/* The mean time between two events of each kind. */
static const uint64_t every_ns[EVENTS] = {1500 * MS, 4000 * MS, 5000 * MS, 9000 * MS, 5000 * MS, 6000 * MS};

/* Formats and modes of jobs. Jobs use them in turn, starting with a random entry. */
static const struct {
	uint8_t format, mode;
} kinds[] = {
	{FPISA_FORMAT_FP32, FPISA_MODE_FPISA},	 {FPISA_FORMAT_FP32, FPISA_MODE_FPISA_A},
	{FPISA_FORMAT_FP32, FPISA_MODE_FPISA64}, {FPISA_FORMAT_FP32, FPISA_MODE_EXACT},
	{FPISA_FORMAT_BF16, FPISA_MODE_FPISA},	 {FPISA_FORMAT_FP16, FPISA_MODE_EXACT},
	{FPISA_FORMAT_FP64, FPISA_MODE_FPISA},	 {FPISA_FORMAT_E4M3, FPISA_MODE_FPISA_A},
	{FPISA_FORMAT_E5M2, FPISA_MODE_FPISA},	 {FPISA_FORMAT_INT32, FPISA_MODE_FPISA},
	{FPISA_FORMAT_MXINT8, FPISA_MODE_FPISA}, {FPISA_FORMAT_MXINT8, FPISA_MODE_FPISA64},
	{FPISA_FORMAT_MXINT8, FPISA_MODE_EXACT}, {FPISA_FORMAT_FP64, FPISA_MODE_EXACT},
};

/* -- processes ------------------------------------------------------------- */

void soak_kill_rank(struct soak *s, uint32_t job, uint32_t rank)
{
	if (soak_in_groups(s, job))
		soak_disturb(s, job);
	process_kill(&s->job[job].process[rank]);
}

int soak_start_rank(struct soak *s, uint32_t job, uint32_t rank)
{
	struct soak_job *j = &s->job[job];

	j->start_ns[rank] = 0;
	s->shared->rank[job][rank].in_call_ns = 0;
	splitmix64(&s->random);
	return process_spawn(&j->process[rank], s->host_fd[j->host[rank]],
			     soak_in_groups(s, job) ? soak_member : soak_work, &(struct soak_place){s, job, rank});
}

/* -- jobs ------------------------------------------------------------------ */

int soak_add_job(struct soak *s, uint32_t job)
{
	const uint64_t kind = s->kinds_taken++ % (sizeof(kinds) / sizeof(kinds[0]));
	struct soak_job *j = &s->job[job];
	struct fpisa_job config = {
		.workers = j->ranks,
		.token = j->config.token,
		.address = fpisa_ipv4(htonl(SOAK_ADDRESS)),
		.window = 1u << random_below(&s->random, 6),
		.format = kinds[kind].format,
		.mode = kinds[kind].mode,
		.rounding = random_below(&s->random, 2) ? FPISA_ROUND_DOWN : FPISA_ROUND_NEAREST,
		.pipeline = random_below(&s->random, 2) ? FPISA_PIPELINE_FUSED : FPISA_PIPELINE_STAGED,
		.clz = (uint8_t)(FPISA_CLZ_LPM + random_below(&s->random, 2)),
		/* Give the same interfaces jobs with each fan-out at any time. */
		.fanout = (job < 2 ? job == 0 : random_below(&s->random, 2)) ? FPISA_FANOUT_UNICAST :
									       FPISA_FANOUT_MULTICAST,
	};
	const struct fpisa_format f = fpisa_format_of(config.format);
	uint32_t most = fpisa_default_elements(f);
	__u32 ifindex[SOAK_RANKS];
	int err;

	if (f.integer)
		config.rounding = FPISA_ROUND_DOWN;
	config.ports = (uint8_t)(s->o.ports ?: 1u << random_below(&s->random, 5));
	if (config.ports > config.window)
		config.ports = (uint8_t)config.window;
	if (f.bytes > 1 && !random_below(&s->random, 3))
		config.flags = FPISA_JOB_BIG_ENDIAN;
	config.elements = (uint16_t)(FPISA_BLOCK * (1 + random_below(&s->random, most / FPISA_BLOCK)));
	if (config.fanout == FPISA_FANOUT_MULTICAST) {
		config.group = fpisa_ipv4(htonl(GROUP | job));
		config.group_port = htons((uint16_t)(FPISA_PORT + job));
	}
	for (uint32_t r = 0; r < j->ranks; r++) {
		char dev[IF_NAMESIZE];

		star_port(dev, &soak_star, j->host[r]);
		ifindex[r] = if_nametoindex(dev);
		config.rank[r].addr = fpisa_ipv4(htonl(star_worker_address(&soak_star, j->host[r])));
		config.rank[r].port = htons((uint16_t)(FPISA_PORT + job));
	}
	err = datapath_job_add(&s->dp, job, &config, ifindex);
	if (err)
		return err;
	j->config = config;
	j->present = true;
	j->add_ns = 0;
	__atomic_store_n(&s->shared->taken_out[job], 0, __ATOMIC_RELEASE);
	return 0;
}

static int delete_job(struct soak *s, uint32_t job)
{
	int err = datapath_job_del(&s->dp, job);

	s->job[job].present = false;
	s->count.jobs_deleted += !err;
	return err;
}

/* Create the job again with other parameters and with all of its ranks. */
static int renew_job(struct soak *s, uint32_t job, uint64_t now)
{
	struct soak_job *j = &s->job[job];
	int err = j->present ? delete_job(s, job) : 0;

	if (!err)
		err = soak_add_job(s, job);
	for (uint32_t r = 0; !err && r < j->ranks; r++)
		if (!j->process[r].pid && !j->start_ns[r])
			j->start_ns[r] = now;
	return err;
}

/* -- loaders --------------------------------------------------------------- */

static int load_port(const char *name)
{
	const struct datapath_load how = {.pin = DATAPATH_PIN, .mode = DATAPATH_NATIVE};
	char dev[IF_NAMESIZE], *devs[] = {dev};

	strcpy(dev, name);
	return datapath_load(&how, devs, 1);
}

/* Run a load in a process that may be killed at any moment, or that repairs the state after a killed loader. */
static int run_loader(const struct soak *s)
{
	char dev[IF_NAMESIZE], *devs[] = {dev};
	struct datapath_interface i;
	struct datapath_unloaded u;
	int err = 0;

	if (s->loader.upgrade)
		return datapath_upgrade(DATAPATH_PIN);
	star_port(dev, &soak_star, s->loader.host);
	if (!s->loader.finish)
		err = datapath_unload(DATAPATH_PIN, devs, 1, &u);
	if (!err && datapath_attached(&s->dp, if_nametoindex(dev), &i) <= 0)
		err = load_port(dev);
	return err;
}

static void loader(void *arg, int control)
{
	(void)control;
	_exit(run_loader(arg) ? 1 : 0);
}

static int start_loader(struct soak *s)
{
	return process_spawn(&s->loader.process, -1, loader, s);
}

static int follow_loader(struct soak *s, uint64_t now)
{
	struct soak_loader *l = &s->loader;
	int status;

	if (!l->process.pid)
		return 0;
	if (process_ended(&l->process, &status)) {
		s->count.upgrades += l->upgrade;
		s->count.reloads += !l->upgrade;
		return status ? refuse(-EREMOTEIO,
				       "soak: a load or upgrade of the datapath failed; see the message above") :
				0;
	}
	if (l->finish || now < l->kill_ns)
		return 0;
	process_kill(&l->process);
	s->count.loader_kills++;
	s->count.loader_restarts++;
	l->finish = true;
	return start_loader(s);
}

/* -- events ---------------------------------------------------------------- */

static void schedule(struct soak *s, enum event e, uint64_t now)
{
	s->next_ns[e] = now + random_below(&s->random, 2 * every_ns[e]);
}

int soak_events_start(struct soak *s, uint64_t now)
{
	for (int e = 0; e < EVENTS; e++)
		schedule(s, e, now);
	return 0;
}

static int inject(struct soak *s, enum event e, uint64_t now)
{
	uint32_t job = (uint32_t)random_below(&s->random, s->o.jobs);
	uint32_t rank = (uint32_t)random_below(&s->random, s->job[job].ranks);
	uint32_t host = (uint32_t)random_below(&s->random, SOAK_HOSTS);
	struct soak_job *j = &s->job[job];
	__u64 live;
	int err;

	switch (e) {
	case KILL:
		if (!j->process[rank].pid)
			return 0;
		soak_kill_rank(s, job, rank);
		s->count.kills++;
		j->start_ns[rank] = now + random_below(&s->random, 500 * MS);
		return 0;
	case LINK:
		if (s->up_ns[host])
			return 0;
		s->up_ns[host] = now + 50 * MS + random_below(&s->random, 1500 * MS);
		s->count.links_down++;
		return soak_link_set(host, false);
	case JOB:
		if (soak_in_groups(s, job))
			return soak_group_end(s, job, random_below(&s->random, 2));
		if (!j->present || j->add_ns)
			return 0;
		j->add_ns = now + random_below(&s->random, 500 * MS);
		return delete_job(s, job);
	case SHRINK:
		if (!j->present || j->add_ns || j->ranks < 3)
			return 0;
		s->count.kills += j->process[rank].pid != 0;
		s->count.shrinks++;
		process_kill(&j->process[rank]);
		j->start_ns[rank] = 0;
		__atomic_store_n(&s->shared->taken_out[job], 1ull << rank, __ATOMIC_RELEASE);
		err = datapath_job_shrink(&s->dp, job, 1ull << rank, &live);
		/*
		 * Wait until all calls in progress have ended, because taken_out determines which ranks may be missing
		 * from their results.
		 */
		j->add_ns = now + 2 * SOAK_TIMEOUT_MS * MS + random_below(&s->random, 3000 * MS);
		return err;
	case LOADER:
		if (s->loader.process.pid)
			return 0;
		s->loader = (struct soak_loader){.upgrade = random_below(&s->random, 3) > 0, .host = host};
		s->loader.kill_ns = now + random_below(&s->random, s->loader.upgrade ? 8000 * MS : 30 * MS);
		return start_loader(s);
	case MANAGER:
		return s->manager_ns ? 0 : soak_manager_kill(s, now + random_below(&s->random, 500 * MS));
	default:
		return 0;
	}
}

/* Restore links, jobs, ranks and a killed loader when they are due. */
static int restore_due(struct soak *s, uint64_t now)
{
	int err = follow_loader(s, now);

	for (uint32_t h = 0; !err && h < SOAK_HOSTS; h++)
		if (s->up_ns[h] && now >= s->up_ns[h]) {
			s->up_ns[h] = 0;
			err = soak_link_set(h, true);
		}
	if (!err && s->manager_ns && now >= s->manager_ns)
		err = soak_manager_start(s);
	for (uint32_t job = 0; !err && job < s->o.jobs; job++) {
		struct soak_job *j = &s->job[job];

		/* An upgrade holds the lock for a long time, and the links should not wait for the lock. */
		if (j->add_ns && now >= j->add_ns && !s->loader.process.pid)
			err = renew_job(s, job, now);
		for (uint32_t r = 0; !err && r < j->ranks; r++)
			if (j->start_ns[r] && now >= j->start_ns[r]) {
				s->count.restarts++;
				err = soak_start_rank(s, job, r);
			}
	}
	return err;
}

int soak_events(struct soak *s, uint64_t now)
{
	int err = restore_due(s, now);
	bool down = s->loader.process.pid;

	for (uint32_t h = 0; h < SOAK_HOSTS; h++)
		down |= s->up_ns[h] != 0;
	if (down)
		__atomic_store_n(&s->shared->no_job_ns, now, __ATOMIC_RELEASE);
	for (int e = 0; !err && e < EVENTS; e++) {
		if (now < s->next_ns[e])
			continue;
		if ((e == JOB || e == SHRINK) && s->loader.process.pid)
			continue;
		schedule(s, e, now);
		err = inject(s, e, now);
	}
	return err;
}

int soak_events_end(struct soak *s, uint64_t now, bool *done)
{
	int err;

	s->loader.finish = true;
	for (uint32_t h = 0; h < SOAK_HOSTS; h++)
		s->up_ns[h] = s->up_ns[h] ? now : 0;
	for (uint32_t job = 0; job < s->o.jobs; job++) {
		struct soak_job *j = &s->job[job];

		j->add_ns = j->add_ns ? now : 0;
		for (uint32_t r = 0; r < j->ranks; r++)
			j->start_ns[r] = j->start_ns[r] ? now : 0;
	}
	s->manager_ns = s->manager_ns ? now : 0;
	err = restore_due(s, now);
	*done = !s->loader.process.pid && s->manager.pid;
	for (uint32_t job = 0; job < s->o.jobs; job++)
		for (uint32_t r = 0; r < s->job[job].ranks; r++)
			*done &= (s->job[job].present || soak_in_groups(s, job)) && !s->job[job].add_ns &&
				 s->job[job].process[r].pid;
	return err;
}
