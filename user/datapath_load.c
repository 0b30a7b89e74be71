// SPDX-License-Identifier: GPL-2.0-only
/*
 * Load, pin and attach; detach and remove. Everything is checked that can be
 * before anything is made; what a failed load has made is taken back.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_link.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cli.h"
#include "datapath_internal.h"

#define MAX_PINS 64

struct loading {
	const char *dir;
	int lock;
	bool made_dir;
	char before[MAX_PINS][NAME_MAX + 1]; /* pins that were there */
	int before_n;
	struct fpisa *skel;
	int entry_fd;
	struct fpisa_control *control;
};

/* -- interfaces --------------------------------------------------------- */

static __u32 mode_flags(enum datapath_mode mode)
{
	return mode == DATAPATH_SKB ? XDP_FLAGS_SKB_MODE : mode == DATAPATH_OFFLOAD ? XDP_FLAGS_HW_MODE :
										      XDP_FLAGS_DRV_MODE;
}

static int find_interfaces(char *const *devs, int n, __u32 *ifindex)
{
	for (int i = 0; i < n; i++) {
		ifindex[i] = if_nametoindex(devs[i]);
		if (!ifindex[i])
			return refuse(-ENODEV, "%s: no such interface; see ip link", devs[i]);
		for (int k = 0; k < i; k++)
			if (ifindex[k] == ifindex[i])
				return refuse(-EINVAL, "%s: named twice", devs[i]);
	}
	return 0;
}

/* Refuses an interface that has a program; jobs_id 0: nothing of ours is loaded. */
static int check_free(const char *dev, __u32 ifindex, __u32 jobs_id, const char *dir)
{
	struct datapath_interface i = { .name = "" };
	int got = attached(ifindex, jobs_id, &i, NULL);

	if (got < 0)
		return fail(got, NULL, "%s: query XDP", dev);
	if (got)
		return refuse(-EEXIST, "%s: is loaded already, %s, pinned in %s; fpisa unload %s detaches it", dev,
			      name_of(xdp_mode_names, i.mode), dir, dev);
	if (i.program.id)
		return refuse(-EBUSY, "%s: another XDP program is attached (%s, id %u); ip link set dev %s xdp%s off",
			      dev, i.program.name, i.program.id, dev, i.mode == DATAPATH_SKB ? "generic" : "");
	return 0;
}

static int attach(const char *dev, __u32 ifindex, int prog_fd, enum datapath_mode mode)
{
	const char *hint = "";
	int err;

	log_start();
	err = bpf_xdp_attach(ifindex, prog_fd, XDP_FLAGS_UPDATE_IF_NOEXIST | mode_flags(mode), NULL);
	if (!err)
		return 0;
	if (err == -EPERM)
		hint = "; run as root";
	else if (mode == DATAPATH_NATIVE)
		hint = err == -EOPNOTSUPP ? "; try --mode skb" :
					    "; try --mode skb, or a smaller MTU on both ends of the link";
	return refuse(err, "%s: attach %s XDP: %s%s", dev, name_of(xdp_mode_names, mode), reason(err), hint);
}

static int detach(const char *dev, __u32 ifindex, enum datapath_mode mode, int prog_fd)
{
	LIBBPF_OPTS(bpf_xdp_attach_opts, opts, .old_prog_fd = prog_fd);
	int err;

	log_start();
	err = bpf_xdp_detach(ifindex, mode_flags(mode), &opts);
	return err ? refuse(err, "%s: detach XDP: %s", dev, reason(err)) : 0;
}

/* -- the pin directory -------------------------------------------------- */

static int check_bpffs(const char *dir, const char *where)
{
	struct statfs fs;

	if (statfs(where, &fs))
		return fail(-errno, "make it with mkdir on a BPF filesystem", "%s", where);
	if (fs.f_type != BPF_FS_MAGIC)
		return refuse(-EINVAL, "%s: not on a BPF filesystem; mount -t bpf bpf /sys/fs/bpf, or --pin DIR on one",
			      dir);
	return 0;
}

static int prepare_dir(struct loading *l)
{
	char parent[PATH_MAX], *slash;
	struct stat st;
	int err;

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
	if (slash && !slash[1] && slash != parent) { /* trailing slash */
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
	if (mkdir(l->dir, 0700) && errno != EEXIST)
		return fail(-errno, NULL, "%s: make directory", l->dir);
	l->made_dir = true;
	return 0;
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
		} key = { .prefixlen = zeros + 1, .addr = htonl(0x80000000u >> zeros) };

		if (bpf_map_update_elem(fd, &key, &zeros, BPF_ANY))
			return fail(-errno, NULL, "fill fpisa_lpm");
	}
	__atomic_store_n(&l->control->trie_state, 2, __ATOMIC_RELEASE);
	return 0;
}

