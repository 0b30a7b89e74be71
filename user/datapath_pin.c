// SPDX-License-Identifier: GPL-2.0-only
/* Pin directories: find, lock, list and clean them; who may. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "datapath_internal.h"

/* Where verbs look that are not told: our own, two of iproute2's, bpftool's. */
static const char *const search[] = { DATAPATH_PIN, "/sys/fs/bpf/xdp/globals", "/sys/fs/bpf/tc/globals",
				      "/sys/fs/bpf" };

#define SEARCH_LEN (sizeof(search) / sizeof(search[0]))

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
	/* A group that the pins were given to may read, no more. */
	if (fd < 0 && errno == EACCES)
		fd = bpf_obj_get_opts(path, &readable);
	return fd < 0 ? -errno : fd;
}

__u32 pin_entry(const char *dir)
{
	int fd = pin_open(dir, "fpisa_control");
	struct fpisa_control control = { 0 };
	__u32 zero = 0;

	if (fd < 0)
		return 0;
	if (bpf_map_lookup_elem(fd, &zero, &control))
		control.entry = 0;
	close(fd);
	return control.entry;
}

/* Program pins stay their owner's: whoever has one may run it on frames of his own. */
int pin_share(const char *dir)
{
	char names[64][NAME_MAX + 1], path[PATH_MAX];
	int n = pin_list(dir, names, 64), err = 0;
	struct stat st;

	if (stat(dir, &st))
		return fail(-errno, NULL, "%s", dir);
	if (!(st.st_mode & S_IRGRP))
		return 0;
	for (int i = 0; !err && i < n; i++) {
		int fd = pin_open(dir, names[i]);

		if (fd < 0)
			return fail(fd, NULL, "%s/%s", dir, names[i]);
		err = pin_path(path, dir, names[i]);
		if (!err && is_map(fd) && (chown(path, -1, st.st_gid) || chmod(path, 0640)))
			err = fail(-errno, NULL, "%s: give to group %u", path, st.st_gid);
		close(fd);
	}
	return err;
}

static bool ours(const char *name)
{
	return !strcmp(name, "fpisa") || !strncmp(name, "fpisa_", 6);
}

int pin_list(const char *dir, char (*names)[NAME_MAX + 1], int max)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	struct stat st;
	int n = 0;

	while (d && n < max && (e = readdir(d)))
		if (ours(e->d_name) && !fstatat(dirfd(d), e->d_name, &st, 0) && !S_ISDIR(st.st_mode))
			strcpy(names[n++], e->d_name);
	if (d)
		closedir(d);
	return n;
}

void pin_remove_all(const char *dir, char (*keep)[NAME_MAX + 1], int n)
{
	char names[64][NAME_MAX + 1], path[PATH_MAX];
	int found = pin_list(dir, names, 64);

	for (int i = 0; i < found; i++) {
		int k = 0;

		while (k < n && strcmp(names[i], keep[k]))
			k++;
		if (k == n && !pin_path(path, dir, names[i]) && unlink(path))
			fail(-errno, NULL, "%s: remove", path);
	}
	for (size_t i = 1; i < SEARCH_LEN; i++)
		if (!strcmp(dir, search[i]))
			return;
	rmdir(dir);
}

int pin_find(char dir[PATH_MAX], const char *pin, bool quiet)
{
	const char *const *dirs = pin ? &pin : search;
	size_t n = pin ? 1 : SEARCH_LEN;
	char path[PATH_MAX];
	int err;

	for (size_t i = 0; i < n; i++) {
		err = pin_path(path, dirs[i], "fpisa_jobs");

		if (err)
			return err;
		if (!access(path, F_OK)) {
			strcpy(dir, dirs[i]);
			return 0;
		}
		if (errno == EACCES || errno == EPERM)
			return quiet ? -errno : fail(-errno, "run as root, or as a member of its group (fpisa load --group)",
						     "%s", dirs[i]);
	}
	if (quiet)
		return -ENOENT;
	err = refuse_kernel();
	if (err)
		return err;
	if (pin)
		return refuse(-ENOENT, "%s: no datapath is pinned there; fpisa load --pin %s DEV", pin, pin);
	return refuse(-ENOENT, "no datapath is loaded (none pinned in %s, %s or %s); fpisa load DEV",
		      search[0], search[1], search[3]);
}

static sigset_t signals_before;

int pin_lock(const char *dir, int *fd)
{
	struct stat held, there;
	sigset_t set;
	int err;

	for (;;) {
		*fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (*fd < 0)
			return -errno;
		if (flock(*fd, LOCK_EX) || fstat(*fd, &held)) {
			err = -errno;
			close(*fd);
			*fd = -1;
			return err;
		}
		/* Who held it before may have removed the directory. */
		if (!stat(dir, &there) && there.st_ino == held.st_ino && there.st_dev == held.st_dev)
			break;
		close(*fd);
	}
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, &signals_before);
	return 0;
}

void pin_unlock(int *fd)
{
	if (*fd < 0)
		return;
	close(*fd);
	*fd = -1;
	sigprocmask(SIG_SETMASK, &signals_before, NULL);
}
