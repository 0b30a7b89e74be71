/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The end of requests and of their arrays when their handle fails, joins again or is closed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include "fpisa/slot.h"
#include "handle.h"
#include "unclean.h"

/* Does a failure leave its array half summed? A call of one chunk fails before its result comes. */
static int may_be_unclean(const struct fpisa_request *r)
{
	return r->send && r->send == r->recv && !r->kept && r->chunks > 1 && r->op != FPISA_MIN && r->op != FPISA_MAX;
}

int fpisa_request_reserve(struct fpisa_request *r)
{
	const struct fpisa *f = r->f;

	r->chunks = (r->count + f->hello.elements - 1) / f->hello.elements;
	return may_be_unclean(r) ? fpisa_unclean_new(&r->unclean, r->send, r->count, f->hello.elements, f->format) : 0;
}

void fpisa_request_place(struct fpisa_request *r)
{
	struct fpisa *f = r->f;

	r->first = f->end;
	r->chunks = (r->count + f->hello.elements - 1) / f->hello.elements;
	r->left = r->chunks;
	if (!r->left && r->ranks_to)
		*r->ranks_to = ~0ull >> (64 - f->hello.workers);
	r->call = f->calls++;
	r->mode = f->hello.mode;
	r->digest = fpisa_digest(f->digest, FPISA_CALL_ALLREDUCE, f->hello.format, r->op, r->operand, r->count, r->tag);
	f->digest = r->digest;
	f->end += r->chunks;
	FPISA_EACH_SHARD(s, f)
		fpisa_window_start(&s->window, r);
}

void fpisa_request_free(struct fpisa_request *r)
{
	struct fpisa *f = r->f;

	if (r->left && r->number && (!f->unfinished || r->number < f->unfinished))
		f->unfinished = r->number;
	if (r->left && r->barrier && r->number && (!f->unfinished_barrier || r->number < f->unfinished_barrier))
		f->unfinished_barrier = r->number;
	free(r->kept);
	fpisa_unclean_free(r->unclean);
	free(r);
}

void fpisa_requests_free(struct fpisa_requests *list)
{
	struct fpisa_request *r;

	while ((r = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, r, link);
		fpisa_request_free(r);
	}
}

uint32_t fpisa_request_elements(const struct fpisa_request *r, uint64_t offset)
{
	uint64_t left = r->count - offset;

	return left < r->f->hello.elements ? (uint32_t)left : r->f->hello.elements;
}

uint32_t fpisa_request_bytes(const struct fpisa_request *r, uint64_t offset)
{
	uint64_t at = offset * r->f->format.bytes, most = fpisa_request_elements(r, offset) * r->f->format.bytes;

	return (uint32_t)(r->bytes - at < most ? r->bytes - at : most);
}

/* Copy the elements, and scales, of the chunk at `offset` from one array to another. */
static void copy_chunk(const struct fpisa_request *r, char *to, const char *from, uint64_t offset)
{
	const struct fpisa *f = r->f;
	uint32_t n = fpisa_request_elements(r, offset);
	uint64_t at = offset * f->format.bytes, scales = r->count + offset / FPISA_BLOCK;

	memcpy(to + at, from + at, n * f->format.bytes);
	if (f->format.shared)
		memcpy(to + scales, from + scales, n / FPISA_BLOCK);
}

void fpisa_request_deliver(struct fpisa_request *r, uint64_t offset, const char *scales, const char *elements)
{
	const struct fpisa *f = r->f;
	uint32_t bytes = fpisa_request_bytes(r, offset),
		 blocks = f->format.shared ? fpisa_request_elements(r, offset) / FPISA_BLOCK : 0;
	char *to, *to_scales;

	if (!r->recv)
		return;
	to = r->recv + offset * f->format.bytes;
	to_scales = r->recv + r->count + offset / FPISA_BLOCK;
	if (r->kept)
		copy_chunk(r, r->kept, r->recv, offset);
	if (r->unclean && (memcmp(to, elements, bytes) || memcmp(to_scales, scales, blocks)))
		fpisa_unclean_mark(r->unclean, offset, fpisa_request_elements(r, offset));
	memcpy(to, elements, bytes);
	memcpy(to_scales, scales, blocks);
}

static void restore(struct fpisa_request *r)
{
	const struct fpisa *f = r->f;

	for (uint64_t i = 0; i < r->chunks; i++)
		if (fpisa_has_result(f, r->first + i))
			copy_chunk(r, r->recv, r->kept, i * f->hello.elements);
	free(r->kept);
	r->kept = NULL;
}

/* Restore the last first: an earlier request may have written what a later one kept. */
void fpisa_requests_restore(struct fpisa *f)
{
	struct fpisa_request *r;

	TAILQ_FOREACH_REVERSE(r, &f->requests, fpisa_requests, link) {
		if (r->kept && r->left)
			restore(r);
		if (r->unclean && r->left) {
			fpisa_unclean_remember(r->unclean);
			r->unclean = NULL;
		}
	}
}

void fpisa_requests_complete(struct fpisa *f)
{
	struct fpisa_request *r;

	while ((r = f->oldest) && !r->left) {
		fpisa_set_oldest(f, TAILQ_NEXT(r, link));
		r->done = 1;
		fpisa_request_tell(r);
	}
}

void fpisa_request_tell(struct fpisa_request *r)
{
	struct fpisa *f = r->f;
	struct fpisa_shared *s = &f->shared;

	if (!s->engine || r->told)
		return;
	r->told = 1;
	if (r->on_done) {
		TAILQ_REMOVE(&f->requests, r, link);
		TAILQ_INSERT_TAIL(&f->ended, r, link);
		fpisa_engine_due(s->engine, &s->item, 0);
	} else if (s->events >= 0 && !r->blocking) {
		eventfd_write(s->events, 1);
	}
	fpisa_shared_wake(s);
}

/* Report the end of all requests. Those that have all of their results end first if no more results come. */
void fpisa_requests_tell(struct fpisa *f)
{
	struct fpisa_request *r, *next;

	for (r = TAILQ_FIRST(&f->requests); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (!r->left)
			r->done = 1;
		else if (!r->error && r->on_done)
			r->error = f->error;
		fpisa_request_tell(r);
	}
	fpisa_set_oldest(f, NULL);
}

void fpisa_requests_give_up(struct fpisa *f)
{
	struct fpisa_request *r;

	fpisa_requests_restore(f);
	TAILQ_FOREACH(r, &f->requests, link) {
		r->given_up = 1;
		if (r->left)
			r->error = f->error ? f->error : -ECANCELED;
	}
	fpisa_requests_tell(f);
	TAILQ_CONCAT(&f->given_up, &f->requests, link);
}
