// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The functions that replace functions of the MPI library. The datapath serves sums, minima and maxima of
 * floating-point numbers if it serves the communicator. MPI makes all other calls. A call that waits for all ranks also
 * agrees on the types of requests, because starting a request must not wait.
 */
#include <stdlib.h>
#include "shim.h"

static int is_real(MPI_Datatype t)
{
	return t == MPI_FLOAT || t == MPI_REAL || t == MPI_REAL4 || t == MPI_DOUBLE || t == MPI_DOUBLE_PRECISION ||
	       t == MPI_REAL8;
}

static int is_complex(MPI_Datatype t)
{
	return t == MPI_C_FLOAT_COMPLEX || t == MPI_C_DOUBLE_COMPLEX || t == MPI_CXX_FLOAT_COMPLEX ||
	       t == MPI_CXX_DOUBLE_COMPLEX || t == MPI_COMPLEX || t == MPI_DOUBLE_COMPLEX || t == MPI_COMPLEX8 ||
	       t == MPI_COMPLEX16;
}

/*
 * Return the type of the values, and set `each` to the number of values in one element of type t. Return 0 if the
 * datapath does not serve the type. The sum of complex numbers is the sum of their parts. Integers wrap in MPI but
 * saturate in the datapath, so MPI sums integers.
 */
static enum fpisa_dtype dtype_of(MPI_Datatype t, enum fpisa_operation op, size_t *each)
{
	/* The size of the Fortran types depends on the compiler options with which MPI was built. */
	int size = 0;

	*each = 1;
	/* If MPICH was built without Fortran, it defines the names of Fortran types as MPI_DATATYPE_NULL. */
	if (t == MPI_DATATYPE_NULL)
		return 0;
#ifdef MPIX_C_FLOAT16
	if (t == MPIX_C_FLOAT16)
		return FPISA_FLOAT16;
#endif
	if (op == FPISA_SUM && is_complex(t))
		*each = 2;
	else if (!is_real(t))
		return 0;
	PMPI_Type_size(t, &size);
	return size == 4 * (int)*each ? FPISA_FLOAT32 : size == 8 * (int)*each ? FPISA_FLOAT64 : 0;
}

static size_t bytes_of(enum fpisa_dtype type)
{
	return type == FPISA_FLOAT64 ? 8 : type == FPISA_FLOAT32 ? 4 : 2;
}

static enum fpisa_operation operation_of(MPI_Op op)
{
	return op == MPI_SUM ? FPISA_SUM : op == MPI_MIN ? FPISA_MIN : op == MPI_MAX ? FPISA_MAX : 0;
}

/*
 * Fill in the call for the datapath and return the communicator's record. Return
 * NULL if MPI serves the call. `waits` tells whether the call may wait for all
 * ranks.
 */
static struct comm *served(struct fpisa_call *call, const void *send, void *recv, int count, MPI_Datatype t, MPI_Op o,
			   MPI_Comm c, int waits)
{
	enum fpisa_operation op = operation_of(o);
	struct comm *m;
	size_t each = 1;
	enum fpisa_dtype type = op && count > 0 && c != MPI_COMM_NULL ? dtype_of(t, op, &each) : 0;

	/* MPI reports invalid arrays itself. */
	if (!send || !recv || recv == MPI_IN_PLACE)
		return NULL;
	m = type ? comm_of(c, waits) : NULL;
	if (!m || !agree_serves(m, c, type, bytes_of(type) * each * (size_t)count, waits))
		return NULL;
	/*
	 * All ranks number their calls in the same way. A rank counts a call even if it cannot make the call, so its
	 * next call has the right number.
	 */
	*call = (struct fpisa_call){.size = sizeof(*call),
				    .send = send == MPI_IN_PLACE ? recv : send,
				    .recv = recv,
				    .count = each * (size_t)count,
				    .type = type,
				    .op = op,
				    .factor = 1,
				    .tag = ++m->calls};
	return m;
}

/* What decides whether the datapath serves calls of a function of MPI */
struct entry {
	const char *name;
	int waits;	/* the call waits for all ranks */
	int in_levels;	/* served with two levels */
	int exact_only; /* served only in mode exact */
	int scatters;	/* each rank keeps a part of the result, which static jobs do not support */
};

