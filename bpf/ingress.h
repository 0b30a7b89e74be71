/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A new packet: parsed (parse.h), checked, and handed to admission (admission.h)
 * if it is a contribution that has passed every stateless check. A HELLO is
 * answered here. Rules are in fpisa/frame.h and slot.h; this file fetches what
 * they look at.
 */
#ifndef FPISA_BPF_INGRESS_H
#define FPISA_BPF_INGRESS_H

#include "admission.h"
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
	if (fpisa_likely(fpisa_read_once(&control->trie_state) == 2))
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

/* Rank `rank` of job `id` is alive. The tick is a load where programs are compiled, the clock a call. */
static __always_inline void mark_seen(__u32 id, __u32 rank)
{
	struct fpisa_last_seen *h = lookup(&fpisa_last_seen, id * FPISA_MAX_WORKERS + (rank & (FPISA_MAX_WORKERS - 1)));
	__u64 tick = bpf_jiffies64();

	if (!h || h->tick == tick)
		return;
	h->tick = tick;
	h->ns = bpf_ktime_get_ns();
}

/* Every stateless check of a HELLO to job `id` but the cookie; the sender's rank, or a negative verdict. */
GLOBAL_FN int check_hello(struct xdp_md *ctx, __u32 id, __u32 payload)
{
	struct fpisa_job *job = bpf_map_lookup_elem(&fpisa_jobs, &id);
	struct fpisa_hello *p;
	struct headers h;
	__u32 rank = 0;
	int v;

	if (!job || !find_headers(ctx, &h))
		return -FPISA_V_internal;
	p = (void *)(h.fpisa + 1);
	if ((void *)(p + 1) > (void *)(long)ctx->data_end)
		return -FPISA_V_length;
	v = fpisa_check_hello(h.fpisa, p, payload, job, h.ip->saddr, h.udp->source, &rank);
	return v == FPISA_V_ok ? (int)rank : -v;
}

/*
 * Where the answer to `rank`'s HELLO goes, and its results after it: the way that the kernel's routes and
 * neighbours know to its listed address, never back to whoever wrote that address. Asked as the host
 * itself would: from `lo`, whose forwarding `job add` switches on, for without it the helper refuses.
 */
GLOBAL_FN int find_nexthop(struct xdp_md *ctx, __u32 id, __u32 rank)
{
	struct bpf_fib_lookup fib = { .family = 2 /* AF_INET */, .l4_protocol = IPPROTO_UDP, .ifindex = 1 };
	struct fpisa_nexthop *hop = lookup(&fpisa_nexthop, 0);
	struct fpisa_peer *peer;
	struct fpisa_job *job = lookup(&fpisa_jobs, id);
	struct headers h;
	long rc;

	fpisa_opaque(rank);
	if (!hop || !job || rank >= FPISA_MAX_WORKERS || !find_headers(ctx, &h))
		return FPISA_V_internal;
	peer = lookup(&fpisa_peers, id * FPISA_MAX_WORKERS + rank);
	if (!peer)
		return FPISA_V_internal;
	if (job->rank[rank].given) {
		if (peer->ifindex && peer->ifindex != ctx->ingress_ifindex)
			return FPISA_V_route;
		__builtin_memcpy(hop->mac, h.eth->h_source, ETH_ALEN);
		__builtin_memcpy(hop->local_mac, h.eth->h_dest, ETH_ALEN);
		hop->ifindex = ctx->ingress_ifindex;
		return FPISA_V_ok;
	}
	fib.ipv4_dst = h.ip->saddr;
	fib.ipv4_src = h.ip->daddr;
	rc = bpf_fib_lookup(ctx, &fib, sizeof(fib), 0);
	if (rc == BPF_FIB_LKUP_RET_NO_NEIGH)
		return FPISA_V_unresolved;
	if (rc == BPF_FIB_LKUP_RET_FWD_DISABLED)
		return FPISA_V_forwarding;
	if (rc || fib.ifindex != peer->ifindex)
		return FPISA_V_route;
	__builtin_memcpy(hop->mac, fib.dmac, ETH_ALEN);
	__builtin_memcpy(hop->local_mac, fib.smac, ETH_ALEN);
	hop->ifindex = fib.ifindex;
	return FPISA_V_ok;
}

