/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The leaf of a tree in user space, in addition to soft.c: the frames that a leaf sends to its parent and receives from
 * its parent.
 */
#include <errno.h>
#include "fpisa/tree.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "packet.h"
#include "planes.h"

/* A frame to the parent. */
struct outgoing {
	_Alignas(8) unsigned char frame[FPISA_SOFT_FRAME];
};

static struct fpisa_hdr *header_of(struct outgoing *o)
{
	return (struct fpisa_hdr *)o->frame;
}

static void *payload_of(struct outgoing *o)
{
	return o->frame + FPISA_HDR_LEN;
}

/* Return a copy of the uplink, which no other thread changes. */
static struct fpisa_uplink uplink_of(struct fpisa_soft *s)
{
	struct fpisa_uplink up;

	lock_take(&s->session.lock);
	up = s->up;
	lock_release(&s->session.lock);
	return up;
}

int fpisa_soft_set_parent(struct fpisa_soft *s, uint32_t job, uint32_t rank, fpisa_soft_send_up *send, void *arg)
{
	if (rank >= FPISA_MAX_WORKERS)
		return fpisa_fail(-EINVAL, "a leaf cannot have rank %u; a parent has at most %d leaves", rank,
				  FPISA_MAX_WORKERS);
	if (!fpisa_may_be_in_tree(&s->job) || s->job.flags & FPISA_JOB_LEAVES)
		return fpisa_fail(-EINVAL, "a leaf needs mode exact, and cannot have leaves itself");
	s->job.flags |= FPISA_JOB_LEAF;
	s->up = (struct fpisa_uplink){.attempt = fpisa_clock_ns(CLOCK_REALTIME), .job = job, .rank = rank};
	s->send_up = send;
	s->send_up_arg = arg;
	return 0;
}

void fpisa_leaf_greet(struct fpisa_soft *s)
{
	const struct fpisa_uplink up = uplink_of(s);
	struct outgoing o;
	struct packet p = {.h = header_of(&o), .payload = payload_of(&o)};

	fpisa_make_leaf_hello(p.h, p.payload, &s->job, &up, s->nh.w);
	p.h->checksum = fpisa_soft_checksum(&p, sizeof(struct fpisa_hello));
	s->send_up(s->send_up_arg, 0, o.frame, FPISA_HDR_LEN + sizeof(struct fpisa_hello));
}

void fpisa_leaf_seal(struct fpisa_soft *s, struct fpisa_slot *slot, uint32_t blocks)
{
	struct fpisa_planes *planes = &s->planes[slot - s->slot];

	if (!fpisa_encoded(fpisa_job_format(&s->job), slot->op))
		*planes = fpisa_soft_carry(&s->job, fpisa_soft_registers_of(s, slot), blocks);
	s->partials[slot - s->slot].asked = 0;
	slot->done = 1;
}

/*
 * Write part `part` of the partial sum for the ADD `asked`. Return the size of its payload, or 0 if the slot has
 * another round now.
 */
static size_t write_part(struct fpisa_soft *s, struct outgoing *o, const struct fpisa_hdr *asked,
			 const struct fpisa_uplink *up, uint16_t part, int last)
{
	const struct fpisa_format f = fpisa_job_format(&s->job);
	const struct fpisa_final fin = {.op = asked->op};
	struct fpisa_slot *slot = &s->slot[asked->slot];
	uint32_t blocks = asked->count / FPISA_BLOCK;
	size_t size = 0;

	lock_take(&slot->lock);
	if (fpisa_is_sealed_round(slot, asked)) {
		fpisa_make_part(header_of(o), asked, slot, &s->job, up, part, last);
		if (part & FPISA_PART_VALUES)
			fpisa_soft_read(&s->job, &fin, payload_of(o), fpisa_soft_registers_of(s, slot), blocks);
		else
			fpisa_soft_get_plane(&s->job, part & FPISA_PART_PLANE, payload_of(o),
					     fpisa_soft_registers_of(s, slot), blocks);
		size = part & FPISA_PART_VALUES ? fpisa_payload_bytes(f, asked->count) :
						  asked->count * FPISA_DIGIT_BYTES;
	}
	lock_release(&slot->lock);
	return size;
}

