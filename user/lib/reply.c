/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Check each received frame, then handle RESULT, STATUS and ERROR. join.c
 * handles WELCOME.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/tag.h"
#include "fpisa/frame.h"
#include "handle.h"
#include "reply.h"

/*
 * Return whether only the aggregator can have sent the frame. If the job has a token, the tag or proof of the frame
 * shows this. Without a token the frame must contain a number that was sent only to the aggregator. A result must
 * contain the number that the aggregator sent to this rank. Other hosts can read results to a multicast address
 * (doc/protocol.md, section 6).
 */
static int authentic(const struct fpisa_shard *s, const struct fpisa_hdr *h)
{
	if (h->type == FPISA_TYPE_WELCOME || (h->type == FPISA_TYPE_ERROR && !h->generation))
		return h->chunk == s->f->incarnation.nonce;
	if (fpisa_nh_of(s->f))
		return 1;
	switch (h->type) {
	case FPISA_TYPE_RESULT:
		return h->secret == s->hello.results;
	}
	return h->secret == s->joining.cookie;
}

const struct fpisa_hdr *fpisa_reply_check(struct fpisa_shard *s, const struct fpisa_in *in)
{
	const struct fpisa_hdr *h = in->data;
	struct fpisa *f = s->f;
	size_t payload;

	f->count.received++;
	if (in->len < sizeof(*h) || h->magic != FPISA_MAGIC || h->version != FPISA_VERSION)
		goto bad;
	payload = h->type == FPISA_TYPE_WELCOME		   ? sizeof(struct fpisa_hello) :
		  h->type == FPISA_TYPE_RESULT && h->count ? fpisa_payload_bytes(fpisa_format_of(h->format), h->count) :
							     0;
	if (in->len != sizeof(*h) + payload || payload % 8)
		goto bad;
	if (h->job != s->job)
		goto bad;
	if (fpisa_is_sealed(h, payload, &f->token, fpisa_nh_of(f),
			    h->type == FPISA_TYPE_RESULT ? &s->results_key : &s->rank_key) &&
	    authentic(s, h))
		return h;
	/* An answer to an earlier incarnation of this rank is late and not forged. */
	if (h->type == FPISA_TYPE_WELCOME || h->generation != s->generation)
		return NULL;
bad:
	f->count.bad++;
	return NULL;
}

/*
 * Return the report of a result about the end of its round, and about the round of the previous chunk. With more than
 * 16 workers or in a tree, it is unknown which rank completed the round. Frames to different ports have no order.
 * `marked` is nonzero if the result had a congestion mark.
 */
static struct fpisa_answer answer_of(const struct fpisa_shard *s, const struct fpisa_hdr *h, int marked)
{
	const struct fpisa *f = s->f;
	uint32_t window = s->hello.window, ports = s->hello.ports, slot = (uint32_t)h->chunk;
	int unknown = f->hello.workers > FPISA_ORDER_WORKERS || f->hello.flags & FPISA_JOB_LEAF;
	int in_order = fpisa_port_index(slot & (window - 1), window, ports) ==
		       fpisa_port_index((slot - 1) & (window - 1), window, ports);
	uint64_t lost = in_order ? fpisa_told_lost(h, f->hello.workers) : 0;

	return (struct fpisa_answer){
		.resent = !!(h->flags & FPISA_F_RESENT),
		.ours = !unknown && (h->aux >> (4 * f->hello.rank) & 15) + 1 == h->contributors,
		.unknown = unknown,
		.retransmit = !!(h->flags & FPISA_F_RETRANSMIT),
		.lost_ours = lost >> f->hello.rank & 1,
		.lost_others = lost != 0 && !(lost >> f->hello.rank & 1),
		.marked = marked || h->flags & FPISA_F_MARKED,
	};
}

/*
 * Stop sending GSO batches if the path no longer carries them. The path may begin to drop batches after the test of
 * join.c. This is the case if, for a whole window, each chunk from a batch had to be sent again in a separate frame.
 */
