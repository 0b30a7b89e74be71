/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The headers of frames: every check that needs no slot, and the headers of replies. The datapath and the in-process
 * transport share this file.
 *
 * Cheap checks run first. The last check is that of the checksum, and no slot is read or written before a frame has
 * passed this check.
 */
#ifndef FPISA_FRAME_H
#define FPISA_FRAME_H

#include "op.h"
#include "slot.h"

/* Return whether this is a frame that a worker sends, in a supported version. */
static __always_inline enum fpisa_verdict fpisa_check_type(const struct fpisa_hdr *h)
{
	if (h->version != FPISA_VERSION)
		return FPISA_V_version;
	if (h->type != FPISA_TYPE_ADD && h->type != FPISA_TYPE_HELLO)
		return FPISA_V_type;
	return FPISA_V_ok;
}

/* Return the rank that the job lists at this address and port, or FPISA_MAX_WORKERS if the job lists no rank there. */
static __always_inline __u32 fpisa_rank_at(const struct fpisa_job *job, const struct fpisa_address *from, __be16 sport)
{
	__u32 i;

	for (i = 0; i < FPISA_MAX_WORKERS; i++)
		if (i < job->workers && fpisa_same_address(&job->rank[i].addr, from) && job->rank[i].port == sport)
			break;
	return i;
}

/*
 * Check that a frame from this address and port comes from a member that the job lists. The source address and port identify the
 * member. The rank in the header only selects the entry to compare with. The secret proves that the sender is the
 * current incarnation of the rank, because any host can forge a source address.
 */
static __always_inline enum fpisa_verdict fpisa_check_member(const struct fpisa_hdr *h, const struct fpisa_job *job,
							     const struct fpisa_session *session,
							     const struct fpisa_address *from, __be16 sport)
{
	__u32 rank = h->rank;
	__u64 cookie;

	if (rank >= FPISA_MAX_WORKERS || rank >= job->workers)
		return FPISA_V_rank;
	if (!fpisa_same_address(&job->rank[rank].addr, from) || job->rank[rank].port != sport)
		return fpisa_rank_at(job, from, sport) < FPISA_MAX_WORKERS ? FPISA_V_rank : FPISA_V_unknown_peer;
	cookie = job->keyed ? h->bitmap : h->secret;
	if (!cookie || cookie != fpisa_read_once(&session->secret[rank]))
		return FPISA_V_secret;
	return FPISA_V_ok;
}

/*
 * Check that an ADD from this address and port comes from a member of the job and fits the job. `right` says whether the
 * payload has the right size.
 */
static __always_inline enum fpisa_verdict fpisa_check_contribution(const struct fpisa_hdr *h, int right,
								   const struct fpisa_job *job,
								   const struct fpisa_session *session,
								   const struct fpisa_address *from, __be16 sport)
{
	__u32 rank = h->rank, count = h->count;
	enum fpisa_verdict v;

	if (!count || count % FPISA_BLOCK || count > job->elements || !right)
		return FPISA_V_length;
	v = fpisa_check_member(h, job, session, from, sport);
	if (v != FPISA_V_ok)
		return v;
	if (h->format != job->format)
		return FPISA_V_format;
	if (!fpisa_op_offered(fpisa_format_of(job->format), (enum fpisa_mode)job->mode, h->op))
		return FPISA_V_op;
	if (h->op == FPISA_OP_SCALE ? !fpisa_factor_valid(h->aux, fpisa_format_of(job->format)) : h->aux != 0)
		return FPISA_V_op;
	if (!(job->live >> (rank & 63) & 1))
		return FPISA_V_not_live;
	if (h->slot != fpisa_slot_of(h->chunk, job->window))
		return FPISA_V_slot;
	return FPISA_V_ok;
}

/* Check an ADD of `payload` bytes, whose payload has the values of a rank. */
static __always_inline enum fpisa_verdict fpisa_check_add(const struct fpisa_hdr *h, __u32 payload,
							  const struct fpisa_job *job,
							  const struct fpisa_session *session,
							  const struct fpisa_address *from, __be16 sport)
{
	int right = payload == fpisa_payload_bytes(fpisa_format_of(job->format), h->count);

	return fpisa_check_contribution(h, right, job, session, from, sport);
}

/*
 * Check that an ADD arrived at the port of its slot. `port` is the index of the port, from the aggregator's first port.
 */
static __always_inline enum fpisa_verdict fpisa_check_port(const struct fpisa_hdr *h, const struct fpisa_job *job,
							   __u32 port)
{
	return port == fpisa_port_index(h->slot >> 1, job->window, job->ports) ? FPISA_V_ok : FPISA_V_port;
}

