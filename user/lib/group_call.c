/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The public functions of fpisa.h for calls of groups. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include "api.h"
#include "fpisa/format.h"
#include "fpisa/slot.h"
#include "fpisa/tree.h"
#include "group.h"

#define BARRIER_TAG 0x7265697272616270ull
#define MAX_BYTES (1ull << 42)

static int enter(struct fpisa_group *g)
{
	int rc = fpisa_given(g, "the group");

	return rc ? rc : fpisa_group_refuse_inherited(g);
}

/* The parameters of a broadcast in addition to those of its call, which is a sum of words. */
struct broadcast {
	void *data;
	uint64_t bytes;
	uint32_t root;
};

/* Marks a barrier, which has no parameters. */
static const struct broadcast is_barrier;

static uint64_t operand_of(const struct fpisa_call *c)
{
	uint64_t operand = 0;

	if (c->op == FPISA_SCALE)
		memcpy(&operand, &c->factor, sizeof(operand));
	return operand;
}

/*
 * Return whether the error is that of the type's job, which has failed at some ranks. The ranks continue without a job
 * that was refused before it was made.
 */
static int job_failed(const struct fpisa_link *l, uint32_t type, int error)
{
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
		if (l->job[k].asked.format == type)
			return l->job[k].error == error && !l->job[k].alike;
	return 0;
}

/* Record that a barrier could not begin because its job or the job's handle had failed. A failed job has no handle. */
static void barrier_failed(struct fpisa_link *l, uint64_t number, uint32_t type, int error, struct fpisa *f)
{
	struct fpisa_standing s = {.failed = FPISA_NO_RANKS};

	if (f)
		fpisa_handle_standing(f, &s);
	if (!l->failed_barrier)
		l->failed_barrier = number;
	if (f || job_failed(l, type, error))
		fpisa_link_barrier_failed(l, error, &s.failed, fpisa_error());
}

/*
 * Start the group's next call, under the lock. The call gets a number unless its arguments are wrong, because all ranks
 * make calls with valid arguments. A call of a refused type also gets a number, because other ranks may learn of the
 * refusal later. `parts` are the parts of the result that the ranks keep, or NULL if they keep all.
 */
static int start_next(struct fpisa_group *g, struct fpisa_call *c, struct fpisa_parts *parts, const struct broadcast *b,
		      int to_wait, struct fpisa_request **request)
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
			rc = fpisa_broadcast_start(f, c, b->data, b->bytes, b->root, number, to_wait, request);
		else
			rc = fpisa_start_numbered(f, c, parts, number, to_wait, request);
		if (rc)
			fpisa_handle_standing(f, &s);
	}
	if (!rc || (!l->error && s.error)) {
		l->calls = number;
		l->digest = digest;
		l->barriers |= b == &is_barrier;
		if (rc && b == &is_barrier)
			barrier_failed(l, number, c->type, rc, f);
	}
	return rc;
}

/* Start a call. The caller has entered the group. */
static int start(struct fpisa_group *g, struct fpisa_call *c, struct fpisa_parts *parts, const struct broadcast *b,
		 int to_wait, struct fpisa_request **request)
{
	int rc = 0;

	if (!c->type || c->type >= FPISA_FORMAT_END)
		return fpisa_fail(-EINVAL, "%s: type is %u; it must be an enum fpisa_dtype", g->link.peer, c->type);
	if (to_wait)
		rc = fpisa_group_refuse_inside(g);
	if (rc)
		return rc;
	pthread_mutex_lock(&g->link.lock);
	rc = start_next(g, c, parts, b, to_wait, request);
	pthread_mutex_unlock(&g->link.lock);
	return rc;
}

/* Make a call and wait for its end. */
static int run(struct fpisa_group *g, struct fpisa_call *c, struct fpisa_parts *parts, uint32_t *flags)
{
	struct fpisa_request *r = NULL;
	int rc = start(g, c, parts, NULL, 1, &r);

	return rc ? rc : fpisa_wait(&r, flags);
}

/* Copy the call of the program and enter the group. *request will get the request. */
static int enter_call(struct fpisa_group *g, struct fpisa_call *c, const struct fpisa_call *call,
		      struct fpisa_request **request)
{
	int rc;

	if (request)
		*request = NULL;
	rc = fpisa_copy_sized(c, sizeof(*c), call, offsetof(struct fpisa_call, tag), "call");
	if (!rc && !c->on_done)
		rc = fpisa_given(request, "the pointer for the request");
	return rc ? rc : enter(g);
}

/*
 * Start the program's call. The library owns the request of a call with on_done, and may have freed the request before
 * this function returns.
 */
static int start_call(struct fpisa_group *g, struct fpisa_call *c, struct fpisa_parts *parts, const struct broadcast *b,
		      struct fpisa_request **request)
{
	struct fpisa_request *r = NULL;
	int rc = start(g, c, parts, b, 0, &r);

	if (!rc && !c->on_done)
		*request = r;
	return rc;
}

int fpisa_group_start(struct fpisa_group *g, const struct fpisa_call *call, struct fpisa_request **request)
{
	struct fpisa_call c;
	int rc = enter_call(g, &c, call, request);

	return rc ? rc : start_call(g, &c, NULL, NULL, request);
}

