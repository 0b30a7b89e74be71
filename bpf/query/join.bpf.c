/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The program of a join. Pass rows whose key is in the filter to the master (fpisa/query/filter.h has the rules). The
 * program keeps no state about rows, so repeated frames are harmless, and rows need no lock.
 */
#include "query.h"

GLOBAL_FN int begin(__u32 epoch)
{
	struct fpisa_query_state *s = lookup(&fpisa_query_state, 0);

	if (s) {
		fpisa_filter_begin(s);
		s->epoch = epoch;
	}
	return 0;
}

GLOBAL_FN int rows(struct xdp_md *ctx)
{
	const struct fpisa_query_config *q = config();
	struct fpisa_query_counters *c = lookup(&fpisa_query_rows, 0);
	__u32 count, epoch, kept;
	struct headers h;
	__u64 low, high;
	int last, state;

	if (!c || !find_headers(ctx, &h))
		return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	count = h.fpisa->count;
	epoch = h.fpisa->generation;
	last = h.fpisa->flags & FPISA_F_LAST;
	if (!h.fpisa->chunk)
		return refuse(ctx, q->job, FPISA_V_sequence);
	state = use_filter(epoch);
	if (state < 0)
		return refuse(ctx, q->job, -state);
	low = ask_rows(ctx, 0, rows_of(0, count), epoch, state);
	high = ask_rows(ctx, 1, rows_of(1, count), epoch, state);
	kept = (__u32)(__builtin_popcountll(low) + __builtin_popcountll(high));
	c->rows += count;
	c->filtered += count - kept;
	c->forwarded += kept;
	return answer(ctx, low, high, last);
}

/* Answer SEAL. No worker is reported as missing, because this program does not record which frames have come. */
GLOBAL_FN int seal(struct xdp_md *ctx)
{
	const struct fpisa_query_config *q = config();
	struct headers h;

	if (!find_headers(ctx, &h))
		return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	fpisa_make_sealed(h.fpisa, 0, 0);
	return bare_to_sender(ctx, q->job, FPISA_V_status);
}

/* This is never called, because a join has no groups and the checks refuse READ. */
GLOBAL_FN int read_groups(struct xdp_md *ctx)
{
	const struct fpisa_query_config *q = config();

	return !ctx ? XDP_DROP : count_verdict(q->job, FPISA_V_internal, XDP_DROP);
}

SEC("stage")
int fpisa_join(struct xdp_md *ctx)
{
	return query(ctx);
}

char _license[] SEC("license") = "Dual BSD/GPL";