/* Return the sums of a HELLO, or of its answer, for its checksum. */
static __always_inline struct fpisa_sum fpisa_hello_sums(const struct fpisa_hdr *h, const struct fpisa_hello *p)
{
	struct fpisa_sum sum = {};

	fpisa_sum_words(&sum, h, FPISA_SUM_HDR_WORDS);
	fpisa_sum_words(&sum, p, sizeof(*p) / 8);
	return sum;
}

static __always_inline __u32 fpisa_hello_sum(const struct fpisa_hdr *h, const struct fpisa_hello *p)
{
	struct fpisa_sum sum = fpisa_hello_sums(h, p);

	return fpisa_sum_fold(&sum);
}

/*
 * Return the value of `proof` for a HELLO to the job, or a WELCOME from it, that is otherwise complete. `k` is the NH
 * key of the job.
 */
static __always_inline __u64 fpisa_proof(const struct fpisa_job *job, const __u64 *k, const struct fpisa_hdr *h,
					 const struct fpisa_hello *p)
{
	struct fpisa_key token = fpisa_token_of(job), key;

	if (!job->token)
		return 0;
	key = fpisa_key_of(&token, FPISA_KEY_HELLO, 0, 0);
	return fpisa_hello_tag(&key, k, h, p);
}

/*
 * Check that a HELLO with `payload` bytes at p comes from the listed address of a member. Only the cookie proves that
 * the address is not forged. If the result is FPISA_V_ok or FPISA_V_not_live, set *rank to the rank listed at the
 * address. The caller reports not_live only to a sender that knows the token (fpisa_proof()).
 */
static __always_inline enum fpisa_verdict fpisa_check_hello(const struct fpisa_hdr *h, const struct fpisa_hello *p,
							    __u32 payload, const struct fpisa_job *job,
							    const struct fpisa_address *from, __be16 sport, __u32 *rank)
{
	__u32 i;

	if (payload == 2 * sizeof(*p) + FPISA_HDR_LEN)
		return FPISA_V_uncut;
	if (payload != sizeof(*p))
		return FPISA_V_length;
	if (!h->aux || h->aux >> 63)
		return FPISA_V_incarnation;
	i = fpisa_rank_at(job, from, sport);
	if (i >= FPISA_MAX_WORKERS)
		return FPISA_V_unknown_peer;
	/* Check for a missing proof here, because checking a proof takes some 20 SipHash. */
	if (!p->proof != !job->token)
		return FPISA_V_token;
	if (fpisa_hello_sum(h, p) != h->checksum)
		return FPISA_V_checksum;
	*rank = i;
	return job->live >> i & 1 ? FPISA_V_ok : FPISA_V_not_live;
}

/* Return the ranks that keep the result according to an ADD, or 0 for all. A leaf's ADD has another value in this field. */
static __always_inline __u16 fpisa_asked_keepers(const struct fpisa_hdr *h, const struct fpisa_job *job)
{
	return !(job->flags & FPISA_JOB_LEAVES) && fpisa_names_keepers(h->contributors) ? h->contributors : 0;
}

/* Return the claim of a checked ADD. */
static __always_inline struct fpisa_claim fpisa_claim_of(const struct fpisa_hdr *h, const struct fpisa_job *job)
{
	return (struct fpisa_claim){
		.chunk = h->chunk,
		.digest = h->digest,
		.operand = h->aux,
		.generation = h->generation,
		.call = h->call,
		.window = job->window,
		.count = h->count,
		.rank = h->rank,
		.keepers = fpisa_asked_keepers(h, job),
		.op = h->op,
	};
}

/*
 * Turn the header of a contribution into the header of its round's result. Do not change the fields that identify the
 * chunk, which are the same in the result. Keep the flag RETRANSMIT, which then says that a retransmission completed
 * the round. `flags` are the flags of the slot and of the read-out. If a contribution had a congestion mark, the result
 * reports this to all ranks, as in ATP (NSDI 2021), because a round is as fast as its slowest rank. A kept result is
 * not marked: the rank that asks for it has lost a frame, which is a stronger sign of congestion.
 */
static __always_inline void fpisa_make_result(struct fpisa_hdr *h, const struct fpisa_slot *s,
					      const struct fpisa_job *job, __u64 secret, __u32 flags, int resent)
{
	h->type = FPISA_TYPE_RESULT;
	h->flags = resent ? FPISA_F_RESENT : (h->flags & FPISA_F_RETRANSMIT) | (flags & FPISA_F_MARKED);
	h->result_flags = (__u8)(flags & ~FPISA_F_MARKED);
	h->rank = s->keepers ?: FPISA_KEEPERS_ALL;
	h->contributors = s->arrivals;
	h->reason = 0;
	h->secret = secret;
	h->bitmap = s->bitmap;
	h->aux = job->workers <= FPISA_ORDER_WORKERS ? s->order : 0;
}

