// SPDX-License-Identifier: GPL-2.0-only
/*
 * Make calls of every kind that doc/mpi.md leaves to MPI. At MPI_Finalize() the adapter prints how many calls it left
 * to MPI. test_report checks the number.
 */
#include <mpi.h>

static void add(void *in, void *to, int *count, MPI_Datatype *type)
{
	(void)type;
	for (int i = 0; i < *count; i++)
		((double *)to)[i] += ((double *)in)[i];
}

int main(int argc, char **argv)
{
	long double wide[3] = {1, 2, 3};
	double x[2000] = {1}, y[2000];
	int n = 1, rank;
	MPI_Request r;
	MPI_Comm half;
	MPI_Op own;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Iallreduce(x, y, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &r);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	for (int i = 1; i <= 3; i++)
		MPI_Allreduce(MPI_IN_PLACE, wide, i, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	MPI_Allreduce(x, y, 5, MPI_DOUBLE, MPI_PROD, MPI_COMM_WORLD);
	MPI_Op_create(add, 1, &own);
	MPI_Allreduce(x, y, 1, MPI_DOUBLE, own, MPI_COMM_WORLD);
	MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 0, &half);
	MPI_Reduce(x, y, 7, MPI_LONG_DOUBLE, MPI_MAX, 0, half);
	MPI_Allreduce(MPI_IN_PLACE, &n, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Allreduce(x, y, 2000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	MPI_Allreduce(x, y, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	MPI_Reduce(x, y, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Allreduce(x, y, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
	MPI_Op_free(&own);
	MPI_Comm_free(&half);
	MPI_Finalize();
	return 0;
}
