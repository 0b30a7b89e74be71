/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Fault injection; faults.h describes the faults and their use. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "faults.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"

/* Return the next number of splitmix64. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static int happens(struct fpisa_faults *f, double share)
{
	return share > 0 && (double)(next_random(&f->random) >> 11) < share * 0x1p53;
}

void fpisa_faults_init(struct fpisa_faults *f, const struct fpisa_fault_rates *rates, uint64_t seed, size_t intact)
{
	*f = (struct fpisa_faults){.rates = *rates, .random = seed, .intact = intact};
	TAILQ_INIT(&f->frames);
}

void fpisa_faults_free(struct fpisa_faults *f)
{
	struct fpisa_frame *frame;

	while ((frame = TAILQ_FIRST(&f->frames))) {
		TAILQ_REMOVE(&f->frames, frame, link);
		free(frame);
	}
	f->held = 0;
}

/* Insert a copy of the frame among the held frames. Return the copy, or NULL if the frame is lost. */
static struct fpisa_frame *hold(struct fpisa_faults *f, const struct iovec *parts, int n, uint16_t port, uint64_t due_ns)
{
	struct fpisa_frame *frame, *before;
	size_t len = 0;

	for (int i = 0; i < n; i++)
		len += parts[i].iov_len;
	frame = f->held < FPISA_FAULT_HELD ? malloc(sizeof(*frame) + len) : NULL;
	if (!frame)
		return NULL;
	frame->due_ns = due_ns;
	frame->port = port;
	frame->len = 0;
	for (int i = 0; i < n; i++) {
		memcpy(frame->data + frame->len, parts[i].iov_base, parts[i].iov_len);
		frame->len += parts[i].iov_len;
	}
	TAILQ_FOREACH_REVERSE(before, &f->frames, fpisa_frames, link)
		if (before->due_ns <= due_ns)
			break;
	if (before)
		TAILQ_INSERT_AFTER(&f->frames, before, frame, link);
	else
		TAILQ_INSERT_HEAD(&f->frames, frame, link);
	f->held++;
	return frame;
}

static void flip_bits(struct fpisa_faults *f, struct fpisa_frame *frame)
{
	static const unsigned char counts[] = FPISA_FAULT_BITS;
	uint64_t bits = counts[next_random(&f->random) % sizeof(counts)];

	if (frame->len <= f->intact)
		return;
	while (bits--) {
		uint64_t at = next_random(&f->random) % (8 * (frame->len - f->intact));

		frame->data[f->intact + at / 8] ^= (unsigned char)(1u << at % 8);
	}
}

/* Insert one copy of a frame. Draw the faults of each copy independently. */
static void put_copy(struct fpisa_faults *f, const struct iovec *parts, int n, uint16_t port, uint64_t now_ns)
{
	uint64_t due_ns = now_ns;
	struct fpisa_frame *frame;

	if (happens(f, f->rates.delay)) {
		uint64_t least = FPISA_FAULT_DELAY_NS << next_random(&f->random) % FPISA_FAULT_DELAY_DOUBLINGS;

		due_ns += least + next_random(&f->random) % least;
		f->delayed++;
	} else if (happens(f, f->rates.reorder)) {
		due_ns += next_random(&f->random) % FPISA_FAULT_REORDER_NS;
		f->reordered++;
	}
	frame = hold(f, parts, n, port, due_ns);
	if (frame && happens(f, f->rates.corrupt)) {
		flip_bits(f, frame);
		f->corrupted++;
	}
}

void fpisa_faults_put(struct fpisa_faults *f, const struct iovec *parts, int n, uint16_t port, uint64_t now_ns)
{
	if (happens(f, f->rates.drop)) {
		f->dropped++;
		return;
	}
	put_copy(f, parts, n, port, now_ns);
	if (happens(f, f->rates.duplicate)) {
		put_copy(f, parts, n, port, now_ns);
		f->duplicated++;
	}
}

