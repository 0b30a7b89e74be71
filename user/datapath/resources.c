// SPDX-License-Identifier: GPL-2.0-only
/* Resources of the objects, which are loaded but neither attached nor pinned, for the verb resources. */
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/progress.h"
#include "cli/report.h"
#include "datapath.h"
#include "families.h"
#include "family.h"
#include "host/privilege.h"
#include "info.h"
#include "log.h"
#include "object.h"
#include "resources.h"
#include "steer.h"

static int find_map(void *obj, const char *name)
{
	return bpf_object__find_map_fd_by_name(obj, name);
}

static int copy_map(void *obj, const char *name)
{
	int fd = find_map(obj, name);

	return fd < 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static bool measured(const struct datapath_resources *r, const char *map)
{
	for (int i = 0; i < r->maps; i++)
		if (!strcmp(r->map[i].name, map))
			return true;
	return false;
}

/* Measure an object. Do not count maps of `base`, which the object shares. `base` may be NULL. */
static int measure(struct bpf_object *obj, struct bpf_object *base, const char *family, struct datapath_resources *r)
{
	struct bpf_program *prog;
	struct bpf_map *map;
	int err = 0;

	bpf_object__for_each_program(prog, obj)
		if (!err && r->programs < DATAPATH_MAX_PROGRAMS) {
			err = program_info(bpf_program__fd(prog), &r->program[r->programs]);
			snprintf(r->program[r->programs++].family, sizeof(r->program->family), "%s", family);
		}
	bpf_object__for_each_map(map, obj)
		if (!err && r->maps < DATAPATH_MAX_MAPS && !measured(r, bpf_map__name(map)) &&
		    (!base || find_map(base, bpf_map__name(map)) < 0))
			err = map_info(bpf_map__fd(map), bpf_map__name(map), &r->map[r->maps++]);
	return err ? fail(err, NULL, "cannot measure the loaded objects") : 0;
}

int resources_measure(struct bpf_object *base, struct bpf_object *o, const char *what, const char *name,
		      struct datapath_resources *r)
{
	struct bpf_map *map;
	int err = o ? 0 : -EINVAL;

	if (err)
		return err;
	progress_step("measuring %s%s", what, name);
	bpf_object__for_each_map(map, o) {
		int fd = bpf_map__is_internal(map) ? -1 : find_map(base, bpf_map__name(map));

		err = err ?: bpf_map__set_pin_path(map, NULL);
		if (!err && fd >= 0)
			err = bpf_map__reuse_fd(map, fd);
	}
	if (!err)
		err = bpf_object__load(o);
	err = err ? refuse(err, "%s%s: cannot load: %s; --verbose shows the verifier's log", what, name, reason(err)) :
		    measure(o, base, name, r);
	bpf_object__close(o);
	return err;
}

static int measure_family(struct bpf_object *base, __u8 family, struct datapath_resources *r)
{
	return resources_measure(base, family_open(family, NULL, false), "family ", family_name(family), r);
}

int datapath_resources(struct datapath_resources *r)
{
	struct fpisa_steer_bpf *steer = NULL;
	struct fpisa_bpf *skel = NULL;
	int err, fd = -1;

	memset(r, 0, sizeof(*r));
	err = privilege_check(PRIVILEGE_LOAD, "resources");
	progress_step("measuring the datapath");
	if (!err)
		err = object_open(&skel, NULL, false);
	if (!err)
		err = object_load(skel);
	if (!err)
		err = measure(object_of(skel), NULL, family_name(0), r);
	if (!err)
		err = egress_load(copy_map, object_of(skel), &fd);
	if (!err && r->programs < DATAPATH_MAX_PROGRAMS) {
		err = program_info(fd, &r->program[r->programs++]);
		if (err)
			fail(err, NULL, "cannot measure the egress program");
	}
	if (!err)
		err = steer_load(NULL, FPISA_DEFAULT_SLOTS, &steer);
	if (!err)
		err = measure(steer_object(steer), NULL, "", r);
	for (__u8 family = 1; !err && family_name(family); family++)
		err = measure_family(object_of(skel), family, r);
	progress_end();
	if (fd >= 0)
		close(fd);
	if (steer)
		steer_close(steer);
	if (skel)
		object_close(skel);
	return err;
}