static const struct entry allreduce = {.name = "MPI_Allreduce", .waits = 1, .in_levels = 1},
			  iallreduce = {.name = "MPI_Iallreduce"},
			  reduce = {.name = "MPI_Reduce", .waits = 1, .exact_only = 1},
			  reduce_scatter = {.name = "MPI_Reduce_scatter", .waits = 1, .scatters = 1},
			  reduce_scatter_block = {.name = "MPI_Reduce_scatter_block", .waits = 1, .scatters = 1},
			  ireduce_scatter = {.name = "MPI_Ireduce_scatter", .scatters = 1},
			  ireduce_scatter_block = {.name = "MPI_Ireduce_scatter_block", .scatters = 1};

/* Return why MPI made a call with this type and operation, either of which may be 0. */
static const char *reason(struct comm *m, enum fpisa_dtype type, enum fpisa_operation op, const struct entry *call)
{
	if (!op)
		return "the operation is not supported";
	if (!type)
		return "the datatype is not supported";
	if (m && !call->waits && (!comm_has_agreed(m) || (m->state == SERVICE_FPISA && m->type[type] == SERVICE_UNKNOWN)))
		return "a request before the ranks agreed";
	if (!m || m->state == SERVICE_MPI || m->type[type] == SERVICE_MPI)
		return "not served: see the line about it";
	if (m->offer.two_levels && !call->in_levels)
		return "FPISA_TWO_LEVELS";
	if (m->offer.jobs && call->scatters)
		return "not served by static jobs";
	return call->exact_only ? "served only in mode exact" : "below FPISA_MIN_BYTES";
}

/*
 * Count a call that MPI has made. The arguments are valid, because MPI accepted them. Do not count calls of a single
 * rank.
 */
static int kept(int rc, const struct entry *call, int count, MPI_Datatype t, MPI_Op o, MPI_Comm c)
{
	struct kept k = {.call = call->name, .type = t, .op = o};
	enum fpisa_operation op = operation_of(o);
	int inter = 0, size = 0;
	size_t each;

	if (rc || !count)
		return rc;
	PMPI_Comm_test_inter(c, &inter);
	PMPI_Comm_size(c, &k.size);
	PMPI_Type_size(t, &size);
	k.bytes = (uint64_t)size * (uint64_t)count;
	k.why = inter ? "between two groups" : reason(comm_find(c), dtype_of(t, op, &each), op, call);
	if (inter || k.size > 1)
		report_kept(&k);
	return rc;
}

ENTRY int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype t, MPI_Op o, MPI_Comm c)
{
	struct fpisa_call call;
	struct comm *m;

	comm_agree_on_requests(c);
	m = send == recv ? NULL : served(&call, send, recv, count, t, o, c, 1);
	if (!m)
		return kept(PMPI_Allreduce(send, recv, count, t, o, c), &allreduce, count, t, o, c);
	report_served(!m->offer.two_levels && service_is_exact(m->service, call.type));
	return m->offer.two_levels ? comm_allreduce_levels(m, c, &call, count, t, o) : comm_allreduce(m, c, &call);
}

/*
 * Serve MPI_Reduce() as an all-reduce. That takes longer than MPI's own reduction, which sends the sum to one rank. So
 * serve it only in mode exact, which promises the bits of the result. In other modes the ranks do not join for
 * MPI_Reduce(). Mode exact does not support two levels.
 */
static struct comm *reduce_served(struct fpisa_call *call, const void *send, void *recv, int count, MPI_Datatype t,
				  MPI_Op o, int root, MPI_Comm c)
{
	size_t each;
	enum fpisa_operation op = operation_of(o);
	struct comm *m = op && count > 0 && c != MPI_COMM_NULL && dtype_of(t, op, &each) ? comm_of(c, 0) : NULL;

	if (!m || root < 0 || root >= m->size || !agree_on_offer(m, c))
		return NULL;
	if (m->offer.two_levels || (m->offer.mode != MODE_EXACT && !m->offer.jobs))
		return NULL;
	m = served(call, send, recv, count, t, o, c, 1);
	return m && service_is_exact(m->service, call->type) ? m : NULL;
}

