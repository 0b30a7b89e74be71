/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What measurements in a network of their own share (bench/, bench_wire*.c): clocks, CPU time of the
 * threads that poll links, quartiles, processes that play workers. lab.h has
 * the namespaces.
 *
 * Functions that can fail return 0, or -1 after they have reported why.
 */
#ifndef FPISA_MEASURE_H
#define FPISA_MEASURE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* Reports `what` with errno; -1. */
int die(const char *what);

uint64_t clock_ns(clockid_t clock);

/* CPU time of a task, exact while it sleeps; 0 if there is none. */
uint64_t task_ns(pid_t task);

/* A mount namespace in which /sys shows the interfaces of this network namespace; with a BPF filesystem. */
int own_sysfs(void);

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

#define CREW_MAX 16

/* Processes that wait for orders. They die with this one. */
struct crew {
	uint32_t n;
	pid_t pid[CREW_MAX];
	int control[CREW_MAX]; /* SOCK_SEQPACKET */
};

/* Starts one more, which runs work(arg, control) and ends when that returns. */
int crew_hire(struct crew *c, void (*work)(void *arg, int control), void *arg);

/* Says the same to all. */
int crew_tell(const struct crew *c, const void *order, size_t size);

/* Takes a message of just that size from one. */
int crew_hear(const struct crew *c, uint32_t i, void *report, size_t size);

void crew_dismiss(struct crew *c);

#endif
