/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes of the verbs and measurements that build networks. A process that is
 * forked here dies with its parent and exchanges messages with it. A worker
 * process takes orders and answers each with a report.
 *
 * Functions return 0, or report the error and return a negative number.
 */
#ifndef FPISA_TESTBED_PROCESS_H
#define FPISA_TESTBED_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
	pid_t pid;   /* 0 if there is no process */
	int control; /* the parent's end of a SOCK_SEQPACKET pair, while the process exists */
	/* the parent's end of a second pair; closing it kills the process, even without permission to send signals */
	int life;
};

/*
 * The work of a process. `control` is the process's end of the pair. When this function returns, the process exits with
 * status 1.
 */
typedef void process_fn(void *arg, int control);

/*
 * Fork a process. The child enters the network namespace `netns`, or stays in the parent's namespace if `netns` is -1.
 * The child dies with the parent. The child neither inherits signal handlers nor gets signals of the terminal. *p has
 * the child's process id before the parent handles any signal.
 */
int process_spawn(struct process *p, int netns, process_fn *work, void *arg);

/*
 * In a child, close every inherited descriptor except 0 to 2, the lifeline and
 * `control`. Return the new number of `control`.
 */
int process_close_fds(int control);

/* Return whether the process has ended by itself. If it has, set *status like waitpid(), and clear *p. */
bool process_ended(struct process *p, int *status);

/* Kill the process if it exists, and wait up to 2 s for its end. A signal handler may call this function. */
void process_kill(struct process *p);

#define PROCESS_NOBODY 65534

/*
 * Become the user nobody permanently, and still die with the parent. Return 0, or -errno without reporting the error.
 */
int process_drop_privileges(pid_t parent);

/* -- orders and reports ------------------------------------------------------ */

struct report {
	int error;
	uint64_t cpu_ns, wall_ns, retransmits;
	char message[256]; /* message of the error, or "" if there is no error */
};

#define PROCESSES_MAX 16

struct processes {
	uint32_t n;
	struct process process[PROCESSES_MAX];
};

/* Start another process and take its first report. */
int processes_spawn(struct processes *p, process_fn *work, void *arg);

/*
 * Send all processes an order at the same time. If `sum` is not NULL, add their reports to *sum, where wall_ns is the
 * maximum. Report an error as "WHO: rank N: MESSAGE".
 */
int processes_order(const struct processes *p, const char *who, const void *order, size_t size, struct report *sum);

void processes_kill(struct processes *p);

/* Run `work` in a new process until the process sends its only report. */
int process_run(process_fn *work, void *arg);

/* Send a report to the parent. */
int process_report(int control, const struct report *r);

/* Report that this process is ready. Then take orders of `size` bytes into *order until the parent closes its end. */
void process_serve(int control, void *order, size_t size, void (*carry_out)(void *arg, struct report *r), void *arg)
	__attribute__((noreturn));

#endif
