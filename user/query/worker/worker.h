/* SPDX-License-Identifier: GPL-2.0-only */
/* The worker, which serves its tables to the masters of queries. */
#ifndef FPISA_QUERY_WORKER_H
#define FPISA_QUERY_WORKER_H

int verb_query_worker(int argc, char **argv);

#endif
