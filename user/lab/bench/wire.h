/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Declarations that the files of `bench wire` share.
 *
 * 	wire.c         options, and the sweep over the settings
 * 	wire_net.c     an aggregator over veth, with a process for each worker
 * 	wire_nic.c     an aggregator on this machine's interfaces, with workers on other machines
 * 	wire_worker.c  a worker, which is a process of wire_net.c, or `bench worker` for wire_nic.c
 * 	wire_report.c  the best settings, table and JSON
 *
 * Every round has a run for each setting. A run creates its jobs. The workers join the jobs and sum a vector of whole
 * numbers, and the run deletes the jobs. The sums are exact and are checked. Consecutive runs use different job
 * numbers. So a worker that is ahead waits for the next jobs instead of joining the old jobs.
 *
 * Functions return 0, or report the error and return a negative number.
 */
#ifndef FPISA_BENCH_WIRE_H
#define FPISA_BENCH_WIRE_H

#include "bench.h"
#include "cli/names.h"
#include "measure.h"
#include "lab/testbed/process.h"
#include "lab/testbed/star.h"

#define BENCH_WIRE_ADDRESS 0x0a4eff01u /* 10.78.255.1, the address of the aggregator */
#define BENCH_WIRE_NETWORK 0x0a4e0000u /* 10.78.RANK.1 and .2 are the ends of a worker's link */
#define BENCH_WIRE_THREADS 4	       /* maximum number of threads of a worker */
#define BENCH_WIRE_SETTINGS 256

/* Values of an option. All of them are measured. */
struct bench_list {
	uint32_t n, v[MAX_SIZES];
};

struct bench_setting {
	uint32_t elements, window, pipeline, threads, family; /* family: 4 or 6 */
	/*
	 * [rounds], in Gbit of contributions per second, CPU seconds of the aggregator per GB of all contributions, and
	 * CPU seconds of a worker per GB of its own contributions
	 */
	double *goodput, *aggregator, *worker;
	uint64_t retransmits, frames;
};

struct bench_wire {
	struct common c;
	uint32_t workers;
	uint64_t rounds, vector; /* vector is the number of values of a worker in a round */
	struct sizes elements;
	struct bench_list window, threads, pipeline, family;
	struct bench_setting setting[BENCH_WIRE_SETTINGS];
	uint32_t settings, best;
	uint32_t run;			  /* number of the run, counted over all settings and rounds */
	char *address[FPISA_MAX_WORKERS]; /* ADDR or ADDR@DEV, by rank */
	__be32 aggregator;		  /* 0 means the address that the routes to the workers use */
	struct datapath dp;
	/* The following members are for measurements over veth. */
	struct star star;
	struct processes processes; /* the processes of the workers */
	pid_t napi[PROCESSES_MAX];  /* threads that poll the aggregator's ends of the links */
	/* The following members are for measurements on interfaces of this machine. */
	char *const *dev;
	int devs;     /* 0 means veth */
	int entry_fd; /* the program that is attached to the interfaces */
	int stats_fd; /* while this descriptor is open, the kernel measures the run time of programs */
	bool loaded;
	const struct bench_setting *before; /* the setting whose jobs still exist */
};

/* Return the first job number of a run. */
static inline uint32_t bench_wire_job(uint32_t run)
{
	return run * BENCH_WIRE_THREADS % FPISA_MAX_JOBS;
}

/* Argument of a worker's process. */
struct bench_wire_rank {
	const struct bench_wire *w;
	uint32_t rank;
};

enum bench_wire_task { BENCH_LINK, BENCH_JOIN, BENCH_SUM, BENCH_LEAVE };

struct bench_wire_order {
	enum bench_wire_task task;
	uint32_t threads, job, family;
};

/* Return the address of the aggregator over veth. */
static inline struct fpisa_address bench_wire_address(uint32_t family)
{
	return family == 6 ? star_ipv6(BENCH_WIRE_ADDRESS) : fpisa_ipv4(htonl(BENCH_WIRE_ADDRESS));
}

extern const struct name bench_families[];

/* -- wire_net.c --------------------------------------------------------- */

/* Create namespaces, workers and links, and load the datapath on the aggregator's ends. */
int bench_wire_open(struct bench_wire *w);
void bench_wire_close(struct bench_wire *w);

/* Run one sum with a setting. */
int bench_wire_round(struct bench_wire *w, struct bench_setting *s, uint64_t round);

/* Create the jobs of a run, with the options of `job add`. */
int bench_wire_jobs(struct bench_wire *w, const struct bench_setting *s, uint32_t run);
int bench_wire_end_jobs(struct bench_wire *w, const struct bench_setting *s, uint32_t run);

/* -- wire_nic.c --------------------------------------------------------- */

int bench_nic_open(struct bench_wire *w);
void bench_nic_close(struct bench_wire *w);
int bench_nic_round(struct bench_wire *w, struct bench_setting *s, uint64_t round);

/* -- wire_worker.c ------------------------------------------------------ */

/* Run a worker process. `arg` is a struct bench_wire_rank. The process reports cpu_ns and retransmits of BENCH_SUM. */
void bench_wire_work(void *arg, int control);

/* Do all runs as a worker of the aggregator at `address`. The options must be those of the aggregator. */
int bench_worker_sweep(struct bench_wire *w, const char *address);

/*
 * Return the number of values in a thread's share of a vector. bench_wire_warm() returns the number of values in the
 * thread's first sum, which is not measured.
 */
uint64_t bench_wire_share(const struct bench_wire *w, uint32_t threads, uint32_t thread, uint64_t *from);
uint64_t bench_wire_warm(uint64_t share, uint32_t window, uint32_t elements);

/* -- wire_report.c ------------------------------------------------------ */

/* Among the settings within 5% of the highest goodput, choose the setting with the shortest CPU time. */
void bench_wire_choose(struct bench_wire *w);
struct json_object *bench_wire_json(const struct bench_wire *w);
void bench_wire_text(const struct bench_wire *w);

#endif
