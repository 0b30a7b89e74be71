// SPDX-License-Identifier: GPL-2.0-only
/*
 * Make MPI_Iallreduce on three communicators A, B and C of two ranks each, started in an order that blocking calls
 * could not have. Rank 0 starts A, C. Rank 1 starts B, A. Rank 2 starts C, B. Ranks beyond three do nothing. Print how
 * many sums were right.
 *
 * Each communicator also makes another call, in an order that blocking calls can have. With `cycle first` this is an
 * MPI_Allreduce before all requests. With `cycle barrier` and `cycle integers` this is an MPI_Barrier, or an
 * MPI_Allreduce of integers, after the first round of requests.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define VALUES 2000

static double in[3][VALUES], out[3][VALUES];

static void wait_for_all(MPI_Comm c, const char *how)
{
	int one = 1, sum;

	if (c == MPI_COMM_NULL)
		return;
	if (!strcmp(how, "barrier"))
		MPI_Barrier(c);
	if (!strcmp(how, "integers"))
		MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, c);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	static const int ranks[3][2] = {{0, 1}, {1, 2}, {0, 2}}, order[3][2] = {{0, 2}, {1, 0}, {2, 1}};
	int rank, right = 0, all;
	MPI_Group world, two;
	MPI_Request r[2];
	MPI_Comm c[3];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	for (int k = 0; k < 3; k++) {
		MPI_Group_incl(world, 2, ranks[k], &two);
		MPI_Comm_create(MPI_COMM_WORLD, two, &c[k]);
		MPI_Group_free(&two);
		for (int i = 0; i < VALUES; i++)
			in[k][i] = rank + 1 + k * 10;
		if (!strcmp(how, "first") && c[k] != MPI_COMM_NULL)
			MPI_Allreduce(in[k], out[k], VALUES, MPI_DOUBLE, MPI_SUM, c[k]);
	}
	for (int round = 0; rank < 3 && round < 5; round++) {
		for (int k = 0; round == 1 && k < 3; k++)
			wait_for_all(c[k], how);
		for (int j = 0; j < 2; j++) {
			int k = order[rank][j];

			out[k][7] = 0;
			MPI_Iallreduce(in[k], out[k], VALUES, MPI_DOUBLE, MPI_SUM, c[k], &r[j]);
		}
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
		for (int j = 0; j < 2; j++) {
			int k = order[rank][j];

			right += out[k][7] == ranks[k][0] + ranks[k][1] + 2 + 20 * k;
		}
	}
	MPI_Reduce(&right, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Finalize();
	if (!rank)
		printf("{\"right\": %d, \"of\": 30}\n", all);
	return 0;
}
