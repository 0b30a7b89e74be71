/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Declarations that the files of the verb `demo` share.
 *
 * 	demo.c       order of events, and cleaning up
 * 	options.c    options
 * 	data.c       input from a gradient file, or random values
 * 	worker.c     process of a worker
 * 	hosts.c      for --colocated, the network and the aggregators on the workers' hosts
 * 	processes.c  the parent's side of the workers
 * 	check.c      comparison of every element with the oracle
 * 	report.c     progress, table and JSON
 *
 * The parent moves into a new network namespace and a new mount namespace and
 * becomes the aggregator, or the switch with --colocated. Each worker is a child
 * process in a separate network namespace. The namespaces do not have names and
 * contain only these processes. So they disappear with the processes. The workers
 * die with the parent.
 *
 * Functions return 0, or report the error and return -errno.
 */
#ifndef FPISA_DEMO_H
#define FPISA_DEMO_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <sys/types.h>

#include "datapath/datapath.h"
#include "fpisa.h"
#include "fpisa/block.h"
#include "lab/oracle/oracle.h"
#include "lib/base/shards.h"
#include "lab/testbed/process.h"
#include "lab/testbed/star.h"

#define DEMO_JOB 0
#define DEMO_ADDRESS 0x0a4dff01u /* 10.77.255.1, the address of the aggregator, on its lo */
#define DEMO_NETWORK 0x0a4d0000u /* 10.77.RANK.1 and .2 are the ends of a worker's link */
#define DEMO_PORT "w"		 /* prefix of the interface towards a rank, at the aggregator or the switch */
/* 10.78.0.11 and following, addresses of hosts that have a worker and an aggregator */
#define DEMO_HOST(r) (0x0a4e000bu + (r))
#define DEMO_HOST_PORT 18001 /* UDP port of the worker on such a host */

int verb_demo(int argc, char **argv);
void demo_options_help(void);
extern const char demo_help[]; /* help text after the options of the input and the job */

struct demo_options {
	const char *file;      /* NULL means random values */
	uint64_t vector, seed; /* vector is the number of random values of a worker */
	uint32_t workers, rows, timeout_s;
	int op, transport;
	double factor; /* factor of the operation scale; 0 if not given */
	enum datapath_mode xdp;
	struct fpisa_steering steering;			 /* cpus is 0 without steering */
	double drop, duplicate, reorder, delay, corrupt; /* shares of frames at each worker, in each direction */
	bool json, colocated;
};

/* Bytes of the frames that a host's link has carried. */
struct demo_traffic {
	uint64_t sent, received;
};

/* A worker's messages to its parent. Each message is one byte. All except FAILED are sent in this order. */
enum demo_state {
	DEMO_STARTED,
	DEMO_READY,  /* the namespace exists */
	DEMO_LINKED, /* the link is configured, and the privileges are dropped */
	DEMO_JOINED,
	DEMO_DONE,
	DEMO_FAILED, /* `message` in the result has the reason */
};

/* Shared memory that one worker writes. */
struct demo_result {
	uint64_t chunks; /* number of results so far */
	uint64_t end_ns; /* CLOCK_MONOTONIC */
	uint32_t flags;
	struct fpisa_info info;
	char message[512];
};

struct demo {
	struct demo_options o;
	char source[PATH_MAX]; /* description of the values for the user */
	struct fpisa_format f;
	uint64_t elements, chunks; /* size of the vector that each worker sums */
	size_t row;		   /* bytes of a rank's values; for mxint8, the scales follow after all elements */
	int int_shift;		   /* for int32, the number 1 means 2^-int_shift */
	uint64_t vanished;	   /* number of nonzero source values that are too small for the format */
	pid_t parent;
	/* Shared with the workers. Row r belongs to rank r. */
	unsigned char *input;	   /* [workers][row], packed little-endian values of f.bytes each */
	unsigned char *output;	   /* [workers][row] */
	struct fpisa_chunk *chunk; /* [workers][chunks], in the order of the vector */
	struct demo_result *result;
	uint64_t start_ns; /* when all workers have joined */
	struct star star;
	/* the worker sends its states through `control`, and waits for one byte after each */
	struct process process[FPISA_MAX_WORKERS];
	enum demo_state state[FPISA_MAX_WORKERS]; /* the last state that each worker has reported */
	struct datapath dp[FPISA_MAX_SHARDS];	  /* datapaths of the aggregator or of the hosts */
	int netns[FPISA_MAX_SHARDS];		  /* namespaces of the hosts */
	struct demo_traffic traffic[FPISA_MAX_SHARDS];
	struct fpisa_job job; /* the job at the first aggregator */
	struct fpisa_histogram histogram;
};

/* Return the address of element i of a rank in the input or output. */
static inline unsigned char *demo_at(const struct demo *d, unsigned char *values, uint32_t rank, uint64_t i)
{
	return values + rank * d->row + i * d->f.bytes;
}

