/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The code that all programs of queries share: the parameters of the query, its state, the checks, and the replies. The
 * entry (../fpisa.bpf.c) parses the frame, and calls the query's program for all types except those that the entry
 * handles itself. User space loads one program for each query. The program uses the maps of fpisa.o and maps of its
 * own.
 */
#ifndef FPISA_BPF_QUERY_H
#define FPISA_BPF_QUERY_H

#include "../check.h"
#include "../lock.h"
#include "../parse.h"
#include "../reply.h"
#include "fpisa/query/check.h"

/*
 * User space sets the parameters before it loads the program, so the verifier removes the code that this query does not
 * need.
 */
const volatile struct fpisa_query_config fpisa_query = {};

static __always_inline const struct fpisa_query_config *config(void)
{
	const struct fpisa_query_config *q = (const struct fpisa_query_config *)&fpisa_query;

	/* Hide the pointer from clang, which would otherwise use the zeros above as the values. */
	fpisa_opaque(q);
	return q;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fpisa_query_state);
} fpisa_query_state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fpisa_query_counters);
} fpisa_query_rows SEC(".maps");

/* -- checks of a received frame ---------------------------------------------------------------------- */

/* Run every check that needs no state, except that of the checksum or the tag. Return a verdict. */
GLOBAL_FN int check_query(struct xdp_md *ctx, __u32 payload)
{
	const struct fpisa_query_config *q = config();
	struct fpisa_session *session = lookup(&fpisa_sessions, q->job);
	struct fpisa_control *control = lookup(&fpisa_control, 0);
	struct fpisa_job *job = lookup(&fpisa_jobs, q->job);
	struct fpisa_phv *phv = lookup(&fpisa_phv, 0);
	struct headers h;
	int v;

	if (!job || !session || !control || !phv || !find_headers(ctx, &h))
		return FPISA_V_internal;
	/* frame_sum() works only for multiples of FPISA_QUERY_PAD, so another frame could not be answered. */
	v = payload % FPISA_QUERY_PAD ? FPISA_V_length :
					fpisa_check_member(h.fpisa, job, session, &phv->from, h.udp->source);
	if (v == FPISA_V_ok)
		v = fpisa_check_query(h.fpisa, payload, job, q);
	if (v == FPISA_V_ok && port_index(control, h.udp))
		v = FPISA_V_port;
	if (v == FPISA_V_ok && h.fpisa->generation != fpisa_read_once(&session->generation))
		v = FPISA_V_generation;
	/* Replies reuse the frame, and come from the first port. */
	h.udp->dest = bpf_htons(first_port(control));
	return v;
}

/* Return whether `epoch`, from a frame, is still the epoch of the query. The caller holds the lock. */
static __always_inline int epoch_runs(const struct fpisa_query_config *q, __u32 epoch)
{
	struct fpisa_session *session = lookup(&fpisa_sessions, q->job);

	return session && epoch && epoch == fpisa_read_once(&session->generation);
}

/* Return row `i` of the frame, or NULL. */
static __always_inline void *row_at(struct xdp_md *ctx, const struct fpisa_query_config *q, __u32 i)
{
	void *p = (void *)(long)ctx->data + FPISA_PAYLOAD_OFFSET;

	if (i >= FPISA_QUERY_ROWS)
		return NULL;
	/* Without this the verifier of 6.1 does not know the upper half of `i`, and finds no bound for the product. */
	fpisa_opaque(i);
	i &= FPISA_QUERY_ROWS - 1;
	p += i * q->row_bytes;
	return p + q->row_bytes <= (void *)(long)ctx->data_end ? p : NULL;
}

#include "filter.h"

/* Return the set of rows of half `half` in a frame of `count` rows. Bit i stands for row 64 x `half` + i. */
static __always_inline __u64 rows_of(__u32 half, __u32 count)
{
	__u32 from = half * 64;

	return count >= from + 64 ? ~0ull : count <= from ? 0 : (1ull << ((count - from) & 63)) - 1;
}

