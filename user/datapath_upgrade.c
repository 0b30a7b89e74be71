// SPDX-License-Identifier: GPL-2.0-only
/*
 * Upgrade a datapath that runs. At every moment it is whole: the idle bank is
 * filled, one store lets new frames use it, then the interfaces get the new
 * entry and the pins the new programs.
 */
#include <stdio.h>

#include "cli.h"
#include "datapath_internal.h"
#include "privilege.h"

static int replace(struct datapath *dp, struct fpisa *skel)
{
	const struct bpf_object *o = object_of(skel);
	const struct bpf_program *entry = bpf_object__find_program_by_name(o, "fpisa");
	__u32 idle = !dp->control->bank;
	struct datapath_program info;
	int err;

	err = family_fill(dp->stages_fd, o, 0, idle);
	if (!err)
		err = family_renew(dp, idle);
	if (err)
		return err;
	__atomic_store_n(&dp->control->bank, idle, __ATOMIC_RELEASE);
	err = interfaces_replace(dp->jobs_id, bpf_program__fd(entry));
	if (!err)
		err = pin_programs(dp->pin, o);
	if (!err && !program_info(bpf_program__fd(entry), &info))
		dp->control->entry = info.id;
	return err;
}

int datapath_upgrade(const char *pin)
{
	struct fpisa *skel = NULL;
	struct datapath dp;
	int err;

	err = privilege_check(PRIVILEGE_PROBE, "upgrade");
	if (!err)
		err = datapath_open(&dp, pin);
	if (err)
		return err;
	err = datapath_lock(&dp);
	if (!err)
		err = object_open(&skel, dp.pin);
	if (!err)
		err = object_load(skel);
	if (!err)
		err = replace(&dp, skel);
	if (skel)
		object_close(skel);
	datapath_close(&dp);
	return err;
}
