// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test the comparison of the calls for which ranks wait (user/manager/calls.c). A model of a group runs random programs in
 * random orders of events: calls of several types, some without elements, in progress at the same time, and messages that
 * arrive late. Ranks that make the same calls must never be refused, also if jobs fail. Ranks that make different calls must not
 * wait forever.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "manager/calls.h"
#include "vectors.h"

#define RANKS 4
#define TYPES 3 /* each type has a job */
#define CALLS 12
#define MESSAGES 64
#define RUNS 30000

enum end { RUNS_ON, WITH_RESULTS, WITHOUT_RESULTS };

struct call {
	uint32_t type, chunks; /* 0 chunks: no elements */
	uint64_t digest;       /* of all calls up to this one */
};

enum kind { ASK, WAITS, FAILED, JOB, REFUSED };

struct message {
	enum kind kind;
	uint32_t job, type;
	struct fpisa_manager_waits waits;
};

struct queue {
	uint32_t first, n;
	struct message m[MESSAGES];
};

struct rank {
	struct call call[CALLS];
	uint32_t calls, started, window;
	enum end end[CALLS];
	bool sent[CALLS]; /* its frames have arrived */
	uint32_t jobs, type_of[TYPES];
	bool made[TYPES], failed[TYPES], untold[TYPES]; /* untold: the rank has not sent FAILED yet */
	bool joined[TYPES];				/* all ranks had the job, so the rank's calls begin */
	uint32_t told;					/* number of the last call in a message WAITS */
	struct queue out, in;				/* messages to the manager and from it */
};

struct group {
	struct vectors_rng rng;
	uint32_t size;
	bool fails;   /* jobs may fail */
	bool differs; /* the manager has refused the group because of WAITS */
	bool is_over; /* different calls have met, in a job or in its request */
	uint32_t type_of[TYPES], asked[TYPES];
	bool refused[TYPES];
	struct fpisa_manager_waits waits[RANKS];
	struct rank rank[RANKS];
};

static void put(struct queue *q, struct message m)
{
	assert_true(q->n < MESSAGES);
	q->m[(q->first + q->n++) % MESSAGES] = m;
}

static struct message take(struct queue *q)
{
	const struct message m = q->m[q->first];

	q->first = (q->first + 1) % MESSAGES;
	q->n--;
	return m;
}

/* -- a rank ------------------------------------------------------------------- */

/* Return the index of the type's job at this rank, or the number of its jobs. */
static uint32_t job_of(const struct rank *r, uint32_t type)
{
	uint32_t k = 0;

	while (k < r->jobs && r->type_of[k] != type)
		k++;
	return k;
}

/* Return the place of the rank's oldest call that has not ended, or the number of started calls. */
static uint32_t oldest(const struct rank *r)
{
	uint32_t c = 0;

	while (c < r->started && r->end[c] != RUNS_ON)
		c++;
	return c;
}

static void fail_job(struct rank *r, uint32_t job)
{
	r->failed[job] = true;
	for (uint32_t c = 0; c < r->started; c++)
		if (r->end[c] == RUNS_ON && job_of(r, r->call[c].type) == job)
			r->end[c] = WITHOUT_RESULTS;
}

static bool start(struct group *g, struct rank *r)
{
	const uint32_t c = r->started;
	uint32_t job;

	(void)g;
	if (c == r->calls || c - oldest(r) >= r->window)
		return false;
	r->started++;
	job = job_of(r, r->call[c].type);
	if (job == r->jobs) {
		r->type_of[r->jobs++] = r->call[c].type;
		if (!r->failed[job])
			put(&r->out, (struct message){.kind = ASK, .job = job, .type = r->call[c].type});
	}
	if (r->failed[job])
		r->end[c] = WITHOUT_RESULTS;
	return true;
}