/*
 * Return the lowest row of the set `rows`, which is not empty. Loops over a few rows use this function to step to the
 * next row. A branch on each of 64 bits would make the verifier of 6.1 follow both ways for every row. Loops over many
 * rows have that branch in a separate function.
 */
static __always_inline __u32 lowest_row(__u64 rows)
{
	__u64 below = ~rows & (rows - 1);

	/* Hide `below` from clang, which would otherwise count zeros by a table in memory. */
	fpisa_opaque(below);
	return (__u32)__builtin_popcountll(below);
}

/* -- replies --------------------------------------------------------------------- */

/* Move row `from` to the place of row `to`, which is not after `from`. */
GLOBAL_FN int move_row(struct xdp_md *ctx, __u32 from, __u32 to)
{
	const struct fpisa_query_config *q = config();
	__u64 *in = row_at(ctx, q, from), *out = row_at(ctx, q, to);

	if (!in || !out || from == to)
		return 0;
	out[0] = in[0];
	if (q->row_bytes > 8)
		out[1] = in[1];
	if (q->row_bytes > 16)
		out[2] = in[2];
	if (q->row_bytes > 24)
		out[3] = in[3];
	if (q->row_bytes > 32)
		out[4] = in[4];
	if (q->row_bytes > 40)
		out[5] = in[5];
	if (q->row_bytes > 48)
		out[6] = in[6];
	return 0;
}

/*
 * Move the rows of `kept` together, to place `to` and the places after it. Bit i of `kept` stands for row 64 x `half` +
 * i. Return the next free place.
 */
GLOBAL_FN int compact(struct xdp_md *ctx, __u32 half, __u64 kept, __u32 to)
{
	if (half > 1)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 n = 0; n < 64 && kept; n++, kept &= kept - 1)
		move_row(ctx, half * 64 + lowest_row(kept), to++);
	return to;
}

/*
 * Write zeros after `bytes` of the payload, to a multiple of FPISA_QUERY_PAD. `bytes` is a multiple of 8, as the size
 * of a row is.
 */
GLOBAL_FN int pad_payload(struct xdp_md *ctx, __u32 bytes)
{
	void *p = (void *)(long)ctx->data + FPISA_PAYLOAD_OFFSET;

	if (bytes > FPISA_MAX_PAYLOAD)
		return 0;
	p += bytes;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < FPISA_QUERY_PAD / 8 - 1; i++) {
		if (!((bytes + 8 * i) & (FPISA_QUERY_PAD - 1)))
			break;
		if (p + 8 > (void *)(long)ctx->data_end)
			break;
		*(__u64 *)p = 0;
		p += 8;
	}
	return 0;
}

/* Cut the frame off after the payload. */
static __always_inline void cut(struct xdp_md *ctx, __u32 payload)
{
	long length = (long)ctx->data_end - (long)ctx->data;

	/*
	 * Hide `length` from clang, which would otherwise subtract the payload from the packet pointer; the verifier
	 * rejects that.
	 */
	fpisa_opaque(length);
	length -= FPISA_PAYLOAD_OFFSET + payload;
	if (length > 0)
		bpf_xdp_adjust_tail(ctx, -(int)length);
}

/* Tag a complete frame for member `rank` if the query has a token. Return checksums_of() for the frame. */
GLOBAL_FN __s64 seal_for(struct xdp_md *ctx, __u32 rank, __u32 payload)
{
	const struct fpisa_query_config *q = config();
	struct fpisa_session *session = lookup(&fpisa_sessions, q->job);
	struct fpisa_job *job = lookup(&fpisa_jobs, q->job);
	struct headers h;

	fpisa_opaque(rank);
	if (!session || !job || rank >= FPISA_MAX_WORKERS || !find_headers(ctx, &h))
		return -1;
	if (!job->keyed)
		return frame_sum(ctx, payload);
	/* Clear the cookie of the sender, which no other member may see. */
	h.fpisa->bitmap = 0;
	h.fpisa->secret = frame_tag(ctx, &session->key[rank], q->job, payload);
	return without_checksum(frame_sum(ctx, payload));
}

