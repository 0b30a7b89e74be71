// SPDX-License-Identifier: GPL-2.0-only
/*
 * Load, pin and attach. All possible checks precede the creation of objects. A failed load removes all objects that it
 * has created.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cli/names.h"
#include "cli/report.h"
#include "datapath.h"
#include "egress.h"
#include "family.h"
#include "generation.h"
#include "host/kind.h"
#include "host/netns.h"
#include "host/privilege.h"
#include "host/stack.h"
#include "info.h"
#include "interface.h"
#include "object.h"
#include "pin.h"
#include "slots.h"
#include "steer.h"

struct loading {
	const char *dir;
	int lock;
	bool made_dir;
	pin_name *before; /* pins that existed before */
	int before_n;
	struct fpisa_steering steering;
	__u32 slots;
	struct fpisa_bpf *skel;
	struct fpisa_steer_bpf *steer; /* skeleton of the steering programs; NULL: no steering */
	int entry_fd;
	struct fpisa_control *control;
};

/* Refuse an interface that has a program. jobs_id is 0 if no datapath is loaded. */
static int check_free(const char *dev, __u32 ifindex, __u32 jobs_id, const char *dir)
{
	struct datapath_interface i = {.name = ""};
	int got = interface_attached(ifindex, jobs_id, pin_entry(dir), &i, NULL);

	if (got < 0)
		return fail(got, NULL, "%s: cannot query the XDP program", dev);
	if (got)
		return refuse(-EEXIST, "%s is loaded already (%s, pinned in %s); to detach it, run fpisa unload %s",
			      dev, name_of(xdp_mode_names, i.mode), dir, dev);
	return i.program.id ? datapath_refuse_program(dev, &i, dir) : 0;
}

static bool named_too(const struct link *l, const __u32 *ifindex, int n)
{
	for (int i = 0; i < n; i++)
		if (ifindex[i] == l->index)
			return true;
	return false;
}

/* Refuse an interface whose kind does not permit the datapath. */
static int check_kind(const char *dev, __u32 ifindex, enum datapath_mode mode)
{
	struct link at, *links = NULL;
	int n = links_get(&links), err = link_get(ifindex, &at);
	char why[KIND_WHY_LEN];

	if (!err && kind_unfit(&at, mode == DATAPATH_SKB, link_native(&at), links, n > 0 ? n : 0, why))
		err = refuse(-EOPNOTSUPP, "%s %s", dev, why);
	else if (err)
		fail(err, NULL, "%s", dev);
	free(links);
	return err;
}

/* Refuse interface k of the interfaces to load if another interface above or below it has or would get a datapath. */
static int check_stack(const char *dev, const __u32 *ifindex, int k, __u32 jobs_id, const char *dir)
{
	struct datapath_interface i = {.ifindex = 0};
	struct link at, *links = NULL;
	int n, *found = NULL, err = link_get(ifindex[k], &at);
	char off[OFF_LEN];

	if (err)
		return fail(err, NULL, "%s", dev);
	n = links_get(&links);
	found = n > 0 ? calloc(n, sizeof(*found)) : NULL;
	n = found ? links_stack(links, n, &at, true, found) : 0;
	for (int j = 0; !err && j < n; j++)
		if (named_too(&links[found[j]], ifindex, DATAPATH_MAX_INTERFACES))
			err = refuse(
				-EINVAL,
				"%s is below %s; load the datapath on only one of them, because the lower one would take the frames "
				"and answer through the other",
				dev, links[found[j]].name);
	free(found);
	free(links);
	err = err ?: interface_check_above(dev, ifindex[k], "attach", dir);
	if (!err && interface_stacked(ifindex[k], true, jobs_id, pin_entry(dir), true, &i)) {
		datapath_off(&i, dir, off);
		return refuse(-EBUSY,
			      "%s: a datapath is on %s, above it, and workers cannot join with both; first "
			      "run %s",
			      dev, i.name, off);
	}
	if (!err && interface_stacked(ifindex[k], false, jobs_id, pin_entry(dir), true, &i)) {
		datapath_off(&i, dir, off);
		return refuse(-EBUSY,
			      "%s: a datapath is on %s, below it, and workers cannot join with both; %s%s%sfirst run %s",
			      dev, i.name, link_answered_below(&at) ? "give that interface for the workers, ADDR@" : "",
			      link_answered_below(&at) ? i.name : "", link_answered_below(&at) ? ", or " : "", off);
	}
	return err;
}