/* Find the parts of the group's ranks. */
static int divide(const struct fpisa_group *g, struct fpisa_call *c, const size_t *counts, struct fpisa_parts *parts)
{
	return fpisa_call_divide(c, counts, g->link.join.size, g->link.join.rank, parts);
}

int fpisa_group_reduce_scatter_start(struct fpisa_group *g, const struct fpisa_call *call, const size_t *counts,
				     struct fpisa_request **request)
{
	struct fpisa_parts parts;
	struct fpisa_call c;
	int rc = enter_call(g, &c, call, request);

	if (!rc)
		rc = divide(g, &c, counts, &parts);
	return rc ? rc : start_call(g, &c, &parts, NULL, request);
}

int fpisa_group_reduce_scatter(struct fpisa_group *g, const void *send, void *recv, size_t count, const size_t *counts,
			       enum fpisa_dtype type, enum fpisa_operation op, double factor, uint32_t *flags)
{
	struct fpisa_call c = fpisa_call_of(send, recv, count, type, op, factor);
	struct fpisa_parts parts;
	int rc = enter(g);

	if (!rc)
		rc = divide(g, &c, counts, &parts);
	return rc ? rc : run(g, &c, &parts, flags);
}

int fpisa_group_allreduce(struct fpisa_group *g, const void *send, void *recv, size_t count, enum fpisa_dtype type,
			  enum fpisa_operation op, double factor, uint32_t *flags)
{
	struct fpisa_call c = fpisa_call_of(send, recv, count, type, op, factor);
	int rc = enter(g);

	return rc ? rc : run(g, &c, NULL, flags);
}

/* Start a barrier in an existing job of any type. */
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
		rc = start_next(g, &c, NULL, &is_barrier, to_wait, request);
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
	int rc = fpisa_given(request, "the pointer for the request");

	if (rc)
		return rc;
	*request = NULL;
	return barrier(g, 0, request);
}

/* Check a broadcast, and make `c`, which has the tag of the program, its sum. */
static int check_broadcast(struct fpisa_group *g, struct fpisa_call *c, const struct broadcast *b)
{
	int rc = b->bytes ? fpisa_given(b->data, "the data") : 0;

	if (!rc && b->root >= g->link.join.size)
		rc = fpisa_fail(-EINVAL, "%s: root is %u; it must be below %u, the number of ranks", g->link.peer,
				b->root, g->link.join.size);
	if (!rc && b->bytes > MAX_BYTES)
		rc = fpisa_fail(-EINVAL, "%s: a broadcast of %llu bytes is not supported; the limit is 2^42",
				g->link.peer, (unsigned long long)b->bytes);
	if (!rc)
		fpisa_call_broadcast(c, b->bytes, b->root);
	return rc;
}

int fpisa_group_broadcast_call(struct fpisa_group *g, void *data, size_t bytes, uint32_t root,
			       const struct fpisa_call *call, struct fpisa_request **request)
{
	const struct broadcast b = {.data = data, .bytes = bytes, .root = root};
	struct fpisa_call c;
	int rc = enter_call(g, &c, call, request);

	if (!rc)
		rc = check_broadcast(g, &c, &b);
	return rc ? rc : start_call(g, &c, NULL, &b, request);
}

int fpisa_group_broadcast_start(struct fpisa_group *g, void *data, size_t bytes, uint32_t root,
				struct fpisa_request **request)
{
	const struct fpisa_call c = {.size = sizeof(c)};

	return fpisa_group_broadcast_call(g, data, bytes, root, &c, request);
}

int fpisa_group_broadcast(struct fpisa_group *g, void *data, size_t bytes, uint32_t root)
{
	const struct broadcast b = {.data = data, .bytes = bytes, .root = root};
	struct fpisa_call c = {.size = sizeof(c)};
	struct fpisa_request *r = NULL;
	int rc = enter(g);

	if (!rc)
		rc = check_broadcast(g, &c, &b);
	if (!rc)
		rc = start(g, &c, NULL, &b, 1, &r);
	return rc ? rc : fpisa_wait(&r, NULL);
}

int fpisa_group_ended(struct fpisa_group *g)
{
	int rc = enter(g);

	return rc ? rc : fpisa_link_error(&g->link);
}

/* Return the ranks that the group's last error names. */
static struct fpisa_ranks missing_of(struct fpisa_group *g)
{
	struct fpisa_ranks missing = FPISA_NO_RANKS;
	struct fpisa_standing s;

	if (!g)
		return fpisa_missing_at_join;
	if (g->link.inherited)
		return missing;
	pthread_mutex_lock(&g->link.lock);
	missing = g->link.missing;
	for (int k = 0; !fpisa_ranks_any(&missing) && k < FPISA_MANAGER_JOBS; k++) {
		if (!g->link.job[k].handle)
			continue;
		fpisa_handle_standing(g->link.job[k].handle, &s);
		missing = s.failed;
	}
	pthread_mutex_unlock(&g->link.lock);
	return missing;
}

uint64_t fpisa_group_missing(struct fpisa_group *g)
{
	return missing_of(g).word[0];
}

uint32_t fpisa_group_missing_ranks(struct fpisa_group *g, uint32_t *ranks, uint32_t room)
{
	const struct fpisa_ranks missing = missing_of(g);
	uint32_t n = 0;

	FPISA_EACH_RANK(r, &missing) {
		if (ranks && n < room)
			ranks[n] = r;
		n++;
	}
	return n;
}