static void check_gso(struct fpisa_shard *s, const struct fpisa_window_slot *slot)
{
	if (!slot->gso)
		return;
	s->window.lost_gso = slot->tries > 1 ? s->window.lost_gso + 1 : 0;
	if (s->window.lost_gso > 2 * s->window.slots)
		s->t->gso = 0;
}

/* Return the ranks of the job that a result lacks. */
static uint64_t absent(const struct fpisa *f, const struct fpisa_hdr *h)
{
	return ~0ull >> (64 - f->hello.workers) & ~h->bitmap;
}

/* Return whether a result lacks a rank, either of this job or elsewhere in its tree. */
static int lacks_ranks(const struct fpisa *f, const struct fpisa_hdr *h)
{
	return h->flags & FPISA_F_FEWER || absent(f, h);
}

static int refuse_fewer(const struct fpisa_shard *s, const struct fpisa_request *r, uint64_t absent_here)
{
	struct fpisa *f = s->f;
	char names[256] = "ranks of another leaf of the tree";

	f->missing = fpisa_ranks_of(f, absent_here);
	fpisa_fail(-ECONNRESET,
		   "%s: job %u: a result of call %u lacks %s, which fpisa job shrink removed from the job; start the "
		   "remaining ranks again, with a new job",
		   s->peer, s->job, r->call, absent_here ? fpisa_rank_names(names, sizeof(names), &f->missing) : names);
	return fpisa_poison(f, -ECONNRESET);
}

/* Return whether a result has the size of its chunk, or has no payload and this rank does not keep it. */
static int is_whole_or_bare(const struct fpisa_request *r, uint64_t offset, const struct fpisa_hdr *h)
{
	uint32_t n = fpisa_request_elements(r, offset);

	return h->count ? h->count == n + -n % FPISA_BLOCK : !fpisa_request_keeps(r, offset);
}

/* Record that the request has all of its results. */
static void end(struct fpisa_request *r)
{
	struct fpisa *f = r->f;

	if (r->number > f->last_whole)
		f->last_whole = r->number;
	if (r->ranks_to)
		fpisa_result_ranks(f, r->ranks, r->ranks_to);
}

static int take_result(struct fpisa_shard *s, struct fpisa_window_slot *slot, const struct fpisa_hdr *h, int marked,
		       uint64_t now)
{
	struct fpisa *f = s->f;
	struct fpisa_request *r = slot->req;
	uint64_t offset = fpisa_position(s, r, slot->chunk) * f->hello.elements;
	uint32_t n = fpisa_request_elements(r, offset);
	const char *values = (const char *)(h + 1);
	struct fpisa_answer answer;

	/* A valid result contains the contribution of this rank. */
	if (!is_whole_or_bare(r, offset, h) || h->digest != r->digest + s->index || h->call != r->call ||
	    h->op != r->op || h->format != f->hello.format || !(h->bitmap >> f->hello.rank & 1)) {
		f->count.bad++;
		return 0;
	}
	if (f->all_ranks && lacks_ranks(f, h))
		return refuse_fewer(s, r, absent(f, h));
	f->result_ns = now;
	fpisa_request_deliver(r, offset, values, values + fpisa_payload_bytes(f->format, 0));
	r->flags |= h->result_flags | (r->ranks && r->ranks != h->bitmap ? FPISA_RESULT_MIXED_RANKS : 0) |
		    (lacks_ranks(f, h) ? FPISA_RESULT_FEWER_RANKS : 0);
	r->ranks = r->ranks ? r->ranks & h->bitmap : h->bitmap;
	answer = answer_of(s, h, marked);
	f->count.marked += (uint64_t)answer.marked;
	check_gso(s, slot);
	fpisa_window_answered(&s->window, slot, &answer, f->resumed_ns, now);
	if (!--r->left)
		end(r);
	fpisa_requests_complete(f);
	if (f->on_chunk) {
		struct fpisa_chunk c = {
			.offset = offset,
			.count = n,
			.flags = h->result_flags,
			.ranks = h->bitmap,
			.order = fpisa_told_order(h, f->hello.workers),
			.request = r,
			.call = r->call,
		};

		f->on_chunk(f->arg, &c);
		if (f->inherited)
			return fpisa_refuse_inherited(f);
	}
	return 0;
}

