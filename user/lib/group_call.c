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

	if (rc)
		return rc;
	if (g->link.inherited)
		return fpisa_fail(-ECHILD, "%s: it belongs to the process that joined it, and this is a child", g->link.peer);
	if (g->busy)
		return fpisa_fail(-EBUSY, "%s: it is in a call of another thread", g->link.peer);
	g->busy = 1;
	return 0;
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
	g->busy = 0;
	return rc;
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
	struct fpisa_request *r = NULL;
	int rc = fpisa_group_start(g, &c, &r);

	return rc ? rc : fpisa_wait(&r, flags);
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
	struct fpisa_request *r = NULL;
	int rc = fpisa_given(g, "the group");

	/* By a job that there is already, of whatever type. */
	for (int k = 0; !rc && k < FPISA_MANAGER_JOBS; k++)
		if (g->link.job[k].handle) {
			c.type = g->link.job[k].asked.format;
			break;
		}
	if (!rc)
		rc = fpisa_group_start(g, &c, &r);
	return rc ? rc : fpisa_wait(&r, NULL);
}

int fpisa_group_broadcast_start(struct fpisa_group *g, void *data, size_t bytes, uint32_t root,
				struct fpisa_request **request)
{
	struct fpisa *f = NULL;
	int rc = fpisa_given(request, "the place of the request");

	if (rc)
		return rc;
	*request = NULL;
	rc = fpisa_given(g, "the group");
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
	return leave(g, rc ? rc : fpisa_broadcast_start(f, data, bytes, root, request));
}

int fpisa_group_broadcast(struct fpisa_group *g, void *data, size_t bytes, uint32_t root)
{
	struct fpisa_request *r = NULL;
	int rc = fpisa_group_broadcast_start(g, data, bytes, root, &r);

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
	pthread_mutex_unlock(&g->link.lock);
	for (int k = 0; !missing && k < FPISA_MANAGER_JOBS; k++)
		missing = g->link.job[k].handle ? fpisa_missing(g->link.job[k].handle) : 0;
	return missing;
}
