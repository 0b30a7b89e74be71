// SPDX-License-Identifier: GPL-2.0-only
/*
 * Usage: requests LEVEL
 *
 * Complete requests of MPI_Iallreduce, and messages, in a different order from that of their start. Free a communicator
 * while it has requests. If LEVEL, the level for MPI_Init_thread, is "multiple", also run threads that each use their own
 * communicator. Print the number of correct sums over all ranks.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLIGHT 12
#define VALUES 5000
#define THREADS 3
#define ROUNDS 20

struct work {
	MPI_Comm c;
	int rank, ranks, right;
};

static double expected(int ranks, int k, int i)
{
	return ranks * (ranks - 1) / 2.0 * (k + 1) + ranks * (i % 7);
}

/* Make FLIGHT calls of different lengths and complete them in reverse order, by MPI_Waitall or individually. */
static void flight(struct work *w, MPI_Comm give_up, int how)
{
	MPI_Request r[FLIGHT];
	double *a[FLIGHT], zero = 0;

	/* The datapath serves requests only after a blocking call has agreed on their type. */
	MPI_Allreduce(MPI_IN_PLACE, &zero, 1, MPI_DOUBLE, MPI_SUM, w->c);
	for (int k = 0; k < FLIGHT; k++) {
		a[k] = malloc(VALUES * sizeof(double));
		for (int i = 0; i < VALUES - k; i++)
			a[k][i] = w->rank * (k + 1) + i % 7;
		MPI_Iallreduce(MPI_IN_PLACE, a[k], VALUES - k, MPI_DOUBLE, MPI_SUM, w->c, &r[k]);
	}
	if (give_up != MPI_COMM_NULL)
		MPI_Comm_free(&give_up);
	if (how)
		MPI_Waitall(FLIGHT, r, MPI_STATUSES_IGNORE);
	for (int k = FLIGHT - 1; k >= 0; k--) {
		int good = 1;

		MPI_Wait(&r[k], MPI_STATUS_IGNORE);
		for (int i = 0; i < VALUES - k; i++)
			good &= a[k][i] == expected(w->ranks, k, i);
		w->right += good;
		free(a[k]);
	}
}

static void *thread(void *arg)
{
	struct work *w = arg;

	for (int n = 0; n < ROUNDS; n++) {
		float x = (float)(w->rank + n), y;
		MPI_Request r;

		if (n % 2) {
			MPI_Allreduce(&x, &y, 1, MPI_FLOAT, MPI_MAX, w->c);
		} else {
			MPI_Iallreduce(&x, &y, 1, MPI_FLOAT, MPI_MAX, w->c, &r);
			if (n % 4)
				MPI_Waitall(1, &r, MPI_STATUSES_IGNORE);
			else
				MPI_Wait(&r, MPI_STATUS_IGNORE);
		}
		w->right += y == w->ranks - 1 + n;
	}
	flight(w, MPI_COMM_NULL, w->ranks % 2);
	return NULL;
}

static void threads(struct work *all)
{
	struct work w[THREADS];
	pthread_t t[THREADS];

	for (int k = 0; k < THREADS; k++) {
		w[k] = *all;
		w[k].right = 0;
		MPI_Comm_dup(MPI_COMM_WORLD, &w[k].c);
		pthread_create(&t[k], NULL, thread, &w[k]);
	}
	for (int k = 0; k < THREADS; k++) {
		pthread_join(t[k], NULL);
		all->right += w[k].right;
		MPI_Comm_free(&w[k].c);
	}
}

int main(int argc, char **argv)
{
	int many = argc > 1 && !strcmp(argv[1], "multiple"), level, total;
	struct work w = {MPI_COMM_WORLD};
	MPI_Comm second;

	MPI_Init_thread(&argc, &argv, many ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
	MPI_Comm_rank(w.c, &w.rank);
	MPI_Comm_size(w.c, &w.ranks);
	if (many && level == MPI_THREAD_MULTIPLE)
		threads(&w);
	flight(&w, MPI_COMM_NULL, 0);
	flight(&w, MPI_COMM_NULL, 1);
	MPI_Comm_dup(MPI_COMM_WORLD, &second);
	MPI_Comm_set_name(second, "second");
	w.c = second;
	flight(&w, second, 1);
	MPI_Reduce(&w.right, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Finalize();
	if (!w.rank)
		printf("{\"right\": %d, \"of\": %d}\n", total,
		       w.ranks * (3 * FLIGHT + (many ? THREADS * (ROUNDS + FLIGHT) : 0)));
	return 0;
}
