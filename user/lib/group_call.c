/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The public functions of fpisa.h on calls of groups. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include "api.h"
#include "fpisa/format.h"
#include "fpisa/slot.h"
#include "group.h"

#define BARRIER_TAG 0x7265697272616270ull
#define MAX_BYTES (1ull << 42)

static int enter(struct fpisa_group *g)
{
	int rc = fpisa_given(g, "the group");

	return rc ? rc : fpisa_group_refuse_inherited(g);
}

/* The parameters of a broadcast beside its call's, which is a sum of words. */
struct broadcast {
	void *data;
	uint64_t bytes;
	uint32_t root;
};

/* A barrier has no parameters; this stands in their place. */
static const struct broadcast is_barrier;

static uint64_t operand_of(const struct fpisa_call *c)
{
	uint64_t operand = 0;

	if (c->op == FPISA_SCALE)
		memcpy(&operand, &c->factor, sizeof(operand));
	return operand;
}

/*
 * Record that a barrier could not begin because its job or the job's handle had failed. A refusal that all ranks get
 * alike has no handle.
 */
static void barrier_failed(struct fpisa_link *l, uint64_t number, int error, struct fpisa *f)
{
	if (!l->failed_barrier)
		l->failed_barrier = number;
	if (f || error == -EREMOTEIO)
		fpisa_link_barrier_failed(l, error, f ? fpisa_missing(f) : 0, fpisa_error());
}

/*
 * Start the group's next call, under the lock. The call gets a number if all ranks make it, that is, unless its
 * arguments are wrong. A call of a refused type gets a number too, because other ranks may hear of the refusal later.
 */
static int start_next(struct fpisa_group *g, struct fpisa_call *c, const struct broadcast *b, int to_wait,
		      struct fpisa_request **request)
{
	struct fpisa_link *l = &g->link;
	const uint64_t number = l->calls + 1, digest = fpisa_digest(l->digest, FPISA_CALL_ALLREDUCE, (uint8_t)c->type,
								    (uint8_t)c->op, operand_of(c), c->count, c->tag);
	struct fpisa_standing s = {.error = 1};
	struct fpisa *f;
	int rc;

	fpisa_link_check_barriers(l);
	rc = fpisa_group_handle(g, c->type, &f);
	c->tag = digest;
	if (!rc) {
		if (b == &is_barrier)
			rc = fpisa_barrier_start(f, digest, number, to_wait, request);
		else if (b)
			rc = fpisa_broadcast_start(f, b->data, b->bytes, b->root, digest, number, to_wait, request);
		else
			rc = fpisa_start_numbered(f, c, number, to_wait, request);
		if (rc)
			fpisa_handle_standing(f, &s);
	}
	if (!rc || (!l->error && s.error)) {
		l->calls = number;
		l->digest = digest;
		l->barriers |= b == &is_barrier;
		if (rc && b == &is_barrier)
			barrier_failed(l, number, rc, f);
	}
	return rc;
}

/* Start a call of a group that the caller has entered. */
static int start(struct fpisa_group *g, struct fpisa_call *c, const struct broadcast *b, int to_wait,
		 struct fpisa_request **request)
{
	int rc = 0;

	if (!c->type || c->type >= FPISA_FORMAT_END)
		return fpisa_fail(-EINVAL, "%s: type is %u; it must be an enum fpisa_dtype", g->link.peer, c->type);
	if (to_wait)
		rc = fpisa_group_refuse_inside(g);
	if (rc)
		return rc;
	pthread_mutex_lock(&g->link.lock);
	rc = start_next(g, c, b, to_wait, request);
	pthread_mutex_unlock(&g->link.lock);
	return rc;
}

/* Make a call and wait for its end. */
static int run(struct fpisa_group *g, struct fpisa_call *c, uint32_t *flags)
{
	struct fpisa_request *r = NULL;
	int rc = start(g, c, NULL, 1, &r);

	return rc ? rc : fpisa_wait(&r, flags);
}

int fpisa_group_start(struct fpisa_group *g, const struct fpisa_call *call, struct fpisa_request **request)
{
	struct fpisa_request *r = NULL;
	struct fpisa_call c;
	int rc;

	if (request)
		*request = NULL;
	rc = fpisa_copy_sized(&c, sizeof(c), call, offsetof(struct fpisa_call, tag), "call");
	if (!rc && !c.on_done)
		rc = fpisa_given(request, "the place of the request");
	if (!rc)
		rc = enter(g);
	if (!rc)
		rc = start(g, &c, NULL, 0, &r);
	/* The library owns the request of a call with on_done, and may have freed it by now. */
	if (!rc && !c.on_done)
		*request = r;
	return rc;
}