void fpisa_faults_pass(struct fpisa_faults *f, const struct iovec *parts, int n, uint64_t now_ns)
{
	hold(f, parts, n, 0, now_ns);
}

struct fpisa_frame *fpisa_faults_take(struct fpisa_faults *f, uint64_t now_ns)
{
	struct fpisa_frame *frame = TAILQ_FIRST(&f->frames);

	if (!frame || frame->due_ns > now_ns)
		return NULL;
	TAILQ_REMOVE(&f->frames, frame, link);
	f->held--;
	return frame;
}

uint64_t fpisa_faults_due(const struct fpisa_faults *f)
{
	const struct fpisa_frame *frame = TAILQ_FIRST(&f->frames);

	return frame ? frame->due_ns : UINT64_MAX;
}

/* -- a transport with faults ------------------------------------------------ */

struct faulty {
	struct fpisa_transport base;
	struct fpisa_transport *t;
	struct fpisa_faults out, in;
	struct fpisa_frame *lent[FPISA_BATCH]; /* frames that the caller may use until it receives again */
	int lent_n;
};

static void release(struct fpisa_frame **frames, int n)
{
	for (int i = 0; i < n; i++)
		free(frames[i]);
}

static int take_due(struct fpisa_faults *f, struct fpisa_frame *frames[FPISA_BATCH])
{
	uint64_t now = fpisa_now();
	int n = 0;

	while (n < FPISA_BATCH && (frames[n] = fpisa_faults_take(f, now)))
		n++;
	return n;
}

static void show_counts(struct faulty *x)
{
	x->base.bad = x->t->bad;
	if (x->t->send_error)
		x->base.send_error = x->t->send_error;
	x->t->send_error = 0;
}

/* Send the frames that are due. */
static int flush(struct faulty *x)
{
	struct fpisa_frame *frames[FPISA_BATCH];
	struct fpisa_out out[FPISA_BATCH];
	int n, rc = 0;

	while (!rc && (n = take_due(&x->out, frames))) {
		for (int i = 0; i < n; i++)
			out[i] = (struct fpisa_out){
				.part = {{frames[i]->data, frames[i]->len}}, .parts = 1, .port = frames[i]->port};
		rc = x->t->ops->send(x->t, out, n);
		release(frames, n);
	}
	show_counts(x);
	return rc;
}

static int faulty_send(struct fpisa_transport *t, const struct fpisa_out *out, int n)
{
	struct faulty *x = (struct faulty *)t;
	uint64_t now = fpisa_now();

	for (int i = 0; i < n; i++)
		fpisa_faults_put(&x->out, out[i].part, out[i].parts, out[i].port, now);
	return flush(x);
}

static uint64_t faulty_due(const struct fpisa_transport *t)
{
	const struct faulty *x = (const struct faulty *)t;
	uint64_t out = fpisa_faults_due(&x->out), in = fpisa_faults_due(&x->in);

	return out < in ? out : in;
}

static int faulty_receive(struct fpisa_transport *t, struct fpisa_in *in, uint64_t timeout_ns)
{
	struct faulty *x = (struct faulty *)t;
	uint64_t now = fpisa_now(), until = now + timeout_ns, wake;
	int n, rc;

	release(x->lent, x->lent_n);
	x->lent_n = 0;
	x->t->quiet = t->quiet;
	do {
		rc = flush(x);
		if (rc)
			return rc;
		wake = faulty_due(t);
		if (until < wake)
			wake = until;
		n = x->t->ops->receive(x->t, in, wake > now ? wake - now : 0);
		if (n < 0)
			return n;
		t->more = fpisa_transport_more(x->t, n);
		now = fpisa_now();
		for (int i = 0; i < n; i++) {
			struct iovec whole = {(void *)in[i].data, in[i].len};

			fpisa_faults_put(&x->in, &whole, 1, 0, now);
		}
		x->lent_n = take_due(&x->in, x->lent);
	} while (!x->lent_n && now < until);
	show_counts(x);
	for (int i = 0; i < x->lent_n; i++)
		in[i] = (struct fpisa_in){.data = x->lent[i]->data, .len = x->lent[i]->len};
	return x->lent_n;
}

