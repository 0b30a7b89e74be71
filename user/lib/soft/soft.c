/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The aggregator of soft.h. Its flow is the datapath's, frame by frame:
 * take() is receive() in bpf/fpisa.bpf.c, hello() hello.h, add() check.h and
 * admission.h, what follows it finish.h and fanout.h; the arithmetic is blocks.c.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "blocks.h"
#include "lib/base/error.h"
#include "lib/base/tag.h"
#include "soft.h"

/* A frame on its way, and its parsed state. */
struct packet {
	struct fpisa_hdr *h;
	void *payload;
	size_t *len;
	uint64_t *to;
	uint32_t blocks;
	__u64 results; /* the secret of the generation's results */
};

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
		return fpisa_fail(-EINVAL, "%u workers; a job has 1 to %d", j->workers, FPISA_MAX_WORKERS);
	if (!exists(j))
		return fpisa_fail(-EINVAL, "mode %u, rounding %u, pipeline %u, format %u: one of them does not exist",
				  j->mode, j->rounding, j->pipeline, j->format);
	if (!fpisa_elements_valid(j->elements, fpisa_max_elements(f, j->mode)))
		return fpisa_fail(-EINVAL, "%u elements a chunk; it must be a multiple of %d up to %u", j->elements,
				  FPISA_BLOCK, fpisa_max_elements(f, j->mode));
	if (!fpisa_window_valid(j->window))
		return fpisa_fail(-EINVAL, "window %u; it must be a power of two up to %d", j->window, FPISA_MAX_WINDOW);
	if (!fpisa_mode_offered(f, (enum fpisa_mode)j->mode))
		return fpisa_fail(-EINVAL, "integers have no modes; leave it out");
	if ((j->flags & FPISA_JOB_BIG_ENDIAN) && f.bytes == 1)
		return fpisa_fail(-EINVAL, "values of one byte have no byte order");
	if (!j->key.k0 && !j->key.k1) {
		struct fpisa_key key;

		if (getrandom(&key, sizeof(key), 0) != sizeof(key))
			return fpisa_fail(-EIO, "no random numbers for the job's key");
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
	if (!s->slot || !s->exponents || !s->mantissas) {
		fpisa_soft_free(s);
		return fpisa_fail(-ENOMEM, "no memory for a window of %u", j->window);
	}
	return 0;
}

void fpisa_soft_free(struct fpisa_soft *s)
{
	free(s->slot);
	free(s->exponents);
	free(s->mantissas);
	s->slot = NULL;
	s->exponents = NULL;
	s->mantissas = NULL;
}

/*
 * Take the lock of a slot. The datapath may not wait and drops the frame as busy; a thread here waits for the owner
 * as long as it takes.
 */
