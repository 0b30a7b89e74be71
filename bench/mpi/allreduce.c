// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure the time of MPI_Allreduce of floats or doubles, and the part of MPI_Iallreduce that computing does not hide.
 * mpi.py runs this program under each MPI, with and without the preloaded adapter.
 *
 * 	allreduce float|double SECONDS BYTES...
 *
 * Each size takes about SECONDS. A first call determines how many calls fit, and at least one more call follows. Rank 0
 * prints a line of JSON for each size, with medians over the calls of the time of the slowest rank. `exposed_s` is the
 * time of an MPI_Iallreduce minus the computing in between, which takes as long as a blocking call. Each value of each
 * sum is checked.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 1000
#define LEAST 1

static int wide; /* whether values are doubles */

static size_t width(void)
{
	return wide ? sizeof(double) : sizeof(float);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *t, int n)
{
	qsort(t, (size_t)n, sizeof(*t), by_value);
	return t[n / 2];
}

static void fill(void *x, size_t n, int rank)
{
	for (size_t i = 0; i < n; i++) {
		int value = rank + 1 + (int)(i % 1000);

		if (wide)
			((double *)x)[i] = value;
		else
			((float *)x)[i] = (float)value;
	}
}

static void check(const void *x, size_t n, int ranks)
{
	for (size_t i = 0; i < n; i++)
		if ((wide ? ((const double *)x)[i] : ((const float *)x)[i]) !=
		    ranks * (ranks + 1) / 2 + ranks * (int)(i % 1000)) {
			fprintf(stderr, "allreduce: wrong sum of %zu values\n", n);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
}

/* Make one call. Return the time of the slowest rank minus the time of computing, in seconds. */
static double call(void *x, size_t n, double compute_s)
{
	double t, slowest, until;
	MPI_Datatype type = wide ? MPI_DOUBLE : MPI_FLOAT;
	MPI_Request r;

	MPI_Barrier(MPI_COMM_WORLD);
	t = MPI_Wtime();
	if (compute_s == 0) {
		MPI_Allreduce(MPI_IN_PLACE, x, (int)n, type, MPI_SUM, MPI_COMM_WORLD);
	} else {
		MPI_Iallreduce(MPI_IN_PLACE, x, (int)n, type, MPI_SUM, MPI_COMM_WORLD, &r);
		for (until = t + compute_s; MPI_Wtime() < until;)
			;
		MPI_Wait(&r, MPI_STATUS_IGNORE);
	}
	t = MPI_Wtime() - t - compute_s;
	PMPI_Allreduce(&t, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return slowest;
}

/*
 * Make as many calls as fit, including barriers and checks, and return the median time. The first call determines how
 * many calls fit.
 */
static double measure(void *x, size_t n, int rank, int ranks, double seconds, double compute_s)
{
	double t[MOST], first = MPI_Wtime();
	int calls;

	fill(x, n, rank);
	call(x, n, compute_s);
	check(x, n, ranks);
	first = MPI_Wtime() - first;
	PMPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	calls = first * MOST < seconds ? MOST : (int)(seconds / first);
	calls = calls < LEAST ? LEAST : calls;
	for (int i = 0; i < calls; i++) {
		fill(x, n, rank);
		t[i] = call(x, n, compute_s);
		check(x, n, ranks);
	}
	return median(t, calls);
}

int main(int argc, char **argv)
{
	int rank, ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	wide = !strcmp(argv[1], "double");
	for (int k = 3; k < argc; k++) {
		size_t bytes = strtoull(argv[k], NULL, 10), n = bytes / width();
		void *x = malloc(bytes);
		double blocking = measure(x, n, rank, ranks, atof(argv[2]), 0);
		double exposed = measure(x, n, rank, ranks, atof(argv[2]), blocking);

		if (!rank) {
			printf("{\"bytes\": %zu, \"seconds\": %.7f, \"exposed_s\": %.7f}\n", bytes, blocking, exposed);
			fflush(stdout);
		}
		free(x);
	}
	MPI_Finalize();
	return 0;
}
