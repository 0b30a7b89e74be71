/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Declarations that the files of the verb `demo` share.
 *
 *	demo.c       the order of events, cleaning up
 *	options.c    options
 *	data.c       input: a gradient file or random values
 *	worker.c     one worker's process
 *	hosts.c      --colocated: the network, the aggregators on the workers' hosts
 *	processes.c  the parent's side of the workers
 *	check.c      comparison of every element with the oracle
 *	report.c     progress, table, JSON
 *
 * The parent moves into a new network namespace and a new mount namespace and
 * becomes the aggregator, or the switch. Each worker is a child in a network
 * namespace of its own. Namespaces do not have names and contain only these
 * processes, so they disappear with the processes. The workers die with the parent.
 *
 * Functions return 0, or -errno after they have reported the error.
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
#define DEMO_PORT "w"		 /* prefix of the aggregator's interface, or the switch's port, towards a rank */
#define DEMO_HOST(r) (0x0a4e000bu + (r)) /* 10.78.0.11 and up: hosts of workers that are aggregators too */
#define DEMO_HOST_PORT 18001		 /* a worker's port on such a host */

int verb_demo(int argc, char **argv);
void demo_options_help(void);
extern const char demo_help[]; /* help after the options of the input and the job */

struct demo_options {
	const char *file;      /* NULL: random values */
	uint64_t vector, seed; /* vector: random values per worker */
	uint32_t workers, rows, timeout_s;
	int op, transport;
	double factor; /* factor of the operation scale; 0: not given */
	enum datapath_mode xdp;
	struct fpisa_steering steering;			 /* cpus 0: no steering */
	double drop, duplicate, reorder, delay, corrupt; /* shares of frames in each direction, at each worker */
	bool json, colocated;
};

/* Bytes of frames that a host's link has carried. */
struct demo_traffic {
	uint64_t sent, received;
};

/* A worker's messages to its parent, one byte each, in this order except FAILED. */
enum demo_state {
	DEMO_STARTED,
	DEMO_READY,  /* the namespace exists */
	DEMO_LINKED, /* the link is configured, the privileges are dropped */
	DEMO_JOINED,
	DEMO_DONE,
	DEMO_FAILED, /* the message says why */
};

/* Shared memory, written by one worker. */
struct demo_result {
	uint64_t chunks; /* results so far */
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
	size_t row;		   /* bytes of a rank's values: all elements, then the scales of mxint8 */
	int int_shift;		   /* for int32: 1 stands for 2^-int_shift */
	uint64_t vanished;	   /* values of the source that are not zero but too small for the format */
	pid_t parent;
	/* Shared with the workers; row r belongs to rank r. */
	unsigned char *input;	   /* [workers][row], packed little-endian values of f.bytes each */
	unsigned char *output;	   /* [workers][row] */
	struct fpisa_chunk *chunk; /* [workers][chunks], in the order of the vector */
	struct demo_result *result;
	uint64_t start_ns; /* when all workers have joined */
	struct star star;
	struct process process[FPISA_MAX_WORKERS]; /* control: a worker sends its states and waits for one byte */
	enum demo_state state[FPISA_MAX_WORKERS];  /* last state that each worker has reported */
	struct datapath dp[FPISA_MAX_SHARDS];	   /* datapath of the aggregator, or of each host */
	int netns[FPISA_MAX_SHARDS];		   /* namespace of each host */
	struct demo_traffic traffic[FPISA_MAX_SHARDS];
	struct fpisa_job job; /* job at the first aggregator */
	struct fpisa_histogram histogram;
};

/* Return the place of element i of a rank in input or output. */
static inline unsigned char *demo_at(const struct demo *d, unsigned char *values, uint32_t rank, uint64_t i)
{
	return values + rank * d->row + i * d->f.bytes;
}

/* Return the place of the scale of element i, for mxint8. */
static inline unsigned char *demo_scale_at(const struct demo *d, unsigned char *values, uint32_t rank, uint64_t i)
{
	return values + rank * d->row + d->elements + i / FPISA_BLOCK;
}

