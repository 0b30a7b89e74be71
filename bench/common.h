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

/* After the last option: nothing else stands there, and `window` is a power of two. 0, or -1 after it has reported. */
int end_of_options(int argc, char **argv, uint32_t window, const char *usage);

/* Prints `, "name": {"median": .., "q1": .., "q3": ..}`. */
void print_quartiles(const char *name, double *v, uint32_t n);

/* The path of `fpisa` from that of a program in bench/: it stands in the directory above. */
void fpisa_path(char *path, size_t size, const char *program);

/* Runs a command of fpisa. 0, or -1 after it has reported why. */
__attribute__((format(printf, 2, 3))) int run_fpisa(const char *path, const char *format, ...);

#endif