static int send_part(struct fpisa_soft *s, const struct fpisa_hdr *asked, const struct fpisa_uplink *up, uint16_t part,
		     int last)
{
	struct outgoing o;
	struct packet p = {.h = header_of(&o), .payload = payload_of(&o)};
	size_t size = write_part(s, &o, asked, up, part, last);

	if (!size)
		return 0;
	if (s->job.keyed)
		p.h->secret = fpisa_soft_tag(s, &p, &up->key, size);
	else
		p.h->checksum = fpisa_soft_checksum(&p, size);
	s->send_up(s->send_up_arg, fpisa_port_index(asked->slot >> 1, s->job.window, up->ports), o.frame,
		   FPISA_HDR_LEN + size);
	return 1;
}

/* Return the planes of the sealed round, or only plane 0 if all planes are zero. */
static struct fpisa_planes planes_of(struct fpisa_soft *s, const struct fpisa_hdr *asked)
{
	struct fpisa_slot *slot = &s->slot[asked->slot];
	struct fpisa_planes set;

	lock_take(&slot->lock);
	set = s->planes[asked->slot];
	lock_release(&slot->lock);
	if (!set.low && !set.high)
		fpisa_planes_add(&set, 0);
	return set;
}

void fpisa_leaf_send(struct fpisa_soft *s, const struct fpisa_hdr *asked)
{
	const struct fpisa_uplink up = uplink_of(s);
	struct fpisa_planes set;
	uint32_t plane, next, parts;

	/* After a rank has restarted, the leaf has no cookie until it joins again. */
	if (!up.cookie)
		return;
	if (fpisa_encoded(fpisa_job_format(&s->job), asked->op)) {
		send_part(s, asked, &up, FPISA_PART_VALUES | 1 << FPISA_PART_COUNT_SHIFT, 1);
		return;
	}
	set = planes_of(s, asked);
	parts = fpisa_planes_count(&set) << FPISA_PART_COUNT_SHIFT;
	for (plane = fpisa_planes_next(&set, 0); plane <= FPISA_PLANE_SPECIALS; plane = next) {
		next = fpisa_planes_next(&set, plane + 1);
		if (!send_part(s, asked, &up, (uint16_t)(plane | parts), next > FPISA_PLANE_SPECIALS))
			return;
	}
}

/* -- frames of the parent ------------------------------------------------------- */

/* Begin the generation that the parent has announced. The caller owns the lock of the session. */
static void begin(struct fpisa_soft *s, const struct fpisa_hdr *h, const struct fpisa_hello *p)
{
	const struct fpisa_key token = fpisa_token_of(&s->job);
	struct fpisa_session *session = &s->session;

	if (!fpisa_leaf_welcome(session, &s->up, h->aux, h->generation, live_of(s)))
		return;
	s->up.results = p->results;
	s->up.workers = p->workers;
	s->up.ports = p->ports;
	s->up.key = fpisa_key_of(&token, FPISA_KEY_RANK, s->up.rank, s->up.cookie);
	s->up.results_key = fpisa_key_of(&token, FPISA_KEY_RESULTS, 0, p->results);
	fpisa_write_once(&session->results, fpisa_result_secret(&s->job.key, session->generation));
	session->results_key = fpisa_key_of(&token, FPISA_KEY_RESULTS, 0, session->results);
}

/*
 * Process a WELCOME of the parent. Send HELLO again if the WELCOME has the cookie for it, or if the attempt is too old.
 */
static enum fpisa_verdict take_welcome(struct fpisa_soft *s, struct packet *p, size_t payload)
{
	const struct fpisa_hello *hello = p->payload;
	enum fpisa_verdict v = FPISA_V_down;
	int again = 0;

	if (payload != sizeof(*hello) || fpisa_soft_checksum(p, payload) != p->h->checksum ||
	    fpisa_proof(&s->job, s->nh.w, p->h, hello) != hello->proof)
		return FPISA_V_parent;
	lock_take(&s->session.lock);
	if (p->h->chunk != fpisa_leaf_nonce(&s->job, &s->up) || p->h->aux < s->up.attempt) {
		v = FPISA_V_parent;
	} else if (p->h->flags & FPISA_F_CHALLENGE) {
		again = s->up.cookie != p->h->secret;
		s->up.cookie = p->h->secret;
	} else if (!fpisa_parent_alike(hello, &s->job, s->up.rank)) {
		v = FPISA_V_unlike;
	} else if (p->h->aux > s->up.attempt) {
		fpisa_leaf_attempt(&s->up, p->h->aux + 1);
	} else if (!(p->h->flags & FPISA_F_PENDING)) {
		begin(s, p->h, hello);
	}
	lock_release(&s->session.lock);
	if (again)
		fpisa_leaf_greet(s);
	return v;
}

