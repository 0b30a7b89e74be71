/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Compute the length of a vector that is distributed over the ranks, and its largest element, using MPI only. With
 * libfpisa-mpi.so preloaded (doc/mpi.md), the aggregator makes both reductions. The second reduction runs while this
 * program computes.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>

#define TOTAL 1200

int main(int argc, char **argv)
{
	float squares = 0, sum, largest = 0, max;
	int rank, ranks;
	MPI_Request r;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int i = rank; i < TOTAL; i += ranks) {
		float x = (float)(i % 5);

		squares += x * x;
		largest = fmaxf(largest, x);
	}
	MPI_Allreduce(&squares, &sum, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Iallreduce(&largest, &max, 1, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD, &r);
	sum = sqrtf(sum);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	if (!rank)
		printf("length %.3f, largest %.1f\n", sum, max);
	MPI_Finalize();
	return 0;
}