/* Turn a RESULT into that of a rank that does not keep it. The caller cuts the payload off. */
static __always_inline void fpisa_make_bare_result(struct fpisa_hdr *h)
{
	h->count = 0;
}

/*
 * Store in a result to all ranks which contributions to the previous chunk were lost. `before` is the slot of the
 * previous chunk. Store the ranks in `aux` if it does not have the order of arrival. Return the ranks.
 */
static __always_inline __u64 fpisa_tell_lost(struct fpisa_hdr *h, const struct fpisa_job *job,
					     const struct fpisa_slot *before, __u64 live)
{
	__u64 lost = h->chunk ? fpisa_slot_lacks(before, h->generation, h->chunk - 1, live) : 0;

	if (job->workers <= FPISA_ORDER_WORKERS)
		h->reason = (__u16)lost;
	else
		h->aux = lost;
	return lost;
}

/* Return the ranks that a result names as lost, in a job of `workers` workers. Return 0 for a kept result. */
static __always_inline __u64 fpisa_told_lost(const struct fpisa_hdr *h, __u32 workers)
{
	if (h->flags & FPISA_F_RESENT)
		return 0;
	return workers <= FPISA_ORDER_WORKERS ? h->reason : h->aux;
}

/* Return the order of arrival that a result reports, or 0 in jobs of more than FPISA_ORDER_WORKERS workers. */
static __always_inline __u64 fpisa_told_order(const struct fpisa_hdr *h, __u32 workers)
{
	return workers <= FPISA_ORDER_WORKERS ? h->aux : 0;
}

static __always_inline void fpisa_make_status(struct fpisa_hdr *h, const struct fpisa_slot *s, __u64 live)
{
	h->type = FPISA_TYPE_STATUS;
	h->flags = 0;
	h->count = 0;
	h->contributors = s->arrivals;
	h->bitmap = s->bitmap;
	h->aux = live;
}

static __always_inline void fpisa_make_error(struct fpisa_hdr *h, enum fpisa_verdict why)
{
	h->type = FPISA_TYPE_ERROR;
	h->flags = 0;
	h->count = 0;
	h->reason = (__u16)why;
}

/* Return the key of the tags between the aggregator and a rank that has this cookie. */
static __always_inline struct fpisa_key fpisa_rank_key(const struct fpisa_job *job, __u32 rank, __u64 cookie)
{
	struct fpisa_key token = fpisa_token_of(job);

	return fpisa_key_of(&token, FPISA_KEY_RANK, rank, cookie);
}

/*
 * Return the key for the tag of a RESULT, a STATUS or an ERROR. The last two, in answer to an ADD, use the key of the
 * cookie in that ADD, which may be an old cookie. An answer to a HELLO, which has generation 0, uses the key of HELLOs.
 */
static __always_inline struct fpisa_key fpisa_reply_key(const struct fpisa_job *job,
							const struct fpisa_session *session, const struct fpisa_hdr *h)
{
	__u32 rank = h->rank & (FPISA_MAX_WORKERS - 1);
	struct fpisa_key token = fpisa_token_of(job);
	__u64 cookie = h->type == FPISA_TYPE_ERROR ? h->bitmap : session->secret[rank];

	if (h->type == FPISA_TYPE_RESULT)
		return session->results_key;
	if (!h->generation)
		return fpisa_key_of(&token, FPISA_KEY_HELLO, 0, 0);
	return fpisa_key_of(&token, FPISA_KEY_RANK, rank, cookie);
}

/*
 * Let the rank of a HELLO with the right cookie join the session. The caller owns the lock of the session. Return as
 * fpisa_session_join() does.
 */
static __always_inline int fpisa_session_hello(struct fpisa_session *s, const struct fpisa_job *job,
					       const struct fpisa_hdr *h, __u32 rank, __u64 live, __u32 *next)
{
	__u64 known = s->incarnation[rank & (FPISA_MAX_WORKERS - 1)];
	struct fpisa_key token = fpisa_token_of(job);
	__u32 before = s->generation;
	int joined = fpisa_session_join(s, rank, h->aux, h->secret, live, next);

	if (job->keyed && h->aux > known)
		s->key[rank & (FPISA_MAX_WORKERS - 1)] = fpisa_rank_key(job, rank, h->secret);
	if (s->generation != before) {
		fpisa_write_once(&s->results, fpisa_result_secret(&job->key, s->generation));
		if (job->keyed)
			s->results_key = fpisa_key_of(&token, FPISA_KEY_RESULTS, 0, s->results);
	}
	return joined;
}

