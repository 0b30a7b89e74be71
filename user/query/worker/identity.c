// SPDX-License-Identifier: GPL-2.0-only
/* The identity of a file, and the check that the file has not changed. identity.h documents the functions. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "identity.h"
#include "lib/base/error.h"

#define NS_PER_S 1000000000ll
#define COARSE_NS (2 * NS_PER_S) /* FAT counts time in steps of 2 s, and some other file systems in steps of 1 s */
#define SETTLE_NS (3 * NS_PER_S) /* longer than any of these steps */
#define PAUSE_NS 1000000
#define WRITTEN "%s was written while the query read it; ask again"

/* Read the file's state. On a network file system, ask the server instead of using cached attributes. */
static int look(struct file_state *is, int fd, const char *name)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &st))
		return fpisa_fail(-errno, "%s: %s", name, fpisa_why(-errno));
	memset(is, 0, sizeof(*is));
	is->device = makedev(st.stx_dev_major, st.stx_dev_minor);
	is->inode = st.stx_ino;
	is->size = st.stx_size;
	is->links = st.stx_nlink;
	is->modified_s = st.stx_mtime.tv_sec;
	is->modified_ns = st.stx_mtime.tv_nsec;
	is->changed_s = st.stx_ctime.tv_sec;
	is->changed_ns = st.stx_ctime.tv_nsec;
	return 0;
}

static int64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/*
 * Return whether a change made now would get another stamp. Kernels before 6.13, and some file systems, use the coarse
 * clock for stamps. A stamp in the future comes from a server, or from a clock that was set back. A change made now
 * would not get such a stamp.
 */
static bool settled(const struct file_state *is)
{
	int64_t age = now_ns(CLOCK_REALTIME_COARSE) - (is->changed_s * NS_PER_S + is->changed_ns);

	return age > (is->changed_ns ? 0 : COARSE_NS) || age < -SETTLE_NS;
}

/*
 * Return whether the file system is remote. On a remote file system, -EAGAIN for a lease means that the server has not
 * delegated the file. Moreover, inotify does not report writes by other hosts.
 */
static bool is_remote(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) || fs.f_type == NFS_SUPER_MAGIC || fs.f_type == SMB_SUPER_MAGIC ||
	       (uint32_t)fs.f_type == CIFS_SUPER_MAGIC || (uint32_t)fs.f_type == SMB2_SUPER_MAGIC;
}

/*
 * Return an inotify descriptor that reports programs that write the open file under any name, or that close the file
 * after opening it for writing. Use `shared` if it is not 0. Return 0 if the kernel does not support this.
 */
static int watch_writes(int shared, int fd)
{
	char path[32];
	int watch = is_remote(fd) ? -1 : shared ? shared : inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	if (watch <= 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (inotify_add_watch(watch, path, IN_MODIFY | IN_CLOSE_WRITE) >= 0)
		return watch;
	if (!shared)
		close(watch);
	return 0;
}

void identity_forget(struct identity *id)
{
	if (id->watch && !id->shared)
		close(id->watch);
	id->watch = 0;
}

int identity_note(struct identity *id, int watch, int fd, const char *name)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	int64_t until = now_ns(CLOCK_MONOTONIC) + SETTLE_NS;
	int err;

	*id = (struct identity){.watch = watch_writes(watch, fd), .shared = watch != 0};
	while (!(err = look(&id->is, fd, name)) && !settled(&id->is) && now_ns(CLOCK_MONOTONIC) < until)
		nanosleep(&pause, NULL);
	return err || settled(&id->is) ? err : fpisa_fail(-ESTALE, "%s is being written; ask again", name);
}

/*
 * Return a number that identifies the file's bytes. Names are not part of the number. But adding a name changes the
 * stamp, so the number changes although the bytes are the same.
 */
uint64_t identity_number(const struct identity *id, uint64_t others)
{
	const uint64_t part[] = {id->is.device,
				 id->is.inode,
				 id->is.size,
				 (uint64_t)id->is.modified_s,
				 (uint64_t)id->is.changed_s,
				 (uint64_t)id->is.modified_ns << 32 | id->is.changed_ns};
	uint64_t n = others;

	for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++)
		n = (n ^ part[i]) * 0x9e3779b97f4a7c15ull ^ n >> 29;
	return n;
}

/*
 * Check that no process has the file open for writing. The kernel grants a read lease only in this case. Release the
 * lease immediately. A program that opens the file before the release has to wait, and we get the signal SIGURG, which
 * is ignored by default.
 */
int identity_closed(int fd, const char *name)
{
	bool open_elsewhere;

	if (is_remote(fd) || fcntl(fd, F_SETSIG, SIGURG))
		return 0;
	open_elsewhere = fcntl(fd, F_SETLEASE, F_RDLCK) && errno == EAGAIN;
	fcntl(fd, F_SETLEASE, F_UNLCK);
	return open_elsewhere ?
		       fpisa_fail(-ESTALE,
				  "%s is open for writing; ask again when it is closed, or write another file and rename "
				  "it to this name",
				  name) :
		       0;
}

/*
 * Check that only names of the file have changed. This means that no program has written the file since
 * identity_note(), and that no program has the file open for writing.
 */
static int only_named(const struct identity *id, int fd, const char *name)
{
	struct pollfd p = {.fd = id->watch, .events = POLLIN};

	if (!id->watch)
		return fpisa_fail(
			-ESTALE,
			"%s was linked, renamed or replaced while the query read it, and may have been written; ask "
			"again",
			name);
	if (poll(&p, 1, 0))
		return fpisa_fail(-ESTALE, WRITTEN, name);
	return identity_closed(fd, name);
}

int identity_unchanged(struct identity *id, int fd, const char *name)
{
	struct file_state now, was = id->is;
	int err = look(&now, fd, name);

	if (err)
		return err;
	if (now.links != was.links) {
		id->named = 1;
		was.links = now.links;
		was.changed_s = now.changed_s;
		was.changed_ns = now.changed_ns;
	}
	err = memcmp(&was, &now, sizeof(now)) ? fpisa_fail(-ESTALE, WRITTEN, name) :
	      id->named			      ? only_named(id, fd, name) :
						0;
	if (!err)
		id->is = now;
	return err;
}