/* Let calls of a job begin, because all ranks have the job. */
static bool join(struct group *g, struct rank *r)
{
	for (uint32_t k = 0; k < r->jobs; k++) {
		uint32_t n = 0;

		for (uint32_t i = 0; i < g->size; i++)
			n += g->rank[i].made[k];
		if (n < g->size || r->joined[k] || r->failed[k])
			continue;
		r->joined[k] = true;
		return true;
	}
	return false;
}

/* Return the number of chunks of this job before the rank's call c. */
static uint32_t first_chunk(const struct rank *r, uint32_t job, uint32_t c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c; i++)
		n += job_of(r, r->call[i].type) == job ? r->call[i].chunks : 0;
	return n;
}

/* Find the rank's call whose frames for this chunk have arrived, or return NULL. */
static const struct call *at_chunk(const struct rank *r, uint32_t job, uint32_t chunk)
{
	for (uint32_t c = 0; c < r->started; c++) {
		const uint32_t first = first_chunk(r, job, c);

		if (r->sent[c] && job_of(r, r->call[c].type) == job && first <= chunk &&
		    chunk < first + r->call[c].chunks)
			return &r->call[c];
	}
	return NULL;
}

static bool is_ready(const struct rank *r, uint32_t c, uint32_t job)
{
	return r->end[c] == RUNS_ON && r->joined[job] && !r->failed[job];
}

/* Let the frames of a call arrive. The datapath finds that calls differ as soon as frames for one chunk do. */
static bool send(struct group *g, struct rank *r)
{
	for (uint32_t c = 0; c < r->started; c++) {
		const uint32_t job = job_of(r, r->call[c].type), first = first_chunk(r, job, c);

		if (r->sent[c] || !r->call[c].chunks || !is_ready(r, c, job))
			continue;
		r->sent[c] = true;
		for (uint32_t i = 0; i < g->size; i++)
			for (uint32_t x = first; x < first + r->call[c].chunks; x++) {
				const struct call *other = at_chunk(&g->rank[i], job, x);

				g->is_over |= other && other->digest != r->call[c].digest;
			}
		return true;
	}
	return false;
}

static bool has_results(const struct group *g, const struct rank *r, uint32_t c, uint32_t job)
{
	const uint32_t first = first_chunk(r, job, c);

	for (uint32_t i = 0; i < g->size; i++)
		for (uint32_t x = first; x < first + r->call[c].chunks; x++)
			if (!at_chunk(&g->rank[i], job, x))
				return false;
	return true;
}

/* End the oldest call of a job, if it has all results or needs none. */
static bool complete(struct group *g, struct rank *r)
{
	for (uint32_t k = 0; k < r->jobs; k++) {
		uint32_t c = 0;

		while (c < r->started && (r->end[c] != RUNS_ON || job_of(r, r->call[c].type) != k))
			c++;
		if (c == r->started || !is_ready(r, c, k) || !has_results(g, r, c, k))
			continue;
		r->end[c] = r->call[c].chunks ? WITH_RESULTS : WITHOUT_RESULTS;
		return true;
	}
	return false;
}

static bool say_waits(struct group *g, struct rank *r)
{
	const uint32_t c = oldest(r);
	struct message m = {.kind = WAITS};

	(void)g;
	if (c == r->started || r->told == c + 1)
		return false;
	r->told = c + 1;
	m.waits = (struct fpisa_manager_waits){.call = c + 1,
					       .digest = r->call[c].digest,
					       .index = (uint8_t)job_of(r, r->call[c].type),
					       .elements = r->call[c].chunks != 0};
	for (uint32_t i = 0; i < r->started; i++)
		if (r->end[i] == WITH_RESULTS)
			m.waits.last = i + 1;
	for (uint32_t k = 0; k < TYPES; k++) {
		m.waits.made |= (uint8_t)(r->made[k] << k);
		m.waits.failed |= (uint8_t)(r->failed[k] << k);
	}
	put(&r->out, m);
	return true;
}

/* Let a job fail at this rank, such as by a deadline. */
static bool break_job(struct group *g, struct rank *r)
{
	const uint32_t k = vectors_below(&g->rng, TYPES);

	if (!g->fails || k >= r->jobs || r->failed[k] || vectors_below(&g->rng, 8))
		return false;
	fail_job(r, k);
	r->untold[k] = true;
	return true;
}

