/* SPDX-License-Identifier: GPL-2.0-only */
/* The measurement `worker`. worker.c has figures and jobs, and worker_sums.c has the process of a worker. */
#ifndef BENCH_WORKER_H
#define BENCH_WORKER_H

#include "contenders.h"

/* number of values in a frame with one exponent, the minimum of a frame */
#define EXPONENT_FRAME 32
#define BENCH_TOKEN "5eadbeefcafe0001" /* the token of JOB_TAGS */

/* The jobs of the aggregator. A worker has a handle for each job. */
enum job { JOB_FLOAT, JOB_XSK, JOB_INT, JOB_EXPONENT, JOB_TAGS, JOBS };

#endif
