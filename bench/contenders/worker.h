/* SPDX-License-Identifier: GPL-2.0-only */
/* The measurement `worker`: worker.c, figures and jobs; worker_sums.c, a worker's process. */
#ifndef BENCH_WORKER_H
#define BENCH_WORKER_H

#include "contenders.h"

#define EXPONENT_FRAME 32	       /* values of a frame with one exponent, the fewest a frame can have */
#define BENCH_TOKEN "5eadbeefcafe0001" /* token of JOB_TAGS */

/* The aggregator's jobs; a worker has a handle for each. */
enum job { JOB_FLOAT, JOB_XSK, JOB_INT, JOB_EXPONENT, JOB_TAGS, JOBS };

#endif
