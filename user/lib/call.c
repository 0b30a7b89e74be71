/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The public functions of fpisa.h for calls: checks of arguments, and begin and end of a request. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "api.h"
#include "fpisa/job.h"
#include "fpisa/names.h"
#include "fpisa/op.h"
#include "background.h"
#include "handle.h"
#include "outcome.h"
#include "progress.h"
#include "send.h"
#include "unclean.h"

#define MAX_COUNT (1ull << 40)
#define BROADCAST_TAG 0x7473616364616f72ull
#define REDUCE_SCATTER_TAG 0x5f65637564657273ull

_Static_assert(FPISA_FLOAT32 == (int)FPISA_FORMAT_FP32 && FPISA_FLOAT16 == (int)FPISA_FORMAT_FP16 &&
		       FPISA_BFLOAT16 == (int)FPISA_FORMAT_BF16 && FPISA_FLOAT64 == (int)FPISA_FORMAT_FP64 &&
		       FPISA_E4M3 == (int)FPISA_FORMAT_E4M3 && FPISA_E5M2 == (int)FPISA_FORMAT_E5M2 &&
		       FPISA_INT32 == (int)FPISA_FORMAT_INT32 && FPISA_MXINT8 == (int)FPISA_FORMAT_MXINT8 &&
		       FPISA_MXINT8 + 1 == (int)FPISA_FORMAT_END,
	       "types have the numbers of formats");
_Static_assert(FPISA_SUM == (int)FPISA_OP_SUM && FPISA_MIN == (int)FPISA_OP_MIN && FPISA_MAX == (int)FPISA_OP_MAX &&
		       FPISA_AVG == (int)FPISA_OP_AVG && FPISA_SCALE == (int)FPISA_OP_SCALE &&
		       FPISA_NORM == (int)FPISA_OP_NORM && FPISA_NORM + 1 == (int)FPISA_OP_END,
	       "operations have the numbers of the wire");
_Static_assert(FPISA_JOB_MODE_FPISA == (int)FPISA_MODE_FPISA && FPISA_JOB_MODE_FPISA_A == (int)FPISA_MODE_FPISA_A &&
		       FPISA_JOB_MODE_FPISA64 == (int)FPISA_MODE_FPISA64 &&
		       FPISA_JOB_MODE_EXACT == (int)FPISA_MODE_EXACT && FPISA_JOB_MODE_EXACT + 1 == (int)FPISA_MODE_END,
	       "modes have the numbers of the wire");
_Static_assert(FPISA_RESULT_OVERFLOW == FPISA_OVERFLOW && FPISA_RESULT_INEXACT == FPISA_INEXACT &&
		       FPISA_RESULT_OVERWRITE == FPISA_OVERWRITE && FPISA_RESULT_NAN == FPISA_NAN &&
		       FPISA_RESULT_INF == FPISA_INF && FPISA_RESULT_MIXED_RANKS > UINT8_MAX,
	       "flags have the numbers of the wire, except MIXED_RANKS, which frames do not carry");

static const char *type_name(unsigned int type)
{
#define TYPE(id, name, type) [FPISA_FORMAT_##id] = (type),
	static const char *const names[] = {FPISA_FORMAT_NAMES(TYPE, )};

	return type && type < FPISA_FORMAT_END ? names[type] : "of an unknown type";
}

static const char *op_name(unsigned int op)
{
#define OP(id, name) [FPISA_OP_##id] = (name),
	static const char *const names[] = {FPISA_OP_NAMES(OP, )};

	return op && op < FPISA_OP_END ? names[op] : "an unknown operation";
}

static const char *mode_name(unsigned int mode)
{
#define MODE(id, name) [FPISA_MODE_##id] = (name),
	static const char *const names[] = {FPISA_MODE_NAMES(MODE, )};

	return mode && mode < FPISA_MODE_END ? names[mode] : "of an unknown number";
}

