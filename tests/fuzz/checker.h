/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The expected fate of a frame, and the check of the real one: a model of the headers
 * below FPISA's, the aggregator of user space, the state before and after.
 */
#ifndef CHECKER_H
#define CHECKER_H

#include "mutate.h"
#include "targets.h"

/* Counts of the run; shared with the parent, which reports when the child has died. */
struct summary {
	uint64_t cases, mutated, repaired, passed, refused, replies, rounds;
	uint64_t crashes, changed, wrong_verdict, wrong_reply, wrong_state, not_identical;
	uint64_t reached[FPISA_VERDICT_COUNT];
	int done;
};

/* One case. */
struct attempt {
	struct frame in, out;
	char mutations[MUTATE_NAMES];
	struct target *t;	    /* whose header it is; NULL: no job's */
	enum fpisa_verdict verdict; /* expected, as the rest */
	int action, key;	    /* of the version touched, -1: none */
	bool counted_as_job;	    /* else among the frames of no job */
	bool accepted;		    /* may change state */
	bool hello;
	uint64_t to; /* ranks that get the reply */
	size_t reply_len;
	union {
		struct fpisa_hdr hdr;
		uint8_t bytes[HARNESS_FRAME];
	} reply; /* from the FPISA header on */
};

extern struct summary *sum;
extern struct attempt a;
extern uint64_t seed;

const char *verdict_name(unsigned int v);

/* Counts in *counter that case a went wrong, and prints the first few. */
void complain(uint64_t *counter, const char *what);

/* Fills in what has to become of a.in, from a.verdict on; a is zeroed up to there. */
void checker_expect(void);

/* a.out is what came out: counters, action, reply and state must be as expected. */
void checker_verify(void);

#endif