/* The cookie of `rank` in the incarnation that the HELLO names. */
GLOBAL_FN __u64 cookie_of(struct xdp_md *ctx, __u32 id, __u32 rank)
{
	struct fpisa_job *job = lookup(&fpisa_jobs, id);
	struct headers h;

	return job && find_headers(ctx, &h) ? fpisa_cookie(&job->key, rank, h.fpisa->aux) : 0;
}

/* `rank` has shown its cookie: into the session, and remember the way to it. */
GLOBAL_FN int join_session(struct xdp_md *ctx, __u32 id, __u32 rank)
{
	struct fpisa_control *control = lookup(&fpisa_control, 0);
	struct fpisa_session *session = lookup(&fpisa_sessions, id);
	struct fpisa_peer *peer = lookup(&fpisa_peers, id * FPISA_MAX_WORKERS + rank);
	struct fpisa_job *job = lookup(&fpisa_jobs, id);
	struct fpisa_nexthop *hop = lookup(&fpisa_nexthop, 0);
	struct fpisa_hello *p;
	struct headers h;
	int newest;

	fpisa_opaque(rank);
	if (!control || !session || !peer || !job || !hop || rank >= FPISA_MAX_WORKERS || !find_headers(ctx, &h))
		return FPISA_V_internal;
	p = (void *)(h.fpisa + 1);
	if ((void *)(p + 1) > (void *)(long)ctx->data_end)
		return FPISA_V_truncated;
	mark_seen(id, rank);
	if (!lock_take(&session->lock))
		return FPISA_V_busy;
	newest = fpisa_welcome(h.fpisa, p, job, session, rank, fpisa_read_once(&job->live), &control->next_generation);
	if (newest) {
		__builtin_memcpy(peer->mac, hop->mac, ETH_ALEN);
		__builtin_memcpy(peer->local_mac, hop->local_mac, ETH_ALEN);
		peer->ifindex = hop->ifindex;
	}
	lock_release(&session->lock);
	return FPISA_V_welcome;
}

/* HELLO to job `id`, which exists; `payload` bytes follow the header. */
GLOBAL_FN int hello(struct xdp_md *ctx, __u32 id, __u32 payload)
{
	struct fpisa_nexthop *hop = lookup(&fpisa_nexthop, 0);
	struct fpisa_hello *p;
	struct headers h;
	int v, rank = check_hello(ctx, id, payload);
	__u64 cookie;

	if (rank == -FPISA_V_not_live)
		return refuse(ctx, id, FPISA_V_not_live);
	if (rank < 0)
		return count_verdict(id, -rank, XDP_DROP);
	v = find_nexthop(ctx, id, rank);
	if (v != FPISA_V_ok)
		return count_verdict(id, v, v == FPISA_V_unresolved ? XDP_PASS : XDP_DROP);
	cookie = cookie_of(ctx, id, rank);
	if (!cookie || !hop || !find_headers(ctx, &h))
		return count_verdict(id, FPISA_V_internal, XDP_DROP);
	p = (void *)(h.fpisa + 1);
	if ((void *)(p + 1) > (void *)(long)ctx->data_end)
		return count_verdict(id, FPISA_V_truncated, XDP_DROP);
	v = fpisa_challenge(h.fpisa, p, cookie);
	if (v == FPISA_V_ok)
		v = join_session(ctx, id, rank);
	if (v != FPISA_V_welcome && v != FPISA_V_challenge)
		return count_verdict(id, v, XDP_DROP);
	h.fpisa->checksum = fpisa_hello_sum(h.fpisa, p);
	__builtin_memcpy(h.eth->h_dest, hop->mac, ETH_ALEN);
	__builtin_memcpy(h.eth->h_source, hop->local_mac, ETH_ALEN);
	address_reply(&h, h.ip->daddr, h.ip->saddr, h.udp->source, sizeof(*p));
	return count_verdict(id, v, through(id, hop->ifindex));
}

