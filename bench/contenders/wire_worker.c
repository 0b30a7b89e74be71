// SPDX-License-Identifier: GPL-2.0-only
/*
 * A worker of the measurement `wire` is in a separate network namespace, and has a link and a
 * libfpisa handle for the aggregator of each contender. The worker fills its vector, sums it
 * with the other workers, and checks a share of all workers' results:
 *
 * 	ours		compared with the oracle, in the order of arrival that the results report
 * 	AVX2		compared with sums of floats in that order
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lab/oracle/arrivals.h"
#include "fpisa.h"
#include "fpisa/wire.h"
#include "lab/testbed/lab.h"
#include "lab/oracle/oracle.h"
#include "values/random.h"
#include "contenders.h"

#define TIMEOUT_MS 20000

struct side {
	const struct plan *p;
	uint32_t rank;
	struct order order; /* the current order */
	struct fpisa *f[STARS];
};

static float *vector(float *all, const struct plan *p, uint32_t rank)
{
	return all + rank * p->elements;
}

static uint64_t chunks(const struct plan *p)
{
	return p->elements / p->packet;
}

static int set_up_links(const struct side *s, struct report *r)
{
	struct lab_batch b = lab_batch_open();
	char dev[IF_NAMESIZE];
	int err;

	for (int c = 0; c < STARS; c++) {
		star_peer(dev, &s->p->star[c], s->rank);
		if (!s->p->gso)
			lab_batch_add(&b, "link set %s gso_max_segs 1", dev);
		star_add_worker(&b, &s->p->star[c], s->rank);
	}
	err = lab_batch_run(&b, r->message, sizeof(r->message));
	/* Let a thread poll the worker's end, because this work must not be charged to the sender. */
	for (int c = 0; c < STARS && !err; c++) {
		star_peer(dev, &s->p->star[c], s->rank);
		err = wire_poll(dev) < 0 ? -1 : 0;
	}
	return err;
}

/* -- values ---------------------------------------------------------------------------- */

/* Return a finite value. Exponents differ by up to 40. */
static float random_value(uint32_t bits)
{
	uint32_t word = (bits & 0x807fffffu) | (107 + (bits >> 23 & 0xff) * 40 / 255) << 23;
	float v;

	memcpy(&v, &word, sizeof(v));
	return v;
}

static void fill(const struct side *s, float *v, uint32_t run)
{
	uint64_t state = s->p->seed ^ (uint64_t)run << 32 ^ s->rank, bits;

	for (uint64_t i = 0; i < s->p->elements; i += 2) {
		bits = splitmix64(&state);
		v[i] = random_value((uint32_t)bits);
		v[i + 1] = random_value(bits >> 32);
	}
}

/* -- sums -------------------------------------------------------------------------------- */

static void take_order(void *arg, const struct fpisa_chunk *c)
{
	struct side *s = arg;

	s->p->order[s->rank * chunks(s->p) + c->offset / s->p->packet] = c->order;
}

static int sum(struct side *s, enum contender c)
{
	const struct fpisa_options o = {.size = sizeof(o),
					.local_port = (uint16_t)(FPISA_PORT + c),
					.timeout_ms = TIMEOUT_MS,
					.loss = s->p->loss,
					.duplicate = s->p->loss,
					.reorder = s->p->loss,
					.seed = s->p->seed + s->rank,
					.on_chunk = take_order,
					.arg = s};
	char address[32];
	int rc = 0;

	snprintf(address, sizeof(address), "%u.%u.%u.%u", DOTTED(s->p->star[c].address));
	if (!s->f[c])
		rc = fpisa_connect(&s->f[c], address, c, &o);
	return rc    ?:
		       fpisa_allreduce(s->f[c], vector(s->p->send, s->p, s->rank), vector(s->p->recv, s->p, s->rank),
				       s->p->elements, FPISA_FLOAT32, NULL);
}

static uint64_t retransmits(const struct side *s, enum contender c)
{
	struct fpisa_info info = {.size = sizeof(info)};

	return s->f[c] && !fpisa_get_info(s->f[c], &info) ? info.retransmits : 0;
}

/* -- checks -------------------------------------------------------------------------------- */

static uint32_t word_of(float v)
{
	uint32_t word;

	memcpy(&word, &v, sizeof(word));
	return word;
}

static uint32_t expected(const struct plan *p, enum contender c, const uint32_t *rank_at, uint64_t i)
{
	const struct fpisa_format f = fpisa_register(FPISA_FORMAT_FP32, FPISA_MODE_FPISA, p->workers);
	uint64_t words[PROCESSES_MAX];
	float v = vector(p->send, p, rank_at[0])[i];

	for (uint32_t k = 0; k < p->workers; k++)
		words[k] = word_of(vector(p->send, p, rank_at[k])[i]);
	if (c == FPISA_XDP)
		return (uint32_t)oracle_replay(f, FPISA_MODE_FPISA, FPISA_ROUND_DOWN, p->workers, words, NULL, NULL);
	for (uint32_t k = 1; k < p->workers; k++)
		v += vector(p->send, p, rank_at[k])[i];
	return word_of(v);
}

static int check_chunk(const struct plan *p, enum contender c, uint64_t chunk)
{
	uint64_t order = p->order[chunk], first = chunk * p->packet;
	uint32_t rank_at[FPISA_MAX_WORKERS];

	if (!arrivals(order, ~0ull >> (64 - p->workers), rank_at))
		return -1;
	for (uint32_t r = 1; r < p->workers; r++)
		if (p->order[r * chunks(p) + chunk] != order)
			return -1;
	for (uint64_t i = first; i < first + p->packet; i++) {
		uint32_t want = expected(p, c, rank_at, i);

		for (uint32_t r = 0; r < p->workers; r++)
			if (word_of(vector(p->recv, p, r)[i]) != want)
				return -1;
	}
	return 0;
}

static int check(const struct side *s, enum contender c, struct report *r)
{
	for (uint64_t chunk = s->rank; chunk < chunks(s->p); chunk += s->p->workers)
		if (check_chunk(s->p, c, chunk)) {
			snprintf(r->message, sizeof(r->message), "chunk %llu: wrong sum", (unsigned long long)chunk);
			return -EBADMSG;
		}
	return 0;
}

/* -- orders ---------------------------------------------------------------------------------- */

static void carry_out(void *arg, struct report *r)
{
	struct side *s = arg;
	const struct order *o = &s->order;
	float *send = vector(s->p->send, s->p, s->rank), *recv = vector(s->p->recv, s->p, s->rank);
	uint64_t before = retransmits(s, o->contender);

	switch (o->task) {
	case TASK_LINK:
		r->error = set_up_links(s, r);
		break;
	case TASK_FILL:
		fill(s, send, o->run);
		break;
	case TASK_CLEAR:
		/* Clear the results, so that a missing result is not mistaken for another contender's result. */
		memset(recv, 0xff, s->p->elements * sizeof(*recv));
		break;
	case TASK_SUM:
		r->error = sum(s, o->contender);
		r->retransmits = retransmits(s, o->contender) - before;
		if (r->error)
			snprintf(r->message, sizeof(r->message), "%s", fpisa_error());
		break;
	case TASK_CHECK:
		r->error = check(s, o->contender, r);
		break;
	}
}

void wire_work(void *arg, int control)
{
	const struct bench_worker *w = arg;
	struct side s = {.p = w->plan, .rank = w->rank};

	if (!enter_network())
		process_serve(control, &s.order, sizeof(s.order), carry_out, &s);
}
