// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sum one vector whole and then in random pieces, by ranks in random order, blocking or not, in place or not: `cuts
 * SEED`. Print three numbers. The first counts sums whose bits differ from those of the whole. The second counts sums
 * of the first half that are not the exact sum rounded once; the exponents there let 113 bits hold every sum. The third
 * is a digest of the bits.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUES 20000
#define CUTS 8
#define PIECES 40

static uint64_t state; /* the same on all ranks */

static uint64_t next(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static float value(int i)
{
	uint64_t r = next();
	uint32_t exponent = i < VALUES / 2 ? 127 - 40 + r % 80 : r % 252, bits;
	float x;

	bits = (uint32_t)(r >> 63) << 31 | exponent << 23 | (uint32_t)(r >> 20 & 0x7fffff);
	memcpy(&x, &bits, sizeof(x));
	return x;
}

static void shuffle(int *p, int n)
{
	for (int i = n - 1; i > 0; i--) {
		int j = (int)(next() % (uint64_t)(i + 1)), swap = p[i];

		p[i] = p[j];
		p[j] = swap;
	}
}

static void sum(const float *x, float *out, MPI_Comm c)
{
	MPI_Request r[PIECES];
	int pieces = 1 + (int)(next() % PIECES), from = 0, started = 0;

	/* The datapath serves requests only after a blocking call has agreed on their type. */
	MPI_Allreduce(x, out, 1, MPI_FLOAT, MPI_SUM, c);
	memcpy(out, x, VALUES * sizeof(*x));
	for (int k = 0; k < pieces; k++) {
		int n = k == pieces - 1 ? VALUES - from : (int)(next() % (uint64_t)(2 * VALUES / pieces));
		uint64_t how = next();

		n = n > VALUES - from ? VALUES - from : n;
		if (how & 1)
			MPI_Iallreduce(how & 2 ? MPI_IN_PLACE : x + from, out + from, n, MPI_FLOAT, MPI_SUM, c,
				       &r[started++]);
		else
			MPI_Allreduce(how & 2 ? MPI_IN_PLACE : x + from, out + from, n, MPI_FLOAT, MPI_SUM, c);
		from += n;
	}
	MPI_Waitall(started, r, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
	int rank, ranks, other = 0, inexact = 0, total[2];
	float *x[64], *whole = malloc(VALUES * sizeof(float)), *out = malloc(VALUES * sizeof(float));
	uint64_t digest = 1;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	state = strtoull(argv[argc - 1], NULL, 10);
	for (int r = 0; r < ranks; r++) {
		x[r] = malloc(VALUES * sizeof(float));
		for (int i = 0; i < VALUES; i++)
			x[r][i] = value(i);
	}
	MPI_Allreduce(x[rank], whole, VALUES, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < VALUES; i++) {
		__float128 s = 0;
		uint32_t bits;

		for (int r = 0; r < ranks; r++)
			s += x[r][i];
		inexact += i < VALUES / 2 && (float)s != whole[i];
		memcpy(&bits, &whole[i], sizeof(bits));
		digest = (digest ^ bits) * 0x100000001b3;
	}
	for (int n = 0; n < CUTS; n++) {
		int order[64];
		MPI_Comm c;

		for (int r = 0; r < ranks; r++)
			order[r] = r;
		shuffle(order, ranks);
		/* In half of the cuts the ranks get other numbers, else they exchange their values. */
		if (n % 2)
			MPI_Comm_split(MPI_COMM_WORLD, 0, order[rank], &c);
		else
			MPI_Comm_dup(MPI_COMM_WORLD, &c);
		sum(x[n % 2 ? rank : order[rank]], out, c);
		other += memcmp(out, whole, VALUES * sizeof(float)) != 0;
		MPI_Comm_free(&c);
	}
	MPI_Reduce((int[2]){other, inexact}, total, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Finalize();
	if (!rank)
		printf("{\"other\": %d, \"inexact\": %d, \"of\": %d, \"digest\": \"%016llx\"}\n", total[0], total[1],
		       CUTS * ranks, (unsigned long long)digest);
	return 0;
}
