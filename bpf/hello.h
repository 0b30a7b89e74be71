/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * All steps of a HELLO, from parse.h back to the wire. The steps find the rank (check_hello()) and its location
 * (find_nexthop()). They check that the sender knows the cookie, which was sent only to this rank at this location.
 * Then the rank joins the session. The rules are in fpisa/frame.h and slot.h.
 *
 * The steps are global functions, so that the verifier checks each step once. Each step looks up its data again, which
 * is cheap enough because HELLOs are rare.
 */
#ifndef FPISA_BPF_HELLO_H
#define FPISA_BPF_HELLO_H

#include "check.h"
#include "finish.h"

/* Return the part that follows the FPISA header, or NULL if the frame is too short. */
static __always_inline struct fpisa_hello *hello_of(struct xdp_md *ctx, const struct headers *h)
{
	struct fpisa_hello *p = (void *)(h->fpisa + 1);

	return (void *)(p + 1) <= (void *)(long)ctx->data_end ? p : NULL;
}

/*
 * Run every check of a HELLO to job `id` except those of proof and cookie. Return the sender's rank, or a negated
 * verdict.
 */
GLOBAL_FN int check_hello(struct xdp_md *ctx, __u32 id, __u32 payload)
{
	struct fpisa_job *job = bpf_map_lookup_elem(&fpisa_jobs, &id);
	struct fpisa_phv *phv = lookup(&fpisa_phv, 0);
	struct fpisa_hello *p;
	struct headers h;
	__u32 rank = 0;
	int v;

	if (!job || !phv || !find_headers(ctx, &h))
		return -FPISA_V_internal;
	p = hello_of(ctx, &h);
	if (!p)
		return -FPISA_V_length;
	v = fpisa_check_hello(h.fpisa, p, payload, job, &phv->from, h.udp->source, &rank);
	return v == FPISA_V_ok ? (int)rank : -v;
}

/* Return whether the sender knows the job's token. */
GLOBAL_FN int is_proved(struct xdp_md *ctx, __u32 id)
{
	struct fpisa_nh_key *nh = lookup(&fpisa_nh_keys, id);
	struct fpisa_job *job = lookup(&fpisa_jobs, id);
	struct fpisa_hello *p;
	struct headers h;

	if (!job || !nh || !find_headers(ctx, &h))
		return 0;
	p = hello_of(ctx, &h);
	return p && fpisa_proof(job, nh->w, h.fpisa, p) == p->proof;
}

#define FAMILY_IPV4 2 /* AF_INET */
#define FAMILY_IPV6 10
#define LOOPBACK 1 /* interface index of `lo` */

/* Set the addresses and the family of a lookup. */
static __always_inline void set_addresses(struct bpf_fib_lookup *fib, const struct fpisa_address *from,
					  const struct fpisa_address *to)
{
	fib->family = fpisa_is_ipv4(from) ? FAMILY_IPV4 : FAMILY_IPV6;
	if (fib->family == FAMILY_IPV4) {
		fib->ipv4_dst = to->w[3];
		fib->ipv4_src = from->w[3];
		return;
	}
	__builtin_memcpy(fib->ipv6_dst, to, sizeof(*to));
	__builtin_memcpy(fib->ipv6_src, from, sizeof(*from));
}

/*
 * Find the destination of the answer to `rank`'s HELLO and of its later results. Use the kernel's routes and
 * neighbours, and the listed address of the rank, not the address in the frame. Look up the route as for packets of the
 * host itself, from `lo`. The BPF helper requires forwarding on `lo`, which `fpisa job add` switches on.
 */
GLOBAL_FN int find_nexthop(struct xdp_md *ctx, __u32 id, __u32 rank)
{
	struct bpf_fib_lookup fib = {.l4_protocol = IPPROTO_UDP, .ifindex = LOOPBACK};
	struct fpisa_phv *phv = lookup(&fpisa_phv, 0);
	struct fpisa_nexthop *hop = lookup(&fpisa_nexthop, 0);
	struct fpisa_peer *peer;
	struct fpisa_job *job = lookup(&fpisa_jobs, id);
	__u32 ingress = ctx->ingress_ifindex;
	struct fpisa_address own;
	struct headers h;
	long rc;

	/*
	 * Hide `ingress` from clang. Otherwise clang uses one load for the port of the frame and the port of the peer,
	 * which the verifier rejects.
	 */
	fpisa_opaque(ingress);
	fpisa_opaque(rank);
	if (!hop || !job || !phv || rank >= FPISA_MAX_WORKERS || !find_headers(ctx, &h))
		return FPISA_V_internal;
	peer = lookup(&fpisa_peers, id * FPISA_MAX_WORKERS + rank);
	if (!peer)
		return FPISA_V_internal;
	if (job->rank[rank].given) {
		if (peer->ifindex && peer->ifindex != ingress)
			return FPISA_V_route;
		__builtin_memcpy(hop->mac, h.eth->h_source, ETH_ALEN);
		__builtin_memcpy(hop->local_mac, h.eth->h_dest, ETH_ALEN);
		hop->ifindex = ingress;
		return FPISA_V_ok;
	}
	own = fpisa_own_address(job, &phv->from);
	set_addresses(&fib, &own, &phv->from);
	rc = bpf_fib_lookup(ctx, &fib, sizeof(fib), 0);
	if (rc == BPF_FIB_LKUP_RET_NO_NEIGH)
		return FPISA_V_unresolved;
	if (rc == BPF_FIB_LKUP_RET_FWD_DISABLED)
		return FPISA_V_forwarding;
	if (rc || fib.ifindex != (peer->vlan_device ?: peer->ifindex))
		return FPISA_V_route;
	__builtin_memcpy(hop->mac, fib.dmac, ETH_ALEN);
	__builtin_memcpy(hop->local_mac, fib.smac, ETH_ALEN);
	hop->ifindex = peer->ifindex;
	return FPISA_V_ok;
}