/* the error class that MPI returns if a rank's arrays are the same, or if a rank passes MPI_IN_PLACE to receive */
#ifdef OPEN_MPI
#define ERR_ARRAYS MPI_ERR_ARG
#define REFUSES_SAME 0 /* MPI refuses a reduce-scatter with the same array twice */
#else
#define ERR_ARRAYS MPI_ERR_BUFFER
#define REFUSES_SAME 1
#endif

/* Report to the error handler that MPI refuses the arrays. The rank has contributed its values. */
static int fail_arrays(MPI_Comm c)
{
	PMPI_Comm_call_errhandler(c, ERR_ARRAYS);
	return ERR_ARRAYS;
}

/* Take part in a call and discard the sum. */
static int take_part(struct comm *m, MPI_Comm c, struct fpisa_call *call)
{
	int rc;

	call->recv = malloc(call->count * bytes_of(call->type));
	if (!call->recv)
		return comm_no_memory(m, c);
	rc = comm_allreduce(m, c, call);
	free(call->recv);
	return rc;
}

ENTRY int MPI_Reduce(const void *send, void *recv, int count, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c)
{
	struct fpisa_call call;
	int rank = -1, refused, rc;
	struct comm *m;

	if (c != MPI_COMM_NULL)
		PMPI_Comm_rank(c, &rank);
	/*
	 * Only the root knows that its arguments are invalid, and the other ranks wait for its values. So the root
	 * contributes its values, and returns the error afterwards.
	 */
	refused = rank == root && (recv == send || recv == MPI_IN_PLACE);
	/* The other ranks ignore `recv`. Pass `send` in its place, which is only read. */
	m = reduce_served(&call, send, rank == root && !refused ? recv : (void *)(uintptr_t)send, count, t, o, root, c);
	if (!m)
		return kept(PMPI_Reduce(send, recv, count, t, o, root, c), &reduce, count, t, o, c);
	report_served(1);
	if (rank == root && !refused)
		return comm_allreduce(m, c, &call);
	rc = take_part(m, c, &call);
	return rc || !refused ? rc : fail_arrays(c);
}

#define MPI_SERVES (-1) /* not an MPI error */

/*
 * Return whether MPI refuses the arrays of a reduce-scatter. Only this rank knows that, and the other ranks wait for its
 * values.
 */
static int refuses(const void *send, const void *recv, const struct parts *p)
{
	return recv == MPI_IN_PLACE || (p->own && (!recv || (REFUSES_SAME && send == recv)));
}

/*
 * Fill in the call and return the communicator's record, or return NULL if MPI serves the call. A rank that cannot
 * receive a part passes `send` in place of recv, which is then not written. MPI serves the call with two levels, and
 * with static jobs, whose ranks may have another order.
 */
static struct comm *scatter_served(struct fpisa_call *call, const void *send, void *recv, const struct parts *p,
				   MPI_Datatype t, MPI_Op o, MPI_Comm c, int waits)
{
	struct comm *m;

	if (send != MPI_IN_PLACE && (!p->own || refuses(send, recv, p)))
		recv = (void *)(uintptr_t)send;
	m = p->all ? served(call, send, recv, p->all, t, o, c, waits) : NULL;
	return m && !m->offer.two_levels && !m->offer.jobs ? m : NULL;
}

/* Make a reduce-scatter, or return MPI_SERVES. If MPI refuses the arrays, contribute the values, and then fail. */
static int scatter(const void *send, void *recv, const struct parts *p, MPI_Datatype t, MPI_Op o, MPI_Comm c)
{
	const int refused = refuses(send, recv, p);
	struct fpisa_call call;
	struct scatter s;
	struct comm *m;
	int rc;

	comm_agree_on_requests(c);
	m = scatter_served(&call, send, recv, p, t, o, c, 1);
	if (!m)
		return MPI_SERVES;
	report_served(service_is_exact(m->service, call.type));
	if (!scatter_prepare(&s, m, &call, p, bytes_of(call.type), refused))
		return comm_no_memory(m, c);
	rc = comm_reduce_scatter(m, c, &call, s.counts);
	scatter_end(&s, rc);
	return rc || !refused ? rc : fail_arrays(c);
}