/* Return the address of the scale of element i of a rank, for mxint8. */
static inline unsigned char *demo_scale_at(const struct demo *d, unsigned char *values, uint32_t rank, uint64_t i)
{
	return values + rank * d->row + d->elements + i / FPISA_BLOCK;
}

static inline uint64_t demo_word(const struct demo *d, unsigned char *values, uint32_t rank, uint64_t i)
{
	return fpisa_get_word(demo_at(d, values, rank, i), 0, d->f);
}

struct demo_check {
	/*
	 * False if there are more than 16 workers, because results then do not contain the order. The modes exact, min and max
	 * are replayed in any case.
	 */
	bool replayed;
	/* whether errors are measured, which is the case for floating-point formats, except for min and max */
	bool measured;
	uint64_t mismatches;		    /* elements of all results that differ from the replay */
	uint64_t disagreements;		    /* elements of all results that differ from rank 0's */
	uint64_t wrong_flags;		    /* chunks whose result flags differ from the replay's flags */
	uint64_t worker[FPISA_MAX_WORKERS]; /* number of mismatches, or of disagreements if not replayed */
	struct oracle_events events;
	double max_ulp, max_abs; /* INFINITY if a finite result became special */
	uint64_t worst;		 /* the element with the error max_ulp */
	uint64_t nearest;	 /* number of elements whose result is the value nearest to the exact result */
};

/* -- options.c ---------------------------------------------------------- */

/*
 * Parse the options and the job, except for the fields that datapath_job_check() sets. Like a verb, the function may
 * return BAD_USAGE.
 */
int demo_parse(struct demo_options *o, struct fpisa_job *j, int argc, char **argv);

/* -- data.c ------------------------------------------------------------- */

/* Create the shared memory, and set the input, the sizes and the description of the source. */
int demo_data(struct demo *d);

/* -- worker.c ----------------------------------------------------------- */

/* The argument of a worker process. */
struct demo_rank {
	struct demo *d;
	uint32_t rank;
};

void demo_worker(void *arg, int control);

/* -- hosts.c ------------------------------------------------------------ */

static inline uint32_t demo_aggregators(const struct demo *d)
{
	return d->o.colocated ? d->o.workers : 1;
}

/*
 * Create the switch and the links to the workers' namespaces, and set d->netns.
 * demo_hosts_join() configures a worker's end of a link. On failure *message
 * has the reason.
 */
int demo_hosts_make(struct demo *d);
int demo_hosts_join(uint32_t rank, char *message, size_t size);

/* Load the datapath and add the job on each host. */
int demo_hosts_load(struct demo *d);

/* List all hosts in the format of fpisa_connect(). */
#define DEMO_HOSTS_LEN (FPISA_MAX_SHARDS * 16)
void demo_hosts_text(const struct demo *d, char text[DEMO_HOSTS_LEN]);

/* Replace t[hosts] by the number of bytes that each link has carried since t was read. */
int demo_hosts_traffic(struct demo_traffic *t, uint32_t hosts);

/* -- processes.c -------------------------------------------------------- */

/* Start one process for each rank. demo_kill() may be called at any time and ends the processes. */
int demo_spawn(struct demo *d);
void demo_kill(struct demo *d);

/* Wait until all workers are in `state`. If `progress` is not NULL, call it about 10 times a second. */
int demo_await(struct demo *d, enum demo_state state, void (*progress)(const struct demo *d));

/* Let every worker continue from the state that it has reported. */
int demo_release(struct demo *d);

/*
 * Return NULL if all workers are alive. Otherwise return a sentence about the worker that died, whose namespace and
 * link have disappeared.
 */
const char *demo_lost(const struct demo *d);

/* -- check.c ------------------------------------------------------------ */

/* Check all results. Return -EBADMSG without reporting an error if a result is wrong. */
int demo_check(const struct demo *d, const struct fpisa_counters *c, struct demo_check *k);

/* Return the call whose unrounded result is the ideal result. For an average by reciprocal, this is an average. */
struct oracle_call demo_ideal(const struct demo *d);

/* Return the number of adds in the histogram. */
uint64_t demo_histogram_total(const struct demo *d);

/*
 * Return whether the histogram equals that of the replay. The histogram counts an add that discards bits only once,
 * either as rounded or as overwritten.
 */
bool demo_histogram_agrees(const struct demo *d, const struct demo_check *k);

/* Return whether the four counts of the datapath equal those of the replay. Return true if there is no replay. */
bool demo_counts_agree(const struct fpisa_counters *c, const struct demo_check *k);

/* -- report.c ----------------------------------------------------------- */

/* Show the progress of the sum with progress.h. */
void demo_progress(const struct demo *d);

int demo_report(const struct demo *d, const struct fpisa_counters *c, const struct demo_check *k);

#endif
