/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Steering. If all frames come to one receive queue, the CPU of that queue passes the frames of each slot to one of
 * several CPUs. bpf/fpisa_steer.bpf.c does this, and user/datapath/steer.c sets it up.
 */
#ifndef FPISA_STEER_H
#define FPISA_STEER_H

#include "base.h"

#define FPISA_STEER_CPUS 64 /* at most */

/*
 * Frames that may wait at a CPU. A worker has at most a window of frames in flight, so 64 workers with the default
 * window of 64 never fill it, whatever CPU owns their slots. The kernel allows at most 16384.
 */
#define FPISA_STEER_QUEUE 4096
#define FPISA_STEER_MAX_QUEUE 16384

/* Written by user space before the first frame, then constant. */
struct fpisa_steering {
	__u32 cpus;  /* entries of `cpu` in use; 0: not set up yet */
	__u32 queue; /* frames that may wait at each CPU */
	__u32 cpu[FPISA_STEER_CPUS];
};

/* Counters, per CPU. A frame that was sent to a CPU and not taken there waits in its queue, or did not fit into it. */
struct fpisa_steered {
	__u64 taken;		      /* by this CPU */
	__u64 sent[FPISA_STEER_CPUS]; /* by this CPU to fpisa_steering.cpu[] */
};

/* Return the index of the CPU that owns a slot; `slot` as in the frame's header, so that both versions go together. */
static __always_inline __u32 fpisa_slot_cpu(__u32 slot, __u32 cpus)
{
	return (slot >> 1) % cpus;
}

#endif
