/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What every step of the datapath needs: where the headers are, the checksum,
 * the lock of a slot or session, and ways out: one place that counts a verdict,
 * replies to the sender (results for all leave by read_done() in stages.h, a
 * HELLO's answer, which goes where its rank is routed, by ingress.h). The
 * sender's frame is reused; it leaves by redirect, for a veth peer with GRO
 * alone never sees XDP_TX.
 */
#ifndef FPISA_BPF_EXITS_H
#define FPISA_BPF_EXITS_H

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include "maps.h"

/* The headers of our frames: Ethernet, IPv4 without options, UDP, FPISA. */
struct headers {
	struct ethhdr *eth;
	struct iphdr *ip;
	struct udphdr *udp;
	struct fpisa_hdr *fpisa;
};

/* Where they lie in the frame; nonzero if it holds them all. */
static __always_inline int find_headers(struct xdp_md *ctx, struct headers *h)
{
	void *data = (void *)(long)ctx->data;

	h->eth = data;
	h->ip = data + FPISA_ETH_LEN;
	h->udp = data + FPISA_ETH_LEN + FPISA_IP_LEN;
	h->fpisa = data + FPISA_OFFSET;
	return data + FPISA_PAYLOAD_OFFSET <= (void *)(long)ctx->data_end;
}

static __always_inline struct fpisa_counters *counters_of(__u32 job)
{
	__u32 key = job < FPISA_MAX_JOBS ? job : FPISA_MAX_JOBS;

	return bpf_map_lookup_elem(&fpisa_counters, &key);
}

static __always_inline void add_verdict(struct fpisa_counters *c, __u32 v)
{
	if (v < FPISA_VERDICT_COUNT)
		(&c->v_not_ours)[v]++;
}

/* Counts the verdict `v` for `job` and returns `action`. */
GLOBAL_FN int count_verdict(__u32 job, __u32 v, int action)
{
	struct fpisa_counters *c = counters_of(job);

	if (c)
		add_verdict(c, v);
	return action;
}

static __always_inline __u16 ip_checksum(const struct iphdr *ip)
{
	const __u16 *w = (const __u16 *)ip;
	__u32 sum = 0;

#pragma unroll
	for (int i = 0; i < FPISA_IP_LEN / 2; i++)
		sum += w[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum += sum >> 16;
	return (__u16)~sum;
}

static __always_inline void sum_header(const struct fpisa_hdr *h, struct fpisa_sum *sum)
{
	fpisa_sum_words(sum, h, FPISA_SUM_HDR_WORDS);
}

/* 256 and 32 bytes of a payload. */
struct sum_large {
	__u8 b[256];
} __attribute__((aligned(4)));

struct sum_small {
	__u8 b[32];
} __attribute__((aligned(4)));

static __always_inline int sum_large(const struct sum_large *in, struct fpisa_sum *sum)
{
	if (!in || !sum)
		return 0;
	fpisa_sum_words(sum, in, sizeof(*in) / 8);
	return 0;
}

static __always_inline int sum_small(const struct sum_small *in, struct fpisa_sum *sum)
{
	if (!in || !sum)
		return 0;
	fpisa_sum_words(sum, in, sizeof(*in) / 8);
	return 0;
}

/*
 * The checksum of the frame: header and `payload` bytes, a multiple of 32.
 * Returns it in the low 32 bits; negative if the frame ends before.
 */
GLOBAL_FN __s64 frame_sum(struct xdp_md *ctx, __u32 payload)
{
	__u32 large = payload / sizeof(struct sum_large), small = payload % sizeof(struct sum_large) / sizeof(struct sum_small);
	void *p = (void *)(long)ctx->data + FPISA_PAYLOAD_OFFSET;
	struct fpisa_sum sum = {};
	struct headers h;

	if (!find_headers(ctx, &h))
		return -1;
	sum_header(h.fpisa, &sum);
	for (__u32 i = 0; i < FPISA_MAX_PAYLOAD / sizeof(struct sum_large) && i < large; i++) {
		if (p + sizeof(struct sum_large) > (void *)(long)ctx->data_end)
			return -1;
		sum_large(p, &sum);
		p += sizeof(struct sum_large);
	}
	/* clang knows that small < 8 and drops `i < 7`; 6.1's verifier then sees no end of the loop. */
	fpisa_opaque(small);
	for (__u32 i = 0; i < 7 && i < small; i++) {
		if (p + sizeof(struct sum_small) > (void *)(long)ctx->data_end)
			return -1;
		sum_small(p, &sum);
		p += sizeof(struct sum_small);
	}
	return fpisa_sum_fold(&sum);
}

static __always_inline void address_reply(struct headers *h, __be32 from, __be32 to, __be16 to_port,
					  __u32 payload)
{
	h->udp->source = h->udp->dest;
	h->udp->dest = to_port;
	h->udp->len = bpf_htons((__u16)(FPISA_UDP_LEN + FPISA_HDR_LEN + payload));
	h->udp->check = 0;
	h->ip->saddr = from;
	h->ip->daddr = to;
	h->ip->tot_len = bpf_htons((__u16)(FPISA_IP_LEN + FPISA_UDP_LEN + FPISA_HDR_LEN + payload));
	h->ip->tos = 0;
	h->ip->frag_off = bpf_htons(0x4000);
	h->ip->ttl = 64;
	h->ip->check = 0;
	h->ip->check = ip_checksum(h->ip);
}

/*
 * Out through `port`, by the entry that has the egress program (fpisa_replies).
 * A job that no CLI made has no entry; its replies may then take the program
 * from unicast copies that other jobs queue for the port behind them.
 */
static __always_inline int through(__u32 job, __u32 port)
{
	void *ports = lookup(&fpisa_replies, job);

	if (ports && bpf_redirect_map(ports, port, 0) == XDP_REDIRECT)
		return XDP_REDIRECT;
	return (int)bpf_redirect(port, 0);
}

/* Send the frame back where it came from; FPISA header and payload are complete. */
static __always_inline int to_sender(struct xdp_md *ctx, struct headers *h, __u32 job, __u32 payload)
{
	__u8 mac[ETH_ALEN];

	__builtin_memcpy(mac, h->eth->h_dest, ETH_ALEN);
	__builtin_memcpy(h->eth->h_dest, h->eth->h_source, ETH_ALEN);
	__builtin_memcpy(h->eth->h_source, mac, ETH_ALEN);
	address_reply(h, h->ip->daddr, h->ip->saddr, h->udp->source, payload);
	return through(job, ctx->ingress_ifindex);
}

/* A reply of the bare header: STATUS and ERROR. Cuts the payload off. */
GLOBAL_FN int bare_to_sender(struct xdp_md *ctx, __u32 job, __u32 v)
{
	struct headers h;
	struct fpisa_sum sum = {};
	int action, extra;

	if (!find_headers(ctx, &h))
		return count_verdict(job, FPISA_V_internal, XDP_DROP);
	sum_header(h.fpisa, &sum);
	h.fpisa->checksum = fpisa_sum_fold(&sum);
	action = to_sender(ctx, &h, job, 0);
	extra = (int)(ctx->data_end - ctx->data) - FPISA_PAYLOAD_OFFSET;
	if (extra > 0)
		bpf_xdp_adjust_tail(ctx, -extra);
	return count_verdict(job, v, action);
}

/* Drop a member's frame; tell it why where that helps it. */
GLOBAL_FN int refuse(struct xdp_md *ctx, __u32 job, __u32 v)
{
	struct headers h;

	if (!find_headers(ctx, &h) || !fpisa_reported(v))
		return count_verdict(job, v, XDP_DROP);
	fpisa_make_error(h.fpisa, v);
	return bare_to_sender(ctx, job, v);
}

static __always_inline void lock_release(__u64 *lock)
{
	/* A full barrier: all that was written under the lock is visible before it. */
	__sync_lock_test_and_set(lock, 0);
}

/*
 * Two readings of the clock an iteration make the wait some 100 us in all: longer
 * than a staged read-out of the largest frame through the trie. More
 * iterations exceed what the verifier keeps of pending branches.
 */
GLOBAL_FN int lock_wait(__u64 *lock)
{
	if (!lock)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < FPISA_LOCK_SPINS; i++) {
		if (!*(volatile __u64 *)lock && !__sync_val_compare_and_swap(lock, 0, 1))
			return 1;
		bpf_ktime_get_ns();
		bpf_ktime_get_ns();
	}
	return 0;
}

/* 1 if the lock is the caller's now; 0 after FPISA_LOCK_SPINS attempts. */
static __always_inline int lock_take(__u64 *lock)
{
	return fpisa_likely(!__sync_val_compare_and_swap(lock, 0, 1)) || lock_wait(lock);
}

#endif
