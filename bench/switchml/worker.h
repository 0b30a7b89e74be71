/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A worker beside a SwitchML-style worker: main.c has the aggregator, runs and
 * figures, worker.c a worker's process, switchml.h SwitchML's conversions.
 */
#ifndef BENCH_SWITCHML_WORKER_H
#define BENCH_SWITCHML_WORKER_H

#include <stdint.h>

#include "../common.h"
#include "lab/testbed/process.h"
#include "lab/testbed/star.h"

#define EXPONENT_FRAME 32   /* values of a frame with one exponent, the fewest a frame can have */
#define BLOCK_CHUNKS 1024   /* chunks that a SwitchML worker converts at a time: its data stay in the cache */
#define ADDRESS 0x0a4eff01u /* 10.78.255.1 */
#define NETWORK 0x0a4e0000u /* 10.78.RANK.1 and .2 are the ends of a worker's link */

enum contender { SWITCHML, UDP, XSK, UDP_TAGS, UDP_PROGRESS, XSK_PROGRESS, CONTENDERS };

extern const char *const contender_name[CONTENDERS];

/* The aggregator's jobs; a worker has a handle for each. */
enum job { JOB_FLOAT, JOB_XSK, JOB_INT, JOB_EXPONENT, JOB_TAGS, JOBS };

#define BENCH_TOKEN 0x5eadbeefcafe0001ull /* token of the job JOB_TAGS */

struct plan {
	uint32_t workers, packet, window, runs;
	uint64_t vector, elements; /* as requested; in whole blocks */
	uint64_t calls;		   /* calls in which udp and xsk sum a vector, one after the other */
	int progress;		   /* run the last two contenders too */
	const char *only;
	struct star star;
};

struct worker_rank {
	const struct plan *plan;
	uint32_t rank;
};

/*
 * Run a worker's process; arg is a struct worker_rank. Its first order sets up its
 * link, each further order names a contender.
 */
void worker_work(void *arg, int control);

#endif
