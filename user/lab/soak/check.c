// SPDX-License-Identifier: GPL-2.0-only
/*
 * The contributions of the ranks to a call, and the expected results. Both depend
 * only on seed, job, generation, call and rank. rank.h documents the functions.
 */
#include <stdio.h>
#include <string.h>

#include "lab/oracle/arrivals.h"
#include "rank.h"
#include "values/random.h"

void rank_say(struct worker *w, const char *what)
{
	if (!*w->out->message)
		snprintf(w->out->message, sizeof(w->out->message), "job %u rank %u: %s", w->job, w->rank, what);
}

#define EXPONENTS 6
/* number of mantissa bits for which no register loses a bit, with EXPONENTS exponents or with one exponent */
#define FEW_BITS 4

/* -- data ---------------------------------------------------------------- */

uint64_t rank_random(const struct worker *w)
{
	uint64_t state = w->s->o.seed ^ w->session ^ (uint64_t)w->info.generation << 32 ^ w->job << 24 ^ w->calls;

	return splitmix64(&state);
}

/*
 * Return a zero, an infinity, a NaN, or a value with an exponent near the others. Near
 * exponents let sums round and cancel. If few_bits is set, adds do not round.
 */
static uint64_t float_of(struct fpisa_format f, uint64_t state, bool few_bits)
{
	uint64_t z = splitmix64(&state);
	uint64_t e = (1ull << (f.ebits - 1)) - 4 + (z >> 56) % EXPONENTS, frac = z & ((1ull << f.mbits) - 1);
	uint64_t sign = (z >> 55 & 1) << (f.ebits + f.mbits);

	if (few_bits && f.mbits > FEW_BITS + EXPONENTS)
		frac = frac >> (f.mbits - FEW_BITS) << (f.mbits - FEW_BITS);
	else if (few_bits)
		e = (1ull << (f.ebits - 1)) - 1;
	z = splitmix64(&state);
	if (z % 32 == 0)
		return sign;
	if (z % 4093 == 0) {
		e = (1ull << f.ebits) - 1;
		/* Make a NaN. In a format without infinities, a smaller fraction would make one of the largest numbers. */
		if (few_bits && f.finite)
			frac = (1ull << f.mbits) - 1;
	}
	return sign | e << f.mbits | frac;
}

/* Return element i of a rank. Some sums of integers saturate, except in a group. */
static uint64_t word_of(const struct worker *w, struct fpisa_format f, uint64_t call, uint32_t rank, uint64_t i)
{
	uint64_t state = call + ((uint64_t)rank << 32 | i), z;

	if (!f.integer)
		return float_of(f, state, w->g != NULL);
	z = splitmix64(&state);
	return (uint32_t)((int32_t)z >> ((w->g ? 4 : 0) + (z >> 32) % 16));
}

/* Return block b of a rank, with a scale near the others. Some blocks are all zeros, and some are NaN. */
static struct oracle_mx block_of(uint64_t call, uint32_t rank, uint64_t b)
{
	uint64_t state = call + ((uint64_t)rank << 32 | b), z = splitmix64(&state);
	struct oracle_mx block = {.scale = z % 61 ? (uint8_t)(120 + (z >> 32) % 12) : 255};

	for (int i = 0; i < ORACLE_MX_LANES && (z >> 40) % 16; i++)
		block.k[i] = (int8_t)splitmix64(&state);
	return block;
}

/* Convert a value between the host's byte order and that of the job's arrays. */
static uint64_t in_order(const struct worker *w, struct fpisa_format f, uint64_t word)
{
	return w->info.big_endian ? __builtin_bswap64(word) >> (64 - 8 * f.bytes) : word;
}

void rank_fill(struct worker *w, uint64_t call)
{
	const struct fpisa_format f = fpisa_format_of(w->info.format);

	for (uint64_t b = 0; f.shared && b < w->count / FPISA_BLOCK; b++) {
		struct oracle_mx block = block_of(call, w->rank, b);

		memcpy(w->send + b * FPISA_BLOCK, block.k, FPISA_BLOCK);
		w->send[w->count + b] = block.scale;
	}
	for (uint64_t i = 0; !f.shared && i < w->count; i++)
		fpisa_put_word(w->send, i, f, in_order(w, f, word_of(w, f, call, w->rank, i)));
}

