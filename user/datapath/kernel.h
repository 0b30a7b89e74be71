/* SPDX-License-Identifier: GPL-2.0-only */
/* Probes of kernel features. */
#ifndef FPISA_DATAPATH_KERNEL_H
#define FPISA_DATAPATH_KERNEL_H

/*
 * If this kernel cannot run the datapath, report this and return -EOPNOTSUPP. Return 0 if it can, or if the caller may
 * not probe the kernel.
 */
int refuse_kernel(void);

/*
 * For a PREEMPT_RT kernel, report this and return -EOPNOTSUPP, otherwise return 0. On such a kernel, loading does not
 * fail.
 */
int refuse_realtime(void);

/* Load an XDP program that passes every frame. Return its descriptor, or a negative errno. Report no errors. */
int kernel_load_pass(void);

#endif
