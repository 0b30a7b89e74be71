/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The expected outcome of a frame, and the check of the actual outcome. The expectation comes from a model of the
 * headers below FPISA's, the aggregator in user space, and the state before and after the frame.
 */
#ifndef CHECKER_H
#define CHECKER_H

#include "mutate.h"
#include "targets.h"

/* Counts of the run, shared with the parent, which reports them if the child has died */
struct summary {
	uint64_t cases, mutated, repaired, passed, refused, replies, rounds;
	uint64_t crashes, changed, wrong_verdict, wrong_reply, wrong_state, not_identical;
	uint64_t reached[FPISA_VERDICT_COUNT];
	int done;
};

/* One case */
struct attempt {
	struct frame sent, in, out; /* in: the frame without its VLAN tag */
	int tag;		    /* VLAN ID of the tag; -1: no tag */
	char mutations[MUTATE_NAMES];
	struct target *t;	    /* job that the header names; NULL: no job */
	enum fpisa_verdict verdict; /* this and all following members are expected values */
	int action, key;	    /* action; key of the touched version; -1: no version */
	bool counted_as_job;	    /* the frame is counted for the job */
	bool accepted;		    /* the frame may change state */
	bool hello;
	uint64_t to; /* ranks that receive the reply */
	size_t reply_len;
	union {
		struct fpisa_hdr hdr;
		uint8_t bytes[HARNESS_FRAME];
	} reply; /* bytes of the reply, from the FPISA header on */
};

extern struct summary *sum;
extern struct attempt a;
extern uint64_t seed;

const char *verdict_name(unsigned int v);

/* Count in *counter that the case failed, and print the first few cases. */
void complain(uint64_t *counter, const char *what);

/* Fill in the expected outcome of a.sent, in the fields from a.verdict on. The caller has zeroed these fields. */
void checker_expect(void);

/* Check that counters, action, reply and state in a.out match the expectation. */
void checker_verify(void);

#endif
