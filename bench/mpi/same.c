// SPDX-License-Identifier: GPL-2.0-only
/*
 * Print the bits of MPI_Allreduce of doubles. The arguments are `same MAPPING...`. A mapping is a number that
 * determines which rank has which part of the values. For each mapping, rank 0 prints a line with a digest of the sums
 * of 1, 100, 1000 and 20000 values.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 20000
#define RANKS 64

static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Return the part of a rank in the mapping. The part is a permutation of the ranks that depends only on the mapping. */
static int part_of(int rank, int ranks, uint64_t mapping)
{
	int part[RANKS];

	for (int i = 0; i < ranks; i++)
		part[i] = i;
	for (int i = ranks - 1; mapping && i > 0; i--) {
		int j = (int)(draw(&mapping) % (uint64_t)(i + 1)), swap = part[i];

		part[i] = part[j];
		part[j] = swap;
	}
	return part[rank];
}

static uint64_t digest_of(uint64_t digest, const double *sum, int n)
{
	for (int i = 0; i < n; i++) {
		union {
			double number;
			uint64_t bits;
		} u = {sum[i]};

		digest = (digest ^ u.bits) * 0x100000001b3;
	}
	return digest;
}

int main(int argc, char **argv)
{
	static const int counts[] = {1, 100, 1000, MOST};
	static double x[MOST], sum[MOST];
	int rank, ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int k = 1; k < argc; k++) {
		uint64_t state = (uint64_t)part_of(rank, ranks, strtoull(argv[k], NULL, 10)),
			 digest = 0xcbf29ce484222325;

		for (int i = 0; i < MOST; i++)
			x[i] = (double)(int64_t)draw(&state) / 1e15;
		for (size_t n = 0; n < sizeof(counts) / sizeof(*counts); n++) {
			MPI_Allreduce(x, sum, counts[n], MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
			digest = digest_of(digest, sum, counts[n]);
		}
		if (!rank)
			printf("%016llx\n", (unsigned long long)digest);
	}
	MPI_Finalize();
	return 0;
}
