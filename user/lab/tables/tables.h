/* SPDX-License-Identifier: GPL-2.0-only */
/* The advanced operations of fpisa/lab/tables.h in user space: their tables, in the kernel too, and their errors.
 */
#ifndef FPISA_USER_TABLES_H
#define FPISA_USER_TABLES_H

#include <stddef.h>
#include <stdint.h>
#include "fpisa/lab/tables_run.h"

int verb_tables(int argc, char **argv);
extern const char tables_help[];

extern struct fpisa_entry tables_entry[FPISA_TABLES][FPISA_SQUARES];

/* Computes tables_entry; before the first match. */
void tables_fill(void);

/* The match, for the functions of fpisa/lab/tables.h. */
static inline struct fpisa_entry tables_look(enum fpisa_table t, __u32 i)
{
	return tables_entry[t][i];
}

/* -- in the kernel: kernel.c -------------------------------------------- */

struct fpisa_tables_bpf; /* the skeleton */

/* Loads the program and fills its maps; -errno, reports nothing. */
int tables_kernel_open(struct fpisa_tables_bpf **k);
void tables_kernel_close(struct fpisa_tables_bpf *k);

/* Run the program once, with results in place of operands; -errno, reports nothing. */
int tables_kernel_run(const struct fpisa_tables_bpf *k, struct fpisa_run *run);

/* Do the same in user space, to compare the kernel with. */
void tables_user_run(struct fpisa_run *run);

/* -- errors: measure.c -------------------------------------------------- */

/* A largest error, and the operands where it was seen. */
struct tables_worst {
	double error;
	uint32_t a, b;
};

struct tables_errors {
	uint64_t inputs;
	uint64_t finite;	    /* of them, with a finite result */
	uint64_t nearest;	    /* of these, packed to the value nearest to the exact result */
	uint64_t wrong;		    /* zero, infinite or NaN where another was due, or by its sign */
	struct tables_worst value;  /* relative, of the result before it is packed */
	struct tables_worst packed; /* relative, of normal results */
	struct tables_worst ulps;   /* of every finite result, subnormal ones too */
};

/*
 * All inputs of formats of 8 and 16 bits, `samples` random ones of fp32. For
 * products of 16-bit formats all pairs of significands, and as many random
 * pairs of words: normal results have the significands' error. -errno,
 * reports nothing.
 */
int tables_measure(enum fpisa_function fn, enum fpisa_format_id id, uint64_t samples, uint64_t seed,
		   struct tables_errors *e);

/* Random operands for `count` items of fn; half of those of log2 near 1. */
void tables_random(enum fpisa_function fn, struct fpisa_format f, uint64_t seed, uint64_t index, uint32_t *a,
		   uint32_t *b);

#endif
