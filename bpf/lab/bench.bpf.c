/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The programs with which `fpisa bench arith` compares the datapath, for BPF_PROG_TEST_RUN. Some programs read a
 * payload (touch_*). Others add a payload of 32-bit integers to a row, as SwitchML does (add_*). The rest do nothing,
 * or use only registers. There are several variants of each program. User space (user/lab/bench/reference.c) finds the
 * variants by their names and takes the fastest.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "fpisa/wire.h"

#define TEXT(x) #x
#define NUMBER(x) TEXT(x)

/* The only variable of the object, which user space reads. */
const char compiler[] = "clang-" NUMBER(__clang_major__);

#define ELEMENTS FPISA_DEFAULT_ELEMENTS
#define ROWS 64

struct row {
	__u32 v[ELEMENTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ROWS);
	__type(key, __u32);
	__type(value, struct row);
} rows SEC(".maps");

/*
 * Return the payload of an FPISA frame with ELEMENTS elements of four bytes, and store the frame's row in *row. Return
 * NULL for other frames.
 */
static __always_inline void *parse(struct xdp_md *ctx, struct row **row)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct fpisa_hdr *h = data + FPISA_OFFSET;
	struct udphdr *udp = data + FPISA_ETH_LEN + FPISA_IP_LEN;
	struct iphdr *ip = data + FPISA_ETH_LEN;
	struct ethhdr *eth = data;
	__u32 key;

	if ((void *)(h + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP) || *(__u8 *)ip != 0x45)
		return NULL;
	if (ip->protocol != IPPROTO_UDP || udp->dest != bpf_htons(FPISA_PORT) || h->magic != FPISA_MAGIC)
		return NULL;
	if (data + FPISA_PAYLOAD_OFFSET + ELEMENTS * 4 > end || h->count != ELEMENTS)
		return NULL;
	key = h->slot;
	*row = bpf_map_lookup_elem(&rows, &key);
	return *row ? data + FPISA_PAYLOAD_OFFSET : NULL;
}

/* Define a program that runs STEP for all i, with UNROLL steps between two tests of the loop. */
#define PROGRAM(name, lane, unroll, STEP)                                                                              \
	SEC("xdp") int name##_x##unroll(struct xdp_md *ctx)                                                            \
	{                                                                                                              \
		struct row *row;                                                                                       \
		lane *in = parse(ctx, &row), *out, x = 0;                                                              \
                                                                                                                       \
		if (!in)                                                                                               \
			return XDP_ABORTED;                                                                            \
		out = (lane *)row->v;                                                                                  \
		_Pragma(TEXT(clang loop unroll_count(unroll))) for (__u32 i = 0; i < ELEMENTS * 4 / sizeof(lane); i++) \
			STEP;                                                                                          \
		asm volatile("" : : "r"(x), "r"(out));                                                                 \
		return XDP_DROP;                                                                                       \
	}

PROGRAM(touch_u32, __u32, 8, x += in[i])
PROGRAM(touch_u32, __u32, 32, x += in[i])
PROGRAM(touch_u32, __u32, 256, x += in[i])
PROGRAM(touch_u64, __u64, 8, x += in[i])
PROGRAM(touch_u64, __u64, 32, x += in[i])
PROGRAM(touch_u64, __u64, 128, x += in[i])

PROGRAM(add_u32, __u32, 1, out[i] += in[i])
PROGRAM(add_u32, __u32, 8, out[i] += in[i])
PROGRAM(add_u32, __u32, 32, out[i] += in[i])
PROGRAM(add_u32, __u32, 256, out[i] += in[i])

/*
 * Add two lanes of a register. Compute the upper sum without the carry of the lower lanes, and the lower sum by a
 * 32-bit add.
 */
static __always_inline __u64 add_halves(__u64 a, __u64 b)
{
	return ((a >> 32 << 32) + b) >> 32 << 32 | (__u32)((__u32)a + (__u32)b);
}

PROGRAM(add_halves, __u64, 8, out[i] = add_halves(out[i], in[i]))
PROGRAM(add_halves, __u64, 32, out[i] = add_halves(out[i], in[i]))
PROGRAM(add_halves, __u64, 128, out[i] = add_halves(out[i], in[i]))

/* Add two lanes with masks. The top bit of each lane is added without a carry, so no carry reaches the next lane. */
#define TOPS 0x8000000080000000ull

static __always_inline __u64 add_masked(__u64 a, __u64 b)
{
	return ((a & ~TOPS) + (b & ~TOPS)) ^ ((a ^ b) & TOPS);
}

PROGRAM(add_masked, __u64, 8, out[i] = add_masked(out[i], in[i]))
PROGRAM(add_masked, __u64, 32, out[i] = add_masked(out[i], in[i]))
PROGRAM(add_masked, __u64, 128, out[i] = add_masked(out[i], in[i]))

/* Load two lanes; add and store one at a time. */
static __always_inline void add_split(__u32 *out, __u64 b)
{
	__u64 a = *(__u64 *)out;

	out[0] = (__u32)a + (__u32)b;
	out[1] = (__u32)(a >> 32) + (__u32)(b >> 32);
}

PROGRAM(add_split, __u64, 8, add_split((__u32 *)&out[i], in[i]))
PROGRAM(add_split, __u64, 32, add_split((__u32 *)&out[i], in[i]))
PROGRAM(add_split, __u64, 128, add_split((__u32 *)&out[i], in[i]))

/* Do nothing, to measure the fixed cost of a run. */
SEC("xdp")
int empty(struct xdp_md *ctx)
{
	(void)ctx;
	return XDP_DROP;
}

/* Access no memory, to measure the CPU alone while other CPUs are busy. */
#define SPINS 1024

SEC("xdp")
int spin(struct xdp_md *ctx)
{
	__u64 x = ctx->ingress_ifindex;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < SPINS; i++)
		x = x * 0x9e3779b97f4a7c15ull + 1;
	asm volatile("" : : "r"(x));
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