static void lock_take(__u64 *lock)
{
	__u64 idle = 0;

	while (!__atomic_compare_exchange_n(lock, &idle, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		idle = 0;
		sched_yield();
	}
}

static void lock_release(__u64 *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

static void count(__u64 *counter, uint64_t n)
{
	if (n)
		__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static uint64_t live_of(const struct fpisa_soft *s)
{
	return fpisa_read_once(&s->job.live);
}

static uint32_t checksum(const struct packet *p, size_t payload)
{
	struct fpisa_sum sum = {};

	fpisa_sum_words(&sum, p->h, FPISA_SUM_HDR_WORDS);
	fpisa_checksum_many(&sum, p->payload, payload / 8);
	return fpisa_sum_fold(&sum);
}

/* Return the tag, with the job's key of NH. */
static uint64_t tag(const struct fpisa_soft *s, const struct packet *p, const struct fpisa_key *key, size_t payload)
{
	return fpisa_tag_many(key, s->nh.w, p->h, p->payload, payload / 8);
}

/* Has an ADD the right tag? See is_tag_right() in bpf/check.h. */
static int is_tag_right(const struct fpisa_soft *s, const struct packet *p, size_t payload, enum fpisa_verdict v)
{
	struct fpisa_key key = s->session.key[p->h->rank % FPISA_MAX_WORKERS];

	if (v == FPISA_V_secret)
		key = fpisa_rank_key(&s->job, p->h->rank, p->h->bitmap);
	return !p->h->checksum && p->h->secret && tag(s, p, &key, payload) == p->h->secret;
}

static enum fpisa_verdict reply(const struct fpisa_soft *s, struct packet *p, size_t payload, uint64_t to,
				enum fpisa_verdict v)
{
	struct fpisa_key key = s->session.results_key;

	if (p->h->type == FPISA_TYPE_WELCOME)
		((struct fpisa_hello *)p->payload)->proof = fpisa_proof(&s->job, s->nh.w, p->h, p->payload);
	if (!s->job.keyed || p->h->type == FPISA_TYPE_WELCOME) {
		p->h->checksum = checksum(p, payload);
	} else {
		if (p->h->type != FPISA_TYPE_RESULT)
			key = fpisa_reply_key(&s->job, &s->session, p->h);
		p->h->checksum = 0;
		p->h->secret = tag(s, p, &key, payload);
	}
	*p->len = sizeof(*p->h) + payload;
	*p->to = to;
	return v;
}

/* Drop a member's frame, and send the member the reason if that helps it. */
static enum fpisa_verdict refuse(const struct fpisa_soft *s, struct packet *p, uint32_t rank, enum fpisa_verdict v)
{
	if (!fpisa_reported(v))
		return v;
	fpisa_make_error(p->h, v);
	return reply(s, p, 0, 1ull << rank, v);
}

static enum fpisa_verdict hello(struct fpisa_soft *s, struct packet *p, __be32 saddr, __be16 sport, uint32_t payload)
{
	enum fpisa_verdict v;
	uint32_t rank = 0;

	v = fpisa_check_hello(p->h, p->payload, payload, &s->job, saddr, sport, &rank);
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
		fpisa_welcome(p->h, p->payload, &s->job, &s->session, rank, live_of(s), &s->next_generation);
		lock_release(&s->session.lock);
		v = FPISA_V_welcome;
	}
	return reply(s, p, sizeof(struct fpisa_hello), 1ull << rank, v);
}

/* Give the slot back and answer a probe, because the round is not complete. */
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
	return reply(s, p, 0, 1ull << p->h->rank, FPISA_V_status);
}

static struct fpisa_soft_registers registers_of(const struct fpisa_soft *s, const struct fpisa_slot *slot)
{
	size_t block = (size_t)(slot - s->slot) * (s->job.elements / FPISA_BLOCK);

	return (struct fpisa_soft_registers){s->exponents + block, s->mantissas + block * s->block_size};
}

/* Add the contribution to the registers. Return nonzero if that completes the round. */
static int add_registers(struct fpisa_soft *s, struct packet *p, struct fpisa_slot *slot, int first)
{
	struct fpisa_counters *c = &s->counters;
	uint64_t events = fpisa_soft_add(&s->job, p->h->op, p->payload, registers_of(s, slot), p->blocks, first);

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
	return fpisa_slot_commit(slot, p->h->rank, live_of(s), fpisa_event_flags(events));
}

/* Tell all ranks which contributions to the chunk before are lost. */
static void tell_lost(struct fpisa_soft *s, struct packet *p)
{
	struct fpisa_slot *before = &s->slot[fpisa_slot_of(p->h->chunk - 1, s->job.window)];

	lock_take(&before->lock);
	fpisa_tell_lost(p->h, &s->job, before, live_of(s));
	lock_release(&before->lock);
}

/* Complete a round: read the registers out, give the slot back, send. */
static enum fpisa_verdict read_registers(struct fpisa_soft *s, struct packet *p, struct fpisa_slot *slot, int resend)
{
	const struct fpisa_format f = fpisa_job_format(&s->job);
	struct fpisa_final fin =
		fpisa_final_of(f, slot->op, slot->operand, slot->arrivals, s->job.flags & FPISA_JOB_RECIPROCAL);
	size_t size = fpisa_payload_bytes(f, p->h->count);
	struct fpisa_counters *c = &s->counters;
	uint64_t to = resend ? 1ull << p->h->rank : live_of(s);
	uint32_t flags = slot->flags;

	flags |= fpisa_soft_read(&s->job, &fin, p->payload, registers_of(s, slot), p->blocks);
	if (s->job.pipeline == FPISA_PIPELINE_STAGED)
		for (__u64 *stage = &c->mau5; stage <= &c->mau8; stage++)
			count(stage, 1);
	else
		count(&c->fused_reads, 1);
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
	return reply(s, p, size, to, resend ? FPISA_V_resent : FPISA_V_result);
}

static enum fpisa_verdict add(struct fpisa_soft *s, struct packet *p, __be32 saddr, __be16 sport, uint32_t port,
			      uint32_t payload)
{
	struct fpisa_slot *slot;
	struct fpisa_claim claim;
	enum fpisa_verdict v;
	int step;

	v = fpisa_check_add(p->h, payload, &s->job, &s->session, saddr, sport);
	if (v == FPISA_V_ok)
		v = fpisa_check_port(p->h, &s->job, port);
	if (v != FPISA_V_ok && !fpisa_reported(v))
		return v;
	if (s->job.keyed ? !is_tag_right(s, p, payload, v) : checksum(p, payload) != p->h->checksum)
		return s->job.keyed ? FPISA_V_tag : FPISA_V_checksum;
	if (v != FPISA_V_ok)
		return refuse(s, p, p->h->rank, v);
	p->blocks = p->h->count / FPISA_BLOCK;
	count(&s->counters.retransmissions, p->h->flags & FPISA_F_RETRANSMIT);

	slot = &s->slot[p->h->slot];
	claim = fpisa_claim_of(p->h, &s->job);
	lock_take(&slot->lock);
	step = fpisa_admit(&s->session, slot, &claim, live_of(s), &p->results);
	if (step < 0) {
		lock_release(&slot->lock);
		return refuse(s, p, p->h->rank, (enum fpisa_verdict) - step);
	}
	if (step == FPISA_STEP_WAIT)
		return not_complete(s, p, slot, FPISA_V_duplicate);
	if ((step == FPISA_STEP_SET || step == FPISA_STEP_ADD) && !add_registers(s, p, slot, step == FPISA_STEP_SET))
		return not_complete(s, p, slot, FPISA_V_accepted);
	return read_registers(s, p, slot, step == FPISA_STEP_RESEND);
}

static enum fpisa_verdict take(struct fpisa_soft *s, struct packet *p, __be32 saddr, __be16 sport, uint32_t port)
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
		return port ? FPISA_V_port : hello(s, p, saddr, sport, payload);
	return add(s, p, saddr, sport, port, payload);
}

enum fpisa_verdict fpisa_soft_frame(struct fpisa_soft *s, __be32 saddr, __be16 sport, uint32_t port, void *frame,
				    size_t *len, uint64_t *to)
{
	struct packet p = {
		.h = frame,
		.payload = (struct fpisa_hdr *)frame + 1,
		.len = len,
		.to = to,
	};
	enum fpisa_verdict v;

	*to = 0;
	v = take(s, &p, saddr, sport, port);
	count(&(&s->counters.v_not_ours)[v], 1);
	return v;
}
