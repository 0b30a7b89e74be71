// SPDX-License-Identifier: GPL-2.0-only
/*
 * Make calls that MPI must refuse or perform itself, on served communicators: wrong arguments, MPI_COMM_NULL,
 * intercommunicators, persistent requests, a thread that waits while another makes calls, and an end without
 * MPI_Comm_free. Print the number of successful checks.
 */
#include <mpi.h>
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#define MPI_Allreduce_init MPIX_Allreduce_init
#endif
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static int right;

static void check(int good, const char *what)
{
	right += good != 0;
	if (!good)
		fprintf(stderr, "misuse: %s\n", what);
}

static int sum_is(MPI_Comm c, float mine, float want)
{
	float x = 0;

	MPI_Allreduce(&mine, &x, 1, MPI_FLOAT, MPI_SUM, c);
	return x == want;
}

static void refused(MPI_Comm c)
{
	float x[2] = {1, 1};
	MPI_Request r;

	check(MPI_Allreduce(x, MPI_IN_PLACE, 1, MPI_FLOAT, MPI_SUM, c) != 0, "MPI_IN_PLACE to receive");
	check(MPI_Iallreduce(x, MPI_IN_PLACE, 1, MPI_FLOAT, MPI_SUM, c, &r) != 0, "MPI_IN_PLACE to receive, request");
	check(MPI_Allreduce(MPI_IN_PLACE, x, 1, MPI_DATATYPE_NULL, MPI_SUM, c) != 0, "no datatype");
	check(MPI_Allreduce(MPI_IN_PLACE, x, 1, MPI_FLOAT, MPI_OP_NULL, c) != 0, "no operation");
	check(MPI_Allreduce(MPI_IN_PLACE, x, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_NULL) != 0, "no communicator");
}

/* Split off rank 0, which gets no communicator. The other ranks sum among themselves. */
static void split_off(int rank, int ranks)
{
	MPI_Comm c;

	MPI_Comm_split(MPI_COMM_WORLD, rank ? 7 : MPI_UNDEFINED, 0, &c);
	check(rank ? sum_is(c, 1, (float)(ranks - 1)) : c == MPI_COMM_NULL, "MPI_UNDEFINED");
}

/* Check that each of two groups gets the other's sum. */
static void between(int rank, int ranks)
{
	MPI_Comm half, c;
	int second = rank >= ranks / 2;

	MPI_Comm_split(MPI_COMM_WORLD, second, 0, &half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, second ? 0 : ranks / 2, 3, &c);
	check(sum_is(c, second ? 10 : 1, (second ? 1.f : 10.f) * (float)(ranks / 2)), "between groups");
}

static void persistent(int ranks)
{
	float x = 2, y = 0;
	MPI_Request r;

	MPI_Allreduce_init(&x, &y, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &r);
	for (int n = 0; n < 2; n++) {
		MPI_Start(&r);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
	}
	check(y == 2 * (float)ranks, "persistent");
	MPI_Request_free(&r);
}

static void *wait_for(void *r)
{
	MPI_Wait(r, MPI_STATUS_IGNORE);
	return NULL;
}

/* Make calls while the threads of the other ranks wait for rank 0 in MPI_Wait(). */
static void wait_beside(MPI_Comm c, int rank, int ranks)
{
	float x = 3;
	MPI_Request r;
	pthread_t t;

	if (!rank)
		usleep(100000);
	MPI_Iallreduce(MPI_IN_PLACE, &x, 1, MPI_FLOAT, MPI_SUM, c, &r);
	pthread_create(&t, NULL, wait_for, &r);
	check(sum_is(c, 1, (float)ranks), "beside a thread that waits");
	pthread_join(t, NULL);
	check(x == 3 * (float)ranks, "what a thread waited for");
}

int main(int argc, char **argv)
{
	int rank, ranks, level, least;
	MPI_Comm copy;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	check(sum_is(MPI_COMM_WORLD, 1, (float)ranks), "sum");
	refused(MPI_COMM_WORLD);
	check(sum_is(MPI_COMM_WORLD, 1, (float)ranks), "sum after what was refused");
	split_off(rank, ranks);
	between(rank, ranks);
	persistent(ranks);
	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	check(sum_is(copy, 1, (float)ranks), "copy");
	wait_beside(copy, rank, ranks);
	MPI_Reduce(&right, &least, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
	MPI_Finalize();
	if (!rank)
		printf("{\"right\": %d}\n", least);
	return 0;
}
