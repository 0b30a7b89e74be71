/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * From a parsed frame (parse.h) to a contribution that has passed every
 * stateless check, or to a verdict. Followed by the gate (gate.h). All rules
 * are in fpisa/frame.h; this file fetches what they look at.
 */
#ifndef FPISA_BPF_INGRESS_H
#define FPISA_BPF_INGRESS_H

#include "gate.h"
#include "parse.h"

/* One entry a bit; `zeros` is a copy, for the loop's bound must stay in a register. */
GLOBAL_FN int fill_trie(void)
{
#pragma clang loop unroll(disable)
	for (__u32 lz = 0; lz < 32; lz++) {
		struct fpisa_lpm_key key = { .prefixlen = lz + 1, .addr = bpf_htonl(0x80000000u >> lz) };
		__u32 zeros = lz;

		bpf_map_update_elem(&fpisa_lpm, &key, &zeros, BPF_ANY);
	}
	return 0;
}

/* The trie of leading zeros, filled by whoever comes first when no loader did. */
static __always_inline int trie_ready(struct fpisa_control *control)
{
	if (fpisa_likely(*(volatile __u64 *)&control->trie_state == 2))
		return 1;
	if (__sync_val_compare_and_swap(&control->trie_state, 0, 1))
		return 0;
	fill_trie();
	__sync_lock_test_and_set(&control->trie_state, 2);
	return 1;
}

/* Does the trie by bytes have its longest prefix? It comes last, so the others are there too. */
static __always_inline int byte_trie_full(void)
{
	struct fpisa_lpm_key zero = { .prefixlen = 32 };
	__u32 *skip = bpf_map_lookup_elem(&fpisa_lpm_byte, &zero);

	return skip && *skip == fpisa_byte_skip(FPISA_BYTE_PREFIXES - 1);
}

/* Filled by whoever asks it first, whatever loaded it. Two that fill it at once write the same. */
GLOBAL_FN int byte_trie_ready(void)
{
	if (fpisa_likely(byte_trie_full()))
		return 1;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < FPISA_BYTE_PREFIXES; i++) {
		struct fpisa_lpm_key key = { .prefixlen = fpisa_byte_prefix(i) };
		__u32 skip = fpisa_byte_skip(i);

		if (bpf_map_update_elem(&fpisa_lpm_byte, &key, &skip, BPF_ANY))
			return 0;
	}
	return 1;
}

/* Every stateless check of a HELLO to job `id`; the sender's rank, or a negative verdict. */
GLOBAL_FN int check_hello(struct xdp_md *ctx, __u32 id, __u32 payload)
{
	struct fpisa_job *job = bpf_map_lookup_elem(&fpisa_jobs, &id);
	struct fpisa_sum sum = {};
	struct fpisa_hello *p;
	struct headers h;
	__u32 rank = 0;
	int v;

	if (!job || !find_headers(ctx, &h))
		return -FPISA_V_internal;
	v = fpisa_check_hello(h.fpisa, payload, job, h.ip->saddr, h.udp->source, &rank);
	if (v != FPISA_V_absorbed && v != FPISA_V_not_live)
		return -v;
	p = (void *)(h.fpisa + 1);
	if ((void *)(p + 1) > (void *)(long)ctx->data_end)
		return -FPISA_V_truncated;
	sum_header(h.fpisa, &sum);
	fpisa_sum_words(&sum, p, sizeof(*p) / 8);
	if (fpisa_sum_fold(&sum) != h.fpisa->checksum)
		return -FPISA_V_checksum;
	return v == FPISA_V_absorbed ? (int)rank : -v;
}

/* HELLO to job `id`, which exists; `payload` bytes follow the header. */
GLOBAL_FN int hello(struct xdp_md *ctx, __u32 id, __u32 payload)
{
	struct fpisa_control *control;
	struct fpisa_session *session;
	struct fpisa_sum sum = {};
	struct fpisa_peer *peer;
	struct fpisa_hello *p;
	struct fpisa_job *job;
	struct headers h;
	__u32 key = 0;
	int joined, rank = check_hello(ctx, id, payload);

	if (rank == -FPISA_V_not_live)
		return refuse(ctx, id, FPISA_V_not_live);
	if (rank < 0)
		return leave(id, -rank, XDP_DROP);
	control = bpf_map_lookup_elem(&fpisa_control, &key);
	session = bpf_map_lookup_elem(&fpisa_sessions, &id);
	job = bpf_map_lookup_elem(&fpisa_jobs, &id);
	if (!control || !session || !job || !find_headers(ctx, &h))
		return leave(id, FPISA_V_internal, XDP_DROP);
	p = (void *)(h.fpisa + 1);
	if ((void *)(p + 1) > (void *)(long)ctx->data_end)
		return leave(id, FPISA_V_truncated, XDP_DROP);
	key = id * FPISA_MAX_WORKERS + (__u32)rank;
	peer = bpf_map_lookup_elem(&fpisa_peers, &key);
	if (!peer)
		return leave(id, FPISA_V_internal, XDP_DROP);

	if (!guard_take(&session->guard))
		return leave(id, FPISA_V_busy, XDP_DROP);
	__builtin_memcpy(peer->mac, h.eth->h_source, ETH_ALEN);
	__builtin_memcpy(peer->local_mac, h.eth->h_dest, ETH_ALEN);
	peer->ifindex = ctx->ingress_ifindex;
	joined = fpisa_session_join(session, rank, h.fpisa->aux, *(volatile __u64 *)&job->live,
				    &control->next_generation);
	fpisa_make_welcome(h.fpisa, p, job, session, rank, joined);
	guard_release(&session->guard);

	sum = (struct fpisa_sum){};
	sum_header(h.fpisa, &sum);
	fpisa_sum_words(&sum, p, sizeof(*p) / 8);
	h.fpisa->checksum = fpisa_sum_fold(&sum);
	return leave(id, FPISA_V_welcome, to_sender(ctx, &h, sizeof(*p)));
}

