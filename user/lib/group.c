/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The public functions of fpisa.h on groups, but for calls, which are group_call.c's; how a group gets its jobs. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include "address.h"
#include "api.h"
#include "base/clock.h"
#include "base/engine.h"
#include "fpisa/format.h"
#include "group.h"

#define DEFAULT_JOIN_MS 10000

/* -- joining --------------------------------------------------------------------- */

static int take_key(struct fpisa_link *l, const char *file)
{
	int rc;

	if (!file || !*file)
		return 0;
	rc = fpisa_psk_last(&l->psk, file);
	if (!rc) {
		l->has_psk = 1;
		snprintf(l->key_file, sizeof(l->key_file), "%s", file);
	}
	return rc;
}

static int copy_options(struct fpisa_group_options *to, const struct fpisa_group_options *from)
{
	int rc = 0;

	*to = (struct fpisa_group_options){0};
	if (from)
		rc = fpisa_copy_sized(to, sizeof(*to), from, sizeof(from->size), "group_options");
	if (!rc && (to->mode >= FPISA_MODE_END || to->pipeline > FPISA_PIPELINE_FUSED ||
		    to->transport > FPISA_TRANSPORT_XSK || to->overflow > FPISA_OVERFLOW_FLAG))
		rc = fpisa_fail(-EINVAL, "options.mode, pipeline, transport or overflow is none of those in fpisa.h");
	return rc;
}

static int prepare(struct fpisa_group *g, const char *host, const char *name, uint32_t rank, uint32_t size)
{
	struct fpisa_link *l = &g->link;
	const char *key = g->options.key_file ? g->options.key_file : getenv("FPISA_KEY");
	int rc = fpisa_given(name, "the group's name");

	if (!host)
		host = getenv("FPISA_MANAGER");
	if (!rc && (!host || !*host))
		rc = fpisa_fail(-EINVAL, "no host is given, and FPISA_MANAGER is not set");
	if (rc)
		return rc;
	if (strlen(name) < sizeof(l->join.name))
		strcpy(l->join.name, name);
	if (!fpisa_manager_name_valid(l->join.name))
		return fpisa_fail(-EINVAL, "'%s' is no name of a group: 1 to %d of A-Z a-z 0-9 . _ : @ + -", name,
				  FPISA_MANAGER_NAME - 1);
	if (!size || size > FPISA_MAX_WORKERS || rank >= size)
		return fpisa_fail(-EINVAL, "rank is %u and size %u; size must be in 1..%d and rank below it", rank, size,
				  FPISA_MAX_WORKERS);
	l->join.rank = rank;
	l->join.size = size;
	snprintf(l->peer, sizeof(l->peer), "%.24s: group %.63s", host, name);
	l->addresses = fpisa_find_host(host, l->to);
	return l->addresses < 0 ? l->addresses : take_key(l, key);
}

int fpisa_group_join(struct fpisa_group **out, const char *host, const char *name, uint32_t rank, uint32_t size,
		     const struct fpisa_group_options *options)
{
	struct fpisa_group *g;
	int rc = fpisa_given(out, "the place of the group");

	fpisa_missing_at_join = 0;
	if (rc)
		return rc;
	*out = NULL;
	g = calloc(1, sizeof(*g));
	if (!g)
		return fpisa_fail(-ENOMEM, "no memory for a group");
	g->link.wake = g->link.events = -1;
	rc = copy_options(&g->options, options);
	if (!rc)
		rc = prepare(g, host, name, rank, size);
	if (!rc) {
		g->join_ns = (g->options.join_timeout_ms ? g->options.join_timeout_ms : DEFAULT_JOIN_MS) * 1000000ull;
		rc = fpisa_engine_start(&g->engine);
	}
	if (!rc) {
		rc = fpisa_link_start(&g->link);
	}
	if (!rc)
		rc = fpisa_link_wait_joined(&g->link, g->join_ns);
	if (!rc) {
		*out = g;
		return 0;
	}
	fpisa_link_stop(&g->link, 0);
	fpisa_missing_at_join = g->link.missing;
	fpisa_engine_stop(g->engine);
	free(g);
	return rc;
}

/* -- jobs --------------------------------------------------------------------------- */

static struct fpisa_manager_spec spec_of(const struct fpisa_group *g, uint32_t type)
{
	return (struct fpisa_manager_spec){
		.format = (uint8_t)type,
		/* Integers have no modes. */
		.mode = type == FPISA_INT32 ? 0 : g->options.mode,
		.pipeline = g->options.pipeline,
		.elements = g->options.elements,
		.window = g->options.window,
	};
}

