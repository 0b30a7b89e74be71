// SPDX-License-Identifier: GPL-2.0-only
/*
 * MPI refuses rank 1's request for the first of two calls of MPI_Iallreduce. Print how many ranks got an error from
 * each call, at its start or end, and whether a copy of the communicator still sums right.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

static int refuse;

#ifdef OPEN_MPI
int PMPI_Grequest_start(MPI_Grequest_query_function *query, MPI_Grequest_free_function *release,
			MPI_Grequest_cancel_function *cancel, void *state, MPI_Request *r)
{
	int (*next)() = (int (*)())dlsym(RTLD_NEXT, "PMPI_Grequest_start");

	return refuse ? MPI_ERR_INTERN : next(query, release, cancel, state, r);
}
#else
int PMPIX_Grequest_start(MPI_Grequest_query_function *query, MPI_Grequest_free_function *release,
			 MPI_Grequest_cancel_function *cancel, MPIX_Grequest_poll_function *look,
			 MPIX_Grequest_wait_function *wait, void *state, MPI_Request *r)
{
	int (*next)() = (int (*)())dlsym(RTLD_NEXT, "PMPIX_Grequest_start");

	return refuse ? MPI_ERR_INTERN : next(query, release, cancel, look, wait, state, r);
}
#endif

int main(int argc, char **argv)
{
	int rank, ranks, wrong[2], total[2], after;
	double one = 1, sum = 0;
	MPI_Comm copy;

	MPI_Init(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	/* The datapath serves requests only after a blocking call has agreed on their type. */
	MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	for (int k = 0; k < 2; k++) {
		MPI_Request r = MPI_REQUEST_NULL;

		refuse = rank == 1 && !k;
		wrong[k] = MPI_Iallreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &r) != MPI_SUCCESS;
		refuse = 0;
		wrong[k] |= MPI_Wait(&r, MPI_STATUS_IGNORE) != MPI_SUCCESS;
	}
	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	after = !MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, copy) && sum == ranks;
	PMPI_Allreduce(wrong, total, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	PMPI_Allreduce(MPI_IN_PLACE, &after, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (!rank)
		printf("{\"wrong\": [%d, %d], \"after\": %d}\n", total[0], total[1], after);
	MPI_Finalize();
	return 0;
}
