// SPDX-License-Identifier: GPL-2.0-only
/* The search for the directory in which a datapath is pinned. */
#include <errno.h>
#include <fts.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cli/report.h"
#include "host/netns.h"
#include "kernel.h"
#include "pin.h"

int pin_find(char dir[PATH_MAX], const char *pin, bool quiet)
{
	const char *const *dirs = pin ? &pin : pin_search;
	size_t n = pin ? 1 : PIN_SEARCH;
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
		/* The kernel may refuse to follow a symbolic link of another user. */
		if (err == -EACCES && pin_trust(dirs[i], true) == -EPERM) {
			strcpy(dir, dirs[i]);
			return pin_trust(dir, quiet);
		}
		if (err == -EACCES || err == -EPERM)
			return quiet ? err :
				       fail(err, "run as root, or as a member of its group (fpisa load --group)", "%s",
					    dirs[i]);
	}
	/* There is no datapath in the directory, but load would refuse to create one there. */
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
		return refuse(-ENOENT, "%s: no datapath is pinned there; run fpisa load --pin %s DEV", pin, pin);
	if (netns_exec(name))
		return refuse(-ENOENT,
			      "no datapath is pinned in this /sys, which ip netns exec has mounted; run nsenter "
			      "--net=/run/netns/%s fpisa ...",
			      name);
	return refuse(-ENOENT, "no datapath is loaded (none pinned in %s, %s or %s); run fpisa load DEV", pin_search[0],
		      pin_search[1], pin_search[3]);
}

int pin_find_remains(char dir[PATH_MAX], const char *pin)
{
	struct stat st;

	for (size_t i = 0; i < (pin ? 1 : PIN_SEARCH); i++) {
		const char *at = pin ?: pin_search[i];

		if (strlen(at) >= PATH_MAX || (!pin_any(at) && (pin || i || stat(at, &st))))
			continue;
		strcpy(dir, at);
		return pin_trust(dir, true);
	}
	return -ENOENT;
}

int datapath_pinned(const char *pin, char dir[PATH_MAX])
{
	return pin_find(dir, pin, true);
}

/* Decode a mount point, in which the kernel writes blanks and some other characters as three octal digits. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; to++) {
		bool octal = *s == '\\' && s[1] && s[2] && s[3];

		*to = octal ? (s[1] & 7) << 6 | (s[2] & 7) << 3 | (s[3] & 7) : *s;
		s += octal ? 4 : 1;
	}
	*to = 0;
}

static bool walk(char *top, bool (*is)(const char *dir, void *arg), void *arg)
{
	char *const tops[] = {top, NULL};
	FTS *tree = fts_open(tops, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	bool found = false;
	FTSENT *e;

	while (tree && !found && (e = fts_read(tree)))
		found = e->fts_info == FTS_D && is(e->fts_path, arg);
	if (tree)
		fts_close(tree);
	return found;
}

bool pin_walk(bool (*is)(const char *dir, void *arg), void *arg)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL, at[PATH_MAX], kind[16];
	bool found = false;
	size_t size = 0;

	while (f && !found && getline(&line, &size, f) > 0) {
		const char *rest = strstr(line, " - ");

		if (!rest || sscanf(rest, " - %15s", kind) != 1 || strcmp(kind, "bpf") ||
		    sscanf(line, "%*s %*s %*s %*s %4095s", at) != 1)
			continue;
		unescape(at);
		found = walk(at, is, arg);
	}
	free(line);
	if (f)
		fclose(f);
	return found;
}
