// SPDX-License-Identifier: GPL-2.0-only
/*
 * Call MPI_Reduce, and no other served function, on MPI_COMM_WORLD and two copies. Print how many sums are correct at
 * the roots.
 *
 * With `reduce hungry`, rank 1 does not have enough memory for the first of three sums. Print how many of the root's calls
 * succeeded, how many results are correct, and whether all ranks have the same sums of other types afterwards.
 *
 * With `reduce refused`, make calls whose root is not a rank, or whose arrays MPI refuses. Print the classes of the
 * root's errors, and whether the next sum is correct. Each call has its own copy of the communicator, because after an
 * error MPI does not guarantee that the next call works.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define COPIES 2
#define VALUES 64
#define MANY (32 << 20)

static int rank, ranks;
static float values[VALUES], sum[VALUES];

static int class_of(int error)
{
	int class;

	MPI_Error_class(error, &class);
	return class;
}

static MPI_Comm copy(void)
{
	MPI_Comm c;

	MPI_Comm_dup(MPI_COMM_WORLD, &c);
	MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
	return c;
}

static int right_on(MPI_Comm c, int root)
{
	sum[VALUES - 1] = 0;
	MPI_Reduce(values, sum, VALUES, MPI_FLOAT, MPI_SUM, root, c);
	return rank != root || sum[VALUES - 1] == (float)(VALUES * ranks + ranks * (ranks - 1) / 2);
}

static void refused(void)
{
	void *same = rank ? (void *)sum : values, *in_place = rank ? (void *)sum : MPI_IN_PLACE;
	MPI_Comm c = copy();
	int classes[] = {
		class_of(MPI_Reduce(values, sum, VALUES, MPI_FLOAT, MPI_SUM, ranks + 5, copy())),
		class_of(MPI_Reduce(values, sum, VALUES, MPI_FLOAT, MPI_SUM, -7, copy())),
		class_of(MPI_Reduce(values, same, VALUES, MPI_FLOAT, MPI_SUM, 0, copy())),
		class_of(MPI_Reduce(values, in_place, VALUES, MPI_FLOAT, MPI_SUM, 0, c)),
		class_of(MPI_Allreduce(values, values, VALUES, MPI_FLOAT, MPI_SUM, copy())),
	};

	int next = right_on(c, 0);

	if (!rank)
		printf("{\"root\": [%d, %d, %d], \"arrays\": [%d, %d, %d], \"next\": %d}\n", MPI_ERR_ROOT, classes[0],
		       classes[1], classes[2], classes[3], classes[4], next);
}

static void hungry(void)
{
	float *in = calloc(MANY, sizeof(*in)), *out = calloc(MANY, sizeof(*out));
	struct rlimit limit, low;
	int well = 0, right = 0, rc[2], total = 0;
	double one = 1, sums = 0;
	MPI_Comm c;

	right_on(MPI_COMM_WORLD, 0); /* this call agrees on the type and creates the job */
	getrlimit(RLIMIT_AS, &limit);
	low = limit;
	low.rlim_cur = 1 << 20; /* less than the process uses now, so no memory can be mapped */
	for (int k = 1; k <= 3; k++) {
		in[MANY - 1] = (float)k;
		if (rank == 1 && k == 1)
			setrlimit(RLIMIT_AS, &low);
		if (!MPI_Reduce(in, out, MANY, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD)) {
			well++;
			right += out[MANY - 1] == (float)(k * ranks);
		}
		if (rank == 1)
			setrlimit(RLIMIT_AS, &limit);
	}
	/* The datapath serves these calls on all ranks or on none. */
	rc[0] = !MPI_Allreduce(&one, &sums, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) && sums == ranks;
	MPI_Comm_dup(MPI_COMM_WORLD, &c);
	rc[1] = !MPI_Allreduce(&rank, &total, 1, MPI_INT, MPI_SUM, c) && total == ranks * (ranks - 1) / 2;
	PMPI_Allreduce(MPI_IN_PLACE, rc, 2, MPI_INT, MPI_MIN, c);
	if (!rank)
		printf("{\"well\": %d, \"right\": %d, \"after\": [%d, %d]}\n", well, right, rc[0], rc[1]);
	free(in);
	free(out);
}

int main(int argc, char **argv)
{
	int right = 0, least;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int i = 0; i < VALUES; i++)
		values[i] = (float)(rank + 1 + i);
	if (argc > 1) {
		/*
		 * For a wrong argument, Open MPI calls the handler of MPI_COMM_WORLD, whichever communicator the call
		 * has.
		 */
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
		*argv[1] == 'h' ? hungry() : refused();
	}
	right = argc > 1 ? 0 : right_on(MPI_COMM_WORLD, 0);
	for (int k = 0; k < COPIES && argc == 1; k++)
		right += right_on(copy(), k % ranks);
	MPI_Reduce(&right, &least, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
	if (!rank && argc == 1)
		printf("{\"right\": %d}\n", least);
	MPI_Finalize();
	return 0;
}
