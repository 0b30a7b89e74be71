// SPDX-License-Identifier: GPL-2.0-only
/* Properties of a program or a map, read from the kernel by descriptor; info.h has the contracts. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "info.h"

__u32 map_id(int fd)
{
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &len) ? 0 : info.id;
}

static bool is_kind(int fd, const char *kind)
{
	char path[64], target[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, target, sizeof(target) - 1) > 0 && !strcmp(target, kind);
}

bool is_map(int fd)
{
	return is_kind(fd, "anon_inode:bpf-map");
}

int object_name(int fd, char name[BPF_OBJ_NAME_LEN])
{
	struct bpf_map_info map = {0};
	struct bpf_prog_info prog = {0};
	bool of_map = is_map(fd);
	__u32 len = of_map ? sizeof(map) : sizeof(prog);

	if (!of_map && !is_kind(fd, "anon_inode:bpf-prog"))
		return -EINVAL;
	if (bpf_obj_get_info_by_fd(fd, of_map ? (void *)&map : &prog, &len))
		return -errno;
	memcpy(name, of_map ? map.name : prog.name, BPF_OBJ_NAME_LEN);
	return 0;
}

int program_info(int fd, struct datapath_program *p)
{
	struct bpf_prog_info info = {0};
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

bool program_uses_map(int fd, __u32 id)
{
	__u32 ids[64];
	struct bpf_prog_info info = {.nr_map_ids = 64, .map_ids = (__u64)(unsigned long)ids};
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return false;
	for (__u32 i = 0; i < info.nr_map_ids && i < 64; i++)
		if (id && ids[i] == id)
			return true;
	return false;
}

/* Return the memory of a map in bytes, from its fdinfo. */
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

int map_info(int fd, const char *name, struct datapath_map *m)
{
	struct bpf_map_info info = {0};
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
