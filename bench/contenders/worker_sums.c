// SPDX-License-Identifier: GPL-2.0-only
/* The process of a worker in the measurement `worker` processes a vector with each contender and measures the cost. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fpisa.h"
#include "fpisa/wire.h"
#include "lib/base/clock.h"
#include "switchml.h"
#include "worker.h"

#define TIMEOUT_MS 60000

/* State of one worker's process. */
struct side {
	const struct plan *plan;
	uint32_t rank;
	struct order order; /* the current order */
	pid_t napi;
	struct fpisa *f[JOBS];
	uint32_t progress[JOBS]; /* value of options.progress for each handle */
	float *send, *recv;
	int32_t *exponent, *quantised; /* integers of one block, and exponents of two blocks that are used in turn */
};

/* The job and the options of a contender that sums floats as they are. */
static const struct {
	enum job job;
	uint32_t transport, progress;
} contenders[CONTENDERS] = {
	[UDP] = {JOB_FLOAT},
	[XSK] = {JOB_XSK, FPISA_TRANSPORT_XSK},
	[UDP_TAGS] = {JOB_TAGS},
	[UDP_PROGRESS] = {JOB_FLOAT, .progress = 1},
	[XSK_PROGRESS] = {JOB_XSK, FPISA_TRANSPORT_XSK, .progress = 1},
};

static int open_job(struct side *s, enum job job, uint32_t transport, uint32_t progress)
{
	const struct fpisa_options o = {.size = sizeof(o),
					.local_port = (uint16_t)(FPISA_PORT + job),
					.timeout_ms = TIMEOUT_MS,
					.transport = transport,
					.progress = progress,
					.token = job == JOB_TAGS ? strtoull(BENCH_TOKEN, NULL, 16) : 0};
	char address[32];

	snprintf(address, sizeof(address), "%u.%u.%u.%u", DOTTED(s->plan->star[0].address));
	/* An interface can have only one handle with xsk, so contenders that differ in this take turns. */
	if (s->progress[job] != progress) {
		fpisa_close(s->f[job]);
		s->f[job] = NULL;
	}
	s->progress[job] = progress;
	return s->f[job] ? 0 : fpisa_connect(&s->f[job], address, (uint32_t)job, &o);
}

static int open_contender(struct side *s, enum contender c)
{
	if (c == SWITCHML)
		return open_job(s, JOB_INT, 0, 0) ?: open_job(s, JOB_EXPONENT, 0, 0);
	return open_job(s, contenders[c].job, contenders[c].transport, contenders[c].progress);
}

static int sum_floats(struct side *s, enum job job)
{
	size_t n = s->plan->elements / s->plan->calls;
	int rc = 0;

	for (size_t at = 0; at < s->plan->elements && !rc; at += n)
		rc = fpisa_allreduce(s->f[job], s->send + at, s->recv + at, n, FPISA_FLOAT32, NULL);
	return rc;
}

/* Start the maximum of exponents. There is one frame for each chunk, whose first value is the exponent of the chunk. */
static int start_exponents(struct side *s, int32_t *exponent, const float *values, struct fpisa_request **request)
{
	size_t packet = s->plan->packet;

	memset(exponent, 0, BLOCK_CHUNKS * EXPONENT_FRAME * sizeof(*exponent));
	for (size_t c = 0; c < BLOCK_CHUNKS; c++)
		exponent[c * EXPONENT_FRAME] = switchml_exponent(values + c * packet, packet);
	return fpisa_allreduce_op_start(s->f[JOB_EXPONENT], exponent, exponent, BLOCK_CHUNKS * EXPONENT_FRAME,
					FPISA_INT32, FPISA_MAX, 0, request);
}

static int start_integers(struct side *s, const int32_t *exponent, const float *values, int32_t *out,
			  struct fpisa_request **request)
{
	size_t packet = s->plan->packet;

	for (size_t c = 0; c < BLOCK_CHUNKS; c++)
		switchml_quantise(out + c * packet, values + c * packet, packet,
				  switchml_scale(exponent[c * EXPONENT_FRAME], s->plan->workers));
	return fpisa_allreduce_start(s->f[JOB_INT], out, out, BLOCK_CHUNKS * packet, FPISA_INT32, request);
}

static void take_integers(const struct side *s, const int32_t *exponent, const int32_t *in, float *values)
{
	size_t packet = s->plan->packet;

	for (size_t c = 0; c < BLOCK_CHUNKS; c++)
		switchml_dequantise(values + c * packet, in + c * packet, packet,
				    switchml_scale(exponent[c * EXPONENT_FRAME], s->plan->workers));
}

