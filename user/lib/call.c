/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The public functions of fpisa.h on calls: what may be asked for, and the life of a request. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"

#define MAX_COUNT (1ull << 40)

_Static_assert(FPISA_FLOAT32 == (int)FPISA_FORMAT_FP32 && FPISA_FLOAT16 == (int)FPISA_FORMAT_FP16 &&
		       FPISA_BFLOAT16 == (int)FPISA_FORMAT_BF16 && FPISA_FLOAT64 == (int)FPISA_FORMAT_FP64 &&
		       FPISA_E4M3 == (int)FPISA_FORMAT_E4M3 && FPISA_E5M2 == (int)FPISA_FORMAT_E5M2 &&
		       FPISA_INT32 == (int)FPISA_FORMAT_INT32 && FPISA_MXINT8 == (int)FPISA_FORMAT_MXINT8 &&
		       FPISA_MXINT8 + 1 == (int)FPISA_FORMAT_END,
	       "a type is a format");
_Static_assert(FPISA_SUM == (int)FPISA_OP_SUM && FPISA_MIN == (int)FPISA_OP_MIN &&
		       FPISA_MAX == (int)FPISA_OP_MAX && FPISA_AVG == (int)FPISA_OP_AVG &&
		       FPISA_SCALE == (int)FPISA_OP_SCALE && FPISA_NORM == (int)FPISA_OP_NORM &&
		       FPISA_NORM + 1 == (int)FPISA_OP_END,
	       "operations go on the wire as they come");
_Static_assert(FPISA_RESULT_OVERFLOW == FPISA_OVERFLOW && FPISA_RESULT_INEXACT == FPISA_INEXACT &&
		       FPISA_RESULT_OVERWRITE == FPISA_OVERWRITE && FPISA_RESULT_NAN == FPISA_NAN &&
		       FPISA_RESULT_INF == FPISA_INF,
	       "flags are handed out as they come");

static const char *type_name(unsigned int type)
{
	static const char *const names[] = {
		[FPISA_FLOAT32] = "float32", [FPISA_FLOAT16] = "float16", [FPISA_BFLOAT16] = "bfloat16",
		[FPISA_FLOAT64] = "float64", [FPISA_E4M3] = "e4m3",	  [FPISA_E5M2] = "e5m2",
		[FPISA_INT32] = "int32",     [FPISA_MXINT8] = "mxint8",
	};

	return type && type < FPISA_FORMAT_END ? names[type] : "of no known type";
}

/* Bytes of an array of the job's format. */
static size_t array_size(const struct fpisa *f, size_t count)
{
	return count * f->format.bytes + (f->format.shared ? count / FPISA_BLOCK : 0);
}

/* Is the call one that the job can do? The bits of its factor, as they go on the wire, into *operand. */
static int check_call(const struct fpisa *f, const void *send, const void *recv, size_t count,
		      enum fpisa_dtype type, enum fpisa_operation op, double factor, uint64_t *operand)
{
	uintptr_t from = (uintptr_t)send, to = (uintptr_t)recv;
	size_t size = array_size(f, count);

	if (!send || !recv || !count || count > MAX_COUNT)
		return fpisa_fail(-EINVAL, "count is %zu; it must be in 1..2^40 and both arrays given",
				  count);
	if (type != (enum fpisa_dtype)f->hello.format)
		return fpisa_fail(-EINVAL, "%s: job %u: the values are %s, the job's are %s", f->peer, f->job,
				  type_name(type), type_name(f->hello.format));
	if (f->format.shared && count % FPISA_BLOCK)
		return fpisa_fail(-EINVAL, "count is %zu; %d elements share a scale, so give a multiple of it",
				  count, FPISA_BLOCK);
	if (from != to && from < to + size && to < from + size)
		return fpisa_fail(-EINVAL, "send and recv overlap; they must be the same array or apart");
	if (!fpisa_op_offered(f->format, (enum fpisa_mode)f->hello.mode, op))
		return fpisa_fail(-EINVAL, "%s: job %u: operation %u is not offered for %s in the job's mode",
				  f->peer, f->job, (unsigned int)op, type_name(type));
	if (op != FPISA_SCALE)
		return 0;
	memcpy(operand, &factor, sizeof(factor));
	if (!fpisa_factor_valid(*operand, f->format))
		return fpisa_fail(-EINVAL, "factor %.17g; it must be finite, not zero%s", factor,
				  f->format.bytes == 8 ? "" : ", and the value of a float");
	return 0;
}

