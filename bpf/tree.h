/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Trees (fpisa/tree.h; doc/protocol.md, section 11): the programs of a leaf and of its parent.
 *
 *	fpisa_part	the parent takes a part of a partial sum, in place of check.h and admission.h
 *	fpisa_up	the leaf seals a complete round and sends its first part
 *	fpisa_down	the leaf takes a frame from its parent
 *	fpisa_greet	the leaf takes a HELLO, after hello.h has checked it
 *
 * A program sends one frame for each that it receives. So a part asks the parent for a STATUS, unless it is the last,
 * and the STATUS becomes the next part. If all ranks of a leaf wait, HELLO goes to the parent in place of a WELCOME.
 *
 * A leaf and its parent may be on the same host. Their frames to each other then go through `lo`, and the parent's job
 * says which leaf takes its frames (is_for_leaf()).
 */
#ifndef FPISA_BPF_TREE_H
#define FPISA_BPF_TREE_H

#include "admission.h"
#include "hello.h"
#include "packed.h"

/* -- a leaf's frames to its parent ----------------------------------------------------- */

/*
 * Send a complete ADD of `payload` bytes to the parent, and count `v`. After a rank of the leaf has restarted, the leaf
 * has no cookie until it joins again, and the parent would refuse the ADD.
 */
GLOBAL_FN int send_up(struct xdp_md *ctx, __u32 id, __u32 payload, __u32 v)
{
	struct fpisa_leaf *leaf = lookup(&fpisa_leaves, id);
	struct fpisa_job *job = lookup(&fpisa_jobs, id);
	struct headers h;
	__u16 port;
	__s64 sums;

	if (!leaf || !job || !find_headers(ctx, &h))
		return count_verdict(id, FPISA_V_internal, XDP_DROP);
	if (!leaf->up.cookie)
		return count_verdict(id, FPISA_V_secret, XDP_DROP);
	sums = seal_frame(ctx, h.fpisa, job, &leaf->up.key, id, payload);
	port = bpf_ntohs(job->parent.port) + fpisa_port_index(h.fpisa->slot >> 1, job->window, leaf->up.ports);
	address_ethernet(h.eth, leaf->parent.mac, leaf->parent.local_mac);
	address_reply(&h, job, &job->parent.addr, bpf_htons(port), payload, sums);
	return count_verdict(id, v, through(ctx, id, leaf->parent.ifindex, TO_PARENT));
}

/* Return whether the leaf absorbs the ADD to a sealed round. Forget who has asked when the leaf sends a part for the first time. */
static __always_inline int is_absorbed(const struct fpisa_phv *phv, struct fpisa_partials *x)
{
	if (phv->resend && !phv->part)
		return !fpisa_leaf_asks(x, phv->rank);
	x->asked = 0;
	return 0;
}

/* Drop the ADD, and release the slot. */
static __always_inline int absorb(const struct fpisa_phv *phv, struct packet *p)
{
	lock_release(&p->slot->lock);
	return count_verdict(phv->job, FPISA_V_duplicate, XDP_DROP);
}

/* Send the values of a round of min, max or int32, which are in the payload, and release the slot. */
static __always_inline int values_up(struct xdp_md *ctx, struct fpisa_phv *phv, struct packet *p)
{
	struct fpisa_partials *x = lookup(&fpisa_partials, phv->key);
	struct fpisa_leaf *leaf = lookup(&fpisa_leaves, phv->job);

	if (x && is_absorbed(phv, x))
		return absorb(phv, p);
	p->slot->done = 1;
	if (leaf)
		fpisa_make_one_part(p->h.fpisa, p->slot, p->job, &leaf->up,
				    FPISA_PART_VALUES | 1 << FPISA_PART_COUNT_SHIFT, 1);
	lock_release(&p->slot->lock);
	if (SWAPPED(phv))
		run_swap(ctx, phv);
	return send_up(ctx, phv->job, payload_bytes(phv), phv->resend ? FPISA_V_up_again : FPISA_V_up);
}

