// SPDX-License-Identifier: GPL-2.0-only
/* Pins in a directory: finding, listing, creating and removing pins, and finding the build that created them. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/report.h"
#include "fpisa_abi.h"
#include "info.h"
#include "pin.h"

const char *const pin_search[PIN_SEARCH] = {DATAPATH_PIN, "/sys/fs/bpf/xdp/globals", "/sys/fs/bpf/tc/globals",
					    "/sys/fs/bpf"};

int pin_path(char path[PATH_MAX], const char *dir, const char *name)
{
	if (snprintf(path, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX)
		return fail(-ENAMETOOLONG, NULL, "%s", dir);
	return 0;
}

int pin_open(const char *dir, const char *name)
{
	LIBBPF_OPTS(bpf_obj_get_opts, readable, .file_flags = BPF_F_RDONLY);
	char path[PATH_MAX];
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= PATH_MAX)
		return -ENAMETOOLONG;
	fd = bpf_obj_get(path);
	/* Members of the Unix group of the pins may only read. */
	if (fd < 0 && errno == EACCES)
		fd = bpf_obj_get_opts(path, &readable);
	return fd < 0 ? -errno : fd;
}

#define PIN_NEW "fpisa_new" /* temporary name of a pin that replaces another pin */

static bool our_name(const char *name)
{
	return !strcmp(name, "fpisa") || !strncmp(name, "fpisa_", 6);
}

/*
 * Return whether the object was created, by this or another version, under the name of its pin. The kernel stores 15
 * bytes of the name. A map of ports has a number after its name, and a dot is pinned as '_'.
 */
static bool ours(const char *dir, const char *name)
{
	char made[BPF_OBJ_NAME_LEN] = "";
	const char *rest;
	size_t n;
	int fd;

	if (!our_name(name))
		return false;
	fd = pin_open(dir, name);
	if (fd < 0)
		return false;
	if (object_name(fd, made))
		*made = 0;
	close(fd);
	for (char *c = made; *c; c++)
		if (*c == '.')
			*c = '_';
	n = strlen(made);
	rest = name + n;
	if (!our_name(made) || !strcmp(name, PIN_NEW))
		return our_name(made);
	if (strncmp(name, made, n))
		return false;
	return !*rest || n == sizeof(made) - 1 || (*rest == '_' && !rest[1 + strspn(rest + 1, "0123456789")]);
}

int pin_list(const char *dir, pin_name **names)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	struct stat st;
	int n = 0;

	*names = NULL;
	while (d && (e = readdir(d))) {
		pin_name *more;

		if (fstatat(dirfd(d), e->d_name, &st, 0) || S_ISDIR(st.st_mode) || !ours(dir, e->d_name))
			continue;
		more = realloc(*names, (n + 1) * sizeof(*more));
		if (!more) {
			free(*names);
			*names = NULL;
			n = fail(-ENOMEM, NULL, "%s", dir);
			break;
		}
		*names = more;
		strcpy(more[n++], e->d_name);
	}
	if (d)
		closedir(d);
	return n;
}

bool pin_any(const char *dir)
{
	pin_name *names;
	int n = pin_list(dir, &names);

	free(names);
	return n > 0;
}

/* Replace an existing pin, which a killed loader may have left. */
int pin_fd(const char *dir, const char *name, int fd)
{
	char made[PATH_MAX], path[PATH_MAX];
	int err = pin_path(made, dir, PIN_NEW);

	if (!err)
		err = pin_path(path, dir, name);
	if (err)
		return err;
	unlink(made);
	if (bpf_obj_pin(fd, made) || rename(made, path))
		return fail(-errno, NULL, "%s: cannot pin", path);
	return 0;
}

int pin_program(const char *dir, const struct bpf_program *prog)
{
	return pin_fd(dir, bpf_program__name(prog), bpf_program__fd(prog));
}

/* Pin the entry last, because a datapath is complete once its entry is pinned. */
int pin_programs(const char *dir, const struct bpf_object *o)
{
	const struct bpf_program *entry = bpf_object__find_program_by_name(o, "fpisa");
	struct bpf_program *prog;
	int err = 0;

	if (!entry)
		return refuse(-ENOENT,
			      "the datapath object does not have the program fpisa; install this release again");
	bpf_object__for_each_program(prog, o)
		if (!err && prog != entry)
			err = pin_program(dir, prog);
	return err ?: pin_program(dir, entry);
}

