// SPDX-License-Identifier: GPL-2.0-only
/* The check of a pin directory's owner. Another user who could change the directory could replace the programs. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/report.h"
#include "pin.h"

/*
 * Check the owner of `fd`, a component of the directory's path or, if `last`, the directory itself. Return 0, or -EPERM
 * and the reason.
 */
static int check_owner(int fd, const struct stat *st, bool last, char why[WHY_LEN])
{
	char link[64], path[PATH_MAX] = "?";
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n < 0 ? 1 : n] = 0;
	if (st->st_uid && st->st_uid != geteuid()) {
		snprintf(why, WHY_LEN, "%s belongs to user %u, who can replace what is pinned there; %s%s", path,
			 st->st_uid, last ? "rm -r " : "take another --pin", last ? path : "");
		return -EPERM;
	}
	/*
	 * A directory of the path may be writable by others if they cannot remove entries, as in /tmp. The mode of a
	 * symbolic link has no meaning.
	 */
	if (!S_ISLNK(st->st_mode) && st->st_mode & (S_IWGRP | S_IWOTH) && (last || !(st->st_mode & S_ISVTX))) {
		snprintf(why, WHY_LEN,
			 "%s: other users may write there (mode %04o) and replace what is pinned; chmod go-w %s", path,
			 st->st_mode & 07777, path);
		return -EPERM;
	}
	return 0;
}

/*
 * Check that every component of the path belongs to root or to the caller. No other user may be able to remove a
 * component. So the path cannot change after this check.
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
		} else if (!(err = check_owner(next, &st, !rest[strspn(rest, "/")], why)) && S_ISLNK(st.st_mode)) {
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
