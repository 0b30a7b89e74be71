/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The checksums of a frame: IPv4's, and our own over FPISA header and payload (fpisa/wire.h). */
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

static __always_inline void sum_header(const struct fpisa_hdr *h, struct fpisa_sum *sum)
{
	fpisa_sum_words(sum, h, FPISA_SUM_HDR_WORDS);
}

/* Bytes of a payload that are summed between two tests for its end. */
#define SUM_LARGE 256
#define SUM_SMALL 32

/*
 * The checksum of the frame: header and `payload` bytes, a multiple of 32.
 * Returns it in the low 32 bits; negative if the frame ends before. Global, that its
 * loops are verified once, so it finds the frame's headers for itself.
 */
GLOBAL_FN __s64 frame_sum(struct xdp_md *ctx, __u32 payload)
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
	/* clang knows that small < 8 and drops `i < 7`; 6.1's verifier then sees no end of the loop. */
	fpisa_opaque(small);
	for (__u32 i = 0; i < 7 && i < small; i++) {
		if (p + SUM_SMALL > (void *)(long)ctx->data_end)
			return -1;
		fpisa_sum_words(&sum, p, SUM_SMALL / 8);
		p += SUM_SMALL;
	}
	return fpisa_sum_fold(&sum);
}

#endif
