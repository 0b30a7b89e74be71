/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The public functions of fpisa.h for handles. The functions for calls are in call.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "aggregators.h"
#include "api.h"
#include "background.h"
#include "base/address.h"
#include "fpisa/job.h"
#include "handle.h"
#include "hold.h"
#include "join.h"

#define PORT_PAUSE_US 1000

static const uint32_t alone = 1; /* the weight of a single aggregator */

static void set_peer(struct fpisa_shard *s, const struct fpisa_aggregator *a)
{
	if (a->port == FPISA_PORT)
		fpisa_address_text(&a->address, s->peer);
	else
		fpisa_endpoint_text(&a->address, a->port, s->peer);
}

/* Name all aggregators, for messages that do not concern a single one. */
static void name_all(struct fpisa *f)
{
	uint32_t others = f->layout.shards - 1;

	snprintf(f->peer, sizeof(f->peer), "%s", f->shard->peer);
	if (others)
		snprintf(f->peer + strlen(f->peer), sizeof(f->peer) - strlen(f->peer), " and %u more", others);
}

/* Return the first shard that has the aggregator of this shard. */
static struct fpisa_shard *first_at(const struct fpisa_shard *s)
{
	struct fpisa_shard *first = s->f->shard;

	while (strcmp(first->peer, s->peer))
		first++;
	return first;
}

/* Set the names of all aggregators, and find those that several shards have. */
static void name_shards(struct fpisa *f, const struct fpisa_aggregator *a)
{
	FPISA_EACH_SHARD(s, f) {
		set_peer(s, &a[s->index]);
		s->first = first_at(s);
	}
	name_all(f);
}

/*
 * Open a shard's transport. The first shard binds the port, and the other shards share the port. The caller holds forks
 * (base/fork.h).
 */
static int open_once(struct fpisa_shard *s, const struct fpisa_aggregator *a)
{
	if (s->index)
		return fpisa_udp_open_beside(&s->t, s->f->shard->t, &a->address, a->port, s->local_port);
	return fpisa_transport_open(&s->t, s->f->transport, &a->address, a->port, s->local_port);
}

/* Open a shard's transport. The time since `began` counts against the deadline. */
static int open_transport(struct fpisa_shard *s, const struct fpisa_aggregator *a, uint64_t began)
{
	int rc;

	for (;;) {
		fpisa_fork_hold();
		rc = open_once(s, a);
		fpisa_fork_release();
		if (rc != -EADDRINUSE || !fpisa_fork_settling() || fpisa_now() - began >= s->f->timeout_ns)
			return rc;
		usleep(PORT_PAUSE_US);
	}
}

/* Open all transports. Set *spent_ns to the part of the deadline that this took. */
static int open_transports(struct fpisa *f, const struct fpisa_aggregator *a, uint64_t *spent_ns)
{
	uint64_t began = fpisa_now();
	int rc = 0;

	if (f->layout.shards > 1 && f->transport == FPISA_TRANSPORT_XSK)
		return fpisa_fail(-EOPNOTSUPP, "transport xsk supports only one aggregator; use transport udp");
	for (uint32_t i = 0; i < f->layout.shards && !rc; i++)
		rc = open_transport(&f->shard[i], &a[i], began);
	*spent_ns = fpisa_now() - began;
	return rc;
}

/* Share a new handle and return it, or close it if rc is an error. The handle may not have a transport yet. */
static int finish_open(struct fpisa **out, struct fpisa *f, struct fpisa_engine *engine, int rc)
{
	name_all(f);
	for (uint32_t i = 0; i < f->layout.shards && !rc; i++)
		if (f->shard[i].t)
			rc = fpisa_faults_wrap(&f->shard[i].t, &f->faults, f->seed + i);
	f->shared.item.run = fpisa_background_run;
	if (!rc && (f->progress || engine))
		rc = fpisa_shared_init(f, engine);
	if (rc) {
		fpisa_close(f);
		return rc;
	}
	f->error = -ENOTCONN;
	snprintf(f->message, sizeof(f->message), "%s: job %u: the handle has not joined yet; wait for the join",
		 f->peer, f->job);
	*out = f;
	return 0;
}

