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
 *	check.c      every element against the oracle
 *	report.c     progress, table, JSON
 *
 * The parent moves into a network and a mount namespace of its own and is
 * the aggregator, or the switch; each worker is a child in a network namespace of its own.
 * No namespace has a name and no process but these is in one, so all of it
 * is gone with the processes, and the workers go with the parent.
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
#define DEMO_ADDRESS 0x0a4dff01u /* 10.77.255.1, the aggregator's, on its lo */
#define DEMO_NETWORK 0x0a4d0000u /* 10.77.RANK.1 and .2 are the ends of a worker's link */
#define DEMO_PORT "w" /* the aggregator's interface, or the switch's port, towards a rank, before its number */
#define DEMO_HOST(r) (0x0a4e000bu + (r)) /* 10.78.0.11 on: where the workers' hosts are the aggregators */
#define DEMO_HOST_PORT 18001		 /* a worker's port there */

int verb_demo(int argc, char **argv);
void demo_options_help(void);
extern const char demo_help[]; /* what follows them */

struct demo_options {
	const char *file;      /* NULL: random values */
	uint64_t vector, seed; /* vector: random values a worker */
	uint32_t workers, rows, timeout_s;
	int op, transport;
	double factor; /* of scale; 0: none */
	enum datapath_mode xdp;
	struct fpisa_steering steering;			 /* cpus 0: none */
	double drop, duplicate, reorder, delay, corrupt; /* shares of frames, each way, at each worker */
	bool json, colocated;
};

/* Bytes of a host's link, as its frames have them. */
struct demo_traffic {
	uint64_t sent, received;
};

/* A worker's messages to its parent, one byte each; in this order, except FAILED. */
enum demo_state {
	DEMO_STARTED,
	DEMO_READY,  /* its namespace exists */
	DEMO_LINKED, /* its link is configured, its privileges are gone */
	DEMO_JOINED,
	DEMO_DONE,
	DEMO_FAILED, /* its message says why */
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
	char source[PATH_MAX]; /* of the values, for people */
	struct fpisa_format f;
	uint64_t elements, chunks; /* of the vector that each worker sums */
	size_t row;		   /* bytes of a rank's values: all elements, then the scales of mxint8 */
	int int_shift;		   /* of int32: 1 stands for 2^-int_shift */
	uint64_t vanished;	   /* values of the source that are not zero and too small for the format */
	pid_t parent;
	/* Shared with the workers; row r belongs to rank r. */
	unsigned char *input;	   /* [workers][row], packed little-endian values of f.bytes each */
	unsigned char *output;	   /* [workers][row] */
	struct fpisa_chunk *chunk; /* [workers][chunks], as they arrived */
	struct demo_result *result;
	uint64_t start_ns; /* all have joined */
	struct star star;
	struct process process[FPISA_MAX_WORKERS]; /* control: states come up, one byte down lets it go on */
	enum demo_state state[FPISA_MAX_WORKERS];  /* that each has reported */
	struct datapath dp[FPISA_MAX_SHARDS];	   /* the aggregator's, or of each host */
	int netns[FPISA_MAX_SHARDS];		   /* of each host */
	struct demo_traffic traffic[FPISA_MAX_SHARDS];
	struct fpisa_job job; /* of the first aggregator */
	struct fpisa_histogram histogram;
};

/* Return the place of element i of a rank in input or output. */
static inline unsigned char *demo_at(const struct demo *d, unsigned char *values, uint32_t rank, uint64_t i)
{
	return values + rank * d->row + i * d->f.bytes;
}

/* The scale of element i, of mxint8. */
static inline unsigned char *demo_scale_at(const struct demo *d, unsigned char *values, uint32_t rank, uint64_t i)
{
	return values + rank * d->row + d->elements + i / FPISA_BLOCK;
}

static inline uint64_t demo_word(const struct demo *d, unsigned char *values, uint32_t rank, uint64_t i)
{
	return fpisa_get_word(demo_at(d, values, rank, i), 0, d->f);
}

struct demo_check {
	/* False above 16 workers: no order is reported, and only mode exact, min and max do without. */
	bool replayed;
	bool measured;			    /* the errors: of floats, and not of min and max, which have none */
	uint64_t mismatches;		    /* elements of all results that differ from the replay */
	uint64_t disagreements;		    /* elements of all results that differ from rank 0's */
	uint64_t wrong_flags;		    /* chunks whose result flags differ from the replay's */
	uint64_t worker[FPISA_MAX_WORKERS]; /* mismatches, or disagreements if not replayed */
	struct oracle_events events;
	double max_ulp, max_abs; /* INFINITY where a finite result became special */
	uint64_t worst;		 /* element of max_ulp */
	uint64_t nearest;	 /* elements that are the value nearest to the exact result */
};

/* -- options.c ---------------------------------------------------------- */

/* Parse the options, and the job, complete except for what datapath_job_check() sets. May return BAD_USAGE, as a verb. */
int demo_parse(struct demo_options *o, struct fpisa_job *j, int argc, char **argv);

/* -- data.c ------------------------------------------------------------- */

/* Fills input, sizes and source; makes the shared memory. */
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

/* The switch, and a link to each worker's namespace, which d->netns holds; the worker's end of it, on error *message says why. */
int demo_hosts_make(struct demo *d);
int demo_hosts_join(uint32_t rank, char *message, size_t size);

/* The datapath and the job on each host. */
int demo_hosts_load(struct demo *d);

/* List all hosts in the format of fpisa_connect(). */
#define DEMO_HOSTS_LEN (FPISA_MAX_SHARDS * 16)
void demo_hosts_text(const struct demo *d, char text[DEMO_HOSTS_LEN]);

/* Subtract t[hosts] from what each link has carried by now; the result is in t. */
int demo_hosts_traffic(struct demo_traffic *t, uint32_t hosts);

/* -- processes.c -------------------------------------------------------- */

/* Start one process a rank; demo_kill() ends them, at any time. */
int demo_spawn(struct demo *d);
void demo_kill(struct demo *d);

/* Wait until every worker is in `state`; progress() is called about 10 times a second if not NULL. */
int demo_await(struct demo *d, enum demo_state state, void (*progress)(const struct demo *d));

/* Let every worker go on from the state it has reported. */
int demo_release(struct demo *d);

/* A worker that is gone and had not to be, and took its namespace and link along: a sentence; NULL if all are there. */
const char *demo_lost(const struct demo *d);

/* -- check.c ------------------------------------------------------------ */

/* -EBADMSG, not reported, if anything differs that must not. */
int demo_check(const struct demo *d, const struct fpisa_counters *c, struct demo_check *k);

/* Return the call whose unrounded result is the true one: an average by reciprocal should be an average. */
struct oracle_call demo_ideal(const struct demo *d);

/* Return the number of adds that the histogram has counted. */
uint64_t demo_histogram_total(const struct demo *d);

/* Return whether the histogram equals the replay's: an add that discards something counts once there, as rounded or as overwritten. */
bool demo_histogram_agrees(const struct demo *d, const struct demo_check *k);

/* Return whether the four counts of the datapath equal the replay's. True if there was no replay. */
bool demo_counts_agree(const struct fpisa_counters *c, const struct demo_check *k);

/* -- report.c ----------------------------------------------------------- */

/* Show the progress of the sum by progress.h. */
void demo_progress(const struct demo *d);

int demo_report(const struct demo *d, const struct fpisa_counters *c, const struct demo_check *k);

#endif
