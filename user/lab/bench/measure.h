/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions for measurements in a network of their own, here and in bench/: CPU time of the threads
 * that poll links, values whose sums are exact, quartiles. testbed/ has the namespaces and the workers.
 *
 * Functions that can fail return 0, or a negative number after they have reported why.
 */
#ifndef FPISA_BENCH_MEASURE_H
#define FPISA_BENCH_MEASURE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* CPU time of a task, exact while it sleeps; 0 if there is none. */
uint64_t task_ns(pid_t task);

/* A mount namespace in which /sys shows the interfaces of this network namespace; with a BPF filesystem. */
int enter_sysfs(void);

/* The same with a network namespace of its own: a worker's. */
int enter_network(void);

/* Return the CPU time of this process and of the thread that polls its link; 0: there is no such thread. */
uint64_t own_cpu_ns(pid_t napi);

/* Return a rank's contribution: whole numbers, so that sums are exact in any order; whole_sum(): the sum over ranks below `workers`. */
float whole_number(uint32_t rank, uint64_t i);
float whole_sum(uint32_t workers, uint64_t i);

/* Let a kernel thread of its own poll the interface, and find it; no other interface of the machine may have that name. */
pid_t napi_thread(const char *dev);

/* The quarter-th quartile of n values, which it sorts. */
double quartile(double *v, uint32_t n, uint32_t quarter);

/* Elements of a packet, several after each other: what an option --elements says. */
#define MAX_SIZES 8

struct sizes {
	uint32_t n, elements[MAX_SIZES];
};

/* "N,...": multiples of 32 up to FPISA_MAX_ELEMENTS. Cuts the text. */
int parse_sizes(struct sizes *s, char *text);

#endif
