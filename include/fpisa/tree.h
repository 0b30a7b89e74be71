/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The rules of a tree (doc/protocol.md, section 11). A leaf is an aggregator whose job has a parent. A leaf sums the
 * contributions of its ranks, and is itself a rank of the parent's job. For its ranks, a leaf is an ordinary
 * aggregator. A round of the leaf ends when the result of the parent arrives.
 *
 *	a round completes	the registers are sealed, and the leaf sends a partial sum to the parent
 *	an ADD to a sealed round	the leaf sends the same partial sum again, or absorbs the ADD: fpisa_leaf_asks()
 *	a RESULT from the parent	the result goes to all ranks; the leaf does not store it
 *	all ranks wait		the leaf sends a HELLO to the parent, with its attempt as incarnation
 *
 * A leaf sends only in response to frames of its ranks, so it needs no timer. tests/model/trees.py explores these
 * rules.
 */
#ifndef FPISA_TREE_H
#define FPISA_TREE_H

#include "frame.h"
#include "packed.h"

/* -- a parent's slots ------------------------------------------------------------- */

/*
 * State of a slot version in a job of leaves, in addition to struct fpisa_slot. The owner of the slot also owns this
 * state.
 */
struct fpisa_partials {
	union {
		__u64 torn;  /* ranks of which some, but not all, parts are in the registers */
		__u64 asked; /* at a leaf: ranks that have sent their contribution to the sealed round again */
	};
	__u32 contributors; /* number of ranks of the leaves in slot.bitmap */
	__u32 next;	    /* at a leaf: the first part of the sealed round that the parent lacks */
	union {
		struct fpisa_planes in[FPISA_MAX_WORKERS]; /* parts of a torn rank that are in the registers */
		/* at a leaf: the partial sum of the sealed round */
		struct fpisa_planes planes; /* of FP64 */
		struct fpisa_packed packed; /* of other formats */
	};
};

static __always_inline __u32 fpisa_part_count(__u16 part)
{
	return (part & FPISA_PART_COUNT) >> FPISA_PART_COUNT_SHIFT;
}

/*
 * Return whether `part` is valid for an operation. A sum needs planes or packed blocks, and an operation on encodings
 * needs values.
 */
static __always_inline int fpisa_part_valid(__u16 part, const struct fpisa_job *job, __u32 op)
{
	__u32 limbs = fpisa_family_limbs(job->family);

	if (fpisa_encoded(fpisa_format_of(job->format), op))
		return part == (FPISA_PART_VALUES | 1 << FPISA_PART_COUNT_SHIFT);
	if (part & FPISA_PART_PACKED)
		return !(part & FPISA_PART_VALUES) && fpisa_part_count(part) && limbs <= FPISA_LIMBS &&
		       (part & FPISA_PART_PLANE) < FPISA_PACKED_PARTS;
	return !(part & FPISA_PART_VALUES) && fpisa_part_count(part) &&
	       fpisa_plane_valid(part & FPISA_PART_PLANE, limbs ? limbs : 1);
}

/* Check an ADD as fpisa_check_add() does, in a job of leaves. */
static __always_inline enum fpisa_verdict fpisa_check_partial(const struct fpisa_hdr *h, __u32 payload,
							      const struct fpisa_job *job,
							      const struct fpisa_session *session,
							      const struct fpisa_address *from, __be16 sport)
{
	__u32 values = fpisa_payload_bytes(fpisa_format_of(job->format), h->count),
	      planes = h->count * FPISA_DIGIT_BYTES;
	int right = h->reason & FPISA_PART_PACKED ?
			    payload && payload <= FPISA_MAX_PAYLOAD && !(payload % FPISA_PACKED_ROUND) :
		    h->reason & FPISA_PART_VALUES ?
			    payload == values :
			    /* A last plane may be as long as the result, which the parent makes in its frame. */
			    payload == planes || (values > planes && payload == values);
	enum fpisa_verdict v = fpisa_check_contribution(h, right, job, session, from, sport);

	if (v != FPISA_V_ok && v != FPISA_V_length)
		return v;
	if (!h->contributors || h->contributors > FPISA_MAX_WORKERS || !fpisa_part_valid(h->reason, job, h->op))
		return FPISA_V_partial;
	return v;
}

