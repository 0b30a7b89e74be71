// SPDX-License-Identifier: GPL-2.0-only
/* What is loaded and attached, and what it costs: for status and resources. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/report.h"
#include "families.h"
#include "host/privilege.h"
#include "internal.h"

int program_info(int fd, struct datapath_program *p)
{
	struct bpf_prog_info info = { 0 };
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return -errno;
	p->id = info.id;
	snprintf(p->name, sizeof(p->name), "%s", info.name);
	p->xlated_bytes = info.xlated_prog_len;
	p->jited_bytes = info.jited_prog_len;
	p->verified_insns = info.verified_insns;
	memcpy(p->tag, info.tag, sizeof(p->tag));
	return 0;
}

bool is_map(int fd)
{
	char path[64], target[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, target, sizeof(target) - 1) > 0 && !strcmp(target, "anon_inode:bpf-map");
}

/* The kernel's own account of a map, in its fdinfo. */
static __u64 memory_of(int fd)
{
	unsigned long long bytes = 0;
	char path[64], line[128];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "memlock: %llu", &bytes) == 1)
			break;
	if (f)
		fclose(f);
	return bytes;
}

static int map_info(int fd, const char *name, struct datapath_map *m)
{
	struct bpf_map_info info = { 0 };
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return -errno;
	m->id = info.id;
	snprintf(m->name, sizeof(m->name), "%s", name);
	m->key_size = info.key_size;
	m->value_size = info.value_size;
	m->max_entries = info.max_entries;
	m->bytes = memory_of(fd);
	return 0;
}

/* -- status ------------------------------------------------------------ */

static int list_interface(const struct datapath_interface *i, int unused, void *arg)
{
	struct datapath_status *s = arg;

	(void)unused;
	if (s->interfaces < DATAPATH_MAX_INTERFACES)
		s->interface[s->interfaces++] = *i;
	return 0;
}

static void list_stages(const struct datapath *dp, struct datapath_status *s)
{
	for (__u32 bank = 0; bank < FPISA_BANKS; bank++)
		for (__u32 k = 0; k < FPISA_STAGES; k++) {
			__u32 index = bank * FPISA_BANK_SIZE + k, id = 0;
			int fd = -1;

			if (!bpf_map_lookup_elem(dp->stages_fd, &index, &id))
				fd = bpf_prog_get_fd_by_id(id);
			s->stage[bank][k].id = id;
			if (fd < 0)
				continue;
			program_info(fd, &s->stage[bank][k]);
			close(fd);
		}
}

static int count_entries(int fd)
{
	char key[8], next[8];
	int n = 0;

	while (!bpf_map_get_next_key(fd, n ? key : NULL, next)) {
		memcpy(key, next, sizeof(key));
		n++;
	}
	return n;
}

int datapath_status(const struct datapath *dp, struct datapath_status *s)
{
	char names[64][NAME_MAX + 1];
	int n = pin_list(dp->pin, names, 64), err;

	memset(s, 0, sizeof(*s));
	qsort(names, n, sizeof(names[0]), (int (*)(const void *, const void *))strcmp);
	for (int i = 0; i < n; i++) {
		int fd = pin_open(dp->pin, names[i]);

		/* Those who may read the maps may not take the programs, which would let them write. */
		if (fd == -EACCES)
			continue;
		if (fd < 0)
			return fail(fd, NULL, "%s/%s", dp->pin, names[i]);
		if (!is_map(fd)) {
			if (s->programs < DATAPATH_MAX_PROGRAMS &&
			    !program_info(fd, &s->program[s->programs]))
				s->programs++;
		} else if (s->maps < DATAPATH_MAX_MAPS && !map_info(fd, names[i], &s->map[s->maps])) {
			s->maps++;
		}
		if (!strcmp(names[i], "fpisa_lpm"))
			s->trie_entries = count_entries(fd);
		close(fd);
	}
	for (int i = 0; i < FPISA_MAX_JOBS; i++)
		s->jobs += !!dp->jobs[i].active;
	list_stages(dp, s);
	err = interfaces_each(dp->jobs_id, dp->control->entry, list_interface, s);
	return err < 0 ? err : 0;
}

/* -- resources ---------------------------------------------------------- */

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

static int measure(struct bpf_object *obj, const char *family, struct datapath_resources *r)
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
		if (!err && r->maps < DATAPATH_MAX_MAPS && !measured(r, bpf_map__name(map)))
			err = map_info(bpf_map__fd(map), bpf_map__name(map), &r->map[r->maps++]);
	return err ? fail(err, NULL, "measure the loaded objects") : 0;
}

/* The further families, over the maps of fpisa.o. */
static int measure_family(struct bpf_object *base, __u8 family, struct datapath_resources *r)
{
	struct bpf_object *o = family_open(family, NULL, false);
	struct bpf_map *map;
	int err = o ? 0 : -EINVAL;

	if (err)
		return err;
	bpf_object__for_each_map(map, o) {
		int fd = bpf_map__is_internal(map) ? -1 : find_map(base, bpf_map__name(map));

		err = err ?: bpf_map__set_pin_path(map, NULL);
		if (!err && fd >= 0)
			err = bpf_map__reuse_fd(map, fd);
	}
	if (!err)
		err = bpf_object__load(o);
	err = err ? refuse(err, "family %s: load: %s", family_name(family), reason(err)) :
		    measure(o, family_name(family), r);
	bpf_object__close(o);
	return err;
}

int datapath_resources(struct datapath_resources *r)
{
	struct fpisa_steer *steer = NULL;
	struct fpisa *skel = NULL;
	int err, fd = -1;

	memset(r, 0, sizeof(*r));
	err = privilege_check(PRIVILEGE_LOAD, "resources");
	if (!err)
		err = object_open(&skel, NULL, false);
	if (!err)
		err = object_load(skel);
	if (!err)
		err = measure(object_of(skel), family_name(0), r);
	if (!err)
		err = egress_load(copy_map, object_of(skel), &fd);
	if (!err && r->programs < DATAPATH_MAX_PROGRAMS) {
		err = program_info(fd, &r->program[r->programs++]);
		if (err)
			fail(err, NULL, "measure the egress program");
	}
	if (!err)
		err = steer_load(NULL, &steer);
	if (!err)
		err = measure(steer_object(steer), "", r);
	for (__u8 family = 1; !err && family_name(family); family++)
		err = measure_family(object_of(skel), family, r);
	if (fd >= 0)
		close(fd);
	if (steer)
		steer_close(steer);
	if (skel)
		object_close(skel);
	return err;
}
