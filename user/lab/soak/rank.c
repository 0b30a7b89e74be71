// SPDX-License-Identifier: GPL-2.0-only
/*
 * A rank of a static job in the soak. The rank joins, makes all-reduce calls,
 * and joins again after each error. The rank has the privileges of an ordinary
 * user, an address and a job number. Seed, job, generation, call and rank
 * determine the operation of a call and the contributions of all ranks. So each
 * process can recompute every result that it gets. This includes results of a
 * call that fails later.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "rank.h"
#include "lab/testbed/lab.h"
#include "values/random.h"

#define MAX_FDS 256

int soak_open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < MAX_FDS; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* -- calls --------------------------------------------------------------- */

static void on_chunk(void *arg, const struct fpisa_chunk *c)
{
	struct worker *w = arg;

	if (w->chunks < MAX_CHUNKS)
		w->chunk[w->chunks++] = *c;
}

void rank_call_begins(struct worker *w)
{
	__atomic_store_n(&w->out->in_call_ns, fpisa_now(), __ATOMIC_RELAXED);
}

void rank_call_ends(struct worker *w, int err, bool expected)
{
	uint64_t took = fpisa_now() - w->out->in_call_ns;

	__atomic_store_n(&w->out->in_call_ns, 0, __ATOMIC_RELAXED);
	if (took > w->out->longest_ns)
		w->out->longest_ns = took;
	if (!err)
		return;
	w->out->errors += expected;
	w->out->unexpected += !expected;
	if (!expected)
		rank_say(w, fpisa_error());
}

static bool may_end_with(const struct worker *w, int err)
{
	switch (err) {
	case -ETIMEDOUT: /* a rank was killed, or a link or the job was down */
	case -ESTALE:	 /* the job was created again, or the rank was removed */
	case -EACCES:
		return true;
	case -EBUSY:  /* the kernel has not yet released the queue of the killed process */
	case -EAGAIN: /* the next hop does not answer */
		return soak_uses_xsk(w->job, w->rank);
	default:
		return false;
	}
}

static void account(struct worker *w)
{
	struct fpisa_info now = {.size = sizeof(now)};

	if (!w->f || fpisa_get_info(w->f, &now))
		return;
	w->out->retransmits += now.retransmits - w->retransmits;
	w->out->bad += now.bad - w->bad;
	w->retransmits = now.retransmits;
	w->bad = now.bad;
	w->info = now;
}

static void leave(struct worker *w)
{
	account(w);
	fpisa_close(w->f);
	w->f = NULL;
	w->retransmits = w->bad = 0;
}

/* Join with a new handle, or use the old handle to join the new generation. Both must work. */
static int join(struct worker *w)
{
	const struct soak_job *j = &w->s->job[w->job];
	struct fpisa_options options = {
		.size = sizeof(options),
		.local_port = (uint16_t)(FPISA_PORT + w->job),
		.token = j->config.token,
		.timeout_ms = SOAK_TIMEOUT_MS,
		.seed = splitmix64(&w->random),
		.overflow = FPISA_OVERFLOW_FLAG,
		.restore = 1,
		.transport = soak_uses_xsk(w->job, w->rank) ? FPISA_TRANSPORT_XSK : FPISA_TRANSPORT_UDP,
		.on_chunk = on_chunk,
		.arg = w,
	};
	char address[32];
	int err;

	if (w->job % 2) {
		options.loss = w->s->o.rates.drop / 2;
		options.duplicate = w->s->o.rates.duplicate / 2;
		options.reorder = w->s->o.rates.reorder / 2;
		options.delay = w->s->o.rates.delay / 2;
		options.corrupt = w->s->o.rates.corrupt / 2;
	}
	if (w->f && random_below(&w->random, 2))
		leave(w);
	snprintf(address, sizeof(address), "%u.%u.%u.%u", DOTTED(SOAK_ADDRESS));
	rank_call_begins(w);
	err = w->f ? fpisa_rejoin(w->f) : fpisa_connect(&w->f, address, w->job, &options);
	rank_call_ends(w, err, may_end_with(w, err));
	account(w);
	if (err)
		return err;
	w->calls = 0;
	w->out->joins++;
	if (w->info.rank != w->rank || w->info.workers != j->ranks) {
		w->out->mismatches++;
		rank_say(w, "this process joined as another rank, or in a job of another size");
	}
	return 0;
}

/* Compute, usually for less time than a round takes, and sometimes for many rounds. */
void rank_compute(struct worker *w)
{
	uint64_t z = splitmix64(&w->random);

	usleep((useconds_t)(z >> 32) % (z % 64 ? 20000 : 500000));
	w->out->computed++;
}

