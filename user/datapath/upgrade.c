// SPDX-License-Identifier: GPL-2.0-only
/*
 * Upgrade a running datapath, which is complete at every moment. First fill the idle bank, and let new frames use this
 * bank by one store. Then attach the new entry to the interfaces (and put it into the CPU map, if there is one), and
 * put the new egress program into the ports of jobs. Do this in one network namespace after the other. Finally pin the
 * new programs.
 */
#include <bpf/libbpf.h>

#include "cli/report.h"
#include "datapath.h"
#include "egress.h"
#include "family.h"
#include "host/netns.h"
#include "host/privilege.h"
#include "info.h"
#include "interface.h"
#include "object.h"
#include "pin.h"
#include "slots.h"
#include "steer.h"

struct renewal {
	const struct datapath *dp;
	int entry_fd;
};

/* Renew the programs in the network namespace of this process. */
static int renew(const char *unused, void *arg)
{
	const struct renewal *r = arg;

	(void)unused;
	return interfaces_replace(r->dp->jobs_id, r->entry_fd) ?: reply_ports_renew(r->dp);
}

static int renew_everywhere(const struct datapath *dp, int entry_fd)
{
	struct renewal r = {dp, entry_fd};
	int err = renew(NULL, &r);
	bool hidden = false;

	if (err)
		return err;
	err = netns_others(renew, &r, &hidden);
	if (!err && hidden && !privilege_has(PRIVILEGE_TRACE))
		warning("upgrade: interfaces in network namespaces that this process cannot inspect still run the "
			"old programs; with CAP_SYS_PTRACE, run fpisa upgrade");
	return err;
}

static int replace(struct datapath *dp, struct fpisa_bpf *skel, struct fpisa_steer_bpf *steer)
{
	const struct bpf_object *o = object_of(skel);
	const struct bpf_program *entry = steer ? steer_program(steer) : bpf_object__find_program_by_name(o, "fpisa");
	__u32 idle = !dp->control->bank;
	struct datapath_program info;
	int err;

	err = family_fill(dp->stages_fd, o, 0, idle);
	if (!err)
		err = family_renew(dp, idle);
	if (err)
		return err;
	__atomic_store_n(&dp->control->bank, idle, __ATOMIC_RELEASE);
	if (steer)
		err = steer_fill(steer, &dp->steering);
	if (!err)
		err = renew_everywhere(dp, bpf_program__fd(entry));
	if (!err && steer)
		err = steer_pin(dp->pin, steer);
	if (!err)
		err = pin_programs(dp->pin, o);
	if (!err && !program_info(bpf_program__fd(entry), &info))
		dp->control->entry = info.id;
	return err;
}

int datapath_upgrade(const char *pin)
{
	struct fpisa_steer_bpf *steer = NULL;
	struct fpisa_bpf *skel = NULL;
	struct datapath dp;
	int err;

	err = privilege_check(PRIVILEGE_UPGRADE, "upgrade");
	if (!err)
		err = datapath_open(&dp, pin);
	if (err)
		return err;
	err = datapath_lock(&dp);
	if (!err && dp.steering.cpus)
		err = steer_load(dp.pin, dp.slots_n, &steer);
	if (!err)
		err = object_open(&skel, dp.pin, steer) ?: slots_fit(object_of(skel), dp.slots_n);
	if (!err)
		err = object_load(skel);
	if (!err)
		err = replace(&dp, skel, steer);
	if (skel)
		object_close(skel);
	if (steer)
		steer_close(steer);
	datapath_close(&dp);
	return err;
}
