/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The advanced operations (include/fpisa/lab/tables.h) in the kernel. The tables of the operations are array maps with
 * one entry for each row. A program applies one operation to a payload of operands, for BPF_PROG_TEST_RUN. The maps are
 * not pinned, because the process that fills them (user/lab/tables/kernel.c) owns them.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "fpisa/lab/tables_run.h"

#define TABLE(name, entries)                       \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);  \
		__uint(max_entries, entries);      \
		__type(key, __u32);                \
		__type(value, struct fpisa_entry); \
	} name SEC(".maps")

TABLE(fpisa_products, FPISA_PRODUCTS);
TABLE(fpisa_squares, FPISA_SQUARES);
TABLE(fpisa_recips, FPISA_NODES);
TABLE(fpisa_logs, FPISA_NODES);
TABLE(fpisa_roots, FPISA_NODES);

static __always_inline struct fpisa_entry match(void *map, __u32 i)
{
	struct fpisa_entry *entry = bpf_map_lookup_elem(map, &i);

	return entry ? *entry : (struct fpisa_entry){0};
}

static __always_inline struct fpisa_entry look(enum fpisa_table t, __u32 i)
{
	switch (t) {
	case FPISA_TABLE_PRODUCT:
		return match(&fpisa_products, i);
	case FPISA_TABLE_SQUARE:
		return match(&fpisa_squares, i);
	case FPISA_TABLE_RECIPROCAL:
		return match(&fpisa_recips, i);
	case FPISA_TABLE_LOG2:
		return match(&fpisa_logs, i);
	default:
		return match(&fpisa_roots, i);
	}
}

/* This is a global function, so that the verifier checks it once for any operands (blocks.h). */
__attribute__((noinline)) int apply_item(struct fpisa_run_item *item, __u32 function, __u32 format, __u32 rounding)
{
	if (item)
		fpisa_run_one(item, function, format, rounding, look);
	return 0;
}

SEC("xdp")
int fpisa_tables(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct fpisa_run *run = data;
	__u32 count, function, format, rounding;

	if ((void *)&run->item[0] > end)
		return XDP_ABORTED;
	count = run->count;
	function = run->function;
	format = run->format;
	rounding = run->rounding;
	if (count > FPISA_RUN_ITEMS || function >= FPISA_FUNCTIONS || format >= FPISA_FORMAT_END ||
	    format == FPISA_FORMAT_FP64 || !fpisa_format_of((__u8)format).bytes)
		return XDP_ABORTED;
	for (__u32 i = 0; i < FPISA_RUN_ITEMS; i++) {
		if (i >= count)
			break;
		if ((void *)(run->item + i + 1) > end)
			return XDP_ABORTED;
		apply_item(&run->item[i], function, format, rounding);
	}
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
