// SPDX-License-Identifier: GPL-2.0-only
/* Detach the datapath from interfaces, and remove its pins if it runs on no interface. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/report.h"
#include "datapath.h"
#include "host/privilege.h"
#include "host/stack.h"
#include "interface.h"
#include "pin.h"
#include "routes.h"

struct found {
	struct datapath_interface interface[DATAPATH_MAX_INTERFACES];
	int n;
};

static int note(const struct datapath_interface *i, int prog_fd, void *arg)
{
	struct found *f = arg;

	(void)prog_fd;
	if (f->n == DATAPATH_MAX_INTERFACES)
		return refuse(-E2BIG,
			      "the datapath runs on more than %d interfaces, which is not supported; unload some "
			      "by name",
			      DATAPATH_MAX_INTERFACES);
	f->interface[f->n++] = *i;
	return 0;
}

static int count(const struct datapath_interface *i, int prog_fd, void *unused)
{
	(void)i, (void)prog_fd, (void)unused;
	return 0;
}

static int find_named(char *const *devs, const __u32 *ifindex, int n, __u32 jobs_id, __u32 entry, struct found *f)
{
	for (f->n = 0; f->n < n; f->n++) {
		struct datapath_interface *i = &f->interface[f->n];
		int is = interface_attached(ifindex[f->n], jobs_id, entry, i, NULL);
		char place[IF_NAMESIZE];

		if (!is && strcmp(datapath_place(devs[f->n], DATAPATH_NATIVE, place), devs[f->n]))
			return refuse(-ENOENT,
				      "%s: the datapath is not there, but may be on %s, below it; run fpisa unload %s",
				      devs[f->n], place, place);
		if (is < 0)
			return fail(is, NULL, "%s: cannot look up its XDP program", devs[f->n]);
		if (!is)
			return refuse(-ENOENT, "%s: this datapath is not loaded there; see fpisa status", devs[f->n]);
		snprintf(i->name, sizeof(i->name), "%s", devs[f->n]);
	}
	return 0;
}

static int detach(const struct datapath_interface *i, const char *dir)
{
	int prog_fd = bpf_prog_get_fd_by_id(i->program.id), err;

	if (prog_fd < 0 && errno != EPERM)
		return fail(-errno, NULL, "%s: cannot open its program %u", i->name, i->program.id);
	err = interface_check_above(i->name, i->ifindex, "detach", dir) ?:
		      interface_detach(i->name, i->ifindex, i->mode, prog_fd);
	if (prog_fd >= 0)
		close(prog_fd);
	return err;
}

/* Count the interfaces of `links` below this interface. */
static int depth(const struct link *links, int n, __u32 ifindex)
{
	int *found = calloc(n + 1, sizeof(*found)), below = 0;

	for (int i = 0; found && i < n; i++)
		if (links[i].index == ifindex)
			below = links_stack(links, n, &links[i], false, found);
	free(found);
	return below;
}

/*
 * Detach from all interfaces. Begin with upper interfaces, because the kernel does not detach a program below an
 * interface that has a program.
 */
static int detach_all(struct found *f, const char *dir)
{
	struct link *links = NULL;
	int n = links_get(&links), err = 0;

	n = n < 0 ? 0 : n;
	for (int left = f->n; !err && left; left--) {
		int top = 0;

		for (int i = 1; i < left; i++)
			if (depth(links, n, f->interface[i].ifindex) > depth(links, n, f->interface[top].ifindex))
				top = i;
		err = detach(&f->interface[top], dir);
		f->interface[top] = f->interface[left - 1];
	}
	free(links);
	return err;
}

/*
 * Detach from `n` named interfaces, or from all of this namespace. Then remove the pins if the datapath runs on no
 * interface.
 */
