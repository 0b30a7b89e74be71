/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Joining a job; base/hello.h has the format of HELLO and WELCOME. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/tag.h"
#include "fpisa/format.h"
#include "fpisa/job.h"
#include "fpisa/verdict.h"
#include "handle.h"
#include "join.h"
#include "reply.h"

/* Begin a new incarnation at all aggregators. */
static int take_incarnation(struct fpisa *f, uint64_t number, int anew)
{
	FPISA_EACH_SHARD(s, f)
		fpisa_joining_begin(&s->joining, anew);
	return fpisa_incarnation_begin(&f->incarnation, number);
}

/*
 * Value of `call` in the HELLOs that test whether GSO batches arrive. Such a HELLO may arrive several times or not at
 * all. WELCOME repeats `call`, which HELLO does not need otherwise.
 */
#define GSO_TRIAL 1

static int say_hello(struct fpisa_shard *s)
{
	struct fpisa *f = s->f;
	struct fpisa_hello_frame plain, trial;
	struct fpisa_out tries[2] = {[0 ... 1] = {.part = {{&trial, sizeof(trial)}}, .parts = 1}},
			 out = {.part = {{&plain, sizeof(plain)}}, .parts = 1, .no_gso = 1};
	int tried = s->t->gso, rc;

	fpisa_hello_write(&plain, s->job, &f->incarnation, &s->joining, &f->token, 0);
	fpisa_hello_write(&trial, s->job, &f->incarnation, &s->joining, &f->token, GSO_TRIAL);
	s->t->gso = 1;
	rc = s->t->ops->send(s->t, tries, 2);
	s->t->gso = tried;
	f->count.sent += 3;
	return rc ? rc : s->t->ops->send(s->t, &out, 1);
}

/* Return whether this library supports the parameters. If not, there is a bug or another version. */
static int usable(const struct fpisa_hello *p)
{
	return fpisa_window_valid(p->window) &&
	       fpisa_elements_valid(p->elements, fpisa_max_elements(fpisa_format_of(p->format), p->mode)) &&
	       p->workers && p->workers <= FPISA_MAX_WORKERS && !(p->ports & (p->ports - 1)) &&
	       p->ports <= FPISA_MAX_PORTS && p->ports <= p->window && p->rank < p->workers && (p->live >> p->rank & 1);
}

/* Return whether this is a WELCOME to a job in which only aggregators can be ranks. */
static int for_leaves(const struct fpisa_hdr *h)
{
	return h->type == FPISA_TYPE_WELCOME && ((const struct fpisa_hello *)(h + 1))->flags & FPISA_JOB_LEAVES;
}

/* Handle a WELCOME. A WELCOME that answers the last HELLO names the missing ranks or admits this worker. */
static int take_welcome(struct fpisa_shard *s, const struct fpisa_hdr *h)
{
	struct fpisa *f = s->f;
	const struct fpisa_hello *p = (const void *)(h + 1);
	const enum fpisa_welcome said = fpisa_welcome_take(&s->joining, &f->incarnation, h);

	if (said == FPISA_WELCOME_STALE)
		return 0;
	s->t->gso |= h->call == GSO_TRIAL;
	if (said == FPISA_WELCOME_CHALLENGE)
		return 1;
	if (said == FPISA_WELCOME_NEWER)
		return !take_incarnation(f, h->aux + 1, 1);
	if (!usable(p)) {
		f->count.bad++;
		return 0;
	}
	fpisa_joining_lacks(&s->joining, said == FPISA_WELCOME_PENDING ? p->live & ~h->bitmap : 0, fpisa_now());
	s->joining.above = said == FPISA_WELCOME_PENDING && h->flags & FPISA_F_ABOVE;
	if (said == FPISA_WELCOME_PENDING)
		return 1;
	s->generation = h->generation;
	s->hello = *p;
	s->rank_key = fpisa_key_of(&f->token, FPISA_KEY_RANK, p->rank, s->joining.cookie);
	s->results_key = fpisa_key_of(&f->token, FPISA_KEY_RESULTS, 0, p->results);
	s->joining.joined = 1;
	return 1;
}

const struct fpisa_shard *fpisa_joins_at(const struct fpisa *f)
{
	FPISA_EACH_SHARD(s, f)
		if (!s->joining.joined)
			return s;
	return NULL;
}

