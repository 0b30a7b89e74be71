/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The headers of a query's frames: every check that needs no state, and the headers of replies. frame.h does the same
 * for jobs.
 */
#ifndef FPISA_QUERY_CHECK_H
#define FPISA_QUERY_CHECK_H

#include "../frame.h"
#include "query.h"

/* -- valid parameters of a query ---------------------------------------------- */

enum fpisa_query_rule {
	FPISA_QUERY_RULES_KEPT,
	FPISA_QUERY_RULE_KIND,	       /* the kind is topn, table or join */
	FPISA_QUERY_RULE_KEY,	       /* keys have 4, 8, 16 or 32 bytes */
	FPISA_QUERY_RULE_NO_LIMIT,     /* a join has no limit, because it stores no rows */
	FPISA_QUERY_RULE_LIMIT,	       /* topn and table keep 1 to fpisa_most_limit() */
	FPISA_QUERY_RULE_ORDER,	       /* only topn can have an order */
	FPISA_QUERY_RULE_NEEDS_FILTER, /* a join needs a filter */
	FPISA_QUERY_RULE_NO_FILTER,    /* a query without a filter has no sizes of a filter */
	FPISA_QUERY_RULE_ONE_FILTER,
	FPISA_QUERY_RULE_JOIN_KEY,   /* join keys have 4, 8, 16 or 32 bytes, and at most as many as the key */
	FPISA_QUERY_RULE_BITMAP_KEY, /* join keys of a bitmap have 4 or 8 bytes */
	/* topn has no Bloom filter, because no row would be certain to be in the join, so the bar would never rise */
	FPISA_QUERY_RULE_BLOOM,
	FPISA_QUERY_RULE_FILTER_SIZE,
	FPISA_QUERY_RULE_FORM,	   /* values are reals, doubles or integers */
	FPISA_QUERY_RULE_WIDE,	   /* a join cannot have values that are not reals */
	FPISA_QUERY_RULE_WIDE_KEY, /* a query with such values has keys of 8 bytes or more */
};

static __always_inline __u32 fpisa_most_limit(__u32 kind)
{
	return kind == FPISA_QUERY_TOPN ? FPISA_MAX_LIMIT_TOPN : kind == FPISA_QUERY_TABLE ? FPISA_MAX_LIMIT_TABLE : 0;
}

static __always_inline enum fpisa_query_rule fpisa_query_filter_broken(__u32 kind,
								       const struct fpisa_query_parameters *q)
{
	__u32 filter = q->flags & FPISA_QUERY_FILTER;

	if (!filter && kind == FPISA_QUERY_JOIN)
		return FPISA_QUERY_RULE_NEEDS_FILTER;
	if (!filter)
		return q->filter_bytes || q->filter_log ? FPISA_QUERY_RULE_NO_FILTER : FPISA_QUERY_RULES_KEPT;
	if (filter == FPISA_QUERY_FILTER)
		return FPISA_QUERY_RULE_ONE_FILTER;
	if (!fpisa_key_bytes_valid(q->filter_bytes) || q->filter_bytes > q->key_bytes)
		return FPISA_QUERY_RULE_JOIN_KEY;
	if (filter == FPISA_QUERY_BITMAP && q->filter_bytes > 8)
		return FPISA_QUERY_RULE_BITMAP_KEY;
	if (filter == FPISA_QUERY_BLOOM && kind == FPISA_QUERY_TOPN)
		return FPISA_QUERY_RULE_BLOOM;
	return q->filter_log > FPISA_MAX_FILTER_LOG ? FPISA_QUERY_RULE_FILTER_SIZE : FPISA_QUERY_RULES_KEPT;
}

/*
 * Return the first rule that a query breaks. The verb that creates a query uses this, and so does a member that
 * receives the parameters of a query.
 */
static __always_inline enum fpisa_query_rule fpisa_query_broken(__u32 kind, const struct fpisa_query_parameters *q,
								__u32 form)
{
	if (kind < FPISA_QUERY_TOPN || kind > FPISA_QUERY_JOIN)
		return FPISA_QUERY_RULE_KIND;
	if (!fpisa_key_bytes_valid(q->key_bytes))
		return FPISA_QUERY_RULE_KEY;
	if (kind == FPISA_QUERY_JOIN && q->limit)
		return FPISA_QUERY_RULE_NO_LIMIT;
	if (kind != FPISA_QUERY_JOIN && (!q->limit || q->limit > fpisa_most_limit(kind)))
		return FPISA_QUERY_RULE_LIMIT;
	if (q->flags & (FPISA_QUERY_ASCENDING | FPISA_QUERY_TIES) && kind != FPISA_QUERY_TOPN)
		return FPISA_QUERY_RULE_ORDER;
	if (!fpisa_form_valid(form))
		return FPISA_QUERY_RULE_FORM;
	if (fpisa_form_is_wide(form) && kind == FPISA_QUERY_JOIN)
		return FPISA_QUERY_RULE_WIDE;
	if (fpisa_form_is_wide(form) && q->key_bytes < 8)
		return FPISA_QUERY_RULE_WIDE_KEY;
	return fpisa_query_filter_broken(kind, q);
}

/* -- frames that members may send ---------------------------------------------- */

/* Check that this member may send the frame of `payload` bytes. */
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
	} else if (h->type == FPISA_TYPE_READ && job->kind == FPISA_QUERY_TABLE) {
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

/* Turn a ROWS frame whose rows have all been processed into an ACK to the worker. */
static __always_inline void fpisa_make_ack(struct fpisa_hdr *h)
{
	h->type = FPISA_TYPE_ACK;
	h->flags = 0;
	h->count = 0;
}

/*
 * Turn a KEYS frame whose keys are in the filter into the answer to the worker. The answer has the workers whose keys
 * are not complete, and the state of the filter.
 */
static __always_inline void fpisa_make_keys_ack(struct fpisa_hdr *h, __u64 missing, __u32 state)
{
	h->type = FPISA_TYPE_KEYS_ACK;
	h->flags = 0;
	h->count = 0;
	h->bitmap = state ? 0 : missing;
	h->aux = state;
}

/*
 * Turn the master's ACK, or the remaining rows of a ROWS frame, into a frame for another member, with the cookie of
 * that member.
 */
static __always_inline void fpisa_make_passed_on(struct fpisa_hdr *h, __u64 cookie)
{
	h->flags &= FPISA_F_LAST;
	h->secret = cookie;
	if (h->type == FPISA_TYPE_ACK) {
		h->rank = (__u16)h->slot;
		h->slot = 0;
	}
}

/* Turn a SEAL into its answer, which has the workers whose frames are incomplete, and the contents of the query. */
static __always_inline void fpisa_make_sealed(struct fpisa_hdr *h, __u64 missing, __u64 held)
{
	h->type = FPISA_TYPE_STATUS;
	h->flags = 0;
	h->count = 0;
	h->bitmap = missing;
	h->aux = held;
}

/* Turn a READ into its answer, which has `count` of `all` groups. */
static __always_inline void fpisa_make_groups(struct fpisa_hdr *h, __u32 count, __u32 all)
{
	h->type = FPISA_TYPE_GROUPS;
	h->flags = 0;
	h->count = (__u16)count;
	h->aux = all;
}

#endif
