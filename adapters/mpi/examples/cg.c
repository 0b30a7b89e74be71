/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Conjugate gradients on a 7-point stencil, using MPI only. The dot products and norms of a solver are sums of one
 * double per rank, whose last bits depend on the order in which MPI adds them. With libfpisa-mpi.so preloaded and
 * FPISA_MODE=exact (doc/mpi.md), the answer always has the same bits, whichever rank has which part of the grid.
 *
 * 	cg [MAPPING]
 *
 * The grid has 16 x 16 x 24 points, and one slab for each rank. The number of ranks must divide 24. MAPPING, 0 by
 * default, is the number of the permutation that assigns slabs to ranks. Rank 0 prints the residual's norm and a digest
 * of the solution's bits.
 */
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NX 16
#define NY 16
#define NZ 24
#define PLANE (NX * NY)
#define STEPS 40

static int ranks, slab, planes;
static int rank_of[NZ]; /* rank of each slab */

/* A vector contains one plane of the neighbour below, the planes of the slab, and one plane of the neighbour above. */
#define CELLS ((size_t)(planes + 2) * PLANE)
#define OWN(v) ((v) + PLANE)

static void map_slabs(unsigned long mapping)
{
	for (int s = 0; s < ranks; s++)
		rank_of[s] = s;
	for (int s = ranks - 1; s > 0; s--) {
		int k = (int)(mapping % (unsigned long)(s + 1)), swap = rank_of[s];

		rank_of[s] = rank_of[k];
		rank_of[k] = swap;
		mapping /= (unsigned long)(s + 1);
	}
}

/* Return a value that may have either sign and any of many magnitudes. */
static double right_hand_side(size_t cell)
{
	uint64_t h = (cell + 1) * 0x9e3779b97f4a7c15u;

	h ^= h >> 29;
	h *= 0xbf58476d1ce4e5b9u;
	h ^= h >> 32;
	return ldexp((double)(int64_t)h, -63 - (int)(cell % 24));
}

static double *vector(void)
{
	double *v = calloc(CELLS, sizeof(*v));

	if (!v)
		MPI_Abort(MPI_COMM_WORLD, 1);
	return v;
}

static double dot(const double *a, const double *b)
{
	double local = 0, all;

	for (size_t i = 0; i < (size_t)planes * PLANE; i++)
		local += OWN(a)[i] * OWN(b)[i];
	MPI_Allreduce(&local, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return all;
}

/* Receive the neighbours' planes. Beyond the grid the values are zero. */
static void exchange(double *v)
{
	int below = slab > 0 ? rank_of[slab - 1] : MPI_PROC_NULL;
	int above = slab + 1 < ranks ? rank_of[slab + 1] : MPI_PROC_NULL;
	double *last = v + (size_t)planes * PLANE;

	MPI_Sendrecv(last, PLANE, MPI_DOUBLE, above, 0, v, PLANE, MPI_DOUBLE, below, 0, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	MPI_Sendrecv(OWN(v), PLANE, MPI_DOUBLE, below, 1, last + PLANE, PLANE, MPI_DOUBLE, above, 1, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
}

/* Compute out = A v. */
static void apply(double *v, double *out)
{
	exchange(v);
	for (int z = 1; z <= planes; z++)
		for (int y = 0; y < NY; y++)
			for (int x = 0; x < NX; x++) {
				size_t i = (size_t)z * PLANE + (size_t)y * NX + (size_t)x;
				double sum = v[i - PLANE] + v[i + PLANE];

				sum += (x ? v[i - 1] : 0) + (x + 1 < NX ? v[i + 1] : 0);
				sum += (y ? v[i - NX] : 0) + (y + 1 < NY ? v[i + NX] : 0);
				out[i] = 6.05 * v[i] - sum;
			}
}

/* Compute a += f b. */
static void add(double *a, double f, const double *b)
{
	for (size_t i = 0; i < (size_t)planes * PLANE; i++)
		OWN(a)[i] += f * OWN(b)[i];
}

/* Solve A x = b in STEPS steps. Return the norm of the residual. */
static double solve(double *x)
{
	double *r = vector(), *p = vector(), *q = vector(), before, now;

	for (size_t i = 0; i < (size_t)planes * PLANE; i++)
		OWN(r)[i] = right_hand_side((size_t)slab * (size_t)planes * PLANE + i);
	memcpy(p, r, CELLS * sizeof(*p));
	now = dot(r, r);
	for (int step = 0; step < STEPS; step++) {
		double f;

		apply(p, q);
		f = now / dot(p, q);
		add(x, f, p);
		add(r, -f, q);
		before = now;
		now = dot(r, r);
		for (size_t i = 0; i < (size_t)planes * PLANE; i++)
			OWN(p)[i] = OWN(r)[i] + now / before * OWN(p)[i];
	}
	free(r);
	free(p);
	free(q);
	return sqrt(now);
}

/* Return a digest of the bits of all slabs. A sum of integers does not depend on the order. */
static uint64_t digest(const double *x)
{
	uint64_t own = 0, all;

	for (size_t i = 0; i < (size_t)planes * PLANE; i++) {
		uint64_t bits;

		memcpy(&bits, &OWN(x)[i], sizeof(bits));
		own = (own ^ bits) * 0x100000001b3u;
	}
	own *= (uint64_t)slab * 2 + 1;
	MPI_Allreduce(&own, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	return all;
}

int main(int argc, char **argv)
{
	double *x, norm;
	uint64_t bits;
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks > NZ || NZ % ranks) {
		fprintf(stderr, "cg: %d ranks; the number of ranks must divide %d\n", ranks, NZ);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	planes = NZ / ranks;
	map_slabs(argc > 1 ? strtoul(argv[1], NULL, 10) : 0);
	while (rank_of[slab] != rank)
		slab++;
	x = vector();
	norm = solve(x);
	bits = digest(x);
	if (!rank)
		printf("residual %a, solution %016" PRIx64 "\n", norm, bits);
	free(x);
	MPI_Finalize();
	return 0;
}
