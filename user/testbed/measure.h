/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What measurements in a network of their own share (user/bench, bench/): CPU time of the
 * threads that poll links, values whose sums are exact, quartiles. lab.h has the namespaces, process.h
 * the workers.
 *
 * Functions that can fail return 0, or a negative number after they have reported why.
 */
#ifndef FPISA_MEASURE_H
#define FPISA_MEASURE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* CPU time of a task, exact while it sleeps; 0 if there is none. */
uint64_t task_ns(pid_t task);

/* A mount namespace in which /sys shows the interfaces of this network namespace; with a BPF filesystem. */
int enter_sysfs(void);

/* The same with a network namespace of its own: a worker's. */
int enter_network(void);

/* CPU time of this process and of the thread that polls its link, which is nobody if 0. */
uint64_t own_cpu_ns(pid_t napi);

/* What a rank contributes: whole numbers, so that sums are exact in any order; the sum over ranks below `workers`. */
float whole_number(uint32_t rank, uint64_t i);
float whole_sum(uint32_t workers, uint64_t i);

/* Let a kernel thread of its own poll the interface, and find it; the interface's name is nobody else's. */
pid_t napi_thread(const char *dev);

/* The quarter-th quartile of n values, which it sorts. */
double quartile(double *v, uint32_t n, uint32_t quarter);

/* Prints `, "name": {"median": .., "q1": .., "q3": ..}`. */
void print_quartiles(const char *name, double *v, uint32_t n);

/* The path of `fpisa` from that of a program in bench/: it stands in the directory above. */
void fpisa_path(char *path, size_t size, const char *program);

/* Runs a command of fpisa. */
__attribute__((format(printf, 2, 3))) int run_fpisa(const char *path, const char *format, ...);

/* Elements of a packet, several after each other: what an option --elements says. */
#define MAX_SIZES 8

struct sizes {
	uint32_t n, elements[MAX_SIZES];
};

/* What jobs have by default, and the largest frame. */
#define DEFAULT_SIZES                                                                                        \
	{                                                                                                    \
		2,                                                                                           \
		{                                                                                            \
			256, FPISA_MAX_ELEMENTS                                                              \
		}                                                                                            \
	}

/* "N,...": multiples of 32 up to FPISA_MAX_ELEMENTS. Cuts the text. */
int parse_sizes(struct sizes *s, char *text);

#endif