/*
 * Apply the rules of slots to a part of a partial sum, as fpisa_admit() does. If a part was lost, the leaf sends all
 * parts again, but each part is added only once.
 */
static __always_inline int fpisa_admit_part(struct fpisa_session *session, struct fpisa_slot *s,
					    struct fpisa_partials *x, const struct fpisa_claim *c, __u16 part,
					    __u64 live, __u64 *results)
{
	int fresh = s->generation != c->generation || s->chunk != c->chunk;
	int step = fpisa_admit(session, s, c, live, results);
	__u32 rank = c->rank & (FPISA_MAX_WORKERS - 1);

	if (step != FPISA_STEP_SET && step != FPISA_STEP_ADD)
		return step;
	if (fresh) {
		x->torn = 0;
		x->contributors = 0;
	}
	if (x->torn >> rank & 1 && fpisa_planes_has(&x->in[rank], part & FPISA_PART_PLANE))
		return FPISA_STEP_WAIT;
	return s->bitmap || x->torn ? FPISA_STEP_ADD : FPISA_STEP_SET;
}

/*
 * Record a part, whose values the registers hold, as fpisa_slot_commit() does. Add the rank to the bitmap once all its
 * parts are in the registers.
 */
static __always_inline int fpisa_commit_part(struct fpisa_slot *s, struct fpisa_partials *x, const struct fpisa_hdr *h,
					     __u64 live, __u32 flags)
{
	__u32 rank = h->rank & (FPISA_MAX_WORKERS - 1);

	flags |= h->flags & (FPISA_F_MARKED | FPISA_F_FEWER);
	flags |= h->result_flags & FPISA_PART_OVERFLOW ? FPISA_OVERFLOW | FPISA_INEXACT : 0;
	if (!(x->torn >> rank & 1))
		x->in[rank] = (struct fpisa_planes){};
	x->torn |= 1ull << rank;
	fpisa_planes_add(&x->in[rank], h->reason & FPISA_PART_PLANE);
	if (fpisa_planes_count(&x->in[rank]) < fpisa_part_count(h->reason)) {
		s->flags |= (__u8)flags;
		return 0;
	}
	x->torn &= ~(1ull << rank);
	x->contributors += h->contributors;
	return fpisa_slot_commit(s, (__u16)rank, live, flags);
}

/*
 * Return the reason why a complete round of partial sums cannot give a result, or 0. A round with a torn rank has no
 * result, because the parts of the rank cannot be removed from the registers. The torn rank is not live, because
 * otherwise the round would wait for the rank.
 */
static __always_inline enum fpisa_verdict fpisa_round_lost(const struct fpisa_partials *x)
{
	return x->torn ? FPISA_V_torn : (enum fpisa_verdict)0;
}

/* Turn a part's header into its round's result, as fpisa_make_result() does. */
static __always_inline void fpisa_make_root_result(struct fpisa_hdr *h, const struct fpisa_slot *s,
						   const struct fpisa_partials *x, const struct fpisa_job *job,
						   __u64 secret, __u32 flags, int resent)
{
	__u64 all = ~0ull >> (FPISA_MAX_WORKERS - job->workers);

	fpisa_make_result(h, s, job, secret, flags & ~FPISA_F_FEWER, resent);
	h->contributors = (__u16)x->contributors;
	if (flags & FPISA_F_FEWER || s->bitmap != all)
		h->flags |= FPISA_F_FEWER;
}

/* -- a leaf's session ------------------------------------------------------------- */

/*
 * State of a leaf as a rank of its parent's job. `attempt` is the incarnation of the leaf in that job. Each newcomer at
 * the leaf begins a new attempt, so each attempt has one set of incarnations of the leaf's ranks. The first attempt is
 * the clock, in ns since 1970, so that a leaf that has lost its state does not repeat an attempt. The jobs of leaf and
 * parent have the same token.
 */