int fpisa_allreduce_op_start(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type,
			     enum fpisa_operation op, double factor, struct fpisa_request **request)
{
	struct fpisa_request *r;
	uint64_t operand = 0;
	int rc;

	*request = NULL;
	if (f->error)
		return fpisa_poisoned(f);
	rc = check_call(f, send, recv, count, type, op, factor, &operand);
	if (rc)
		return rc;
	r = calloc(1, sizeof(*r));
	if (!r)
		return fpisa_fail(-ENOMEM, "no memory for a request");
	r->f = f;
	r->send = send;
	r->recv = recv;
	r->count = count;
	r->first = f->end;
	r->chunks = (count + f->elements - 1) / f->elements;
	r->left = r->chunks;
	r->call = f->calls++;
	r->op = (uint8_t)op;
	r->operand = operand;
	f->end += r->chunks;
	TAILQ_INSERT_TAIL(&f->requests, r, link);
	if (!f->oldest)
		f->oldest = r;
	fpisa_tracks_start(f, r);
	rc = fpisa_tracks_send(f);
	if (rc) {
		TAILQ_REMOVE(&f->requests, r, link);
		free(r);
		return rc;
	}
	*request = r;
	return 0;
}

/* The handle's policy on a request that is done. */
static int judge_overflow(const struct fpisa_request *r)
{
	const struct fpisa *f = r->f;

	if (!(r->flags & FPISA_RESULT_OVERFLOW) || f->overflow == FPISA_OVERFLOW_FLAG ||
	    (f->overflow == FPISA_OVERFLOW_DEFAULT && f->hello.mode == FPISA_MODE_FPISA_A))
		return 0;
	return fpisa_fail(
		-ERANGE,
		"%s: job %u: call %u: some element of the sum overflowed; scale the values down, take a "
		"wider format, or set options.overflow to FPISA_OVERFLOW_FLAG",
		f->peer, f->job, r->call);
}

/* One way out of test and wait: the request ends, done or failed. */
static int release(struct fpisa_request **request, int rc, uint32_t *flags)
{
	struct fpisa_request *r = *request;
	struct fpisa *f = r->f;

	if (!rc)
		rc = judge_overflow(r);
	if (flags)
		*flags = r->flags;
	TAILQ_REMOVE(r->error ? &f->given_up : &f->requests, r, link);
	free(r);
	*request = NULL;
	return rc;
}

static int work(struct fpisa_request *r, int block)
{
	if (r->error)
		return fpisa_fail(r->error, "%s: job %u: call %u was given up by a rejoin", r->f->peer,
				  r->f->job, r->call);
	if (r->done)
		return 0;
	if (r->f->error)
		return fpisa_poisoned(r->f);
	return fpisa_advance(r, block);
}

int fpisa_test(struct fpisa_request **request, int *done, uint32_t *flags)
{
	int rc;

	*done = 0;
	if (!*request)
		return fpisa_fail(-EINVAL, "no request, or one that was released before");
	rc = work(*request, 0);
	*done = !rc && (*request)->done;
	return rc || *done ? release(request, rc, flags) : 0;
}

int fpisa_wait(struct fpisa_request **request, uint32_t *flags)
{
	if (!*request)
		return fpisa_fail(-EINVAL, "no request, or one that was released before");
	return release(request, work(*request, 1), flags);
}

int fpisa_allreduce_op(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type,
		       enum fpisa_operation op, double factor, uint32_t *flags)
{
	struct fpisa_request *r;
	int rc = fpisa_allreduce_op_start(f, send, recv, count, type, op, factor, &r);

	return rc ? rc : fpisa_wait(&r, flags);
}

int fpisa_allreduce(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type,
		    uint32_t *flags)
{
	return fpisa_allreduce_op(f, send, recv, count, type, FPISA_SUM, 1, flags);
}

int fpisa_allreduce_start(struct fpisa *f, const void *send, void *recv, size_t count, enum fpisa_dtype type,
			  struct fpisa_request **request)
{
	return fpisa_allreduce_op_start(f, send, recv, count, type, FPISA_SUM, 1, request);
}
