/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPU time of sums over real veth links, ours and those of other contenders, in two measurements: `wire`, at the aggregator,
 * and `worker`, at a worker. main.c has the table of contenders, options and runs; network.c links, processes and jobs.
 *
 *	wire		wire.c, figures; wire_worker.c, a worker's process; server.h, the servers
 *	worker		worker.c, figures; worker_sums.c, a worker's process; switchml.h, SwitchML's conversions
 *
 * Contenders take turns, run by run, so that drift of the machine affects all of them alike. A separate process measures
 * each packet size in namespaces without names, and all processes die with their parent: nothing outlives a run,
 * however it ends.
 *
 * Functions return 0, or a negative number after they have reported the error.
 */
#ifndef BENCH_CONTENDERS_H
#define BENCH_CONTENDERS_H

#include <stdint.h>

#include "lab/bench/measure.h"
#include "lab/testbed/process.h"
#include "lab/testbed/star.h"

#define MAX_RUNS 1000
#define STARS 3		  /* aggregators of a measurement, each with links of its own */
#define BLOCK_CHUNKS 1024 /* chunks that a SwitchML worker converts at a time: its data stay in the cache */

/* The contenders of wire, then those of worker. A contender of wire uses its number for its star and its job too. */
enum contender { FPISA_XDP, UDP_AVX2, XDP_AVX2, SWITCHML, UDP, XSK, UDP_TAGS, UDP_PROGRESS, XSK_PROGRESS, CONTENDERS };

extern const char *const contender_name[CONTENDERS];

struct plan {
	uint32_t workers, packet, window, runs;
	uint64_t vector,
		elements; /* elements of a worker's vector: as requested; in whole packets, or blocks of SwitchML's */
	uint64_t seed;
	int gso;	  /* wire: batches pass the links whole */
	double loss;	  /* wire: injected at the workers */
	uint64_t calls;	  /* worker: calls in which udp and xsk sum a vector, one after the other */
	int progress;	  /* worker: run the contenders with a progress thread too */
	const char *only; /* worker: the contenders to run, with commas; NULL: all */
	struct star star[STARS];
	/* wire: shared by all processes: one vector per rank, and the order of arrival of each chunk as each rank was told. */
	float *send, *recv;
	uint64_t *order;
};

/* The tasks of a worker. The first one is TASK_LINK. */
enum task { TASK_LINK, TASK_FILL, TASK_CLEAR, TASK_SUM, TASK_CHECK };

struct order {
	enum task task;
	enum contender contender; /* for TASK_SUM and TASK_CHECK */
	uint32_t run;		  /* for TASK_FILL */
};

/* The state of a measurement of one packet size. */
struct bench {
	const struct measurement *what;
	struct plan plan;
	struct processes workers, servers;
	pid_t napi[STARS][PROCESSES_MAX]; /* threads that poll the aggregators' ends of the links */
	char fpisa[288];		  /* path of the command */
};

struct measurement {
	const char *name, *usage;
	const char *options; /* its letters in main.c's table of options */
	uint32_t stars, most_window;
	struct plan standard;
	uint32_t chunks;		 /* a vector is a multiple of this */
	process_fn *work;		 /* a worker's process; its argument is a struct bench_worker */
	pid_t (*poll)(const char *dev);	 /* lets a thread poll an aggregator's end of a link */
	int (*prepare)(struct bench *b); /* memory, before the network is made */
	int (*serve)(struct bench *b);	 /* jobs and servers, when it is made */
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

/* Make this process the aggregators' side, with links, workers, our datapath, and what serve() starts. */
int network_make(struct bench *b);

/* Add a job to our datapath, on the first star. Its workers have the port FPISA_PORT + number. */
int network_add_job(const struct bench *b, int number, uint32_t elements, const char *options);

/* Let all workers carry out an order. Sum their reports into *sum, which may be NULL. */
int network_order(const struct bench *b, const struct order *o, struct report *sum);

/*
 * Let a separate kernel thread poll an end of a link, whatever its peer is, and return its pid. GRO makes the
 * end poll. The peer must not have TSO, because otherwise the kernel assumes that GRO is useless
 * (veth_skb_is_eligible_for_gro()) and charges the work to the sender.
 */
pid_t wire_poll(const char *dev);

void wire_work(void *arg, int control);
void worker_work(void *arg, int control);

#endif
