// SPDX-License-Identifier: GPL-2.0-only
/* Network namespaces; netns.h has the contracts. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/net_namespace.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "netns.h"
#include "netlink.h"

static int take_id(const struct nlmsghdr *m, void *arg)
{
	const struct nlattr *a;

	mnl_attr_for_each(a, m, sizeof(struct rtgenmsg))
		if (mnl_attr_get_type(a) == NETNSA_NSID)
			*(int *)arg = (int)mnl_attr_get_u32(a);
	return MNL_CB_OK;
}

/* Return the id of a namespace in this namespace, or -1 if it has no id. */
static int netns_id(int fd)
{
	const struct rtgenmsg g = {.rtgen_family = AF_UNSPEC};
	char buf[REQUEST_LEN];
	struct nlmsghdr *m = netlink_start(buf, RTM_GETNSID, NLM_F_ACK, &g, sizeof(g));
	int id = -1;

	mnl_attr_put_u32(m, NETNSA_FD, (__u32)fd);
	return netlink_ask(NETLINK_ROUTE, m, take_id, &id) ? -1 : id;
}

typedef int (*visit_netns)(int fd, const char *prefix, void *arg);

/*
 * Call visit() for DIR/ENTRY/TAIL of each entry, until a call returns a nonzero value. Close the descriptors. Set
 * *hidden if an entry may not be opened.
 */
static int walk_dir(const char *dir, const char *tail, const char *prefix_format, visit_netns visit, void *arg,
		    bool *hidden)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	int got = 0;

	while (d && !got && (e = readdir(d))) {
		char path[300], prefix[NETNS_PREFIX_LEN];
		int fd;

		if (*e->d_name == '.' || (*tail && (*e->d_name < '0' || *e->d_name > '9')))
			continue;
		snprintf(path, sizeof(path), "%s/%s%s", dir, e->d_name, tail);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0) {
			*hidden |= errno == EACCES || errno == EPERM;
			continue;
		}
		snprintf(prefix, sizeof(prefix), prefix_format, e->d_name);
		got = visit(fd, prefix, arg);
		close(fd);
	}
	if (d)
		closedir(d);
	return got;
}

/* Visit names first, because a name lasts longer than a process. */
static int walk(visit_netns visit, void *arg, bool *hidden)
{
	return walk_dir("/run/netns", "", "nsenter --net=/run/netns/%s ", visit, arg, hidden) ?:
		       walk_dir("/proc", "/ns/net", "nsenter -t %s -n ", visit, arg, hidden);
}

/*
 * Visit namespaces that only the descriptor of a process keeps alive. Open no other files, because opening a file may
 * have side effects.
 */
static int walk_descriptors(visit_netns visit, void *arg)
{
	glob_t g = {0};
	int got = 0;

	glob("/proc/[0-9]*/fd/*", GLOB_NOSORT, NULL, &g);
	for (size_t i = 0; !got && i < g.gl_pathc; i++) {
		char target[8] = "", prefix[NETNS_PREFIX_LEN];
		int fd;

		if (readlink(g.gl_pathv[i], target, sizeof(target) - 1) < 0 || strncmp(target, "net:[", 5))
			continue;
		fd = open(g.gl_pathv[i], O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		snprintf(prefix, sizeof(prefix), "nsenter --net=%s ", g.gl_pathv[i]);
		got = visit(fd, prefix, arg);
		close(fd);
	}
	globfree(&g);
	return got;
}

struct wanted {
	int id, fd;
	char *prefix;
};

static int is_wanted(int fd, const char *prefix, void *arg)
{
	struct wanted *w = arg;

	if (netns_id(fd) != w->id)
		return 0;
	w->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	snprintf(w->prefix, NETNS_PREFIX_LEN, "%s", prefix);
	return 1;
}

int netns_find(int id, char prefix[NETNS_PREFIX_LEN], int *fd)
{
	struct wanted w = {.id = id, .fd = -1, .prefix = prefix};
	bool hidden = false;

	walk(is_wanted, &w, &hidden);
	*fd = w.fd;
	return w.fd < 0 ? -ENOENT : 0;
}

struct others {
	struct stat *seen;
	size_t n;
	int (*fn)(const char *prefix, void *arg);
	void *arg;
};

static int visit_once(int fd, const char *prefix, void *arg)
{
	struct others *o = arg;
	struct stat st, *more;
	int home, got;

	if (fstat(fd, &st))
		return 0;
	for (size_t i = 0; i < o->n; i++)
		if (o->seen[i].st_ino == st.st_ino && o->seen[i].st_dev == st.st_dev)
			return 0;
	more = realloc(o->seen, (o->n + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	o->seen = more;
	o->seen[o->n++] = st;
	if (netns_enter(fd, &home))
		return 0;
	got = o->fn(prefix, o->arg);
	netns_leave(home);
	return got;
}

int netns_others(int (*fn)(const char *prefix, void *arg), void *arg, bool *hidden)
{
	struct others o = {.fn = fn, .arg = arg};
	int got;

	*hidden = false;
	o.seen = malloc(sizeof(*o.seen));
	if (!o.seen || stat("/proc/thread-self/ns/net", o.seen)) {
		free(o.seen);
		return -errno;
	}
	o.n = 1;
	got = walk(visit_once, &o, hidden) ?: walk_descriptors(visit_once, &o);
	free(o.seen);
	return got;
}

int netns_enter(int fd, int *home)
{
	int err;

	*home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (*home < 0)
		return -errno;
	if (!setns(fd, CLONE_NEWNET))
		return 0;
	err = -errno;
	close(*home);
	*home = -1;
	return err;
}

void netns_leave(int home)
{
	/*
	 * Abort if the thread cannot return to its namespace, because all later results would describe another
	 * namespace.
	 */
	if (setns(home, CLONE_NEWNET))
		abort();
	close(home);
}

/* -- `ip netns exec` ----------------------------------------------------------- */

/*
 * Find the name of the namespace, which iproute2 uses as the source of the /sys mount. The last line is the visible
 * mount.
 */
bool netns_exec(char name[NAME_MAX + 1])
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL, at[8], path[PATH_MAX];
	size_t size = 0;

	*name = 0;
	while (f && getline(&line, &size, f) > 0) {
		const char *rest = strstr(line, " - ");

		if (!rest || sscanf(line, "%*s %*s %*s %*s %7s", at) != 1 || strcmp(at, "/sys"))
			continue;
		if (sscanf(rest, " - sysfs %255s", name) != 1 || !strcmp(name, "sysfs"))
			*name = 0;
	}
	free(line);
	if (f)
		fclose(f);
	return *name && snprintf(path, sizeof(path), "/run/netns/%s", name) < PATH_MAX && !access(path, F_OK);
}