/* Turn a HELLO without the right cookie into the answer that carries only the cookie. */
static __always_inline void fpisa_make_challenge(struct fpisa_hdr *h, struct fpisa_hello *p, __u64 cookie)
{
	*p = (struct fpisa_hello){};
	h->type = FPISA_TYPE_WELCOME;
	h->flags = FPISA_F_PENDING | FPISA_F_CHALLENGE;
	h->secret = cookie;
}

/* Fill in the fields of a WELCOME that depend on the kind of job. */
static __always_inline void fpisa_tell_kind(struct fpisa_hello *p, const struct fpisa_job *job)
{
	struct fpisa_query_welcome *q = (void *)p;

	if (!fpisa_is_query(job)) {
		p->mode = job->mode;
		p->rounding = job->rounding;
		p->pipeline = job->pipeline;
		p->clz = job->clz;
		p->group = job->group.w[3];
		if (fpisa_is_ipv6(&job->group))
			__builtin_memcpy(p->group_high, job->group.b, sizeof(p->group_high));
		return;
	}
	q->kind = job->kind;
	q->key_bytes = job->query.key_bytes;
	q->filter_bytes = job->query.filter_bytes;
	q->flags = job->query.flags;
	q->limit = job->query.limit;
}

static __always_inline void fpisa_make_welcome(struct fpisa_hdr *h, struct fpisa_hello *p, const struct fpisa_job *job,
					       const struct fpisa_session *s, __u32 rank, int joined)
{
	h->type = FPISA_TYPE_WELCOME;
	h->flags = joined ? 0 : FPISA_F_PENDING;
	h->format = job->format;
	h->generation = s->generation;
	h->rank = (__u16)rank;
	h->bitmap = joined ? job->live : s->joining;
	h->aux = s->incarnation[rank & 63];
	p->window = job->window;
	p->elements = job->elements;
	p->workers = (__u16)job->workers;
	p->rank = (__u16)rank;
	p->format = job->format;
	p->fanout = job->fanout;
	p->flags = job->flags;
	p->ports = job->ports;
	p->faults = job->faults;
	fpisa_tell_kind(p, job);
	p->address = fpisa_is_ipv4(&job->address) ? job->address.w[3] : 0;
	p->live = job->live;
	p->proof = 0;
	p->results = joined ? s->results : 0;
}

/*
 * Check that a HELLO carries `cookie`, which proves that the HELLO came from the listed address of its rank. If not,
 * turn the HELLO into the answer that sends the cookie to that address, and return FPISA_V_challenge.
 */
static __always_inline enum fpisa_verdict fpisa_challenge(struct fpisa_hdr *h, struct fpisa_hello *p, __u64 cookie)
{
	if (h->secret == cookie)
		return FPISA_V_ok;
	fpisa_make_challenge(h, p, cookie);
	return FPISA_V_challenge;
}

/*
 * Let the rank of a HELLO that has passed fpisa_challenge() join the session, and turn the HELLO into its WELCOME. The
 * caller owns the lock of the session. Return nonzero if the HELLO is from the newest incarnation of the rank. Only
 * such a HELLO updates the state of the rank.
 */
static __always_inline int fpisa_welcome(struct fpisa_hdr *h, struct fpisa_hello *p, const struct fpisa_job *job,
					 struct fpisa_session *s, __u32 rank, __u64 live, __u32 *next)
{
	int joined = fpisa_session_hello(s, job, h, rank, live, next);
	int newest = s->incarnation[rank & (FPISA_MAX_WORKERS - 1)] == h->aux;

	fpisa_make_welcome(h, p, job, s, rank, joined);
	return newest;
}

/* Return whether a drop is reported to members by an ERROR. */
static __always_inline int fpisa_reported(enum fpisa_verdict v)
{
	return v == FPISA_V_mismatch || v == FPISA_V_generation || v == FPISA_V_not_live || v == FPISA_V_format ||
	       v == FPISA_V_op || v == FPISA_V_ahead || v == FPISA_V_port || v == FPISA_V_secret ||
	       v == FPISA_V_pipeline || v == FPISA_V_sequence || v == FPISA_V_sealed || v == FPISA_V_unsealed ||
	       v == FPISA_V_keys_late || v == FPISA_V_torn;
}

#endif
