/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The aggregator of soft.h. The flow of a frame is the same as in the datapath. take() corresponds to receive() in
 * bpf/fpisa.bpf.c, hello() to hello.h, and add() to check.h and admission.h. The functions after add() correspond to
 * finish.h and fanout.h. The arithmetic is in blocks.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "lib/base/error.h"
#include "lib/base/tag.h"
#include "packet.h"
#include "planes.h"

static int exists(const struct fpisa_job *j)
{
	return j->mode && j->mode < FPISA_MODE_END && j->format && j->format < FPISA_FORMAT_END &&
	       (j->rounding == FPISA_ROUND_DOWN || j->rounding == FPISA_ROUND_NEAREST) &&
	       (j->pipeline == FPISA_PIPELINE_STAGED || j->pipeline == FPISA_PIPELINE_FUSED);
}

int fpisa_soft_init(struct fpisa_soft *s)
{
	struct fpisa_job *j = &s->job;
	struct fpisa_format f = fpisa_register(j->format, (enum fpisa_mode)j->mode, j->workers);
	size_t blocks = 2ul * j->window * (j->elements / FPISA_BLOCK);
	struct fpisa_key token;

	if (!j->workers || j->workers > FPISA_MAX_WORKERS)
		return fpisa_fail(-EINVAL, "%u workers are not supported; a job has 1 to %d", j->workers,
				  FPISA_MAX_WORKERS);
	if (!exists(j))
		return fpisa_fail(-EINVAL,
				  "fpisa.h does not define one of mode %u, rounding %u, pipeline %u and format %u",
				  j->mode, j->rounding, j->pipeline, j->format);
	if (!fpisa_elements_valid(j->elements, fpisa_max_elements(f, j->mode)))
		return fpisa_fail(-EINVAL,
				  "%u elements per chunk are not supported in this format and mode; give a multiple "
				  "of %d up to %u",
				  j->elements, FPISA_BLOCK, fpisa_max_elements(f, j->mode));
	if (!fpisa_window_valid(j->window))
		return fpisa_fail(-EINVAL, "window %u is not supported; give a power of two up to %d", j->window,
				  FPISA_MAX_WINDOW);
	if (!fpisa_mode_offered(f, (enum fpisa_mode)j->mode))
		return fpisa_fail(-EINVAL, "int32 does not have modes; leave the mode out");
	if ((j->flags & (FPISA_JOB_LEAVES | FPISA_JOB_LEAF)) && !fpisa_may_be_in_tree(j))
		return fpisa_fail(-EINVAL,
				  "leaves of a tree need mode exact; set it at all of them and at their parent");
	if ((j->flags & FPISA_JOB_BIG_ENDIAN) && f.bytes == 1)
		return fpisa_fail(-EINVAL,
				  "values of one byte do not have a byte order; leave FPISA_JOB_BIG_ENDIAN out");
	if (!j->key.k0 && !j->key.k1) {
		struct fpisa_key key;

		if (getrandom(&key, sizeof(key), 0) != sizeof(key))
			return fpisa_fail(-EIO,
					  "cannot create the job's key: getrandom(): %s; allow this process to call it",
					  strerror(errno));
		j->key = key;
	}
	j->keyed = fpisa_wants_tags(j);
	token = fpisa_token_of(j);
	fpisa_nh_fill(s->nh.w, FPISA_NH_WORDS, &token);
	j->guard = f.guard;
	j->family = fpisa_family(f, (enum fpisa_mode)j->mode);
	s->block_size = fpisa_soft_block_size(j);
	s->next_generation = 1;
	s->slot = calloc(2ul * j->window, sizeof(*s->slot));
	s->exponents = calloc(blocks, sizeof(*s->exponents));
	s->mantissas = calloc(blocks, s->block_size);
	s->partials = calloc(2ul * j->window, sizeof(*s->partials));
	s->planes = calloc(2ul * j->window, sizeof(*s->planes));
	if (!s->slot || !s->exponents || !s->mantissas || !s->partials || !s->planes) {
		fpisa_soft_free(s);
		return fpisa_fail(-ENOMEM, "not enough memory for a window of %u; " FPISA_MORE_MEMORY, j->window);
	}
	return 0;
}

void fpisa_soft_free(struct fpisa_soft *s)
{
	free(s->slot);
	free(s->exponents);
	free(s->mantissas);
	free(s->partials);
	free(s->planes);
	s->slot = NULL;
	s->exponents = NULL;
	s->mantissas = NULL;
	s->partials = NULL;
	s->planes = NULL;
}

