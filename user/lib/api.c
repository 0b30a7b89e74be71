/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The public functions of fpisa.h on handles; those on calls are in call.c. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "address.h"
#include "fpisa/job.h"
#include "handle.h"
#include "join.h"

#define PORT_PAUSE_US 1000

/* *spent_ns: what it took of the deadline. */
static int open_transport(struct fpisa *f, uint32_t address, uint16_t port, uint64_t *spent_ns)
{
	uint64_t began = fpisa_now();
	int rc;

	for (;;) {
		fpisa_fork_hold();
		rc = fpisa_transport_open(&f->t, f->transport, address, port, f->local_port);
		fpisa_fork_release();
		*spent_ns = fpisa_now() - began;
		if (rc != -EADDRINUSE || !fpisa_fork_settling() || *spent_ns >= f->timeout_ns)
			return rc;
		usleep(PORT_PAUSE_US);
	}
}

/* The handle has its transport, or rc says why not: wrap it, join, hand it out. */
static int finish_connect(struct fpisa **out, struct fpisa *f, int rc, uint64_t spent_ns)
{
	if (!rc)
		rc = fpisa_faults_wrap(&f->t, &f->faults, f->seed);
	if (!rc)
		rc = fpisa_join(f, spent_ns);
	if (rc)
		fpisa_close(f);
	else
		*out = f;
	return rc;
}

int fpisa_connect(struct fpisa **out, const char *address, uint32_t job, const struct fpisa_options *options)
{
	struct fpisa *f = NULL;
	struct in_addr to;
	uint16_t port = 0;
	uint64_t spent_ns = 0;
	int rc = fpisa_given(out, "the place of the handle");

	if (rc)
		return rc;
	*out = NULL;
	rc = fpisa_parse_address(address, &to, &port);
	if (!rc && job >= FPISA_MAX_JOBS)
		rc = fpisa_fail(-EINVAL, "job is %u; it must be in 0..%d", job, FPISA_MAX_JOBS - 1);
	if (!rc)
		rc = fpisa_new(&f, options);
	if (rc)
		return rc;
	f->job = job;
	snprintf(f->peer, sizeof(f->peer), "%s", inet_ntoa(to));
	if (port != FPISA_PORT)
		snprintf(f->peer + strlen(f->peer), sizeof(f->peer) - strlen(f->peer), ":%u", port);
	rc = open_transport(f, to.s_addr, port, &spent_ns);
	return finish_connect(out, f, rc, spent_ns);
}

int fpisa_mem_connect(struct fpisa **out, struct fpisa_mem *m, uint32_t rank,
		      const struct fpisa_options *options)
{
	struct fpisa *f = NULL;
	int rc = fpisa_given(out, "the place of the handle");

	if (rc)
		return rc;
	*out = NULL;
	rc = fpisa_given(m, "the aggregator");
	if (!rc)
		rc = fpisa_new(&f, options);
	if (rc)
		return rc;
	f->local_port = 0;
	snprintf(f->peer, sizeof(f->peer), "mem");
	rc = fpisa_mem_open(&f->t, m, rank, &f->job, &f->token);
	return finish_connect(out, f, rc, 0);
}

int fpisa_rejoin(struct fpisa *f)
{
	int rc = fpisa_enter(f);

	if (rc)
		return rc;
	rc = fpisa_join(f, 0);
	if (rc)
		fpisa_poison(f, rc);
	else
		f->error = 0;
	fpisa_leave(f);
	return rc;
}

uint64_t fpisa_missing(const struct fpisa *f)
{
	return f && !f->inherited ? f->missing : 0;
}

int fpisa_get_info(const struct fpisa *f, struct fpisa_info *info)
{
	struct fpisa_info i;
	size_t size;
	int rc = fpisa_given(f, "the handle");

	if (!rc)
		rc = fpisa_given(info, "info");
	if (!rc && f->inherited)
		rc = fpisa_refuse_inherited(f);
	if (rc)
		return rc;
	i = f->count;
	size = info->size;
	if (size < sizeof(size))
		return fpisa_fail(-EINVAL, "info.size is %zu; set it to sizeof(struct fpisa_info)", size);
	i.size = size;
	i.job = f->job;
	i.rank = f->hello.rank;
	i.workers = f->hello.workers;
	i.elements = f->hello.elements;
	i.window = f->hello.window;
	i.generation = f->generation;
	i.mode = f->hello.mode;
	i.rounding = f->hello.rounding;
	i.format = f->hello.format;
	i.pipeline = f->hello.pipeline;
	i.clz = f->hello.clz;
	i.fanout = f->hello.fanout;
	i.big_endian = f->hello.flags & FPISA_JOB_BIG_ENDIAN;
	i.bad += f->t->bad;
	i.rtt_ns = f->rto.srtt_ns;
	if (size > sizeof(i))
		memset((char *)info + sizeof(i), 0, size - sizeof(i));
	memcpy(info, &i, size < sizeof(i) ? size : sizeof(i));
	return 0;
}

void fpisa_close(struct fpisa *f)
{
	/* A child may be within a call as well, or have half of one of another thread's. */
	if (!f || (f->inherited ? f->busy : fpisa_enter(f)))
		return;
	if (!f->inherited)
		fpisa_requests_restore(f);
	fpisa_requests_free(&f->requests);
	fpisa_requests_free(&f->given_up);
	fpisa_fork_hold();
	fpisa_fork_remove(&f->fork);
	if (f->t)
		f->t->ops->close(f->t);
	fpisa_fork_release();
	free(f->window.slot);
	free(f);
}