/* Open a handle. *spent_ns is the part of its deadline that has passed. */
static int open_handle(struct fpisa **out, const char *address, uint32_t job, const struct fpisa_options *options,
		       uint64_t *spent_ns)
{
	struct fpisa_aggregator a[FPISA_MAX_SHARDS];
	uint32_t weight[FPISA_MAX_SHARDS];
	struct fpisa *f = NULL;
	int rc = fpisa_given(out, "the pointer for the handle"), n;

	if (rc)
		return rc;
	*out = NULL;
	n = fpisa_parse_aggregators(address, job, a);
	if (n < 0)
		return n;
	if (job >= FPISA_MAX_JOBS)
		return fpisa_fail(-EINVAL, "job is %u; it must be in 0..%d", job, FPISA_MAX_JOBS - 1);
	for (int i = 0; i < n; i++)
		weight[i] = a[i].weight;
	rc = fpisa_new(&f, options, (uint32_t)n, weight);
	if (rc)
		return rc;
	f->job = a->job;
	FPISA_EACH_SHARD(s, f)
		s->job = a[s->index].job;
	name_shards(f, a);
	rc = open_transports(f, a, spent_ns);
	return finish_open(out, f, NULL, rc);
}

int fpisa_mem_open_shards(struct fpisa **out, struct fpisa_mem *const *m, const uint32_t *weight, uint32_t shards,
			  uint32_t rank, const struct fpisa_options *options, struct fpisa_engine *engine)
{
	struct fpisa *f = NULL;
	int rc = fpisa_given(out, "the pointer for the handle");

	if (rc)
		return rc;
	*out = NULL;
	rc = fpisa_given(*m, "the aggregator");
	if (!rc)
		rc = fpisa_new(&f, options, shards, weight);
	if (rc)
		return rc;
	f->group_rank = rank;
	for (uint32_t i = 0; i < shards && !rc; i++) {
		struct fpisa_shard *s = &f->shard[i];

		s->local_port = 0;
		snprintf(s->peer, sizeof(s->peer), i ? "mem:%u" : "mem", i);
		rc = fpisa_mem_open(&s->t, m[i], rank, &s->job, &f->token);
		f->job = s->job;
	}
	return finish_open(out, f, engine, rc);
}

int fpisa_mem_open_handle(struct fpisa **out, struct fpisa_mem *m, uint32_t rank, const struct fpisa_options *options,
			  struct fpisa_engine *engine)
{
	return fpisa_mem_open_shards(out, &m, &alone, 1, rank, options, engine);
}

int fpisa_hold_open(struct fpisa **out, const char *peer, const struct fpisa_hold *job,
		    const struct fpisa_options *options, struct fpisa_engine *engine)
{
	struct fpisa *f;
	int rc = fpisa_new(&f, options, job->shards, job->weight);

	if (rc)
		return rc;
	fpisa_layout_set_homes(&f->layout, job->home, job->ranks);
	snprintf(f->shard->peer, sizeof(f->shard->peer), "%s", peer);
	f->group_rank = job->rank;
	/* Set the members that the checks of calls and broadcasts need. WELCOME will have the same values. */
	f->hello.rank = (uint16_t)job->rank;
	f->hello.format = (uint8_t)job->type;
	f->hello.mode = (uint8_t)job->mode;
	f->hello.elements = (uint16_t)job->elements;
	f->format = fpisa_format_of((uint8_t)job->type);
	rc = finish_open(out, f, engine, 0);
	if (rc)
		return rc;
	f->error = 0;
	fpisa_shared_hold(&f->shared, FPISA_DRIVER_JOB);
	return 0;
}

/* Close all transports. The caller holds forks (base/fork.h). */
static void close_transports(struct fpisa *f)
{
	FPISA_EACH_SHARD(s, f) {
		if (s->t)
			s->t->ops->close(s->t);
		s->t = NULL;
	}
}

