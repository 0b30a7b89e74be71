/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The expected outcome of a frame of a query, and the check of the actual outcome. The query in user space receives
 * exactly the frames that count.
 */
#ifndef QUERY_CHECKER_H
#define QUERY_CHECKER_H

#include "query/soft/query.h"
#include "mutate.h"
#include "prog/query/queries.h"

#define WORKERS 3
#define SENDER 1000 /* the receiver of a reply if no member's rank is known */

struct target {
	const char *name;
	unsigned int kind;
	struct fpisa_query_config config;
	struct query q;
	struct fpisa_soft_query soft;
	uint64_t next[WORKERS]; /* sequence numbers at which rows begin */
};

extern struct target target[];
extern const int targets;
extern uint64_t seed, cases, wrong, reached[FPISA_VERDICT_COUNT];

/* One case: the frame as it is sent, the same without its VLAN tag, and the expected outgoing frame */
struct attempt {
	struct frame sent, in, out;
	char mutations[MUTATE_NAMES];
	struct target *t; /* NULL: no query */
	enum fpisa_verdict verdict;
	int action;
	uint32_t to, payload; /* the reply's receiver, a rank or SENDER; the reply's bytes after the header */
	struct {
		struct fpisa_hdr hdr;
		uint8_t payload[HARNESS_FRAME];
	} reply;
};

extern struct attempt a;

const char *verdict_name(unsigned int v);

/* Set a.in from a.sent, and fill in the expected outcome of a.sent. Return false for a HELLO, which packets.c tests instead. */
bool checker_expect(void);

/* Run a.sent and check counter, action, reply and state. The expectation is in a.t, a.verdict and a.action. */
void checker_run(void);

/* Check that the tables, heaps and filters of all queries equal their copies in user space. */
void checker_maps(void);

#endif
