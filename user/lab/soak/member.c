// SPDX-License-Identifier: GPL-2.0-only
/*
 * A rank of a group in the soak. The rank joins the group by name, makes calls of several types, and leaves and joins
 * again after each error. Calls do not have a deadline. A call may fail only if a rank was killed or the group was
 * ended. The seed, and a number that rank 0 has broadcast, determine the kind of each call.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/manager/protocol.h"
#include "rank.h"
#include "lab/testbed/lab.h"
#include "values/random.h"

#define GRACE_NS 4000000000ull	  /* time for the manager to detect a death over links that are down */
#define UPGRADE_NS 90000000000ull /* longest time of an upgrade on a busy machine */
#define TYPES 3			  /* number of types of a group's calls */

static const uint8_t modes[] = {FPISA_MODE_FPISA, FPISA_MODE_FPISA64, FPISA_MODE_EXACT};
static const uint8_t formats[] = {FPISA_FORMAT_FP32,  FPISA_FORMAT_FP64, FPISA_FORMAT_FP16, FPISA_FORMAT_BF16,
				  FPISA_FORMAT_INT32, FPISA_FORMAT_E4M3, FPISA_FORMAT_E5M2};

/* Return whether a link or a loader was down recently. */
static bool down(const struct worker *w)
{
	return __atomic_load_n(&w->s->shared->no_job_ns, __ATOMIC_ACQUIRE) + GRACE_NS > fpisa_now();
}

/*
 * Return whether a rank was killed or the group ended after this rank began to join, or shortly before. Also return
 * true if a host behind a link that was down counts as dead, which happens if further frames are lost afterwards.
 */
static bool disturbed(const struct worker *w)
{
	return (down(w) && strstr(fpisa_error(), fpisa_manager_cause_text(FPISA_MANAGER_SILENT))) ||
	       __atomic_load_n(&w->s->shared->disturbed_ns[w->job], __ATOMIC_ACQUIRE) + GRACE_NS > w->joined_ns;
}

static bool may_end_with(const struct worker *w, int err)
{
	switch (err) {
	case -ECONNRESET:
	case -ESTALE: /* the group was ended while its manager was down */
		return disturbed(w);
	case -ETIMEDOUT: /* the rank waited for a job while the manager waited for an upgrade */
		return __atomic_load_n(&w->s->shared->manager_killed_ns, __ATOMIC_ACQUIRE) + UPGRADE_NS > fpisa_now();
	case -EINVAL:
	case -EIO: /* the link of the job's host is down, or our programs are not attached to it */
		return down(w);
	default:
		return false;
	}
}

static bool join_may_end_with(const struct worker *w, int err)
{
	const uint64_t killed = __atomic_load_n(&w->s->shared->manager_killed_ns, __ATOMIC_ACQUIRE);

	switch (err) {
	case -ETIMEDOUT:    /* the other ranks have not joined yet */
	case -EEXIST:	    /* the other ranks have not left yet */
	case -ECONNREFUSED: /* the manager was killed, or waits for an upgrade */
		return true;
	case -ECONNRESET: /* there is no record before all ranks have joined */
		return disturbed(w) || killed + GRACE_NS > w->joined_ns;
	default:
		return false;
	}
}

/* Leave. The calls of other ranks then end for the same reason as the calls of this rank. */
static void leave(struct worker *w)
{
	if (w->g)
		__atomic_store_n(&w->s->shared->disturbed_ns[w->job], fpisa_now(), __ATOMIC_RELEASE);
	fpisa_group_leave(w->g);
	w->g = NULL;
}

/* Agree on the calls of this group. */
static int agree(struct worker *w)
{
	int err;

	w->session = w->rank ? 0 : splitmix64(&w->random);
	rank_call_begins(w);
	err = fpisa_group_broadcast(w->g, &w->session, sizeof(w->session), 0);
	rank_call_ends(w, err, may_end_with(w, err));
	w->out->broadcasts += !err;
	w->calls = 0;
	return err;
}

static int join(struct worker *w)
{
	const struct soak_job *j = &w->s->job[w->job];
	/* Draw the same numbers every time, so that all ranks request the same job. */
	uint64_t random = w->s->o.seed + w->job, dice = splitmix64(&random);
	const struct fpisa_group_options options = {
		.size = sizeof(options),
		.key_file = w->key_file,
		.join_timeout_ms = SOAK_JOIN_MS,
		.window = 8u << dice % 3,
		.elements = (uint16_t)(dice >> 8 & 1 ? 0 :
						       /* this number of values of any type fits into 1500 bytes */
						       FPISA_BLOCK * (1 + (dice >> 16) % 5)),
		.mode = modes[(dice >> 24) % sizeof(modes)],
		.overflow = FPISA_OVERFLOW_FLAG,
		.restore = 1,
	};
	char address[16], name[SOAK_GROUP_LEN];
	int err;

	leave(w);
	snprintf(address, sizeof(address), "%u.%u.%u.%u", DOTTED(SOAK_ADDRESS));
	soak_group_name(name, w->job);
	w->joined_ns = fpisa_now();
	rank_call_begins(w);
	err = fpisa_group_join(&w->g, address, name, w->rank, j->ranks, &options);
	rank_call_ends(w, err, join_may_end_with(w, err));
	if (err)
		return err;
	w->out->joins++;
	w->info.workers = j->ranks;
	w->mode = options.mode;
	return agree(w);
}