/* Send the part of the sealed round that is next, and release the slot. */
static __always_inline int part_up(struct xdp_md *ctx, struct fpisa_phv *phv, struct packet *p)
{
	struct fpisa_leaf *leaf = lookup(&fpisa_leaves, phv->job);
	__u32 v = phv->part ? FPISA_V_up_next : phv->resend ? FPISA_V_up_again : FPISA_V_up;
	struct fpisa_partials *x = lookup(&fpisa_partials, phv->key);
	struct part part = {};

	if (x && is_absorbed(phv, x))
		return absorb(phv, p);
	if (x)
		part = choose_part(phv, x);
	if (!x || resize(ctx, part.payload)) {
		lock_release(&p->slot->lock);
		return count_verdict(phv->job, FPISA_V_no_room, XDP_DROP);
	}
	if (!leaf || !find_packet(ctx, phv, p)) {
		if (p->slot)
			lock_release(&p->slot->lock);
		return count_verdict(phv->job, FPISA_V_internal, XDP_DROP);
	}
	fpisa_make_one_part(p->h.fpisa, p->slot, p->job, &leaf->up, part.reason, part.last);
	put_part(ctx, phv, part.number);
	lock_release(&p->slot->lock);
	return send_up(ctx, phv->job, part.payload, v);
}

SEC("stage")
int fpisa_up(struct xdp_md *ctx)
{
	struct fpisa_phv *phv = lookup(&fpisa_phv, 0);
	struct packet p;

	if (!phv)
		return XDP_ABORTED;
	if (!find_packet(ctx, phv, &p))
		return lose_round(ctx, phv, FPISA_V_internal);
	if (!phv->resend) {
		seal_round(ctx, phv);
		if (!find_packet(ctx, phv, &p))
			return lose_round(ctx, phv, FPISA_V_internal);
		p.slot->done = 1;
	}
	return part_up(ctx, phv, &p);
}

/* Return the bytes of a payload to this address that fit an MTU. */
static __always_inline __u32 room_of(__u32 mtu, const struct fpisa_address *to)
{
	const __u32 headers = FPISA_PAYLOAD_OFFSET - FPISA_ETH_LEN + (fpisa_is_ipv6(to) ? NARROWED : 0);
	__u32 room = mtu > headers ? (mtu - headers) & ~(FPISA_PACKED_ROUND - 1) : 0;

	return room < FPISA_MAX_PAYLOAD ? room : FPISA_MAX_PAYLOAD;
}

/* Return whether the next hop of the route that was found is a router. The kernel then returns the router's address. */
static __always_inline int is_routed(const struct bpf_fib_lookup *fib, const struct fpisa_address *to)
{
	struct fpisa_address next = *to;

	if (fib->family == FAMILY_IPV4)
		next.w[3] = fib->ipv4_dst;
	else
		__builtin_memcpy(&next, fib->ipv6_dst, sizeof(next));
	return !fpisa_same_address(&next, to);
}

/* Find the route to the parent, as find_nexthop() does. A parent on this host is behind `lo`. */
GLOBAL_FN int find_parent(struct xdp_md *ctx, __u32 id)
{
	struct bpf_fib_lookup fib = {.l4_protocol = IPPROTO_UDP, .ifindex = LOOPBACK};
	struct fpisa_leaf *leaf = lookup(&fpisa_leaves, id);
	struct fpisa_job *job = lookup(&fpisa_jobs, id);
	long rc;

	if (!leaf || !job)
		return FPISA_V_internal;
	if (job->parent.given) {
		leaf->parent = (struct fpisa_peer){.ifindex = LOOPBACK};
		leaf->room = FPISA_MAX_PAYLOAD;
		return FPISA_V_ok;
	}
	set_addresses(&fib, &job->address, &job->parent.addr);
	rc = bpf_fib_lookup(ctx, &fib, sizeof(fib), 0);
	if (rc == BPF_FIB_LKUP_RET_FWD_DISABLED)
		return FPISA_V_forwarding;
	if (rc == BPF_FIB_LKUP_RET_NO_NEIGH)
		return FPISA_V_unresolved_parent;
	if (rc)
		return FPISA_V_no_parent;
	__builtin_memcpy(leaf->parent.mac, fib.dmac, ETH_ALEN);
	__builtin_memcpy(leaf->parent.local_mac, fib.smac, ETH_ALEN);
	leaf->parent.ifindex = fib.ifindex;
	/* The MTUs behind a router are unknown. */
	leaf->room = is_routed(&fib, &job->parent.addr) ? 0 : room_of(fib.mtu_result, &job->parent.addr);
	return FPISA_V_ok;
}