/* Return the size in bytes of an array of the job's format. */
static size_t array_size(const struct fpisa *f, size_t count)
{
	return count * f->format.bytes + (f->format.shared ? count / FPISA_BLOCK : 0);
}

static int check_parts(const struct fpisa_call *c, const size_t *counts, uint32_t ranks)
{
	size_t left = c->count;

	if (!counts && c->count % ranks)
		return fpisa_fail(-EINVAL,
				  "count is %zu, not a multiple of the %u ranks; pass the size of each part in counts",
				  c->count, ranks);
	for (uint32_t r = 0; counts && r < ranks; r++) {
		if (counts[r] > left)
			return fpisa_fail(
				-EINVAL, "the parts have more than the call's %zu elements; counts must add up to count",
				c->count);
		left -= counts[r];
	}
	if (counts && left)
		return fpisa_fail(-EINVAL,
				  "the parts have %zu fewer than the call's %zu elements; counts must add up to count",
				  left, c->count);
	for (uint32_t r = 0; c->type == FPISA_MXINT8 && r < ranks; r++)
		if ((counts ? counts[r] : c->count / ranks) % FPISA_BLOCK)
			return fpisa_fail(-EINVAL,
					  "the part of rank %u is not a multiple of the %d elements that share a scale",
					  r, FPISA_BLOCK);
	return 0;
}

int fpisa_call_divide(struct fpisa_call *c, const size_t *counts, uint32_t ranks, uint32_t rank,
		      struct fpisa_parts *parts)
{
	uint64_t end = 0;
	int rc = check_parts(c, counts, ranks);

	c->tag = fpisa_digest_word(REDUCE_SCATTER_TAG, c->tag);
	for (uint32_t r = 0; !rc && r < ranks; r++) {
		const uint64_t n = counts ? counts[r] : c->count / ranks;

		c->tag = fpisa_digest_word(c->tag, n);
		end += n;
		parts->end[r] = end;
		if (r == rank)
			parts->own = (struct fpisa_part){end - n, end};
	}
	return rc;
}

/*
 * Check the arrays of a call. `part` is the part of the result that this rank keeps. In a format with scales, a part is
 * followed by its own scales, so only a whole array can be summed in place.
 */
static int check_arrays(const struct fpisa *f, const struct fpisa_call *c, const struct fpisa_part *part)
{
	const uint64_t kept = part->end - part->first;
	uintptr_t from = (uintptr_t)c->send, to = (uintptr_t)c->recv, own = from + part->first * f->format.bytes;
	size_t sent = array_size(f, c->count), received = array_size(f, kept);

	if (c->count > MAX_COUNT)
		return fpisa_fail(-EINVAL, "count is %zu; it must be at most 2^40", c->count);
	if ((c->count && !c->send) || (kept && !c->recv))
		return fpisa_fail(-EINVAL, "%s is NULL; give an array", c->count && !c->send ? "send" : "recv");
	if (from < to + received && to < from + sent && (to != own || (f->format.shared && kept < c->count)))
		return fpisa_fail(-EINVAL, "send and recv overlap; %s",
				  kept == c->count ? "they must be the same array or must not overlap" :
						     "recv must be this rank's part of send, or must not overlap it");
	return fpisa_unclean_refuse(c->send, sent);
}

static int check_timeout(const struct fpisa_call *c)
{
	if (c->timeout_ms <= FPISA_FOREVER)
		return 0;
	return fpisa_fail(-EINVAL, "timeout_ms is %llu; it must be at most FPISA_FOREVER, %u",
			  (unsigned long long)c->timeout_ms, FPISA_FOREVER);
}

