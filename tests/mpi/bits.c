// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sum random values whose bits tests/lib/bits.py computes again: `bits FILE SEED CALL...`. A CALL is a letter and a
 * count. The letters f (float), d (double) and z (double complex) are MPI_Allreduce, in place if the count is odd. F, D
 * and Z are MPI_Reduce to rank count modulo the number of ranks. For each call, FILE.RANK gets the rank's values and
 * then its sum. A rank that is not the root has no sum.
 */
#include <ctype.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static uint64_t draw(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Fill with numbers of random bits, whose exponents are within 30 of each other. */
static void fill(void *array, int count, MPI_Datatype type)
{
	for (int i = 0; i < count; i++) {
		uint64_t r = draw(), exponent = draw() % 30;

		if (type == MPI_FLOAT)
			((uint32_t *)array)[i] =
				(uint32_t)(r >> 63) << 31 | (uint32_t)(112 + exponent) << 23 | (uint32_t)(r & 0x7fffff);
		else
			((uint64_t *)array)[i] = (r >> 63) << 63 | (1008 + exponent) << 52 | (r & 0xfffffffffffff);
	}
}

static void call(FILE *f, char letter, int count)
{
	MPI_Datatype type = tolower(letter) == 'f' ? MPI_FLOAT : MPI_DOUBLE;
	int rank, ranks, size, numbers = tolower(letter) == 'z' ? 2 * count : count, has = 1;
	void *in, *out;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Type_size(type, &size);
	in = malloc((size_t)numbers * (size_t)size);
	out = malloc((size_t)numbers * (size_t)size);
	fill(in, numbers, type);
	memcpy(out, in, (size_t)numbers * (size_t)size);
	if (tolower(letter) == 'z')
		type = MPI_C_DOUBLE_COMPLEX;
	if (isupper(letter)) {
		has = rank == count % ranks;
		MPI_Reduce(in, out, count, type, MPI_SUM, count % ranks, MPI_COMM_WORLD);
	} else {
		MPI_Allreduce(count % 2 ? MPI_IN_PLACE : in, out, count, type, MPI_SUM, MPI_COMM_WORLD);
	}
	fwrite(in, (size_t)size, (size_t)numbers, f);
	fwrite(out, (size_t)size, has ? (size_t)numbers : 0, f);
	free(in);
	free(out);
}

int main(int argc, char **argv)
{
	char path[4096];
	int rank;
	FILE *f;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	snprintf(path, sizeof(path), "%s.%d", argv[1], rank);
	f = fopen(path, "w");
	state = strtoull(argv[2], NULL, 10) * 64 + (uint64_t)rank;
	for (int i = 3; f && i < argc; i++)
		call(f, argv[i][0], atoi(argv[i] + 1));
	MPI_Finalize();
	return !f || fclose(f);
}
