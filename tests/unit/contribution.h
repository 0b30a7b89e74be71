/* SPDX-License-Identifier: GPL-2.0-only */
/* A job and a valid contribution to it, for test_checks.c and test_rules.c, which test single rules */
#ifndef TESTS_CONTRIBUTION_H
#define TESTS_CONTRIBUTION_H

#include "fpisa/frame.h"

enum { WORKERS = 3, WINDOW = 4 };

static const __be32 addr[] = {0x0100000a, 0x0200000a, 0x0300000a};
static const __be16 port = 0x5046;

static inline struct fpisa_job a_job(void)
{
	struct fpisa_job j = {.active = 1,
			      .workers = WORKERS,
			      .live = 7,
			      .token = 42,
			      .elements = 256,
			      .window = WINDOW,
			      .format = FPISA_FORMAT_FP32,
			      .mode = FPISA_MODE_FPISA_A,
			      .rounding = FPISA_ROUND_NEAREST,
			      .pipeline = FPISA_PIPELINE_FUSED,
			      .clz = FPISA_CLZ_BITS,
			      .fanout = FPISA_FANOUT_MULTICAST,
			      .address = fpisa_ipv4(0xfe00000a),
			      .group = fpisa_ipv4(0x010000ef)};

	for (int i = 0; i < WORKERS; i++)
		j.rank[i] = (struct fpisa_rank){.addr = fpisa_ipv4(addr[i]), .port = port};
	return j;
}

/* Return a valid ADD of rank 1 with 64 elements of chunk 6, which belongs to slot 2 of version 1. */
static inline struct fpisa_hdr an_add(void)
{
	return (struct fpisa_hdr){.magic = FPISA_MAGIC,
				  .version = FPISA_VERSION,
				  .type = FPISA_TYPE_ADD,
				  .format = FPISA_FORMAT_FP32,
				  .op = FPISA_OP_SUM,
				  .rank = 1,
				  .count = 64,
				  .chunk = 6,
				  .slot = 5,
				  .digest = 1000,
				  .call = 2,
				  .generation = 9,
				  .secret = 42};
}

#endif
