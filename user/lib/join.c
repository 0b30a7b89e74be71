/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Joining a job: HELLO until a WELCOME says that every rank is there. The
 * rules of the other side are fpisa_session_join() in fpisa/slot.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include "base/clock.h"
#include "base/tag.h"
#include "fpisa/format.h"
#include "fpisa/job.h"
#include "fpisa/verdict.h"
#include "handle.h"
#include "join.h"
#include "reply.h"

#define HELLO_FIRST_NS 2000000ull
#define HELLO_MAX_NS 50000000ull
#define MAX_INCARNATION (1ull << 63)

enum answer { NOTHING, PENDING, AGAIN, JOINED };

/* Our next incarnation: a larger number than all before it, and a nonce that nobody can guess. */
static int take_incarnation(struct fpisa *f, uint64_t incarnation)
{
	f->incarnation = incarnation;
	f->secret = 0;
	return getrandom(&f->nonce, sizeof(f->nonce), 0) == sizeof(f->nonce) ? 0 : -EIO;
}

/* Its proof and its checksum. */
static void seal_hello(const struct fpisa *f, struct fpisa_hdr *h, struct fpisa_hello *payload)
{
	struct fpisa_sum sum = {};

	payload->proof = fpisa_token_proof(&f->token, h, payload);
	fpisa_sum_words(&sum, h, FPISA_SUM_HDR_WORDS);
	fpisa_sum_words(&sum, payload, sizeof(*payload) / 8);
	h->checksum = fpisa_sum_fold(&sum);
}

/*
 * Do GSO batches come through? HELLO is the frame to try with: it may come any number of times, and WELCOME
 * echoes the number of the call, which a HELLO has no other use for.
 */
#define GSO_TRIAL 1

static int say_hello(struct fpisa *f)
{
	struct fpisa_hello payload = {0}, trial_payload = {0};
	struct fpisa_hdr h = {
		.magic = FPISA_MAGIC,
		.version = FPISA_VERSION,
		.type = FPISA_TYPE_HELLO,
		.job = f->job,
		.rank = 0xffff,
		.chunk = f->nonce,
		.secret = f->secret,
		.aux = f->incarnation,
	};
	struct fpisa_hdr trial = h;
	struct fpisa_out out[2],
		plain = {.part = {{&h, sizeof(h)}, {&payload, sizeof(payload)}}, .parts = 2, .no_gso = 1};
	int tried = f->t->gso, rc;

	seal_hello(f, &h, &payload);
	trial.call = GSO_TRIAL;
	seal_hello(f, &trial, &trial_payload);
	out[0] = plain;
	out[0].part[0].iov_base = &trial;
	out[0].part[1].iov_base = &trial_payload;
	out[0].no_gso = 0;
	out[1] = out[0];
	f->t->gso = 1;
	rc = f->t->ops->send(f->t, out, 2);
	f->t->gso = tried;
	f->count.sent += 3;
	return rc ? rc : f->t->ops->send(f->t, &plain, 1);
}

/* Parameters that this library cannot work with would be a bug or another version: refuse them. */
static int usable(const struct fpisa_hello *p)
{
	return p->window && !(p->window & (p->window - 1)) && p->window <= FPISA_MAX_SLOTS / 2 && p->elements &&
	       p->elements % FPISA_BLOCK == 0 && p->elements <= fpisa_max_elements(fpisa_format_of(p->format)) &&
	       p->workers && p->workers <= FPISA_MAX_WORKERS && !(p->ports & (p->ports - 1)) &&
	       p->ports <= FPISA_MAX_PORTS && p->ports <= p->window && p->rank < p->workers && (p->live >> p->rank & 1);
}

/* What a frame means to a worker that has said HELLO; *missing is set by PENDING. */
static enum answer take_welcome(struct fpisa *f, const struct fpisa_hdr *h, uint64_t *missing)
{
	const struct fpisa_hello *p = (const void *)(h + 1);

