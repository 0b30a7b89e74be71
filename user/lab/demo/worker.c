// SPDX-License-Identifier: GPL-2.0-only
/*
 * A worker of the demo creates a namespace, configures the link, and drops all privileges. Afterwards the worker is
 * like any unprivileged program with libfpisa that has an address and a job number.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "demo.h"
#include "lib/base/clock.h"
#include "lab/testbed/lab.h"

struct worker {
	struct demo *d;
	struct demo_result *result;
	struct fpisa_chunk *chunk;
	unsigned char *vector;
	uint32_t rank;
	int control;
};

/* Report a state and wait for permission to continue. Exit if the parent has ended. */
static void report_and_wait(struct worker *w, enum demo_state state)
{
	char byte = state;

	if (send(w->control, &byte, 1, MSG_NOSIGNAL) != 1 || (state < DEMO_DONE && recv(w->control, &byte, 1, 0) != 1))
		_exit(1);
}

static void on_chunk(void *arg, const struct fpisa_chunk *c)
{
	struct worker *w = arg;
	uint64_t k = c->offset / w->d->job.elements;

	if (k < w->d->chunks)
		w->chunk[k] = *c;
	__atomic_store_n(&w->result->chunks, w->result->chunks + 1, __ATOMIC_RELAXED);
}

/* Convert between the parent's byte order, which is little-endian, and the job's byte order. */
static void reorder(const struct worker *w)
{
	const struct demo *d = w->d;
	unsigned bytes = d->f.bytes;

	for (unsigned char *p = w->vector; d->job.flags & FPISA_JOB_BIG_ENDIAN && p < w->vector + d->row; p += bytes)
		for (unsigned k = 0; k < bytes / 2; k++) {
			unsigned char swap = p[k];

			p[k] = p[bytes - 1 - k];
			p[bytes - 1 - k] = swap;
		}
}

static int sum(struct worker *w)
{
	const struct demo_options *o = &w->d->o;
	const struct fpisa_options options = {
		.size = sizeof(options),
		.timeout_ms = o->timeout_s * 1000,
		.loss = o->drop,
		.duplicate = o->duplicate,
		.reorder = o->reorder,
		.delay = o->delay,
		.corrupt = o->corrupt,
		.seed = o->seed + w->rank,
		.overflow = FPISA_OVERFLOW_FLAG,
		.transport = (uint32_t)o->transport,
		.on_chunk = on_chunk,
		.arg = w,
		.local_port = o->colocated ? DEMO_HOST_PORT : 0,
	};
	struct fpisa *f = NULL;
	char address[DEMO_HOSTS_LEN];
	int err;

	snprintf(address, sizeof(address), "%u.%u.%u.%u", DOTTED(DEMO_ADDRESS));
	if (o->colocated)
		demo_hosts_text(w->d, address);
	memcpy(w->vector, demo_at(w->d, w->d->input, w->rank, 0), w->d->row);
	reorder(w);
	err = fpisa_connect(&f, address, DEMO_JOB, &options);
	if (!err) {
		report_and_wait(w, DEMO_JOINED);
		err = fpisa_allreduce_op(f, w->vector, w->vector, w->d->elements, (enum fpisa_dtype)w->d->job.format,
					 (enum fpisa_operation)o->op, o->factor, &w->result->flags);
		w->result->end_ns = fpisa_now();
		reorder(w);
	}
	if (err)
		snprintf(w->result->message, sizeof(w->result->message), "%s", fpisa_error());
	w->result->info.size = sizeof(w->result->info);
	if (!err)
		err = fpisa_get_info(f, &w->result->info);
	fpisa_close(f);
	return err;
}

static int work(struct worker *w)
{
	char *message = w->result->message;
	size_t size = sizeof(w->result->message);
	int err;

	err = unshare(CLONE_NEWNET) ? -errno : 0;
	if (err) {
		snprintf(message, size, "cannot create a network namespace: %s", strerror(-err));
		return err;
	}
	report_and_wait(w, DEMO_READY);
	err = w->d->o.colocated ? demo_hosts_join(w->rank, message, size) :
				  star_join(&w->d->star, w->rank, message, size);
	if (err)
		return err;
	err = w->d->o.transport == FPISA_TRANSPORT_UDP ? process_drop_privileges(w->d->parent) : 0;
	if (err) {
		snprintf(message, size, "become user nobody: %s; that requires CAP_SETUID and CAP_SETGID",
			 strerror(-err));
		return err;
	}
	report_and_wait(w, DEMO_LINKED);
	return sum(w);
}

void demo_worker(void *arg, int control)
{
	const struct demo_rank *r = arg;
	struct demo *d = r->d;
	struct worker w = {
		.d = d,
		.result = &d->result[r->rank],
		.chunk = d->chunk + r->rank * d->chunks,
		.vector = demo_at(d, d->output, r->rank, 0),
		.rank = r->rank,
		.control = process_close_fds(control),
	};

	report_and_wait(&w, work(&w) ? DEMO_FAILED : DEMO_DONE);
	_exit(0);
}
