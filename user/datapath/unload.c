// SPDX-License-Identifier: GPL-2.0-only
/* Take the datapath off interfaces and, where none is left, its pins away. */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/report.h"
#include "datapath.h"
#include "host/privilege.h"
#include "interface.h"
#include "pin.h"
#include "routes.h"

static int detach(const struct datapath_interface *i, int prog_fd, void *unused)
{
	(void)unused;
	return interface_detach(i->name, i->ifindex, i->mode, prog_fd);
}

static int count(const struct datapath_interface *i, int prog_fd, void *unused)
{
	(void)i, (void)prog_fd, (void)unused;
	return 0;
}

static int detach_named(char *const *devs, const __u32 *ifindex, int n, __u32 jobs_id, __u32 entry)
{
	struct datapath_interface found[DATAPATH_MAX_INTERFACES];
	int prog_fd, err = 0;

	for (int i = 0; i < n; i++)
		if (interface_attached(ifindex[i], jobs_id, entry, &found[i], NULL) <= 0)
			return refuse(-ENOENT, "%s: this datapath is not loaded on it; see fpisa status",
				      devs[i]);
	for (int i = 0; !err && i < n; i++) {
		prog_fd = bpf_prog_get_fd_by_id(found[i].program.id);
		if (prog_fd < 0 && errno != EPERM)
			return fail(-errno, NULL, "%s: program %u", devs[i], found[i].program.id);
		err = interface_detach(devs[i], ifindex[i], found[i].mode, prog_fd);
		if (prog_fd >= 0)
			close(prog_fd);
	}
	return err;
}

/* Takes `n` named interfaces, or all of this namespace, off; removes the pins if it then runs nowhere. */
static int take_off(const char *dir, const char *pin, char *const *devs, const __u32 *ifindex, int n,
		    struct datapath_unloaded *u)
{
	__u32 jobs_id = pin_jobs_id(dir), entry = pin_entry(dir);
	int err = n ? detach_named(devs, ifindex, n, jobs_id, entry) :
		      interfaces_each(jobs_id, entry, detach, NULL);
	bool none = !n && !err;
	int left = err < 0 || !n ? 0 : interfaces_each(jobs_id, entry, count, NULL);

	if (err < 0 || left)
		return err < 0 ? err : left < 0 ? left : 0;
	err = interfaces_in_other_netns(jobs_id, entry, &u->elsewhere);
	if (err < 0)
		return fail(err, NULL, "other network namespaces");
	if (err && none)
		return refuse(-ENOENT,
			      "%s: runs on no interface of this network namespace, but on %s of another; "
			      "%sfpisa unload%s%s",
			      dir, u->elsewhere.dev, u->elsewhere.enter, pin ? " --pin " : "", pin ?: "");
	if (!err && none && u->elsewhere.hidden)
		return refuse(-EPERM,
			      "%s: runs on no interface of this network namespace, but may in those of processes that do "
			      "not let this one look; run fpisa unload%s%s with CAP_SYS_PTRACE",
			      dir, pin ? " --pin " : "", pin ?: "");
	if (!err && !u->elsewhere.hidden) {
		routes_release_all(dir);
		pin_remove_all(dir, NULL, 0);
		u->removed = true;
	}
	return 0;
}

/* Beside a datapath that is pinned elsewhere: where load pins, what a load or an unload left that was killed. */
static int take_remains(struct datapath_unloaded *u)
{
	struct datapath_unloaded also = { .removed = false };
	char dir[PATH_MAX];
	int err = 0, lock = -1;

	if (pin_find_remains(dir, DATAPATH_PIN) || pin_lock(dir, &lock))
		return 0;
	/* One that was loaded meanwhile stays. */
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

	*u = (struct datapath_unloaded){ .removed = false };
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
	/* What a loader made before it was killed may be the directory alone. */
	if (!err && !pin_any(dir)) {
		pin_remove_all(dir, NULL, 0);
		err = -ENOENT;
	}
	if (err == -ENOENT)
		err = refuse(
			err,
			"%s: nothing is loaded, nothing to unload; ip link set dev DEV xdp off detaches other "
			"programs",
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
