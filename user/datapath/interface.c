// SPDX-License-Identifier: GPL-2.0-only
/*
 * Find, attach and detach through netlink, and examine attached programs, even in other network namespaces.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/names.h"
#include "cli/report.h"
#include "host/netns.h"
#include "host/privilege.h"
#include "host/stack.h"
#include "info.h"
#include "interface.h"
#include "log.h"
#include "pin.h"

static __u32 mode_flags(enum datapath_mode mode)
{
	return mode == DATAPATH_SKB	? XDP_FLAGS_SKB_MODE :
	       mode == DATAPATH_OFFLOAD ? XDP_FLAGS_HW_MODE :
					  XDP_FLAGS_DRV_MODE;
}

int find_interfaces(char *const *devs, int n, __u32 ifindex[DATAPATH_MAX_INTERFACES])
{
	if (n > DATAPATH_MAX_INTERFACES)
		return refuse(-E2BIG, "more than %d interfaces are not supported; name fewer", DATAPATH_MAX_INTERFACES);
	for (int i = 0; i < n; i++) {
		ifindex[i] = if_nametoindex(devs[i]);
		if (!ifindex[i])
			return refuse(-ENODEV, "%s: no such interface; see ip link", *devs[i] ? devs[i] : "''");
		for (int k = 0; k < i; k++)
			if (ifindex[k] == ifindex[i])
				return refuse(-EINVAL, "%s is named twice; name each interface once", devs[i]);
	}
	return 0;
}

bool datapath_below(__u32 ifindex, struct link *at, struct link *below)
{
	struct datapath_interface own = {.ifindex = 0};

	return !link_get(ifindex, at) && !link_below_vlan(at, below) && !datapath_program_on(ifindex, &own) &&
	       !own.program.id;
}

const char *datapath_place(const char *dev, enum datapath_mode mode, char name[IF_NAMESIZE])
{
	__u32 ifindex = if_nametoindex(dev);
	struct link at, below;

	snprintf(name, IF_NAMESIZE, "%s", dev);
	if (mode == DATAPATH_NATIVE && ifindex && datapath_below(ifindex, &at, &below) && link_native(&below))
		snprintf(name, IF_NAMESIZE, "%s", below.name);
	return name;
}

int interface_attach(const char *dev, __u32 ifindex, int prog_fd, enum datapath_mode mode)
{
	const char *hint = "";
	int err;

	log_start();
	err = bpf_xdp_attach(ifindex, prog_fd, XDP_FLAGS_UPDATE_IF_NOEXIST | mode_flags(mode), NULL);
	if (!err)
		return 0;
	if (err == -EPERM)
		hint = "; run as root";
	else if (err == -EEXIST)
		hint = "; detach the other program first, in its own network namespace if need be";
	else if (mode == DATAPATH_NATIVE)
		hint = err == -EOPNOTSUPP ? "; try --mode skb" :
					    "; try --mode skb, or a smaller MTU on both ends of the link";
	return refuse(err, "%s: cannot attach %s XDP: %s%s", dev, name_of(xdp_mode_names, mode), reason(err), hint);
}

int interface_detach(const char *dev, __u32 ifindex, enum datapath_mode mode, int prog_fd)
{
	LIBBPF_OPTS(bpf_xdp_attach_opts, opts, .old_prog_fd = prog_fd);
	int err;

	log_start();
	err = bpf_xdp_detach(ifindex, mode_flags(mode), prog_fd < 0 ? NULL : &opts);
	return err ? refuse(err, "%s: cannot detach XDP: %s", dev, reason(err)) : 0;
}

int interface_attached(__u32 ifindex, __u32 jobs_id, __u32 entry, struct datapath_interface *i, int *prog_fd)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, opts);
	int err, fd;

	log_start();
	err = bpf_xdp_query(ifindex, 0, &opts);
	if (err)
		return err;
	i->ifindex = ifindex;
	i->mode = opts.drv_prog_id ? DATAPATH_NATIVE : opts.skb_prog_id ? DATAPATH_SKB : DATAPATH_OFFLOAD;
	i->program.id = opts.drv_prog_id ?: opts.skb_prog_id ?: opts.hw_prog_id ?: opts.prog_id;
	if (!i->program.id)
		return 0;
	fd = bpf_prog_get_fd_by_id(i->program.id);
	if (fd < 0 && errno == EPERM) {
		/* Without CAP_SYS_ADMIN, only the id of the program is known. */
		err = entry && entry == i->program.id;
		snprintf(i->program.name, sizeof(i->program.name), "%s", err ? "fpisa" : "?");
		return err;
	}
	if (fd < 0)
		return -errno;
	program_info(fd, &i->program);
	err = program_uses_map(fd, jobs_id);
	if (err && prog_fd)
		*prog_fd = fd;
	else
		close(fd);
	return err;
}

