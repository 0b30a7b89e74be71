// SPDX-License-Identifier: GPL-2.0-only
/* Pin directories: find, lock, list and clean them; who may. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cli/report.h"
#include "fpisa_abi.h"
#include "internal.h"

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

/* -- which build's ---------------------------------------------------------- */

/* The stamp of what is pinned; 0 if there is none. */
static __u32 stamp(const char *dir)
{
	struct bpf_map_info info = { 0 };
	__u32 len = sizeof(info);
	int fd = pin_open(dir, "fpisa_abi");

	if (fd < 0)
		return 0;
	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		info.max_entries = 0;
	close(fd);
	return info.max_entries;
}

int pin_abi(const char *dir)
{
	int jobs = pin_open(dir, "fpisa_jobs");

	if (jobs == -ENOENT)
		return 0;
	if (jobs == -EPERM || jobs == -EACCES)
		return fail(jobs, "run as root, or as a member of its group (fpisa load --group)", "%s/fpisa_jobs", dir);
	if (jobs >= 0)
		close(jobs);
	if (stamp(dir) == FPISA_ABI)
		return 0;
	return refuse(-EPROTO, "%s: made by another version of fpisa, whose maps hold other things; fpisa unload, then load again",
		      dir);
}

int pin_abi_make(const char *dir)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_NO_PREALLOC);
	int fd, err;

	if (stamp(dir) == FPISA_ABI)
		return 0;
	fd = bpf_map_create(BPF_MAP_TYPE_LPM_TRIE, "fpisa_abi", 8, 1, FPISA_ABI, &opts);
	if (fd < 0)
		return fail(-errno, "run as root, outside of a restricted container", "make fpisa_abi");
	err = pin_fd(dir, "fpisa_abi", fd);
	close(fd);
	return err;
}

__u32 pin_jobs_id(const char *dir)
{
	static const char *const used[] = { "fpisa_jobs", "fpisa_control", "fpisa_counters", "fpisa_sessions",
					    "fpisa_peers", "fpisa_slots", "fpisa_stages" };
	__u32 id = 0;

	for (size_t i = 0; !id && i < sizeof(used) / sizeof(used[0]); i++) {
		int fd = pin_open(dir, used[i]);

		if (fd < 0)
			continue;
		id = map_id(fd);
		close(fd);
	}
	return id;
}

__u32 pin_entry(const char *dir)
{
	struct fpisa_control control = { 0 };
	__u32 zero = 0;
	int fd;

	if (stamp(dir) != FPISA_ABI)
		return 0;
	fd = pin_open(dir, "fpisa_control");
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

/* -- whose it is ----------------------------------------------------------- */

/* What `fd` is of, on the way to a directory or, if `last`, that itself. 0, or -EPERM and why. */
static int judge(int fd, const struct stat *st, bool last, char why[WHY_LEN])
{
	char link[64], path[PATH_MAX] = "?";
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n < 0 ? 1 : n] = 0;
	if (st->st_uid && st->st_uid != geteuid()) {
		snprintf(why, WHY_LEN, "%s: belongs to user %u, who can replace what is pinned there; %s%s", path,
			 st->st_uid, last ? "rm -r " : "take another --pin", last ? path : "");
		return -EPERM;
	}
	/* What others may write but not take away, as /tmp, will do on the way. A link's mode says nothing. */
	if (!S_ISLNK(st->st_mode) && st->st_mode & (S_IWGRP | S_IWOTH) && (last || !(st->st_mode & S_ISVTX))) {
		snprintf(why, WHY_LEN, "%s: others may write there (mode %04o) and replace what is pinned; chmod go-w %s",
			 path, st->st_mode & 07777, path);
		return -EPERM;
	}
	return 0;
}

/*
 * Every step from / to the directory has to belong to root or to the caller,
 * and nobody else may take it away: so it stays what was looked at here.
 */
int datapath_trusts(const char *dir, char why[WHY_LEN])
{
	int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), next, err = fd < 0 ? -errno : 0, links = 0;
	char rest[2 * PATH_MAX], name[NAME_MAX + 1], target[PATH_MAX], home[PATH_MAX] = "";
	struct stat st;

	*why = 0;
	if (*dir != '/' && !getcwd(home, sizeof(home)))
		err = err ?: -errno;
	if (snprintf(rest, sizeof(rest), "%s/%s", home, dir) >= PATH_MAX)
		err = err ?: -ENAMETOOLONG;
	while (!err) {
		char *at = rest + strspn(rest, "/");
		size_t len = strcspn(at, "/");

		if (!len)
			break;
		if (len > NAME_MAX) {
			err = -ENAMETOOLONG;
			break;
		}
		memcpy(name, at, len);
		name[len] = 0;
		memmove(rest, at + len, strlen(at + len) + 1);
		next = openat(fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0 || fstat(next, &st)) {
			err = -errno;
		} else if (!(err = judge(next, &st, !rest[strspn(rest, "/")], why)) && S_ISLNK(st.st_mode)) {
			ssize_t n = readlinkat(next, "", target, sizeof(target) - 1);

			target[n < 0 ? 0 : n] = 0;
			len = strlen(rest);
			if (n <= 0 || ++links > 16 || n + len >= PATH_MAX) {
				err = -ELOOP;
			} else {
				memmove(rest + n, rest, len + 1);
				memcpy(rest, target, n);
				close(next);
				next = *target == '/' ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) : dup(fd);
			}
		} else if (!err && !S_ISDIR(st.st_mode)) {
			err = -ENOTDIR;
		}
		close(fd);
		fd = next;
	}
	if (fd >= 0)
		close(fd);
	return err;
}

