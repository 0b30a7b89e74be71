// SPDX-License-Identifier: GPL-2.0-only
/*
 * Make all-reduces of small integers, whose sums are exact in every format, for every datatype, operation, count and
 * communicator, in place or not, blocking or not. Then make calls that MPI performs itself. `sweep` prints the number
 * of checks.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 40000

static int checked;
static int counts[] = {0, 1, 7, 32, 1000, MOST};

struct type {
	const char *name;
	MPI_Datatype type;
	size_t bytes;
	void (*put)(void *array, int i, int value);
	int (*get)(const void *array, int i);
};

#define TYPE(ctype)                                            \
	static void put_##ctype(void *array, int i, int value) \
	{                                                      \
		((ctype *)array)[i] = (ctype)value;            \
	}                                                      \
	static int get_##ctype(const void *array, int i)       \
	{                                                      \
		return (int)((const ctype *)array)[i];         \
	}
TYPE(float)
TYPE(double)
TYPE(int)

static void wrong(const char *what, const char *name, int count, int i, int got, int want)
{
	fprintf(stderr, "sweep: %s, %s, %d values, value %d: %d, it must be %d\n", what, name, count, i, got, want);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static int value_of(int rank, int i)
{
	return (rank + 1) * (i % 5 + 1) - 4;
}

static int expected(MPI_Op op, int ranks, int i)
{
	int first = value_of(0, i), last = value_of(ranks - 1, i);

	if (op == MPI_SUM)
		return ranks * (first + last) / 2;
	return op == MPI_MIN ? first : last;
}

/* Complete the request with each function in turn, together with MPI_REQUEST_NULL and a request that MPI performs. */
static void complete(MPI_Request *r, int how)
{
	MPI_Request all[3] = {MPI_REQUEST_NULL, *r, MPI_REQUEST_NULL};
	int index = 0, n = 0, done = 0;

	MPI_Ibarrier(MPI_COMM_SELF, &all[2]);
	switch (how % 8) {
	case 0:
		MPI_Wait(r, MPI_STATUS_IGNORE);
		break;
	case 1:
		while (!done)
			MPI_Test(r, &done, MPI_STATUS_IGNORE);
		break;
	case 2:
		MPI_Waitall(3, all, MPI_STATUSES_IGNORE);
		break;
	case 3:
		while (all[1] != MPI_REQUEST_NULL)
			MPI_Waitany(3, all, &index, MPI_STATUS_IGNORE);
		break;
	case 4:
		while (all[1] != MPI_REQUEST_NULL)
			MPI_Testsome(3, all, &n, (int[3]){0}, MPI_STATUSES_IGNORE);
		break;
	case 5:
		while (!done)
			MPI_Testall(3, all, &done, MPI_STATUSES_IGNORE);
		break;
	case 6:
		while (!done)
			MPI_Request_get_status(*r, &done, MPI_STATUS_IGNORE);
		MPI_Wait(r, MPI_STATUS_IGNORE);
		break;
	case 7:
		while (all[1] != MPI_REQUEST_NULL)
			MPI_Waitsome(3, all, &n, (int[3]){0}, MPI_STATUSES_IGNORE);
		break;
	}
	MPI_Wait(&all[2], MPI_STATUS_IGNORE);
}

static void check(MPI_Comm c, const char *name, const struct type *t, MPI_Op op, int count, int in_place, int blocking)
{
	unsigned char *send = malloc((MOST + 1) * t->bytes), *recv = malloc((MOST + 1) * t->bytes);
	MPI_Request r;
	int rank, ranks;

	MPI_Comm_rank(c, &rank);
	MPI_Comm_size(c, &ranks);
	for (int i = 0; i <= count; i++) {
		t->put(send, i, value_of(rank, i));
		t->put(recv, i, in_place && i < count ? value_of(rank, i) : 99);
	}
	if (blocking) {
		MPI_Allreduce(in_place ? MPI_IN_PLACE : send, recv, count, t->type, op, c);
	} else {
		MPI_Iallreduce(in_place ? MPI_IN_PLACE : send, recv, count, t->type, op, c, &r);
		complete(&r, checked);
	}
	for (int i = 0; i < count; i++)
		if (t->get(recv, i) != expected(op, ranks, i))
			wrong(t->name, name, count, i, t->get(recv, i), expected(op, ranks, i));
	if (t->get(recv, count) != 99)
		wrong("after the array", name, count, count, t->get(recv, count), 99);
	checked++;
	free(send);
	free(recv);
}

