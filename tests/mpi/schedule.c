// SPDX-License-Identifier: GPL-2.0-only
/*
 * Make the calls of a schedule, a file of lines "RANK VERB NUMBERS...", in the order of the file. Each rank makes the
 * calls of its own lines, and of all lines of rank -1.
 *   comm R...		make a communicator of these ranks, with the next number; all ranks take part
 *   start ID C T O N	MPI_Iallreduce as operation ID, on communicator C, of N values of type T by operator O
 *   call ID C T O N	MPI_Allreduce
 *   wait ID
 *   barrier C
 *   send R, recv R	send a message to rank R, or receive one from it; the message is too long to leave before the
 *			receive begins
 *   pause N		compute for N microseconds
 * Print each rank's results of all operations.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OPERATIONS 512
#define COMMS 16
#define RANKS 16
#define VALUES 3000
#define MESSAGE 100000

static const MPI_Datatype types[] = {MPI_FLOAT, MPI_DOUBLE, MPI_INT};
static const int sizes[] = {sizeof(float), sizeof(double), sizeof(int)};

struct operation {
	union array {
		float f[VALUES];
		double d[VALUES];
		int i[VALUES];
	} in, out;
	size_t bytes;
	MPI_Request r;
};

static struct operation *operations[OPERATIONS];
static MPI_Comm comms[COMMS];
static int rank, made;
static char message[MESSAGE];

/* Fill with small integers, whose sums are exact in any type, mode and order. */
static struct operation *fill(int id, int type, int n)
{
	struct operation *o = calloc(1, sizeof(*o));

	for (int i = 0; i < n; i++) {
		int v = (id * 7 + rank * 13 + i * 3) % 64 - 16;

		if (type == 0)
			o->in.f[i] = (float)v;
		else if (type == 1)
			o->in.d[i] = v;
		else
			o->in.i[i] = v;
	}
	o->bytes = (size_t)(n * sizes[type]);
	operations[id] = o;
	return o;
}

static void reduce(int start, const int *a)
{
	static const MPI_Op ops[3] = {MPI_SUM, MPI_MIN, MPI_MAX};
	struct operation *o = fill(a[0], a[2], a[4]);

	if (start)
		MPI_Iallreduce(&o->in, &o->out, a[4], types[a[2]], ops[a[3]], comms[a[1]], &o->r);
	else
		MPI_Allreduce(&o->in, &o->out, a[4], types[a[2]], ops[a[3]], comms[a[1]]);
}

static void make_comm(int n, const int *ranks)
{
	MPI_Group world, some;

	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, n, ranks, &some);
	MPI_Comm_create(MPI_COMM_WORLD, some, &comms[made++]);
	MPI_Group_free(&some);
	MPI_Group_free(&world);
}

static void take(const char *verb, int n, const int *a)
{
	if (!strcmp(verb, "comm"))
		make_comm(n, a);
	else if (!strcmp(verb, "start") || !strcmp(verb, "call"))
		reduce(verb[0] == 's', a);
	else if (!strcmp(verb, "wait"))
		MPI_Wait(&operations[a[0]]->r, MPI_STATUS_IGNORE);
	else if (!strcmp(verb, "barrier"))
		MPI_Barrier(comms[a[0]]);
	else if (!strcmp(verb, "send"))
		MPI_Send(message, MESSAGE, MPI_BYTE, a[0], 0, MPI_COMM_WORLD);
	else if (!strcmp(verb, "recv"))
		MPI_Recv(message, MESSAGE, MPI_BYTE, a[0], 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else if (!strcmp(verb, "pause"))
		nanosleep(&(struct timespec){.tv_nsec = a[0] * 1000L}, NULL);
	else
		exit(2);
}

static void read_schedule(const char *path)
{
	char line[256], verb[16];
	FILE *f = fopen(path, "r");

	while (f && fgets(line, sizeof(line), f)) {
		int who, at, step, n = 0, a[RANKS];

		if (sscanf(line, "%d %15s%n", &who, verb, &at) != 2)
			exit(2);
		while (n < RANKS && sscanf(line + at, "%d%n", &a[n], &step) == 1) {
			at += step;
			n++;
		}
		if (who == rank || who < 0)
			take(verb, n, a);
	}
}

/* Return FNV-1a of all of this rank's results. */
static uint64_t digest(void)
{
	uint64_t h = 0xcbf29ce484222325;

	for (int k = 0; k < OPERATIONS; k++)
		for (size_t i = 0; operations[k] && i < operations[k]->bytes; i++)
			h = (h ^ ((const unsigned char *)&operations[k]->out)[i]) * 0x100000001b3;
	return h;
}

int main(int argc, char **argv)
{
	uint64_t all[RANKS] = {0}, mine;
	int ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	read_schedule(argv[1]);
	mine = digest();
	MPI_Gather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	MPI_Finalize();
	for (int r = 0; !rank && r < ranks; r++)
		printf("%016llx\n", (unsigned long long)all[r]);
	return 0;
}
