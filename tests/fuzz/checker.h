/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The expected outcome of a frame, and the check of the actual outcome: a model of the headers
 * below FPISA's, the aggregator of user space, and the state before and after
 */
#ifndef CHECKER_H
#define CHECKER_H

#include "mutate.h"
#include "targets.h"

/* Counts of the run, shared with the parent, which reports if the child has died */
struct summary {
	uint64_t cases, mutated, repaired, passed, refused, replies, rounds;
	uint64_t crashes, changed, wrong_verdict, wrong_reply, wrong_state, not_identical;
	uint64_t reached[FPISA_VERDICT_COUNT];
	int done;
};

/* One case */
struct attempt {
	struct frame sent, in, out; /* in: the frame as sent, without its VLAN tag */
	int tag;		    /* VLAN ID of the tag; -1: none */
	char mutations[MUTATE_NAMES];
	struct target *t;	    /* job that the header names; NULL: none */
	enum fpisa_verdict verdict; /* expected verdict; the fields below are expected too */
	int action, key;	    /* action and key of the version touched; -1: none */
	bool counted_as_job;	    /* otherwise the frame belongs to no job */
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

/* Count in *counter that the case went wrong, and print the first few cases. */
void complain(uint64_t *counter, const char *what);

/* Fill in the expected outcome of a.sent, from a.verdict on. The caller has zeroed these fields. */
void checker_expect(void);

/* Check a.out: counters, action, reply and state must be as expected. */
void checker_verify(void);

#endif
