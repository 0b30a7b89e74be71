/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The public functions of fpisa.h for groups, except those for calls, which are in group_call.c. This file also
 * requests the jobs of a group.
 */
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
#include "fpisa/job.h"
#include "fpisa/wire.h"
#include "group.h"
#include "hold.h"
#include "transport/transport.h"

#define DEFAULT_JOIN_MS 10000

/* -- joining --------------------------------------------------------------------- */

static int known(const char *option, unsigned int value, int is_defined)
{
	return is_defined ?
		       0 :
		       fpisa_fail(-EINVAL, "options.%s is %u, which fpisa.h does not define; set a value of fpisa.h",
				  option, value);
}

/* Check the options that are enums. Return 0, or -EINVAL. */
static int known_options(const struct fpisa_group_options *o)
{
	int rc = known("mode", o->mode, o->mode < FPISA_MODE_END);

	if (!rc)
		rc = known("rounding", o->rounding, o->rounding <= FPISA_ROUND_NEAREST);
	if (!rc)
		rc = known("pipeline", o->pipeline, o->pipeline <= FPISA_PIPELINE_FUSED);
	if (!rc)
		rc = known("fanout", o->fanout, o->fanout <= FPISA_FANOUT_UNICAST);
	if (!rc)
		rc = known("transport", o->transport, fpisa_transport_known(o->transport));
	if (!rc)
		rc = known("overflow", o->overflow, o->overflow <= FPISA_OVERFLOW_FLAG);
	return rc;
}

static int copy_options(struct fpisa_group_options *to, const struct fpisa_group_options *from)
{
	int rc = 0;

	*to = (struct fpisa_group_options){0};
	if (from)
		rc = fpisa_copy_sized(to, sizeof(*to), from, sizeof(from->size), "group_options");
	if (!rc)
		rc = known_options(to);
	if (!rc && to->window && !fpisa_window_valid(to->window))
		rc = fpisa_fail(-EINVAL, "options.window is %u; it must be a power of two up to %d, or 0", to->window,
				FPISA_MAX_WINDOW);
	if (!rc && to->elements && !fpisa_elements_valid(to->elements, FPISA_MAX_ELEMENTS))
		rc = fpisa_fail(-EINVAL, "options.elements is %u; it must be a multiple of %d up to %d, or 0",
				to->elements, FPISA_BLOCK, FPISA_MAX_ELEMENTS);
	return rc;
}

static int prepare_connection(struct fpisa_group *g, const char *host)
{
	const char *key = g->options.key_file ? g->options.key_file : getenv("FPISA_KEY");
	const uint64_t limit_ns = FPISA_MANAGER_SILENCE_MS * 1000000ull;

	if (!host)
		host = getenv("FPISA_MANAGER");
	if (!host || !*host)
		return fpisa_fail(-EINVAL, "the host is NULL and FPISA_MANAGER is not set; set one of them");
	return fpisa_connection_get(&g->link.connection, host, key ? key : "", g->options.share,
				    g->join_ns < limit_ns ? g->join_ns : limit_ns);
}

static int prepare(struct fpisa_group *g, const char *host, const char *name, uint32_t rank, uint32_t size)
{
	struct fpisa_link *l = &g->link;
	int rc = fpisa_given(name, "the group's name");

	if (rc)
		return rc;
	if (strlen(name) < sizeof(l->join.name))
		strcpy(l->join.name, name);
	if (!fpisa_manager_name_valid(l->join.name))
		return fpisa_fail(-EINVAL,
				  "'%s' is not a group name; use 1 to %d of the characters A-Z a-z 0-9 . _ : @ + -",
				  name, FPISA_MANAGER_NAME - 1);
	if (!size || size > FPISA_MAX_RANKS || rank >= size)
		return fpisa_fail(-EINVAL, "rank is %u and size %u; size must be in 1..%d and rank below it", rank,
				  size, FPISA_MAX_RANKS);
	l->join.rank = rank;
	l->join.size = size;
	rc = prepare_connection(g, host);
	if (!rc)
		snprintf(l->peer, sizeof(l->peer), "%s: group %s", l->connection->host, l->join.name);
	return rc;
}

static int start_link(struct fpisa_link *l)
{
	int rc = fpisa_link_init(l);

	if (!rc)
		rc = fpisa_connection_add(l->connection, l);
	l->started = !rc;
	return rc;
}

/* Remove the link from its connection, and end the use of the connection. In a child, only free memory. */
static void end_link(struct fpisa_link *l)
{
	fpisa_link_stop(l);
	if (l->started)
		fpisa_connection_remove(l->connection, l);
	if (l->connection)
		fpisa_connection_put(l->connection);
	fpisa_link_free(l);
}