static bool say_failed(struct group *g, struct rank *r)
{
	(void)g;
	for (uint32_t k = 0; k < r->jobs; k++) {
		if (!r->untold[k])
			continue;
		r->untold[k] = false;
		put(&r->out, (struct message){.kind = FAILED, .job = k});
		return true;
	}
	return false;
}

static bool hear(struct group *g, struct rank *r)
{
	struct message m;

	(void)g;
	if (!r->in.n)
		return false;
	m = take(&r->in);
	if (m.kind == REFUSED)
		fail_job(r, m.job);
	else
		r->made[m.job] = true;
	return true;
}

/* -- the manager -------------------------------------------------------------- */

static void tell_all(struct group *g, enum kind kind, uint32_t job)
{
	for (uint32_t i = 0; i < g->size; i++)
		put(&g->rank[i].in, (struct message){.kind = kind, .job = job});
}

static void refuse(struct group *g, uint32_t job)
{
	if (!g->refused[job])
		tell_all(g, REFUSED, job);
	g->refused[job] = true;
}

static void take_ask(struct group *g, const struct message *m)
{
	g->is_over |= g->asked[m->job] && g->type_of[m->job] != m->type;
	g->type_of[m->job] = m->type;
	g->asked[m->job]++;
	if (g->fails && !vectors_below(&g->rng, 8))
		refuse(g, m->job);
	if (g->asked[m->job] == g->size && !g->refused[m->job])
		tell_all(g, JOB, m->job);
}

static bool manager_hears(struct group *g, struct rank *r)
{
	struct message m;

	if (!r->out.n)
		return false;
	m = take(&r->out);
	if (m.kind == ASK)
		take_ask(g, &m);
	else if (m.kind == FAILED)
		refuse(g, m.job);
	else
		g->waits[r - g->rank] = m.waits;
	for (uint32_t i = 0; i < g->size; i++)
		g->differs |= m.kind == WAITS && manager_calls_differ(&g->waits[i], &m.waits);
	return true;
}

/* -- runs --------------------------------------------------------------------- */

/* Let a random event happen, unless none can. */
static bool event(struct group *g)
{
	static bool (*const events[])(struct group * g, struct rank * r) = {
		start, join, send, complete, say_waits, break_job, say_failed, hear, manager_hears};
	const uint32_t n = sizeof(events) / sizeof(*events) * g->size, from = vectors_below(&g->rng, n), step = 7;

	for (uint32_t i = 0; i < n; i++) {
		const uint32_t k = (from + i * step) % n;

		if (events[k / g->size](g, &g->rank[k % g->size]))
			return true;
	}
	return false;
}

static void fill_digests(struct rank *r)
{
	uint64_t digest = 0;

	for (uint32_t c = 0; c < r->calls; c++) {
		digest = (digest + r->call[c].type * 8 + r->call[c].chunks + 1) * 0x9e3779b97f4a7c15ull;
		r->call[c].digest = digest;
	}
}

static struct call random_call(struct group *g)
{
	return (struct call){.type = vectors_below(&g->rng, TYPES),
			     .chunks = vectors_below(&g->rng, 2) ? 1 + vectors_below(&g->rng, 2) : 0};
}

/* Give all ranks the same random program. Its last call has elements, so that no rank ends while others wait. */
static void begin(struct group *g, uint64_t seed)
{
	struct rank *first = &g->rank[0];

	memset(g, 0, sizeof(*g));
	g->rng.state = seed;
	g->size = 2 + vectors_below(&g->rng, RANKS - 1);
	first->calls = 1 + vectors_below(&g->rng, CALLS);
	for (uint32_t c = 0; c < first->calls; c++)
		first->call[c] = random_call(g);
	first->call[first->calls - 1].chunks = 1;
	for (uint32_t i = 0; i < g->size; i++) {
		g->rank[i].calls = first->calls;
		memcpy(g->rank[i].call, first->call, sizeof(first->call));
		g->rank[i].window = 1 + vectors_below(&g->rng, 3);
		fill_digests(&g->rank[i]);
	}
}