struct oracle_call rank_operation(const struct worker *w)
{
	uint64_t state = rank_random(w) + 1, z = splitmix64(&state);
	struct oracle_call c = {
		.f = fpisa_register(w->info.format, w->info.mode, w->info.workers),
		.mode = w->info.mode,
		.rounding = w->info.rounding,
		.op = FPISA_OP_SUM,
		.factor = 1.0 / (double)(1 + (z >> 32) % 64),
	};

	if (z & 1)
		c.factor = -c.factor;
	if (c.f.bytes < 8)
		c.factor = (float)c.factor;
	if (z & 2)
		return c;
	do
		c.op = 1 + (int)random_below(&state, FPISA_OP_END - 1);
	while (!fpisa_op_offered(c.f, c.mode, (uint32_t)c.op));
	return c;
}

/* -- check ----------------------------------------------------------------- */

/* Count the wrong elements and scales of a chunk. Set *flags to the expected flags of the chunk. */
static uint64_t wrong_values(const struct worker *w, const struct fpisa_chunk *c, const uint32_t *rank_at, uint32_t n,
			     uint32_t *flags)
{
	const struct oracle_call call = rank_operation(w);
	uint64_t random = rank_random(w), wrong = 0;

	for (uint64_t i = c->offset; i < c->offset + c->count && !call.f.shared; i++) {
		uint64_t words[SOAK_RANKS];

		for (uint32_t k = 0; k < n; k++)
			words[k] = word_of(w, call.f, random, rank_at[k], i);
		wrong += oracle_result(&call, n, words, NULL, flags) !=
			 in_order(w, call.f, fpisa_get_word(w->recv, i, call.f));
	}
	for (uint64_t i = c->offset; i < c->offset + c->count && call.f.shared; i += FPISA_BLOCK) {
		struct oracle_mx blocks[SOAK_RANKS], want;

		for (uint32_t k = 0; k < n; k++)
			blocks[k] = block_of(random, rank_at[k], i / FPISA_BLOCK);
		oracle_result_mx(&call, n, blocks, &want, NULL, flags);
		wrong += w->recv[w->count + i / FPISA_BLOCK] != want.scale;
		for (int lane = 0; lane < ORACLE_MX_LANES; lane++)
			wrong += (int8_t)w->recv[i + (uint64_t)lane] != want.k[lane];
	}
	return wrong;
}

void rank_check_chunk(struct worker *w, const struct fpisa_chunk *c, uint64_t absent)
{
	uint64_t all = ~0ull >> (64 - w->info.workers);
	uint32_t rank_at[FPISA_ORDER_WORKERS], n = (uint32_t)__builtin_popcountll(c->ranks), flags = 0;
	uint64_t wrong;

	if (c->ranks & ~all || (c->ranks | absent) != all || !arrivals(c->order, c->ranks, rank_at) ||
	    c->offset + c->count > w->count) {
		w->out->mismatches++;
		rank_say(w, "a result has wrong ranks, order or position");
		return;
	}
	wrong = wrong_values(w, c, rank_at, n, &flags);
	w->out->elements += c->count;
	w->out->chunks++;
	w->out->mismatches += wrong + (flags != c->flags);
	if (wrong)
		rank_say(w, "a result is wrong");
	else if (flags != c->flags)
		rank_say(w, "flags are wrong");
}

void rank_check_call(struct worker *w, uint32_t flags)
{
	uint64_t sums = 0;
	uint32_t want = 0;

	for (uint32_t i = 0; i < w->chunks; i++) {
		sums += w->chunk[i].count;
		want |= w->chunk[i].flags;
		if (w->chunk[i].ranks != w->chunk[0].ranks)
			want |= FPISA_RESULT_MIXED_RANKS;
		if (w->chunk[i].ranks != ~0ull >> (64 - w->info.workers))
			want |= FPISA_RESULT_FEWER_RANKS;
	}
	if (sums != w->count) {
		w->out->mismatches++;
		rank_say(w, "a call succeeded without all of its results");
	} else if (flags != want) {
		w->out->mismatches++;
		rank_say(w, "a call's flags differ from the flags of its chunks");
	}
}
