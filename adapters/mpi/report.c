// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Print a line at MPI_Finalize() about the calls of this process: how many calls the datapath made, which calls MPI
 * made, and why MPI made them.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shim.h"

#define KINDS 16  /* number of kinds of calls that the line lists */
#define NAME 64	  /* length of a datatype's name */
#define LINE 8192 /* longer than the longest line */

struct kind {
	struct kept first;
	char type[NAME];
	uint64_t calls, least, most; /* least and most are in bytes */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the variables below */
static struct kind kind[KINDS];
static int kinds;
static uint64_t exact, others, more; /* calls in mode exact, calls in other modes, and MPI's calls of further kinds */
static int rounded;		     /* set if MPI made a call whose bits may depend on the order of the ranks */

/*
 * Return whether reductions of the type may round. They may for a floating-point type, and for a type that the program
 * has defined.
 */
static int may_round(MPI_Datatype t)
{
	const MPI_Datatype floats[] = {
		MPI_FLOAT,
		MPI_DOUBLE,
		MPI_LONG_DOUBLE,
		MPI_REAL,
		MPI_REAL4,
		MPI_REAL8,
		MPI_REAL16,
		MPI_DOUBLE_PRECISION,
		MPI_COMPLEX,
		MPI_COMPLEX8,
		MPI_COMPLEX16,
		MPI_COMPLEX32,
		MPI_DOUBLE_COMPLEX,
		MPI_C_FLOAT_COMPLEX,
		MPI_C_DOUBLE_COMPLEX,
		MPI_C_LONG_DOUBLE_COMPLEX,
		MPI_CXX_FLOAT_COMPLEX,
		MPI_CXX_DOUBLE_COMPLEX,
		MPI_CXX_LONG_DOUBLE_COMPLEX,
#ifdef MPIX_C_FLOAT16
		MPIX_C_FLOAT16,
#endif
	};
	int integers, addresses, types, combiner;

	for (size_t i = 0; i < sizeof(floats) / sizeof(*floats); i++)
		if (t == floats[i])
			return 1;
	return !PMPI_Type_get_envelope(t, &integers, &addresses, &types, &combiner) && combiner != MPI_COMBINER_NAMED;
}

static const char *name_of(MPI_Op op)
{
	return op == MPI_SUM  ? "MPI_SUM" :
	       op == MPI_PROD ? "MPI_PROD" :
	       op == MPI_MIN  ? "MPI_MIN" :
	       op == MPI_MAX  ? "MPI_MAX" :
				"the program's operation";
}

/* Return the record for this kind of call, or NULL if there are too many kinds. */
static struct kind *kind_of(const struct kept *k)
{
	struct kind *new = &kind[kinds];
	char name[MPI_MAX_OBJECT_NAME] = "";
	int n;

	for (int i = 0; i < kinds; i++) {
		const struct kept *f = &kind[i].first;

		if (f->call == k->call && f->why == k->why && f->type == k->type && f->op == k->op && f->size == k->size)
			return &kind[i];
	}
	if (kinds == KINDS)
		return NULL;
	PMPI_Type_get_name(k->type, name, &n);
	*new = (struct kind){.first = *k, .least = k->bytes};
	snprintf(new->type, sizeof(new->type), "%.*s", NAME - 1, name[0] ? name : "the program's datatype");
	kinds++;
	return new;
}

static void count(const struct kept *k)
{
	struct kind *of = kind_of(k);

	rounded |= k->op != MPI_MIN && k->op != MPI_MAX;
	if (!of) {
		more++;
		return;
	}
	of->calls++;
	of->least = k->bytes < of->least ? k->bytes : of->least;
	of->most = k->bytes > of->most ? k->bytes : of->most;
}

void report_kept(const struct kept *k)
{
	if (!may_round(k->type) || comm_prepare())
		return;
	pthread_mutex_lock(&lock);
	count(k);
	pthread_mutex_unlock(&lock);
}

void report_served(int is_exact)
{
	pthread_mutex_lock(&lock);
	*(is_exact ? &exact : &others) += 1;
	pthread_mutex_unlock(&lock);
}

/*
 * FPISA_REPORT turns the line on or off. If the variable is not set, print the line only if MPI made calls that mode
 * exact should have served.
 */
static int asked(void)
{
	const char *report = getenv("FPISA_REPORT"), *mode = getenv("FPISA_MODE");

	if (report && *report) {
		if (!strcmp(report, "0") || !strcmp(report, "1"))
			return *report == '1';
		fprintf(stderr, "fpisa: FPISA_REPORT is '%.40s'; it must be 0 or 1\n", report);
	}
	return rounded && (exact || (mode && !strcmp(mode, "exact")));
}

static int add_kind(char *to, size_t room, const struct kind *k)
{
	char bytes[64];

	snprintf(bytes, sizeof(bytes), k->least < k->most ? "%llu to %llu" : "%llu", (unsigned long long)k->least,
		 (unsigned long long)k->most);
	return snprintf(to, room, "%s %llu %s of %s by %s, %d ranks, %s bytes (%s)", k == kind ? ":" : ";",
			(unsigned long long)k->calls, k->first.call, k->type, name_of(k->first.op), k->first.size,
			bytes, k->first.why);
}

static void print(void)
{
	char line[LINE];
	uint64_t mine = more;
	size_t n = 0;

	for (int i = 0; i < kinds; i++)
		mine += kind[i].calls;
	line[0] = 0;
	for (int i = 0; i < kinds; i++)
		n += (size_t)add_kind(line + n, sizeof(line) - n, &kind[i]);
	if (more)
		snprintf(line + n, sizeof(line) - n, "; %llu of further kinds", (unsigned long long)more);
	fprintf(stderr,
		"fpisa: rank 0: reductions of floating-point numbers: %llu in mode exact, %llu in other modes, %llu by MPI%s\n",
		(unsigned long long)exact, (unsigned long long)others, (unsigned long long)mine, line);
}

void report_print(void)
{
	int rank = -1;

	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	pthread_mutex_lock(&lock);
	if (!rank && asked())
		print();
	pthread_mutex_unlock(&lock);
}