/* Pass the frame on to member `rank`. The FPISA header is otherwise complete. */
GLOBAL_FN int pass_on(struct xdp_md *ctx, __u32 rank, __u32 payload, __u32 v)
{
	const struct fpisa_query_config *q = config();
	struct fpisa_session *session = lookup(&fpisa_sessions, q->job);
	struct fpisa_job *job = lookup(&fpisa_jobs, q->job);
	struct fpisa_peer *peer;
	struct headers h;
	__s64 sums;
	int action;

	fpisa_opaque(rank);
	if (!session || !job || rank >= FPISA_MAX_WORKERS || !find_headers(ctx, &h))
		return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	peer = lookup(&fpisa_peers, q->job * FPISA_MAX_WORKERS + rank);
	if (!peer)
		return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	fpisa_make_passed_on(h.fpisa, session->secret[rank]);
	sums = seal_for(ctx, rank, payload);
	if (!find_headers(ctx, &h))
		return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	address_ethernet(h.eth, peer->mac, peer->local_mac);
	address_reply(&h, job, &job->rank[rank].addr, job->rank[rank].port, payload, sums);
	cut(ctx, payload);
	action = through(ctx, q->job, peer->ifindex, rank);
	return count_verdict(q->job, v, action);
}

/* Answer ROWS; `low` and `high` are the sets of rows, from row 0 and from row 64 on, that the master must have. */
GLOBAL_FN int answer(struct xdp_md *ctx, __u64 low, __u64 high, int last)
{
	const struct fpisa_query_config *q = config();
	struct headers h;
	__u32 kept = 0, payload;

	if (low)
		kept = compact(ctx, 0, low, 0);
	if (high)
		kept = compact(ctx, 1, high, kept);
	if (!find_headers(ctx, &h))
		return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	if (!kept && !last) {
		fpisa_make_ack(h.fpisa);
		return bare_to_sender(ctx, q->job, FPISA_V_rows_taken);
	}
	fpisa_opaque(kept);
	if (kept > FPISA_QUERY_ROWS)
		return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	h.fpisa->count = (__u16)kept;
	pad_payload(ctx, kept * q->row_bytes);
	payload = fpisa_query_payload(kept, q->row_bytes);
	return pass_on(ctx, q->master, payload, FPISA_V_rows_passed);
}

/* -- main function of a query's program ------------------------------------------------------------- */

/* Each kind of query defines these functions: */
GLOBAL_FN int rows(struct xdp_md *ctx);
GLOBAL_FN int seal(struct xdp_md *ctx);
GLOBAL_FN int read_groups(struct xdp_md *ctx);

/* Process a frame for this query, of a type that the entry does not handle. The frame is whole. */
static __always_inline int query(struct xdp_md *ctx)
{
	const struct fpisa_query_config *q = config();
	struct fpisa_job *job = lookup(&fpisa_jobs, q->job);
	struct headers h;
	__u32 payload, v;

	if (!job || !find_headers(ctx, &h))
		return count_verdict(q->job, FPISA_V_internal, XDP_DROP);
	payload = bpf_ntohs(h.udp->len) - FPISA_UDP_LEN - FPISA_HDR_LEN;
	v = check_query(ctx, payload);
	/* Check the checksum or the tag before answering a member, because a damaged frame gets no answer. */
	if (v != FPISA_V_ok && !fpisa_reported(v))
		return count_verdict(q->job, v, XDP_DROP);
	if (!is_sealed(ctx, q->job, payload, v))
		return count_verdict(q->job, job->keyed ? FPISA_V_tag : FPISA_V_checksum, XDP_DROP);
	if (v != FPISA_V_ok)
		return refuse(ctx, q->job, v);
	if (h.fpisa->type == FPISA_TYPE_ROWS)
		return rows(ctx);
	if (q->flags & FPISA_QUERY_FILTER && h.fpisa->type == FPISA_TYPE_KEYS)
		return keys(ctx);
	if (h.fpisa->type == FPISA_TYPE_SEAL)
		return seal(ctx);
	if (h.fpisa->type == FPISA_TYPE_READ)
		return read_groups(ctx);
	return pass_on(ctx, h.fpisa->slot, 0, FPISA_V_ack_passed);
}

#endif