static int faulty_may_join(struct fpisa_transport *t)
{
	struct faulty *x = (struct faulty *)t;

	return fpisa_transport_may_join(x->t);
}

static int faulty_joined(struct fpisa_transport *t, const struct fpisa_hello *hello)
{
	struct faulty *x = (struct faulty *)t;

	return x->t->ops->joined(x->t, hello);
}

static int faulty_fds(struct fpisa_transport *t, int *fd)
{
	struct faulty *x = (struct faulty *)t;

	return x->t->ops->fds(x->t, fd);
}

static uint64_t faulty_drops(struct fpisa_transport *t)
{
	struct faulty *x = (struct faulty *)t;

	return fpisa_transport_drops(x->t);
}

static unsigned int faulty_path_mtu(const struct fpisa_transport *t, unsigned int *headers)
{
	return fpisa_transport_path_mtu(((const struct faulty *)t)->t, headers);
}

static void faulty_disown(struct fpisa_transport *t)
{
	struct faulty *x = (struct faulty *)t;

	x->t->ops->disown(x->t);
}

static void faulty_close(struct fpisa_transport *t)
{
	struct faulty *x = (struct faulty *)t;

	release(x->lent, x->lent_n);
	fpisa_faults_free(&x->out);
	fpisa_faults_free(&x->in);
	x->t->ops->close(x->t);
	free(x);
}

static const struct fpisa_transport_ops faulty_ops = {
	.send = faulty_send,
	.receive = faulty_receive,
	.may_join = faulty_may_join,
	.joined = faulty_joined,
	.fds = faulty_fds,
	.due = faulty_due,
	.drops = faulty_drops,
	.path_mtu = faulty_path_mtu,
	.disown = faulty_disown,
	.close = faulty_close,
};

int fpisa_faults_wrap(struct fpisa_transport **t, const struct fpisa_fault_rates *rates, uint64_t seed)
{
	struct faulty *x = (struct faulty *)*t;

	if ((*t)->ops == &faulty_ops) {
		x->out.rates = x->in.rates = *rates;
		return 0;
	}
	if (rates->drop <= 0 && rates->duplicate <= 0 && rates->reorder <= 0 && rates->delay <= 0 && rates->corrupt <= 0)
		return 0;
	x = calloc(1, sizeof(*x));
	if (!x)
		return fpisa_fail(-ENOMEM, "not enough memory for fault injection; " FPISA_MORE_MEMORY);
	x->base.ops = &faulty_ops;
	x->t = *t;
	fpisa_faults_init(&x->out, rates, seed, 0);
	fpisa_faults_init(&x->in, rates, ~seed, 0);
	*t = &x->base;
	return 0;
}

static double added(double own, uint16_t share)
{
	double sum = own + (double)share / FPISA_FAULT_SCALE;

	return sum < FPISA_FAULT_MOST ? sum : FPISA_FAULT_MOST;
}

struct fpisa_fault_rates fpisa_faults_of_job(const struct fpisa_fault_rates *own, const struct fpisa_job_faults *job)
{
	return (struct fpisa_fault_rates){
		.drop = added(own->drop, job->share[FPISA_FAULT_DROP]),
		.duplicate = added(own->duplicate, job->share[FPISA_FAULT_DUPLICATE]),
		.reorder = added(own->reorder, job->share[FPISA_FAULT_REORDER]),
		.delay = added(own->delay, job->share[FPISA_FAULT_DELAY]),
		.corrupt = added(own->corrupt, job->share[FPISA_FAULT_CORRUPT]),
	};
}
