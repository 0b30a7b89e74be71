// SPDX-License-Identifier: GPL-2.0-only
/*
 * Make all-reduces in place until one fails with an error from the error handler: `loop call FILE`, or `loop request
 * FILE` with MPI_Iallreduce. With `loop late FILE`, rank 1 skips the second call, the first of its datatype.
 *
 * Each rank prints its process id once the calls have begun. FILE.RANK gets the time of the end, from the clock that
 * all processes share, and the error, because a launcher that has lost a rank may not forward more output.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int count_ends(const char *path)
{
	int ranks, found = 0;
	char name[4096];

	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int r = 0; r < ranks; r++) {
		snprintf(name, sizeof(name), "%s.%d", path, r);
		found += !access(name, F_OK);
	}
	return found;
}

int main(int argc, char **argv)
{
	int rank, ranks, n, rc = 0, by_request = argc > 2 && !strcmp(argv[1], "request"),
			    late = argc > 2 && !strcmp(argv[1], "late");
	char text[MPI_MAX_ERROR_STRING];
	struct timespec t;
	char path[4096], whole[4096];
	MPI_Request r;
	FILE *f;

	MPI_Init(&argc, &argv);
	/* MPICH's launcher may have ended before this rank reports its error. Writes to stderr then fail. */
	signal(SIGPIPE, SIG_IGN);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (int calls = 0; !rc; calls++) {
		float one = 1;
		double two = 2;

		if (late && calls) {
			if (rank == 1)
				pause();
			rc = MPI_Allreduce(MPI_IN_PLACE, &two, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
		} else if (by_request && calls) {
			rc = MPI_Iallreduce(MPI_IN_PLACE, &one, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &r);
			rc = rc ? rc : MPI_Wait(&r, MPI_STATUS_IGNORE);
		} else {
			rc = MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		}
		if (!calls) {
			printf("{\"rank\": %d, \"pid\": %d}\n", rank, (int)getpid());
			fflush(stdout);
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &t);
	MPI_Error_string(rc, text, &n);
	snprintf(path, sizeof(path), "%s.%d.new", argv[argc - 1], rank);
	f = fopen(path, "w");
	fprintf(f, "{\"rank\": %d, \"at\": %.3f, \"error\": \"%s\"}\n", rank,
		(double)t.tv_sec + (double)t.tv_nsec / 1e9, text);
	fclose(f);
	memcpy(whole, path, sizeof(path));
	*strrchr(whole, '.') = 0;
	rename(path, whole);
	/* MPI_Finalize() fails if ranks are dead. Wait until the other ranks have written their files. */
	for (int tries = 0; tries < 200 && count_ends(argv[argc - 1]) < ranks - 1; tries++)
		usleep(50000);
	_exit(0);
}