int datapath_attached(const struct datapath *dp, __u32 ifindex, struct datapath_interface *i)
{
	return interface_attached(ifindex, dp->jobs_id, dp->control->entry, i, NULL);
}

int datapath_program_on(__u32 ifindex, struct datapath_interface *i)
{
	int err = interface_attached(ifindex, 0, 0, i, NULL);

	return err < 0 ? err : 0;
}

bool interface_stacked(__u32 ifindex, bool up, __u32 jobs_id, __u32 entry, bool any, struct datapath_interface *out)
{
	struct link at, *links = NULL;
	int n = link_get(ifindex, &at) ? 0 : links_get(&links), *found = n > 0 ? calloc(n, sizeof(*found)) : NULL;
	bool is = false;

	n = found ? links_stack(links, n, &at, up, found) : 0;
	for (int k = 0; !is && k < n; k++) {
		const struct link *l = &links[found[k]];

		*out = (struct datapath_interface){.ifindex = 0};
		is = interface_attached(l->index, jobs_id, entry, out, NULL) > 0 ||
		     (any && out->program.id && datapath_is_entry(out->program.name));
		memcpy(out->name, l->name, sizeof(out->name));
	}
	free(found);
	free(links);
	return is;
}

bool datapath_stacked(const struct datapath *dp, __u32 ifindex, bool up, struct datapath_interface *i)
{
	return interface_stacked(ifindex, up, dp ? dp->jobs_id : 0, dp ? dp->control->entry : 0, !dp, i);
}

int interface_check_above(const char *dev, __u32 ifindex, const char *what, const char *dir)
{
	struct datapath_interface i = {.ifindex = 0};
	struct link at, *links = NULL;
	int n = link_get(ifindex, &at) ? 0 : links_get(&links);
	char off[OFF_LEN];

	/* Any program counts, even if another loader attached it. */
	for (int k = 0; k < n && !i.program.id; k++)
		if (link_above(&links[k], &at)) {
			interface_attached(links[k].index, 0, pin_entry(dir), &i, NULL);
			memcpy(i.name, links[k].name, sizeof(i.name));
		}
	free(links);
	if (!i.program.id)
		return 0;
	datapath_off(&i, dir, off);
	return refuse(-EBUSY, "%s: cannot %s XDP: %s, above it, has a program (%s, id %u); first run %s", dev, what,
		      i.name, i.program.name, i.program.id, off);
}

int interfaces_each(__u32 jobs_id, __u32 entry,
		    int (*visit)(const struct datapath_interface *i, int prog_fd, void *arg), void *arg)
{
	struct if_nameindex *all = if_nameindex();
	int n = 0, err = 0;

	if (!all)
		return fail(-errno, NULL, "cannot list the interfaces of this network namespace");
	for (struct if_nameindex *i = all; !err && i->if_index; i++) {
		struct datapath_interface found = {.name = ""};
		int prog_fd = -1, is = interface_attached(i->if_index, jobs_id, entry, &found, &prog_fd);

		/* Ignore an interface or a program that has been removed in the meantime. */
		if (is < 0 && is != -ENODEV && is != -ENOENT)
			err = fail(is, NULL, "%s: cannot look up its XDP program", i->if_name);
		if (is > 0) {
			snprintf(found.name, sizeof(found.name), "%s", i->if_name);
			err = visit(&found, prog_fd, arg);
			n++;
		}
		if (prog_fd >= 0)
			close(prog_fd);
	}
	if_freenameindex(all);
	return err ?: n;
}

