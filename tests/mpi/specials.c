// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compare MPI_SUM of all pairs of special doubles and of special floats on two ranks with the sum by IEEE 754. The
 * specials are zeros, subnormals, neighbours of 1 and of powers of two, the largest numbers, infinities and NaN. Rank 0
 * prints how many of the sums differ in their bits. All NaN count as equal, and so do 0 and -0.
 */
#include <float.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>

#define SPECIALS 32
#define N (SPECIALS * SPECIALS)

static const double doubles[SPECIALS] = {0,
					 -0.0,
					 5e-324,
					 -5e-324,
					 DBL_MIN,
					 -DBL_MIN,
					 DBL_MIN / 2,
					 -DBL_MIN / 2,
					 1,
					 -1,
					 1 + DBL_EPSILON,
					 -1 - DBL_EPSILON,
					 1 - DBL_EPSILON / 2,
					 -1 + DBL_EPSILON / 2,
					 DBL_EPSILON,
					 -DBL_EPSILON,
					 DBL_EPSILON / 2,
					 -DBL_EPSILON / 2,
					 0x1p53,
					 -0x1p53,
					 3,
					 -3,
					 0.1,
					 -0.1,
					 1e300,
					 -1e300,
					 DBL_MAX / 2,
					 -DBL_MAX / 2,
					 DBL_MAX,
					 -DBL_MAX,
					 INFINITY,
					 NAN};
static const float floats[SPECIALS] = {0,
				       -0.0f,
				       0x1p-149f,
				       -0x1p-149f,
				       FLT_MIN,
				       -FLT_MIN,
				       FLT_MIN / 2,
				       -FLT_MIN / 2,
				       1,
				       -1,
				       1 + FLT_EPSILON,
				       -1 - FLT_EPSILON,
				       1 - FLT_EPSILON / 2,
				       -1 + FLT_EPSILON / 2,
				       FLT_EPSILON,
				       -FLT_EPSILON,
				       FLT_EPSILON / 2,
				       -FLT_EPSILON / 2,
				       0x1p24f,
				       -0x1p24f,
				       3,
				       -3,
				       0.1f,
				       -0.1f,
				       1e30f,
				       -1e30f,
				       FLT_MAX / 2,
				       -FLT_MAX / 2,
				       FLT_MAX,
				       -FLT_MAX,
				       INFINITY,
				       NAN};

int main(int argc, char **argv)
{
	static double d[N];
	static float f[N];
	int rank, differ[2] = {0};

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int i = 0; i < N; i++) {
		d[i] = doubles[rank ? i / SPECIALS : i % SPECIALS];
		f[i] = floats[rank ? i / SPECIALS : i % SPECIALS];
	}
	MPI_Allreduce(MPI_IN_PLACE, d, N, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	MPI_Allreduce(MPI_IN_PLACE, f, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < N; i++) {
		double x = doubles[i / SPECIALS] + doubles[i % SPECIALS];
		float y = floats[i / SPECIALS] + floats[i % SPECIALS];

		differ[0] += !(d[i] == x || (isnan(d[i]) && isnan(x)));
		differ[1] += !(f[i] == y || (isnan(f[i]) && isnan(y)));
	}
	if (!rank)
		printf("{\"doubles\": %d, \"floats\": %d, \"of\": %d}\n", differ[0], differ[1], N);
	MPI_Finalize();
	return 0;
}