struct fpisa_uplink {
	__u64 attempt; /* incarnation of the leaf in the parent's job; 0: the job has no parent */
	__u64 cookie;  /* cookie of this attempt; 0: not known yet */
	/* ranks that waited when the leaf sent HELLO in this attempt; 0: no HELLO was sent, or the leaf has joined */
	__u64 offered;
	__u64 results;			   /* secret of the results of the session's generation at the parent */
	struct fpisa_key key, results_key; /* keys of tags; only in jobs with a token */
	__u32 job;			   /* number of the parent's job */
	__u32 rank;			   /* rank of the leaf in the parent's job */
	__u32 workers, ports;		   /* number of workers and of ports of the parent's job */
};

/* A leaf in the datapath. The session's lock protects it, except single words. */
struct fpisa_leaf {
	struct fpisa_uplink up;
	struct fpisa_peer parent; /* the route of the latest HELLO */
	/* bytes of a payload that fit the MTU of this route, up to FPISA_MAX_PAYLOAD; 0: the route has a gateway */
	__u32 room;
};

/* Begin a new attempt. */
static __always_inline void fpisa_leaf_attempt(struct fpisa_uplink *up, __u64 attempt)
{
	up->attempt = attempt;
	up->cookie = 0;
	up->offered = 0;
}

/*
 * Process a HELLO of a rank of the leaf, as fpisa_session_join() does. The caller owns the lock of the session. If the
 * result is FPISA_HELLO_ALL_WAIT, the leaf sends a HELLO to the parent. Before the leaf sends another HELLO, all ranks
 * must repeat their HELLOs, so a rank that has died soon no longer counts.
 */
static __always_inline enum fpisa_waiting fpisa_leaf_join(struct fpisa_session *s, struct fpisa_uplink *up, __u32 rank,
							  __u64 inc, __u64 cookie, __u64 live)
{
	__u64 known = s->incarnation[rank & (FPISA_MAX_WORKERS - 1)];
	enum fpisa_waiting waiting = fpisa_session_wait(s, rank, inc, cookie, live);

	if (inc > known)
		fpisa_leaf_attempt(up, up->attempt + 1);
	if (waiting == FPISA_HELLO_ALL_WAIT) {
		s->joining = 0;
		up->offered = live;
	}
	return waiting;
}

/*
 * Process the parent's WELCOME to `attempt`, which has joined `generation`. Ignore a WELCOME to an earlier attempt,
 * because a rank of that attempt may have restarted. Also ignore a second generation of the same attempt, which a
 * parent that lost its state may announce. Return whether the generation begins at the leaf. The caller owns the lock.
 */
static __always_inline int fpisa_leaf_welcome(struct fpisa_session *s, struct fpisa_uplink *up, __u64 attempt,
					      __u32 generation, __u64 live)
{
	if (attempt != up->attempt || !up->offered)
		return 0;
	up->offered = 0;
	s->members = live;
	s->joining = 0;
	fpisa_write_once(&s->generation, generation);
	return 1;
}

/* -- a leaf's frames ------------------------------------------------------------------ */

/*
 * Let the rank of a HELLO that has passed fpisa_challenge() join a leaf, and turn the HELLO into its WELCOME, as
 * fpisa_welcome() does.
 */
static __always_inline enum fpisa_waiting fpisa_leaf_hello(struct fpisa_hdr *h, struct fpisa_hello *p,
							   const struct fpisa_job *job, struct fpisa_session *s,
							   struct fpisa_uplink *up, __u32 rank, __u64 live)
{
	__u64 known = s->incarnation[rank & (FPISA_MAX_WORKERS - 1)];
	enum fpisa_waiting waiting = fpisa_leaf_join(s, up, rank, h->aux, h->secret, live);

	if (job->keyed && h->aux > known)
		s->key[rank & (FPISA_MAX_WORKERS - 1)] = fpisa_rank_key(job, rank, h->secret);
	fpisa_make_welcome(h, p, job, s, rank, waiting == FPISA_HELLO_JOINED);
	if (waiting == FPISA_HELLO_JOINED || !up->offered)
		return waiting;
	h->flags |= FPISA_F_ABOVE;
	h->bitmap |= up->offered;
	return waiting;
}