/* Choose one of the types of this group. Each type has a job. */
static void choose_type(struct worker *w, uint64_t random)
{
	struct fpisa_format f;

	w->info.format = formats[(w->session + random % TYPES) % sizeof(formats)];
	f = fpisa_format_of(w->info.format);
	w->info.mode = f.integer ? FPISA_MODE_FPISA : w->mode;
	w->info.rounding = f.integer ? FPISA_ROUND_DOWN : (uint8_t)fpisa_default_rounding(w->info.mode);
}

static int broadcast(struct worker *w, uint64_t random)
{
	const uint32_t root = (uint32_t)(random >> 8) % w->info.workers;
	const size_t bytes = random % sizeof(w->send);
	uint64_t state = random;
	int err;

	for (size_t i = 0; i < bytes; i++)
		w->send[i] = (unsigned char)splitmix64(&state);
	memset(w->recv, 0xa5, sizeof(w->recv));
	if (root == w->rank)
		memcpy(w->recv, w->send, bytes);
	rank_call_begins(w);
	err = fpisa_group_broadcast(w->g, w->recv, bytes, root);
	rank_call_ends(w, err, may_end_with(w, err));
	if (!err && (memcmp(w->recv, w->send, bytes) || w->recv[bytes] != 0xa5)) {
		w->out->mismatches++;
		rank_say(w, "a broadcast is wrong");
	}
	w->out->broadcasts += !err;
	return err;
}

static int barrier(struct worker *w)
{
	int err;

	rank_call_begins(w);
	err = fpisa_group_barrier(w->g);
	rank_call_ends(w, err, may_end_with(w, err));
	w->out->barriers += !err;
	return err;
}

/* Check results. The order of arrival is unknown and does not matter. */
static void check(struct worker *w, uint32_t flags)
{
	w->chunk[0] = (struct fpisa_chunk){
		.count = (uint32_t)w->count, .flags = flags, .ranks = ~0ull >> (64 - w->info.workers)};
	for (uint32_t r = 0; r < w->info.workers; r++)
		w->chunk[0].order |= (uint64_t)r << (4 * r);
	rank_check_chunk(w, &w->chunk[0], 0);
}

static int reduce(struct worker *w, uint64_t random)
{
	const enum soak_completion completion = (enum soak_completion)random_below(&w->random, SOAK_COMPLETIONS);
	const bool in_place = rank_prepare(w, random);
	const struct oracle_call c = rank_operation(w);
	const struct fpisa_call call = {
		.size = sizeof(call),
		.send = in_place ? w->recv : w->send,
		.recv = w->recv,
		.count = w->count,
		.type = w->info.format,
		.op = (uint32_t)c.op,
		.factor = c.factor,
	};
	struct fpisa_request *r;
	uint32_t flags = 0;
	int err;

	rank_call_begins(w);
	if (completion == SOAK_BLOCKING) {
		err = fpisa_group_allreduce(w->g, call.send, call.recv, call.count, (enum fpisa_dtype)call.type,
					    (enum fpisa_operation)call.op, call.factor, &flags);
	} else {
		err = fpisa_group_start(w->g, &call, &r);
		err = err ?: rank_complete(w, completion, &r, &flags);
	}
	rank_call_ends(w, err, may_end_with(w, err));
	if (err && in_place)
		rank_check_restored(w);
	if (err)
		return err;
	check(w, flags);
	rank_count_call(w, &c, completion, in_place);
	return 0;
}

static int call(struct worker *w)
{
	uint64_t state = rank_random(w) + 2, dice = splitmix64(&state), random = rank_random(w);
	int err;

	choose_type(w, dice >> 8);
	switch (dice % 16) {
	case 0:
		err = barrier(w);
		break;
	case 1:
	case 2:
		err = broadcast(w, dice >> 8);
		break;
	default:
		return reduce(w, random);
	}
	w->calls += !err;
	return err;
}

void soak_member(void *arg, int control)
{
	struct worker *w = rank_begin(arg, control, false);
	int err = -ENOTCONN, fds;

	if (!w)
		return;
	fds = soak_open_fds();
	while (!__atomic_load_n(&w->out->stop, __ATOMIC_ACQUIRE)) {
		err = err ? join(w) : call(w);
		if (err)
			usleep((useconds_t)random_below(&w->random, 20000));
	}
	leave(w);
	w->out->leaked_fds += (uint64_t)abs(soak_open_fds() - fds);
	free(w);
	_exit(0);
}
