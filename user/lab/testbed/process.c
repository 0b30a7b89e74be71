// SPDX-License-Identifier: GPL-2.0-only
/* Processes that die with their parent, and messages between them. process.h documents the functions. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/report.h"
#include "process.h"

#define REAP_MS 2000

static int lifeline = -1; /* this process's end of `life`, if it is a child */

/*
 * Let the kernel kill this process when the parent ends or shuts the lifeline down. The kernel sends this signal in the
 * name of the process itself. So root without CAP_KILL, as in a container, can also end a process of the user nobody.
 */
static int die_with_parent(pid_t parent)
{
	struct pollfd p = {.fd = lifeline};

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || fcntl(lifeline, F_SETOWN, getpid()) ||
	    fcntl(lifeline, F_SETSIG, SIGKILL) || fcntl(lifeline, F_SETFL, O_ASYNC))
		return -errno;
	return getppid() != parent || poll(&p, 1, 0) ? -ESRCH : 0;
}

/*
 * Set PR_SET_PDEATHSIG and the owner of the lifeline again. A change of the user resets PR_SET_PDEATHSIG, and the owner
 * is stored with its user.
 */
int process_drop_privileges(pid_t parent)
{
	if (setgroups(0, NULL) || setresgid(PROCESS_NOBODY, PROCESS_NOBODY, PROCESS_NOBODY) ||
	    setresuid(PROCESS_NOBODY, PROCESS_NOBODY, PROCESS_NOBODY) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return die_with_parent(parent);
}

/* Enter a separate process group. The parent handles interrupts from the terminal and ends its processes. */
static void become_child(pid_t parent, int netns, const sigset_t *mask)
{
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	sigprocmask(SIG_SETMASK, mask, NULL);
	setpgid(0, 0);
	if (die_with_parent(parent) || (netns >= 0 && setns(netns, CLONE_NEWNET)))
		_exit(1);
}

static void forget(struct process *p)
{
	p->pid = 0;
	close(p->control);
	close(p->life);
}

int process_spawn(struct process *p, int netns, process_fn *work, void *arg)
{
	pid_t parent = getpid();
	sigset_t all, before;
	int pair[2], life[2], err = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return fail(-errno, NULL, "cannot create the socket to a worker process");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, life)) {
		err = fail(-errno, NULL, "cannot create the socket to a worker process");
		close(pair[0]);
		close(pair[1]);
		return err;
	}
	fflush(NULL);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	p->pid = fork();
	if (!p->pid) {
		lifeline = life[1];
		become_child(parent, netns, &before);
		close(pair[0]);
		close(life[0]);
		work(arg, pair[1]);
		_exit(1);
	}
	p->control = pair[0];
	p->life = life[0];
	if (p->pid < 0) {
		err = -errno;
		forget(p);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(pair[1]);
	close(life[1]);
	return err ? fail(err, NULL, "cannot start a worker process") : 0;
}

int process_close_fds(int control)
{
	const int life = fcntl(lifeline, F_DUPFD_CLOEXEC, 5);

	if (life < 0 || (control != 3 && dup2(control, 3) != 3) || dup3(life, 4, O_CLOEXEC) != 4)
		_exit(1);
	lifeline = 4;
	close_range(5, ~0u, 0);
	return 3;
}

bool process_ended(struct process *p, int *status)
{
	if (!p->pid || waitpid(p->pid, status, WNOHANG) != p->pid)
		return false;
	forget(p);
	return true;
}

void process_kill(struct process *p)
{
	struct pollfd end = {.events = POLLIN};

	if (!p->pid)
		return;
	kill(p->pid, SIGKILL);
	shutdown(p->life, SHUT_RDWR);
	end.fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	while (poll(&end, 1, REAP_MS) < 0 && errno == EINTR)
		;
	waitpid(p->pid, NULL, WNOHANG);
	if (end.fd >= 0)
		close(end.fd);
	forget(p);
}

/* -- orders and reports ------------------------------------------------------ */

int process_report(int control, const struct report *r)
{
	return send(control, r, sizeof(*r), MSG_NOSIGNAL) == sizeof(*r) ? 0 : -errno;
}

static int take_report(const struct process *p, struct report *r)
{
	ssize_t n = recv(p->control, r, sizeof(*r), 0);

	return n == sizeof(*r) ? 0 :
				 fail(n < 0 ? -errno : -ECHILD, NULL, "cannot receive the report of a worker process");
}

int processes_spawn(struct processes *p, process_fn *work, void *arg)
{
	struct report r;
	int err = process_spawn(&p->process[p->n], -1, work, arg);

	if (err)
		return err;
	return take_report(&p->process[p->n++], &r);
}

int processes_order(const struct processes *p, const char *who, const void *order, size_t size, struct report *sum)
{
	struct report r;
	int err = 0;

	for (uint32_t i = 0; i < p->n; i++)
		if (send(p->process[i].control, order, size, MSG_NOSIGNAL) != (ssize_t)size)
			return fail(-errno, NULL, "%s: rank %u: cannot send to the worker process", who, i);
	for (uint32_t i = 0; i < p->n; i++) {
		if (take_report(&p->process[i], &r))
			return -ECHILD;
		if (r.error && !err)
			err = *r.message ? refuse(r.error, "%s: rank %u: %s", who, i, r.message) : r.error;
		if (!sum)
			continue;
		sum->cpu_ns += r.cpu_ns;
		sum->retransmits += r.retransmits;
		sum->wall_ns = r.wall_ns > sum->wall_ns ? r.wall_ns : sum->wall_ns;
	}
	return err;
}

void processes_kill(struct processes *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		process_kill(&p->process[i]);
	p->n = 0;
}

int process_run(process_fn *work, void *arg)
{
	struct process p;
	struct report r;
	int err = process_spawn(&p, -1, work, arg);

	if (err)
		return err;
	err = take_report(&p, &r);
	process_kill(&p);
	return err ?: r.error;
}

void process_serve(int control, void *order, size_t size, void (*carry_out)(void *arg, struct report *r), void *arg)
{
	struct report r = {0};

	while (!process_report(control, &r) && recv(control, order, size, 0) == (ssize_t)size) {
		r = (struct report){0};
		carry_out(arg, &r);
	}
	_exit(0);
}
