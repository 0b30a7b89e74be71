// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sum doubles and complex numbers in mode exact. The sum of 1e300, 1, -1e300 and 1 over four ranks is 2 in all orders,
 * for each part of a number. This holds for MPI_Allreduce and for MPI_Reduce to each rank, in place or not. The arrays
 * of other ranks do not change. MPI_MINLOC, which MPI performs itself, gives the right result too.
 */
#include <complex.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define RANKS 4
#define ORDERS 24

static int rank, right, of;

/* Return the number of the value that this rank has in order `n`. */
static int place_in(int n)
{
	int place[RANKS] = {0, 1, 2, 3};

	for (int i = RANKS - 1; i > 0; i--) {
		int j = n % (i + 1), swap = place[i];

		place[i] = place[j];
		place[j] = swap;
		n /= i + 1;
	}
	return place[rank];
}

static void count(int good)
{
	right += good;
	of++;
}

#define BY_TYPE(name, ctype, type, big, two)                                                                           \
	static void name(int n)                                                                                        \
	{                                                                                                              \
		const ctype values[RANKS] = {big, (two) / 2, -(big), (two) / 2}, mine = values[place_in(n)];           \
		ctype sum = 0, left = 7;                                                                               \
                                                                                                                       \
		MPI_Allreduce(&mine, &sum, 1, type, MPI_SUM, MPI_COMM_WORLD);                                          \
		count(sum == (two));                                                                                   \
		sum = mine;                                                                                            \
		MPI_Allreduce(MPI_IN_PLACE, &sum, 1, type, MPI_SUM, MPI_COMM_WORLD);                                   \
		count(sum == (two));                                                                                   \
		MPI_Reduce(&mine, &left, 1, type, MPI_SUM, n % RANKS, MPI_COMM_WORLD);                                 \
		count(left == (rank == n % RANKS ? (two) : 7));                                                        \
		sum = mine;                                                                                            \
		MPI_Reduce(rank == n % RANKS ? MPI_IN_PLACE : &sum, rank == n % RANKS ? &sum : NULL, 1, type, MPI_SUM, \
			   n % RANKS, MPI_COMM_WORLD);                                                                 \
		count(sum == (rank == n % RANKS ? (two) : mine));                                                      \
	}

BY_TYPE(floats, float, MPI_FLOAT, 1e30f, 2.f)
BY_TYPE(doubles, double, MPI_DOUBLE, 1e300, 2.)
BY_TYPE(complexes, float complex, MPI_C_FLOAT_COMPLEX, 1e30f - 1e20f * I, 2.f + 4.f * I)
BY_TYPE(wide, double complex, MPI_C_DOUBLE_COMPLEX, 1e300 - 1e200 * I, 2. + 4. * I)
BY_TYPE(fortran, float complex, MPI_COMPLEX, 1e30f - 1e20f * I, 2.f + 4.f * I)
BY_TYPE(fortran_wide, double complex, MPI_DOUBLE_COMPLEX, 1e300 - 1e200 * I, 2. + 4. * I)

static void least(void)
{
	struct {
		double value;
		int at;
	} mine = {(rank + 2) % RANKS, rank}, all;

	MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
	count(all.value == 0 && all.at == 2);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int n = 0; n < ORDERS; n++) {
		floats(n);
		doubles(n);
		complexes(n);
		wide(n);
		fortran(n);
		fortran_wide(n);
	}
	least();
	MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	MPI_Finalize();
	if (!rank)
		printf("{\"right\": %d, \"of\": %d}\n", right, of);
	return 0;
}