/* Turn a HELLO or WELCOME into the leaf's HELLO, and send it to the parent. */
GLOBAL_FN int hello_up(struct xdp_md *ctx, __u32 id)
{
	struct fpisa_leaf *leaf = lookup(&fpisa_leaves, id);
	struct fpisa_nh_key *nh = lookup(&fpisa_nh_keys, id);
	struct fpisa_job *job = lookup(&fpisa_jobs, id);
	struct fpisa_hello *p;
	struct fpisa_sum sum;
	struct headers h;
	int v = find_parent(ctx, id);

	if (v != FPISA_V_ok)
		return count_verdict(id, v, XDP_DROP);
	if (!leaf || !nh || !job || !find_headers(ctx, &h))
		return count_verdict(id, FPISA_V_internal, XDP_DROP);
	p = hello_of(ctx, &h);
	if (!p)
		return count_verdict(id, FPISA_V_truncated, XDP_DROP);
	fpisa_make_leaf_hello(h.fpisa, p, job, &leaf->up, nh->w);
	sum = fpisa_hello_sums(h.fpisa, p);
	address_ethernet(h.eth, leaf->parent.mac, leaf->parent.local_mac);
	address_reply(&h, job, &job->parent.addr, job->parent.port, sizeof(*p), checksums_of(&sum));
	return count_verdict(id, FPISA_V_hello_up, through(ctx, id, leaf->parent.ifindex, TO_PARENT));
}

/* Join a leaf's session as join_session() does. Return FPISA_V_hello_up if all ranks wait. */
GLOBAL_FN int join_leaf(struct xdp_md *ctx, __u32 id, __u32 rank)
{
	struct fpisa_session *session = lookup(&fpisa_sessions, id);
	struct fpisa_peer *peer = lookup(&fpisa_peers, id * FPISA_MAX_WORKERS + rank);
	struct fpisa_leaf *leaf = lookup(&fpisa_leaves, id);
	struct fpisa_job *job = lookup(&fpisa_jobs, id);
	struct fpisa_nexthop *hop = lookup(&fpisa_nexthop, 0);
	enum fpisa_waiting waiting;
	struct fpisa_hello *p;
	struct headers h;

	fpisa_opaque(rank);
	if (!session || !peer || !leaf || !job || !hop || rank >= FPISA_MAX_WORKERS || !find_headers(ctx, &h))
		return FPISA_V_internal;
	p = hello_of(ctx, &h);
	if (!p)
		return FPISA_V_truncated;
	if (!lock_take(&session->lock))
		return FPISA_V_busy;
	/* As in join_session(): another job may have the number by now. */
	if (!__sync_fetch_and_add(&job->active, 0) || fpisa_cookie(&job->key, rank, h.fpisa->aux) != h.fpisa->secret) {
		lock_release(&session->lock);
		return FPISA_V_no_job;
	}
	mark_seen(id, rank);
	waiting = fpisa_leaf_hello(h.fpisa, p, job, session, &leaf->up, rank, fpisa_read_once(&job->live));
	if (waiting != FPISA_HELLO_OLD)
		store_route(peer, hop);
	lock_release(&session->lock);
	return waiting == FPISA_HELLO_ALL_WAIT ? FPISA_V_hello_up : FPISA_V_welcome;
}

SEC("stage")
int fpisa_greet(struct xdp_md *ctx)
{
	struct fpisa_phv *phv = lookup(&fpisa_phv, 0);
	int v;

	if (!phv)
		return XDP_ABORTED;
	v = join_leaf(ctx, phv->job, phv->rank);
	if (v == FPISA_V_hello_up)
		return hello_up(ctx, phv->job);
	if (v == FPISA_V_welcome)
		return answer_hello(ctx, phv->job, v);
	return count_verdict(phv->job, v, XDP_DROP);
}

/* -- frames of the parent ------------------------------------------------------------------ */