int rank_complete(struct worker *w, enum soak_completion completion, struct fpisa_request **r, uint32_t *flags)
{
	int err = 0, done = 0;

	if (random_below(&w->random, 2))
		rank_compute(w);
	if (completion != SOAK_POLLING)
		return fpisa_wait(r, flags);
	while (!err && !done) {
		err = fpisa_test(r, &done, flags);
		if (!err && !done)
			usleep((useconds_t)random_below(&w->random, 1000));
	}
	return err;
}

/* Make one call, and complete it as `completion` says. */
static int call(struct worker *w, const struct oracle_call *c, enum soak_completion completion, const void *send,
		uint32_t *flags)
{
	const enum fpisa_dtype type = (enum fpisa_dtype)w->info.format;
	const enum fpisa_operation op = (enum fpisa_operation)c->op;
	struct fpisa_request *r;
	int err;

	if (completion == SOAK_BLOCKING)
		return fpisa_allreduce_op(w->f, send, w->recv, w->count, type, op, c->factor, flags);
	err = fpisa_allreduce_op_start(w->f, send, w->recv, w->count, type, op, c->factor, &r);
	return err ?: rank_complete(w, completion, &r, flags);
}

void rank_check_restored(struct worker *w)
{
	if (memcmp(w->recv, w->send, sizeof(w->recv))) {
		w->out->mismatches++;
		rank_say(w, "a failed in-place call changed the array");
	}
	w->out->restored++;
}

bool rank_prepare(struct worker *w, uint64_t random)
{
	const bool in_place = random_below(&w->random, 2);

	w->count = 1 + random % MAX_COUNT;
	if (fpisa_format_of(w->info.format).shared)
		w->count += -w->count % FPISA_BLOCK;
	w->chunks = 0;
	rank_fill(w, random);
	if (in_place)
		memcpy(w->recv, w->send, sizeof(w->recv));
	else
		memset(w->recv, 0xa5, sizeof(w->recv));
	return in_place;
}

void rank_count_call(struct worker *w, const struct oracle_call *c, enum soak_completion completion, bool in_place)
{
	w->calls++;
	w->out->rounds++;
	w->out->by_completion[completion]++;
	w->out->in_place += in_place;
	w->out->by_op[c->op]++;
	w->out->by_format[w->info.format]++;
}

static int reduce(struct worker *w)
{
	const uint64_t *out = &w->s->shared->taken_out[w->job];
	uint64_t random = rank_random(w), absent = __atomic_load_n(out, __ATOMIC_ACQUIRE);
	const enum soak_completion completion = (enum soak_completion)random_below(&w->random, SOAK_COMPLETIONS);
	const bool in_place = rank_prepare(w, random);
	const struct oracle_call c = rank_operation(w);
	uint32_t flags = 0;
	int err;

	rank_call_begins(w);
	err = call(w, &c, completion, in_place ? w->recv : w->send, &flags);
	rank_call_ends(w, err, may_end_with(w, err));
	absent |= __atomic_load_n(out, __ATOMIC_ACQUIRE);
	account(w);
	if (err && in_place) {
		rank_check_restored(w);
		return err;
	}
	for (uint32_t i = 0; i < w->chunks; i++)
		rank_check_chunk(w, &w->chunk[i], absent);
	if (err)
		return err;
	rank_check_call(w, flags);
	rank_count_call(w, &c, completion, in_place);
	w->out->xsk += soak_uses_xsk(w->job, w->rank);
	return 0;
}

struct worker *rank_begin(void *arg, int control, bool privileged)
{
	const struct soak_place *p = arg;
	struct worker *w = calloc(1, sizeof(*w));
	int key = -1;

	process_close_fds(control);
	if (soak_in_groups(p->s, p->job))
		key = soak_key_open(p->s, PROCESS_NOBODY);
	if (!w || (!privileged && process_drop_privileges(p->s->parent)))
		return NULL;
	if (key >= 0) {
		/* Without this, a process that has become another user would not own its files in /proc/self. */
		prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
		snprintf(w->key_file, sizeof(w->key_file), "/proc/self/fd/%d", key);
	}
	w->s = p->s;
	w->out = &p->s->shared->rank[p->job][p->rank];
	w->job = p->job;
	w->rank = p->rank;
	w->random = p->s->random;
	return w;
}

void soak_work(void *arg, int control)
{
	const struct soak_place *p = arg;
	struct worker *w = rank_begin(arg, control, soak_uses_xsk(p->job, p->rank));
	int err, fds;

	if (!w)
		return;
	fds = soak_open_fds();
	err = -ENOTCONN;
	while (!__atomic_load_n(&w->out->stop, __ATOMIC_ACQUIRE)) {
		err = err ? join(w) : reduce(w);
		if (err)
			usleep((useconds_t)random_below(&w->random, 20000));
	}
	leave(w);
	w->out->leaked_fds += (uint64_t)abs(soak_open_fds() - fds);
	free(w);
	_exit(0);
}
