/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The jobs that the packet fuzzer attacks, each twice: in the loaded
 * datapath, whose maps are mapped here, and in the aggregator of user space
 * (user/lib/soft/soft.h), which gets the same frames.
 */
#ifndef TARGETS_H
#define TARGETS_H

#include "fpisa/discard.h"
#include "harness.h"
#include "lib/soft/soft.h"

#define TARGETS_MAX FPISA_MAX_JOBS

/* Behind the first; fewer than a job may have, more than some here do. */
#define TARGETS_MORE_PORTS 7

struct target {
	const char *name;
	struct fpisa_job job;
	bool no_ports; /* results have no port to leave by */
	bool unloaded; /* its family, the last number, has no programs */
	uint32_t id;
	struct fpisa_soft soft;
	struct fpisa_counters counted; /* expected, of the verdicts */
	uint64_t discards;	       /* expected: what the histogram has counted */

	/* In the datapath. */
	struct fpisa_job *live; /* .live changes */
	struct fpisa_session *session;
	struct fpisa_peer *peer;
	struct fpisa_slot *slot; /* 2W versions */
	struct fpisa_counters *counters;
	struct fpisa_histogram *histogram;
};

extern struct target target[];
extern const int targets;

/* State of the datapath outside of jobs. */
extern struct fpisa_control *targets_control;
extern struct fpisa_counters *targets_unowned; /* of frames of no job */

/* Before harness_open(): maps that can be mapped, counters that are not per CPU. */
void targets_prepare(struct bpf_object *o);

/* Make all jobs in both; -errno, reported. */
int targets_open(struct harness *h);
void targets_close(void);

/*
 * The state as it was when last accepted. same(): nothing of the job's
 * session, peers, slots, of version `key`'s registers (-1: none) and of the
 * control entry has changed. accept() takes it as it is now.
 */
const char *targets_changed(const struct target *t, int key);
void targets_accept(const struct target *t, int key);
const char *targets_changed_anywhere(void);

/* Does version `key` hold what the user-space aggregator holds? NULL, or what differs. */
const char *targets_differ(const struct target *t, int key);

#endif