/*
 * Record that a rank has sent its contribution to the sealed round again. Return whether the leaf sends the partial sum
 * again. If another rank has asked before, the answer goes to all ranks, so the leaf absorbs the first copy of this rank.
 * Otherwise the ranks of a leaf, whose timeouts pass at about the same time, would send as many copies over the link to
 * the parent. The leaf does not absorb a second copy, because the first partial sum or its result may be lost.
 */
static __always_inline int fpisa_leaf_asks(struct fpisa_partials *x, __u32 rank)
{
	const __u64 bit = 1ull << (rank & (FPISA_MAX_WORKERS - 1));
	const int asks = !x->asked || x->asked & bit;

	x->asked |= bit;
	return asks;
}

/* Return the number by which the leaf recognises answers to the HELLOs of its attempt. */
static __always_inline __u64 fpisa_leaf_nonce(const struct fpisa_job *job, const struct fpisa_uplink *up)
{
	return fpisa_siphash(&job->key, up->attempt, 2ull << 32);
}

/* Write the leaf's HELLO without its checksum. `k` is the NH key of the job. */
static __always_inline void fpisa_make_leaf_hello(struct fpisa_hdr *h, struct fpisa_hello *p,
						  const struct fpisa_job *job, const struct fpisa_uplink *up,
						  const __u64 *k)
{
	*p = (struct fpisa_hello){};
	*h = (struct fpisa_hdr){
		.magic = FPISA_MAGIC,
		.version = FPISA_VERSION,
		.type = FPISA_TYPE_HELLO,
		.job = up->job,
		.rank = 0xffff,
		.chunk = fpisa_leaf_nonce(job, up),
		.secret = up->cookie,
		.aux = up->attempt,
	};
	p->proof = fpisa_proof(job, k, h, p);
}

/*
 * Write the header of a part of a sealed round's partial sum, without its checksum or tag. `asked` is the ADD in
 * response to which the leaf sends the part. The rank of this ADD gets the STATUS or ERROR of the parent. The last part
 * asks for a STATUS.
 */
static __always_inline void fpisa_make_part(struct fpisa_hdr *h, const struct fpisa_hdr *asked,
					    const struct fpisa_slot *s, const struct fpisa_job *job,
					    const struct fpisa_uplink *up, __u16 part, int last)
{
	__u64 all = ~0ull >> (FPISA_MAX_WORKERS - job->workers);
	__u8 probe = last ? asked->flags & FPISA_F_PROBE : 0;

	*h = *asked;
	h->flags = (__u8)((asked->flags & FPISA_F_RETRANSMIT) | probe | (s->flags & FPISA_F_MARKED) |
			  (s->bitmap == all ? 0 : FPISA_F_FEWER));
	h->result_flags = (__u8)(asked->rank | (s->flags & FPISA_OVERFLOW ? FPISA_PART_OVERFLOW : 0));
	h->job = up->job;
	h->rank = (__u16)up->rank;
	h->contributors = s->arrivals;
	h->reason = part;
	h->secret = up->cookie;
	h->bitmap = job->keyed ? up->cookie : 0;
	h->checksum = 0;
}

/*
 * Write a part as fpisa_make_part() does, in place of the ADD *h, at a leaf that sends one frame for each that it gets.
 * The parent answers each part but the last with a STATUS, which asks for the next part: fpisa_make_next_part().
 */
static __always_inline void fpisa_make_one_part(struct fpisa_hdr *h, const struct fpisa_slot *s,
						const struct fpisa_job *job, const struct fpisa_uplink *up, __u16 part,
						int last)
{
	const __u8 asks = h->flags & FPISA_F_PROBE ? FPISA_PART_ASKS : 0;

	fpisa_make_part(h, h, s, job, up, part, last);
	h->result_flags |= asks;
	if (!last)
		h->flags |= FPISA_F_PROBE;
}