int pin_trust(const char *dir, bool quiet)
{
	char why[WHY_LEN];
	int err = datapath_trusts(dir, why);

	if (!err || quiet)
		return err;
	return *why ? refuse(err, "%s", why) : fail(err, NULL, "%s", dir);
}

int pin_find(char dir[PATH_MAX], const char *pin, bool quiet)
{
	const char *const *dirs = pin ? &pin : search;
	size_t n = pin ? 1 : SEARCH_LEN;
	char path[PATH_MAX], name[NAME_MAX + 1];
	struct statfs fs;
	int err;

	for (size_t i = 0; i < n; i++) {
		err = pin_path(path, dirs[i], "fpisa_jobs");

		if (err)
			return err;
		if (!access(path, F_OK)) {
			strcpy(dir, dirs[i]);
			return pin_trust(dir, quiet);
		}
		err = -errno;
		/* The kernel itself may refuse to follow a link of another user. */
		if (err == -EACCES && pin_trust(dirs[i], true) == -EPERM) {
			strcpy(dir, dirs[i]);
			return pin_trust(dir, quiet);
		}
		if (err == -EACCES || err == -EPERM)
			return quiet ? err : fail(err, "run as root, or as a member of its group (fpisa load --group)",
						  "%s", dirs[i]);
	}
	/* Nobody's datapath, but a directory in which load would refuse to make one. */
	if (!statfs(dirs[0], &fs) && fs.f_type == BPF_FS_MAGIC && pin_trust(dirs[0], true) == -EPERM) {
		strcpy(dir, dirs[0]);
		return pin_trust(dir, quiet);
	}
	if (quiet)
		return -ENOENT;
	err = refuse_kernel();
	if (err)
		return err;
	if (pin)
		return refuse(-ENOENT, "%s: no datapath is pinned there; fpisa load --pin %s DEV", pin, pin);
	if (netns_exec(name))
		return refuse(-ENOENT,
			      "no datapath is pinned in this /sys, which is ip netns exec's own; "
			      "nsenter --net=/run/netns/%s fpisa ...",
			      name);
	return refuse(-ENOENT, "no datapath is loaded (none pinned in %s, %s or %s); fpisa load DEV",
		      search[0], search[1], search[3]);
}

int datapath_pinned(const char *pin, char dir[PATH_MAX])
{
	return pin_find(dir, pin, true);
}

int pin_find_remains(char dir[PATH_MAX], const char *pin)
{
	char one[1][NAME_MAX + 1];
	struct stat st;

	for (size_t i = 0; i < (pin ? 1 : SEARCH_LEN); i++) {
		const char *at = pin ?: search[i];

		if (strlen(at) >= PATH_MAX || (!pin_list(at, one, 1) && (pin || i || stat(at, &st))))
			continue;
		strcpy(dir, at);
		return pin_trust(dir, true);
	}
	return -ENOENT;
}

bool datapath_home(__u32 ifindex, const char *first, char dir[PATH_MAX])
{
	struct datapath_interface i = { .name = "" };
	bool found = false;
	glob_t g = { 0 };

	glob("/sys/fs/bpf/*", GLOB_ONLYDIR, NULL, &g);
	for (size_t k = 0; !found && k < 1 + SEARCH_LEN + g.gl_pathc; k++) {
		const char *at = !k		   ? first
				 : k <= SEARCH_LEN ? search[k - 1]
						   : g.gl_pathv[k - 1 - SEARCH_LEN];
		__u32 id = pin_jobs_id(at);

		found = id && strlen(at) < PATH_MAX && attached(ifindex, id, 0, &i, NULL) > 0;
		if (found)
			strcpy(dir, at);
	}
	globfree(&g);
	return found;
}

/* -- lock ---------------------------------------------------------------- */

static sigset_t signals_before;

int pin_interrupted(const char *what)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction a;
	sigset_t waiting;

	if (sigpending(&waiting))
		return 0;
	/* One that is ignored waits too, as long as it is blocked. */
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (sigismember(&waiting, signals[i]) && !sigaction(signals[i], NULL, &a) && a.sa_handler != SIG_IGN)
			return refuse(-EINTR, "%s: interrupted; what it made is taken back", what);
	return 0;
}

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