/* The manager names a port; one that another socket has it replaces by another. */
static int bind_port(struct fpisa_group *g, struct fpisa_link_job *j, struct fpisa **f)
{
	struct fpisa_link *l = &g->link;
	const struct fpisa_manager_bind b = j->bind;
	struct fpisa_options o = {.size = sizeof(o),
				  .local_port = b.port,
				  .transport = g->options.transport,
				  .overflow = g->options.overflow,
				  .restore = g->options.restore,
				  .all_ranks = 1,
				  .timeout_ms = FPISA_FOREVER};
	struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_BOUND);
	char aggregator[32];
	int rc;

	j->state = FPISA_LINK_JOB_BOUND;
	pthread_mutex_unlock(&l->lock);
	if (*f && (*f)->local_port != b.port) {
		fpisa_close(*f);
		*f = NULL;
	}
	snprintf(aggregator, sizeof(aggregator), "%s:%u", inet_ntoa((struct in_addr){b.address}), b.aggregator);
	rc = *f ? 0 : fpisa_open(f, aggregator, 0, &o, g->engine);
	pthread_mutex_lock(&l->lock);
	if (rc && rc != -EADDRINUSE)
		return rc;
	m.bind = (struct fpisa_manager_bind){.index = b.index, .port = b.port, .taken = rc != 0};
	fpisa_link_send(l, &m);
	return 0;
}

/* Under the lock, which waits let go of. 0 with a handle that has its port: the job is given. */
static int ask(struct fpisa_group *g, uint32_t index, const struct fpisa_manager_spec *spec, struct fpisa **f)
{
	struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_ASK);
	struct fpisa_link_job *j = &g->link.job[index];
	int rc = 0;

	j->asked = *spec;
	j->asked_ns = fpisa_now();
	j->state = FPISA_LINK_JOB_ASKED;
	m.ask.index = index;
	m.ask.spec = *spec;
	fpisa_link_send(&g->link, &m);
	while (!rc && !g->link.error) {
		switch (j->state) {
		case FPISA_LINK_JOB_BIND:
			rc = bind_port(g, j, f);
			break;
		case FPISA_LINK_JOB_GIVEN:
			return 0;
		case FPISA_LINK_JOB_REFUSED:
			return fpisa_fail(j->error, "%s", j->sentence);
		default:
			fpisa_link_wait_job(&g->link, j, j->state);
		}
	}
	if (rc)
		return rc;
	/* Who has heard it before us may have left by now. */
	if (j->state == FPISA_LINK_JOB_REFUSED)
		return fpisa_fail(j->error, "%s", j->sentence);
	return fpisa_fail(g->link.error, "%s", g->link.sentence);
}

/* From here on the group's end is the handle's. */
static int join_job(struct fpisa_group *g, uint32_t index, struct fpisa *f)
{
	struct fpisa_link_job *j = &g->link.job[index];
	int rc;

	pthread_mutex_lock(&g->link.lock);
	j->handle = f;
	if (g->link.error)
		fpisa_handle_fail(f, g->link.error, g->link.missing, g->link.sentence);
	rc = g->link.events >= 0 ? fpisa_shared_events_with(f, g->link.events) : 0;
	pthread_mutex_unlock(&g->link.lock);
	/* Others may compute before they make this call; a deadline of their death is the manager's to keep. */
	if (!rc)
		rc = fpisa_join_job(f, j->job.job, j->job.token);
	if (!rc && g->options.timeout_ms)
		f->timeout_ns = g->options.timeout_ms * 1000000ull;
	if (rc) {
		pthread_mutex_lock(&g->link.lock);
		j->handle = NULL;
		pthread_mutex_unlock(&g->link.lock);
	}
	return rc;
}

/* Under the lock, free while others are waited for. */
static int make_job(struct fpisa_group *g, uint32_t index, const struct fpisa_manager_spec *spec, struct fpisa **out)
{
	struct fpisa_link *l = &g->link;
	struct fpisa *f = NULL;
	int rc;

	g->making = &l->job[index];
	rc = ask(g, index, spec, &f);
	pthread_mutex_unlock(&l->lock);
	if (!rc)
		rc = join_job(g, index, f);
	if (rc)
		fpisa_close(f);
	else
		*out = f;
	pthread_mutex_lock(&l->lock);
	g->making = NULL;
	pthread_cond_broadcast(&l->changed);
	return rc;
}

/* Under the lock, as the next: the first job of a type, 0: of any, that has its handle; NULL: none has. */
static const struct fpisa_link_job *job_of(const struct fpisa_group *g, uint32_t type)
{
	const struct fpisa_link_job *j = g->link.job;

	for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
		if (j[k].handle && &j[k] != g->making && (!type || j[k].asked.format == type))
			return &j[k];
	return NULL;
}

/* Until no other thread makes a job. */
static void wait_for_others(struct fpisa_group *g)
{
	while (g->making)
		pthread_cond_wait(&g->link.changed, &g->link.lock);
}