int fpisa_group_join(struct fpisa_group **out, const char *host, const char *name, uint32_t rank, uint32_t size,
		     const struct fpisa_group_options *options)
{
	const uint64_t began = fpisa_now();
	struct fpisa_group *g;
	int rc = fpisa_given(out, "the pointer for the group");

	fpisa_missing_at_join = FPISA_NO_RANKS;
	if (rc)
		return rc;
	*out = NULL;
	g = calloc(1, sizeof(*g));
	if (!g)
		return fpisa_fail(-ENOMEM, "not enough memory for a group; " FPISA_MORE_MEMORY);
	g->link.events = -1;
	rc = copy_options(&g->options, options);
	if (!rc) {
		g->join_ns = (g->options.join_timeout_ms ? g->options.join_timeout_ms : DEFAULT_JOIN_MS) * 1000000ull;
		rc = prepare(g, host, name, rank, size);
	}
	if (!rc)
		rc = fpisa_engine_start(&g->engine);
	if (!rc)
		rc = start_link(&g->link);
	if (!rc)
		rc = fpisa_link_wait_joined(&g->link, g->join_ns, fpisa_now() - began);
	if (!rc) {
		*out = g;
		return 0;
	}
	end_link(&g->link);
	fpisa_missing_at_join = g->link.missing;
	fpisa_engine_stop(g->engine);
	free(g);
	return rc;
}

/* -- jobs --------------------------------------------------------------------------- */

static struct fpisa_manager_spec spec_of(const struct fpisa_group *g, uint32_t type)
{
	const uint32_t most = fpisa_max_elements(fpisa_format_of((uint8_t)type), g->options.mode);

	return (struct fpisa_manager_spec){
		.format = (uint8_t)type,
		/* Modes and rounding do not apply to integers. */
		.mode = type == FPISA_INT32 ? 0 : g->options.mode,
		.rounding = type == FPISA_INT32 ? 0 : g->options.rounding,
		.pipeline = g->options.pipeline,
		.elements = g->options.elements < most ? g->options.elements : (uint16_t)most,
		.fanout = g->options.fanout,
		.window = g->options.window,
	};
}

/*
 * Return the transport of a new handle. AF_XDP uses an interface's first queue for one aggregator, so one handle of
 * the group uses AF_XDP and the others use UDP.
 */
static uint32_t transport_of(const struct fpisa_group *g)
{
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
		if (g->link.job[k].handle)
			return FPISA_TRANSPORT_UDP;
	return g->link.shards > 1 ? FPISA_TRANSPORT_UDP : g->options.transport;
}

/* Create the handle of a job. Call this function and the following ones under the lock. */
static int make_handle(struct fpisa_group *g, struct fpisa_link_job *j)
{
	const struct fpisa_options o = {.size = sizeof(o),
					.transport = transport_of(g),
					.overflow = g->options.overflow,
					.restore = g->options.restore,
					.all_ranks = 1,
					.timeout_ms = g->options.timeout_ms ? g->options.timeout_ms : FPISA_FOREVER};
	const struct fpisa_address manager = fpisa_address_from(&g->link.connection->to[0]);
	char peer[FPISA_ADDRESS_LEN];
	/* Use the default of `fpisa job add`. */
	uint32_t mode = j->asked.mode ? j->asked.mode : FPISA_MODE_FPISA;
	uint32_t elements = j->asked.elements ? j->asked.elements : FPISA_BLOCK;
	struct fpisa *f;
	uint32_t shards = g->link.shards ? g->link.shards : 1, weight[FPISA_MAX_SHARDS] = {1};
	int rc;

	for (uint32_t i = 0; i < g->link.shards; i++)
		weight[i] = g->link.aggregator[i].weight;
	rc = fpisa_hold_open(&f, fpisa_address_text(&manager, peer),
			     &(struct fpisa_hold){.rank = g->link.join.rank,
						  .type = j->asked.format,
						  .mode = mode,
						  .elements = elements,
						  .shards = shards,
						  .weight = weight,
						  .home = g->link.home,
						  .ranks = shards > 1 ? g->link.join.size : 0},
			     &o, g->engine);

	if (rc)
		return rc;
	f->silence_ns = FPISA_MANAGER_ABSENT_MS * 1000000ull;
	j->handle = f;
	return g->link.events >= 0 ? fpisa_shared_events_with(f, g->link.events) : 0;
}

/* Prepare the first call of a type. Ask the manager for a job, or report why no job is possible. */
static int ask(struct fpisa_group *g, struct fpisa_link_job *j, uint32_t type)
{
	struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_ASK);
	struct fpisa_link *l = &g->link;
	int rc;

	j->asked = spec_of(g, type);
	j->asked_ns = fpisa_now();
	rc = make_handle(g, j);
	if (rc) {
		fpisa_link_job_failed(l, j, rc, fpisa_error());
		return rc;
	}
	j->state = FPISA_GROUP_JOB_ASKED;
	m.ask.index = (uint32_t)(j - l->job);
	m.ask.spec = j->asked;
	fpisa_link_send(l, &m);
	return 0;
}