/*
 * Handle a STATUS, which shows that the aggregator has the contribution of this rank. Ask less often from now on, and
 * store the missing ranks. Only the first STATUS lowers the rate, because this rank waits one such interval if the
 * result is lost.
 */
static int take_status(struct fpisa_window_slot *slot, const struct fpisa_hdr *h)
{
	if (!slot->live && slot->backoff < FPISA_BACKOFFS - 1)
		slot->backoff++;
	slot->bitmap = h->bitmap;
	slot->live = h->aux;
	slot->above = h->flags & FPISA_F_ABOVE;
	return 0;
}

/* Describe this rank's own call, because another rank has made a different call. */
static void name_call(const struct fpisa_request *r, char *text, size_t size)
{
	if (r->root < 0)
		snprintf(text, size, "%s%llu elements", r->parts ? "a reduce-scatter of " : "",
			 (unsigned long long)r->count);
	else
		snprintf(text, size, "a broadcast of %llu bytes by rank %d",
			 r->send || r->recv ? (unsigned long long)r->bytes : 0, r->root);
}

static int take_error(const struct fpisa_shard *s, const struct fpisa_window_slot *slot, const struct fpisa_hdr *h)
{
	struct fpisa *f = s->f;
	unsigned long long chunk = fpisa_position(s, slot->req, slot->chunk);
	char call[64];
	int error = -EPROTO;

	switch (h->reason) {
	case FPISA_V_generation:
		error = fpisa_fail(
			-ESTALE,
			"%s: job %u: generation %u is over, because the job was created again or its ranks joined "
			"again; rejoin",
			s->peer, s->job, s->generation);
		break;
	case FPISA_V_port:
		/*
		 * The slot's port is known from WELCOME, so the port of this frame, which no checksum covers, was
		 * damaged in the network.
		 */
		f->count.bad++;
		return 0;
	case FPISA_V_secret:
		error = fpisa_fail(-ESTALE,
				   "%s: job %u: the job was created again, or another process joined as rank %u; "
				   "rejoin",
				   s->peer, s->job, s->hello.rank);
		break;
	case FPISA_V_not_live:
		error = fpisa_fail(-ESTALE, "%s: job %u: rank %u was removed from the job; see fpisa job show", s->peer,
				   s->job, s->hello.rank);
		break;
	case FPISA_V_mismatch:
		name_call(slot->req, call, sizeof(call));
		fpisa_fail(error,
			   "%s: job %u: the ranks made different calls (seen at chunk %llu of our call %u, %s); rejoin, "
			   "and make the same calls in the same order on all ranks%s",
			   s->peer, s->job, chunk, slot->req->call, call,
			   f->layout.shards > 1 ? ", with one list of aggregators with the same weights" : "");
		break;
	default:
		fpisa_fail(error, "%s: job %u: the aggregator refused chunk %llu of call %u: %s; rejoin", s->peer,
			   s->job, chunk, slot->req->call, fpisa_reason(h->reason));
	}
	return fpisa_poison(f, error);
}

int fpisa_reply_take(struct fpisa_shard *s, const struct fpisa_in *in, uint64_t now)
{
	const struct fpisa_hdr *h;
	struct fpisa_window_slot *slot;

	h = fpisa_reply_check(s, in);
	if (!h)
		return 0;
	slot = fpisa_window_slot_of(&s->window, h->chunk);
	if (h->generation != s->generation || !slot->tries || slot->chunk != h->chunk ||
	    h->slot != fpisa_slot_of(slot->chunk, s->hello.window)) {
		s->f->count.duplicates += h->type == FPISA_TYPE_RESULT;
		return 0;
	}
	switch (h->type) {
	case FPISA_TYPE_RESULT:
		return take_result(s, slot, h, in->marked, now);
	case FPISA_TYPE_STATUS:
		return h->rank == s->hello.rank ? take_status(slot, h) : 0;
	case FPISA_TYPE_ERROR:
		return h->rank == s->hello.rank ? take_error(s, slot, h) : 0;
	}
	return 0;
}
