/* SPDX-License-Identifier: GPL-2.0-only */
/* Declarations that the programs of bench/servers and bench/switchml share, beside user/lab/bench/measure.h. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stddef.h>
#include <stdint.h>

#include "lab/bench/measure.h"
#include "fpisa/wire.h"

/* The default sizes of jobs, and the largest frame. */
#define DEFAULT_SIZES                           \
	{                                       \
		2,                              \
		{                               \
			256, FPISA_MAX_ELEMENTS \
		}                               \
	}

/*
 * Check that nothing follows the last option, and that `window` is a power of two.
 * Return 0, or -1 after reporting the error.
 */
int end_of_options(int argc, char **argv, uint32_t window, const char *usage);

/* Print `, "name": {"median": .., "q1": .., "q3": ..}`. */
void print_quartiles(const char *name, double *v, uint32_t n);

/* Write the path of `fpisa`, which is in the directory above the given program of bench/. */
void fpisa_path(char *path, size_t size, const char *program);

/* Run a command of fpisa. Return 0, or -1 after reporting the error. */
__attribute__((format(printf, 2, 3))) int run_fpisa(const char *path, const char *format, ...);

#endif
