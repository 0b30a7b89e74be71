// SPDX-License-Identifier: GPL-2.0-only
/*
 * The egress program, and the entries by which single replies leave with it
 * (fpisa_replies): one map a network namespace, for an ifindex says nothing
 * outside of its own. Both are pinned, once there is a job.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/report.h"
#include "egress.h"
#include "info.h"
#include "interface.h"
#include "object.h"
#include "pin.h"

#define WAYS_NAME 32 /* bytes of "fpisa_ways_" and the number of a namespace */

static int find_pinned(void *dir, const char *name)
{
	return pin_open(dir, name);
}

static int egress_renew(const char *dir, int *prog_fd)
{
	int err = egress_load(find_pinned, (void *)dir, prog_fd);

	return err ?: pin_fd(dir, "fpisa_egress", *prog_fd);
}

int egress_open(const char *dir, int *prog_fd)
{
	*prog_fd = pin_open(dir, "fpisa_egress");
	if (*prog_fd >= 0)
		return 0;
	if (*prog_fd != -ENOENT)
		return fail(*prog_fd, NULL, "%s/fpisa_egress", dir);
	return egress_renew(dir, prog_fd);
}

/* Of the map of this process's network namespace. */
static int name_here(char name[WAYS_NAME])
{
	struct stat st;

	if (stat("/proc/self/ns/net", &st))
		return fail(-errno, NULL, "/proc/self/ns/net");
	snprintf(name, WAYS_NAME, "fpisa_ways_%lu", (unsigned long)st.st_ino);
	return 0;
}

static int add(int ways, __u32 ifindex, int prog_fd)
{
	struct bpf_devmap_val val = { .ifindex = ifindex, .bpf_prog.fd = prog_fd };

	if (bpf_map_update_elem(ways, &ifindex, &val, BPF_ANY))
		return fail(-errno, NULL, "interface %u: as a way out of replies", ifindex);
	return 0;
}

int ways_join(const char *dir, const __u32 *ifindex, int n)
{
	char name[WAYS_NAME];
	int ways, egress = -1, err = name_here(name);

	if (err)
		return err;
	ways = pin_open(dir, name);
	if (ways < 0)
		return ways == -ENOENT ? 0 : fail(ways, NULL, "%s/%s", dir, name);
	err = egress_open(dir, &egress);
	for (int i = 0; !err && i < n; i++)
		err = add(ways, ifindex[i], egress);
	if (egress >= 0)
		close(egress);
	close(ways);
	return err;
}

struct way_out {
	int ways, prog_fd;
};

static int add_attached(const struct datapath_interface *i, int unused, void *arg)
{
	const struct way_out *w = arg;

	(void)unused;
	return add(w->ways, i->ifindex, w->prog_fd);
}

static int open_or_make(const char *dir, int *ways)
{
	char name[WAYS_NAME];
	int err = name_here(name);

	if (err)
		return err;
	*ways = pin_open(dir, name);
	if (*ways >= 0)
		return 0;
	*ways = bpf_map_create(BPF_MAP_TYPE_DEVMAP_HASH, "fpisa_ways", sizeof(__u32),
			       sizeof(struct bpf_devmap_val), FPISA_MAX_WAYS, NULL);
	if (*ways < 0)
		return fail(-errno, NULL, "make a map of ports");
	return pin_fd(dir, name, *ways);
}

int ways_give(const struct datapath *dp, __u32 job, const __u32 *ifindex, int n, int prog_fd)
{
	int ways = -1, err = open_or_make(dp->pin, &ways);

	if (!err) {
		struct way_out w = { ways, prog_fd };

		/* Those that frames come in by. */
		err = interfaces_each(dp->jobs_id, dp->control->entry, add_attached, &w);
		err = err < 0 ? err : 0;
	}
	for (int i = 0; !err && i < n; i++)
		err = add(ways, ifindex[i], prog_fd);
	if (!err && bpf_map_update_elem(dp->replies_fd, &job, &ways, BPF_ANY))
		err = fail(-errno, NULL, "job %u: put a map of ports into fpisa_replies", job);
	if (ways >= 0)
		close(ways);
	return err;
}

/* -- upgrade -------------------------------------------------------------- */

/* All entries of a device map. Its keys first: an entry that is replaced may change its place. */
static int renew(int map, int prog_fd)
{
	struct bpf_devmap_val val;
	__u32 key[FPISA_MAX_WAYS];
	int n = 0, err = 0;

	while (n < FPISA_MAX_WAYS && !bpf_map_get_next_key(map, n ? &key[n - 1] : NULL, &key[n]))
		n++;
	for (int i = 0; !err && i < n; i++) {
		if (bpf_map_lookup_elem(map, &key[i], &val))
			continue;
		val.bpf_prog.fd = prog_fd;
		/* EINVAL: the interface has just gone, and its entry with it. */
		if (bpf_map_update_elem(map, &key[i], &val, BPF_ANY) && errno != EINVAL)
			err = fail(-errno, NULL, "interface %u: new egress program", val.ifindex);
	}
	return err;
}

/* Ports of a job, if it is one of those whose replies leave through the map `ways`. */
static int renew_job(const struct datapath *dp, __u32 job, __u32 ways, int prog_fd)
{
	__u32 id = 0;
	int fd, err;

	if (bpf_map_lookup_elem(dp->replies_fd, &job, &id) || id != ways ||
	    bpf_map_lookup_elem(dp->fanout_fd, &job, &id))
		return 0;
	fd = bpf_map_get_fd_by_id(id);
	if (fd < 0)
		return fail(-errno, NULL, "job %u: its device map", job);
	err = renew(fd, prog_fd);
	close(fd);
	return err;
}

int ways_renew(const struct datapath *dp)
{
	char name[WAYS_NAME];
	int ways, prog_fd = -1, err = name_here(name);

	if (err)
		return err;
	ways = pin_open(dp->pin, name);
	if (ways < 0)
		return ways == -ENOENT ? 0 : fail(ways, NULL, "%s/%s", dp->pin, name);
	err = egress_renew(dp->pin, &prog_fd);
	if (!err)
		err = renew(ways, prog_fd);
	for (__u32 job = 0; !err && job < FPISA_MAX_JOBS; job++)
		err = renew_job(dp, job, map_id(ways), prog_fd);
	if (prog_fd >= 0)
		close(prog_fd);
	close(ways);
	return err;
}