/* Every stateless check of an ADD to job `id` but the checksum; a verdict. */
GLOBAL_FN int check_add(struct xdp_md *ctx, __u32 id, __u32 payload, __u32 port)
{
	struct fpisa_job *job = bpf_map_lookup_elem(&fpisa_jobs, &id);
	struct fpisa_session *session = bpf_map_lookup_elem(&fpisa_sessions, &id);
	struct headers h;
	int v;

	if (!job || !session || !find_headers(ctx, &h))
		return FPISA_V_internal;
	v = fpisa_check_add(h.fpisa, payload, job, session, h.ip->saddr, h.udp->source);
	return v == FPISA_V_ok ? fpisa_check_port(h.fpisa, job, port) : v;
}

static __always_inline int add(struct xdp_md *ctx, struct fpisa_phv *phv, struct headers *h, __u32 id,
			       struct fpisa_job *job, struct fpisa_control *control, __u32 payload,
			       __u32 port)
{
	struct fpisa_format f = fpisa_job_format(job);
	struct fpisa_counters *c = counters_of(id);
	__u32 v = check_add(ctx, id, payload, port);

	/* What a member is told needs a frame that is whole: the checksum first. */
	if (v != FPISA_V_ok && !fpisa_reported(v))
		return count_verdict(id, v, XDP_DROP);
	if (frame_sum(ctx, payload) != h->fpisa->checksum)
		return count_verdict(id, FPISA_V_checksum, XDP_DROP);
	if (v != FPISA_V_ok)
		return refuse(ctx, id, v);

	mark_seen(id, h->fpisa->rank);
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
	phv->encoded = fpisa_encoded(f, h->fpisa->op);
	phv->shared = f.shared;
	phv->swap = job->flags & FPISA_JOB_BIG_ENDIAN;
	phv->uncounted = job->flags & FPISA_JOB_UNCOUNTED;
	phv->by_unit = phv->encoded || f.shared || h->fpisa->op == FPISA_OP_NORM;
	phv->format = pack_format(f);
	phv->bank = fpisa_bank_of(job->family, control->bank);
	if (!c)
		return count_verdict(id, FPISA_V_internal, XDP_DROP);
	if (phv->clz == FPISA_CLZ_LPM && !trie_ready(control))
		return count_verdict(id, FPISA_V_busy, XDP_DROP);
	if (phv->clz == FPISA_CLZ_LPM_BYTE && !byte_trie_ready())
		return count_verdict(id, FPISA_V_busy, XDP_DROP);
	if (h->fpisa->flags & FPISA_F_RETRANSMIT)
		c->retransmissions++;
	if (!job->family)
		return admission(ctx, phv);
	/* No slot is taken yet: a family that is not loaded costs this frame alone. */
	tail_call(ctx, phv->bank + FPISA_ADMISSION);
	return count_verdict(id, FPISA_V_family, XDP_DROP);
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
	int whole;

	control = bpf_map_lookup_elem(&fpisa_control, &zero);
	if (!control)
		return XDP_PASS;
	whole = find_headers(ctx, &h);
	if (!is_ours(ctx, &h, control))
		return count_verdict(FPISA_MAX_JOBS, FPISA_V_not_ours, XDP_PASS);
	v = find_job(&h, whole, &id);
	if (v != FPISA_V_ok)
		return count_verdict(id, v, XDP_PASS);
	v = parse(ctx, control, &payload, &port);
	if (v != FPISA_V_ok)
		return count_verdict(FPISA_MAX_JOBS, v, XDP_DROP);
	job = bpf_map_lookup_elem(&fpisa_jobs, &id);
	if (!job || !find_headers(ctx, &h))
		return count_verdict(FPISA_MAX_JOBS, FPISA_V_no_job, XDP_DROP);
	c = counters_of(id);
	if (c) {
		c->packets++;
		c->bytes += FPISA_PAYLOAD_OFFSET + payload;
	}
	v = fpisa_check_type(h.fpisa);
	if (v != FPISA_V_ok)
		return count_verdict(id, v, XDP_DROP);
	/* Replies are made of the frame, and come from the first port. */
	h.udp->dest = bpf_htons(port_of(control));
	if (h.fpisa->type == FPISA_TYPE_HELLO)
		return port ? count_verdict(id, FPISA_V_port, XDP_DROP) : hello(ctx, id, payload);
	return add(ctx, phv, &h, id, job, control, payload, port);
}

#endif
