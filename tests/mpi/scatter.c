// SPDX-License-Identifier: GPL-2.0-only
/*
 * Make random reduce-scatters, which all ranks draw from a seed: MPI_Reduce_scatter with unequal parts and
 * MPI_Reduce_scatter_block, of three types, sums and maxima, in place or not. Rank 0 prints how many calls gave all ranks
 * their parts and changed nothing behind them, and how many were made. Values are small integers, whose sums are exact.
 *
 *	scatter SEED [RANKS]
 *
 * RANKS is the maximum number of ranks, 16 by default. The parts of more ranks are smaller.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS 40
#define MOST_RANKS 96
#define MOST_ELEMENTS 48000 /* of all parts */

static int rank, ranks;
static double in[2 * MOST_ELEMENTS], out[2 * MOST_ELEMENTS], before[2 * MOST_ELEMENTS];

static double value_of(int of_rank, int i)
{
	return (double)((of_rank * 7919 + i * 104729) % 2048 - 1024);
}

static double right_value(int i, MPI_Op op)
{
	double all = value_of(0, i);

	for (int r = 1; r < ranks; r++)
		all = op == MPI_SUM ? all + value_of(r, i) : all > value_of(r, i) ? all : value_of(r, i);
	return all;
}

static double get(const void *array, int i, int is_float)
{
	return is_float ? ((const float *)array)[i] : ((const double *)array)[i];
}

static void fill(int n, int is_float)
{
	memset(in, 0x33, sizeof(in));
	memset(out, 0x55, sizeof(out));
	for (int i = 0; i < n; i++)
		if (is_float)
			((float *)in)[i] = (float)value_of(rank, i);
		else
			in[i] = value_of(rank, i);
}

/* Make a call and return whether this rank has its part. A complex number is two numbers. */
static int is_right(const int counts[], int block, MPI_Datatype t, MPI_Op op, int in_place)
{
	const int each = t == MPI_C_DOUBLE_COMPLEX ? 2 : 1, is_float = t == MPI_FLOAT;
	const void *send = in_place ? MPI_IN_PLACE : in;
	void *recv = in_place ? in : out;
	int all = 0, first = 0, right;
	size_t end;

	for (int r = 0; r < ranks; r++) {
		first += r < rank ? counts[r] : 0;
		all += counts[r];
	}
	fill(all * each, is_float);
	memcpy(before, recv, sizeof(before));
	if (block)
		MPI_Reduce_scatter_block(send, recv, counts[0], t, op, MPI_COMM_WORLD);
	else
		MPI_Reduce_scatter(send, recv, counts, t, op, MPI_COMM_WORLD);
	/* In place, MPI may change the rest of the input. */
	end = (size_t)((in_place ? all : counts[rank]) * each) * (is_float ? sizeof(float) : sizeof(double));
	right = !memcmp((char *)recv + end, (char *)before + end, sizeof(before) - end);
	for (int i = 0; i < counts[rank] * each; i++)
		right &= get(recv, i, is_float) == right_value(first * each + i, op);
	return right;
}

int main(int argc, char **argv)
{
	const int most = MOST_ELEMENTS / (argc > 2 ? atoi(argv[2]) : 16);
	int right = 0, counts[MOST_RANKS];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	srand((unsigned int)atoi(argv[1]));
	for (int k = 0; k < CALLS; k++) {
		const int block = rand() % 2, n = rand() % most, kind = rand() % 3, in_place = rand() % 2;
		const MPI_Datatype t = kind == 0 ? MPI_FLOAT : kind == 1 ? MPI_DOUBLE : MPI_C_DOUBLE_COMPLEX;
		const MPI_Op op = kind < 2 && rand() % 3 == 0 ? MPI_MAX : MPI_SUM;
		int mine, all;

		for (int r = 0; r < ranks; r++)
			counts[r] = block ? n : rand() % 3 ? rand() % most : 0;
		mine = is_right(counts, block, t, op, in_place);
		PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
		right += all;
	}
	if (!rank)
		printf("{\"right\": %d, \"of\": %d}\n", right, CALLS);
	MPI_Finalize();
	return 0;
}
