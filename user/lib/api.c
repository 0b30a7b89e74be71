/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The public functions of fpisa.h on requests and handles, and the errors
 * that all of the library reports through.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "internal.h"

#define MAX_COUNT (1ull << 40)
#define DEFAULT_TIMEOUT_MS 10000

static __thread char message[FPISA_MESSAGE_SIZE];

const char *fpisa_error(void)
{
	return message;
}

/* Sets this thread's message; returns `error`. */
int fpisa_fail(int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	return error;
}

int fpisa_poison(struct fpisa *f, int error)
{
	f->error = error;
	memcpy(f->message, message, sizeof(f->message));
	return error;
}

/* An error of the past is said again. */
static int poisoned(const struct fpisa *f)
{
	return fpisa_fail(f->error, "%s", f->message);
}

uint64_t fpisa_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* The sentence of a verdict that came in an ERROR frame. */
const char *fpisa_reason(uint16_t verdict)
{
	static const char *const text[] = {
#define X(name, class, sentence) sentence,
		FPISA_VERDICTS(X)
#undef X
	};

	return verdict < FPISA_VERDICT_COUNT ? text[verdict] : "unknown reason";
}

/* "rank 3, rank 5"; ends with "..." when buf is too small for all. */
const char *fpisa_rank_names(char *buf, size_t size, uint64_t ranks)
{
	size_t used = 0;

	buf[0] = '\0';
	for (int i = 0; i < FPISA_MAX_WORKERS; i++) {
		if (!(ranks >> i & 1))
			continue;
		if (used + sizeof("rank 63, ...") > size) {
			snprintf(buf + used, size - used, "...");
			break;
		}
		used += (size_t)snprintf(buf + used, size - used, "rank %d%s", i,
					 i < FPISA_MAX_WORKERS - 1 && ranks >> (i + 1) ? ", " : "");
	}
	return buf;
}

/*
 * The caller's struct may be older (shorter) or newer (longer) than ours. What we do not
 * know must be zero.
 */
static int copy_options(struct fpisa_options *to, const struct fpisa_options *from)
{
	const unsigned char *bytes = (const void *)from;
	const struct {
		const char *name;
		const double *value;
	} shares[] = {
		{"loss", &to->loss},	   {"duplicate", &to->duplicate}, {"reorder", &to->reorder},
		{"delay", &to->delay}, {"corrupt", &to->corrupt},
	};

	*to = (struct fpisa_options){0};
	if (!from)
		return 0;
	if (from->size < sizeof(from->size) || from->size > 4096)
		return fpisa_fail(-EINVAL, "options.size is %zu; set it to sizeof(struct fpisa_options)",
				  from->size);
	for (size_t i = sizeof(*to); i < from->size; i++)
		if (bytes[i])
			return fpisa_fail(-EINVAL,
					  "an option that this libfpisa does not know is set; update it");
	memcpy(to, from, from->size < sizeof(*to) ? from->size : sizeof(*to));
	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
		if (!(*shares[i].value >= 0 && *shares[i].value <= 0.9))
			return fpisa_fail(-EINVAL, "options.%s is %g; it must be in 0..0.9", shares[i].name,
					  *shares[i].value);
	if (to->transport > FPISA_TRANSPORT_XSK)
		return fpisa_fail(-EINVAL, "options.transport is %u; it must be an enum fpisa_transport_name",
				  to->transport);
	if (to->overflow > FPISA_OVERFLOW_FLAG)
		return fpisa_fail(-EINVAL, "options.overflow is %u; it must be an enum fpisa_overflow",
				  to->overflow);
	return 0;
}

