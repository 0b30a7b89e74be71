// SPDX-License-Identifier: GPL-2.0-only
/* Find and open a datapath by its pins, lock it, read its maps. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli.h"
#include "datapath_internal.h"

bool datapath_verbose;

/* Where verbs look that are not told; the last two are iproute2's. */
static const char *const search[] = { DATAPATH_PIN, "/sys/fs/bpf/xdp/globals", "/sys/fs/bpf/tc/globals" };

#define SEARCH_LEN (sizeof(search) / sizeof(search[0]))

/* -- libbpf's messages -------------------------------------------------- */

static char said[256]; /* the first line worth repeating */
static bool said_by_kernel;

static int log_line(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	static const char kernel[] = "Kernel error message: ";
	char line[512], *from = line, *p;

	if (datapath_verbose)
		return level == LIBBPF_DEBUG ? 0 : vfprintf(stderr, fmt, ap);
	if (level != LIBBPF_WARN)
		return 0;
	vsnprintf(line, sizeof(line), fmt, ap);
	p = strstr(line, kernel);
	if (p)
		from = p + strlen(kernel);
	else if (!strncmp(line, "libbpf: ", 8))
		from = line + 8;
	if (*said && (!p || said_by_kernel))
		return 0;
	said_by_kernel = p;
	snprintf(said, sizeof(said), "%.*s", (int)strcspn(from, "\n"), from);
	return 0;
}

void log_start(void)
{
	*said = 0;
	said_by_kernel = false;
	libbpf_set_print(log_line);
}

const char *reason(int err)
{
	static char text[512];

	snprintf(text, sizeof(text), *said ? "%s (%s)" : "%s", strerror(-err), said);
	return text;
}

int check_privilege(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };
	__u64 have;

	if (syscall(SYS_capget, &header, data))
		return fail(-errno, NULL, "capget");
	have = data[0].effective | (__u64)data[1].effective << 32;
	if (have >> CAP_NET_ADMIN & 1 && (have >> CAP_BPF & 1 || have >> CAP_SYS_ADMIN & 1))
		return 0;
	return refuse(-EPERM, "no privilege: run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON");
}

/* -- pins -------------------------------------------------------------- */

int pin_path(char path[PATH_MAX], const char *dir, const char *name)
{
	if (snprintf(path, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX)
		return fail(-ENAMETOOLONG, NULL, "%s", dir);
	return 0;
}

int pin_open(const char *dir, const char *name)
{
	char path[PATH_MAX];
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= PATH_MAX)
		return -ENAMETOOLONG;
	fd = bpf_obj_get(path);
	return fd < 0 ? -errno : fd;
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

	for (size_t i = 0; i < n; i++) {
		int err = pin_path(path, dirs[i], "fpisa_jobs");

		if (err)
			return err;
		if (!access(path, F_OK)) {
			strcpy(dir, dirs[i]);
			return 0;
		}
		if (errno == EACCES || errno == EPERM)
			return quiet ? -errno : fail(-errno, "run as root", "%s", dirs[i]);
	}
	if (quiet)
		return -ENOENT;
	if (pin)
		return refuse(-ENOENT, "%s: no datapath is pinned there; fpisa load --pin %s DEV", pin, pin);
	return refuse(-ENOENT, "no datapath is loaded (none pinned in %s or %s); fpisa load DEV", search[0],
		      search[1]);
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
			return fail(-errno, NULL, "%s", dir);
		if (flock(*fd, LOCK_EX) || fstat(*fd, &held)) {
			err = fail(-errno, NULL, "%s: lock", dir);
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

__u32 map_id(int fd)
{
	struct bpf_map_info info = { 0 };
	__u32 len = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &len) ? 0 : info.id;
}

/* -- open -------------------------------------------------------------- */

static int map_memory(struct datapath *dp, int fd, const char *name, size_t size, void **out)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return fail(-errno, NULL, "%s/%s: map", dp->pin, name);
	*out = p;
	return 0;
}

static int open_maps(struct datapath *dp)
{
	const struct {
		const char *name;
		int *fd;
	} maps[] = {
		{ "fpisa_jobs", &dp->jobs_fd },		{ "fpisa_sessions", &dp->sessions_fd },
		{ "fpisa_peers", &dp->peers_fd },	{ "fpisa_slots", &dp->slots_fd },
		{ "fpisa_counters", &dp->counters_fd }, { "fpisa_control", &dp->control_fd },
		{ "fpisa_stages", &dp->stages_fd },	{ "fpisa_fanout", &dp->fanout_fd },
	};

	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		*maps[i].fd = pin_open(dp->pin, maps[i].name);
		if (*maps[i].fd == -EPERM || *maps[i].fd == -EACCES)
			return fail(*maps[i].fd, "run as root", "%s/%s", dp->pin, maps[i].name);
		if (*maps[i].fd < 0)
			return fail(*maps[i].fd, "fpisa unload removes what is left of a datapath", "%s/%s", dp->pin,
				    maps[i].name);
	}
	return 0;
}