/* Begin the generation that the parent has announced. The caller owns the session's lock. */
static __always_inline void begin(struct fpisa_session *session, struct fpisa_leaf *leaf, const struct fpisa_job *job,
				  const struct fpisa_hdr *h, const struct fpisa_hello *p)
{
	const struct fpisa_key token = fpisa_token_of(job);
	struct fpisa_uplink *up = &leaf->up;

	if (!fpisa_leaf_welcome(session, up, h->aux, h->generation, fpisa_read_once(&job->live)))
		return;
	up->results = p->results;
	up->workers = p->workers;
	up->ports = p->ports;
	fpisa_write_once(&session->results, fpisa_result_secret(&job->key, session->generation));
	if (!job->keyed)
		return;
	up->key = fpisa_key_of(&token, FPISA_KEY_RANK, up->rank, up->cookie);
	up->results_key = fpisa_key_of(&token, FPISA_KEY_RESULTS, 0, p->results);
	session->results_key = fpisa_key_of(&token, FPISA_KEY_RESULTS, 0, session->results);
}

/* Return whether the parent, which has the token, made the WELCOME in answer to this leaf. */
GLOBAL_FN int is_welcome(struct xdp_md *ctx, __u32 id, __u32 payload)
{
	struct fpisa_leaf *leaf = lookup(&fpisa_leaves, id);
	struct fpisa_job *job = lookup(&fpisa_jobs, id);
	struct fpisa_hello *p;
	struct headers h;

	if (!leaf || !job || payload != sizeof(*p) || !find_headers(ctx, &h))
		return 0;
	p = hello_of(ctx, &h);
	return p && fpisa_hello_sum(h.fpisa, p) == h.fpisa->checksum &&
	       h.fpisa->chunk == fpisa_leaf_nonce(job, &leaf->up);
}

/* Process a WELCOME of the parent. Return its verdict; FPISA_V_hello_up if it asks for another HELLO. */
GLOBAL_FN int take_welcome(struct xdp_md *ctx, __u32 id)
{
	struct fpisa_session *session = lookup(&fpisa_sessions, id);
	struct fpisa_leaf *leaf = lookup(&fpisa_leaves, id);
	struct fpisa_job *job = lookup(&fpisa_jobs, id);
	int v = FPISA_V_down;
	struct fpisa_hello *p;
	struct headers h;

	if (!session || !leaf || !job || !find_headers(ctx, &h))
		return FPISA_V_internal;
	p = hello_of(ctx, &h);
	if (!p)
		return FPISA_V_truncated;
	if (!lock_take(&session->lock))
		return FPISA_V_busy;
	if (h.fpisa->aux < leaf->up.attempt) {
		v = FPISA_V_parent;
	} else if (h.fpisa->flags & FPISA_F_CHALLENGE) {
		if (leaf->up.cookie != h.fpisa->secret)
			v = FPISA_V_hello_up;
		leaf->up.cookie = h.fpisa->secret;
	} else if (!fpisa_parent_alike(p, job, leaf->up.rank)) {
		v = FPISA_V_unlike;
	} else if (h.fpisa->aux > leaf->up.attempt) {
		fpisa_leaf_attempt(&leaf->up, h.fpisa->aux + 1);
	} else if (!(h.fpisa->flags & FPISA_F_PENDING)) {
		begin(session, leaf, job, h.fpisa, p);
	}
	lock_release(&session->lock);
	return v;
}

/* Return whether only the parent can have sent the RESULT, STATUS or ERROR, in the current generation. */
GLOBAL_FN int is_parents(struct xdp_md *ctx, __u32 id, __u32 payload)
{
	struct fpisa_session *session = lookup(&fpisa_sessions, id);
	struct fpisa_leaf *leaf = lookup(&fpisa_leaves, id);
	struct fpisa_job *job = lookup(&fpisa_jobs, id);
	struct headers h;
	int result;

	if (!session || !leaf || !job || payload % SUM_SMALL || !find_headers(ctx, &h))
		return 0;
	result = h.fpisa->type == FPISA_TYPE_RESULT;
	if (!h.fpisa->generation || h.fpisa->generation != fpisa_read_once(&session->generation))
		return 0;
	if (job->keyed)
		return !h.fpisa->checksum &&
		       h.fpisa->secret == frame_tag(ctx, result ? &leaf->up.results_key : &leaf->up.key, id, payload);
	/* Without a cookie the leaf asks for nothing, and a secret of 0 proves nothing. */
	return h.fpisa->secret && h.fpisa->secret == (result ? leaf->up.results : leaf->up.cookie) &&
	       is_checksum(frame_sum(ctx, payload), h.fpisa->checksum);
}