/* Return the cookie of `rank` in the incarnation that the HELLO names. */
GLOBAL_FN __u64 cookie_of(struct xdp_md *ctx, __u32 id, __u32 rank)
{
	struct fpisa_job *job = lookup(&fpisa_jobs, id);
	struct headers h;

	return job && find_headers(ctx, &h) ? fpisa_cookie(&job->key, rank, h.fpisa->aux) : 0;
}

/* Store the route that find_nexthop() has found as the rank's. */
static __always_inline void store_route(struct fpisa_peer *peer, const struct fpisa_nexthop *hop)
{
	__builtin_memcpy(peer->mac, hop->mac, ETH_ALEN);
	__builtin_memcpy(peer->local_mac, hop->local_mac, ETH_ALEN);
	peer->ifindex = hop->ifindex;
	peer->path_mtu = 0;
}

/* Let `rank`, whose cookie has been checked, join the session, and store the route to the rank. */
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
	p = hello_of(ctx, &h);
	if (!p)
		return FPISA_V_truncated;
	if (!lock_take(&session->lock))
		return FPISA_V_busy;
	/* The job may have ended since the cookie was checked, and another job may have its number. */
	if (!__sync_fetch_and_add(&job->active, 0) || fpisa_cookie(&job->key, rank, h.fpisa->aux) != h.fpisa->secret) {
		lock_release(&session->lock);
		return FPISA_V_no_job;
	}
	mark_seen(id, rank);
	newest = fpisa_welcome(h.fpisa, p, job, session, rank, fpisa_read_once(&job->live), &control->next_generation);
	if (newest)
		store_route(peer, hop);
	lock_release(&session->lock);
	return FPISA_V_welcome;
}

/* Write the proof into a WELCOME that is otherwise complete. */
GLOBAL_FN int prove_welcome(struct xdp_md *ctx, __u32 id)
{
	struct fpisa_nh_key *nh = lookup(&fpisa_nh_keys, id);
	struct fpisa_job *job = lookup(&fpisa_jobs, id);
	struct fpisa_hello *p;
	struct headers h;

	if (!nh || !job || !find_headers(ctx, &h))
		return 0;
	p = hello_of(ctx, &h);
	if (p)
		p->proof = fpisa_proof(job, nh->w, h.fpisa, p);
	return 0;
}

/* Send the answer `v` to a HELLO, complete except for proof and checksum. */
GLOBAL_FN int answer_hello(struct xdp_md *ctx, __u32 id, __u32 v)
{
	struct fpisa_nexthop *hop = lookup(&fpisa_nexthop, 0);
	struct fpisa_phv *phv = lookup(&fpisa_phv, 0);
	struct fpisa_job *job = lookup(&fpisa_jobs, id);
	struct fpisa_sum sum;
	struct fpisa_hello *p;
	struct headers h;

	prove_welcome(ctx, id);
	if (!hop || !phv || !job || !find_headers(ctx, &h))
		return count_verdict(id, FPISA_V_internal, XDP_DROP);
	p = hello_of(ctx, &h);
	if (!p)
		return count_verdict(id, FPISA_V_truncated, XDP_DROP);
	sum = fpisa_hello_sums(h.fpisa, p);
	address_ethernet(h.eth, hop->mac, hop->local_mac);
	address_reply(&h, job, &phv->from, h.udp->source, sizeof(*p), checksums_of(&sum));
	return count_verdict(id, v, through(ctx, id, hop->ifindex, TO_SENDER));
}

/* Return whether the job is a leaf. If so, keep the rank for the program that continues. */
GLOBAL_FN int is_leaf(__u32 id, __u32 rank)
{
	struct fpisa_phv *phv = lookup(&fpisa_phv, 0);
	struct fpisa_job *job = lookup(&fpisa_jobs, id);

	if (!phv || !job || !(job->flags & FPISA_JOB_LEAF))
		return 0;
	phv->rank = (__u16)rank;
	return 1;
}

/*
 * Process a HELLO to job `id`, which exists; `payload` bytes follow the header. Return GO_ON if a leaf's program
 * continues (tree.h).
 */
GLOBAL_FN int hello(struct xdp_md *ctx, __u32 id, __u32 payload)
{
	struct fpisa_hello *p;
	struct headers h;
	int v, rank = check_hello(ctx, id, payload);
	__u64 cookie;

	if (rank < 0 && rank != -FPISA_V_not_live)
		return count_verdict(id, -rank, XDP_DROP);
	if (!is_proved(ctx, id))
		return count_verdict(id, FPISA_V_token, XDP_DROP);
	if (rank < 0)
		return refuse(ctx, id, FPISA_V_not_live);
	v = find_nexthop(ctx, id, rank);
	if (v != FPISA_V_ok)
		return count_verdict(id, v, v == FPISA_V_unresolved ? XDP_PASS : XDP_DROP);
	cookie = cookie_of(ctx, id, rank);
	if (!cookie || !find_headers(ctx, &h))
		return count_verdict(id, FPISA_V_internal, XDP_DROP);
	p = hello_of(ctx, &h);
	if (!p)
		return count_verdict(id, FPISA_V_truncated, XDP_DROP);
	v = fpisa_challenge(h.fpisa, p, cookie);
	if (v == FPISA_V_ok && is_leaf(id, rank))
		return GO_ON;
	if (v == FPISA_V_ok)
		v = join_session(ctx, id, rank);
	if (v != FPISA_V_welcome && v != FPISA_V_challenge)
		return count_verdict(id, v, XDP_DROP);
	return answer_hello(ctx, id, v);
}

#endif