/* Check that the job supports the call. Store the bits of the factor, as in frames, in *operand. */
static int check_call(const struct fpisa *f, const struct fpisa_call *c, uint64_t *operand)
{
	int rc;

	if (c->type != f->hello.format)
		return fpisa_fail(-EINVAL,
				  "%s: job %u: the values are %s, but the job's are %s; pass values of the job's type",
				  f->peer, f->job, type_name(c->type), type_name(f->hello.format));
	if (f->format.shared && c->count % FPISA_BLOCK)
		return fpisa_fail(-EINVAL, "count is %zu; it must be a multiple of the %d elements that share a scale",
				  c->count, FPISA_BLOCK);
	if (c->op >= FPISA_OP_END || !fpisa_op_offered(f->format, (enum fpisa_mode)f->hello.mode, (__u8)c->op))
		return fpisa_fail(-EINVAL,
				  "%s: job %u: %s of %s in mode %s is not supported; choose another operation or mode "
				  "(doc/numbers.md)",
				  f->peer, f->job, op_name(c->op), type_name(c->type), mode_name(f->hello.mode));
	rc = check_timeout(c);
	if (rc)
		return rc;
	if (c->op == FPISA_SCALE)
		memcpy(operand, &c->factor, sizeof(c->factor));
	if (c->op == FPISA_SCALE && !fpisa_factor_valid(*operand, f->format))
		return fpisa_fail(-EINVAL, "factor is %.17g; it must be finite and not zero%s", c->factor,
				  f->format.bytes == 8 ? "" : ", and a value that float32 can represent");
	return 0;
}

static int may_start(const struct fpisa *f)
{
	int rc = fpisa_joining(f);

	return rc ? rc : f->error ? fpisa_poisoned(f) : 0;
}

/* Find the parts of the job's ranks. The ranks of a leaf's job are not all that are in the sum. */
static int divide(const struct fpisa *f, struct fpisa_call *c, const size_t *counts, struct fpisa_parts *parts)
{
	int rc = may_start(f);

	if (!rc && f->hello.flags & FPISA_JOB_LEAF)
		rc = fpisa_fail(
			-EINVAL,
			"%s: job %u: the aggregator is a leaf of a tree, where only groups can reduce-scatter; join a "
			"group",
			f->peer, f->job);
	return rc ? rc : fpisa_call_divide(c, counts, f->hello.workers, f->hello.rank, parts);
}

/* Give the request its own copy of its parts, and memory for the order of its chunks. */
static int keep_parts(struct fpisa_request *r, const struct fpisa_parts *parts)
{
	r->parts = NULL;
	if (!parts)
		return 0;
	r->parts = malloc(sizeof(*parts));
	r->spread = r->f->layout.homes ? malloc(sizeof(*r->spread)) : NULL;
	if (!r->parts || (r->f->layout.homes && !r->spread))
		return fpisa_fail(-ENOMEM, "not enough memory for a request; " FPISA_MORE_MEMORY);
	*r->parts = *parts;
	return 0;
}

/*
 * Begin a request as a copy of `what`, which has the arrays, their size and the operation. The request may be
 * incomplete when this function returns.
 */
