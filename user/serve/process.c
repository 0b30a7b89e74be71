// SPDX-License-Identifier: GPL-2.0-only
/* `fpisa serve` as a process; process.h has the contracts. */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/report.h"
#include "host/privilege.h"
#include "lib/base/clock.h"
#include "process.h"

__u64 process_ms(void)
{
	static struct fpisa_clock clock;
	const __u64 now = fpisa_now();

	if (!clock.ns)
		clock = (struct fpisa_clock){.ns = now, .last_ns = now};
	fpisa_clock_tick(&clock, now, PROCESS_TURN_MS * 1000000ull);
	return clock.ns / 1000000;
}

int process_check(const struct manager_policy *policy)
{
	return geteuid() || manager_user(policy) ? 0 : -EINVAL;
}

static int become(const struct manager_policy *policy)
{
	const struct passwd *p;
	int dies = 0; /* signal for the death of the parent, which a change of user would clear */

	prctl(PR_GET_PDEATHSIG, &dies);
	if (geteuid())
		return privilege_drop();
	p = manager_user(policy);
	if (!p)
		return -EINVAL;
	if (setgroups(0, NULL) || setresgid(p->pw_gid, p->pw_gid, p->pw_gid) ||
	    setresuid(p->pw_uid, p->pw_uid, p->pw_uid))
		return fail(-errno, NULL, "serve: cannot switch to user '%s'", p->pw_name);
	if (dies && prctl(PR_SET_PDEATHSIG, dies))
		return fail(-errno, NULL, "serve: cannot ask for a signal when the parent ends");
	return privilege_drop();
}

int process_drop(const struct manager_policy *policy)
{
	int err = become(policy);

	if (!err && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		err = fail(-errno, NULL, "serve: cannot forbid tracing of this process");
	return err;
}

int process_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd < 0)
		fail(-errno, NULL, "serve: cannot receive signals");
	return fd;
}

bool process_take_signal(int signals, struct helper *h, int *failed)
{
	struct signalfd_siginfo i;

	if (read(signals, &i, sizeof(i)) != sizeof(i))
		return false;
	if (i.ssi_signo != SIGHUP)
		return true;
	if (!*failed)
		*failed = helper_ask(h, &(struct helper_request){.what = HELPER_READ});
	return false;
}

void process_tell_systemd(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd;

	if (!path || strlen(path) >= sizeof(to.sun_path))
		return;
	strcpy(to.sun_path, path);
	if (*path == '@')
		*to.sun_path = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	sendto(fd, "READY=1", 7, MSG_NOSIGNAL, (struct sockaddr *)&to,
	       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path)));
	close(fd);
}