static int fill_bank(const struct loading *l, __u32 bank)
{
	int stages = map_fd(l, "fpisa_stages");

	for (__u32 k = 0; k < FPISA_STAGES; k++) {
		__u32 index = bank * FPISA_BANK_SIZE + k;
		struct bpf_program *prog;
		char name[16];
		int fd;

		snprintf(name, sizeof(name), "fpisa_mau%u", k);
		prog = bpf_object__find_program_by_name(object_of(l->skel), name);
		if (!prog)
			return refuse(-ENOENT, "datapath object: no program %s", name);
		fd = bpf_program__fd(prog);
		if (bpf_map_update_elem(stages, &index, &fd, BPF_ANY))
			return fail(-errno, NULL, "put %s into fpisa_stages", name);
	}
	return 0;
}

/*
 * Both banks of a new datapath; of one that is running (its maps were made
 * by ip link) the idle one, which new frames use from then on.
 */
static int fill_stages(const struct loading *l)
{
	__u32 idle = !l->control->bank;
	int err;

	if (!l->before_n)
		return fill_bank(l, 0) ?: fill_bank(l, 1);
	err = fill_bank(l, idle);
	if (!err)
		__atomic_store_n(&l->control->bank, idle, __ATOMIC_RELEASE);
	return err;
}

static int pin_programs(const struct loading *l)
{
	struct bpf_program *prog;
	char path[PATH_MAX];

	bpf_object__for_each_program(prog, object_of(l->skel)) {
		int err = pin_path(path, l->dir, bpf_program__name(prog));

		if (err)
			return err;
		if (bpf_obj_pin(bpf_program__fd(prog), path))
			return fail(-errno, NULL, "%s: pin", path);
	}
	return 0;
}