static int replace(const struct datapath_interface *i, int old_fd, void *arg)
{
	LIBBPF_OPTS(bpf_xdp_attach_opts, opts, .old_prog_fd = old_fd);
	int err = bpf_xdp_attach(i->ifindex, *(int *)arg, XDP_FLAGS_REPLACE | mode_flags(i->mode), &opts);

	return err ? refuse(err, "%s: cannot replace the XDP program: %s; try again", i->name, reason(err)) : 0;
}

int interfaces_replace(__u32 jobs_id, int prog_fd)
{
	int n = interfaces_each(jobs_id, 0, replace, &prog_fd);

	return n < 0 ? n : 0;
}

bool datapath_is_entry(const char *name)
{
	return !strcmp(name, "fpisa") || !strcmp(name, "fpisa_steer");
}

bool interfaces_have_datapath(void)
{
	struct if_nameindex *all = if_nameindex();
	bool have = !all;

	for (struct if_nameindex *i = all; !have && i->if_index; i++) {
		struct datapath_interface found = {.name = ""};

		have = interface_attached(i->if_index, 0, 0, &found, NULL) < 0 ||
		       (found.program.id && (datapath_is_entry(found.program.name) || *found.program.name == '?'));
	}
	if (all)
		if_freenameindex(all);
	return have;
}

struct home {
	__u32 ifindex;
	char *dir;
};

static bool is_home(const char *dir, void *arg)
{
	struct datapath_interface i = {.name = ""};
	const struct home *h = arg;
	__u32 id;
	bool is = !pin_jobs_id(dir, &id) && id && strlen(dir) < PATH_MAX &&
		  interface_attached(h->ifindex, id, 0, &i, NULL) > 0;

	if (is)
		strcpy(h->dir, dir);
	return is;
}

bool datapath_home(__u32 ifindex, const char *first, char dir[PATH_MAX])
{
	struct home h = {ifindex, dir};

	if (is_home(first, &h))
		return true;
	for (int k = 0; k < PIN_SEARCH; k++)
		if (is_home(pin_search[k], &h))
			return true;
	return pin_walk(is_home, &h);
}

void datapath_off(const struct datapath_interface *i, const char *dir, char command[OFF_LEN])
{
	char home[PATH_MAX];

	if (!datapath_is_entry(i->program.name) || !datapath_home(i->ifindex, dir, home))
		snprintf(command, OFF_LEN, "ip link set dev %s xdp%s off", i->name,
			 i->mode == DATAPATH_SKB ? "generic" : "");
	else
		snprintf(command, OFF_LEN, "fpisa unload %s%s%s", i->name, strcmp(home, DATAPATH_PIN) ? " --pin " : "",
			 strcmp(home, DATAPATH_PIN) ? home : "");
}

const char *datapath_detach_text(const char *dev, enum datapath_mode mode, char command[DETACH_LEN])
{
	snprintf(command, DETACH_LEN, "ip link set dev %s xdp%s off", dev,
		 mode == DATAPATH_SKB	  ? "generic" :
		 mode == DATAPATH_OFFLOAD ? "offload" :
					    "drv");
	return command;
}

/*
 * Find the program's map of jobs by name, because its pin directory is not known. Return the number of jobs, or a
 * negative errno.
 */