static int begin(struct fpisa *f, const struct fpisa_request *what, struct fpisa_request **request)
{
	struct fpisa_request *r = malloc(sizeof(*r));
	int rc;

	if (!r)
		return fpisa_fail(-ENOMEM, "not enough memory for a request; " FPISA_MORE_MEMORY);
	*r = *what;
	r->f = f;
	rc = keep_parts(r, what->parts);
	if (!r->timeout_ns)
		r->timeout_ns = f->timeout_ns;
	/* Input is kept at the position of its result, so parts of `kept` without a result only use address space. */
	if (!rc && f->restore && r->part.first < r->part.end && fpisa_request_in_place(r)) {
		const size_t kept = r->part.end - r->part.first;

		r->kept = malloc(array_size(f, kept));
		rc = r->kept ?
			     0 :
			     fpisa_fail(
				     -ENOMEM,
				     "not enough memory to keep %zu elements; free some memory, or clear options.restore",
				     kept);
	}
	r->left = 1;
	if (!rc)
		rc = fpisa_request_reserve(r);
	if (rc) {
		r->number = 0; /* the next call will get this number */
		fpisa_request_free(r);
		return rc;
	}
	if (!fpisa_is_held(&f->shared))
		fpisa_request_place(r);
	TAILQ_INSERT_TAIL(&f->requests, r, link);
	fpisa_tick(f, fpisa_now(), 0);
	if (!f->oldest)
		fpisa_set_oldest(f, r);
	if (fpisa_is_held(&f->shared)) {
		fpisa_background_resume(f);
		*request = r;
		return 0;
	}
	/* The result of this function reports a failed send to the caller. */
	r->told = 1;
	rc = fpisa_send(f);
	r->told = 0;
	if (rc) {
		TAILQ_REMOVE(&f->requests, r, link);
		fpisa_request_free(r);
		return rc;
	}
	fpisa_requests_complete(f);
	if (f->shared.engine && (!r->blocking || fpisa_is_driven(&f->shared)))
		fpisa_background_resume(f);
	*request = r;
	return 0;
}

/*
 * Start a call. A blocking call begins and waits in one step. `parts` are the parts of the result that the ranks keep, or
 * NULL if they keep all.
 */
static int start(struct fpisa *f, const struct fpisa_call *c, struct fpisa_parts *parts, uint64_t number, int blocking,
		 struct fpisa_request **request)
{
	struct fpisa_request what = {.send = c->send,
				     .recv = c->recv,
				     .part = parts ? parts->own : (struct fpisa_part){0, c->count},
				     .parts = parts,
				     .count = c->count,
				     .bytes = c->count * f->format.bytes,
				     .op = (uint8_t)c->op,
				     .root = -1,
				     .tag = c->tag,
				     .number = number,
				     .timeout_ns = fpisa_timeout_ns(c->timeout_ms),
				     .blocking = blocking,
				     .on_done = c->on_done,
				     .arg = c->arg,
				     .ranks_to = c->ranks};
	int rc = may_start(f);

	if (!rc)
		rc = check_call(f, c, &what.operand);
	if (!rc)
		rc = check_arrays(f, c, &what.part);
	return rc ? rc : begin(f, &what, request);
}

/* Start a request of a group for which the program has given no struct fpisa_call. */
static int start_made(struct fpisa *f, const struct fpisa_request *what, struct fpisa_request **request)
{
	int rc = what->blocking ? fpisa_enter_to_block(f) : fpisa_enter(f);

	if (rc)
		return rc;
	rc = may_start(f);
	if (!rc && what->root >= 0 && what->send)
		rc = fpisa_unclean_refuse(what->send, what->bytes);
	if (!rc)
		rc = begin(f, what, request);
	fpisa_leave(f);
	return rc;
}

int fpisa_barrier_start(struct fpisa *f, uint64_t tag, uint64_t number, int to_wait, struct fpisa_request **request)
{
	/* zeros in any format, with their scale */
	static const uint64_t zeros[FPISA_BLOCK + 1];
	const struct fpisa_request what = {.send = (const char *)zeros,
					   .count = FPISA_BLOCK,
					   .bytes = FPISA_BLOCK * f->format.bytes,
					   .op = FPISA_SUM,
					   .root = -1,
					   .tag = tag,
					   .number = number,
					   .blocking = to_wait,
					   .barrier = 1};

	return start_made(f, &what, request);
}

void fpisa_call_broadcast(struct fpisa_call *c, uint64_t bytes, uint32_t root)
{
	const uint64_t tag = fpisa_digest_word(fpisa_digest_word(BROADCAST_TAG, bytes), root);

	c->tag = c->tag ? fpisa_digest_word(tag, c->tag) : tag;
	c->type = FPISA_INT32;
	c->op = FPISA_SUM;
	c->count = bytes ? (bytes + 3) / 4 : 1;
}