/* Return whether an ADD has the right tag. See is_tag_right() in bpf/check.h. */
static int is_tag_right(const struct fpisa_soft *s, const struct packet *p, size_t payload, enum fpisa_verdict v)
{
	struct fpisa_key key = s->session.key[p->h->rank % FPISA_MAX_WORKERS];

	if (v == FPISA_V_secret)
		key = fpisa_rank_key(&s->job, p->h->rank, p->h->bitmap);
	return !p->h->checksum && p->h->secret && fpisa_soft_tag(s, p, &key, payload) == p->h->secret;
}

/* Drop a member's frame. Send the member an ERROR if this verdict is reported to members. */
static enum fpisa_verdict refuse(const struct fpisa_soft *s, struct packet *p, uint32_t rank, enum fpisa_verdict v)
{
	if (!fpisa_reported(v))
		return v;
	fpisa_make_error(p->h, v);
	return fpisa_soft_reply(s, p, 0, 1ull << rank, v);
}

static enum fpisa_verdict hello(struct fpisa_soft *s, struct packet *p, const struct fpisa_address *from, __be16 sport,
				uint32_t payload)
{
	enum fpisa_waiting waiting = FPISA_HELLO_WAITS;
	enum fpisa_verdict v;
	uint32_t rank = 0;

	v = fpisa_check_hello(p->h, p->payload, payload, &s->job, from, sport, &rank);
	if ((v == FPISA_V_ok || v == FPISA_V_not_live) &&
	    fpisa_proof(&s->job, s->nh.w, p->h, p->payload) != ((const struct fpisa_hello *)p->payload)->proof)
		return FPISA_V_token;
	if (v == FPISA_V_not_live)
		return refuse(s, p, rank, v);
	if (v != FPISA_V_ok)
		return v;
	v = fpisa_challenge(p->h, p->payload, fpisa_cookie(&s->job.key, rank, p->h->aux));
	if (v == FPISA_V_ok) {
		lock_take(&s->session.lock);
		if (s->job.flags & FPISA_JOB_LEAF)
			waiting = fpisa_leaf_hello(p->h, p->payload, &s->job, &s->session, &s->up, rank, live_of(s));
		else
			fpisa_welcome(p->h, p->payload, &s->job, &s->session, rank, live_of(s), &s->next_generation);
		lock_release(&s->session.lock);
		v = FPISA_V_welcome;
	}
	if (waiting == FPISA_HELLO_ALL_WAIT)
		fpisa_leaf_greet(s);
	return fpisa_soft_reply(s, p, sizeof(struct fpisa_hello), 1ull << rank, v);
}

/* Release the slot and answer a probe, because the round is not complete. */
static enum fpisa_verdict not_complete(struct fpisa_soft *s, struct packet *p, struct fpisa_slot *slot,
				       enum fpisa_verdict v)
{
	int probe = p->h->flags & FPISA_F_PROBE;

	if (probe)
		fpisa_make_status(p->h, slot, live_of(s));
	lock_release(&slot->lock);
	if (!probe)
		return v;
	count(&(&s->counters.v_not_ours)[v], 1);
	return fpisa_soft_reply(s, p, 0, 1ull << p->h->rank, FPISA_V_status);
}

/* Return the additional state of the slot in a job of leaves, otherwise NULL. */
static struct fpisa_partials *partials_of(const struct fpisa_soft *s, const struct fpisa_slot *slot)
{
	return s->job.flags & FPISA_JOB_LEAVES ? &s->partials[slot - s->slot] : NULL;
}

/* Add a part of a partial sum to the registers, as add_registers() does. */
static int add_part(struct fpisa_soft *s, struct packet *p, struct fpisa_slot *slot, int first)
{
	const struct fpisa_soft_registers r = fpisa_soft_registers_of(s, slot);
	uint64_t events = 0;

	if (p->h->reason & FPISA_PART_VALUES)
		events = fpisa_soft_add(&s->job, p->h->op, p->payload, r, p->blocks, first);
	else if (p->h->reason & FPISA_PART_PACKED)
		fpisa_soft_add_packed(&s->job, p->payload, *p->len - sizeof(*p->h), r, p->blocks, first);
	else
		fpisa_soft_add_plane(&s->job, p->h->reason & FPISA_PART_PLANE, p->payload, r, p->blocks, first);
	count(&s->counters.fused, 1);
	count(&s->counters.elements, p->blocks * FPISA_BLOCK);
	count(&s->counters.overflowed, fpisa_event_count(events, FPISA_EV_OVERFLOWED));
	return fpisa_commit_part(slot, partials_of(s, slot), p->h, live_of(s), fpisa_event_flags(events) | p->marked);
}

