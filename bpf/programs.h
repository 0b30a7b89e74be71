/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The nine stage programs of a family. The object that includes this names
 * them fpisa_mau0..8: MAU k's contains the chain from k on.
 */
#ifndef FPISA_BPF_PROGRAMS_H
#define FPISA_BPF_PROGRAMS_H

#include "pipeline.h"

#define STAGE(k)                                                                \
	SEC("stage") int fpisa_mau##k(struct xdp_md *ctx)                       \
	{                                                                       \
		__u32 zero = 0;                                                 \
		struct fpisa_phv *phv = bpf_map_lookup_elem(&fpisa_phv, &zero); \
                                                                                \
		if (!phv)                                                       \
			return XDP_ABORTED;                                     \
		phv->stage = 0;                                                 \
		return chain(ctx, phv, k);                                      \
	}

STAGE(0)
STAGE(1)
STAGE(2)
STAGE(3)
STAGE(4)
STAGE(5)
STAGE(6)
STAGE(7)
STAGE(8)

#endif
