/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes of the verbs and measurements that build networks. A process that is
 * forked here dies with its parent and exchanges messages with it. A worker
 * process takes orders and answers each with a report.
 *
 * Functions return 0, or a negative number after they have reported the error.
 */
#ifndef FPISA_TESTBED_PROCESS_H
#define FPISA_TESTBED_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
	pid_t pid;   /* 0: no process */
	int control; /* our end of a SOCK_SEQPACKET pair, while the process exists */
	int life; /* end of a second pair; closing it kills the process, even if this process may not send it signals */
};

/*
 * The work of a process; control is the process's end of the pair. The process exits with status 1 when this returns.
 */
typedef void process_fn(void *arg, int control);

/*
 * Fork. The child enters the network namespace `netns`, or stays in ours with -1, and dies with us. It neither handles
 * signals as we do nor gets the terminal's signals. Its id is in *p before any signal is handled here.
 */
int process_spawn(struct process *p, int netns, process_fn *work, void *arg);

/*
 * Close, in a child, every inherited descriptor except 0 to 2, the lifeline, and
 * `control`. Return the new number of `control`.
 */
int process_close_fds(int control);

/* Return whether the process has ended by itself. If so, set *status as waitpid() does, and clear *p. */
bool process_ended(struct process *p, int *status);

/* Kill the process, if it exists, and wait for its end, 2 s at most. A signal handler may call this. */
void process_kill(struct process *p);

#define PROCESS_NOBODY 65534

/* Become the user nobody permanently, and still die with the parent. Return -errno, not reported. */
int process_drop_privileges(pid_t parent);

/* -- orders and reports ------------------------------------------------------ */

struct report {
	int error;
	uint64_t cpu_ns, wall_ns, retransmits;
	char message[256]; /* message of the error, or "" */
};

#define PROCESSES_MAX 16

struct processes {
	uint32_t n;
	struct process process[PROCESSES_MAX];
};

/* Start another process and take its first report. */
int processes_spawn(struct processes *p, process_fn *work, void *arg);

/*
 * Give all processes an order at the same time. Sum their reports into *sum unless sum is NULL; wall_ns is the maximum.
 * Report an error as "WHO: rank N: MESSAGE".
 */
int processes_order(const struct processes *p, const char *who, const void *order, size_t size, struct report *sum);

void processes_kill(struct processes *p);

/* Run `work` in a new process until its only report. */
int process_run(process_fn *work, void *arg);

/* Report to the parent. */
int process_report(int control, const struct report *r);

/* Report that this process is ready. Then take orders of `size` bytes into *order until the parent's end is closed. */
void process_serve(int control, void *order, size_t size, void (*carry_out)(void *arg, struct report *r), void *arg)
	__attribute__((noreturn));

#endif