/* What waits for other ranks would keep callbacks from moving the requests that these wait for. */
static int refuse_inside(const struct fpisa_group *g)
{
	if (!fpisa_engine_inside(g->engine))
		return 0;
	return fpisa_fail(-EBUSY,
			  "%s: callbacks run on the thread that moves requests, and may not wait for other ranks, as the "
			  "first call of a type does; make it in another thread",
			  g->link.peer);
}

int fpisa_group_refuse_inherited(const struct fpisa_group *g)
{
	if (!g->link.inherited)
		return 0;
	return fpisa_fail(-ECHILD, "%s: it belongs to the process that joined it, and this is a child", g->link.peer);
}

int fpisa_group_first_type(struct fpisa_group *g, uint32_t *type)
{
	const struct fpisa_link_job *j;
	int rc = refuse_inside(g);

	if (rc)
		return rc;
	pthread_mutex_lock(&g->link.lock);
	wait_for_others(g);
	j = job_of(g, 0);
	*type = j ? j->asked.format : FPISA_FLOAT32;
	pthread_mutex_unlock(&g->link.lock);
	return 0;
}

int fpisa_group_handle(struct fpisa_group *g, uint32_t type, struct fpisa **out)
{
	struct fpisa_manager_spec spec = spec_of(g, type);
	struct fpisa_link *l = &g->link;
	const struct fpisa_link_job *there;
	uint32_t k = 0;
	int rc = 0;

	if (!type || type >= FPISA_FORMAT_END)
		return fpisa_fail(-EINVAL, "%s: type is %u; it must be an enum fpisa_dtype", g->link.peer, type);
	*out = NULL;
	pthread_mutex_lock(&l->lock);
	there = job_of(g, type);
	if (!there)
		rc = refuse_inside(g);
	if (!there && !rc) {
		wait_for_others(g);
		there = job_of(g, type);
	}
	while (k < FPISA_MANAGER_JOBS && l->job[k].state != FPISA_LINK_JOB_NONE)
		k++;
	if (!rc && !there && k < FPISA_MANAGER_JOBS && l->job[k].error) {
		/* Before all else: who has heard it may have left or died of it. */
		l->job[k].state = FPISA_LINK_JOB_REFUSED;
		rc = fpisa_fail(l->job[k].error, "%s", l->job[k].sentence);
	} else if (!rc && l->error) {
		rc = fpisa_fail(l->error, "%s", l->sentence);
	} else if (there) {
		*out = there->handle;
	} else if (!rc && k == FPISA_MANAGER_JOBS) {
		rc = fpisa_fail(-ENOSPC, "%s: it has had its %d jobs, those included that were refused", l->peer,
				FPISA_MANAGER_JOBS);
	} else if (!rc) {
		rc = make_job(g, k, &spec, out);
	}
	pthread_mutex_unlock(&l->lock);
	return rc;
}

int fpisa_group_eventfd(struct fpisa_group *g)
{
	struct fpisa_link *l;
	int fd, rc = fpisa_given(g, "the group");

	if (!rc)
		rc = fpisa_group_refuse_inherited(g);
	if (rc)
		return rc;
	l = &g->link;
	pthread_mutex_lock(&l->lock);
	if (l->events < 0) {
		fpisa_fork_hold();
		l->events = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		fpisa_fork_release();
		if (l->events < 0)
			rc = fpisa_fail(-errno, "%s: an eventfd for requests: %s", l->peer, strerror(errno));
	}
	for (int k = 0; !rc && k < FPISA_MANAGER_JOBS; k++)
		if (l->job[k].handle && l->job[k].handle->shared.events < 0)
			rc = fpisa_shared_events_with(l->job[k].handle, l->events);
	fd = rc ? rc : l->events;
	pthread_mutex_unlock(&l->lock);
	return fd;
}

/* -- leaving ----------------------------------------------------------------------------- */

/* Those that have all of their results, whoever has asked for them. */
static uint64_t completed(const struct fpisa_group *g)
{
	uint64_t calls = g->link.calls;

	for (int k = 0; k < FPISA_MANAGER_JOBS; k++) {
		struct fpisa *f = g->link.job[k].handle;
		const struct fpisa_request *r;
		int locked;

		if (!f || f->inherited)
			continue;
		locked = fpisa_look(f);
		TAILQ_FOREACH(r, &f->requests, link)
			calls -= r->left != 0;
		fpisa_look_away(f, locked);
	}
	return calls;
}

void fpisa_group_leave(struct fpisa_group *g)
{
	struct fpisa *f[FPISA_MANAGER_JOBS];

	if (!g || (!g->link.inherited && fpisa_engine_inside(g->engine)))
		return;
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
		f[k] = g->link.job[k].handle;
	fpisa_link_stop(&g->link, completed(g));
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
		fpisa_close(f[k]);
	fpisa_engine_stop(g->engine);
	free(g);
}