static int take_off(const char *dir, const char *pin, char *const *devs, const __u32 *ifindex, int n,
		    struct datapath_unloaded *u)
{
	__u32 jobs_id, entry = pin_entry(dir);
	struct found f = {.n = 0};
	int err = pin_jobs_id(dir, &jobs_id), left;
	bool none;

	if (err)
		return fail(err, "try again", "%s: cannot open the datapath's maps", dir);
	err = n ? find_named(devs, ifindex, n, jobs_id, entry, &f) : interfaces_each(jobs_id, entry, note, &f);
	none = !f.n && !err;
	err = err < 0 ? err : detach_all(&f, dir);
	left = err < 0 || !n ? 0 : interfaces_each(jobs_id, entry, count, NULL);
	if (err < 0 || left)
		return err < 0 ? err : left < 0 ? left : 0;
	err = interfaces_in_other_netns(jobs_id, entry, &u->elsewhere);
	if (err < 0)
		return fail(err, NULL, "cannot inspect other network namespaces");
	if (err && none)
		return refuse(-ENOENT,
			      "%s: the datapath is not attached in this network namespace, but on %s of another; run "
			      "%sfpisa unload%s%s",
			      dir, u->elsewhere.dev, u->elsewhere.enter, pin ? " --pin " : "", pin ?: "");
	if (!err && none && u->elsewhere.hidden)
		return refuse(-EPERM,
			      "%s: the datapath is not attached in this network namespace, but may be in one that this "
			      "process cannot inspect; with CAP_SYS_PTRACE, run fpisa unload%s%s",
			      dir, pin ? " --pin " : "", pin ?: "");
	if (!err && !u->elsewhere.hidden) {
		routes_release_all(dir);
		pin_remove_all(dir, NULL, 0);
		u->removed = true;
	}
	return 0;
}

/*
 * If a datapath is pinned elsewhere, also remove the remains of a killed load or unload from the directory in which
 * load pins.
 */
static int take_remains(struct datapath_unloaded *u)
{
	struct datapath_unloaded also = {.removed = false};
	char dir[PATH_MAX];
	int err = 0, lock = -1;

	if (pin_find_remains(dir, DATAPATH_PIN) || pin_lock(dir, &lock))
		return 0;
	/* Do not remove a datapath that was loaded in the meantime. */
	if (pin_find(dir, DATAPATH_PIN, true) == -ENOENT && pin_any(dir))
		err = take_off(dir, NULL, NULL, NULL, 0, &also);
	if (*also.elsewhere.dev)
		u->elsewhere = also.elsewhere;
	pin_unlock(&lock);
	return err;
}

int datapath_unload(const char *pin, char *const *devs, int n, struct datapath_unloaded *u)
{
	__u32 ifindex[DATAPATH_MAX_INTERFACES];
	char dir[PATH_MAX];
	int err, lock = -1;

	*u = (struct datapath_unloaded){.removed = false};
	err = find_interfaces(devs, n, ifindex);
	if (!err)
		err = privilege_check(PRIVILEGE_ATTACH, "unload");
	if (err)
		return err;
	err = pin_find(dir, pin, true);
	if (err == -ENOENT)
		err = pin_find_remains(dir, pin);
	if (err == -EPERM && pin_trust(dir, false))
		return err;
	if (!err)
		err = pin_lock(dir, &lock);
	/* A killed loader may have created only the directory. */
	if (!err && !pin_any(dir)) {
		pin_remove_all(dir, NULL, 0);
		err = -ENOENT;
	}
	if (err == -ENOENT)
		err = refuse(err, "%s: no datapath is loaded; to detach other programs, run ip link set dev DEV xdp off",
			     pin ?: DATAPATH_PIN);
	else if (err)
		err = fail(err, NULL, "%s", pin ?: DATAPATH_PIN);
	else
		err = take_off(dir, pin, devs, ifindex, n, u);
	pin_unlock(&lock);
	if (!err && !pin && !n && strcmp(dir, DATAPATH_PIN))
		err = take_remains(u);
	return err;
}
