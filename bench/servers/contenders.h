/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Our aggregator beside servers: wire.c has options, runs and figures, network.c
 * links and aggregators, worker.c the workers, server.h the servers.
 */
#ifndef BENCH_CONTENDERS_H
#define BENCH_CONTENDERS_H

#include <stdint.h>

#include "../common.h"
#include "lab/testbed/process.h"
#include "lab/testbed/star.h"

enum contender { FPISA_XDP, UDP_AVX2, XDP_AVX2, CONTENDERS };

struct plan {
	uint32_t workers, packet, window, runs;
	int gso;	   /* batches pass the links whole */
	uint64_t elements; /* elements of a vector, whole packets */
	uint64_t seed;
	double loss; /* injected at the workers */
	struct star star[CONTENDERS];
	/* Shared by all processes: one vector per rank, and the order of arrival of each chunk as each rank was told. */
	float *send, *recv;
	uint64_t *order;
};

/* The tasks of a worker. */
enum task { TASK_LINK, TASK_FILL, TASK_CLEAR, TASK_SUM, TASK_CHECK };

struct order {
	enum task task;
	enum contender contender; /* for TASK_SUM and TASK_CHECK */
	uint32_t run;		  /* for TASK_FILL */
};

/*
 * Let a separate kernel thread poll an end of a link, whatever its peer is, and return its pid. GRO makes the
 * end poll. The peer must not have TSO, because otherwise the kernel assumes that GRO is useless
 * (veth_skb_is_eligible_for_gro()) and charges the work to the sender.
 */
pid_t wire_poll(const char *dev);

extern const char *const wire_contender[CONTENDERS]; /* names */

struct wire_worker {
	const struct plan *plan;
	uint32_t rank;
};

/* Run a worker's process; arg is a struct wire_worker. */
void wire_work(void *arg, int control);

struct wire {
	struct plan plan;
	struct processes workers, servers;
	pid_t napi[CONTENDERS][PROCESSES_MAX];
	char fpisa[288]; /* path of the command */
};

/* Make this process the aggregators' side, with links, workers, servers and our datapath. */
int wire_set_up(struct wire *w);

/* Let all workers carry out an order. Sum their reports into *sum, which may be NULL: retransmits of TASK_SUM. */
int wire_order(const struct wire *w, const struct order *o, struct report *sum);

/* Return the CPU time of the threads that poll the links of a contender's aggregator. wire_served_ns(): of its process. */
uint64_t wire_polled_ns(const struct wire *w, enum contender c);
uint64_t wire_served_ns(const struct wire *w, enum contender c);

#endif