/* Store in the leaf's result which contributions to the previous chunk were lost. */
static __always_inline void tell_leaf_lost(struct packet *p, int above)
{
	__u32 key = p->job->slot_base + fpisa_slot_of(p->h.fpisa->chunk - 1, p->job->window);
	struct fpisa_slot *before = lookup(&fpisa_slots, key);

	if (before && p->h.fpisa->chunk && !(p->h.fpisa->flags & FPISA_F_RESENT) &&
	    fpisa_tell_leaf_lost(p->h.fpisa, p->job, before, fpisa_read_once(&p->job->live), above))
		p->counters->told_lost++;
}

/* Send the parent's RESULT to all ranks. */
static __always_inline int take_result(struct xdp_md *ctx, struct fpisa_phv *phv, struct packet *p)
{
	struct fpisa_leaf *leaf = lookup(&fpisa_leaves, phv->job);
	__u32 payload = fpisa_payload_bytes(fpisa_job_format(p->job), p->h.fpisa->count);
	int right, above = 0;
	__s64 sums;

	if (!leaf || phv->payload != payload)
		return count_verdict(phv->job, FPISA_V_parent, XDP_DROP);
	if (!lock_take(&p->slot->lock))
		return count_verdict(phv->job, FPISA_V_busy, XDP_DROP);
	right = fpisa_is_sealed_round(p->slot, p->h.fpisa);
	if (right)
		above = fpisa_make_down(p->h.fpisa, p->slot, p->job, &leaf->up, phv->job,
					fpisa_read_once(&p->session->results));
	lock_release(&p->slot->lock);
	if (!right)
		return count_verdict(phv->job, FPISA_V_parent, XDP_DROP);
	tell_leaf_lost(p, above);
	if (FPISA_IS_CE(p->h.ip->tos) && !(p->h.fpisa->flags & FPISA_F_RESENT)) {
		p->h.fpisa->flags |= FPISA_F_MARKED;
		p->counters->marked++;
	}
	sums = seal_frame(ctx, p->h.fpisa, p->job, &p->session->results_key, phv->job, payload);
	count_flags(p->counters, p->h.fpisa->result_flags);
	return fan_out(ctx, p, payload, sums, FPISA_V_down);
}

/* Send the parent's STATUS or ERROR to the rank that it answers. */
GLOBAL_FN int answer_down(struct xdp_md *ctx, __u32 id, __u32 asker)
{
	struct fpisa_session *session = lookup(&fpisa_sessions, id);
	struct fpisa_job *job = lookup(&fpisa_jobs, id);
	struct fpisa_sum sum = {};
	struct fpisa_peer *peer;
	struct headers h;
	__s64 sums;

	fpisa_opaque(asker);
	if (!session || !job || asker >= FPISA_MAX_WORKERS || !find_headers(ctx, &h))
		return count_verdict(id, FPISA_V_internal, XDP_DROP);
	peer = lookup(&fpisa_peers, id * FPISA_MAX_WORKERS + asker);
	if (!peer)
		return count_verdict(id, FPISA_V_internal, XDP_DROP);
	fpisa_make_leaf_answer(h.fpisa, job, session, id, asker);
	if (job->keyed)
		tag_bare(ctx, id);
	sum_header(h.fpisa, &sum);
	sums = job->keyed ? without_checksum(checksums_of(&sum)) : checksums_of(&sum);
	if (is_loopback(peer))
		address_group(h.eth, &job->group);
	else
		__builtin_memcpy(h.eth->h_dest, peer->mac, ETH_ALEN);
	__builtin_memcpy(h.eth->h_source, peer->local_mac, ETH_ALEN);
	address_reply(&h, job, &job->rank[asker].addr, job->rank[asker].port, 0, sums);
	return count_verdict(id, FPISA_V_down, through(ctx, id, peer->ifindex, asker));
}

/* Turn the parent's STATUS to a part into the ADD that asks for the next part, and keep the slot. Return whether there is one. */
static __always_inline int next_part(struct fpisa_phv *phv, struct packet *p)
{
	struct fpisa_hdr *h = p->h.fpisa;
	struct fpisa_partials *x = lookup(&fpisa_partials, phv->key);
	const __u32 part = (h->reason & FPISA_PART_PLANE) + 1;

	if (!x || h->reason & FPISA_PART_VALUES || !lock_take(&p->slot->lock))
		return 0;
	if (!has_part(phv->key, x, part) || !fpisa_make_next_part(h, p->slot)) {
		lock_release(&p->slot->lock);
		return 0;
	}
	phv->blocks = h->count / FPISA_BLOCK;
	phv->part = (__u8)part;
	x->next = part;
	phv->resend = 1;
	return 1;
}

