/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Step 2 of 7, from parse.h to phv.h: check that a contribution is whole, that the job accepts it, and that it comes
 * from the rank in its header. No slot has been read yet. fpisa/frame.h has the rules.
 */
#ifndef FPISA_BPF_CHECK_H
#define FPISA_BPF_CHECK_H

#include "checksum.h"

/*
 * Return whether an ADD has its checksum, or in jobs with a token the right tag. Check the tag with the key of the
 * rank's current incarnation. An ADD with another cookie (`v` is `secret`) gets an ERROR, so check its tag with the key
 * derived from that cookie. One function handles both cases, so that the verifier has only one state after the call.
 */
GLOBAL_FN int is_sealed(struct xdp_md *ctx, __u32 id, __u32 payload, __u32 v)
{
	struct fpisa_session *session = lookup(&fpisa_sessions, id);
	struct fpisa_job *job = lookup(&fpisa_jobs, id);
	struct fpisa_key key;
	struct headers h;
	__u64 tag;
	__u32 rank;

	if (!session || !job || !find_headers(ctx, &h))
		return 0;
	if (!job->keyed)
		return is_checksum(sum_frame(ctx, payload), h.fpisa->checksum);
	tag = h.fpisa->secret;
	rank = h.fpisa->rank & (FPISA_MAX_WORKERS - 1);
	if (h.fpisa->checksum || !tag)
		return 0;
	key = v == FPISA_V_secret ? fpisa_rank_key(job, rank, h.fpisa->bitmap) : session->key[rank];
	return tag == tag_frame(ctx, &key, id, payload);
}

/* Check port, checksum and tag of an ADD. `v` is the verdict on its header. Return the verdict on the whole frame. */
static __always_inline enum fpisa_verdict check_seal(struct xdp_md *ctx, const struct packet *p, enum fpisa_verdict v)
{
	if (v == FPISA_V_ok)
		v = fpisa_check_port(p->h.fpisa, p->job, p->port);
	/* Check the whole frame first, because a damaged frame gets no answer. */
	if (v != FPISA_V_ok && !fpisa_reported(v))
		return v;
	if (is_sealed(ctx, p->id, p->payload, v))
		return v;
	return p->job->keyed ? FPISA_V_tag : FPISA_V_checksum;
}

/* Check a contribution from this address. Return FPISA_V_ok, or the verdict with which to refuse the ADD. */
static __always_inline enum fpisa_verdict check(struct xdp_md *ctx, const struct packet *p,
						const struct fpisa_address *from)
{
	const struct headers *h = &p->h;

	return check_seal(ctx, p, fpisa_check_add(h->fpisa, p->payload, p->job, p->session, from, h->udp->source));
}

/*
 * Record that rank `rank` of job `id` is alive. Read the clock only when the tick has changed. With the JIT, reading
 * the tick is a load, but reading the clock is a call.
 */
static __always_inline void mark_seen(__u32 id, __u32 rank)
{
	struct fpisa_last_seen *seen =
		lookup(&fpisa_last_seen, id * FPISA_MAX_WORKERS + (rank & (FPISA_MAX_WORKERS - 1)));
	__u64 tick = bpf_jiffies64();

	if (!seen || seen->tick == tick)
		return;
	seen->tick = tick;
	seen->ns = bpf_ktime_get_ns();
}

#endif
