// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lock for one writer to a pin directory at a time. Signals are blocked under the lock, so that no change is
 * interrupted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/report.h"
#include "pin.h"

static sigset_t signals_before;
static int holders;

void datapath_hold_signals(void)
{
	sigset_t set;

	if (holders++)
		return;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, &signals_before);
}

void datapath_release_signals(void)
{
	if (!--holders)
		sigprocmask(SIG_SETMASK, &signals_before, NULL);
}

int datapath_interrupted(const char *what)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction a;
	sigset_t waiting;

	if (sigpending(&waiting))
		return 0;
	/* Skip ignored signals, which are also pending while they are blocked. */
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (sigismember(&waiting, signals[i]) && !sigaction(signals[i], NULL, &a) && a.sa_handler != SIG_IGN)
			return refuse(-EINTR, "%s: interrupted; the changes were undone", what);
	return 0;
}

int pin_lock(const char *dir, int *fd)
{
	struct stat held, there;
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
		/* Check that the previous owner of the lock has not removed the directory. */
		if (!stat(dir, &there) && there.st_ino == held.st_ino && there.st_dev == held.st_dev)
			break;
		close(*fd);
	}
	datapath_hold_signals();
	return 0;
}

void pin_unlock(int *fd)
{
	if (*fd < 0)
		return;
	close(*fd);
	*fd = -1;
	datapath_release_signals();
}
