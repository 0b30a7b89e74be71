/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The advanced operations of fpisa/lab/tables.h. These functions provide the tables for user space and the kernel, and
 * measure the errors.
 */
#ifndef FPISA_USER_TABLES_H
#define FPISA_USER_TABLES_H

#include <stddef.h>
#include <stdint.h>
#include "fpisa/lab/tables_run.h"

int verb_tables(int argc, char **argv);
extern const char tables_help[];

extern struct fpisa_entry tables_entry[FPISA_TABLES][FPISA_SQUARES];

/* Compute tables_entry. Call this function before the first lookup. */
void tables_fill(void);

/* Return the entry of a match. The functions of fpisa/lab/tables.h call this function. */
static inline struct fpisa_entry tables_look(enum fpisa_table t, __u32 i)
{
	return tables_entry[t][i];
}

/* -- in the kernel: kernel.c -------------------------------------------- */

struct fpisa_tables_bpf; /* the skeleton */

/* Load the program and fill its maps. Return 0, or -errno without reporting the error. */
int tables_kernel_open(struct fpisa_tables_bpf **k);
void tables_kernel_close(struct fpisa_tables_bpf *k);

/* Run the program once, and replace the operands by the results. Return 0, or -errno without reporting the error. */
int tables_kernel_run(const struct fpisa_tables_bpf *k, struct fpisa_run *run);

/* Do the same in user space, for comparison with the kernel. */
void tables_user_run(struct fpisa_run *run);

/* -- errors: measure.c -------------------------------------------------- */

/* The largest error and the operands that cause it. */
struct tables_worst {
	double error;
	uint32_t a, b;
};

struct tables_errors {
	uint64_t inputs;
	uint64_t finite;	    /* number of inputs with a finite result */
	uint64_t nearest;	    /* number of finite results that are the packed value nearest to the exact result */
	uint64_t wrong;		    /* number of results with the wrong sign, or the wrong kind (zero, infinity, NaN) */
	struct tables_worst value;  /* relative error of the result before packing */
	struct tables_worst packed; /* relative error of normal results */
	struct tables_worst ulps;   /* error of every finite result, including subnormal results */
};

/*
 * Measure all inputs for formats of 8 and 16 bits, and `samples` random inputs for
 * fp32. Products of 16-bit formats use all pairs of significands, which determine
 * the errors of normal results, and the same number of random pairs of words.
 * Return 0, or -errno without reporting the error.
 */
int tables_measure(enum fpisa_function fn, enum fpisa_format_id id, uint64_t samples, uint64_t seed,
		   struct tables_errors *e);

/* Make random operands for item `index` of fn. Half of the operands of log2 are near 1. */
void tables_random(enum fpisa_function fn, struct fpisa_format f, uint64_t seed, uint64_t index, uint32_t *a,
		   uint32_t *b);

#endif