/* A handle without transport, job and rank; fpisa_close() releases it. */
int fpisa_new(struct fpisa **out, const struct fpisa_options *options)
{
	struct fpisa_options o;
	struct fpisa *f;
	int rc = copy_options(&o, options);

	if (rc)
		return rc;
	f = calloc(1, sizeof(*f));
	if (!f)
		return fpisa_fail(-ENOMEM, "no memory for a handle");
	TAILQ_INIT(&f->requests);
	TAILQ_INIT(&f->given_up);
	f->local_port = o.local_port ? o.local_port : FPISA_PORT;
	f->token = o.token;
	f->timeout_ns = (o.timeout_ms ? o.timeout_ms : DEFAULT_TIMEOUT_MS) * 1000000ull;
	f->on_chunk = o.on_chunk;
	f->arg = o.arg;
	f->overflow = (enum fpisa_overflow)o.overflow;
	f->transport = (enum fpisa_transport_name)o.transport;
	f->faults = (struct fpisa_fault_rates){o.loss, o.duplicate, o.reorder, o.delay, o.corrupt};
	f->seed = o.seed;
	*out = f;
	return 0;
}

/* "10.0.0.1" or "10.0.0.1:18000" */
static int parse_address(const char *text, struct in_addr *address, uint16_t *port)
{
	char host[INET_ADDRSTRLEN] = "", end;
	const char *colon = text ? strchr(text, ':') : NULL;
	size_t len = !text ? 0 : colon ? (size_t)(colon - text) : strlen(text);
	unsigned int number = FPISA_PORT;

	if (len < sizeof(host))
		memcpy(host, text ? text : "", len);
	if (colon && (colon[1] < '0' || colon[1] > '9' || sscanf(colon + 1, "%5u%c", &number, &end) != 1))
		number = 0;
	if (!number || number > 0xffff || inet_pton(AF_INET, host, address) != 1)
		return fpisa_fail(-EINVAL, "'%s' is no IPv4 address with an optional port, as 10.0.0.1:18000",
				  text ? text : "");
	*port = (uint16_t)number;
	return 0;
}

int fpisa_connect(struct fpisa **out, const char *address, uint32_t job, const struct fpisa_options *options)
{
	struct fpisa *f = NULL;
	struct in_addr to;
	uint16_t port = 0;
	int rc;

	*out = NULL;
	rc = parse_address(address, &to, &port);
	if (!rc)
		rc = fpisa_new(&f, options);
	if (rc)
		goto out;
	f->job = job;
	snprintf(f->peer, sizeof(f->peer), "%s", inet_ntoa(to));
	if (port != FPISA_PORT)
		snprintf(f->peer + strlen(f->peer), sizeof(f->peer) - strlen(f->peer), ":%u", port);
	rc = (f->transport == FPISA_TRANSPORT_XSK ? fpisa_xsk_open : fpisa_udp_open)(&f->t, to.s_addr, port,
											f->local_port);
	if (!rc)
		rc = fpisa_faults_wrap(&f->t, &f->faults, f->seed);
	if (!rc)
		rc = fpisa_join(f);
	if (rc)
		goto out;
	*out = f;
	f = NULL;
out:
	fpisa_close(f);
	return rc;
}

int fpisa_rejoin(struct fpisa *f)
{
	int rc = fpisa_join(f);

	if (rc)
		return fpisa_poison(f, rc);
	f->error = 0;
	return 0;
}

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
		return poisoned(f);
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
		return poisoned(r->f);
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

uint64_t fpisa_missing(const struct fpisa *f)
{
	return f->missing;
}

int fpisa_get_info(const struct fpisa *f, struct fpisa_info *info)
{
	struct fpisa_info i = f->count;
	size_t size = info->size;

	if (size < sizeof(size))
		return fpisa_fail(-EINVAL, "info.size is %zu; set it to sizeof(struct fpisa_info)", size);
	i.size = size;
	i.job = f->job;
	i.rank = f->rank;
	i.workers = f->workers;
	i.elements = f->elements;
	i.window = f->window;
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

static void free_requests(struct fpisa_requests *list)
{
	struct fpisa_request *r;

	while ((r = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, r, link);
		free(r);
	}
}

void fpisa_close(struct fpisa *f)
{
	if (!f)
		return;
	free_requests(&f->requests);
	free_requests(&f->given_up);
	if (f->t)
		f->t->ops->close(f->t);
	free(f->track);
	free(f);
}