/* Change, add or remove calls of some ranks, but not their last one. */
static void change(struct group *g)
{
	for (uint32_t n = 1 + vectors_below(&g->rng, 3); n; n--) {
		struct rank *r = &g->rank[vectors_below(&g->rng, g->size)];
		const uint32_t c = vectors_below(&g->rng, r->calls), how = vectors_below(&g->rng, 3);

		if (!how) {
			r->call[c] = random_call(g);
		} else if (how == 1 && r->calls < CALLS) {
			memmove(&r->call[c + 1], &r->call[c], (r->calls++ - c) * sizeof(r->call[0]));
			r->call[c] = random_call(g);
		} else if (r->calls > 1) {
			memmove(&r->call[c], &r->call[c + 1], (--r->calls - c) * sizeof(r->call[0]));
		}
		r->call[r->calls - 1].chunks = r->call[r->calls - 1].chunks ?: 1;
		fill_digests(r);
	}
}

/* Return whether no rank makes a call that differs. A rank may make more calls than others, and wait for theirs. */
static bool all_the_same(const struct group *g)
{
	for (uint32_t i = 1; i < g->size; i++)
		for (uint32_t k = 0; k < i; k++) {
			const struct rank *a = &g->rank[i], *b = &g->rank[k];
			const uint32_t last = (a->calls < b->calls ? a->calls : b->calls) - 1;

			if (a->call[last].digest != b->call[last].digest)
				return false;
		}
	return true;
}

static void run(struct group *g, uint64_t seed, bool changes, bool fails)
{
	begin(g, seed);
	g->fails = fails;
	if (changes)
		change(g);
	while (!g->is_over && !g->differs && event(g))
		;
	if (!all_the_same(g) || (!g->is_over && !g->differs))
		return;
	fail_msg("seed %llu: ranks that make the same calls are refused", (unsigned long long)seed);
}

/*
 * Return whether all ranks wait. A rank that does not wait has had results of its last call, so all ranks have made its
 * calls, and the others may wait for its further calls.
 */
static bool all_wait(const struct group *g)
{
	for (uint32_t i = 0; i < g->size; i++) {
		const struct rank *r = &g->rank[i];

		if (oldest(r) < r->calls)
			continue;
		for (uint32_t k = 0; k < g->size; k++)
			assert_true(g->rank[k].call[r->calls - 1].digest == r->call[r->calls - 1].digest);
		return false;
	}
	return true;
}

static void ranks_that_make_the_same_calls(void **state)
{
	struct vectors_rng seeds = {vectors_seed()};
	static struct group g;
	uint32_t failed = 0;

	(void)state;
	for (int n = 0; n < RUNS; n++) {
		const uint64_t seed = vectors_next(&seeds);

		run(&g, seed, false, n % 2);
		for (uint32_t i = 0; i < g.size; i++)
			if (oldest(&g.rank[i]) < g.rank[i].calls)
				fail_msg("seed %llu: rank %u waits forever", (unsigned long long)seed, i);
		for (uint32_t k = 0; k < TYPES; k++)
			failed += g.refused[k];
	}
	assert_true(failed > RUNS / 10);
}

static void ranks_that_make_different_calls(void **state)
{
	struct vectors_rng seeds = {vectors_seed()};
	static struct group g;
	uint32_t compared = 0;

	(void)state;
	for (int n = 0; n < RUNS; n++) {
		const uint64_t seed = vectors_next(&seeds);

		run(&g, seed, true, false);
		compared += g.differs;
		if (!g.is_over && !g.differs && all_wait(&g))
			fail_msg("seed %llu: ranks that make different calls wait forever", (unsigned long long)seed);
	}
	assert_true(compared > RUNS / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_that_make_the_same_calls),
		cmocka_unit_test(ranks_that_make_different_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
