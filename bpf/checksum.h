/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The checksums of a frame: the IPv4 checksum, the FPISA checksum over FPISA header and payload (fpisa/wire.h), and the
 * UDP checksum. The UDP checksum of a reply takes no extra pass, because it is computed from the same sums. In jobs
 * with a token a tag replaces the FPISA checksum (fpisa/tag.h).
 */
#ifndef FPISA_BPF_CHECKSUM_H
#define FPISA_BPF_CHECKSUM_H

#include "packet.h"

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

/* Return a 16-bit checksum of words whose sum is `sum`, below 2^36. */
static __always_inline __u16 fold_checksum(__u64 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum += sum >> 16;
	return (__u16)~sum;
}

/* Return a UDP checksum. The result is never 0, because 0 means "no checksum". */
static __always_inline __u16 fold_udp_checksum(__u64 sum)
{
	return fold_checksum(sum) ?: 0xffff;
}

static __always_inline void sum_header(const struct fpisa_hdr *h, struct fpisa_sum *sum)
{
	fpisa_sum_words(sum, h, FPISA_SUM_HDR_WORDS);
}

/* Bytes of a payload that are summed between two tests for the end of the payload. */
#define SUM_LARGE 256
#define SUM_SMALL 32

/*
 * Return the FPISA checksum in the lower 32 bits, and above them the sum of the covered 16-bit words for the UDP
 * checksum.
 */
static __always_inline __s64 checksums_of(const struct fpisa_sum *sum)
{
	return (__s64)(fpisa_sum_16(sum) << 32 | fpisa_sum_fold(sum));
}

/*
 * Return whether `checksum` matches `sums`, the result of checksums_of(). No checksum matches if the frame ended early.
 */
static __always_inline int is_checksum(__s64 sums, __u32 checksum)
{
	return sums >= 0 && (__u32)sums == checksum;
}

/*
 * Return checksums_of() for the header and `payload` bytes, a multiple of 32. Return a negative number if the frame is
 * shorter.
 */
static __always_inline __s64 sum_frame(struct xdp_md *ctx, __u32 payload)
{
	__u32 large = payload / SUM_LARGE, small = payload % SUM_LARGE / SUM_SMALL;
	void *p = (void *)(long)ctx->data + FPISA_PAYLOAD_OFFSET;
	struct fpisa_sum sum = {};
	struct headers h;

	if (!find_headers(ctx, &h))
		return -1;
	sum_header(h.fpisa, &sum);
	for (__u32 i = 0; i < FPISA_MAX_PAYLOAD / SUM_LARGE && i < large; i++) {
		if (p + SUM_LARGE > (void *)(long)ctx->data_end)
			return -1;
		fpisa_sum_words(&sum, p, SUM_LARGE / 8);
		p += SUM_LARGE;
	}
	/*
	 * Hide `small` from clang. Otherwise clang derives that small < 8 and drops `i < 7`, and the verifier of 6.1
	 * finds no end of the loop.
	 */
	fpisa_opaque(small);
	for (__u32 i = 0; i < 7 && i < small; i++) {
		if (p + SUM_SMALL > (void *)(long)ctx->data_end)
			return -1;
		fpisa_sum_words(&sum, p, SUM_SMALL / 8);
		p += SUM_SMALL;
	}
	return checksums_of(&sum);
}

/*
 * Sum the frame as sum_frame() does. This is a global function, so that its loops are verified once. It finds the
 * headers itself, because a global function cannot take a packet pointer as an argument.
 */
GLOBAL_FN __s64 frame_sum(struct xdp_md *ctx, __u32 payload)
{
	return sum_frame(ctx, payload);
}

/*
 * Return the tag over the header and `payload` bytes, a multiple of 32, with the NH key of job `id`. Return 0 if the
 * frame is shorter.
 */
static __always_inline __u64 tag_frame(struct xdp_md *ctx, const struct fpisa_key *key, __u32 id, __u32 payload)
{
	__u32 large = payload / SUM_LARGE, small = payload % SUM_LARGE / SUM_SMALL;
	void *p = (void *)(long)ctx->data + FPISA_PAYLOAD_OFFSET;
	struct fpisa_nh_key *nh = lookup(&fpisa_nh_keys, id);
	struct fpisa_nh s;
	struct headers h;
	const __u64 *k;

	if (!key || !nh || !find_headers(ctx, &h))
		return 0;
	s = fpisa_nh_header(h.fpisa, nh->w);
	k = nh->w + FPISA_NH_PAYLOAD;
	for (__u32 i = 0; i < FPISA_MAX_PAYLOAD / SUM_LARGE && i < large; i++) {
		if (p + SUM_LARGE > (void *)(long)ctx->data_end)
			return 0;
		fpisa_nh_words(&s, p, k, SUM_LARGE / 8);
		p += SUM_LARGE;
		k += SUM_LARGE / 8;
	}
	fpisa_opaque(small);
	for (__u32 i = 0; i < 7 && i < small; i++) {
		if (p + SUM_SMALL > (void *)(long)ctx->data_end)
			return 0;
		fpisa_nh_words(&s, p, k, SUM_SMALL / 8);
		p += SUM_SMALL;
		k += SUM_SMALL / 8;
	}
	return fpisa_tag(key, h.fpisa->chunk, &s, k);
}

GLOBAL_FN __u64 frame_tag(struct xdp_md *ctx, const struct fpisa_key *key, __u32 id, __u32 payload)
{
	return tag_frame(ctx, key, id, payload);
}

/* Return checksums_of() for a frame that has a tag in place of the FPISA checksum. */
static __always_inline __s64 without_checksum(__s64 sums)
{
	return sums >> 32 << 32;
}

/*
 * Write the tag by `key` into the frame of a job with a token, whose FPISA header and payload are otherwise complete. Return
 * the sums for address_reply().
 */
static __always_inline __s64 seal_frame(struct xdp_md *ctx, struct fpisa_hdr *h, const struct fpisa_job *job,
					const struct fpisa_key *key, __u32 id, __u32 payload)
{
	__s64 sums;

	if (job->keyed)
		h->secret = frame_tag(ctx, key, id, payload);
	sums = frame_sum(ctx, payload);
	return job->keyed ? without_checksum(sums) : sums;
}

/*
 * Write the FPISA checksum and the UDP checksum into a frame that is otherwise complete. `sums` is the result of
 * checksums_of() for the frame. `addresses` is the sum of fpisa_address_sum() for source and destination. The rest of the
 * pseudo header is the same for IPv4 and IPv6.
 */
static __always_inline void set_checksums(const struct headers *h, __u64 addresses, __s64 sums)
{
	h->fpisa->checksum = (__u32)sums;
	h->udp->check = fold_udp_checksum(((__u64)sums >> 32) + (__u32)sums + addresses + h->udp->source +
					  h->udp->dest + 2 * (__u32)h->udp->len + bpf_htons(IPPROTO_UDP));
}

#endif
