// SPDX-License-Identifier: GPL-2.0-only
/*
 * The egress program, and the entries of fpisa_replies, through which single replies leave with this program. Each
 * network namespace has its own map, because an ifindex is valid only in its namespace. Program and map are pinned when
 * the first job is created.
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

#define PORTS_NAME 32 /* size of "fpisa_ports_" with the number of a namespace */

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
		return fail(*prog_fd, NULL, "%s/fpisa_egress: cannot open", dir);
	return egress_renew(dir, prog_fd);
}

/* Write the name of the map of this process's network namespace. Report no errors. */
static int look_name_here(char name[PORTS_NAME])
{
	struct stat st;

	if (stat("/proc/self/ns/net", &st))
		return -errno;
	snprintf(name, PORTS_NAME, "fpisa_ports_%lu", (unsigned long)st.st_ino);
	return 0;
}

static int name_here(char name[PORTS_NAME])
{
	int err = look_name_here(name);

	return err ? fail(err, NULL, "/proc/self/ns/net: cannot read") : 0;
}

bool datapath_job_here(const struct datapath *dp, __u32 job)
{
	char name[PORTS_NAME];
	__u32 id = 0;
	bool here;
	int ports;

	/* A job that the CLI did not create has no such map. */
	if (bpf_map_lookup_elem(dp->replies_fd, &job, &id) || look_name_here(name))
		return true;
	ports = pin_open(dp->pin, name);
	if (ports < 0)
		return ports != -ENOENT;
	here = map_id(ports) == id;
	close(ports);
	return here;
}

static int add(int ports, __u32 ifindex, int prog_fd)
{
	struct bpf_devmap_val val = {.ifindex = ifindex, .bpf_prog.fd = prog_fd};

	if (bpf_map_update_elem(ports, &ifindex, &val, BPF_ANY))
		return fail(-errno, NULL, "interface %u: cannot send replies through it (map fpisa_ports)", ifindex);
	return 0;
}

int reply_ports_add(const char *dir, const __u32 *ifindex, int n)
{
	char name[PORTS_NAME];
	int ports, egress = -1, err = name_here(name);

	if (err)
		return err;
	ports = pin_open(dir, name);
	if (ports < 0)
		return ports == -ENOENT ? 0 : fail(ports, NULL, "%s/%s", dir, name);
	err = egress_open(dir, &egress);
	for (int i = 0; !err && i < n; i++)
		err = add(ports, ifindex[i], egress);
	if (egress >= 0)
		close(egress);
	close(ports);
	return err;
}

struct reply_ports {
	int ports, prog_fd;
};

static int add_attached(const struct datapath_interface *i, int unused, void *arg)
{
	const struct reply_ports *w = arg;

	(void)unused;
	return add(w->ports, i->ifindex, w->prog_fd);
}

static int open_or_make(const char *dir, int *ports)
{
	char name[PORTS_NAME];
	int err = name_here(name);

	if (err)
		return err;
	*ports = pin_open(dir, name);
	if (*ports >= 0)
		return 0;
	*ports = bpf_map_create(BPF_MAP_TYPE_DEVMAP_HASH, "fpisa_ports", sizeof(__u32), sizeof(struct bpf_devmap_val),
				FPISA_MAX_REPLY_PORTS, NULL);
	if (*ports < 0)
		return fail(-errno, NULL, "cannot create the map of interfaces for replies");
	return pin_fd(dir, name, *ports);
}

/*
 * Put the map into fpisa_replies, unless it is already there, because the kernel waits for a grace period if the entry
 * changes.
 */
static int put(const struct datapath *dp, __u32 job, int ports)
{
	__u32 id;

	if (!bpf_map_lookup_elem(dp->replies_fd, &job, &id) && id == map_id(ports))
		return 0;
	if (bpf_map_update_elem(dp->replies_fd, &job, &ports, BPF_ANY))
		return fail(-errno, NULL, "job %u: cannot set the interfaces of its replies (map fpisa_replies)", job);
	return 0;
}