/* -- the pin directory -------------------------------------------------- */

/* Refuse the private /sys of `ip netns exec`, because pins below it disappear when the command exits. */
static int refuse_netns_exec(const char *dir)
{
	char name[NAME_MAX + 1];

	if (strncmp(dir, "/sys/", 5) || !netns_exec(name))
		return 0;
	return refuse(-EINVAL,
		      "%s: pins there disappear when ip netns exec ends; run nsenter --net=/run/netns/%s fpisa load "
		      "..., or give --pin DIR outside /sys",
		      dir, name);
}

/* Check the owner of the directory. pin_lock() handles a directory that has been removed in the meantime. */
static int check_trust(const char *dir)
{
	int err = pin_trust(dir, true);

	return !err || err == -ENOENT ? 0 : pin_trust(dir, false);
}

static int check_bpffs(const char *dir, const char *where)
{
	struct statfs fs;

	if (statfs(where, &fs))
		return fail(-errno, "create it with mkdir on a BPF filesystem", "%s", where);
	if (fs.f_type != BPF_FS_MAGIC)
		return refuse(-EINVAL,
			      "%s is not on a BPF filesystem; run mount -t bpf bpf /sys/fs/bpf, or give --pin DIR on a "
			      "BPF filesystem",
			      dir);
	return 0;
}

static int prepare_dir(struct loading *l)
{
	char parent[PATH_MAX], *slash;
	struct stat st;
	int err = check_trust(l->dir);

	if (err)
		return err;
	if (!stat(l->dir, &st)) {
		if (!S_ISDIR(st.st_mode))
			return fail(-ENOTDIR, NULL, "%s", l->dir);
		return check_bpffs(l->dir, l->dir);
	}
	if (errno != ENOENT)
		return fail(-errno, NULL, "%s", l->dir);
	if (strlen(l->dir) >= sizeof(parent))
		return fail(-ENAMETOOLONG, NULL, "%s", l->dir);
	strcpy(parent, l->dir);
	slash = strrchr(parent, '/');
	if (slash && !slash[1] && slash != parent) { /* ignore a trailing slash */
		*slash = 0;
		slash = strrchr(parent, '/');
	}
	if (!slash)
		strcpy(parent, ".");
	else
		slash[slash == parent] = 0;
	err = check_bpffs(l->dir, parent);
	if (err)
		return err;
	l->made_dir = !mkdir(l->dir, 0700);
	if (!l->made_dir && errno != EEXIST)
		return fail(-errno, NULL, "%s: cannot create the directory", l->dir);
	return check_trust(l->dir);
}

/*
 * Create and lock the directory. A concurrent unload may remove the directory before it is locked, so try again in this
 * case.
 */
static int lock_dir(struct loading *l)
{
	int err;

	for (int tries = 0; tries < 100; tries++) {
		err = prepare_dir(l);
		if (err)
			return err;
		err = pin_lock(l->dir, &l->lock);
		if (err != -ENOENT)
			break;
	}
	return err ? fail(err, NULL, "%s: cannot lock", l->dir) : 0;
}

/* -- load -------------------------------------------------------------- */

static int map_fd(const struct loading *l, const char *name)
{
	return bpf_object__find_map_fd_by_name(object_of(l->skel), name);
}

static int fill_trie(const struct loading *l)
{
	int fd = map_fd(l, "fpisa_lpm");

	for (__u32 zeros = 0; zeros < 32; zeros++) {
		struct {
			__u32 prefixlen;
			__be32 addr;
		} key = {.prefixlen = zeros + 1, .addr = htonl(0x80000000u >> zeros)};

		if (bpf_map_update_elem(fd, &key, &zeros, BPF_ANY))
			return fail(-errno, NULL, "cannot fill the trie for --clz lpm (map fpisa_lpm)");
	}
	__atomic_store_n(&l->control->trie_state, 2, __ATOMIC_RELEASE);
	return 0;
}

/*
 * Fill both banks of a new datapath. If the datapath is already running (its maps were created by ip link), fill the
 * idle bank. After that, new frames use this bank.
 */
