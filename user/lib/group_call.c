/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The public functions of fpisa.h on calls of groups. */
#include <errno.h>
#include <stddef.h>
#include "api.h"
#include "group.h"

#define BARRIER_TAG 0x7265697272616270ull
#define MAX_BYTES (1ull << 42)

static int enter(struct fpisa_group *g)
{
	int rc = fpisa_given(g, "the group");

	return rc ? rc : fpisa_group_refuse_inherited(g);
}

/* A call of this type begins: its handle. Whatever this returns, leave() follows. */
static int begin(struct fpisa_group *g, uint32_t type, struct fpisa **f)
{
	/* Before it waits for ranks that may have left: the job, too, is of this call. */
	fpisa_link_call(&g->link);
	return fpisa_group_handle(g, type, f);
}

/* It has been started, or not. */
static int leave(struct fpisa_group *g, int rc)
{
	if (rc)
		fpisa_link_call_failed(&g->link);
	return rc;
}

/* One that waits for its end. */
static int run(struct fpisa_group *g, const struct fpisa_call *c, uint32_t *flags)
{
	struct fpisa_request *r = NULL;
	struct fpisa *f = NULL;
	int rc = enter(g);

	if (rc)
		return rc;
	rc = begin(g, c->type, &f);
	rc = leave(g, rc ? rc : fpisa_start_to_wait(f, c, &r));
	return rc ? rc : fpisa_wait(&r, flags);
}

int fpisa_group_start(struct fpisa_group *g, const struct fpisa_call *call, struct fpisa_request **request)
{
	struct fpisa *f = NULL;
	struct fpisa_call c;
	int rc;

	if (request)
		*request = NULL;
	rc = fpisa_copy_sized(&c, sizeof(c), call, offsetof(struct fpisa_call, tag), "call");
	if (!rc && !c.on_done)
		rc = fpisa_given(request, "the place of the request");
	if (!rc)
		rc = enter(g);
	if (rc)
		return rc;
	c.size = sizeof(c);
	rc = begin(g, c.type, &f);
	return leave(g, rc ? rc : fpisa_start(f, &c, request));
}

int fpisa_group_allreduce(struct fpisa_group *g, const void *send, void *recv, size_t count, enum fpisa_dtype type,
			  enum fpisa_operation op, double factor, uint32_t *flags)
{
	const struct fpisa_call c = {
		.size = sizeof(c), .send = send, .recv = recv, .count = count, .type = type, .op = op, .factor = factor};

	return run(g, &c, flags);
}

int fpisa_group_barrier(struct fpisa_group *g)
{
	uint64_t word[FPISA_BLOCK] = {0};
	struct fpisa_call c = {.size = sizeof(c),
			       .send = word,
			       .recv = word,
			       .count = FPISA_BLOCK,
			       .type = FPISA_FLOAT32,
			       .op = FPISA_SUM,
			       .tag = BARRIER_TAG};
	int rc = enter(g);

	/* By a job that there is already, of whatever type. */
	if (!rc)
		rc = fpisa_group_first_type(g, &c.type);
	return rc ? rc : run(g, &c, NULL);
}

static int broadcast(struct fpisa_group *g, void *data, size_t bytes, uint32_t root, int to_wait,
		     struct fpisa_request **request)
{
	struct fpisa *f = NULL;
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
	if (rc)
		return rc;
	rc = begin(g, FPISA_INT32, &f);
	return leave(g, rc ? rc : fpisa_broadcast_start(f, data, bytes, root, to_wait, request));
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
