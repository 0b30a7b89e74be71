// SPDX-License-Identifier: GPL-2.0-only
/*
 * Check every element of every worker's result with the oracle. The oracle
 * replays the contributions in the job's register. Results contain their order
 * of arrival, which the oracle follows. If the order does not matter, the
 * oracle uses any order. The exact result shows the size of the error. Chunks
 * are independent, so each CPU has a thread that checks a share of the chunks.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/report.h"
#include "demo.h"
#include "lab/oracle/arrivals.h"

#define MAX_THREADS 16

struct share {
	const struct demo *d;
	uint64_t first, end; /* number of chunks */
	struct demo_check k;
};

/* The packed results of a chunk. */
struct expected {
	uint64_t words[FPISA_MAX_PAYLOAD / sizeof(uint64_t)];
	uint8_t scales[FPISA_MAX_BLOCKS];
};

static uint64_t chunk_count(const struct demo *d, uint64_t chunk)
{
	uint64_t left = d->elements - chunk * d->job.elements;

	return left < d->job.elements ? left : d->job.elements;
}

static struct oracle_call call_of(const struct demo *d)
{
	return (struct oracle_call){
		.f = fpisa_register(d->job.format, d->job.mode, d->o.workers),
		.mode = d->job.mode,
		.rounding = d->job.rounding,
		.op = d->o.op,
		.factor = d->o.factor,
		.reciprocal = d->job.flags & FPISA_JOB_RECIPROCAL,
	};
}

struct oracle_call demo_ideal(const struct demo *d)
{
	struct oracle_call c = call_of(d);

	c.reciprocal = false;
	return c;
}

/* Replay one element of all ranks in order of arrival. Store the result as element i of the chunk. */
static void replay_element(const struct demo *d, const struct oracle_call *call, const uint32_t *rank_at, uint64_t from,
			   uint64_t i, struct expected *expected, struct oracle_events *events, uint32_t *flags)
{
	uint64_t words[FPISA_MAX_WORKERS];

	for (uint32_t k = 0; k < d->o.workers; k++)
		words[k] = demo_word(d, d->input, rank_at[k], from);
	fpisa_put_word(expected->words, i, d->f, oracle_result(call, d->o.workers, words, events, flags));
}

static void replay_block(const struct demo *d, const struct oracle_call *call, const uint32_t *rank_at, uint64_t from,
			 uint64_t i, struct expected *expected, struct oracle_events *events, uint32_t *flags)
{
	struct oracle_mx blocks[FPISA_MAX_WORKERS], out;

	for (uint32_t k = 0; k < d->o.workers; k++) {
		blocks[k].scale = *demo_scale_at(d, d->input, rank_at[k], from);
		memcpy(blocks[k].k, demo_at(d, d->input, rank_at[k], from), sizeof(blocks[k].k));
	}
	oracle_result_mx(call, d->o.workers, blocks, &out, events, flags);
	memcpy((unsigned char *)expected->words + i, out.k, sizeof(out.k));
	expected->scales[i / FPISA_BLOCK] = out.scale;
}

/*
 * Compute the packed result and flags of the chunk with the oracle. Return false if `order` is not an order of all
 * ranks.
 */
static bool replay(const struct demo *d, uint64_t chunk, uint64_t order, struct expected *expected, uint32_t *flags,
		   struct oracle_events *events)
{
	struct oracle_call call = call_of(d);
	uint64_t at = chunk * d->job.elements;
	uint32_t rank_at[FPISA_MAX_WORKERS];

	*flags = 0;
	for (uint32_t r = 0; r < d->o.workers; r++)
		rank_at[r] = r;
	if (d->o.workers <= FPISA_ORDER_WORKERS && !arrivals(order, (1ull << d->o.workers) - 1, rank_at))
		return false;
	for (uint64_t i = 0; i < chunk_count(d, chunk); i += d->f.shared ? FPISA_BLOCK : 1) {
		if (d->f.shared)
			replay_block(d, &call, rank_at, at + i, i, expected, events, flags);
		else
			replay_element(d, &call, rank_at, at + i, i, expected, events, flags);
	}
	return true;
}

/* Count the elements of a chunk whose result at rank r differs from `expected`. */
static uint64_t differences(const struct demo *d, uint32_t r, uint64_t at, uint64_t n, const struct expected *expected)
{
	const void *out = demo_at(d, d->output, r, at);
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += fpisa_get_word(out, i, d->f) != fpisa_get_word(expected->words, i, d->f) ||
		       (d->f.shared && *demo_scale_at(d, d->output, r, at + i) != expected->scales[i / FPISA_BLOCK]);
	return sum;
}

/* Copy the result of one rank, for comparison with other ranks. */
static void take_result(const struct demo *d, uint32_t r, uint64_t at, uint64_t n, struct expected *e)
{
	memcpy(e->words, demo_at(d, d->output, r, at), n * d->f.bytes);
	if (d->f.shared)
		memcpy(e->scales, demo_scale_at(d, d->output, r, at), n / FPISA_BLOCK);
}

