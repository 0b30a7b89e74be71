/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The jobs that the packet fuzzer attacks. Each job exists twice: in the loaded datapath, whose maps are mapped into
 * this process, and in the user-space aggregator (user/lib/soft/soft.h), which gets the same frames.
 */
#ifndef TARGETS_H
#define TARGETS_H

#include "fpisa/discard.h"
#include "harness.h"
#include "lib/soft/soft.h"

#define TARGETS_MAX FPISA_MAX_JOBS

/* Ports after the first. A job may have more, and some jobs here have fewer. */
#define TARGETS_MORE_PORTS 7

#define TARGETS_VLAN 7

struct target {
	const char *name;
	struct fpisa_job job;
	bool no_ports; /* the aggregator has no port for results */
	bool unloaded; /* the programs of the job's family, the last number, are not loaded */
	uint32_t id;
	struct fpisa_soft soft;
	struct fpisa_counters counted; /* expected counts, by verdict */
	uint64_t discards;	       /* expected counts of the histogram */

	/* State in the datapath */
	struct fpisa_job *live; /* only .live changes */
	struct fpisa_session *session;
	struct fpisa_peer *peer;
	struct fpisa_slot *slot; /* 2W versions */
	struct fpisa_counters *counters;
	struct fpisa_histogram *histogram;
};

extern struct target target[];
extern const int targets;

/* State of the datapath outside of jobs */
extern struct fpisa_control *targets_control;
extern struct fpisa_counters *targets_unowned; /* counters of frames of no job */

/* Make the maps mappable, and the counters shared by all CPUs. Call this before harness_open(). */
void targets_prepare(struct bpf_object *o);

/* Create all jobs in the datapath and in user space. Return -errno after reporting an error. */
int targets_open(struct harness *h);
void targets_close(void);

/*
 * Compare the state with the last accepted state. targets_changed() covers the job's session, peers and slots, the
 * registers of version `key` (-1: no version) and the control entry. It returns NULL, or the name of the first part
 * that changed. targets_accept() accepts the current state.
 */
const char *targets_changed(const struct target *t, int key);
void targets_accept(const struct target *t, int key);
const char *targets_changed_anywhere(void);

/*
 * Compare version `key` with its copy in the user-space aggregator. Return NULL, or the name of the part that differs.
 */
const char *targets_differ(const struct target *t, int key);

#endif