static int map_control(struct loading *l, int fd)
{
	void *p = mmap(NULL, sizeof(*l->control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return fail(-errno, NULL, "fpisa_control: map");
	l->control = p;
	return 0;
}

static int load_objects(struct loading *l, __u32 port)
{
	struct bpf_program *entry;
	int err;

	err = object_open(&l->skel, l->dir);
	if (!err)
		err = object_load(l->skel);
	if (!err)
		err = map_control(l, map_fd(l, "fpisa_control"));
	if (err)
		return err;
	if (port)
		l->control->port = port;
	err = fill_trie(l);
	if (!err)
		err = fill_stages(l);
	if (!err)
		err = pin_programs(l);
	if (err)
		return err;
	entry = bpf_object__find_program_by_name(object_of(l->skel), "fpisa");
	l->entry_fd = dup(bpf_program__fd(entry));
	return l->entry_fd < 0 ? fail(-errno, NULL, "entry program") : 0;
}

/* Use what is loaded; a port that differs is refused, for jobs and workers rely on it. */
static int join_loaded(struct loading *l, __u32 port)
{
	int fd = pin_open(l->dir, "fpisa_control"), err;
	__u32 now;

	if (fd < 0)
		return fail(fd, "fpisa unload removes what is left of a datapath", "%s/fpisa_control", l->dir);
	err = map_control(l, fd);
	close(fd);
	if (err)
		return err;
	now = l->control->port ?: FPISA_PORT;
	if (port && port != now)
		return refuse(-EEXIST, "%s: a datapath with port %u is loaded; leave --port away, or fpisa unload first",
			      l->dir, now);
	return 0;
}

int datapath_load(const struct datapath_load *o, char *const *devs, int n)
{
	struct loading l = { .dir = o->pin ?: DATAPATH_PIN, .lock = -1, .entry_fd = -1 };
	__u32 ifindex[DATAPATH_MAX_INTERFACES], jobs_id = 0;
	int err, fd, done = 0;

	if (n > DATAPATH_MAX_INTERFACES)
		return refuse(-E2BIG, "more than %d interfaces", DATAPATH_MAX_INTERFACES);
	err = find_interfaces(devs, n, ifindex);
	if (!err)
		err = check_privilege();
	if (!err)
		err = prepare_dir(&l);
	if (!err)
		err = pin_lock(l.dir, &l.lock);
	if (err)
		goto out_dir;
	l.before_n = pin_list(l.dir, l.before, MAX_PINS);
	l.entry_fd = pin_open(l.dir, "fpisa");
	fd = pin_open(l.dir, "fpisa_jobs");
	if (fd >= 0) {
		jobs_id = map_id(fd);
		close(fd);
	}
	for (int i = 0; !err && i < n; i++)
		err = check_free(devs[i], ifindex[i], jobs_id, l.dir);
	if (!err)
		err = l.entry_fd >= 0 ? join_loaded(&l, o->port) : load_objects(&l, o->port);
	while (!err && done < n) {
		err = attach(devs[done], ifindex[done], l.entry_fd, o->mode);
		done += !err;
	}
	for (int i = 0; err && i < done; i++)
		detach(devs[i], ifindex[i], o->mode, l.entry_fd);
	if (err)
		pin_remove_all(l.dir, l.before, l.before_n);
out_dir:
	if (err && l.made_dir)
		rmdir(l.dir);
	if (l.control)
		munmap(l.control, sizeof(*l.control));
	if (l.entry_fd >= 0)
		close(l.entry_fd);
	if (l.skel)
		object_close(l.skel);
	pin_unlock(&l.lock);
	return err;
}

/* -- unload ------------------------------------------------------------ */

/* All interfaces of this namespace that run the datapath of jobs_id. Returns how many, or -errno. */
static int detach_all(__u32 jobs_id, bool count_only)
{
	struct if_nameindex *all = if_nameindex();
	int n = 0, err = 0;

	if (!all)
		return fail(-errno, NULL, "list interfaces");
	for (struct if_nameindex *i = all; !err && i->if_index; i++) {
		struct datapath_interface found = { .name = "" };
		int prog_fd = -1, got = attached(i->if_index, jobs_id, &found, &prog_fd);

		if (got > 0) {
			n++;
			if (!count_only)
				err = detach(i->if_name, i->if_index, found.mode, prog_fd);
		}
		if (prog_fd >= 0)
			close(prog_fd);
	}
	if_freenameindex(all);
	return err ?: n;
}

static int detach_named(char *const *devs, const __u32 *ifindex, int n, __u32 jobs_id)
{
	struct datapath_interface found[DATAPATH_MAX_INTERFACES];
	int prog_fd, err = 0;

	for (int i = 0; i < n; i++)
		if (attached(ifindex[i], jobs_id, &found[i], NULL) <= 0)
			return refuse(-ENOENT, "%s: this datapath is not loaded on it; see fpisa status", devs[i]);
	for (int i = 0; !err && i < n; i++) {
		prog_fd = bpf_prog_get_fd_by_id(found[i].program.id);
		if (prog_fd < 0)
			return fail(-errno, NULL, "%s: program %u", devs[i], found[i].program.id);
		err = detach(devs[i], ifindex[i], found[i].mode, prog_fd);
		close(prog_fd);
	}
	return err;
}

int datapath_unload(const char *pin, char *const *devs, int n, bool *removed)
{
	__u32 ifindex[DATAPATH_MAX_INTERFACES], jobs_id;
	char dir[PATH_MAX];
	int err, fd = -1, lock = -1, left = 0;

	*removed = false;
	if (n > DATAPATH_MAX_INTERFACES)
		return refuse(-E2BIG, "more than %d interfaces", DATAPATH_MAX_INTERFACES);
	err = find_interfaces(devs, n, ifindex);
	if (!err)
		err = check_privilege();
	if (err)
		return err;
	err = pin_find(dir, pin, true);
	if (err == -ENOENT)
		return refuse(err, "%s: nothing is loaded, nothing to unload; see fpisa load", pin ?: DATAPATH_PIN);
	if (err)
		return fail(err, NULL, "%s", pin ?: DATAPATH_PIN);
	err = pin_lock(dir, &lock);
	if (err)
		return err;
	fd = pin_open(dir, "fpisa_jobs");
	if (fd < 0) {
		err = fail(fd, NULL, "%s/fpisa_jobs", dir);
		goto out;
	}
	jobs_id = map_id(fd);
	if (n) {
		err = detach_named(devs, ifindex, n, jobs_id);
		if (!err)
			left = detach_all(jobs_id, true);
	} else {
		err = detach_all(jobs_id, false);
	}
	err = err < 0 ? err : left < 0 ? left : 0;
	if (!err && !left) {
		pin_remove_all(dir, NULL, 0);
		*removed = true;
	}
out:
	if (fd >= 0)
		close(fd);
	pin_unlock(&lock);
	return err;
}
