// SPDX-License-Identifier: GPL-2.0-only
/*
 * Make random reduce-scatters, which all ranks draw from a seed: with unequal parts or with blocks, of three types, sums
 * and maxima, in place or not. Rank 0 prints how many calls gave all ranks their parts and changed nothing behind them,
 * and how many were made. Values are small integers, whose sums are exact.
 *
 *	scatter SEED		MPI_Reduce_scatter and MPI_Reduce_scatter_block
 *	scatter SEED requests	MPI_Ireduce_scatter and MPI_Ireduce_scatter_block, several at a time, which end in reverse
 *				order or by MPI_Waitall
 *	scatter SEED refused	calls in which rank 1 passes arrays that MPI refuses. Rank 0 prints how many calls of rank 1
 *				failed, how many calls gave the other ranks their parts, how many left the input of all
 *				ranks as it was, and whether the next call is right
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS 40
#define FLIGHT 4
#define MOST_RANKS 96
#define MOST_ELEMENTS 48000 /* of all parts */

struct call {
	int counts[MOST_RANKS], block, each, is_float, in_place;
	MPI_Datatype type;
	MPI_Op op;
	MPI_Request request;
	double in[2 * MOST_ELEMENTS], out[2 * MOST_ELEMENTS], before[2 * MOST_ELEMENTS];
};

static int rank, ranks;

static double value_of(int of_rank, int i)
{
	return (double)((of_rank * 7919 + i * 104729) % 2048 - 1024);
}

static double right_value(int i, MPI_Op op)
{
	double all = value_of(0, i);

	for (int r = 1; r < ranks; r++)
		all = op == MPI_SUM ? all + value_of(r, i) : all > value_of(r, i) ? all : value_of(r, i);
	return all;
}

static double get(const void *array, int i, int is_float)
{
	return is_float ? ((const float *)array)[i] : ((const double *)array)[i];
}

static int all_of(const struct call *c)
{
	int all = 0;

	for (int r = 0; r < ranks; r++)
		all += c->counts[r];
	return all;
}

static void fill(struct call *c)
{
	memset(c->in, 0x33, sizeof(c->in));
	memset(c->out, 0x55, sizeof(c->out));
	for (int i = 0; i < all_of(c) * c->each; i++)
		if (c->is_float)
			((float *)c->in)[i] = (float)value_of(rank, i);
		else
			c->in[i] = value_of(rank, i);
	memcpy(c->before, c->in_place ? c->in : c->out, sizeof(c->before));
}

/* Draw a call. A complex number is two numbers. */
static void draw(struct call *c)
{
	const int most = MOST_ELEMENTS / (ranks > 16 ? ranks : 16), n = rand() % most, kind = rand() % 3;

	c->block = rand() % 2;
	c->in_place = rand() % 2;
	c->type = kind == 0 ? MPI_FLOAT : kind == 1 ? MPI_DOUBLE : MPI_C_DOUBLE_COMPLEX;
	c->each = kind == 2 ? 2 : 1;
	c->is_float = kind == 0;
	c->op = kind < 2 && rand() % 3 == 0 ? MPI_MAX : MPI_SUM;
	for (int r = 0; r < ranks; r++)
		c->counts[r] = c->block ? n : rand() % 3 ? rand() % most : 0;
	fill(c);
}

static int make(struct call *c, void *recv, int is_request)
{
	const void *send = c->in_place ? MPI_IN_PLACE : c->in;

	if (is_request && c->block)
		return MPI_Ireduce_scatter_block(send, recv, c->counts[0], c->type, c->op, MPI_COMM_WORLD, &c->request);
	if (is_request)
		return MPI_Ireduce_scatter(send, recv, c->counts, c->type, c->op, MPI_COMM_WORLD, &c->request);
	return c->block ? MPI_Reduce_scatter_block(send, recv, c->counts[0], c->type, c->op, MPI_COMM_WORLD) :
			  MPI_Reduce_scatter(send, recv, c->counts, c->type, c->op, MPI_COMM_WORLD);
}

/* Return whether this rank has its part. In place, MPI may change the rest of the input. */
static int is_right(const struct call *c)
{
	const void *recv = c->in_place ? c->in : c->out;
	const size_t end = (size_t)((c->in_place ? all_of(c) : c->counts[rank]) * c->each) *
			   (c->is_float ? sizeof(float) : sizeof(double));
	int first = 0, right = !memcmp((const char *)recv + end, (const char *)c->before + end, sizeof(c->before) - end);

	for (int r = 0; r < rank; r++)
		first += c->counts[r];
	for (int i = 0; i < c->counts[rank] * c->each; i++)
		right &= get(recv, i, c->is_float) == right_value(first * c->each + i, c->op);
	return right;
}

/* Return whether all ranks have this. */
static int all_have(int mine)
{
	int all;

	PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	return all;
}

static int blocking(struct call *c)
{
	draw(c);
	make(c, c->in_place ? c->in : c->out, 0);
	return all_have(is_right(c));
}

static int flight(struct call *c)
{
	MPI_Request r[FLIGHT];
	int right = 0;

	for (int k = 0; k < FLIGHT; k++) {
		draw(&c[k]);
		make(&c[k], c[k].in_place ? c[k].in : c[k].out, 1);
		r[k] = c[k].request;
	}
	if (rand() % 2)
		MPI_Waitall(FLIGHT, r, MPI_STATUSES_IGNORE);
	for (int k = FLIGHT - 1; k >= 0; k--) {
		MPI_Wait(&r[k], MPI_STATUS_IGNORE);
		right += all_have(is_right(&c[k]));
	}
	return right;
}

static int is_kept(const struct call *c)
{
	int same = 1;

	for (int i = 0; i < all_of(c) * c->each; i++)
		same &= get(c->in, i, c->is_float) == value_of(rank, i);
	return same;
}

static void refused(struct call *c)
{
	void *const bad[] = {NULL, MPI_IN_PLACE};
	int failed = 0, right = 0, kept = 0, next;

	for (int k = 0; k < 4; k++) {
		int rc;

		draw(c);
		c->in_place = 0;
		c->block = k % 2;
		for (int r = 0; r < ranks; r++)
			c->counts[r] = 400;
		fill(c);
		rc = make(c, rank == 1 ? bad[k / 2] : c->out, 0);
		failed += rc != 0;
		right += all_have(rank == 1 || (!rc && is_right(c)));
		kept += all_have(is_kept(c));
	}
	next = blocking(c);
	PMPI_Bcast(&failed, 1, MPI_INT, 1, MPI_COMM_WORLD);
	if (!rank)
		printf("{\"failed\": %d, \"right\": %d, \"kept\": %d, \"next\": %d, \"of\": 4}\n", failed, right, kept,
		       next);
}

int main(int argc, char **argv)
{
	static struct call c[FLIGHT];
	const char *how = argc > 2 ? argv[2] : "";
	double x[2] = {0};
	int right = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	srand((unsigned int)atoi(argv[1]));
	/* The datapath serves requests only after a blocking call has agreed on their type. */
	MPI_Allreduce(MPI_IN_PLACE, x, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Allreduce(MPI_IN_PLACE, x, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	for (int k = 0; k < (strcmp(how, "refused") ? CALLS : 0); k += *how ? FLIGHT : 1)
		right += *how ? flight(c) : blocking(c);
	if (!strcmp(how, "refused"))
		refused(c);
	else if (!rank)
		printf("{\"right\": %d, \"of\": %d}\n", right, CALLS);
	MPI_Finalize();
	return 0;
}
