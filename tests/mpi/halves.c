// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reduce MPICH's 16-bit floats: sum, minimum and maximum of MPIX_C_FLOAT16, in place and not, and as a request. Print
 * the number of right results.
 */
#include <mpi.h>
#include <stdio.h>

#define COUNT 5001

static _Float16 send[COUNT], recv[COUNT];
static int rank, ranks;

/* Return a whole number small enough that 11 bits hold the sums. */
static float value(int r, int i)
{
	return (float)((i * 7 + r * 13) % 101 - 50);
}

static float result(MPI_Op op, int i)
{
	float x = value(0, i);

	for (int r = 1; r < ranks; r++) {
		float y = value(r, i);

		x = op == MPI_SUM ? x + y : (op == MPI_MIN) == (y < x) ? y : x;
	}
	return x;
}

static int run(MPI_Op op, int in_place, int request)
{
	const void *from = in_place ? MPI_IN_PLACE : (void *)send;
	int right = 0;
	MPI_Request r;

	for (int i = 0; i < COUNT; i++)
		send[i] = recv[i] = (_Float16)value(rank, i);
	if (request) {
		MPI_Iallreduce(from, recv, COUNT, MPIX_C_FLOAT16, op, MPI_COMM_WORLD, &r);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
	} else {
		MPI_Allreduce(from, recv, COUNT, MPIX_C_FLOAT16, op, MPI_COMM_WORLD);
	}
	for (int i = 0; i < COUNT; i++)
		right += (float)recv[i] == result(op, i);
	return right;
}

int main(int argc, char **argv)
{
	const MPI_Op ops[] = {MPI_SUM, MPI_MIN, MPI_MAX};
	int right = 0, least;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int n = 0; n < 12; n++)
		right += run(ops[n % 3], n / 3 & 1, n / 6);
	MPI_Reduce(&right, &least, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
	MPI_Finalize();
	if (!rank)
		printf("{\"right\": %d, \"of\": %d}\n", least, 12 * COUNT);
	return 0;
}