	/* That its nonce is ours has been checked: it answers a HELLO of this incarnation. */
	if (h->type != FPISA_TYPE_WELCOME || h->aux < f->incarnation)
		return NOTHING;
	f->t->gso |= h->call == GSO_TRIAL;
	if (h->flags & FPISA_F_CHALLENGE) {
		if (f->secret == h->secret)
			return NOTHING;
		f->secret = h->secret;
		return AGAIN;
	}
	if (h->aux > f->incarnation)
		return h->aux + 1 < MAX_INCARNATION && !take_incarnation(f, h->aux + 1) ? AGAIN : NOTHING;
	if (!usable(p)) {
		f->count.bad++;
		return NOTHING;
	}
	if (h->flags & FPISA_F_PENDING) {
		*missing = p->live & ~h->bitmap;
		return PENDING;
	}
	f->generation = h->generation;
	f->hello = *p;
	f->format = fpisa_format_of(p->format);
	f->rank_key = fpisa_key_of(&f->token, FPISA_KEY_RANK, p->rank, f->secret);
	f->results_key = fpisa_key_of(&f->token, FPISA_KEY_RESULTS, 0, p->results);
	return JOINED;
}

static int no_answer(struct fpisa *f)
{
	const uint64_t missing = f->joining.missing;
	unsigned int ms = (unsigned int)(f->timeout_ns / 1000000);
	char names[256], cause[96] = "";

	f->missing = missing;
	if (missing)
		return fpisa_fail(-ETIMEDOUT, "%s: job %u: %s did not join in %u ms%s", f->peer, f->job,
				  fpisa_rank_names(names, sizeof(names), missing), ms,
				  f->local_port ? "; start what does not run, and see `fpisa stats` on the "
						  "aggregator for what it refuses" :
						  "");
	if (f->joining.heard)
		return fpisa_fail(-ETIMEDOUT, "%s: job %u: all ranks joined in the last of %u ms; try again", f->peer,
				  f->job, ms);
	if (f->t->send_error)
		snprintf(cause, sizeof(cause), " (last send: %s)", strerror(f->t->send_error));
	return fpisa_fail(-ETIMEDOUT,
			  "%s: job %u: no answer in %u ms%s; `fpisa stats` on the aggregator says why if it hears "
			  "us: check the way there, its release, the token, and that the job lists this host's "
			  "address with UDP port %u",
			  f->peer, f->job, ms, cause, f->local_port);
}

/* Takes in what came; the last answer that means something counts. */
static int hear(struct fpisa *f, uint64_t timeout_ns, enum answer *answer, uint64_t *missing)
{
	struct fpisa_in in[FPISA_BATCH];
	int n = fpisa_receive(f, in, timeout_ns);

	*answer = NOTHING;
	if (f->shared.failed)
		return fpisa_poisoned(f);
	if (n < 0)
		return fpisa_fail(n, "%s: job %u: receive: %s", f->peer, f->job, strerror(-n));
	for (int i = 0; i < n && *answer != JOINED; i++) {
		const struct fpisa_hdr *h = fpisa_reply_check(f, &in[i]);
		enum answer a;

		if (!h)
			continue;
		/* Of errors only this one answers a HELLO, which carries no generation. */
		if (h->type == FPISA_TYPE_ERROR && !h->generation && h->reason == FPISA_V_not_live)
			return fpisa_fail(-EACCES,
					  "%s: job %u: this rank was taken out of the job; see fpisa job "
					  "show",
					  f->peer, f->job);
		a = take_welcome(f, h, missing);
		if (a != NOTHING)
			*answer = a;
	}
	return 0;
}

int fpisa_join_turn(struct fpisa *f, uint64_t wait_ns)
{
	struct fpisa_joining *j = &f->joining;
	uint64_t now = fpisa_now();
	enum answer answer;
	int rc;

	if (now >= j->next_ns) {
		rc = say_hello(f);
		if (rc)
			return fpisa_fail(rc, "%s: job %u: send: %s", f->peer, f->job, strerror(-rc));
		j->next_ns = now + j->pause_ns;
		j->pause_ns = 2 * j->pause_ns < HELLO_MAX_NS ? 2 * j->pause_ns : HELLO_MAX_NS;
	}
	if (j->next_ns < now + wait_ns)
		wait_ns = j->next_ns - now;
	rc = hear(f, wait_ns, &answer, &j->missing);
	if (rc)
		return rc;
	if (answer != NOTHING)
		__atomic_store_n(&f->heard_ns, fpisa_now(), __ATOMIC_RELAXED);
	if (answer == JOINED)
		return 1;
	j->heard |= answer != NOTHING;
	now = fpisa_now();
	fpisa_tick(f, now, wait_ns);
	if (answer == AGAIN)
		j->next_ns = now;
	return 0;
}

