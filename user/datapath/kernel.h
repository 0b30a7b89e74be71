/* SPDX-License-Identifier: GPL-2.0-only */
/* Probes of the kernel's features. */
#ifndef FPISA_DATAPATH_KERNEL_H
#define FPISA_DATAPATH_KERNEL_H

/* -EOPNOTSUPP, reported, if this kernel cannot run the datapath; 0 if it can or may not be asked. */
int refuse_kernel(void);

/* The same, of the one thing that no failed load shows. */
int refuse_realtime(void);

/* fd of an XDP program that passes every frame, or -errno. Reports nothing. */
int kernel_load_pass(void);

#endif
