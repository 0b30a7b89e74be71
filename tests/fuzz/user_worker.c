/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libFuzzer target: frames that come back to a worker (user/lib/join.c, reply.c, window.c), through a transport that
 * delivers frames from the input. The input is a list of records. One byte of a record chooses the kind of frame to
 * start from, if any, and whether to correct its checksum. Changes to the frame's bytes follow.
 *
 * For any input, a call that succeeds has taken every element once, and nothing is written outside its array.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fpisa/frame.h"
#include "lib/base/tag.h"
#include "lib/handle.h"
#include "lib/join.h"

#define MOST 2000 /* maximum number of elements in a call */
#define KINDS 6
#define WRONG_CHECKSUM 0x80
#define OPERATIONS 8 /* number of operations, including unknown ones */

enum kind { RAW, WELCOME, RESULT, STATUS, ERROR, AGAIN };

struct fake {
	struct fpisa_transport base;
	struct fpisa *f;
	const uint8_t *at; /* current position in the input */
	size_t left;
	uint32_t capacity;
	struct {
		struct fpisa_hdr h;
		char payload[FPISA_MAX_PAYLOAD + 8];
	} frame;
	size_t len;
	void *lent;	/* an exact-size copy, valid until the next call */
	uint64_t taken; /* elements that on_chunk has seen */
};

static uint8_t next(struct fake *t)
{
	if (!t->left)
		return 0;
	t->left--;
	return *t->at++;
}

static int fake_send(struct fpisa_transport *base, const struct fpisa_out *out, int n)
{
	uint8_t seen = 0;

	(void)base;
	for (int i = 0; i < n; i++) {
		size_t len = 0;

		for (int p = 0; p < out[i].parts; p++) {
			const uint8_t *b = out[i].part[p].iov_base;

			for (size_t k = 0; k < out[i].part[p].iov_len; k++)
				seen ^= b[k];
			len += out[i].part[p].iov_len;
		}
		if (len < FPISA_HDR_LEN || len > FPISA_HDR_LEN + FPISA_MAX_PAYLOAD)
			abort();
	}
	fpisa_opaque(seen);
	return 0;
}

static void set_checksum(struct fake *t)
{
	const struct fpisa *f = t->f;
	struct fpisa_hdr *h = &t->frame.h;
	size_t words = t->len < FPISA_HDR_LEN ? 0 : (t->len - FPISA_HDR_LEN) / 8;
	struct fpisa_key key = h->type == FPISA_TYPE_RESULT ? f->shard->results_key : f->shard->rank_key;
	struct fpisa_seal seal;

	if (t->len < FPISA_HDR_LEN)
		return;
	if (h->type == FPISA_TYPE_WELCOME && t->len >= FPISA_HDR_LEN + sizeof(struct fpisa_hello)) {
		struct fpisa_hello p;

		memcpy(&p, t->frame.payload, sizeof(p));
		p.proof = fpisa_token_proof(&f->token, h, &p);
		memcpy(t->frame.payload, &p, sizeof(p));
	}
	if (!h->generation)
		key = fpisa_key_of(&f->token, FPISA_KEY_HELLO, 0, 0);
	seal = fpisa_seal_begin(h,
				h->type == FPISA_TYPE_WELCOME || words > FPISA_MAX_PAYLOAD / 8 ? NULL : fpisa_nh_of(f));
	fpisa_seal_words(&seal, t->frame.payload, words);
	fpisa_seal_end(&seal, h, &key);
}

/* Return the slot's request, unless it has ended. */
static const struct fpisa_request *request_of(const struct fpisa *f, const struct fpisa_window_slot *slot)
{
	const struct fpisa_request *r;

	TAILQ_FOREACH(r, &f->requests, link)
		if (slot && slot->req == r)
			return r;
	return NULL;
}

