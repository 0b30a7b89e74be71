/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Steering. If all frames come to one receive queue, the CPU of that queue passes the frames of each slot to one of
 * several CPUs. bpf/fpisa_steer.bpf.c does this, and user/datapath/steer.c sets it up.
 */
#ifndef FPISA_STEER_H
#define FPISA_STEER_H

#include "base.h"

#define FPISA_STEER_CPUS 64 /* largest number of CPUs for steering */

/*
 * Largest number of frames that may wait at a CPU. A worker has at most a window of frames in flight, so 64 workers
 * with the default window of 64 never fill the queue of one CPU. The kernel allows at most 16384.
 */
#define FPISA_STEER_QUEUE 4096
#define FPISA_STEER_MAX_QUEUE 16384

/* Configuration of steering. User space writes it before the first frame, and does not change it later. */
struct fpisa_steering {
	__u32 cpus;  /* number of entries of `cpu` in use; 0: not set up yet */
	__u32 queue; /* frames that may wait at each CPU */
	__u32 cpu[FPISA_STEER_CPUS];
};

/*
 * Counters, per CPU. A frame that was sent to a CPU and not yet taken there waits in the queue of the CPU, or did not
 * fit into the queue.
 */
struct fpisa_steered {
	__u64 taken;		      /* frames that this CPU took */
	__u64 sent[FPISA_STEER_CPUS]; /* frames that this CPU sent to each CPU of fpisa_steering.cpu[] */
};

/*
 * Return the index of the CPU that owns a slot. `slot` has the form of the header. Both versions of a slot have the
 * same CPU.
 */
static __always_inline __u32 fpisa_slot_cpu(__u32 slot, __u32 cpus)
{
	return (slot >> 1) % cpus;
}

#endif
