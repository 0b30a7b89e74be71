/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measure the CPU time of sums over real veth links, for FPISA and for other contenders. The measurement `wire` is at
 * the aggregator, and `worker` is at a worker. main.c has the table of contenders, the options and the runs. network.c
 * has links, processes and jobs. The other files are:
 *
 * 	wire		wire.c (figures), wire_worker.c (process of a worker), server.h (servers)
 * 	worker		worker.c (figures), worker_sums.c (process of a worker), switchml.h (SwitchML's conversions)
 *
 * Contenders take turns in each run, so that drift of the machine affects all of them alike. A separate process
 * measures each packet size in namespaces without names. All processes die with their parent, so nothing remains after
 * a run, however it ends.
 *
 * Functions return 0, or report the error and return a negative number.
 */
#ifndef BENCH_CONTENDERS_H
#define BENCH_CONTENDERS_H

#include <stdint.h>

#include "lab/bench/measure.h"
#include "lab/testbed/process.h"
#include "lab/testbed/star.h"

#define MAX_RUNS 1000
#define STARS 3 /* maximum number of aggregators in a measurement; each has separate links */
/* number of chunks that a SwitchML worker converts together, so that their data stay in the cache */
#define BLOCK_CHUNKS 1024

/*
 * The contenders of wire, followed by those of worker. The number of a contender of wire is also that of its star and
 * of its job.
 */
enum contender { FPISA_XDP, UDP_AVX2, XDP_AVX2, SWITCHML, UDP, XSK, UDP_TAGS, UDP_PROGRESS, XSK_PROGRESS, CONTENDERS };

extern const char *const contender_name[CONTENDERS];

struct plan {
	uint32_t workers, packet, window, runs;
	uint64_t vector,
		/*
		 * elements of a worker's vector, as requested, rounded to whole packets, and rounded to whole blocks of
		 * SwitchML
		 */
		elements;
	uint64_t seed;
	int gso;	  /* wire: whether batches pass the links unsegmented */
	double loss;	  /* wire: faults that are injected at the workers */
	uint64_t calls;	  /* worker: number of consecutive calls in which udp and xsk sum a vector */
	int progress;	  /* worker: whether contenders with a progress thread run too */
	const char *only; /* worker: comma-separated list of the contenders to run; NULL means all */
	struct star star[STARS];
	/*
	 * wire: memory that all processes share, with one vector for each rank, and the order of arrival of each chunk
	 * as reported to each rank
	 */
	float *send, *recv;
	uint64_t *order;
};

/* The tasks of a worker. The first one is TASK_LINK. */
enum task { TASK_LINK, TASK_FILL, TASK_CLEAR, TASK_SUM, TASK_CHECK };

struct order {
	enum task task;
	enum contender contender; /* used by TASK_SUM and TASK_CHECK */
	uint32_t run;		  /* used by TASK_FILL */
};

/* The state of the measurement of one packet size. */
struct bench {
	const struct measurement *what;
	struct plan plan;
	struct processes workers, servers;
	pid_t napi[STARS][PROCESSES_MAX]; /* threads that poll the aggregators' ends of the links */
	char fpisa[288];		  /* path of the program `fpisa` */
};

struct measurement {
	const char *name, *usage;
	const char *options; /* letters of its options in the table of options in main.c */
	uint32_t stars, most_window;
	struct plan standard;
	uint32_t chunks;		 /* a vector is a multiple of this number of elements */
	process_fn *work;		 /* the process of a worker; the argument is a struct bench_worker */
	pid_t (*poll)(const char *dev);	 /* lets a thread poll an aggregator's end of a link */
	int (*prepare)(struct bench *b); /* allocates memory before the network is created */
	int (*serve)(struct bench *b);	 /* creates jobs and servers after the network is created */
	int (*measure)(const struct bench *b);
};

extern const struct measurement measure_wire, measure_worker;

struct bench_worker {
	const struct plan *plan;
	uint32_t rank;
};

/* Print the figures that begin a line, `{"bench": ... "goodput_gbit": ...`, and `, "NAME": {"median": .., "q1": .., "q3": ..}`. */
void print_contender(const struct bench *b, enum contender c, double *gbit);
void print_quartiles(const char *name, double *v, uint32_t n);

/* Print `, "ratio": MEDIAN, "ratio_quartiles": [.., ..]`. */
void print_ratio(double *ratio, uint32_t n);

/* Turn this process into the aggregators' side, with links, workers, our datapath, and the processes that serve() starts. */
int network_make(struct bench *b);

/* Add a job to our datapath on the first star. Its workers use the port FPISA_PORT + number. */
int network_add_job(const struct bench *b, int number, uint32_t elements, const char *options);

/* Let all workers execute an order. Add their reports to *sum, which may be NULL. */
int network_order(const struct bench *b, const struct order *o, struct report *sum);

/*
 * Let a separate kernel thread poll an end of a link, and return the thread's process id. The type of the peer does not
 * matter. GRO makes the end poll. The peer must not have TSO. Otherwise the kernel assumes that GRO is useless
 * (veth_skb_is_eligible_for_gro()) and charges the work to the sender.
 */
pid_t wire_poll(const char *dev);

void wire_work(void *arg, int control);
void worker_work(void *arg, int control);

#endif