static int no_answer(struct fpisa *f)
{
	const struct fpisa_shard *s = fpisa_joins_at(f);
	unsigned int ms = (unsigned int)(f->timeout_ns / 1000000);
	char names[256], cause[96] = "";

	f->missing = fpisa_ranks_of(f, s->joining.missing);
	if (fpisa_ranks_any(&f->missing))
		return fpisa_fail(
			-ETIMEDOUT, "%s: job %u: %s did not join in %u ms%s", s->peer, s->job,
			fpisa_rank_names(names, sizeof(names), &f->missing), ms,
			s->local_port ?
				"; start the ranks that are not running. On the aggregator, fpisa stats shows which "
				"frames it refuses" :
				"");
	if (s->joining.above)
		return fpisa_fail(-ETIMEDOUT,
				  "%s: job %u: all ranks of this leaf of the tree joined, but others did not in %u ms; "
				  "on the aggregator's parent, see fpisa job show",
				  s->peer, s->job, ms);
	if (s->joining.heard_ns)
		return fpisa_fail(-ETIMEDOUT,
				  "%s: job %u: not ready after %u ms, although all ranks have joined now; try again",
				  s->peer, s->job, ms);
	if (s->t->send_error)
		snprintf(cause, sizeof(cause), " (last send: %s)", strerror(s->t->send_error));
	return fpisa_fail(
		-ETIMEDOUT,
		"%s: job %u: no answer in %u ms%s; on the aggregator, fpisa stats shows drops. Check the route and "
		"its firewalls, the aggregator's release, the token, and that the job lists this host's address with "
		"UDP port %u",
		s->peer, s->job, ms, cause, s->local_port);
}

/* Handle the frames from one aggregator. */
static int hear(struct fpisa_shard *s, uint64_t timeout_ns)
{
	struct fpisa *f = s->f;
	struct fpisa_in in[FPISA_BATCH];
	int n = fpisa_receive(s, in, timeout_ns);

	if (f->shared.join == FPISA_JOIN_FAILED)
		return fpisa_poisoned(f);
	if (n < 0)
		return fpisa_fail(n, "%s: job %u: cannot receive: %s", s->peer, s->job, fpisa_why(n));
	for (int i = 0; i < n; i++) {
		struct fpisa_shard *to = fpisa_shard_of(s, &in[i]);
		const struct fpisa_hdr *h = to->joining.joined ? NULL : fpisa_reply_check(to, &in[i]);

		if (!h)
			continue;
		/* Only an ERROR with generation 0 can answer a HELLO, which has no generation. */
		if (h->type == FPISA_TYPE_ERROR && !h->generation && h->reason == FPISA_V_not_live)
			return fpisa_fail(-EACCES,
					  "%s: job %u: this rank was removed from the job; see fpisa job "
					  "show",
					  to->peer, to->job);
		if (for_leaves(h))
			return fpisa_fail(-EPROTO, "%s: job %u: its ranks are leaves of a tree; connect to a leaf",
					  to->peer, to->job);
		if (!take_welcome(to, h))
			continue;
		to->joining.heard_ns = fpisa_now();
		fpisa_heard(f, to->joining.heard_ns);
	}
	return 0;
}

static int greet(struct fpisa_shard *s, uint64_t now)
{
	int rc = fpisa_hello_is_due(&s->joining, now) ? say_hello(s) : 0;

	return rc ? fpisa_fail(rc, "%s: job %u: cannot send: %s", s->peer, s->job, fpisa_why(rc)) : 0;
}

uint64_t fpisa_join_due(const struct fpisa *f)
{
	uint64_t at = UINT64_MAX;

	FPISA_EACH_SHARD(s, f)
		if (!s->joining.joined && s->joining.next_ns < at)
			at = s->joining.next_ns;
	return at;
}

