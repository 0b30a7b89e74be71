/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Step 3 of 7, from check.h to admission.h: copy the data of a contribution that later steps need into the PHV. Only
 * the PHV survives a tail call.
 */
#ifndef FPISA_BPF_PHV_H
#define FPISA_BPF_PHV_H

#include "counters.h"
#include "packet.h"

/*
 * The packet header vector, which passes the state of one packet from stage to stage. There is one PHV for each CPU.
 * This is enough, because XDP programs of a CPU do not nest, and a tail call stays on its CPU. Kernels with PREEMPT_RT,
 * where one program may preempt another, are refused (user/datapath/kernel.c).
 */
struct fpisa_phv {
	__u32 stage;   /* next step: 0 for a new packet, k + 1 if the next program must run MAU k */
	__u32 job;     /* job number */
	__u32 key;     /* key of the slot version for the contribution */
	__u32 blocks;  /* number of blocks of 32 elements in this frame */
	__u32 bank;    /* index of the first program of the family and bank that this packet uses */
	__u32 format;  /* the job's format, packed (family.h) */
	__u32 flags;   /* result flags of the read-out */
	__u64 events;  /* events of the add, format.h */
	__u64 results; /* the secret of the generation's results */
	__u16 rank;    /* the sender's rank */
	__u8 first;    /* the contribution is the first of the round and overwrites the registers */
	__u8 resend;   /* the result goes to the sender alone */
	__u8 probe;    /* the sender requests a STATUS if the round is not complete */
	__u8 mode;
	__u8 rounding;
	__u8 clz;
	__u8 pipeline;
	__u8 op;	/* operation of the round */
	__u8 encoded;	/* the mantissa registers hold order-preserving encodings or integers (fpisa/op.h) */
	__u8 by_unit;	/* no fused body supports this format or operation, so units run one by one */
	__u8 swap;	/* the payload is big-endian */
	__u8 shared;	/* the payload begins with its scales */
	__u8 checked;	/* every sum is checked, because the headroom is too small for the adds of the round */
	__u8 uncounted; /* the job does not count the events of adds; only the result flags need them */
	__u8 marked;	/* FPISA_F_MARKED if the frame came with a mark of congestion, else 0 */
	__u8 tagged;	/* the frame came with a VLAN tag, which has been removed */
	__u8 part;	/* for a leaf: the first part to send */
	__u8 port;	/* for a part: index of the frame's port */
	__u32 payload;	/* for a part, or a frame of a leaf's parent: bytes after the FPISA header */
	struct fpisa_address from; /* source of the frame */
	struct fpisa_address to;   /* destination of an IPv6 frame */
	struct fpisa_final final;  /* work of the read-out besides rounding */
	struct fpisa_phv_block b[FPISA_MAX_BLOCKS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fpisa_phv);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_phv SEC(".maps");

/* Pack a format into 32 bits. family_format() unpacks it (family.h). */
static __always_inline __u32 pack_format(struct fpisa_format f)
{
	return f.ebits | (__u32)f.mbits << 8 | (__u32)f.guard << 16 | (__u32)f.finite << 24 | (__u32)f.integer << 25 |
	       (__u32)f.shared << 26;
}

/*
 * Fill all members except `first`, `checked`, `results` and `final`, which only the owner of the slot can set. `resend`
 * stays 0 unless the sender asks for a kept result (admission.h).
 */
static __always_inline void fill_phv(struct fpisa_phv *phv, const struct packet *p, const struct fpisa_control *control)
{
	const struct fpisa_hdr *h = p->h.fpisa;
	const struct fpisa_job *job = p->job;
	struct fpisa_format f = fpisa_job_format(job);

	phv->job = p->id;
	phv->key = job->slot_base + h->slot;
	phv->blocks = h->count / FPISA_BLOCK;
	phv->bank = fpisa_bank_of(job->family, control->bank);
	phv->format = pack_format(f);
	phv->flags = 0;
	phv->events = 0;
	phv->rank = h->rank;
	phv->resend = 0;
	phv->part = 0;
	phv->probe = !!(h->flags & FPISA_F_PROBE);
	phv->mode = job->mode;
	phv->rounding = job->rounding;
	phv->clz = job->clz;
	phv->pipeline = job->pipeline;
	phv->op = h->op;
	phv->encoded = fpisa_encoded(f, h->op);
	phv->by_unit = phv->encoded || f.shared || h->op == FPISA_OP_NORM;
	phv->swap = job->flags & FPISA_JOB_BIG_ENDIAN;
	phv->shared = f.shared;
	phv->uncounted = job->flags & FPISA_JOB_UNCOUNTED;
	phv->marked = FPISA_IS_CE(p->h.ip->tos) ? FPISA_F_MARKED : 0;
}

/*
 * Find the packet of the PHV again after a tail call. Do not set `whole`, `payload` and `port`, which only the checks
 * need. Return 0 if a map entry is missing, which cannot happen. Set p->slot if the slot exists, even if another entry
 * is missing.
 */
static __always_inline int find_packet(struct xdp_md *ctx, const struct fpisa_phv *phv, struct packet *p)
{
	p->id = phv->job;
	p->slot = lookup(&fpisa_slots, phv->key);
	p->job = lookup(&fpisa_jobs, phv->job);
	p->session = lookup(&fpisa_sessions, phv->job);
	p->counters = counters_of(phv->job);
	return find_headers(ctx, &p->h) && p->slot && p->job && p->session && p->counters;
}

#endif