int reply_ports_give(const struct datapath *dp, __u32 job, const __u32 *ifindex, int n, int prog_fd)
{
	int ports = -1, err = open_or_make(dp->pin, &ports);

	if (!err) {
		struct reply_ports w = {ports, prog_fd};

		/* Add the interfaces through which frames arrive. */
		err = interfaces_each(dp->jobs_id, dp->control->entry, add_attached, &w);
		err = err < 0 ? err : 0;
	}
	for (int i = 0; !err && i < n; i++)
		err = add(ports, ifindex[i], prog_fd);
	if (!err)
		err = put(dp, job, ports);
	if (ports >= 0)
		close(ports);
	return err;
}

int reply_ports_open(const struct datapath *dp)
{
	int ports = -1, err = open_or_make(dp->pin, &ports);

	if (ports >= 0)
		close(ports);
	return err;
}

int reply_ports_put(const struct datapath *dp, __u32 job)
{
	int ports = -1, err = open_or_make(dp->pin, &ports) ?: put(dp, job, ports);

	if (ports >= 0)
		close(ports);
	return err;
}

bool reply_ports_here(const char *dir, __u32 job)
{
	int replies = pin_open(dir, "fpisa_replies"), ports = -1;
	char name[PORTS_NAME];
	bool here = false;
	__u32 id = 0;

	if (replies >= 0 && !name_here(name))
		ports = pin_open(dir, name);
	if (ports >= 0 && !bpf_map_lookup_elem(replies, &job, &id))
		here = id == map_id(ports);
	if (ports >= 0)
		close(ports);
	if (replies >= 0)
		close(replies);
	return here;
}

/* -- upgrade -------------------------------------------------------------- */

/*
 * Renew all entries of a device map. Collect the keys first, because a replaced entry may change its position in the
 * iteration.
 */
static int renew(int map, int prog_fd)
{
	struct bpf_devmap_val val;
	__u32 key[FPISA_MAX_REPLY_PORTS];
	int n = 0, err = 0;

	while (n < FPISA_MAX_REPLY_PORTS && !bpf_map_get_next_key(map, n ? &key[n - 1] : NULL, &key[n]))
		n++;
	for (int i = 0; !err && i < n; i++) {
		if (bpf_map_lookup_elem(map, &key[i], &val))
			continue;
		val.bpf_prog.fd = prog_fd;
		/* Ignore EINVAL, which means that the interface and its entry have just been removed. */
		if (bpf_map_update_elem(map, &key[i], &val, BPF_ANY) && errno != EINVAL)
			err = fail(-errno, NULL, "interface %u: cannot replace the egress program", val.ifindex);
	}
	return err;
}

/* Renew the ports of a job's results if the replies of the job use the map `ports`. */
static int renew_job(const struct datapath *dp, __u32 job, __u32 ports, int prog_fd)
{
	__u32 id = 0;
	int fd, err;

	if (bpf_map_lookup_elem(dp->replies_fd, &job, &id) || id != ports ||
	    bpf_map_lookup_elem(dp->fanout_fd, &job, &id))
		return 0;
	fd = bpf_map_get_fd_by_id(id);
	if (fd < 0)
		return fail(-errno, NULL, "job %u: cannot read the interfaces of its results", job);
	err = renew(fd, prog_fd);
	close(fd);
	return err;
}

int reply_ports_renew(const struct datapath *dp)
{
	char name[PORTS_NAME];
	int ports, prog_fd = -1, err = name_here(name);

	if (err)
		return err;
	ports = pin_open(dp->pin, name);
	if (ports < 0)
		return ports == -ENOENT ? 0 : fail(ports, NULL, "%s/%s", dp->pin, name);
	err = egress_renew(dp->pin, &prog_fd);
	if (!err)
		err = renew(ports, prog_fd);
	for (__u32 job = 0; !err && job < FPISA_MAX_JOBS; job++)
		err = renew_job(dp, job, map_id(ports), prog_fd);
	if (prog_fd >= 0)
		close(prog_fd);
	close(ports);
	return err;
}
