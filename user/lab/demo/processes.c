// SPDX-License-Identifier: GPL-2.0-only
/*
 * The parent's side of the workers. A worker reports its states through a socket pair, and waits on the socket until it
 * may continue. When a process ends, its socket is closed. So the parent notices a worker that dies in the same way as
 * a worker that fails.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "cli/report.h"
#include "demo.h"

#define TICK_MS 100

int demo_spawn(struct demo *d)
{
	int err = 0;

	for (uint32_t r = 0; !err && r < d->o.workers; r++)
		err = process_spawn(&d->process[r], -1, demo_worker, &(struct demo_rank){d, r});
	return err;
}

void demo_kill(struct demo *d)
{
	for (uint32_t r = 0; r < FPISA_MAX_WORKERS; r++)
		process_kill(&d->process[r]);
}

int demo_release(struct demo *d)
{
	for (uint32_t r = 0; r < d->o.workers; r++)
		if (send(d->process[r].control, "", 1, MSG_NOSIGNAL) != 1)
			return fail(-errno, NULL, "demo: rank %u: cannot send to the worker process", r);
	return 0;
}

static const char ended_early[] = "the worker process ended early; see its message above, or dmesg";

const char *demo_lost(const struct demo *d)
{
	static char text[640];

	for (uint32_t r = 0; r < d->o.workers; r++) {
		const struct process *p = &d->process[r];
		bool there = p->pid && d->state[r] < DEMO_DONE;
		char byte = 0;
		ssize_t n = there ? recv(p->control, &byte, 1, MSG_PEEK | MSG_DONTWAIT) : -1;

		if (n && (n < 0 || byte != DEMO_FAILED))
			continue;
		snprintf(text, sizeof(text), "demo: rank %u: %s", r, n ? d->result[r].message : ended_early);
		return text;
	}
	return NULL;
}

/* Handle a message of worker r. */
static int hear(struct demo *d, uint32_t r)
{
	const char *message = d->result[r].message;
	char byte;

	if (recv(d->process[r].control, &byte, 1, 0) != 1)
		return refuse(-ECHILD, "demo: rank %u: %s", r, ended_early);
	d->state[r] = (enum demo_state)byte;
	if (d->state[r] != DEMO_FAILED)
		return 0;
	return refuse(-EREMOTEIO, "demo: rank %u: %s", r, *message ? message : "failed");
}

int demo_await(struct demo *d, enum demo_state state, void (*progress)(const struct demo *d))
{
	struct pollfd p[FPISA_MAX_WORKERS];

	for (;;) {
		uint32_t left = 0;
		int n, err;

		for (uint32_t r = 0; r < d->o.workers; r++) {
			bool there = d->state[r] == state;

			left += !there;
			p[r] = (struct pollfd){.fd = there ? -1 : d->process[r].control, .events = POLLIN};
		}
		if (!left)
			return 0;
		n = poll(p, d->o.workers, progress ? TICK_MS : -1);
		if (n < 0)
			return fail(-errno, NULL, "demo: cannot wait for workers");
		for (uint32_t r = 0; r < d->o.workers; r++) {
			err = p[r].revents ? hear(d, r) : 0;
			if (err)
				return err;
		}
		if (progress && !n)
			progress(d);
	}
}
