// SPDX-License-Identifier: GPL-2.0-only
/*
 * Run the manager that creates half of the soak's jobs. The manager uses a key if GnuTLS is available. Kill the
 * manager, start it again, and tell it to end groups.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/report.h"
#include "cli/verb.h"
#include "datapath/groups.h"
#include "lib/base/clock.h"
#include "lib/manager/tls.h"
#include "soak.h"
#include "values/random.h"

#define END_NS \
	60000000000ull /* time until the last group disappears if its ranks do not return, and until the manager ends */

int soak_key_open(const struct soak *s, uid_t owner)
{
	uint64_t state = s->o.seed;
	int fd;

	if (!s->keyed)
		return -1;
	fd = memfd_create("key", 0);
	if (fd < 0)
		return -1;
	dprintf(fd, "soak:%08x:", (uint32_t)splitmix64(&state));
	for (int i = 0; i < 4; i++)
		dprintf(fd, "%016llx", (unsigned long long)splitmix64(&state));
	dprintf(fd, "\n");
	if (fchmod(fd, 0600) || fchown(fd, owner, owner)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Become the manager. The soak prints the manager's errors but not its log. */
static void serve(void *arg, int control)
{
	int nothing, config, key;
	char path[32], program[PATH_MAX];

	close(process_close_fds(control));
	nothing = open("/dev/null", O_RDWR);
	config = memfd_create("fpisa.conf", 0);
	key = soak_key_open(arg, 0);
	dprintf(config, "[manager]\njobs = %u-%u\n", SOAK_JOBS, FPISA_MAX_JOBS - 1);
	if (key < 0)
		dprintf(config, "without-key = yes\n");
	else
		dprintf(config, "key-file = /proc/self/fd/%d\n", key);
	if (nothing < 0 || dup2(nothing, STDOUT_FILENO) < 0)
		_exit(1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", config);
	if (!program_path("fpisa", program))
		execl(program, "fpisa", "serve", path, NULL);
	_exit(1);
}

int soak_manager_start(struct soak *s)
{
	s->keyed = fpisa_tls() != NULL;
	s->manager_ns = 0;
	return process_spawn(&s->manager, -1, serve, s);
}

int soak_manager_kill(struct soak *s, uint64_t back_ns)
{
	__atomic_store_n(&s->shared->manager_killed_ns, fpisa_now(), __ATOMIC_RELEASE);
	process_kill(&s->manager);
	s->count.manager_kills++;
	s->manager_ns = back_ns;
	return 0;
}

void soak_disturb(struct soak *s, uint32_t job)
{
	__atomic_store_n(&s->shared->disturbed_ns[job], fpisa_now(), __ATOMIC_RELEASE);
}

/* Find the job's group by its name. Return -ENOENT without reporting an error if the group does not exist. */
static int find(struct soak *s, uint32_t job, struct datapath_groups *g, struct group_record *r, __u32 *place)
{
	char name[SOAK_GROUP_LEN];
	int err = datapath_groups_open(&s->dp, false, g);

	if (err)
		return err;
	soak_group_name(name, job);
	for (*place = 0; *place < GROUPS; (*place)++) {
		err = datapath_group_get(g, *place, r);
		if (err || (r->id && !strcmp(r->name, name)))
			break;
	}
	if (!err && *place == GROUPS)
		err = -ENOENT;
	if (err)
		datapath_groups_close(g);
	return err;
}

int soak_group_end(struct soak *s, uint32_t job, bool by_job)
{
	struct datapath_groups g;
	struct group_record r;
	__u32 place;
	int err = find(s, job, &g, &r, &place), k = 0;

	if (err)
		return err == -ENOENT ? 0 : err;
	while (k < FPISA_MANAGER_JOBS && r.job[k].state != FPISA_GROUP_JOB_MADE)
		k++;
	/* The group may have ended, and its job number may already belong to another group. */
	by_job &= k < FPISA_MANAGER_JOBS;
	soak_disturb(s, job);
	err = by_job ? datapath_job_end(&s->dp, r.job[k].number, r.job[k].token) : datapath_group_kill(&g, place, r.id);
	s->count.jobs_deleted += by_job;
	s->count.groups_ended += !by_job;
	datapath_groups_close(&g);
	return err == -ENOENT ? 0 : err;
}

/* Count the groups and their jobs. */
static uint64_t count_groups(struct soak *s)
{
	struct datapath_groups g;
	struct group_record r;
	uint64_t n = 0;

	if (datapath_groups_open(&s->dp, false, &g))
		return 0;
	for (__u32 i = 0; i < GROUPS; i++)
		n += datapath_group_get(&g, i, &r) || r.id;
	datapath_groups_close(&g);
	for (__u32 job = SOAK_JOBS; job < FPISA_MAX_JOBS; job++)
		n += s->dp.jobs[job].active != 0;
	return n;
}

/* Return whether a helper process runs. A helper process ends after its current work. */
static bool helper_runs(struct soak *s)
{
	struct datapath_groups g;
	pid_t pid = 0;

	if (datapath_groups_open(&s->dp, false, &g))
		return false;
	datapath_groups_manager(&g, &pid);
	datapath_groups_close(&g);
	return pid != 0;
}

uint64_t soak_manager_end(struct soak *s)
{
	uint64_t left, end = fpisa_now() + END_NS;
	int status;

	while ((left = count_groups(s)) && fpisa_now() < end)
		usleep(SOAK_TICK_US);
	if (s->manager.pid)
		kill(s->manager.pid, SIGTERM);
	end = fpisa_now() + END_NS;
	while (s->manager.pid && !process_ended(&s->manager, &status) && fpisa_now() < end)
		usleep(SOAK_TICK_US);
	while (helper_runs(s) && fpisa_now() < end)
		usleep(SOAK_TICK_US);
	s->count.hangs += s->manager.pid || helper_runs(s);
	process_kill(&s->manager);
	return left;
}