/* The maps must be those of this build: structures are shared with the datapath. */
static int check_layout(const struct datapath *dp)
{
	const struct {
		int fd;
		__u32 size;
	} maps[] = {
		{ dp->jobs_fd, sizeof(struct fpisa_job) },
		{ dp->sessions_fd, sizeof(struct fpisa_session) },
		{ dp->peers_fd, sizeof(struct fpisa_peer) },
		{ dp->slots_fd, sizeof(struct fpisa_slot) },
		{ dp->counters_fd, sizeof(struct fpisa_counters) },
		{ dp->control_fd, sizeof(struct fpisa_control) },
	};

	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		struct bpf_map_info info = { 0 };
		__u32 len = sizeof(info);

		if (bpf_obj_get_info_by_fd(maps[i].fd, &info, &len))
			return fail(-errno, NULL, "%s: map information", dp->pin);
		if (info.value_size != maps[i].size)
			return refuse(-EPROTO, "%s/%s: made by another version of fpisa; fpisa unload, then load again",
				      dp->pin, info.name);
	}
	return 0;
}

int datapath_open(struct datapath *dp, const char *pin)
{
	int err;

	memset(dp, 0, sizeof(*dp));
	dp->lock = -1;
	dp->jobs_fd = dp->sessions_fd = dp->peers_fd = dp->slots_fd = -1;
	dp->counters_fd = dp->control_fd = dp->stages_fd = dp->fanout_fd = -1;
	log_start();
	dp->cpus = libbpf_num_possible_cpus();
	if (dp->cpus < 0)
		return fail(dp->cpus, NULL, "number of CPUs");
	err = pin_find(dp->pin, pin, false);
	if (!err)
		err = open_maps(dp);
	if (!err)
		err = check_layout(dp);
	if (!err)
		err = map_memory(dp, dp->jobs_fd, "fpisa_jobs", sizeof(*dp->jobs) * FPISA_MAX_JOBS,
				 (void **)&dp->jobs);
	if (!err)
		err = map_memory(dp, dp->control_fd, "fpisa_control", sizeof(*dp->control), (void **)&dp->control);
	dp->jobs_id = err ? 0 : map_id(dp->jobs_fd);
	if (err)
		datapath_close(dp);
	return err;
}

static void close_fd(int *fd)
{
	if (*fd > 0)
		close(*fd);
	*fd = -1;
}

void datapath_close(struct datapath *dp)
{
	if (dp->jobs)
		munmap(dp->jobs, sizeof(*dp->jobs) * FPISA_MAX_JOBS);
	if (dp->control)
		munmap(dp->control, sizeof(*dp->control));
	dp->jobs = NULL;
	dp->control = NULL;
	close_fd(&dp->jobs_fd);
	close_fd(&dp->sessions_fd);
	close_fd(&dp->peers_fd);
	close_fd(&dp->slots_fd);
	close_fd(&dp->counters_fd);
	close_fd(&dp->control_fd);
	close_fd(&dp->stages_fd);
	close_fd(&dp->fanout_fd);
	if (dp->lock > 0)
		pin_unlock(&dp->lock);
}

int datapath_lock(struct datapath *dp)
{
	return pin_lock(dp->pin, &dp->lock);
}

void datapath_unlock(struct datapath *dp)
{
	pin_unlock(&dp->lock);
}

/* -- read -------------------------------------------------------------- */

int datapath_job(const struct datapath *dp, __u32 job, struct fpisa_job *out)
{
	if (job >= FPISA_MAX_JOBS || !__atomic_load_n(&dp->jobs[job].active, __ATOMIC_ACQUIRE))
		return refuse(-ENOENT, "job %u: no such job; see fpisa job list", job);
	memcpy(out, &dp->jobs[job], sizeof(*out));
	return 0;
}

static int lookup(int fd, const char *what, __u32 key, void *out)
{
	if (bpf_map_lookup_elem(fd, &key, out))
		return fail(-errno, NULL, "%s %u: read", what, key);
	return 0;
}

int datapath_session(const struct datapath *dp, __u32 job, struct fpisa_session *out)
{
	return lookup(dp->sessions_fd, "session of job", job, out);
}

int datapath_peer(const struct datapath *dp, __u32 job, __u32 rank, struct fpisa_peer *out)
{
	return lookup(dp->peers_fd, "peer", job * FPISA_MAX_WORKERS + rank, out);
}

int datapath_slot(const struct datapath *dp, __u32 key, struct fpisa_slot *out)
{
	return lookup(dp->slots_fd, "slot", key, out);
}

int datapath_counters(const struct datapath *dp, __u32 key, struct fpisa_counters *sum)
{
	const int n = sizeof(*sum) / sizeof(__u64);
	__u64 *values = calloc(dp->cpus, sizeof(*sum)), *out = (__u64 *)sum;
	int err;

	if (!values)
		return fail(-ENOMEM, NULL, "counters");
	memset(sum, 0, sizeof(*sum));
	err = lookup(dp->counters_fd, "counters", key, values);
	for (int cpu = 0; !err && cpu < dp->cpus; cpu++)
		for (int i = 0; i < n; i++)
			out[i] += values[cpu * n + i];
	free(values);
	return err;
}