int fpisa_broadcast_start(struct fpisa *f, const struct fpisa_call *c, void *data, uint64_t bytes, uint32_t root,
			  uint64_t number, int to_wait, struct fpisa_request **request)
{
	const int here = root == f->group_rank;
	const struct fpisa_request what = {.send = here && bytes ? data : NULL,
					   .recv = !here && bytes ? data : NULL,
					   .part = {0, c->count},
					   .count = c->count,
					   .bytes = bytes ? bytes : 4,
					   .op = FPISA_SUM,
					   .tag = c->tag,
					   .number = number,
					   .root = (int)root,
					   .timeout_ns = fpisa_timeout_ns(c->timeout_ms),
					   .blocking = to_wait,
					   .on_done = c->on_done,
					   .arg = c->arg,
					   .ranks_to = c->ranks};
	int rc = check_timeout(c);

	return rc ? rc : start_made(f, &what, request);
}

/* Start a call of the program. It is a reduce-scatter if `scatters` is set. `counts` is as in fpisa_call_divide(). */
static int start_call(struct fpisa *f, const struct fpisa_call *call, int scatters, const size_t *counts,
		      struct fpisa_request **request)
{
	struct fpisa_request *r = NULL;
	struct fpisa_parts parts;
	struct fpisa_call c;
	int rc;

	if (request)
		*request = NULL;
	rc = fpisa_copy_sized(&c, sizeof(c), call, offsetof(struct fpisa_call, tag), "call");
	if (!rc && !c.on_done)
		rc = fpisa_given(request, "the pointer for the request");
	if (!rc)
		rc = fpisa_enter(f);
	if (rc)
		return rc;
	if (c.on_done && !f->shared.engine)
		rc = fpisa_fail(-EINVAL, "call.on_done requires options.progress, whose thread calls it");
	if (!rc && scatters)
		rc = divide(f, &c, counts, &parts);
	if (!rc)
		rc = start(f, &c, scatters ? &parts : NULL, 0, 0, &r);
	fpisa_leave(f);
	if (!rc && !c.on_done)
		*request = r;
	return rc;
}

int fpisa_start(struct fpisa *f, const struct fpisa_call *call, struct fpisa_request **request)
{
	return start_call(f, call, 0, NULL, request);
}

int fpisa_reduce_scatter_start(struct fpisa *f, const struct fpisa_call *call, const size_t *counts,
			       struct fpisa_request **request)
{
	return start_call(f, call, 1, counts, request);
}

int fpisa_start_numbered(struct fpisa *f, const struct fpisa_call *call, struct fpisa_parts *parts, uint64_t number,
			 int to_wait, struct fpisa_request **request)
{
	int rc = to_wait ? fpisa_enter_to_block(f) : fpisa_enter(f);

	if (rc)
		return rc;
	rc = start(f, call, parts, number, to_wait, request);
	fpisa_leave(f);
	return rc;
}

struct fpisa_call fpisa_call_of(const void *send, void *recv, size_t count, enum fpisa_dtype type,
				enum fpisa_operation op, double factor)
{
	return (struct fpisa_call){
		.size = sizeof(struct fpisa_call),
		.send = send,
		.recv = recv,
		.count = count,
		.type = type,
		.op = op,
		.factor = factor,
	};
}

int fpisa_allreduce_op_start(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type,
			     enum fpisa_operation op, double factor, struct fpisa_request **request)
{
	const struct fpisa_call c = fpisa_call_of(send, recv, count, type, op, factor);

	return fpisa_start(f, &c, request);
}

/* Finish a request that has ended, for test and wait. */
static int release(struct fpisa_request **request, uint32_t *flags)
{
	struct fpisa_request *r = *request;
	struct fpisa *f = r->f;
	int rc = f->inherited ? fpisa_refuse_inherited(f) : fpisa_request_outcome(r);

	if (flags)
		*flags = r->flags;
	TAILQ_REMOVE(r->given_up ? &f->given_up : &f->requests, r, link);
	fpisa_request_free(r);
	*request = NULL;
	return rc;
}