static __always_inline int take_answer(struct xdp_md *ctx, struct fpisa_phv *phv, struct packet *p)
{
	const __u32 asker = p->h.fpisa->result_flags & FPISA_PART_ASKER;
	const enum fpisa_verdict why = (enum fpisa_verdict)p->h.fpisa->reason;

	if (phv->payload || asker >= p->job->workers)
		return count_verdict(phv->job, FPISA_V_parent, XDP_DROP);
	if (p->h.fpisa->type == FPISA_TYPE_ERROR) {
		if (!fpisa_reported(why) || why == FPISA_V_port)
			return count_verdict(phv->job, FPISA_V_parent, XDP_DROP);
		fpisa_break(p->session, p->h.fpisa->generation, why);
	} else if (next_part(phv, p)) {
		tail_call(ctx, phv->bank + FPISA_UP);
		return lose_round(ctx, phv, FPISA_V_family);
	} else if (!(p->h.fpisa->result_flags & FPISA_PART_ASKS)) {
		return count_verdict(phv->job, FPISA_V_parent, XDP_DROP);
	}
	return answer_down(ctx, phv->job, asker);
}

/* Return whether the frame comes from the parent's address and has a slot of this job. */
static __always_inline int is_from_parent(const struct fpisa_phv *phv, const struct packet *p)
{
	const struct fpisa_hdr *h = p->h.fpisa;

	return fpisa_same_address(&phv->from, &p->job->parent.addr) && p->h.udp->source == p->job->parent.port &&
	       !phv->port && (h->type == FPISA_TYPE_WELCOME || h->slot == fpisa_slot_of(h->chunk, p->job->window));
}

SEC("stage")
int fpisa_down(struct xdp_md *ctx)
{
	struct fpisa_phv *phv = lookup(&fpisa_phv, 0);
	struct headers h;
	struct packet p;
	__u32 type, v;

	if (!phv)
		return XDP_ABORTED;
	p.job = lookup(&fpisa_jobs, phv->job);
	if (!p.job || !find_headers(ctx, &h))
		return count_verdict(phv->job, FPISA_V_internal, XDP_DROP);
	type = h.fpisa->type;
	phv->key = p.job->slot_base + (type == FPISA_TYPE_WELCOME ? 0 : h.fpisa->slot);
	if (!find_packet(ctx, phv, &p) || !is_from_parent(phv, &p))
		return count_verdict(phv->job, FPISA_V_parent, XDP_DROP);
	if (type == FPISA_TYPE_WELCOME) {
		v = FPISA_V_parent;
		if (is_welcome(ctx, phv->job, phv->payload) && is_proved(ctx, phv->job))
			v = take_welcome(ctx, phv->job);
		return v == FPISA_V_hello_up ? hello_up(ctx, phv->job) : count_verdict(phv->job, v, XDP_DROP);
	}
	if (!is_parents(ctx, phv->job, phv->payload))
		return count_verdict(phv->job, FPISA_V_parent, XDP_DROP);
	if (type == FPISA_TYPE_RESULT)
		return take_result(ctx, phv, &p);
	if (type == FPISA_TYPE_STATUS || type == FPISA_TYPE_ERROR)
		return take_answer(ctx, phv, &p);
	return count_verdict(phv->job, FPISA_V_type, XDP_DROP);
}

/* -- a parent ------------------------------------------------------------------------------ */

/* Check an ADD as check() does: it must be a part. */
static __always_inline enum fpisa_verdict check_part(struct xdp_md *ctx, const struct packet *p,
						     const struct fpisa_address *from)
{
	const struct headers *h = &p->h;

	return check_seal(ctx, p, fpisa_check_partial(h->fpisa, p->payload, p->job, p->session, from, h->udp->source));
}

/* Add the part to the registers and record it, under the lock. Return whether it completes the round. */
static __always_inline int add_part(struct xdp_md *ctx, struct fpisa_phv *phv, const struct packet *p,
				    struct fpisa_partials *x)
{
	__u16 part = p->h.fpisa->reason;