int fpisa_hold_bind(struct fpisa *f, const struct fpisa_aggregator *a, uint16_t local_port)
{
	int rc = 0;

	if (f->shard->t && f->shard->local_port == local_port)
		return 0;
	fpisa_fork_hold();
	close_transports(f);
	fpisa_fork_release();
	fpisa_lock(&f->shared.lock);
	FPISA_EACH_SHARD(s, f)
		s->local_port = local_port;
	name_shards(f, a);
	fpisa_unlock(&f->shared.lock);
	/* A port stays in use until every forked child has closed its copy of the socket. */
	fpisa_fork_hold();
	for (uint32_t i = 0; i < f->layout.shards && !rc; i++)
		rc = open_once(&f->shard[i], &a[i]);
	if (rc)
		close_transports(f);
	fpisa_fork_release();
	return rc;
}

void fpisa_hold_join(struct fpisa *f, const uint32_t *job, const struct fpisa_key *token,
		     const struct fpisa_leaf_ranks *leaf)
{
	int rc;

	fpisa_lock(&f->shared.lock);
	if (!f->error) {
		f->job = job[0];
		FPISA_EACH_SHARD(s, f)
			s->job = job[s->index];
		f->token = *token;
		f->leaf = *leaf;
		rc = fpisa_join_begin(f);
		if (rc) {
			fpisa_poison(f, rc);
		} else {
			fpisa_shared_hold(&f->shared, FPISA_DRIVER_RANKS);
			fpisa_background_resume(f);
		}
	}
	fpisa_unlock(&f->shared.lock);
}

/*
 * Join a handle that this thread has entered. Other callers of a shared handle have left its functions, and cannot
 * enter one during the join.
 */
static int join(struct fpisa *f, uint64_t spent_ns)
{
	struct fpisa_shared *s = &f->shared;
	int rc;

	if (s->engine) {
		s->join = FPISA_JOIN_UNDER_WAY;
		s->callers++;
		fpisa_requests_give_up(f);
		fpisa_shared_drive(s);
	}
	rc = fpisa_join(f, spent_ns);
	if (!rc && s->join == FPISA_JOIN_FAILED)
		rc = fpisa_poisoned(f);
	if (rc)
		fpisa_poison(f, rc);
	else
		f->error = 0;
	if (s->engine) {
		s->join = FPISA_JOIN_NONE;
		s->callers--;
		fpisa_shared_stop_driving(s);
	}
	return rc;
}

/* Join a new handle, or close it if it cannot join. */
static int finish_connect(struct fpisa **f, uint64_t spent_ns)
{
	int rc = fpisa_enter(*f);

	if (!rc) {
		rc = join(*f, spent_ns);
		fpisa_leave(*f);
	}
	if (rc) {
		fpisa_missing_at_join = (*f)->missing;
		fpisa_close(*f);
		*f = NULL;
	}
	return rc;
}

int fpisa_connect(struct fpisa **f, const char *address, uint32_t job, const struct fpisa_options *options)
{
	uint64_t spent_ns = 0;
	int rc;

	fpisa_missing_at_join = FPISA_NO_RANKS;
	rc = open_handle(f, address, job, options, &spent_ns);
	return rc ? rc : finish_connect(f, spent_ns);
}

int fpisa_mem_connect(struct fpisa **f, struct fpisa_mem *m, uint32_t rank, const struct fpisa_options *options)
{
	int rc;

	fpisa_missing_at_join = FPISA_NO_RANKS;
	rc = fpisa_mem_open_handle(f, m, rank, options, NULL);
	return rc ? rc : finish_connect(f, 0);
}

int fpisa_mem_connect_shards(struct fpisa **f, struct fpisa_mem *const *m, const uint32_t *weight, uint32_t shards,
			     uint32_t rank, const struct fpisa_options *options)
{
	int rc = fpisa_mem_open_shards(f, m, weight, shards, rank, options, NULL);

	return rc ? rc : finish_connect(f, 0);
}

int fpisa_rejoin(struct fpisa *f)
{
	int rc = fpisa_enter_to_block(f);

	if (rc)
		return rc;
	rc = fpisa_joining(f);
	if (!rc)
		rc = join(f, 0);
	fpisa_leave(f);
	return rc;
}