int fpisa_group_allreduce(struct fpisa_group *g, const void *send, void *recv, size_t count, enum fpisa_dtype type,
			  enum fpisa_operation op, double factor, uint32_t *flags)
{
	struct fpisa_call c = {
		.size = sizeof(c), .send = send, .recv = recv, .count = count, .type = type, .op = op, .factor = factor};
	int rc = enter(g);

	return rc ? rc : run(g, &c, flags);
}

/* Start a barrier in a job of any type that exists already. */
static int barrier(struct fpisa_group *g, int to_wait, struct fpisa_request **request)
{
	struct fpisa_call c = {.op = FPISA_SUM, .count = FPISA_BLOCK, .tag = BARRIER_TAG};
	int rc = enter(g);

	if (!rc && to_wait)
		rc = fpisa_group_refuse_inside(g);
	if (rc)
		return rc;
	pthread_mutex_lock(&g->link.lock);
	rc = fpisa_group_first_type(g, to_wait, &c.type);
	if (!rc)
		rc = start_next(g, &c, &is_barrier, to_wait, request);
	pthread_mutex_unlock(&g->link.lock);
	return rc;
}

int fpisa_group_barrier(struct fpisa_group *g)
{
	struct fpisa_request *r = NULL;
	int rc = barrier(g, 1, &r);

	return rc ? rc : fpisa_wait(&r, NULL);
}

int fpisa_group_barrier_start(struct fpisa_group *g, struct fpisa_request **request)
{
	int rc = fpisa_given(request, "the place of the request");

	if (rc)
		return rc;
	*request = NULL;
	return barrier(g, 0, request);
}

static int broadcast(struct fpisa_group *g, void *data, size_t bytes, uint32_t root, int to_wait,
		     struct fpisa_request **request)
{
	const struct broadcast b = {.data = data, .bytes = bytes, .root = root};
	struct fpisa_call c = {.type = FPISA_INT32,
			       .op = FPISA_SUM,
			       .count = fpisa_broadcast_words(bytes),
			       .tag = fpisa_broadcast_tag(bytes, root)};
	int rc = fpisa_given(g, "the group");

	if (!rc && bytes)
		rc = fpisa_given(data, "the data");
	if (!rc && root >= g->link.join.size)
		rc = fpisa_fail(-EINVAL, "%s: root is %u; it must be one of its %u ranks", g->link.peer, root,
				g->link.join.size);
	if (!rc && bytes > MAX_BYTES)
		rc = fpisa_fail(-EINVAL, "%s: %zu bytes; a broadcast has at most 2^42", g->link.peer, bytes);
	if (!rc)
		rc = enter(g);
	return rc ? rc : start(g, &c, &b, to_wait, request);
}

int fpisa_group_broadcast_start(struct fpisa_group *g, void *data, size_t bytes, uint32_t root,
				struct fpisa_request **request)
{
	int rc = fpisa_given(request, "the place of the request");

	if (rc)
		return rc;
	*request = NULL;
	return broadcast(g, data, bytes, root, 0, request);
}

int fpisa_group_broadcast(struct fpisa_group *g, void *data, size_t bytes, uint32_t root)
{
	struct fpisa_request *r = NULL;
	int rc = broadcast(g, data, bytes, root, 1, &r);

	return rc ? rc : fpisa_wait(&r, NULL);
}

int fpisa_group_ended(struct fpisa_group *g)
{
	int error;

	if (g->link.inherited)
		return -ECHILD;
	pthread_mutex_lock(&g->link.lock);
	error = g->link.error;
	pthread_mutex_unlock(&g->link.lock);
	return error;
}

uint64_t fpisa_group_missing(struct fpisa_group *g)
{
	uint64_t missing;

	if (!g)
		return fpisa_missing_at_join;
	if (g->link.inherited)
		return 0;
	pthread_mutex_lock(&g->link.lock);
	missing = g->link.missing;
	for (int k = 0; !missing && k < FPISA_MANAGER_JOBS; k++)
		missing = g->link.job[k].handle ? fpisa_missing(g->link.job[k].handle) : 0;
	pthread_mutex_unlock(&g->link.lock);
	return missing;
}
