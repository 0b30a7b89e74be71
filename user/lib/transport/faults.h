/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Fault injection. An injector returns each inserted frame at once, late, twice, damaged or never, according to a seed
 * and five shares. faults.c also wraps a transport in two injectors, one for each direction, for options.loss and the
 * other faults in fpisa.h. `fpisa soak` uses an injector between machines.
 */
#ifndef FPISA_FAULTS_H
#define FPISA_FAULTS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>
#include "transport.h"

/* Longest time for which later frames overtake a reordered frame. */
#define FPISA_FAULT_REORDER_NS 1000000ull

/*
 * Shortest delay of a delayed frame. The longest delay is 256 times as long, and each doubling has the same
 * probability. The delays range from about one round to many, so most delayed frames arrive when a retransmission has
 * replaced them and their slot has the next chunk.
 */
#define FPISA_FAULT_DELAY_NS 1000000ull
#define FPISA_FAULT_DELAY_DOUBLINGS 8

/*
 * Number of flipped bits of a damaged frame, which is 1 to 8 except 3 and 4. With 3 or 4 bits, the checksum misses one
 * pattern in a million (doc/protocol.md, section 5). Without these counts, a wrong result proves a defect of this
 * software.
 */
#define FPISA_FAULT_BITS         \
	{                        \
		1, 2, 5, 6, 7, 8 \
	}

/* Largest share, because a call could not end if all frames were lost. */
#define FPISA_FAULT_MOST 0.9

/* Largest number of frames that are held at the same time. More frames are dropped. */
#define FPISA_FAULT_HELD 4096

/* Shares of frames, 0 to 1. */
struct fpisa_fault_rates {
	double drop, duplicate, reorder, delay, corrupt;
};

struct fpisa_frame {
	TAILQ_ENTRY(fpisa_frame) link;
	uint64_t due_ns;
	size_t len;
	uint16_t port;			  /* member `port` of struct fpisa_out */
	_Alignas(8) unsigned char data[]; /* aligned for struct fpisa_in */
};

TAILQ_HEAD(fpisa_frames, fpisa_frame);

struct fpisa_faults {
	struct fpisa_fault_rates rates;
	uint64_t random;
	size_t intact; /* number of bytes at the start of a frame that are never damaged */
	uint32_t held;
	struct fpisa_frames frames; /* held frames, in the order of their times */
	/* Counts of the faults, by kind. */
	uint64_t dropped, duplicated, reordered, delayed, corrupted;
};

void fpisa_faults_init(struct fpisa_faults *f, const struct fpisa_fault_rates *rates, uint64_t seed, size_t intact);
void fpisa_faults_free(struct fpisa_faults *f);

/* Insert a copy of a frame. Without memory for the copy, the frame is dropped. */
void fpisa_faults_put(struct fpisa_faults *f, const struct iovec *parts, int n, uint16_t port, uint64_t now_ns);

/* Insert a frame without any fault, behind frames that are already due. */
void fpisa_faults_pass(struct fpisa_faults *f, const struct iovec *parts, int n, uint64_t now_ns);

/* Return the next frame that is due, or NULL. The caller frees the frame by free(). */
struct fpisa_frame *fpisa_faults_take(struct fpisa_faults *f, uint64_t now_ns);

/* Return the time at which the next frame is due, or UINT64_MAX if there is no frame. */
uint64_t fpisa_faults_due(const struct fpisa_faults *f);

/*
 * Replace *t by a transport that uses the old *t, injects faults in both directions, and closes the old *t at the end.
 * If *t already injects faults, change its rates. Do nothing if *t injects no faults and all rates are 0. Return 0 or
 * -ENOMEM.
 */
int fpisa_faults_wrap(struct fpisa_transport **t, const struct fpisa_fault_rates *rates, uint64_t seed);

/*
 * Return the faults that a job requests from its workers (`fpisa job add --debug-faults`), in addition to a worker's
 * own.
 */
struct fpisa_fault_rates fpisa_faults_of_job(const struct fpisa_fault_rates *own, const struct fpisa_job_faults *job);

#endif