static inline uint64_t demo_word(const struct demo *d, unsigned char *values, uint32_t rank, uint64_t i)
{
	return fpisa_get_word(demo_at(d, values, rank, i), 0, d->f);
}

struct demo_check {
	/* False above 16 workers, whose order is not reported, except for mode exact, min and max. */
	bool replayed;
	bool measured;			    /* whether errors are measured: for floats, except min and max */
	uint64_t mismatches;		    /* elements of all results that differ from the replay */
	uint64_t disagreements;		    /* elements of all results that differ from rank 0's */
	uint64_t wrong_flags;		    /* chunks whose result flags differ from the replay's flags */
	uint64_t worker[FPISA_MAX_WORKERS]; /* mismatches, or disagreements if not replayed */
	struct oracle_events events;
	double max_ulp, max_abs; /* INFINITY if a finite result became special */
	uint64_t worst;		 /* element of max_ulp */
	uint64_t nearest;	 /* elements with the value nearest to the exact result */
};

/* -- options.c ---------------------------------------------------------- */

/* Parse the options and the job, except what datapath_job_check() sets. May return BAD_USAGE, as a verb. */
int demo_parse(struct demo_options *o, struct fpisa_job *j, int argc, char **argv);

/* -- data.c ------------------------------------------------------------- */

/* Create the shared memory, and fill input, sizes and source. */
int demo_data(struct demo *d);

/* -- worker.c ----------------------------------------------------------- */

/* The argument of a worker's process. */
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
 * Create the switch and links to the workers' namespaces. Open d->netns.
 * demo_hosts_join(): a worker's end; on error *message says why.
 */
int demo_hosts_make(struct demo *d);
int demo_hosts_join(uint32_t rank, char *message, size_t size);

/* Load the datapath and add the job on each host. */
int demo_hosts_load(struct demo *d);

/* List all hosts in the format of fpisa_connect(). */
#define DEMO_HOSTS_LEN (FPISA_MAX_SHARDS * 16)
void demo_hosts_text(const struct demo *d, char text[DEMO_HOSTS_LEN]);

/* Replace t[hosts] by the bytes that each link has carried since t. */
int demo_hosts_traffic(struct demo_traffic *t, uint32_t hosts);

/* -- processes.c -------------------------------------------------------- */

/* Start one process per rank. demo_kill() ends them, at any time. */
int demo_spawn(struct demo *d);
void demo_kill(struct demo *d);

/* Wait until every worker is in `state`. Call progress() about 10 times a second unless it is NULL. */
int demo_await(struct demo *d, enum demo_state state, void (*progress)(const struct demo *d));

/* Let every worker continue from the state it has reported. */
int demo_release(struct demo *d);

/* Return a sentence about a worker that died early, and took its namespace and link along, or NULL if all are alive. */
const char *demo_lost(const struct demo *d);

/* -- check.c ------------------------------------------------------------ */

/* Check all results. Return -EBADMSG, not reported, if a result is wrong. */
int demo_check(const struct demo *d, const struct fpisa_counters *c, struct demo_check *k);

/* Return the call whose unrounded result is the true result: an average by reciprocal should be an average. */
struct oracle_call demo_ideal(const struct demo *d);

/* Return the number of adds that the histogram has counted. */
uint64_t demo_histogram_total(const struct demo *d);

/*
 * Return whether the histogram equals the replay's. An add that discards bits counts there once, as rounded or as
 * overwritten.
 */
bool demo_histogram_agrees(const struct demo *d, const struct demo_check *k);

/* Return whether the four counts of the datapath equal the replay's, or true without a replay. */
bool demo_counts_agree(const struct fpisa_counters *c, const struct demo_check *k);

/* -- report.c ----------------------------------------------------------- */

/* Show the progress of the sum by progress.h. */
void demo_progress(const struct demo *d);

int demo_report(const struct demo *d, const struct fpisa_counters *c, const struct demo_check *k);

#endif