/* Sum the vector. The exponents of block k are in flight while block k - 1 arrives and is converted. */
static int sum_switchml(struct side *s)
{
	size_t block = (size_t)BLOCK_CHUNKS * s->plan->packet, blocks = s->plan->elements / block;
	struct fpisa_request *maximum, *sum;
	int rc = 0;

	for (size_t k = 0; k <= blocks && !rc; k++) {
		int32_t *exponent = s->exponent + (k & 1) * BLOCK_CHUNKS * EXPONENT_FRAME;
		int32_t *before = s->exponent + (~k & 1) * BLOCK_CHUNKS * EXPONENT_FRAME;

		if (k < blocks)
			rc = start_exponents(s, exponent, s->send + k * block, &maximum);
		if (k && !rc)
			rc = fpisa_wait(&sum, NULL);
		if (k && !rc)
			take_integers(s, before, s->quantised + (~k & 1) * block, s->recv + (k - 1) * block);
		if (k < blocks && !rc)
			rc = fpisa_wait(&maximum, NULL);
		if (k < blocks && !rc)
			rc = start_integers(s, exponent, s->send + k * block, s->quantised + (k & 1) * block, &sum);
	}
	return rc;
}

static int set_up_link(struct side *s, struct report *r)
{
	char dev[IF_NAMESIZE];
	int err = star_join(&s->plan->star[0], s->rank, r->message, sizeof(r->message));

	star_peer(dev, &s->plan->star[0], s->rank);
	s->napi = err ? 0 : napi_thread(dev);
	return err ?: s->napi < 0 ? s->napi : 0;
}

static int check(const struct side *s)
{
	for (uint64_t i = 0; i < s->plan->elements; i++) {
		/* The conversion to int32 rounds each value by at most half a unit. */
		if (!(fabsf(s->recv[i] - whole_sum(s->plan->workers, i)) <= (float)s->plan->workers * 0x1p-16f))
			return -1;
	}
	return 0;
}

static uint64_t retransmits(const struct side *s)
{
	struct fpisa_info info = {.size = sizeof(info)};
	uint64_t n = 0;

	for (int j = 0; j < JOBS; j++)
		if (s->f[j] && !fpisa_get_info(s->f[j], &info))
			n += info.retransmits;
	return n;
}

static void run_contender(struct side *s, enum contender c, struct report *r)
{
	uint64_t cpu, wall, sent_again;

	r->error = open_contender(s, c);
	if (r->error)
		goto out;
	memset(s->recv, 0, s->plan->elements * sizeof(*s->recv));
	sent_again = retransmits(s);
	wall = fpisa_now();
	cpu = own_cpu_ns(s->napi);
	r->error = c == SWITCHML ? sum_switchml(s) : sum_floats(s, contenders[c].job);
	r->cpu_ns = own_cpu_ns(s->napi) - cpu;
	r->wall_ns = fpisa_now() - wall;
	r->retransmits = retransmits(s) - sent_again;
	if (!r->error && check(s)) {
		r->error = -EBADMSG;
		snprintf(r->message, sizeof(r->message), "wrong sum");
		return;
	}
out:
	if (r->error)
		snprintf(r->message, sizeof(r->message), "%s", fpisa_error());
}

static void carry_out(void *arg, struct report *r)
{
	struct side *s = arg;

	if (s->order.task == TASK_LINK)
		r->error = set_up_link(s, r);
	else
		run_contender(s, s->order.contender, r);
}

void worker_work(void *arg, int control)
{
	const struct bench_worker *w = arg;
	struct side side = {.plan = w->plan, .rank = w->rank}, *s = &side;
	size_t block = (size_t)BLOCK_CHUNKS * w->plan->packet;

	s->send = malloc(s->plan->elements * sizeof(*s->send));
	s->recv = malloc(s->plan->elements * sizeof(*s->recv));
	s->exponent = malloc(2 * sizeof(*s->exponent) * BLOCK_CHUNKS * EXPONENT_FRAME);
	s->quantised = malloc(2 * sizeof(*s->quantised) * block);
	if (!s->send || !s->recv || !s->exponent || !s->quantised || enter_network())
		return;
	for (uint64_t i = 0; i < s->plan->elements; i++)
		s->send[i] = whole_number(s->rank, i);
	process_serve(control, &s->order, sizeof(s->order), carry_out, s);
}
