/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The end of requests and of their arrays when their handle fails, joins again or is closed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include "fpisa/slot.h"
#include "handle.h"
#include "unclean.h"

int fpisa_request_in_place(const struct fpisa_request *r)
{
	return r->send && r->recv == r->send + r->part.first * r->f->format.bytes;
}

/*
 * Return whether a failure of the call could leave sums in parts of its array. A call of one chunk can fail only before
 * its result arrives.
 */
static int may_be_unclean(const struct fpisa_request *r)
{
	return fpisa_request_in_place(r) && !r->kept && r->chunks > 1 && r->op != FPISA_MIN && r->op != FPISA_MAX;
}

int fpisa_request_reserve(struct fpisa_request *r)
{
	const struct fpisa *f = r->f;

	r->chunks = (r->count + f->hello.elements - 1) / f->hello.elements;
	if (!may_be_unclean(r))
		return 0;
	return fpisa_unclean_new(&r->unclean, r->recv, r->part.end - r->part.first, f->hello.elements, f->format);
}

/* Give each chunk of a reduce-scatter to the aggregator on the host of the rank that keeps its first element. */
static void spread(struct fpisa_request *r)
{
	const uint32_t elements = r->f->hello.elements, ranks = r->f->hello.workers;
	uint64_t end[FPISA_MAX_WORKERS];

	for (uint32_t k = 0; k < ranks; k++)
		end[k] = (r->parts->end[k] + elements - 1) / elements;
	fpisa_spread_init(r->spread, &r->f->layout, r->first, end, ranks);
}

void fpisa_request_place(struct fpisa_request *r)
{
	struct fpisa *f = r->f;

	r->first = f->end;
	r->chunks = (r->count + f->hello.elements - 1) / f->hello.elements;
	r->left = r->chunks;
	if (!r->left && r->ranks_to)
		fpisa_result_ranks(f, ~0ull >> (64 - f->hello.workers), r->ranks_to);
	r->call = f->calls++;
	r->mode = f->hello.mode;
	r->digest = fpisa_digest(f->digest, FPISA_CALL_ALLREDUCE, f->hello.format, r->op, r->operand, r->count, r->tag);
	f->digest = r->digest;
	f->end += r->chunks;
	if (r->spread)
		spread(r);
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
	free(r->parts);
	free(r->spread);
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

/* Return the part of the chunk at `offset` that the caller keeps. The part is empty if first >= end. */
static struct fpisa_part kept_part(const struct fpisa_request *r, uint64_t offset)
{
	uint64_t end = offset + fpisa_request_elements(r, offset);

	return (struct fpisa_part){
		.first = offset > r->part.first ? offset : r->part.first,
		.end = end < r->part.end ? end : r->part.end,
	};
}

int fpisa_request_keeps(const struct fpisa_request *r, uint64_t offset)
{
	const struct fpisa_part p = kept_part(r, offset);

	return p.first < p.end;
}

/* Return the ranks of the job among the first `n` of the group. In a tree the job has only some of the ranks. */
static uint32_t job_ranks(const struct fpisa *f, uint32_t n)
{
	uint32_t k = 0;

	if (!f->leaf.size)
		return n;
	while (k < f->leaf.n && f->leaf.rank[k] < n)
		k++;
	return k;
}

uint16_t fpisa_request_keepers(const struct fpisa_request *r, uint64_t offset)
{
	const uint64_t end = offset + fpisa_request_elements(r, offset);
	uint32_t first = 0, last, before, upto;

	if (!r->parts)
		return 0;
	while (r->parts->end[first] <= offset)
		first++;
	for (last = first; r->parts->end[last] < end;)
		last++;
	before = job_ranks(r->f, first);
	upto = job_ranks(r->f, last + 1);
	if (!before && upto == r->f->hello.workers)
		return 0;
	return upto > before ? fpisa_keepers(before, upto - 1) : fpisa_keepers(1, 0);
}

/* The place of elements in an array, and of their scales if the format has scales. */
struct place {
	char *elements, *scales;
	uint32_t bytes, blocks;
};

/*
 * Return the place of the elements `p` in an array that consists of the elements r->part. The last element of a
 * broadcast may be incomplete.
 */
static struct place place_of(const struct fpisa_request *r, char *array, struct fpisa_part p)
{
	const struct fpisa_format format = r->f->format;
	uint64_t at = p.first - r->part.first, most = (p.end - p.first) * format.bytes,
		 left = r->bytes - p.first * format.bytes;

	return (struct place){
		.elements = array + at * format.bytes,
		.scales = array + (r->part.end - r->part.first) + at / FPISA_BLOCK,
		.bytes = (uint32_t)(left < most ? left : most),
		.blocks = format.shared ? (uint32_t)(p.end - p.first) / FPISA_BLOCK : 0,
	};
}

static void copy_part(const struct fpisa_request *r, char *to, char *from, struct fpisa_part p)
{
	struct place t = place_of(r, to, p), f = place_of(r, from, p);

	memcpy(t.elements, f.elements, t.bytes);
	memcpy(t.scales, f.scales, t.blocks);
}

void fpisa_request_deliver(struct fpisa_request *r, uint64_t offset, const char *scales, const char *elements)
{
	const struct fpisa_part p = kept_part(r, offset);
	struct place to;

	if (!r->recv || p.first >= p.end)
		return;
	to = place_of(r, r->recv, p);
	elements += (p.first - offset) * r->f->format.bytes;
	scales += (p.first - offset) / FPISA_BLOCK;
	if (r->kept)
		copy_part(r, r->kept, r->recv, p);
	if (r->unclean && (memcmp(to.elements, elements, to.bytes) || memcmp(to.scales, scales, to.blocks)))
		fpisa_unclean_mark(r->unclean, p.first - r->part.first, (uint32_t)(p.end - p.first));
	memcpy(to.elements, elements, to.bytes);
	memcpy(to.scales, scales, to.blocks);
}

static void restore(struct fpisa_request *r)
{
	const struct fpisa *f = r->f;

	for (uint64_t i = 0; i < r->chunks; i++) {
		const uint32_t shard = fpisa_layout_owner(&f->layout, r->first + i);
		const uint64_t own = fpisa_layout_own(&f->layout, shard, r->first + i),
			       offset = fpisa_position(&f->shard[shard], r, own) * f->hello.elements;
		const struct fpisa_part p = kept_part(r, offset);

		if (p.first < p.end && fpisa_window_passed(&f->shard[shard].window, own))
			copy_part(r, r->recv, r->kept, p);
	}
	free(r->kept);
	r->kept = NULL;
}

/* Restore the last request first, because a later request may have kept data that an earlier request had written. */
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

/*
 * Report the end of all requests. If no more results can arrive, first end the requests that have all of their results.
 */
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
