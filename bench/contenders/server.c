// SPDX-License-Identifier: GPL-2.0-only
/* Process a frame in a server that adds with AVX2. server.h documents the functions. */
#include <errno.h>
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/checksum.h"
#include "server.h"

#define AVX2 __attribute__((target("avx2")))
#define LANES 8 /* number of floats in a register */

static struct fpisa_sum sums(const struct fpisa_hdr *h, uint32_t payload)
{
	struct fpisa_sum s = {0};

	fpisa_sum_words(&s, h, FPISA_SUM_HDR_WORDS);
	fpisa_checksum_many(&s, h + 1, payload / 8);
	return s;
}

static int is_whole(const struct fpisa_hdr *h, uint32_t payload)
{
	struct fpisa_sum s = sums(h, payload);

	return fpisa_sum_fold(&s) == h->checksum;
}

/* -- sums, for which n is a multiple of 32 ------------------------------------------- */

static AVX2 void add(float *sum, const float *x, uint32_t n)
{
	for (uint32_t i = 0; i < n; i += LANES)
		_mm256_store_ps(sum + i, _mm256_add_ps(_mm256_load_ps(sum + i), _mm256_loadu_ps(x + i)));
}

/* Add the last contribution. Store the result in `sum`, and in x too. */
static AVX2 void finish(float *sum, float *x, uint32_t n, struct fpisa_checksum_lanes *l)
{
	for (uint32_t i = 0; i < n; i += LANES) {
		__m256 v = _mm256_add_ps(_mm256_load_ps(sum + i), _mm256_loadu_ps(x + i));
		fpisa_checksum_words w = (fpisa_checksum_words)v;

		_mm256_store_ps(sum + i, v);
		_mm256_storeu_ps(x + i, v);
		fpisa_checksum_take(l, &w);
	}
}

/* -- the protocol ------------------------------------------------------------------------ */

int server_init(struct server *s)
{
	size_t versions = 2ul * s->job.window;

	s->next_generation = 1;
	s->slot = calloc(versions, sizeof(*s->slot));
	s->sum = aligned_alloc(64, versions * s->job.elements * sizeof(*s->sum));
	return s->slot && s->sum ? 0 : -ENOMEM;
}

static void set_checksum(struct server *s, struct fpisa_hdr *h, const struct fpisa_sum *sum)
{
	h->checksum = fpisa_sum_fold(sum);
	s->words = fpisa_sum_16(sum);
}

static void reply(struct server *s, struct fpisa_hdr *h, uint32_t payload, size_t *len)
{
	struct fpisa_sum sum = sums(h, payload);

	set_checksum(s, h, &sum);
	*len = sizeof(*h) + payload;
}

static void refuse(struct server *s, struct fpisa_hdr *h, enum fpisa_verdict v, uint32_t rank, size_t *len, uint64_t *to)
{
	if (!fpisa_reported(v))
		return;
	fpisa_make_error(h, v);
	reply(s, h, 0, len);
	*to = 1ull << rank;
}

static void hello(struct server *s, struct fpisa_hdr *h, const struct fpisa_address *from, __be16 sport,
		  uint32_t payload, size_t *len, uint64_t *to)
{
	struct fpisa_hello *p = (struct fpisa_hello *)(h + 1);
	enum fpisa_verdict v;
	uint32_t rank = 0;

	v = fpisa_check_hello(h, p, payload, &s->job, from, sport, &rank);
	if (v == FPISA_V_not_live)
		refuse(s, h, v, rank, len, to);
	if (v != FPISA_V_ok)
		return;
	if (fpisa_challenge(h, p, fpisa_cookie(&s->job.key, rank, h->aux)) == FPISA_V_ok)
		fpisa_welcome(h, p, &s->job, &s->session, rank, s->job.live, &s->next_generation);
	reply(s, h, sizeof(struct fpisa_hello), len);
	*to = 1ull << rank;
}

/* Add the values. If this completes the round, turn the header into the result's header and return nonzero. */
static AVX2 int take_values(struct server *s, struct fpisa_hdr *h, struct fpisa_slot *slot, float *sum, int first)
{
	uint32_t bytes = h->count * sizeof(float);
	float *x = (float *)(h + 1);
	struct fpisa_checksum_lanes l = {{0}, {0}, {0}, {0}};
	struct fpisa_sum total = {0};

	if (!fpisa_slot_commit(slot, h->rank, s->job.live, 0)) {
		if (first)
			memcpy(sum, x, bytes);
		else
			add(sum, x, h->count);
		return 0;
	}
	if (first)
		memset(sum, 0, bytes);
	finish(sum, x, h->count, &l);
	slot->done = 1;
	fpisa_make_result(h, slot, &s->job, s->session.results, 0, 0);
	fpisa_sum_words(&total, h, FPISA_SUM_HDR_WORDS);
	fpisa_checksum_join(&total, &l, bytes / 8);
	set_checksum(s, h, &total);
	return 1;
}

static void add_frame(struct server *s, struct fpisa_hdr *h, const struct fpisa_address *from, __be16 sport,
		      uint32_t payload, size_t *len, uint64_t *to)
{
	enum fpisa_verdict v = fpisa_check_add(h, payload, &s->job, &s->session, from, sport);
	struct fpisa_slot *slot;
	struct fpisa_claim claim;
	uint32_t rank = h->rank;
	__u64 results;
	float *sum;
	int step;

	if ((v != FPISA_V_ok && !fpisa_reported(v)) || !is_whole(h, payload))
		return;
	if (v == FPISA_V_ok && h->op != FPISA_OP_SUM)
		v = FPISA_V_op;
	if (v != FPISA_V_ok) {
		refuse(s, h, v, rank, len, to);
		return;
	}
	slot = &s->slot[h->slot];
	sum = s->sum + (size_t)h->slot * s->job.elements;
	claim = fpisa_claim_of(h, &s->job);
	step = fpisa_admit(&s->session, slot, &claim, s->job.live, &results);
	if (step < 0) {
		refuse(s, h, (enum fpisa_verdict) - step, rank, len, to);
	} else if (step == FPISA_STEP_RESEND || step == FPISA_STEP_FINISH) {
		slot->done = 1;
		memcpy(h + 1, sum, payload);
		fpisa_make_result(h, slot, &s->job, results, 0, step == FPISA_STEP_RESEND);
		reply(s, h, payload, len);
		*to = step == FPISA_STEP_RESEND ? 1ull << rank : s->job.live;
	} else if (step != FPISA_STEP_WAIT && take_values(s, h, slot, sum, step == FPISA_STEP_SET)) {
		*to = s->job.live;
	} else if (h->flags & FPISA_F_PROBE) {
		fpisa_make_status(h, slot, s->job.live);
		reply(s, h, 0, len);
		*to = 1ull << rank;
	}
}

void server_frame(struct server *s, const struct fpisa_address *from, __be16 sport, void *frame, size_t *len,
		  uint64_t *to)
{
	struct fpisa_hdr *h = frame;
	uint32_t payload;

	*to = 0;
	if (*len < sizeof(*h) || h->magic != FPISA_MAGIC || h->job != s->number || fpisa_check_type(h) != FPISA_V_ok)
		return;
	payload = (uint32_t)(*len - sizeof(*h));
	if (h->type == FPISA_TYPE_HELLO)
		hello(s, h, from, sport, payload, len, to);
	else
		add_frame(s, h, from, sport, payload, len, to);
}