int fpisa_eventfd(struct fpisa *f)
{
	struct fpisa_shared *s;
	int rc = fpisa_enter(f);

	if (rc)
		return rc;
	s = &f->shared;
	if (!s->engine)
		rc = fpisa_fail(-EINVAL, "%s: job %u: the handle has no descriptor to poll; set options.progress",
				f->peer, f->job);
	else
		rc = fpisa_shared_events(f);
	fpisa_leave(f);
	return rc;
}

uint64_t fpisa_missing(const struct fpisa *handle)
{
	struct fpisa *f = (struct fpisa *)handle;
	uint64_t missing;
	int locked;

	if (!f)
		return fpisa_missing_at_join.word[0];
	if (f->inherited)
		return 0;
	locked = fpisa_look(f);
	missing = f->missing.word[0];
	fpisa_look_away(f, locked);
	return missing;
}

int fpisa_get_info(const struct fpisa *handle, struct fpisa_info *info)
{
	struct fpisa *f = (struct fpisa *)handle;
	struct fpisa_info i;
	size_t size;
	int locked, rc = fpisa_given(f, "the handle");

	if (!rc)
		rc = fpisa_given(info, "info");
	if (!rc && f->inherited)
		rc = fpisa_refuse_inherited(f);
	if (rc)
		return rc;
	size = info->size;
	if (size < sizeof(size))
		return fpisa_fail(-EINVAL, "info.size is %zu; set it to sizeof(struct fpisa_info)", size);
	locked = fpisa_look(f);
	i = f->count;
	i.size = size;
	i.job = f->job;
	i.rank = f->hello.rank;
	i.workers = f->hello.workers;
	i.elements = f->hello.elements;
	i.window = f->hello.window;
	i.generation = f->shard->generation;
	i.mode = f->hello.mode;
	i.rounding = f->hello.rounding;
	i.format = f->hello.format;
	i.pipeline = f->hello.pipeline;
	i.clz = f->hello.clz;
	i.fanout = f->hello.fanout;
	i.big_endian = f->hello.flags & FPISA_JOB_BIG_ENDIAN;
	FPISA_EACH_SHARD(s, f) {
		i.bad += s->t->bad;
		if (s->window.rto.srtt_ns > i.rtt_ns)
			i.rtt_ns = s->window.rto.srtt_ns;
	}
	fpisa_look_away(f, locked);
	if (size > sizeof(i))
		memset((char *)info + sizeof(i), 0, size - sizeof(i));
	memcpy(info, &i, size < sizeof(i) ? size : sizeof(i));
	return 0;
}

/*
 * End the calls of a shared handle, run their callbacks, and wait until the threads that wait for these calls have
 * left.
 */
static int end_shared(struct fpisa *f)
{
	struct fpisa_shared *s = &f->shared;
	char message[FPISA_MESSAGE_SIZE];

	if (fpisa_lock_is_ours(&s->lock) || fpisa_engine_inside(s->engine))
		return -EBUSY;
	snprintf(message, sizeof(message),
		 "%s: job %u: the handle was closed before the call ended; wait for the call first", f->peer, f->job);
	fpisa_handle_fail(f, -ECANCELED, &FPISA_NO_RANKS, message);
	fpisa_lock(&s->lock);
	while (s->callers)
		fpisa_lock_wait(&s->lock, &s->changed);
	fpisa_background_drain(f);
	fpisa_unlock(&s->lock);
	return 0;
}

void fpisa_close(struct fpisa *f)
{
	if (!f)
		return;
	if (f->inherited) {
		/* If another thread was inside a call at fork(), the handle may be in an inconsistent state. */
		if (f->busy || fpisa_lock_is_held(&f->shared.lock))
			return;
	} else if (f->shared.engine) {
		if (end_shared(f))
			return;
	} else {
		if (fpisa_enter(f))
			return;
		fpisa_requests_restore(f);
	}
	fpisa_shared_free(f);
	fpisa_requests_free(&f->requests);
	fpisa_requests_free(&f->given_up);
	fpisa_requests_free(&f->ended);
	fpisa_fork_hold();
	fpisa_fork_remove(&f->fork);
	close_transports(f);
	fpisa_fork_release();
	FPISA_EACH_SHARD(s, f)
		free(s->window.slot);
	fpisa_layout_free(&f->layout);
	free(f->shard);
	free(f);
}