static void sweep(MPI_Comm c, const char *name)
{
	const struct type types[] = {{"float", MPI_FLOAT, sizeof(float), put_float, get_float},
				     {"double", MPI_DOUBLE, sizeof(double), put_double, get_double},
				     {"int", MPI_INT, sizeof(int), put_int, get_int}};
	const MPI_Op ops[] = {MPI_SUM, MPI_MIN, MPI_MAX};

	for (int t = 0; t < 3; t++)
		for (int o = 0; o < 3; o++)
			for (size_t k = 0; k < sizeof(counts) / sizeof(*counts); k++)
				for (int how = 0; how < 4; how++)
					check(c, name, &types[t], ops[o], counts[k], how % 2, how / 2);
}

/* Reduce pairs of floats: add the first numbers, and take the maximum of the second numbers. */
static void mixed(void *in, void *inout, int *n, MPI_Datatype *t)
{
	const float *a = in;
	float *b = inout;

	(void)t;
	for (int i = 0; i < *n; i++, a += 2, b += 2) {
		b[0] += a[0];
		b[1] = a[1] > b[1] ? a[1] : b[1];
	}
}

static void others(int rank, int ranks)
{
	int wrapped = rank ? 1 : 2147483647, total = ranks - 2;
	float pair[2] = {1, (float)rank};
	MPI_Datatype two;
	MPI_Op op;

	MPI_Type_contiguous(2, MPI_FLOAT, &two);
	MPI_Type_commit(&two);
	MPI_Op_create(mixed, 1, &op);
	MPI_Allreduce(MPI_IN_PLACE, pair, 1, two, op, MPI_COMM_WORLD);
	if (pair[0] != ranks || pair[1] != ranks - 1)
		wrong("user operation", "world", 1, 0, (int)pair[0], ranks);
	MPI_Op_free(&op);
	MPI_Type_free(&two);
	MPI_Allreduce(MPI_IN_PLACE, &wrapped, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (wrapped != (int)(2147483648u + (unsigned int)total))
		wrong("int", "world", 1, 0, wrapped, -2147483647 - 1 + total);
	checked += 2;
}

/*
 * Check that rank 0 moves a message while it waits in an all-reduce whose type is agreed on. The message is larger than
 * MPI sends at once, so it moves only if MPI makes progress in the wait.
 */
static void message_under_way(int rank)
{
	const int bytes = 8 << 20;
	char *message = calloc(1, (size_t)bytes);
	MPI_Request r;
	float one = 1;

	if (!rank)
		MPI_Isend(message, bytes, MPI_CHAR, 1, 5, MPI_COMM_WORLD, &r);
	if (rank == 1)
		MPI_Recv(message, bytes, MPI_CHAR, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	if (!rank)
		MPI_Wait(&r, MPI_STATUS_IGNORE);
	checked++;
	free(message);
}

/* Return how many sums of 1e8, 1, -1e8, 1 over four ranks in all orders are 2. */
static int orders(int rank)
{
	static const float values[4] = {1e8f, 1, -1e8f, 1};
	int right = 0;

	for (int n = 0; n < 24; n++) {
		int place[4] = {0, 1, 2, 3}, k = n;
		float sum;

		for (int i = 3; i > 0; i--) {
			int j = k % (i + 1), swap = place[i];

			place[i] = place[j];
			place[j] = swap;
			k /= i + 1;
		}
		MPI_Allreduce(&values[place[rank]], &sum, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		right += sum == 2;
	}
	return right;
}

int main(int argc, char **argv)
{
	MPI_Comm dup, half;
	int rank, ranks, right = -1;
	float one = 1;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc > 1 && !strcmp(argv[1], "orders")) {
		right = orders(rank);
	} else if (argc > 1 && !strcmp(argv[1], "short")) {
		sweep(MPI_COMM_WORLD, "world");
	} else if (argc > 1 && !strcmp(argv[1], "progress")) {
		MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		message_under_way(rank);
	} else {
		sweep(MPI_COMM_WORLD, "world");
		message_under_way(rank);
		sweep(MPI_COMM_SELF, "self");
		MPI_Comm_dup(MPI_COMM_WORLD, &dup);
		sweep(dup, "a copy");
		MPI_Comm_free(&dup);
		/* Reverse the ranks of each half. */
		MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
		sweep(half, "a half");
		MPI_Comm_free(&half);
		others(rank, ranks);
	}
	MPI_Finalize();
	if (!rank)
		printf("{\"checked\": %d, \"right\": %d}\n", checked, right);
	return 0;
}