static int jobs_of(int prog_fd)
{
	__u32 ids[64];
	struct bpf_prog_info info = {.nr_map_ids = 64, .map_ids = (__u64)(unsigned long)ids};
	__u32 len = sizeof(info);
	int jobs = -ENOENT;

	if (bpf_obj_get_info_by_fd(prog_fd, &info, &len))
		return -errno;
	for (__u32 i = 0; jobs == -ENOENT && i < info.nr_map_ids && i < 64; i++) {
		struct bpf_map_info map = {0};
		struct fpisa_job j;
		int fd = bpf_map_get_fd_by_id(ids[i]);

		if (fd < 0)
			return -errno;
		len = sizeof(map);
		if (!bpf_obj_get_info_by_fd(fd, &map, &len) && !strcmp(map.name, "fpisa_jobs"))
			jobs = map.value_size == sizeof(j) ? 0 : -EPROTO;
		for (__u32 job = 0; jobs >= 0 && job < map.max_entries; job++)
			jobs += !bpf_map_lookup_elem(fd, &job, &j) && j.active;
		close(fd);
	}
	return jobs;
}

int datapath_jobs_on(const struct datapath_interface *i)
{
	int fd = bpf_prog_get_fd_by_id(i->program.id), jobs = fd < 0 ? -errno : jobs_of(fd);

	if (fd >= 0)
		close(fd);
	return jobs;
}

int datapath_refuse_program(const char *dev, const struct datapath_interface *i, const char *dir)
{
	const char *generic = i->mode == DATAPATH_SKB ? "generic" : "";
	char home[PATH_MAX], jobs[48] = "";
	int n;

	if (!datapath_is_entry(i->program.name))
		return refuse(-EBUSY,
			      "%s: another XDP program is attached (%s, id %u); run ip link set dev %s xdp%s "
			      "off",
			      dev, i->program.name, i->program.id, dev, generic);
	if (datapath_home(i->ifindex, dir, home))
		return refuse(-EBUSY,
			      "%s runs the datapath that is pinned in %s; give --pin %s, or first run fpisa unload %s "
			      "--pin %s",
			      dev, home, home, dev, home);
	n = datapath_jobs_on(i);
	if (n)
		snprintf(jobs, sizeof(jobs),
			 n < 0 ? ", which ends its jobs if it has any" : ", which ends its jobs, %d", n);
	return refuse(-EBUSY,
		      "%s: another XDP program is attached (%s, id %u, not pinned in %s); give the --pin of its datapath, "
		      "or, if ip -n or ip netns exec lost its pins, run ip link set dev %s xdp%s off%s",
		      dev, i->program.name, i->program.id, dir, dev, generic, jobs);
}

int datapath_detach(const struct datapath *dp, const char *dev)
{
	struct datapath_interface found = {.name = ""};
	__u32 ifindex = if_nametoindex(dev);
	int prog_fd = -1, err = 0;

	if (ifindex && interface_attached(ifindex, dp->jobs_id, dp->control->entry, &found, &prog_fd) > 0)
		err = interface_detach(dev, ifindex, found.mode, prog_fd);
	if (prog_fd >= 0)
		close(prog_fd);
	return err;
}

struct search {
	__u32 jobs_id, entry;
	struct datapath_other_netns *found;
};

static int note(const struct datapath_interface *i, int prog_fd, void *arg)
{
	struct datapath_other_netns *e = arg;

	(void)prog_fd;
	strcpy(e->dev, i->name);
	return 0;
}

static int look(const char *prefix, void *arg)
{
	struct search *s = arg;
	int n = interfaces_each(s->jobs_id, s->entry, note, s->found);

	if (n > 0)
		snprintf(s->found->enter, sizeof(s->found->enter), "%s", prefix);
	return n;
}

int interfaces_in_other_netns(__u32 jobs_id, __u32 entry, struct datapath_other_netns *e)
{
	struct search s = {jobs_id, entry, e};
	int n;

	*e = (struct datapath_other_netns){.dev = ""};
	n = netns_others(look, &s, &e->hidden);
	/*
	 * Ask for more privilege only if it would help. A caller without CAP_SYS_ADMIN cannot enter namespaces, and a
	 * caller with both capabilities, as in a container, cannot get more.
	 */
	e->hidden &= privilege_has(PRIVILEGE_LOOK) && !privilege_has(PRIVILEGE_TRACE);
	return n;
}

bool datapath_in_other_netns(const struct datapath *dp, struct datapath_other_netns *e)
{
	return interfaces_in_other_netns(dp->jobs_id, dp->control->entry, e) > 0;
}
