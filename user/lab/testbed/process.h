/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes of the verbs and measurements that build networks: what is forked
 * here dies with its parent, and talks with it by messages. A worker process
 * takes orders and answers each with a report.
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
	pid_t pid;   /* 0: none */
	int control; /* while there is one: our end of a SOCK_SEQPACKET pair */
	int life;    /* a second one, whose end kills the process, even if this process may not send it signals */
};

/* The work of a process; control is its end. The process ends with status 1 when this returns. */
typedef void process_fn(void *arg, int control);

/*
 * Forks. The child enters the network namespace `netns`, or stays in ours with -1, dies with us, takes no signal
 * as we do, and none from the terminal. Its id is in *p before any signal is handled here.
 */
int process_spawn(struct process *p, int netns, process_fn *work, void *arg);

/* Close, in a child, every inherited descriptor except 0 to 2, the one by which it is killed, and `control`, whose new number is returned. */
int process_close_fds(int control);

/* Return whether the process has ended by itself. Then *status is that of waitpid(), and *p has no process. */
bool process_ended(struct process *p, int *status);

/* Kill the process, if there is one, and wait for its end, 2 s at most. A signal's handler may call this. */
void process_kill(struct process *p);

#define PROCESS_NOBODY 65534

/* Become nobody, for good, and still die with the parent. -errno, not reported. */
int process_drop_privileges(pid_t parent);

/* -- orders and reports ------------------------------------------------------ */

struct report {
	int error;
	uint64_t cpu_ns, wall_ns, retransmits;
	char message[256]; /* of the error, if there is one to tell */
};

#define PROCESSES_MAX 16

struct processes {
	uint32_t n;
	struct process process[PROCESSES_MAX];
};

/* Start another process, which has made its first report when this returns. */
int processes_spawn(struct processes *p, process_fn *work, void *arg);

/*
 * Have all processes carry out an order at once. Of their reports *sum, which may be NULL, gets the sums, and of wall_ns the most;
 * an error is reported as "WHO: rank N: MESSAGE".
 */
int processes_order(const struct processes *p, const char *who, const void *order, size_t size, struct report *sum);

void processes_kill(struct processes *p);

/* Runs `work` in a process of its own, to its one report. */
int process_run(process_fn *work, void *arg);

/* Report to the parent. */
int process_report(int control, const struct report *r);

/* Report that this process is ready, then take orders of `size` bytes into *order, until the parent's end is closed. */
void process_serve(int control, void *order, size_t size, void (*carry_out)(void *arg, struct report *r), void *arg)
	__attribute__((noreturn));

#endif
