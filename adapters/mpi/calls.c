// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The entries of MPI that are ours instead of the library's: what is a sum, minimum or maximum of floating-point
 * numbers over a communicator that is served goes to the datapath, all else to MPI. Calls that wait for all ranks agree on
 * what requests may not wait for.
 */
#include "shim.h"

/* 0: of no type of ours. Integers wrap in MPI and saturate in the datapath: they are MPI's. */
static enum fpisa_dtype dtype_of(MPI_Datatype t, size_t *bytes)
{
	/* The Fortran names have the size that the compiler's options gave them when MPI was built. */
	enum fpisa_dtype type = 0;
	int size = 0;

	if (t == MPI_FLOAT || t == MPI_REAL || t == MPI_REAL4 || t == MPI_DOUBLE || t == MPI_DOUBLE_PRECISION ||
	    t == MPI_REAL8) {
		PMPI_Type_size(t, &size);
		type = size == 4 ? FPISA_FLOAT32 : size == 8 ? FPISA_FLOAT64 : 0;
	}
#ifdef MPIX_C_FLOAT16
	if (t == MPIX_C_FLOAT16) {
		size = 2;
		type = FPISA_FLOAT16;
	}
#endif
	*bytes = (size_t)size;
	return type;
}

static enum fpisa_operation operation_of(MPI_Op op)
{
	return op == MPI_SUM ? FPISA_SUM : op == MPI_MIN ? FPISA_MIN : op == MPI_MAX ? FPISA_MAX : 0;
}

/* The call as the datapath has it, and the record of its communicator; NULL: it is MPI's. `waits`: it may wait for the other ranks. */
static struct comm *served(struct fpisa_call *call, const void *send, void *recv, int count, MPI_Datatype t, MPI_Op o,
			   MPI_Comm c, int waits)
{
	enum fpisa_operation op = operation_of(o);
	struct comm *m;
	size_t bytes = 0;
	enum fpisa_dtype type = op && count > 0 && c != MPI_COMM_NULL ? dtype_of(t, &bytes) : 0;

	/* Which arrays are none is MPI's to say. */
	if (!send || !recv || recv == MPI_IN_PLACE)
		return NULL;
	m = type ? comm_of(c, waits) : NULL;
	if (!m || !agree_serves(m, c, type, bytes * (size_t)count, waits))
		return NULL;
	*call = (struct fpisa_call){.size = sizeof(*call),
				    .send = send == MPI_IN_PLACE ? recv : send,
				    .recv = recv,
				    .count = (size_t)count,
				    .type = type,
				    .op = op,
				    .factor = 1};
	return m;
}

ENTRY int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype t, MPI_Op o, MPI_Comm c)
{
	struct fpisa_call call;
	struct comm *m;

	comm_agree_on_requests(c);
	m = served(&call, send, recv, count, t, o, c, 1);
	if (!m)
		return PMPI_Allreduce(send, recv, count, t, o, c);
	return m->offer.two_levels ? comm_allreduce_levels(m, c, &call, t, o) : comm_allreduce(m, c, &call);
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
	/* A second level would be another call, and nobody makes it before the program waits. */
	int rc = !m || m->offer.two_levels ? REQUEST_NOT_HERE : request_start(m, c, &call, r);

	return rc == REQUEST_NOT_HERE ? PMPI_Iallreduce(send, recv, count, t, o, c, r) : rc;
}

#ifdef MPICH_VERSION
/* These two of MPICH do not ask the functions of a request, or keep other threads out meanwhile. */
ENTRY int MPI_Request_get_status(MPI_Request r, int *flag, MPI_Status *status)
{
	request_complete_ended();
	return PMPI_Request_get_status(r, flag, status);
}

ENTRY int MPI_Waitall(int count, MPI_Request r[], MPI_Status status[])
{
	for (int i = 0; i < count; i++)
		while (request_is_under_way(r[i])) {
			int flag;

			PMPI_Request_get_status(r[i], &flag, MPI_STATUS_IGNORE);
		}
	request_complete_ended();
	return PMPI_Waitall(count, r, status);
}
#endif
