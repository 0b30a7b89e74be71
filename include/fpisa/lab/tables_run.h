/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The interface of bpf/lab/tables.bpf.c under BPF_PROG_TEST_RUN: the program applies one function of tables.h to a
 * payload of operands, and replaces the operands by results.
 */
#ifndef FPISA_TABLES_RUN_H
#define FPISA_TABLES_RUN_H

#include "tables.h"

#define FPISA_RUN_ITEMS 128 /* largest number of items, which fit into the part of a frame that XDP can access */

struct fpisa_run_item {
	__u32 a, b;    /* in: packed operands; out: packed result, result flags */
	__u32 sign, e; /* out: sign and exponent of the result before it is packed */
	__u64 m;       /* out: mantissa; the result is m x 2^(e - bias - M - FPISA_RESULT_GUARD) */
};

struct fpisa_run {
	__u32 function; /* enum fpisa_function */
	__u32 format;	/* enum fpisa_format_id, except fp64 */
	__u32 rounding; /* enum fpisa_rounding */
	__u32 count;	/* items, 0..FPISA_RUN_ITEMS */
	struct fpisa_run_item item[FPISA_RUN_ITEMS];
};

static __always_inline void fpisa_run_one(struct fpisa_run_item *item, __u32 function, __u32 format, __u32 rounding,
					  fpisa_look look)
{
	struct fpisa_format f = fpisa_format_of((__u8)format);
	struct fpisa_lane l = {.word = item->a};

	fpisa_apply(&l, function, item->b, f, look);
	item->m = (__u64)l.m;
	item->e = l.e;
	item->sign = l.sign;
	fpisa_pack_result(&l, f, rounding);
	item->a = (__u32)l.word;
	item->b = l.flags;
}

#endif