/* Every stateless check of an ADD to job `id` but the checksum; a verdict. */
GLOBAL_FN int check_add(struct xdp_md *ctx, __u32 id, __u32 payload, __u32 port)
{
	struct fpisa_job *job = bpf_map_lookup_elem(&fpisa_jobs, &id);
	struct headers h;
	int v;

	if (!job || !find_headers(ctx, &h))
		return FPISA_V_internal;
	v = fpisa_check_add(h.fpisa, payload, job, h.ip->saddr, h.udp->source);
	return v == FPISA_V_absorbed ? fpisa_check_port(h.fpisa, job, port) : v;
}

static __always_inline int add(struct xdp_md *ctx, struct fpisa_phv *phv, struct headers *h, __u32 id,
			       struct fpisa_job *job, struct fpisa_control *control, __u32 payload,
			       __u32 port)
{
	struct fpisa_format f = fpisa_job_format(job);
	struct fpisa_counters *c = counters_of(id);
	__u32 v = check_add(ctx, id, payload, port);

	/* What a member is told needs a frame that is whole: the checksum first. */
	if (v >= FPISA_V_FIRST_DROP && !fpisa_reported(v))
		return leave(id, v, XDP_DROP);
	if (frame_sum(ctx, payload) != h->fpisa->checksum)
		return leave(id, FPISA_V_checksum, XDP_DROP);
	if (v != FPISA_V_absorbed)
		return refuse(ctx, id, v);

	phv->job = id;
	phv->key = job->slot_base + h->fpisa->slot;
	phv->blocks = h->fpisa->count / FPISA_BLOCK;
	phv->rank = h->fpisa->rank;
	phv->probe = !!(h->fpisa->flags & FPISA_F_PROBE);
	phv->resend = 0;
	phv->events = 0;
	phv->flags = 0;
	phv->mode = job->mode;
	phv->rounding = job->rounding;
	phv->clz = job->clz;
	phv->pipeline = job->pipeline;
	phv->op = h->fpisa->op;
	phv->keyed = fpisa_keyed(f, h->fpisa->op);
	phv->shared = f.shared;
	phv->swap = job->flags & FPISA_JOB_BIG_ENDIAN;
	phv->uncounted = job->flags & FPISA_JOB_UNCOUNTED;
	phv->by_unit = phv->keyed || f.shared || h->fpisa->op == FPISA_OP_NORM;
	phv->format = pack_format(f);
	phv->bank = fpisa_bank_of(job->family, control->bank);
	if (!c)
		return leave(id, FPISA_V_internal, XDP_DROP);
	if (phv->clz == FPISA_CLZ_LPM && !trie_ready(control))
		return leave(id, FPISA_V_busy, XDP_DROP);
	if (phv->clz == FPISA_CLZ_LPM_BYTE && !byte_trie_ready())
		return leave(id, FPISA_V_busy, XDP_DROP);
	if (h->fpisa->flags & FPISA_F_RETRANSMIT)
		c->retransmissions++;
	if (!job->family)
		return gate(ctx, phv);
	/* No slot is taken yet: a family that is not loaded costs this frame alone. */
	tail_call(ctx, phv->bank + FPISA_GATE);
	return leave(id, FPISA_V_family, XDP_DROP);
}

/* A new packet. */
static __always_inline int ingress(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	struct fpisa_control *control;
	struct fpisa_counters *c;
	struct headers h;
	struct fpisa_job *job;
	enum fpisa_verdict v;
	__u32 payload, port, id, zero = 0;

	control = bpf_map_lookup_elem(&fpisa_control, &zero);
	if (!control)
		return XDP_PASS;
	v = parse(ctx, control, &payload, &port);
	if (v == FPISA_V_not_ours)
		return leave(FPISA_MAX_JOBS, v, XDP_PASS);
	if (v != FPISA_V_absorbed)
		return leave(FPISA_MAX_JOBS, v, XDP_DROP);
	if (!find_headers(ctx, &h))
		return leave(FPISA_MAX_JOBS, FPISA_V_internal, XDP_DROP);
	id = h.fpisa->job;
	job = bpf_map_lookup_elem(&fpisa_jobs, &id);
	if (!job || !job->active)
		return leave(FPISA_MAX_JOBS, FPISA_V_no_job, XDP_DROP);
	if (h.ip->daddr != job->address)
		return leave(id, FPISA_V_elsewhere, XDP_PASS);
	c = counters_of(id);
	if (c) {
		c->packets++;
		c->bytes += FPISA_PAYLOAD_OFFSET + payload;
	}
	v = fpisa_check_type(h.fpisa);
	if (v != FPISA_V_absorbed)
		return leave(id, v, XDP_DROP);
	/* Replies are made of the frame, and come from the first port. */
	h.udp->dest = bpf_htons(port_of(control));
	if (h.fpisa->type == FPISA_TYPE_HELLO)
		return port ? leave(id, FPISA_V_port, XDP_DROP) : hello(ctx, id, payload);
	return add(ctx, phv, &h, id, job, control, payload, port);
}

#endif
