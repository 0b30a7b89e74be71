/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Fault injection. A frame that goes in comes out at once, late, twice, damaged or never, according to a seed and five
 * shares. faults.c also wraps a transport in two injectors, one for each direction, for options.loss and the other
 * faults in fpisa.h. `fpisa soak` uses an injector between machines.
 */
#ifndef FPISA_FAULTS_H
#define FPISA_FAULTS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>
#include "transport.h"

/* A reordered frame is overtaken by others for up to this time. */
#define FPISA_FAULT_REORDER_NS 1000000ull

/*
 * The delay of a delayed frame is between this and 256 times this, with equal probability for each doubling: from about
 * a round to many. So most delayed frames arrive when a retransmission has replaced them and their slot has moved on.
 */
#define FPISA_FAULT_DELAY_NS 1000000ull
#define FPISA_FAULT_DELAY_DOUBLINGS 8

/*
 * A damaged frame has this many bits flipped: all counts up to 8 but 3 and 4, of which the checksum misses one pattern
 * in a million (doc/protocol.md, section 5). A wrong result then shows a fault of ours.
 */
#define FPISA_FAULT_BITS         \
	{                        \
		1, 2, 5, 6, 7, 8 \
	}

/* The largest share: a call could not end if all frames were lost. */
#define FPISA_FAULT_MOST 0.9

/* Number of frames held at once; more are dropped. */
#define FPISA_FAULT_HELD 4096

/* Shares of frames, 0 to 1. */
struct fpisa_fault_rates {
	double drop, duplicate, reorder, delay, corrupt;
};

struct fpisa_frame {
	TAILQ_ENTRY(fpisa_frame) link;
	uint64_t due_ns;
	size_t len;
	uint16_t port;			  /* the port in fpisa_out */
	_Alignas(8) unsigned char data[]; /* aligned for fpisa_in */
};

TAILQ_HEAD(fpisa_frames, fpisa_frame);

struct fpisa_faults {
	struct fpisa_fault_rates rates;
	uint64_t random;
	size_t intact; /* first bytes of a frame that are never damaged */
	uint32_t held;
	struct fpisa_frames frames; /* in the order in which they come out */
	/* Counts of the faults, by kind. */
	uint64_t dropped, duplicated, reordered, delayed, corrupted;
};

void fpisa_faults_init(struct fpisa_faults *f, const struct fpisa_fault_rates *rates, uint64_t seed, size_t intact);
void fpisa_faults_free(struct fpisa_faults *f);

/* Insert a copy of a frame. Without memory for the copy, the frame is dropped. */
void fpisa_faults_put(struct fpisa_faults *f, const struct iovec *parts, int n, uint16_t port, uint64_t now_ns);

/* Insert a frame without any fault, after those that are due already. */
void fpisa_faults_pass(struct fpisa_faults *f, const struct iovec *parts, int n, uint64_t now_ns);

/* Return the next frame that is due, for the caller to free(); NULL if none is. */
struct fpisa_frame *fpisa_faults_take(struct fpisa_faults *f, uint64_t now_ns);

/* Return when the next frame is due; UINT64_MAX for never. */
uint64_t fpisa_faults_due(const struct fpisa_faults *f);

/*
 * Replace *t by a transport that works through it, injects faults each way, and closes it in the end. If *t already
 * injects faults, give it these rates from now on. Do nothing if all rates are 0 and *t injects no faults. -ENOMEM
 */
int fpisa_faults_wrap(struct fpisa_transport **t, const struct fpisa_fault_rates *rates, uint64_t seed);

/*
 * Return the faults that a job requests from its workers (`fpisa job add --debug-faults`), in addition to a worker's
 * own.
 */
struct fpisa_fault_rates fpisa_faults_of_job(const struct fpisa_fault_rates *own, const struct fpisa_job_faults *job);

#endif