/* Add the contribution to the registers. Return nonzero if the contribution completes the round. */
static int add_registers(struct fpisa_soft *s, struct packet *p, struct fpisa_slot *slot, int first)
{
	struct fpisa_counters *c = &s->counters;
	uint64_t events =
		fpisa_soft_add(&s->job, p->h->op, p->payload, fpisa_soft_registers_of(s, slot), p->blocks, first);

	if (s->job.pipeline == FPISA_PIPELINE_STAGED)
		for (__u64 *stage = &c->mau0; stage <= &c->mau4; stage++)
			count(stage, 1);
	else
		count(&c->fused, 1);
	count(&c->elements, p->blocks * FPISA_BLOCK);
	if (!(s->job.flags & FPISA_JOB_UNCOUNTED)) {
		count(&c->rounded, fpisa_event_count(events, FPISA_EV_ROUNDED));
		count(&c->overwritten, fpisa_event_count(events, FPISA_EV_OVERWRITTEN));
		count(&c->left_shifted, fpisa_event_count(events, FPISA_EV_LEFT_SHIFTED));
		count(&c->overflowed, fpisa_event_count(events, FPISA_EV_OVERFLOWED));
	}
	return fpisa_slot_commit(slot, p->h->rank, live_of(s), fpisa_event_flags(events) | p->marked);
}

/* Store in the result which contributions to the previous chunk were lost. */
static void tell_lost(struct fpisa_soft *s, struct packet *p)
{
	struct fpisa_slot *before = &s->slot[fpisa_slot_of(p->h->chunk - 1, s->job.window)];
	uint64_t lost;

	lock_take(&before->lock);
	lost = fpisa_tell_lost(p->h, &s->job, before, live_of(s));
	lock_release(&before->lock);
	count(&s->counters.told_lost, !!lost);
}

/* Complete a round. Read out the registers, release the slot, and send the result. */
static enum fpisa_verdict read_registers(struct fpisa_soft *s, struct packet *p, struct fpisa_slot *slot, int resend)
{
	const struct fpisa_format f = fpisa_job_format(&s->job);
	const struct fpisa_partials *x = partials_of(s, slot);
	struct fpisa_final fin = fpisa_final_of(f, slot->op, slot->operand, x ? x->contributors : slot->arrivals,
						s->job.flags & FPISA_JOB_RECIPROCAL);
	size_t size = fpisa_payload_bytes(f, p->h->count);
	struct fpisa_counters *c = &s->counters;
	uint64_t to = resend ? 1ull << p->h->rank : live_of(s);
	uint32_t flags = slot->flags;

	flags |= fpisa_soft_read(&s->job, &fin, p->payload, fpisa_soft_registers_of(s, slot), p->blocks);
	if (s->job.pipeline == FPISA_PIPELINE_STAGED)
		for (__u64 *stage = &c->mau5; stage <= &c->mau8; stage++)
			count(stage, 1);
	else
		count(&c->fused_reads, 1);
	if (x)
		fpisa_make_root_result(p->h, slot, x, &s->job, p->results, flags, resend);
	else
		fpisa_make_result(p->h, slot, &s->job, p->results, flags, resend);
	slot->done = 1;
	lock_release(&slot->lock);
	if (!resend) {
		tell_lost(s, p);
		count(&c->results_inexact, !!(flags & FPISA_INEXACT));
		count(&c->results_overflow, !!(flags & FPISA_OVERFLOW));
		count(&c->results_overwrite, !!(flags & FPISA_OVERWRITE));
		count(&c->results_nan, !!(flags & FPISA_NAN));
		count(&c->results_inf, !!(flags & FPISA_INF));
	}
	if (resend && fpisa_soft_bare(s, p->h, to)) {
		fpisa_make_bare_result(p->h);
		size = 0;
	}
	return fpisa_soft_reply(s, p, size, to, resend ? FPISA_V_resent : FPISA_V_result);
}

/* Finish a complete round, or as a leaf send the partial sum to the parent. */
static enum fpisa_verdict complete(struct fpisa_soft *s, struct packet *p, struct fpisa_slot *slot, int resend)
{
	const struct fpisa_partials *x = partials_of(s, slot);
	enum fpisa_verdict lost = x && !resend ? fpisa_round_lost(x) : (enum fpisa_verdict)0;
	int asks;

	if (lost) {
		fpisa_break(&s->session, slot->generation, lost);
		lock_release(&slot->lock);
		return refuse(s, p, p->h->rank, lost);
	}
	if (!(s->job.flags & FPISA_JOB_LEAF))
		return read_registers(s, p, slot, resend);
	if (!resend)
		fpisa_leaf_seal(s, slot, p->blocks);
	asks = !resend || fpisa_leaf_asks(&s->partials[slot - s->slot], p->h->rank);
	lock_release(&slot->lock);
	if (!asks)
		return FPISA_V_duplicate;
	fpisa_leaf_send(s, p->h);
	return resend ? FPISA_V_up_again : FPISA_V_up;
}