int fpisa_join_turn(struct fpisa *f, uint64_t wait_ns)
{
	uint64_t now = fpisa_now(), due, each_ns;
	int rc = 0;

	for (uint32_t i = 0; i < f->layout.shards && !rc; i++)
		rc = greet(&f->shard[i], now);
	if (rc)
		return rc;
	due = fpisa_join_due(f);
	if (due < now + wait_ns)
		wait_ns = due - now;
	each_ns = fpisa_await(f, wait_ns);
	if (f->layout.shards > 1)
		fpisa_tick(f, fpisa_now(), wait_ns);
	for (uint32_t i = 0; i < f->layout.shards && !rc; i++)
		if (!fpisa_is_quiet(&f->shard[i]))
			rc = hear(&f->shard[i], each_ns);
	if (rc)
		return rc;
	if (!fpisa_joins_at(f))
		return 1;
	fpisa_tick(f, fpisa_now(), wait_ns);
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

/* Put the names of the aggregator and the job before the message of the transport. */
static int transport_refused(const struct fpisa_shard *s, int rc)
{
	char why[FPISA_MESSAGE_SIZE - 64];

	snprintf(why, sizeof(why), "%s", fpisa_error());
	return fpisa_fail(rc, "%s: job %u: %s", s->peer, s->job, why);
}

int fpisa_join_begin(struct fpisa *f)
{
	int rc = fpisa_shared_descriptors(f);

	if (rc)
		return rc;
	f->end = 0;
	f->calls = 0;
	f->missing = FPISA_NO_RANKS;
	fpisa_tick(f, fpisa_now(), 0);
	f->quiet_ns = f->clock.ns;
	f->digest = f->layout.digest;
	fpisa_nh_fill(f->nh.w, FPISA_NH_WORDS, &f->token);
	FPISA_EACH_SHARD(s, f) {
		s->t->send_error = 0;
		s->t->gso = 0;
	}
	if (take_incarnation(f, fpisa_incarnation_next(&f->incarnation), 0))
		return fpisa_fail(-EIO,
				  "%s: job %u: cannot get random numbers: %s; allow this process to call getrandom()",
				  f->peer, f->job, strerror(EIO));
	FPISA_EACH_SHARD(s, f) {
		rc = fpisa_transport_may_join(s->t);
		if (rc)
			return transport_refused(s, rc);
	}
	return 0;
}

#define BITS_OF_FLAGS (FPISA_JOB_BIG_ENDIAN | FPISA_JOB_RECIPROCAL)

/*
 * Check that the jobs of all aggregators agree, because chunks and their arithmetic must be the same at all
 * aggregators.
 */
static int check_alike(const struct fpisa_shard *s)
{
	const struct fpisa *f = s->f;
	const struct fpisa_hello *a = &f->hello, *b = &s->hello;
	const struct {
		const char *name;
		uint32_t first, here;
	} facts[] = {
		{"workers", a->workers, b->workers},
		{"rank, which is this worker's place in the list of workers,", a->rank, b->rank},
		{"elements", a->elements, b->elements},
		{"format", a->format, b->format},
		{"mode", a->mode, b->mode},
		{"rounding", a->rounding, b->rounding},
		{"byte order or average", a->flags & BITS_OF_FLAGS, b->flags & BITS_OF_FLAGS},
	};

	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		if (facts[i].first != facts[i].here)
			return fpisa_fail(
				-EINVAL,
				"%s: job %u: %s: %u here, %u at %s; create the job with the same parameters at all "
				"aggregators",
				s->peer, s->job, facts[i].name, facts[i].here, facts[i].first, f->shard->peer);
	return 0;
}

/* Open the window of one aggregator, for the job that all ranks have joined. */
static int open_window(struct fpisa_shard *s)
{
	struct fpisa *f = s->f;
	const struct fpisa_fault_rates rates = fpisa_faults_of_job(&f->faults, &s->hello.faults);
	int rc;

	rc = fpisa_faults_wrap(&s->t, &rates, s->hello.faults.seed + s->index + ((uint64_t)f->hello.rank << 32));
	if (rc)
		return rc;
	rc = s->t->ops->joined(s->t, &s->hello);
	if (rc < 0)
		return transport_refused(s, rc);
	rc = fpisa_window_reset(&s->window, &f->flight, s->hello.window, (uint32_t)rc, fpisa_transport_drops(s->t),
				f->layout.shards > 1 ? &f->layout : NULL, s->index);
	if (rc)
		return fpisa_fail(rc, "%s: job %u: not enough memory for a window of %u; " FPISA_MORE_MEMORY, s->peer,
				  s->job, s->hello.window);
	return 0;
}

int fpisa_join_end(struct fpisa *f)
{
	size_t frame_bytes;
	int rc = 0;

	f->hello = f->shard->hello;
	f->format = fpisa_format_of(f->hello.format);
	for (uint32_t i = 1; i < f->layout.shards && !rc; i++)
		rc = check_alike(&f->shard[i]);
	for (uint32_t i = 0; i < f->layout.shards && !rc; i++)
		rc = open_window(&f->shard[i]);
	if (rc)
		return rc;
	frame_bytes = sizeof(struct fpisa_hdr) + fpisa_payload_bytes(f->format, f->hello.elements);
	fpisa_flight_init(&f->flight, f->layout.shards, f->shard->t->in_process ? 0 : (uint32_t)frame_bytes,
			  f->hello.workers);
	return fpisa_shared_descriptors(f);
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
