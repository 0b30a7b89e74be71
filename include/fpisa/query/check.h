/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Headers of a query's frames: every check that needs no state, and the replies.
 * As frame.h has them for jobs.
 */
#ifndef FPISA_QUERY_CHECK_H
#define FPISA_QUERY_CHECK_H

#include "../frame.h"
#include "query.h"

/* Is it a frame of `payload` bytes that this member may send? */
static __always_inline enum fpisa_verdict fpisa_check_query(const struct fpisa_hdr *h, __u32 payload,
							    const struct fpisa_job *job,
							    const struct fpisa_query_config *q)
{
	__u32 count = h->count, bytes = 0;
	int of_master = 1;

	if (h->type == FPISA_TYPE_ROWS || (h->type == FPISA_TYPE_KEYS && q->flags & FPISA_QUERY_FILTER)) {
		of_master = 0;
		bytes = fpisa_query_payload(count, h->type == FPISA_TYPE_ROWS ? q->row_bytes : q->filter_bytes);
		if (count > FPISA_QUERY_ROWS)
			return FPISA_V_length;
	} else if (h->type == FPISA_TYPE_SEAL) {
		bytes = fpisa_query_payload(q->master, sizeof(__le64));
	} else if (h->type == FPISA_TYPE_READ && job->mode == FPISA_QUERY_TABLE) {
		bytes = count * (__u32)sizeof(struct fpisa_query_group);
	} else if (h->type != FPISA_TYPE_ACK) {
		return FPISA_V_type;
	}
	if ((h->rank == q->master) != of_master)
		return FPISA_V_type;
	if (bytes != payload || bytes > FPISA_MAX_PAYLOAD)
		return FPISA_V_length;
	if (h->format != job->format)
		return FPISA_V_format;
	if (h->type == FPISA_TYPE_ACK && h->slot >= q->master)
		return FPISA_V_rank;
	return FPISA_V_ok;
}

/* ROWS whose rows are all accounted for: back to the worker. */
static __always_inline void fpisa_make_ack(struct fpisa_hdr *h)
{
	h->type = FPISA_TYPE_ACK;
	h->flags = 0;
	h->count = 0;
}

/* KEYS that are in the filter: back to the worker, with the workers of which some are missing, and what became of the filter. */
static __always_inline void fpisa_make_keys_ack(struct fpisa_hdr *h, __u64 missing, __u32 state)
{
	h->type = FPISA_TYPE_KEYS_ACK;
	h->flags = 0;
	h->count = 0;
	h->bitmap = state ? 0 : missing;
	h->aux = state;
}

/* The master's ACK, or the rows left of ROWS, to the member whose cookie it then carries. */
static __always_inline void fpisa_make_passed_on(struct fpisa_hdr *h, __u64 cookie)
{
	h->flags &= FPISA_F_LAST;
	h->secret = cookie;
	if (h->type == FPISA_TYPE_ACK) {
		h->rank = (__u16)h->slot;
		h->slot = 0;
	}
}

/* SEAL: which workers lack something, and what the query holds. */
static __always_inline void fpisa_make_sealed(struct fpisa_hdr *h, __u64 missing, __u64 held)
{
	h->type = FPISA_TYPE_STATUS;
	h->flags = 0;
	h->count = 0;
	h->bitmap = missing;
	h->aux = held;
}

/* READ: `count` groups follow, of `all`. */
static __always_inline void fpisa_make_groups(struct fpisa_hdr *h, __u32 count, __u32 all)
{
	h->type = FPISA_TYPE_GROUPS;
	h->flags = 0;
	h->count = (__u16)count;
	h->aux = all;
}

#endif