static void check_results(struct share *s, uint64_t chunk)
{
	const struct demo *d = s->d;
	const struct fpisa_chunk *first = &d->chunk[chunk];
	uint64_t at = chunk * d->job.elements, n = chunk_count(d, chunk), all = ~0ull >> (64 - d->o.workers);
	struct expected expected, zero;
	struct oracle_events again = {0};
	uint64_t order = first->order;
	uint32_t flags = 0;
	bool valid = true;

	take_result(d, 0, at, n, &zero);
	if (s->k.replayed)
		valid = replay(d, chunk, order, &expected, &flags, &s->k.events);
	for (uint32_t r = 0; r < d->o.workers; r++) {
		const struct fpisa_chunk *c = &d->chunk[r * d->chunks + chunk];
		uint64_t wrong = differences(d, r, at, n, &zero);

		s->k.disagreements += wrong;
		if (s->k.replayed && c->order != order) {
			order = c->order;
			valid = replay(d, chunk, order, &expected, &flags, &again);
		}
		if (!valid || c->count != n || c->offset != at || c->ranks != all) {
			wrong = n;
		} else if (s->k.replayed) {
			wrong = differences(d, r, at, n, &expected);
			s->k.wrong_flags += c->flags != flags;
		}
		s->k.worker[r] += wrong;
		s->k.mismatches += wrong;
	}
}

static void measure_errors(struct share *s, uint64_t chunk)
{
	const struct demo *d = s->d;
	struct oracle_call ideal = demo_ideal(d);
	uint64_t at = chunk * d->job.elements, words[FPISA_MAX_WORKERS];

	for (uint64_t i = at; i < at + chunk_count(d, chunk); i++) {
		double ulp, absolute;
		bool correct;

		for (uint32_t r = 0; r < d->o.workers; r++)
			words[r] = demo_word(d, d->input, r, i);
		ulp = oracle_result_error(&ideal, demo_word(d, d->output, 0, i), d->o.workers, words, &absolute,
					  &correct);
		if (ulp > s->k.max_ulp) {
			s->k.max_ulp = ulp;
			s->k.worst = i;
		}
		s->k.nearest += correct;
		s->k.max_abs = fmax(s->k.max_abs, absolute);
	}
}

static void *check_share(void *arg)
{
	struct share *s = arg;

	const struct demo *d = s->d;
	bool extreme = d->o.op == FPISA_OP_MIN || d->o.op == FPISA_OP_MAX;

	s->k.replayed = d->o.workers <= FPISA_ORDER_WORKERS || d->job.mode == FPISA_MODE_EXACT || extreme;
	s->k.measured = !extreme && !d->f.integer && !d->f.shared;
	for (uint64_t chunk = s->first; chunk < s->end; chunk++) {
		check_results(s, chunk);
		if (s->k.measured)
			measure_errors(s, chunk);
	}
	return NULL;
}

static void merge(struct demo_check *k, const struct demo_check *part)
{
	k->replayed = part->replayed;
	k->measured = part->measured;
	k->mismatches += part->mismatches;
	k->disagreements += part->disagreements;
	k->wrong_flags += part->wrong_flags;
	for (int r = 0; r < FPISA_MAX_WORKERS; r++)
		k->worker[r] += part->worker[r];
	oracle_events_add(&k->events, &part->events);
	if (part->max_ulp > k->max_ulp) {
		k->max_ulp = part->max_ulp;
		k->worst = part->worst;
	}
	k->nearest += part->nearest;
	k->max_abs = fmax(k->max_abs, part->max_abs);
}

uint64_t demo_histogram_total(const struct demo *d)
{
	uint64_t sum = 0;

	for (int b = 0; b < FPISA_BUCKETS; b++)
		sum += d->histogram.bucket[b];
	return sum;
}

bool demo_histogram_agrees(const struct demo *d, const struct demo_check *k)
{
	return !(d->job.flags & FPISA_JOB_HISTOGRAM) || !k->replayed ||
	       demo_histogram_total(d) == k->events.rounded + k->events.overwritten;
}

bool demo_counts_agree(const struct fpisa_counters *c, const struct demo_check *k)
{
	return !k->replayed || (c->rounded == k->events.rounded && c->overwritten == k->events.overwritten &&
				c->left_shifted == k->events.left_shifted && c->overflowed == k->events.overflowed);
}

int demo_check(const struct demo *d, const struct fpisa_counters *c, struct demo_check *k)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int threads = cpus < 1 ? 1 : cpus > MAX_THREADS ? MAX_THREADS : cpus;
	struct share share[MAX_THREADS];
	pthread_t thread[MAX_THREADS];
	int started, err = 0;

	memset(k, 0, sizeof(*k));
	memset(share, 0, sizeof(share));
	for (started = 0; !err && started < threads; started += !err) {
		share[started].d = d;
		share[started].first = d->chunks * started / threads;
		share[started].end = d->chunks * (started + 1) / threads;
		err = -pthread_create(&thread[started], NULL, check_share, &share[started]);
	}
	for (int i = 0; i < started; i++) {
		pthread_join(thread[i], NULL);
		merge(k, &share[i].k);
	}
	if (err)
		return fail(err, NULL, "demo: cannot start a thread");
	if (k->mismatches || k->disagreements || k->wrong_flags || !demo_counts_agree(c, k) ||
	    !demo_histogram_agrees(d, k))
		return -EBADMSG;
	return 0;
}