/* Return the job of a type, or the next free entry. There are as many entries as types. */
static struct fpisa_link_job *job_of(struct fpisa_link *l, uint32_t type)
{
	struct fpisa_link_job *j = l->job;

	_Static_assert(FPISA_FORMAT_END - 1 <= FPISA_MANAGER_JOBS, "a job a type");
	while (j->asked.format && j->asked.format != type)
		j++;
	return j;
}

int fpisa_group_handle(struct fpisa_group *g, uint32_t type, struct fpisa **out)
{
	struct fpisa_link *l = &g->link;
	struct fpisa_link_job *j = job_of(l, type);
	int untold = j->error && !j->told;

	*out = NULL;
	if (l->stopping)
		return fpisa_fail(-ECANCELED, "%s: this rank is leaving the group; join again before another call",
				  l->peer);
	if (untold) {
		/* Check this first, because other ranks may have left or died as a consequence. */
		j->asked = spec_of(g, type);
		j->state = FPISA_GROUP_JOB_REFUSED;
		j->told = 1;
	} else if (l->error) {
		return fpisa_fail(l->error, "%s", l->sentence);
	} else if (fpisa_link_call(l)) {
		return -ECONNRESET;
	}
	if (j->error)
		return fpisa_fail(j->error, "%s", j->sentence);
	if (j->state == FPISA_GROUP_JOB_NONE) {
		int rc = ask(g, j, type);

		if (rc)
			return rc;
	}
	*out = j->handle;
	return 0;
}

int fpisa_group_refuse_inherited(const struct fpisa_group *g)
{
	if (!g->link.inherited)
		return 0;
	return fpisa_fail(
		-ECHILD,
		"%s: the group belongs to the process that joined it, and this process is a child; join in this process",
		g->link.peer);
}

int fpisa_group_refuse_inside(const struct fpisa_group *g)
{
	if (!fpisa_engine_inside(g->engine))
		return 0;
	return fpisa_fail(-EBUSY,
			  "%s: a callback must not wait for a request, because it runs on the thread that moves "
			  "requests; "
			  "wait in another thread",
			  g->link.peer);
}

int fpisa_group_first_type(struct fpisa_group *g, int to_wait, uint32_t *type)
{
	struct fpisa_link *l = &g->link;
	const uint64_t timeout_ns = g->options.timeout_ms * 1000000ull;
	struct fpisa_clock clock;
	int k = 0, rc = 0;

	fpisa_clock_init(&clock, timeout_ns, fpisa_now());
	*type = FPISA_FLOAT32;
	while (k < FPISA_MANAGER_JOBS && !rc && !l->error && l->job[k].asked.format) {
		if (l->job[k].error) {
			k++;
		} else if (l->job[k].state == FPISA_GROUP_JOB_MADE) {
			*type = l->job[k].asked.format;
			break;
		} else if (!to_wait) {
			rc = fpisa_fail(-EAGAIN,
					"%s: cannot start the barrier: the group's first job is still being created; "
					"try again",
					l->peer);
		} else if (!timeout_ns) {
			pthread_cond_wait(&l->changed, &l->lock);
		} else if (fpisa_link_wait(l, &clock, timeout_ns)) {
			rc = fpisa_fail(-ETIMEDOUT, "%s: barrier: the group's first job was not created within %u ms",
					l->peer, g->options.timeout_ms);
		}
	}
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
			rc = fpisa_fail(-errno, "%s: cannot create an eventfd for requests: %s", l->peer,
					fpisa_why(-errno));
	}
	for (int k = 0; !rc && k < FPISA_MANAGER_JOBS; k++)
		if (l->job[k].handle && l->job[k].handle->shared.events < 0)
			rc = fpisa_shared_events_with(l->job[k].handle, l->events);
	fd = rc ? rc : l->events;
	pthread_mutex_unlock(&l->lock);
	return fd;
}

/* -- leaving ----------------------------------------------------------------------------- */

void fpisa_group_leave(struct fpisa_group *g)
{
	struct fpisa *f[FPISA_MANAGER_JOBS];

	if (!g || (!g->link.inherited && fpisa_engine_inside(g->engine)))
		return;
	/* After end_link() callbacks cannot start calls, so the number of handles no longer grows. */
	end_link(&g->link);
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
		f[k] = g->link.job[k].handle;
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
		fpisa_close(f[k]);
	fpisa_engine_stop(g->engine);
	free(g);
}