static int fill_stages(const struct loading *l)
{
	int stages = map_fd(l, "fpisa_stages"), err;
	__u32 idle = !l->control->bank;

	if (!l->before_n)
		return family_fill(stages, object_of(l->skel), 0, 0) ?: family_fill(stages, object_of(l->skel), 0, 1);
	err = family_fill(stages, object_of(l->skel), 0, idle);
	if (!err)
		__atomic_store_n(&l->control->bank, idle, __ATOMIC_RELEASE);
	return err;
}

static int map_control(struct loading *l, int fd)
{
	void *p = mmap(NULL, sizeof(*l->control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return fail(-errno, NULL, "cannot map the memory of fpisa_control");
	l->control = p;
	return 0;
}

static int load_objects(struct loading *l, __u32 port)
{
	const struct bpf_program *entry, *first;
	struct datapath_program info;
	int err;

	err = pin_abi_make(l->dir);
	/*
	 * Because of this program, which is the first in fpisa_stages, the array accepts only programs that run from a
	 * CPU map.
	 */
	if (!err && l->steering.cpus)
		err = steer_load(l->dir, l->slots, &l->steer);
	if (!err)
		err = object_open(&l->skel, l->dir, l->steer) ?: slots_fit(object_of(l->skel), l->slots);
	if (!err)
		err = object_load(l->skel);
	if (!err)
		err = map_control(l, map_fd(l, "fpisa_control"));
	if (err)
		return err;
	generations_seed(l->control);
	if (port)
		l->control->port = port;
	entry = bpf_object__find_program_by_name(object_of(l->skel), "fpisa");
	if (!entry)
		return refuse(-ENOENT,
			      "the datapath object does not have the program fpisa; install this release again");
	err = fill_trie(l);
	if (!err)
		err = fill_stages(l);
	if (!err && l->steer)
		err = steer_fill(l->steer, &l->steering) ?: steer_pin(l->dir, l->steer);
	if (!err)
		err = pin_programs(l->dir, object_of(l->skel));
	if (err)
		return err;
	first = l->steer ? steer_program(l->steer) : entry;
	l->entry_fd = dup(bpf_program__fd(first));
	if (l->entry_fd < 0)
		return fail(-errno, NULL, "cannot duplicate the descriptor of the entry program");
	err = program_info(l->entry_fd, &info);
	if (err)
		return fail(err, NULL, "cannot look up the entry program");
	l->control->entry = info.id;
	return 0;
}

/* Use the loaded datapath. Refuse a different port, because jobs and workers rely on the port. */
static int join_loaded(struct loading *l, __u32 port)
{
	int fd = pin_open(l->dir, "fpisa_control"), err;
	__u32 now;

	if (fd < 0)
		return fail(fd, "a program but no maps are pinned there; remove the program, or give another --pin",
			    "%s/fpisa_control", l->dir);
	err = map_control(l, fd);
	close(fd);
	if (err)
		return err;
	if (l->steering.cpus) {
		close(l->entry_fd);
		l->entry_fd = pin_open(l->dir, "fpisa_steer");
		if (l->entry_fd < 0)
			return fail(l->entry_fd, NULL, "%s/fpisa_steer: cannot open", l->dir);
	}
	now = l->control->port ?: FPISA_PORT;
	if (port && port != now)
		return refuse(-EEXIST,
			      "%s: a datapath with port %u is loaded; leave --port out, or first run fpisa unload",
			      l->dir, now);
	return 0;
}

/*
 * Check pins and attached programs before anything is changed, and that the datapath can be attached to each interface.
 */
static int look_around(struct loading *l, enum datapath_mode mode, char *const *devs, const __u32 *ifindex, int n)
{
	int fd = pin_open(l->dir, "fpisa_jobs"), err = pin_abi(l->dir);
	__u32 jobs_id = fd >= 0 ? map_id(fd) : 0;

	if (fd >= 0)
		close(fd);
	l->entry_fd = pin_open(l->dir, "fpisa");
	for (int i = 0; !err && i < n; i++) {
		err = check_free(devs[i], ifindex[i], jobs_id, l->dir);
		err = err ?: check_stack(devs[i], ifindex, i, jobs_id, l->dir);
		err = err ?: check_kind(devs[i], ifindex[i], mode);
	}
	return err;
}

/* Check that the requested options fit the loaded datapath. */
static int check_wishes(struct loading *l, const struct datapath_load *o, const char *dev)
{
	int err;

	if (o->group != DATAPATH_NO_GROUP && !l->made_dir && l->entry_fd < 0)
		return refuse(-EEXIST,
			      "%s already exists, but --group requires a directory that fpisa load creates; try --pin "
			      "DIR",
			      l->dir);
	err = slots_choose(l->dir, o->slots, &l->slots) ?: steering_choose(l->dir, &o->steering, &l->steering);
	/*
	 * Refuse steering in generic mode, because the stack can spread frames over CPUs before generic XDP. In
	 * addition, CPU maps of Linux 6.1 lose such frames.
	 */
	if (!err && l->steering.cpus && o->mode != DATAPATH_NATIVE)
		return refuse(-EOPNOTSUPP,
			      "%s: --cpus requires native XDP; in mode skb, let the stack spread frames: "
			      "/sys/class/net/%s/queues/rx-*/rps_cpus",
			      dev ?: l->dir, dev ?: "DEV");
	return err;
}

static int load_or_join(struct loading *l, const struct datapath_load *o)
{
	const bool give = o->group != DATAPATH_NO_GROUP;
	/* The attached programs have been checked, so the capabilities for loading are enough now. */
	int err = o->drop ? privilege_keep_load(give) : 0;

	if (!err)
		err = l->entry_fd >= 0 ? join_loaded(l, o->port) : load_objects(l, o->port);
	if (!err && give && (chown(l->dir, -1, o->group) || chmod(l->dir, 0750)))
		err = fail(-errno, NULL, "%s: cannot give it to Unix group %u", l->dir, o->group);
	return err;
}

/* Attach to all interfaces, or to none. */
static int attach_all(const struct loading *l, enum datapath_mode mode, char *const *devs, const __u32 *ifindex, int n)
{
	int err = datapath_interrupted("load"), done = 0;

	while (!err && done < n) {
		err = interface_attach(devs[done], ifindex[done], l->entry_fd, mode);
		done += !err;
		err = err ?: datapath_interrupted("load");
	}
	for (int i = 0; err && i < done; i++)
		interface_detach(devs[i], ifindex[i], mode, l->entry_fd);
	return err;
}

/* Load with the directory locked. If anything fails, remove the new pins again. */
static int load_locked(struct loading *l, const struct datapath_load *o, char *const *devs, const __u32 *ifindex, int n)
{
	int err;

	l->before_n = pin_list(l->dir, &l->before);
	if (l->before_n < 0)
		return l->before_n;
	err = look_around(l, o->mode, devs, ifindex, n);
	err = err ?: check_wishes(l, o, n ? devs[0] : NULL);
	err = err ?: load_or_join(l, o);
	err = err ?: reply_ports_add(l->dir, ifindex, n);
	err = err ?: pin_share(l->dir);
	err = err ?: attach_all(l, o->mode, devs, ifindex, n);
	if (err)
		pin_remove_all(l->dir, l->before, l->before_n);
	return err;
}

static void release(struct loading *l)
{
	free(l->before);
	if (l->control)
		munmap(l->control, sizeof(*l->control));
	if (l->entry_fd >= 0)
		close(l->entry_fd);
	if (l->skel)
		object_close(l->skel);
	if (l->steer)
		steer_close(l->steer);
	pin_unlock(&l->lock);
}

int datapath_load(const struct datapath_load *o, char *const *devs, int n)
{
	struct loading l = {.dir = o->pin ?: DATAPATH_PIN, .lock = -1, .entry_fd = -1};
	__u32 ifindex[DATAPATH_MAX_INTERFACES] = {0};
	int err = find_interfaces(devs, n, ifindex);

	err = err ?: privilege_check(PRIVILEGE_LOAD, "load");
	err = err ?: refuse_netns_exec(l.dir);
	err = err ?: lock_dir(&l);
	err = err ?: load_locked(&l, o, devs, ifindex, n);
	if (o->drop)
		err = err ?: privilege_drop();
	if (err && l.made_dir)
		rmdir(l.dir);
	release(&l);
	return err;
}
