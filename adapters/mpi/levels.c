// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Reductions in two levels. The ranks of a host reduce by MPI through shared memory, and one rank of each host uses the
 * datapath.
 */
#include <stdio.h>
#include "shim.h"

int levels_make(struct levels *l, MPI_Comm c)
{
	int first, before = 0, rank, rc;

	PMPI_Comm_rank(c, &rank);
	rc = PMPI_Comm_split_type(c, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &l->host);
	if (rc)
		return rc;
	PMPI_Comm_rank(l->host, &l->rank);
	first = !l->rank;
	rc = PMPI_Allreduce(&first, &l->hosts, 1, MPI_INT, MPI_SUM, c);
	if (!rc)
		rc = PMPI_Exscan(&first, &before, 1, MPI_INT, MPI_SUM, c);
	/* MPI_Exscan() leaves the result on rank 0 undefined. */
	l->number = rank ? before : 0;
	return rc;
}

void levels_free(struct levels *l)
{
	if (l->host != MPI_COMM_NULL)
		PMPI_Comm_free(&l->host);
}

struct outcome {
	int rc;
	char error[TEXT];
};

/* Replace the host's sum in `recv` of the host's rank 0 by the sum over all hosts. */
static int between_hosts(struct comm *m, const struct fpisa_call *call, struct outcome *o)
{
	struct fpisa_call all = *call;
	struct fpisa_request *r;

	all.send = all.recv;
	o->rc = service_start(m->service, &all, &r);
	if (!o->rc)
		o->rc = wait_request(&m->mover, &r);
	return o->rc;
}

int levels_allreduce(struct comm *m, const struct fpisa_call *call, int count, MPI_Datatype t, MPI_Op op,
		     char error[TEXT])
{
	const struct levels *l = &m->levels;
	struct outcome o = {0};
	int in_place = call->send == call->recv, rc;

	if (l->rank)
		rc = PMPI_Reduce(call->send, NULL, count, t, op, 0, l->host);
	else
		rc = PMPI_Reduce(in_place ? MPI_IN_PLACE : call->send, call->recv, count, t, op, 0, l->host);
	if (rc)
		return rc;
	if (!l->rank && between_hosts(m, call, &o))
		snprintf(o.error, sizeof(o.error), "%s", service_error());
	rc = PMPI_Bcast(&o, sizeof(o), MPI_BYTE, 0, l->host);
	if (!rc && !o.rc)
		rc = PMPI_Bcast(call->recv, count, t, 0, l->host);
	snprintf(error, TEXT, "%s", o.error);
	return rc;
}
