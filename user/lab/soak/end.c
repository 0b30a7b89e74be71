// SPDX-License-Identifier: GPL-2.0-only
/* End the soak. Remove all objects and count the objects that remain. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "soak.h"
#include "lab/testbed/lab.h"

/* Wait until every worker has ended, within the time limit. */
static void stop_ranks(struct soak *s)
{
	uint64_t end = fpisa_now() + SOAK_GROUP_HANG_NS;

	for (uint32_t job = 0; job < s->o.jobs; job++)
		for (uint32_t r = 0; r < s->job[job].ranks; r++)
			__atomic_store_n(&s->shared->rank[job][r].stop, true, __ATOMIC_RELEASE);
	for (uint32_t job = 0; job < s->o.jobs; job++)
		for (uint32_t r = 0; r < s->job[job].ranks; r++) {
			struct process *p = &s->job[job].process[r];
			int status;

			while (p->pid && !process_ended(p, &status) && fpisa_now() < end)
				usleep(SOAK_TICK_US);
			s->count.hangs += p->pid != 0;
			process_kill(p);
		}
}

/* Count the pins. Skip maps.debug and progs.debug, which every BPF filesystem contains. */
static uint64_t count_pins(void)
{
	DIR *d = opendir(LAB_BPFFS);
	const struct dirent *e;
	uint64_t n = 0;

	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.' && !strstr(e->d_name, ".debug");
	if (d)
		closedir(d);
	return n;
}

/* Remove all objects in the order in which a user would remove them, and count the objects that remain. */
int soak_take_down(struct soak *s, int fds, struct soak_leaks *l)
{
	__u32 jobs_id = s->dp.jobs_id;
	struct datapath_unloaded u;
	int err = 0;

	stop_ranks(s);
	for (uint32_t job = 0; job < s->o.jobs; job++)
		for (uint32_t r = 0; r < s->job[job].ranks; r++)
			l->fds += s->shared->rank[job][r].leaked_fds;
	l->groups = soak_manager_end(s);
	for (uint32_t job = 0; !err && job < s->o.jobs && !soak_in_groups(s, job); job++)
		err = datapath_job_del(&s->dp, job);
	if (!err)
		err = datapath_leftovers(&s->dp, &l->map_entries);
	if (!err)
		err = datapath_unload(DATAPATH_PIN, NULL, 0, &u);
	datapath_close(&s->dp);
	if (err)
		return err;
	l->pins = count_pins();
	l->namespaces = (uint64_t)soak_net_close_hosts(s);
	process_kill(&s->middlebox);
	l->namespaces += (uint64_t)soak_net_close_middlebox(s);
	for (int i = 0; i < 100 && datapath_remains(jobs_id); i++)
		usleep(50000);
	l->objects = datapath_remains(jobs_id);
	l->processes = waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD;
	l->fds += (uint64_t)abs(soak_open_fds() - fds);
	return 0;
}
