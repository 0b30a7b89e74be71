/* SPDX-License-Identifier: GPL-2.0-only */
/* Probes of the kernel's features */
#ifndef FPISA_DATAPATH_KERNEL_H
#define FPISA_DATAPATH_KERNEL_H

/* Return -EOPNOTSUPP, reported, if this kernel cannot run the datapath; 0 if it can or may not be asked. */
int refuse_kernel(void);

/* Return -EOPNOTSUPP, reported, for a PREEMPT_RT kernel, which no failed load shows; else 0. */
int refuse_realtime(void);

/* Load an XDP program that passes every frame. Return its descriptor, or -errno. Report nothing. */
int kernel_load_pass(void);

#endif