static int wait_for_all(struct fpisa *f, uint64_t spent_ns)
{
	uint64_t deadline;
	int rc = 0;

	fpisa_tick(f, fpisa_now(), 0);
	deadline = f->clock.ns + (f->timeout_ns > spent_ns ? f->timeout_ns - spent_ns : 0);
	while (!rc && f->clock.ns < deadline)
		rc = fpisa_join_turn(f, deadline - f->clock.ns);
	return rc > 0 ? 0 : rc ? rc : no_answer(f);
}

/* What the transport says, after whose handle and job it is. */
static int transport_refused(const struct fpisa *f, int rc)
{
	char why[FPISA_MESSAGE_SIZE - 64];

	snprintf(why, sizeof(why), "%s", fpisa_error());
	return fpisa_fail(rc, "%s: job %u: %s", f->peer, f->job, why);
}

int fpisa_join_begin(struct fpisa *f)
{
	uint64_t now = fpisa_clock_ns(CLOCK_REALTIME);
	int rc = fpisa_shared_descriptors(f);

	if (rc)
		return rc;
	f->end = 0;
	f->calls = 0;
	f->missing = 0;
	f->t->send_error = 0;
	f->t->gso = 0;
	f->digest = 0;
	f->joining = (struct fpisa_joining){.next_ns = fpisa_now(), .pause_ns = HELLO_FIRST_NS};
	fpisa_nh_fill(f->nh.w, FPISA_NH_WORDS, &f->token);
	if (take_incarnation(f, now > f->incarnation ? now : f->incarnation + 1))
		return fpisa_fail(-EIO, "%s: job %u: no random numbers", f->peer, f->job);
	rc = fpisa_transport_may_join(f->t);
	return rc ? transport_refused(f, rc) : 0;
}

int fpisa_join_end(struct fpisa *f)
{
	const struct fpisa_fault_rates rates = fpisa_faults_of_job(&f->faults, &f->hello.faults);
	uint32_t capacity, frame_bytes;
	int rc;

	rc = fpisa_faults_wrap(&f->t, &rates, f->hello.faults.seed + ((uint64_t)f->hello.rank << 32));
	if (rc)
		return rc;
	rc = f->t->ops->joined(f->t, &f->hello);
	if (rc < 0)
		return transport_refused(f, rc);
	capacity = (uint32_t)rc;
	rc = fpisa_shared_descriptors(f);
	if (rc)
		return rc;
	frame_bytes = f->t->in_process ?
			      0 :
			      (uint32_t)(sizeof(struct fpisa_hdr) + fpisa_payload_bytes(f->format, f->hello.elements));
	rc = fpisa_window_reset(&f->window, f->hello.window, frame_bytes, capacity, fpisa_transport_drops(f->t));
	if (rc)
		return fpisa_fail(rc, "%s: job %u: no memory for a window of %u", f->peer, f->job, f->hello.window);
	fpisa_rto_init(&f->rto);
	return 0;
}

int fpisa_join(struct fpisa *f, uint64_t spent_ns)
{
	int rc;

	fpisa_requests_give_up(f);
	rc = fpisa_join_begin(f);
	if (rc)
		return rc;
	__atomic_store_n(&f->waiting_ns, fpisa_now(), __ATOMIC_RELAXED);
	rc = wait_for_all(f, spent_ns);
	__atomic_store_n(&f->waiting_ns, 0, __ATOMIC_RELAXED);
	return rc ? rc : fpisa_join_end(f);
}
