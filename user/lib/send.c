/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Sending of the slots that window.c selects, directly from the arrays of the callers. */
#include <errno.h>
#include <string.h>
#include "base/tag.h"
#include "fpisa/slot.h"
#include "handle.h"
#include "send.h"

#define MAX_BLOCK_SIZE (FPISA_BLOCK * 8)

/* Seal `size` bytes and the zeros that pad them to a multiple of `block`. */
static void seal_padded(struct fpisa_seal *seal, const char *values, uint32_t size, uint32_t block)
{
	uint32_t whole = size - size % block;
	char tail[MAX_BLOCK_SIZE] = {0};

	fpisa_seal_words(seal, values, whole / 8);
	if (size > whole) {
		memcpy(tail, values + whole, size - whole);
		fpisa_seal_words(seal, tail, block / 8);
	}
}

static void add_part(struct fpisa_out *out, const void *p, uint32_t size)
{
	if (size)
		out->part[out->parts++] = (struct iovec){(void *)p, size};
}

/* Compose the slot's next transmission, directly from the array of the caller. */
static void compose(const struct fpisa_shard *s, struct fpisa_window_slot *slot, struct fpisa_out *out)
{
	static const char zeros[FPISA_MAX_PAYLOAD];
	const struct fpisa *f = s->f;
	const struct fpisa_request *r = slot->req;
	uint64_t offset = fpisa_position(s, r, slot->chunk) * f->hello.elements;
	uint32_t bytes = f->format.bytes, block = FPISA_BLOCK * bytes;
	const char *values = r->send ? r->send + offset * bytes : zeros;
	uint32_t n = fpisa_request_elements(r, offset), size = fpisa_request_bytes(r, offset);
	const __u64 *k = fpisa_nh_of(f);
	struct fpisa_seal seal;

	slot->hdr = (struct fpisa_hdr){
		.magic = FPISA_MAGIC,
		.version = FPISA_VERSION,
		.type = FPISA_TYPE_ADD,
		.flags = (slot->tries > 0 ? FPISA_F_RETRANSMIT : 0) | (slot->tries > 1 ? FPISA_F_PROBE : 0),
		.format = f->hello.format,
		.op = r->op,
		.job = s->job,
		.generation = s->generation,
		.slot = fpisa_slot_of(slot->chunk, s->hello.window),
		.rank = f->hello.rank,
		.count = (uint16_t)(n + -n % FPISA_BLOCK),
		.chunk = slot->chunk,
		.digest = r->digest + s->index,
		.call = r->call,
		.contributors = fpisa_request_keepers(r, offset),
		.secret = k ? 0 : s->joining.cookie,
		.bitmap = k ? s->joining.cookie : 0,
		.aux = r->operand,
	};
	seal = fpisa_seal_begin(&slot->hdr, k);
	out->parts = 0;
	add_part(out, &slot->hdr, sizeof(slot->hdr));
	if (f->format.shared) {
		const char *scales = r->send + r->count + offset / FPISA_BLOCK;

		seal_padded(&seal, scales, n / FPISA_BLOCK, FPISA_SCALES);
		add_part(out, scales, n / FPISA_BLOCK);
		add_part(out, zeros, FPISA_SCALES - n / FPISA_BLOCK);
	}
	seal_padded(&seal, values, size, block);
	add_part(out, values, size);
	add_part(out, zeros, -size % block);
	fpisa_seal_end(&seal, &slot->hdr, &s->rank_key);
	out->port = (uint16_t)fpisa_port_index(slot->hdr.slot >> 1, s->hello.window, s->hello.ports);
}

/* Fail the handle because no more frames can be sent. */
static int send_failed(struct fpisa_shard *s, int rc)
{
	struct fpisa *f = s->f;

	if (rc == -EMSGSIZE)
		fpisa_fail(rc,
			   "%s: job %u: a chunk of %u elements makes a packet larger than the MTU; "
			   "create the job with fewer elements or raise the MTU",
			   s->peer, s->job, f->hello.elements);
	else
		fpisa_fail(rc, "%s: job %u: cannot send: %s", s->peer, s->job, fpisa_why(rc));
	return fpisa_poison(f, rc);
}

/* Send up to `most` frames to one aggregator. */
static int send_to(struct fpisa_shard *s, uint32_t most)
{
	struct fpisa_out out[FPISA_BATCH];
	struct fpisa *f = s->f;
	uint64_t now = fpisa_now();
	struct fpisa_window_slot *slot, *fresh = NULL;
	uint32_t n = 0;
	int rc;

	while (n < most && n < FPISA_BATCH && (slot = fpisa_window_next_to_send(&s->window))) {
		compose(s, slot, &out[n]);
		out[n].no_gso = slot->tries > 0;
		if (!slot->tries && s->t->gso) {
			slot->gso = fresh != NULL;
			if (fresh)
				fresh->gso = 1;
			fresh = slot;
		}
		f->count.sent++;
		f->count.retransmits += slot->tries > 0;
		fpisa_window_sent(&s->window, slot, now + n++);
	}
	rc = s->t->ops->send(s->t, out, (int)n);
	return rc ? send_failed(s, rc) : 0;
}

/*
 * Return the shard whose turn it is. Each rank begins with a different aggregator, so that frames do not all go to one
 * port while the others are idle.
 */
static struct fpisa_shard *next_shard(struct fpisa *f)
{
	uint32_t shards = f->layout.shards;
	struct fpisa_shard *next = NULL;

	for (uint32_t i = 1; i <= shards; i++) {
		struct fpisa_shard *s = &f->shard[(f->hello.rank + i) % shards];

		if ((!next || fpisa_window_turn(&s->window) < fpisa_window_turn(&next->window)) &&
		    fpisa_window_next_to_send(&s->window))
			next = s;
	}
	return next;
}

int fpisa_send(struct fpisa *f)
{
	struct fpisa_shard *s;
	int rc = 0;

	while (!rc && (s = next_shard(f)))
		rc = send_to(s, fpisa_window_take_turn(&s->window));
	return rc;
}