/* Apply the rules of slots to a contribution. The caller owns the slot's lock. */
static int admit(struct fpisa_soft *s, struct packet *p, struct fpisa_slot *slot)
{
	const struct fpisa_claim claim = fpisa_claim_of(p->h, &s->job);
	struct fpisa_partials *x = partials_of(s, slot);

	if (x)
		return fpisa_admit_part(&s->session, slot, x, &claim, p->h->reason, live_of(s), &p->results);
	return fpisa_admit(&s->session, slot, &claim, live_of(s), &p->results);
}

/* Add the contribution. `first` is nonzero for the first of a round. Return nonzero if the round is complete. */
static int take_in(struct fpisa_soft *s, struct packet *p, struct fpisa_slot *slot, int first)
{
	return partials_of(s, slot) ? add_part(s, p, slot, first) : add_registers(s, p, slot, first);
}

static enum fpisa_verdict add(struct fpisa_soft *s, struct packet *p, const struct fpisa_address *from, __be16 sport,
			      uint32_t port, uint32_t payload)
{
	struct fpisa_slot *slot;
	enum fpisa_verdict v;
	int step;

	if (s->job.flags & FPISA_JOB_LEAVES)
		v = fpisa_check_partial(p->h, payload, &s->job, &s->session, from, sport);
	else
		v = fpisa_check_add(p->h, payload, &s->job, &s->session, from, sport);
	if (v == FPISA_V_ok)
		v = fpisa_check_port(p->h, &s->job, port);
	if (v != FPISA_V_ok && !fpisa_reported(v))
		return v;
	if (s->job.keyed ? !is_tag_right(s, p, payload, v) : fpisa_soft_checksum(p, payload) != p->h->checksum)
		return s->job.keyed ? FPISA_V_tag : FPISA_V_checksum;
	if (v != FPISA_V_ok)
		return refuse(s, p, p->h->rank, v);
	p->blocks = p->h->count / FPISA_BLOCK;
	count(&s->counters.retransmissions, p->h->flags & FPISA_F_RETRANSMIT);
	count(&s->counters.marked, !!p->marked);

	slot = &s->slot[p->h->slot];
	lock_take(&slot->lock);
	step = admit(s, p, slot);
	if (step < 0) {
		lock_release(&slot->lock);
		return refuse(s, p, p->h->rank, (enum fpisa_verdict) - step);
	}
	if (step == FPISA_STEP_WAIT)
		return not_complete(s, p, slot, FPISA_V_duplicate);
	if ((step == FPISA_STEP_SET || step == FPISA_STEP_ADD) && !take_in(s, p, slot, step == FPISA_STEP_SET))
		return not_complete(s, p, slot, FPISA_V_accepted);
	return complete(s, p, slot, step == FPISA_STEP_RESEND);
}

static enum fpisa_verdict take(struct fpisa_soft *s, struct packet *p, const struct fpisa_address *from, __be16 sport,
			       uint32_t port)
{
	enum fpisa_verdict v;
	uint32_t payload;

	if (*p->len < sizeof(p->h->magic) || p->h->magic != FPISA_MAGIC)
		return FPISA_V_not_ours;
	if (*p->len < sizeof(*p->h))
		return FPISA_V_truncated;
	if (p->h->job != s->number)
		return FPISA_V_no_job;
	payload = (uint32_t)(*p->len - sizeof(*p->h));
	count(&s->counters.packets, 1);
	count(&s->counters.bytes, FPISA_PAYLOAD_OFFSET + payload);
	v = fpisa_check_type(p->h);
	if (v != FPISA_V_ok)
		return v;
	if (p->h->type == FPISA_TYPE_HELLO)
		return port ? FPISA_V_port : hello(s, p, from, sport, payload);
	return add(s, p, from, sport, port, payload);
}

enum fpisa_verdict fpisa_soft_frame(struct fpisa_soft *s, const struct fpisa_address *from, __be16 sport, uint32_t port,
				    int marked, void *frame, size_t *len, uint64_t *to)
{
	struct packet p = {
		.h = frame,
		.payload = (struct fpisa_hdr *)frame + 1,
		.marked = marked ? FPISA_F_MARKED : 0,
		.len = len,
		.to = to,
	};
	enum fpisa_verdict v;

	*to = 0;
	v = take(s, &p, from, sport, port);
	count(&(&s->counters.v_not_ours)[v], 1);
	return v;
}
