/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions for measurements in a separate network, which this directory and bench/ use. The functions cover the CPU
 * time of threads that poll links, values whose sums are exact, and quartiles. testbed/ has the namespaces and the
 * workers.
 *
 * Functions that can fail return 0, or report the error and return a negative number.
 */
#ifndef FPISA_BENCH_MEASURE_H
#define FPISA_BENCH_MEASURE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Return the CPU time of a task, or 0 if the task does not exist. The time is exact while the task sleeps. */
uint64_t task_ns(pid_t task);

/* Enter a mount namespace with a BPF filesystem, whose /sys shows the interfaces of this network namespace. */
int enter_sysfs(void);

/* Enter a new network namespace for a worker, with a separate /sys and a BPF filesystem. */
int enter_network(void);

/* Return the CPU time of this process, plus that of the thread that polls its link, if that thread exists. */
uint64_t own_cpu_ns(pid_t napi);

/*
 * Return a rank's contribution, which is a whole number, so that sums are exact in
 * any order. whole_sum() returns the sum over ranks below `workers`.
 */
float whole_number(uint32_t rank, uint64_t i);
float whole_sum(uint32_t workers, uint64_t i);

/*
 * Let a separate kernel thread poll the interface, and return the thread's
 * process id. The name of the interface must be unique on the machine.
 */
pid_t napi_thread(const char *dev);

/* Sort n values and return quartile `quarter`. */
double quartile(double *v, uint32_t n, uint32_t quarter);

/* Numbers of elements of a packet, from an option --elements. All of these numbers are measured in turn. */
#define MAX_SIZES 8

struct sizes {
	uint32_t n, elements[MAX_SIZES];
};

/* Parse "N,...". The numbers must be multiples of 32 up to FPISA_MAX_ELEMENTS. The function changes the text. */
int parse_sizes(struct sizes *s, char *text);

#endif