void pin_remove_all(const char *dir, pin_name *keep, int n)
{
	char path[PATH_MAX];
	pin_name *names;
	int found = pin_list(dir, &names);

	for (int i = 0; i < found; i++) {
		int k = 0;

		while (k < n && strcmp(names[i], keep[k]))
			k++;
		if (k == n && !pin_path(path, dir, names[i]) && unlink(path))
			fail(-errno, NULL, "%s: cannot remove", path);
	}
	free(names);
	for (int i = 1; i < PIN_SEARCH; i++)
		if (!strcmp(dir, pin_search[i]))
			return;
	rmdir(dir);
}

/*
 * Let the group read the maps. Do not let it open program pins, because a user who can open a program may run it on
 * arbitrary frames.
 */
int pin_share(const char *dir)
{
	char path[PATH_MAX];
	pin_name *names;
	struct stat st;
	int n, err;

	if (stat(dir, &st))
		return fail(-errno, NULL, "%s", dir);
	if (!(st.st_mode & S_IRGRP))
		return 0;
	n = pin_list(dir, &names);
	err = n < 0 ? n : 0;
	for (int i = 0; !err && i < n; i++) {
		int fd = pin_open(dir, names[i]);

		if (fd < 0) {
			err = fail(fd, NULL, "%s/%s", dir, names[i]);
			break;
		}
		err = pin_path(path, dir, names[i]);
		if (!err && is_map(fd) && (chown(path, -1, st.st_gid) || chmod(path, 0640)))
			err = fail(-errno, NULL, "%s: cannot give it to Unix group %u", path, st.st_gid);
		close(fd);
	}
	free(names);
	return err;
}

/* -- the build that created the pins ------------------------------------------- */

/*
 * Read the stamp of the pinned datapath, or 0 if it has no stamp. Return 0, or report an error and return a negative
 * errno.
 */
static int stamp(const char *dir, __u32 *abi)
{
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info);
	int fd = pin_open(dir, "fpisa_abi"), err = 0;

	*abi = 0;
	if (fd == -ENOENT)
		return 0;
	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len))
		err = fail(fd < 0 ? fd : -errno, NULL, "%s/fpisa_abi: cannot open", dir);
	if (fd >= 0)
		close(fd);
	*abi = info.max_entries;
	return err;
}

int pin_abi(const char *dir)
{
	int jobs = pin_open(dir, "fpisa_jobs"), err;
	__u32 abi;

	if (jobs == -ENOENT)
		return 0;
	if (jobs == -EPERM || jobs == -EACCES)
		return fail(jobs, "run as root, or as a member of its group (fpisa load --group)", "%s/fpisa_jobs", dir);
	if (jobs < 0)
		return fail(jobs, NULL, "%s/fpisa_jobs: cannot open", dir);
	close(jobs);
	err = stamp(dir, &abi);
	if (err || abi == FPISA_ABI)
		return err;
	return refuse(-EPROTO,
		      "%s was made by another version of fpisa, whose maps have another layout; run fpisa unload, then "
		      "load again",
		      dir);
}

int pin_abi_make(const char *dir)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_NO_PREALLOC);
	__u32 abi;
	int fd, err = stamp(dir, &abi);

	if (err || abi == FPISA_ABI)
		return err;
	fd = bpf_map_create(BPF_MAP_TYPE_LPM_TRIE, "fpisa_abi", 8, 1, FPISA_ABI, &opts);
	if (fd < 0)
		return fail(-errno, "run as root, outside of a restricted container",
			    "fpisa_abi: cannot create the map");
	err = pin_fd(dir, "fpisa_abi", fd);
	close(fd);
	return err;
}

int pin_jobs_id(const char *dir, __u32 *id)
{
	static const char *const used[] = {"fpisa_jobs",  "fpisa_control", "fpisa_counters", "fpisa_sessions",
					   "fpisa_peers", "fpisa_slots",   "fpisa_stages"};

	*id = 0;
	for (size_t i = 0; !*id && i < sizeof(used) / sizeof(used[0]); i++) {
		int fd = pin_open(dir, used[i]);

		if (fd == -ENOENT)
			continue;
		if (fd < 0)
			return fd;
		*id = map_id(fd);
		close(fd);
	}
	return 0;
}

__u32 pin_entry(const char *dir)
{
	struct fpisa_control control = {0};
	__u32 zero = 0, abi;
	int fd;

	if (stamp(dir, &abi) || abi != FPISA_ABI)
		return 0;
	fd = pin_open(dir, "fpisa_control");
	if (fd < 0)
		return 0;
	if (bpf_map_lookup_elem(fd, &zero, &control))
		control.entry = 0;
	close(fd);
	return control.entry;
}
