// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every element of every worker's result against the oracle, which replays
 * the contributions in the order in which the result says they arrived, in
 * the job's register, or in mode exact sums them in any; and against the
 * exact sum, for the size of the error. Chunks are independent, so a thread a
 * CPU takes its share of them.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arrivals.h"
#include "cli.h"
#include "demo.h"

#define MAX_THREADS 16

struct share {
	const struct demo *d;
	uint64_t first, end; /* chunks */
	struct demo_check k;
};

static uint64_t chunk_count(const struct demo *d, uint64_t chunk)
{
	uint64_t left = d->elements - chunk * d->o.packet;

	return left < d->o.packet ? left : d->o.packet;
}

/* The chunk's packed result and flags by the oracle; false if `order` is none. */
static bool replay(const struct demo *d, uint64_t chunk, uint64_t order, void *expected, uint32_t *flags,
		   struct oracle_events *events)
{
	const struct fpisa_format f = fpisa_register(d->o.format, d->o.mode, d->o.workers);
	uint64_t at = chunk * d->o.packet, words[FPISA_MAX_WORKERS];
	uint32_t rank_at[FPISA_MAX_WORKERS];

	*flags = 0;
	for (uint32_t r = 0; r < d->o.workers; r++)
		rank_at[r] = r;
	if (d->o.workers <= FPISA_ORDER_WORKERS && !arrivals(order, (1ull << d->o.workers) - 1, rank_at))
		return false;
	for (uint64_t i = 0; i < chunk_count(d, chunk); i++) {
		for (uint32_t k = 0; k < d->o.workers; k++)
			words[k] = demo_word(d, d->input, rank_at[k], at + i);
		fpisa_put_word(
			expected, i, f,
			oracle_replay(f, d->o.mode, d->o.rounding, d->o.workers, words, events, flags));
	}
	return true;
}

/* How many of n packed values differ. */
static uint64_t differences(const void *a, const void *b, uint64_t n, struct fpisa_format f)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += fpisa_get_word(a, i, f) != fpisa_get_word(b, i, f);
	return sum;
}

static void check_results(struct share *s, uint64_t chunk)
{
	const struct demo *d = s->d;
	const struct fpisa_chunk *first = &d->chunk[chunk];
	uint64_t at = chunk * d->o.packet, n = chunk_count(d, chunk), all = ~0ull >> (64 - d->o.workers);
	uint64_t expected[FPISA_MAX_PAYLOAD / sizeof(uint64_t)];
	struct oracle_events again = {0};
	uint64_t order = first->order;
	uint32_t flags = 0;
	bool valid = true;

	if (s->k.replayed)
		valid = replay(d, chunk, order, expected, &flags, &s->k.events);
	for (uint32_t r = 0; r < d->o.workers; r++) {
		const struct fpisa_chunk *c = &d->chunk[r * d->chunks + chunk];
		const void *out = demo_at(d, d->output, r, at);
		uint64_t wrong = differences(out, demo_at(d, d->output, 0, at), n, d->f);

		s->k.disagreements += wrong;
		if (s->k.replayed && c->order != order) {
			order = c->order;
			valid = replay(d, chunk, order, expected, &flags, &again);
		}
		if (!valid || c->count != n || c->offset != at || c->ranks != all) {
			wrong = n;
		} else if (s->k.replayed) {
			wrong = differences(out, expected, n, d->f);
			s->k.wrong_flags += c->flags != flags;
		}
		s->k.worker[r] += wrong;
		s->k.mismatches += wrong;
	}
}

static void measure_errors(struct share *s, uint64_t chunk)
{
	const struct demo *d = s->d;
	uint64_t at = chunk * d->o.packet, words[FPISA_MAX_WORKERS];

	for (uint64_t i = at; i < at + chunk_count(d, chunk); i++) {
		double ulp, absolute;

		for (uint32_t r = 0; r < d->o.workers; r++)
			words[r] = demo_word(d, d->input, r, i);
		ulp = oracle_ulp_error(d->f, demo_word(d, d->output, 0, i), d->o.workers, words, &absolute);
		if (ulp > s->k.max_ulp) {
			s->k.max_ulp = ulp;
			s->k.worst = i;
		}
		s->k.max_abs = fmax(s->k.max_abs, absolute);
	}
}

static void *check_share(void *arg)
{
	struct share *s = arg;

	s->k.replayed = s->d->o.workers <= FPISA_ORDER_WORKERS || s->d->o.mode == FPISA_MODE_EXACT;
	for (uint64_t chunk = s->first; chunk < s->end; chunk++) {
		check_results(s, chunk);
		measure_errors(s, chunk);
	}
	return NULL;
}

static void merge(struct demo_check *k, const struct demo_check *part)
{
	k->replayed = part->replayed;
	k->mismatches += part->mismatches;
	k->disagreements += part->disagreements;
	k->wrong_flags += part->wrong_flags;
	for (int r = 0; r < FPISA_MAX_WORKERS; r++)
		k->worker[r] += part->worker[r];
	k->events.rounded += part->events.rounded;
	k->events.overwritten += part->events.overwritten;
	k->events.left_shifted += part->events.left_shifted;
	k->events.overflowed += part->events.overflowed;
	if (part->max_ulp > k->max_ulp) {
		k->max_ulp = part->max_ulp;
		k->worst = part->worst;
	}
	k->max_abs = fmax(k->max_abs, part->max_abs);
}

bool demo_counts_agree(const struct fpisa_counters *c, const struct demo_check *k)
{
	return !k->replayed ||
	       (c->rounded == k->events.rounded && c->overwritten == k->events.overwritten &&
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
		return fail(err, NULL, "demo: start a thread");
	if (k->mismatches || k->disagreements || k->wrong_flags || !demo_counts_agree(c, k))
		return -EBADMSG;
	return 0;
}