	if (part & FPISA_PART_VALUES) {
		if (SWAPPED(phv))
			run_swap(ctx, phv);
		run_add_by_unit(ctx, phv);
	} else {
		add_sums(ctx, phv, part);
	}
	p->counters->fused++;
	p->counters->elements += phv->blocks * FPISA_BLOCK;
	p->counters->overflowed += fpisa_event_count(phv->events, FPISA_EV_OVERFLOWED);
	return fpisa_commit_part(p->slot, x, p->h.fpisa, fpisa_read_once(&p->job->live),
				 fpisa_event_flags(phv->events) | phv->marked);
}

/* Read out and send the result of a round of partial sums, or end the generation if the round cannot give one. */
static __always_inline int complete_parts(struct xdp_md *ctx, struct fpisa_phv *phv, const struct packet *p,
					  const struct fpisa_partials *x)
{
	enum fpisa_verdict lost = phv->resend ? (enum fpisa_verdict)0 : fpisa_round_lost(x);

	if (lost) {
		fpisa_break(p->session, p->slot->generation, lost);
		lock_release(&p->slot->lock);
		return refuse(ctx, phv->job, lost);
	}
	phv->final = fpisa_final_of(fpisa_job_format(p->job), p->slot->op, p->slot->operand, x->contributors,
				    p->job->flags & FPISA_JOB_RECIPROCAL);
	if (resize(ctx, payload_bytes(phv))) {
		lock_release(&p->slot->lock);
		return count_verdict(phv->job, FPISA_V_no_room, XDP_DROP);
	}
	p->counters->fused_reads++;
	fused_read(ctx, phv);
	return finish(ctx, phv);
}

/* Apply the rules of slots to a part, as admission() does. */
static __always_inline int admit_part(struct xdp_md *ctx, struct fpisa_phv *phv, const struct packet *p)
{
	struct fpisa_claim claim = fpisa_claim_of(p->h.fpisa, p->job);
	struct fpisa_partials *x = lookup(&fpisa_partials, phv->key);
	__u64 live;
	int step;

	if (!p->slot || !x || !exponents_of(phv) || !mantissas_of(phv))
		return count_verdict(p->id, FPISA_V_internal, XDP_DROP);
	if (!lock_take(&p->slot->lock))
		return count_verdict(p->id, FPISA_V_busy, XDP_DROP);
	live = fpisa_read_once(&p->job->live);
	step = fpisa_admit_part(p->session, p->slot, x, &claim, p->h.fpisa->reason, live, &phv->results);
	if (step < 0) {
		lock_release(&p->slot->lock);
		return refuse(ctx, p->id, -step);
	}
	if (step == FPISA_STEP_WAIT)
		return not_complete(ctx, phv, live, FPISA_V_duplicate);
	phv->first = step == FPISA_STEP_SET;
	if ((step == FPISA_STEP_SET || step == FPISA_STEP_ADD) && !add_part(ctx, phv, p, x))
		return not_complete(ctx, phv, live, FPISA_V_accepted);
	phv->resend = step == FPISA_STEP_RESEND;
	return complete_parts(ctx, phv, p, x);
}

SEC("stage")
int fpisa_part(struct xdp_md *ctx)
{
	struct fpisa_control *control = lookup(&fpisa_control, 0);
	struct fpisa_phv *phv = lookup(&fpisa_phv, 0);
	enum fpisa_verdict v;
	struct packet p;

	if (!phv || !control)
		return XDP_ABORTED;
	phv->key = 0;
	if (!find_packet(ctx, phv, &p))
		return count_verdict(phv->job, FPISA_V_internal, XDP_DROP);
	p.payload = phv->payload;
	p.port = phv->port;
	v = check_part(ctx, &p, &phv->from);
	if (v != FPISA_V_ok)
		return refuse(ctx, phv->job, v);
	mark_seen(phv->job, p.h.fpisa->rank);
	fill_phv(phv, &p, control);
	p.slot = lookup(&fpisa_slots, phv->key);
	if (p.h.fpisa->flags & FPISA_F_RETRANSMIT)
		p.counters->retransmissions++;
	if (phv->marked)
		p.counters->marked++;
	return admit_part(ctx, phv, &p);
}

#endif
