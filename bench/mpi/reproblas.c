// SPDX-License-Identifier: GPL-2.0-only
/*
 * This library, which is to be preloaded, implements MPI_Allreduce of doubles with MPI_SUM by the reduction operator of
 * ReproBLAS, whose sums have the same bits in any order. Each double is converted to a binned number of FOLD bins. MPI
 * adds the binned numbers, and the sum is rounded. mpi.py builds the library with the sources of ReproBLAS.
 */
#include <binned.h>
#include <binnedMPI.h>
#include <mpi.h>
#include <stdlib.h>

#define FOLD 3 /* the value that ReproBLAS recommends */

static double_binned *number(double *numbers, int i)
{
	return (double_binned *)(numbers + (size_t)i * (size_t)binned_dbnum(FOLD));
}

int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype t, MPI_Op op, MPI_Comm c)
{
	const double *x = send == MPI_IN_PLACE ? recv : send;
	double *mine, *sums, *out = recv;
	int rc;

	if (t != MPI_DOUBLE || op != MPI_SUM)
		return PMPI_Allreduce(send, recv, count, t, op, c);
	mine = malloc(2 * (size_t)count * binned_dbsize(FOLD));
	if (!mine)
		return MPI_ERR_NO_MEM;
	sums = mine + (size_t)count * (size_t)binned_dbnum(FOLD);
	for (int i = 0; i < count; i++)
		binned_dbdconv(FOLD, x[i], number(mine, i));
	rc = PMPI_Allreduce(mine, sums, count, binnedMPI_DOUBLE_BINNED(FOLD), binnedMPI_DBDBADD(FOLD), c);
	for (int i = 0; !rc && i < count; i++)
		out[i] = binned_ddbconv(FOLD, number(sums, i));
	free(mine);
	return rc;
}