/* Make the frame that an honest aggregator would send now. */
static void honest(struct fake *t, enum kind kind, uint8_t which)
{
	const struct fpisa *f = t->f;
	const struct fpisa_window_slot *slot =
		f->shard->window.slots ? &f->shard->window.slot[which % f->shard->window.slots] : NULL;
	const struct fpisa_request *r = request_of(f, slot);
	struct fpisa_hdr *h = &t->frame.h;

	*h = (struct fpisa_hdr){
		.magic = FPISA_MAGIC,
		.version = FPISA_VERSION,
		.job = f->job,
		.secret = f->shard->joining.cookie,
		.generation = f->shard->generation ? f->shard->generation : 7,
		.rank = f->hello.rank,
	};
	t->len = FPISA_HDR_LEN;
	if (kind == WELCOME) {
		struct fpisa_hello p = {.window = 4,
					.elements = 64,
					.workers = 3,
					.rank = 1,
					.live = 7,
					.mode = FPISA_MODE_FPISA,
					.rounding = FPISA_ROUND_DOWN,
					.format = FPISA_FORMAT_FP32,
					.pipeline = FPISA_PIPELINE_FUSED,
					.clz = FPISA_CLZ_BITS,
					.fanout = FPISA_FANOUT_UNICAST};

		h->type = FPISA_TYPE_WELCOME;
		h->chunk = f->incarnation.nonce;
		h->aux = f->incarnation.number;
		if (which & 1) {
			h->flags = FPISA_F_PENDING | FPISA_F_CHALLENGE;
			h->secret = which;
		}
		h->bitmap = 7;
		memcpy(t->frame.payload, &p, sizeof(p));
		t->len += sizeof(p);
		return;
	}
	if (!r)
		return;
	h->chunk = slot->chunk;
	h->slot = fpisa_slot_of(slot->chunk, f->hello.window);
	h->digest = r->digest;
	h->call = r->call;
	h->op = r->op;
	h->format = f->hello.format;
	h->bitmap = f->hello.live;
	if (kind == RESULT) {
		uint32_t n = fpisa_request_elements(r, (slot->chunk - r->first) * f->hello.elements);

		h->type = FPISA_TYPE_RESULT;
		h->secret = f->hello.results;
		h->rank = 0xffff;
		h->count = (uint16_t)(n + -n % FPISA_BLOCK);
		h->contributors = f->hello.workers;
		memset(t->frame.payload, which, sizeof(t->frame.payload));
		t->len += fpisa_payload_bytes(f->format, h->count);
	} else if (kind == STATUS) {
		h->type = FPISA_TYPE_STATUS;
		h->aux = f->hello.live;
	} else {
		h->type = FPISA_TYPE_ERROR;
		h->reason = which;
	}
}

static int fake_receive(struct fpisa_transport *base, struct fpisa_in *in, uint64_t timeout_ns)
{
	struct fake *t = (struct fake *)base;
	uint8_t how, changes;

	(void)timeout_ns;
	free(t->lent);
	t->lent = NULL;
	if (!t->left)
		return -ECONNRESET;
	how = next(t);
	if ((how & 0x7f) % KINDS == RAW)
		for (t->len = next(t), changes = 0; changes < t->len; changes++)
			((uint8_t *)&t->frame)[changes] = next(t);
	else if ((how & 0x7f) % KINDS != AGAIN)
		honest(t, (how & 0x7f) % KINDS, next(t));
	for (changes = next(t) % 8; changes; changes--) {
		size_t at = next(t);

		if (at < 250)
			((uint8_t *)&t->frame)[at] = next(t);
		else
			t->len = at < 253 ? t->len + 8 : next(t);
	}
	if (t->len > sizeof(t->frame))
		t->len = sizeof(t->frame);
	if (!(how & WRONG_CHECKSUM))
		set_checksum(t);
	t->lent = malloc(t->len ? t->len : 1);
	if (!t->lent)
		abort();
	memcpy(t->lent, &t->frame, t->len);
	*in = (struct fpisa_in){t->lent, t->len};
	return 1;
}

static int fake_joined(struct fpisa_transport *base, const struct fpisa_hello *hello)
{
	(void)hello;
	return (int)((struct fake *)base)->capacity;
}

static void fake_close(struct fpisa_transport *base)
{
	free(((struct fake *)base)->lent);
}

static void on_chunk(void *arg, const struct fpisa_chunk *c)
{
	struct fake *t = arg;

	t->taken += c->count;
}

static const struct fpisa_transport_ops ops = {
	.send = fake_send,
	.receive = fake_receive,
	.joined = fake_joined,
	.close = fake_close,
};

/* Make one call of `count` elements in an array of exactly their size. Ignore a call that is refused with -EINVAL. */
static void call(struct fake *t, uint32_t count, uint8_t op)
{
	struct fpisa *f = t->f;
	/* A block with a shared exponent has an additional byte, after the values. */
	size_t size = (size_t)count * f->format.bytes + (f->format.shared ? (count + FPISA_BLOCK - 1) / FPISA_BLOCK : 0);
	char *recv = malloc(size), *send = calloc(1, size);
	int rc;

	if (!recv || !send)
		abort();
	t->taken = 0;
	rc = fpisa_allreduce_op(f, send, recv, count, f->hello.format, (enum fpisa_operation)(op % OPERATIONS), 0.5,
				NULL);
	/* -ERANGE means that the sum was delivered and that it overflowed. */
	if ((!rc || rc == -ERANGE) && t->taken != count)
		abort();
	free(recv);
	free(send);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fake t = {.base = {.ops = &ops}, .at = data, .left = size};
	const uint32_t weight = 1;
	struct fpisa_options o = {.size = sizeof(o), .token = size % 2 ? 99 : 0, .on_chunk = on_chunk, .arg = &t};
	uint32_t count = 1 + (next(&t) | (uint32_t)next(&t) << 8) % MOST;
	uint8_t op;

	t.capacity = 1 + next(&t) % 64;
	op = next(&t);
	if (fpisa_new(&t.f, &o, 1, &weight))
		abort();
	strcpy(t.f->shard->peer, "fuzz");
	t.f->job = 3;
	t.f->shard->t = &t.base;
	if (!fpisa_join(t.f, 0)) {
		call(&t, count, op);
		call(&t, count, op / OPERATIONS);
		if (t.left && !fpisa_rejoin(t.f))
			call(&t, count, op);
	}
	fpisa_close(t.f);
	return 0;
}