/* Return whether only the parent can have sent this RESULT, STATUS or ERROR in the current generation. */
static int is_parents(const struct fpisa_soft *s, const struct packet *p, const struct fpisa_uplink *up, size_t payload)
{
	const int result = p->h->type == FPISA_TYPE_RESULT;

	if (!p->h->generation || p->h->generation != fpisa_read_once(&s->session.generation))
		return 0;
	if (s->job.keyed)
		return !p->h->checksum &&
		       p->h->secret == fpisa_soft_tag(s, p, result ? &up->results_key : &up->key, payload);
	return p->h->secret && p->h->secret == (result ? up->results : up->cookie) &&
	       p->h->checksum == fpisa_soft_checksum(p, payload);
}

static enum fpisa_verdict take_result(struct fpisa_soft *s, struct packet *p, const struct fpisa_uplink *up,
				      size_t payload)
{
	struct fpisa_slot *slot, *before;
	int right, above = 0;
	uint64_t lost;

	if (p->h->slot != fpisa_slot_of(p->h->chunk, s->job.window))
		return FPISA_V_parent;
	slot = &s->slot[p->h->slot];
	lock_take(&slot->lock);
	right = fpisa_is_sealed_round(slot, p->h) &&
		payload == fpisa_payload_bytes(fpisa_job_format(&s->job), p->h->count);
	if (right)
		above = fpisa_make_down(p->h, slot, &s->job, up, s->number, fpisa_read_once(&s->session.results));
	lock_release(&slot->lock);
	if (!right)
		return FPISA_V_parent;
	if (!(p->h->flags & FPISA_F_RESENT) && p->h->chunk) {
		before = &s->slot[fpisa_slot_of(p->h->chunk - 1, s->job.window)];
		lock_take(&before->lock);
		lost = fpisa_tell_leaf_lost(p->h, &s->job, before, live_of(s), above);
		lock_release(&before->lock);
		count(&s->counters.told_lost, !!lost);
	}
	return fpisa_soft_reply(s, p, payload, live_of(s), FPISA_V_down);
}

/* Pass on a STATUS or an ERROR. An ERROR ends the generation for all ranks of the leaf. */
static enum fpisa_verdict take_answer(struct fpisa_soft *s, struct packet *p, size_t payload)
{
	const uint32_t asker = p->h->result_flags & FPISA_PART_ASKER;
	const enum fpisa_verdict why = (enum fpisa_verdict)p->h->reason;

	if (payload || asker >= s->job.workers)
		return FPISA_V_parent;
	if (p->h->type == FPISA_TYPE_ERROR) {
		if (!fpisa_reported(why) || why == FPISA_V_port)
			return FPISA_V_parent;
		fpisa_break(&s->session, p->h->generation, why);
	}
	lock_take(&s->session.lock);
	fpisa_make_leaf_answer(p->h, &s->job, &s->session, s->number, asker);
	lock_release(&s->session.lock);
	return fpisa_soft_reply(s, p, 0, 1ull << asker, FPISA_V_down);
}

static enum fpisa_verdict take(struct fpisa_soft *s, struct packet *p)
{
	struct fpisa_uplink up;
	size_t payload;

	if (*p->len < sizeof(*p->h) || p->h->magic != FPISA_MAGIC || p->h->version != FPISA_VERSION)
		return FPISA_V_parent;
	payload = *p->len - sizeof(*p->h);
	up = uplink_of(s);
	if (!up.attempt || p->h->job != up.job || payload % 8)
		return FPISA_V_parent;
	if (p->h->type == FPISA_TYPE_WELCOME)
		return take_welcome(s, p, payload);
	if (!is_parents(s, p, &up, payload))
		return FPISA_V_parent;
	if (p->h->type == FPISA_TYPE_RESULT)
		return take_result(s, p, &up, payload);
	if (p->h->type == FPISA_TYPE_STATUS || p->h->type == FPISA_TYPE_ERROR)
		return take_answer(s, p, payload);
	return FPISA_V_parent;
}

enum fpisa_verdict fpisa_soft_parent(struct fpisa_soft *s, void *frame, size_t *len, uint64_t *to)
{
	struct packet p = {.h = frame, .payload = (struct fpisa_hdr *)frame + 1, .len = len, .to = to};
	enum fpisa_verdict v;

	*to = 0;
	v = take(s, &p);
	count(&(&s->counters.v_not_ours)[v], 1);
	return v;
}