/* Start a reduce-scatter, or return MPI_SERVES. MPI reports invalid arrays itself. */
static int scatter_start(const void *send, void *recv, const struct parts *p, MPI_Datatype t, MPI_Op o, MPI_Comm c,
			 MPI_Request *r)
{
	struct fpisa_call call;
	struct scatter s;
	struct comm *m = refuses(send, recv, p) ? NULL : scatter_served(&call, send, recv, p, t, o, c, 0);
	int rc;

	if (!m)
		return MPI_SERVES;
	if (!scatter_prepare(&s, m, &call, p, bytes_of(call.type), 0))
		return comm_no_memory(m, c);
	rc = request_start(m, c, &call, &s, r);
	if (rc)
		scatter_end(&s, rc);
	if (rc == REQUEST_NOT_HERE)
		return MPI_SERVES;
	report_served(service_is_exact(m->service, call.type));
	return rc;
}

/* Return the parts of these counts. MPI reports a missing array. */
static struct parts parts_given(const int counts[], MPI_Comm c)
{
	return counts ? parts_of(counts, 0, c) : (struct parts){.all = 0};
}

ENTRY int MPI_Reduce_scatter(const void *send, void *recv, const int counts[], MPI_Datatype t, MPI_Op o, MPI_Comm c)
{
	const struct parts p = parts_given(counts, c);
	int rc = scatter(send, recv, &p, t, o, c);

	if (rc != MPI_SERVES)
		return rc;
	return kept(PMPI_Reduce_scatter(send, recv, counts, t, o, c), &reduce_scatter, p.all, t, o, c);
}

ENTRY int MPI_Reduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype t, MPI_Op o, MPI_Comm c)
{
	const struct parts p = parts_of(NULL, count, c);
	int rc = scatter(send, recv, &p, t, o, c);

	if (rc != MPI_SERVES)
		return rc;
	return kept(PMPI_Reduce_scatter_block(send, recv, count, t, o, c), &reduce_scatter_block, p.all, t, o, c);
}

ENTRY int MPI_Ireduce_scatter(const void *send, void *recv, const int counts[], MPI_Datatype t, MPI_Op o, MPI_Comm c,
			      MPI_Request *r)
{
	const struct parts p = parts_given(counts, c);
	int rc = scatter_start(send, recv, &p, t, o, c, r);

	if (rc != MPI_SERVES)
		return rc;
	return kept(PMPI_Ireduce_scatter(send, recv, counts, t, o, c, r), &ireduce_scatter, p.all, t, o, c);
}

ENTRY int MPI_Ireduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype t, MPI_Op o, MPI_Comm c,
				    MPI_Request *r)
{
	const struct parts p = parts_of(NULL, count, c);
	int rc = scatter_start(send, recv, &p, t, o, c, r);

	if (rc != MPI_SERVES)
		return rc;
	return kept(PMPI_Ireduce_scatter_block(send, recv, count, t, o, c, r), &ireduce_scatter_block, p.all, t, o, c);
}

ENTRY int MPI_Barrier(MPI_Comm c)
{
	comm_agree_on_requests(c);
	return PMPI_Barrier(c);
}

ENTRY int MPI_Iallreduce(const void *send, void *recv, int count, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request *r)
{
	struct fpisa_call call;
	struct comm *m = served(&call, send, recv, count, t, o, c, 0);
	/*
	 * With two levels a second call would have to follow, and this rank could start it only when the program waits.
	 */
	int rc = !m || m->offer.two_levels ? REQUEST_NOT_HERE : request_start(m, c, &call, NULL, r);

	if (rc == REQUEST_NOT_HERE)
		return kept(PMPI_Iallreduce(send, recv, count, t, o, c, r), &iallreduce, count, t, o, c);
	report_served(service_is_exact(m->service, call.type));
	return rc;
}

#ifdef MPICH_VERSION
/*
 * MPICH's versions of these two functions either do not call the request's own functions, or block other threads while
 * they do.
 */
ENTRY int MPI_Request_get_status(MPI_Request r, int *flag, MPI_Status *status)
{
	request_complete_ended();
	return PMPI_Request_get_status(r, flag, status);
}

ENTRY int MPI_Waitall(int count, MPI_Request r[], MPI_Status status[])
{
	request_await(count, r);
	return PMPI_Waitall(count, r, status);
}
#endif