/* Wait on a shared handle. This thread advances the requests of the handle unless another thread does. */
static void wait_shared(struct fpisa_request *r)
{
	struct fpisa *f = r->f;
	struct fpisa_shared *s = &f->shared;

	s->callers++;
	while (!fpisa_request_ended(r)) {
		if (fpisa_is_driven(s)) {
			fpisa_lock_wait(&s->lock, &s->changed);
			continue;
		}
		fpisa_shared_drive(s);
		fpisa_advance(f, r, 1);
		if (f->inherited)
			return;
		fpisa_shared_stop_driving(s);
	}
	if (!--s->callers)
		fpisa_background_resume(f);
}

static void wait_for(struct fpisa_request *r)
{
	if (r->f->shared.engine)
		wait_shared(r);
	else if (!fpisa_request_ended(r))
		fpisa_advance(r->f, r, 1);
}

static int enter(struct fpisa_request *const *r, int (*how)(struct fpisa *f))
{
	return r && *r ?
		       how((*r)->f) :
		       fpisa_fail(
			       -EINVAL,
			       "the request is NULL or was already released; pass a request that a function *_start() returned");
}

int fpisa_test(struct fpisa_request **request, int *done, uint32_t *flags)
{
	struct fpisa_request *r;
	struct fpisa *f;
	int rc = fpisa_given(done, "done");

	if (rc)
		return rc;
	*done = 0;
	rc = enter(request, fpisa_enter);
	if (rc)
		return rc;
	r = *request;
	f = r->f;
	if (!fpisa_request_ended(r) && !fpisa_is_driven(&f->shared))
		fpisa_advance(f, r, 0);
	if (f->inherited || fpisa_request_ended(r)) {
		*done = !f->inherited && r->done;
		rc = release(request, flags);
	}
	fpisa_leave(f);
	return rc;
}

int fpisa_wait(struct fpisa_request **request, uint32_t *flags)
{
	struct fpisa *f;
	int rc = enter(request, fpisa_enter_to_block);

	if (rc)
		return rc;
	f = (*request)->f;
	wait_for(*request);
	rc = release(request, flags);
	fpisa_leave(f);
	return rc;
}

/* Make a call as start_call() does, and wait for its end. */
static int make_call(struct fpisa *f, struct fpisa_call c, int scatters, const size_t *counts, uint32_t *flags)
{
	struct fpisa_request *r = NULL;
	struct fpisa_parts parts;
	int rc = fpisa_enter_to_block(f);

	if (rc)
		return rc;
	if (scatters)
		rc = divide(f, &c, counts, &parts);
	if (!rc)
		rc = start(f, &c, scatters ? &parts : NULL, 0, 1, &r);
	if (!rc) {
		wait_for(r);
		rc = release(&r, flags);
	}
	fpisa_leave(f);
	return rc;
}

int fpisa_allreduce_op(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type,
		       enum fpisa_operation op, double factor, uint32_t *flags)
{
	return make_call(f, fpisa_call_of(send, recv, count, type, op, factor), 0, NULL, flags);
}

int fpisa_reduce_scatter(struct fpisa *f, const void *send, void *recv, size_t count, const size_t *counts,
			 enum fpisa_dtype type, enum fpisa_operation op, double factor, uint32_t *flags)
{
	return make_call(f, fpisa_call_of(send, recv, count, type, op, factor), 1, counts, flags);
}

int fpisa_allreduce(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type, uint32_t *flags)
{
	return fpisa_allreduce_op(f, send, recv, count, type, FPISA_SUM, 1, flags);
}

int fpisa_allreduce_start(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type,
			  struct fpisa_request **request)
{
	return fpisa_allreduce_op_start(f, send, recv, count, type, FPISA_SUM, 1, request);
}
