// SPDX-License-Identifier: GPL-2.0-only
/*
 * The parent's side of the workers. A worker reports its states through a
 * socket pair and waits there to be let go on; the end of its process ends
 * the stream, so a worker that dies is noticed like one that fails.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/report.h"
#include "demo.h"

#define TICK_MS 100

/* In the child: nothing of the parent's stays open, and no signal finds the parent's handlers. */
static void become_worker(struct demo *d, uint32_t rank, int fd, const sigset_t *mask)
{
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	sigprocmask(SIG_SETMASK, mask, NULL);
	/* The terminal's interrupts are for the parent, which ends the workers. */
	setpgid(0, 0);
	if (fd != 3 && dup2(fd, 3) != 3)
		_exit(1);
	close_range(4, ~0u, 0);
	demo_worker(d, rank, 3);
}

/* The signals of demo.c are blocked until the child's id is where their handler looks. */
static int hire(struct demo *d, uint32_t rank)
{
	struct demo_child *c = &d->child[rank];
	sigset_t all, before;
	int pair[2], err = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return fail(-errno, NULL, "demo: control channel");
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	c->pid = fork();
	if (!c->pid)
		become_worker(d, rank, pair[1], &before);
	if (c->pid < 0) {
		err = -errno;
		c->pid = 0;
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(pair[1]);
	if (err) {
		close(pair[0]);
		return fail(err, NULL, "demo: rank %u: fork", rank);
	}
	c->fd = pair[0];
	return 0;
}

int demo_hire(struct demo *d)
{
	int err = 0;

	fflush(NULL);
	for (uint32_t r = 0; !err && r < d->o.workers; r++)
		err = hire(d, r);
	return err;
}

void demo_dismiss(struct demo *d)
{
	for (uint32_t r = 0; r < FPISA_MAX_WORKERS; r++)
		if (d->child[r].pid > 0)
			kill(d->child[r].pid, SIGKILL);
	for (uint32_t r = 0; r < FPISA_MAX_WORKERS; r++)
		if (d->child[r].pid > 0 && waitpid(d->child[r].pid, NULL, 0) > 0)
			d->child[r].pid = 0;
}

int demo_release(struct demo *d)
{
	for (uint32_t r = 0; r < d->o.workers; r++)
		if (send(d->child[r].fd, "", 1, MSG_NOSIGNAL) != 1)
			return fail(-errno, NULL, "demo: rank %u: worker is gone", r);
	return 0;
}

const char *demo_lost(const struct demo *d)
{
	static char text[640];

	for (uint32_t r = 0; r < d->o.workers; r++) {
		const struct demo_child *c = &d->child[r];
		char byte = 0;
		ssize_t n = c->pid > 0 && c->state < DEMO_DONE ? recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) : -1;

		if (n && (n < 0 || byte != DEMO_FAILED))
			continue;
		demo_progress_end();
		snprintf(text, sizeof(text), "demo: rank %u: %s", r,
			 n ? d->result[r].message : "its process ended before it was done");
		return text;
	}
	return NULL;
}

/* Take what worker r says. */
static int hear(struct demo *d, uint32_t r)
{
	struct demo_child *c = &d->child[r];
	const char *message = d->result[r].message;
	char byte;

	if (recv(c->fd, &byte, 1, 0) != 1) {
		demo_progress_end();
		return refuse(-ECHILD, "demo: rank %u: its process ended before it was done", r);
	}
	c->state = byte;
	if (c->state != DEMO_FAILED)
		return 0;
	demo_progress_end();
	return refuse(-EREMOTEIO, "demo: rank %u: %s", r, *message ? message : "failed");
}

int demo_await(struct demo *d, enum demo_state state, void (*progress)(const struct demo *d))
{
	struct pollfd p[FPISA_MAX_WORKERS];

	for (;;) {
		uint32_t left = 0;
		int n, err;

		for (uint32_t r = 0; r < d->o.workers; r++) {
			bool there = d->child[r].state == state;

			left += !there;
			p[r] = (struct pollfd){.fd = there ? -1 : d->child[r].fd, .events = POLLIN};
		}
		if (!left)
			return 0;
		n = poll(p, d->o.workers, progress ? TICK_MS : -1);
		if (n < 0)
			return fail(-errno, NULL, "demo: wait for workers");
		for (uint32_t r = 0; r < d->o.workers; r++) {
			err = p[r].revents ? hear(d, r) : 0;
			if (err)
				return err;
		}
		if (progress && !n)
			progress(d);
	}
}