/* Return whether the parent's job, as described by its WELCOME, fits the job of the leaf, which has `rank` there. */
static __always_inline int fpisa_parent_alike(const struct fpisa_hello *p, const struct fpisa_job *job, __u32 rank)
{
	const __u8 same = FPISA_JOB_BIG_ENDIAN | FPISA_JOB_RECIPROCAL;

	return (p->flags & FPISA_JOB_LEAVES) && p->rank == rank && p->mode == job->mode && fpisa_may_be_in_tree(job) &&
	       p->format == job->format && p->rounding == job->rounding && p->window == job->window &&
	       p->elements == job->elements && !((p->flags ^ job->flags) & same) && p->workers &&
	       p->workers <= FPISA_MAX_WORKERS;
}

/*
 * Return whether a slot holds the sealed round to which a RESULT of the parent belongs, in the generation of the
 * session.
 */
static __always_inline int fpisa_is_sealed_round(const struct fpisa_slot *s, const struct fpisa_hdr *h)
{
	return s->generation == h->generation && s->chunk == h->chunk && s->done && s->count == h->count &&
	       s->op == h->op && s->digest == h->digest && s->call == h->call;
}

/*
 * Turn the parent's STATUS to a part into the ADD of the rank for which it was sent. Return 0 if the slot *s does not
 * hold its sealed round.
 */
static __always_inline int fpisa_make_next_part(struct fpisa_hdr *h, const struct fpisa_slot *s)
{
	h->count = s->count;
	if (!fpisa_is_sealed_round(s, h)) {
		h->count = 0;
		return 0;
	}
	h->type = FPISA_TYPE_ADD;
	h->flags = h->result_flags & FPISA_PART_ASKS ? FPISA_F_PROBE : 0;
	h->rank = h->result_flags & FPISA_PART_ASKER;
	h->aux = s->operand;
	return 1;
}

/*
 * Turn the RESULT of the parent into the RESULT of the leaf. `bitmap` and `aux` become those of the leaf's ranks, and
 * the other fields do not change. Return nonzero if the parent reports that the leaf's contribution to the previous
 * chunk was lost.
 */
static __always_inline int fpisa_make_down(struct fpisa_hdr *h, const struct fpisa_slot *s, const struct fpisa_job *job,
					   const struct fpisa_uplink *up, __u32 number, __u64 secret)
{
	__u64 lost = fpisa_told_lost(h, up->workers) >> (up->rank & 63) & 1;
	__u16 contributors = h->contributors;
	__u8 flags = h->flags, result_flags = h->result_flags;

	fpisa_make_result(h, s, job, secret, 0, 0);
	h->job = number;
	h->flags = flags;
	h->result_flags = result_flags;
	h->contributors = contributors;
	return (int)lost;
}

/*
 * Store in the leaf's result which contributions to the previous chunk were lost, as fpisa_tell_lost() does. If the
 * leaf's own contribution was lost (`above`), report one rank as lost. That rank sends its contribution again, and the
 * leaf then sends its partial sum again.
 */
static __always_inline __u64 fpisa_tell_leaf_lost(struct fpisa_hdr *h, const struct fpisa_job *job,
						  const struct fpisa_slot *before, __u64 live, int above)
{
	__u64 lost = fpisa_tell_lost(h, job, before, live);

	if (lost || !above)
		return lost;
	lost = live & -live;
	if (job->workers <= FPISA_ORDER_WORKERS)
		h->reason = (__u16)lost;
	else
		h->aux = lost;
	return lost;
}

/*
 * Turn the parent's STATUS or ERROR into the leaf's answer to rank `asker`, without its checksum or tag. The ranks of
 * the leaf cannot use the bitmap of the STATUS, because it names leaves.
 */
static __always_inline void fpisa_make_leaf_answer(struct fpisa_hdr *h, const struct fpisa_job *job,
						   const struct fpisa_session *session, __u32 number, __u32 asker)
{
	__u64 cookie = session->secret[asker & (FPISA_MAX_WORKERS - 1)];

	h->job = number;
	h->rank = (__u16)asker;
	h->flags = h->type == FPISA_TYPE_STATUS ? FPISA_F_ABOVE : 0;
	h->result_flags = 0;
	h->secret = cookie;
	if (h->type == FPISA_TYPE_ERROR) {
		h->bitmap = job->keyed ? cookie : 0;
		h->contributors = 0;
	} else {
		h->reason = 0;
	}
}

#endif
