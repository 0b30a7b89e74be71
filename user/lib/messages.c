/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The effects of the manager's messages on the group and its calls; link.h has the contracts. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "handle.h"
#include "hold.h"
#include "link.h"

/* Fail the job's handle. Only the first reason counts. */
static void fail_handle(struct fpisa_link_job *j, int error, const struct fpisa_ranks *missing, const char *sentence)
{
	struct fpisa_standing s;

	if (!j->handle)
		return;
	fpisa_handle_standing(j->handle, &s);
	if (!s.error)
		fpisa_handle_fail(j->handle, error, missing, sentence);
}

void fpisa_link_fail(struct fpisa_link *l, int error, const struct fpisa_ranks *missing, const char *sentence)
{
	if (l->error)
		return;
	l->error = error;
	l->missing = *missing;
	snprintf(l->sentence, sizeof(l->sentence), "%s", sentence);
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
		fail_handle(&l->job[k], error, missing, sentence);
	pthread_cond_broadcast(&l->changed);
}

void fpisa_link_fail_so(struct fpisa_link *l, int error)
{
	char sentence[FPISA_MESSAGE_SIZE];

	snprintf(sentence, sizeof(sentence), "%.*s: %.*s", (int)sizeof(l->peer), l->peer,
		 FPISA_MESSAGE_SIZE - (int)sizeof(l->peer) - 3, fpisa_error());
	fpisa_link_fail(l, error, &FPISA_NO_RANKS, sentence);
}

static void take_gone(struct fpisa_link *l, const struct fpisa_manager_members *m)
{
	char names[160], sentence[FPISA_MESSAGE_SIZE];

	memcpy(&l->gone.word[m->first / 64], m->ranks, sizeof(m->ranks));
	if (!m->cause)
		return;
	snprintf(sentence, sizeof(sentence), "%s: %s %s gone: %s; join again when all ranks run", l->peer,
		 fpisa_rank_names(names, sizeof(names), &l->gone), fpisa_ranks_count(&l->gone) > 1 ? "are" : "is",
		 fpisa_manager_cause_text(m->cause));
	fpisa_link_fail(l, -ECONNRESET, &l->gone, sentence);
	l->gone = FPISA_NO_RANKS;
}

static void take_left(struct fpisa_link *l, const struct fpisa_manager_left *m)
{
	for (uint32_t i = 0; i < FPISA_MANAGER_PART; i++) {
		if (!(m->ranks[i / 64] >> i % 64 & 1))
			continue;
		fpisa_ranks_add(&l->left, m->first + i);
		l->calls_of[m->first + i] = m->calls;
		l->whole_of[m->first + i] = m->calls - m->no_results;
	}
	fpisa_link_check_left(l);
}

/*
 * Return the manager's text without the name of the group, because the message of the library already begins with the
 * name.
 */
static const char *without_name(const struct fpisa_link *l, const char *text)
{
	const char *name = strstr(l->peer, ": group ");
	size_t n = name ? strlen(name + 2) : 0;

	return n && !strncmp(text, name + 2, n) && !strncmp(text + n, ": ", 2) ? text + n + 2 : text;
}

static void take_refusal(struct fpisa_link *l, const struct fpisa_manager_refusal *r)
{
	char sentence[FPISA_MESSAGE_SIZE];
	const struct fpisa_ranks ranks = fpisa_ranks_word(r->first / 64, r->ranks);
	const int left = r->reason == FPISA_MANAGER_R_gone && r->index != FPISA_MANAGER_NO_JOB;
	int error = left ? -ECONNRESET : fpisa_manager_error(r->reason);
	struct fpisa_link_job *j;

	snprintf(sentence, sizeof(sentence), "%s: %s", l->peer, without_name(l, r->text));
	if (r->index == FPISA_MANAGER_NO_JOB) {
		fpisa_link_fail(l, error, &ranks, sentence);
		return;
	}
	j = &l->job[r->index];
	/* LEFT fails a later call here, as it fails the group. */
	if (j->error || (left && j->state == FPISA_GROUP_JOB_NONE))
		return;
	j->error = error;
	j->alike = j->state != FPISA_GROUP_JOB_MADE && r->reason != FPISA_MANAGER_R_failed;
	snprintf(j->sentence, sizeof(sentence), "%s", sentence);
	if (j->state == FPISA_GROUP_JOB_NONE)
		return;
	j->state = FPISA_GROUP_JOB_REFUSED;
	j->told = 1;
	fail_handle(j, error, &ranks, sentence);
	fpisa_link_check_barriers(l);
}

void fpisa_link_send(struct fpisa_link *l, const struct fpisa_manager_message *m)
{
	if (l->unsent < (int)(sizeof(l->queue) / sizeof(l->queue[0])))
		l->queue[l->unsent++] = *m;
	fpisa_connection_wake(l->connection);
}

/* Bind the job's handle. Release the lock for this, because opening a socket takes time. */
static void take_bind(struct fpisa_link *l, const struct fpisa_manager_bind *b)
{
	struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_BOUND);
	struct fpisa_link_job *j = &l->job[b->index];
	struct fpisa_aggregator to[FPISA_MAX_SHARDS];
	struct fpisa *f = NULL;
	int rc, several;

	pthread_mutex_lock(&l->lock);
	several = l->shards > 1;
	memcpy(to, l->aggregator, sizeof(to));
	if (fpisa_group_job_awaited(j->state)) {
		j->state = FPISA_GROUP_JOB_ASKED;
		f = j->handle;
	}
	pthread_mutex_unlock(&l->lock);
	if (!f)
		return;
	for (int i = 0; i < FPISA_MAX_SHARDS && (!several || b->leaf); i++)
		to[i] = (struct fpisa_aggregator){.address = b->address, .port = b->aggregator};
	rc = fpisa_hold_bind(f, to, b->port);
	pthread_mutex_lock(&l->lock);
	if (rc && rc != -EADDRINUSE) {
		fail_handle(j, rc, &FPISA_NO_RANKS, fpisa_error());
	} else {
		/* Stay in this state if the handle has no port. JOB is then ignored, because the handle cannot join. */
		if (!rc && j->state == FPISA_GROUP_JOB_ASKED)
			j->state = FPISA_GROUP_JOB_BINDING;
		m.bind = (struct fpisa_manager_bind){.index = b->index, .port = b->port, .taken = rc != 0};
		fpisa_link_send(l, &m);
	}
	pthread_mutex_unlock(&l->lock);
}

static void take_job(struct fpisa_link *l, const struct fpisa_manager_job *m)
{
	struct fpisa_link_job *j = &l->job[m->index];
	struct fpisa_leaf_ranks leaf = {.size = m->leaf ? l->join.size : 0, .n = m->leaf};
	uint32_t number[FPISA_MAX_SHARDS] = {m->job};

	if (j->state != FPISA_GROUP_JOB_BINDING)
		return;
	j->state = FPISA_GROUP_JOB_MADE;
	for (int i = 1; i < FPISA_MAX_SHARDS; i++)
		number[i] = m->others[i];
	memcpy(leaf.rank, m->rank, sizeof(leaf.rank));
	fpisa_hold_join(j->handle, number, &(struct fpisa_key){m->token, m->token_high}, &leaf);
}

/* Store a part of the list of aggregators. The parts arrive before all ranks have joined, and handles use the list later. */
static void take_aggregators(struct fpisa_link *l, const struct fpisa_manager_list *list)
{
	if (l->joined)
		return;
	l->shards = list->n;
	for (uint32_t i = 0; i < FPISA_MANAGER_LISTED && list->first + i < list->n; i++)
		l->aggregator[list->first + i] = (struct fpisa_aggregator){
			.address = list->of[i].address, .port = list->of[i].port, .weight = list->of[i].weight};
}

static void take_pending(struct fpisa_link *l, const struct fpisa_manager_members *m)
{
	l->told_pending = 1;
	memcpy(&l->pending.word[m->first / 64], m->ranks, sizeof(m->ranks));
}

/* The answer to RETURN does not change the homes, which the calls in progress use. */
static void take_joined(struct fpisa_link *l, const struct fpisa_manager_joined *m)
{
	for (uint32_t r = 0; !l->joined && r < FPISA_MAX_WORKERS; r++)
		l->home[r] = m->home[r] <= l->shards ? m->home[r] : 0;
	l->joined = 1;
	l->join.group = m->group;
	l->join.secret = m->secret;
}

void fpisa_link_hear(struct fpisa_link *l, const struct fpisa_manager_message *m)
{
	pthread_mutex_lock(&l->lock);
	switch ((enum fpisa_manager_type)m->type) {
	case FPISA_MANAGER_PENDING:
		take_pending(l, &m->members);
		break;
	case FPISA_MANAGER_AGGREGATORS:
		take_aggregators(l, &m->list);
		break;
	case FPISA_MANAGER_JOINED:
		take_joined(l, &m->joined);
		break;
	case FPISA_MANAGER_JOB:
		take_job(l, &m->job);
		break;
	case FPISA_MANAGER_GONE:
		take_gone(l, &m->members);
		break;
	case FPISA_MANAGER_LEFT:
		take_left(l, &m->left);
		break;
	case FPISA_MANAGER_REFUSED:
		take_refusal(l, &m->refusal);
		break;
	default:
		break;
	}
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
	if (m->type == FPISA_MANAGER_BIND)
		take_bind(l, &m->bind);
}

int fpisa_link_error(struct fpisa_link *l)
{
	int rc;

	pthread_mutex_lock(&l->lock);
	rc = l->error ? fpisa_fail(l->error, "%s", l->sentence) : 0;
	pthread_mutex_unlock(&l->lock);
	return rc;
}

uint64_t fpisa_link_completed(const struct fpisa_link *l)
{
	uint64_t first = l->failed_barrier ? l->failed_barrier : l->calls + 1;
	struct fpisa_standing s;

	for (int k = 0; k < FPISA_MANAGER_JOBS; k++) {
		const struct fpisa_link_job *j = &l->job[k];
		uint64_t unfinished;

		if (!j->handle)
			continue;
		fpisa_handle_standing(j->handle, &s);
		unfinished = j->error ? s.unfinished_barrier : s.first_unfinished;
		if (unfinished && unfinished < first)
			first = unfinished;
	}
	return first - 1;
}

/*
 * Return 0 if every rank that has left completed the first `calls` calls, otherwise an error. Fail the group when all
 * calls that such a rank completed have also ended here.
 */
static int check_left(struct fpisa_link *l, uint64_t calls)
{
	char sentence[FPISA_MESSAGE_SIZE];
	struct fpisa_ranks own;
	uint32_t r = fpisa_ranks_next(&l->left, 0);

	while (r < FPISA_MAX_RANKS && calls <= l->calls_of[r])
		r = fpisa_ranks_next(&l->left, r + 1);
	if (r == FPISA_MAX_RANKS)
		return 0;
	own = fpisa_ranks_one(r);
	snprintf(sentence, sizeof(sentence),
		 "%s: rank %u has left the group after %llu calls; make the same calls at all ranks", l->peer, r,
		 (unsigned long long)l->calls_of[r]);
	/* Only the first reason counts. */
	if (!l->error)
		fpisa_ranks_add(&l->missing, r);
	if (fpisa_link_completed(l) >= l->calls_of[r])
		fpisa_link_fail(l, -ECONNRESET, &own, sentence);
	return fpisa_fail(-ECONNRESET, "%s", sentence);
}

int fpisa_link_oldest(const struct fpisa_link *l, struct fpisa_standing *oldest)
{
	struct fpisa_standing s;
	int index = 0;

	*oldest = (struct fpisa_standing){0};
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++) {
		if (!l->job[k].handle)
			continue;
		fpisa_handle_standing(l->job[k].handle, &s);
		if (s.number && (!oldest->number || s.number < oldest->number)) {
			*oldest = s;
			index = k;
		}
	}
	return index;
}

/*
 * Fail the group if the oldest call needs results and the call of this number ended without results at a rank that has
 * left. The ranks have then made different calls, but no frame or message of that rank says so.
 */
static void check_whole(struct fpisa_link *l)
{
	char sentence[FPISA_MESSAGE_SIZE];
	struct fpisa_standing s;
	struct fpisa_ranks own;
	uint32_t r = fpisa_ranks_next(&l->left, 0);

	if (r == FPISA_MAX_RANKS)
		return;
	fpisa_link_oldest(l, &s);
	while (r < FPISA_MAX_RANKS && (s.number <= l->whole_of[r] || s.number > l->calls_of[r]))
		r = fpisa_ranks_next(&l->left, r + 1);
	if (r == FPISA_MAX_RANKS || !s.count)
		return;
	own = fpisa_ranks_one(r);
	snprintf(sentence, sizeof(sentence),
		 "%s: call %llu of this rank differs from that of rank %u, which has left the group; make the same "
		 "calls at all ranks",
		 l->peer, (unsigned long long)s.number, r);
	fpisa_link_fail(l, -EPROTO, &own, sentence);
}

void fpisa_link_check_left(struct fpisa_link *l)
{
	check_left(l, l->calls);
	check_whole(l);
}

int fpisa_link_call(struct fpisa_link *l)
{
	return check_left(l, l->calls + 1);
}

/*
 * Return the message FAILED. The other ranks show its text in their messages. Different calls are an error of the group,
 * so all ranks get the same error for them.
 */
struct fpisa_manager_message fpisa_link_failed(const struct fpisa_link *l, const struct fpisa_link_job *j)
{
	struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_FAILED);

	m.refusal.reason = j->error == -EPROTO ? FPISA_MANAGER_R_differs : FPISA_MANAGER_R_failed;
	m.refusal.index = (uint32_t)(j - l->job);
	for (size_t i = 0; i + 1 < sizeof(m.refusal.text) && j->sentence[i]; i++)
		m.refusal.text[i] = j->sentence[i] < ' ' || j->sentence[i] > '~' ? '?' : j->sentence[i];
	return m;
}

void fpisa_link_job_failed(struct fpisa_link *l, struct fpisa_link_job *j, int error, const char *sentence)
{
	struct fpisa_manager_message m;

	j->state = FPISA_GROUP_JOB_REFUSED;
	j->error = error;
	j->told = 1;
	snprintf(j->sentence, sizeof(j->sentence), "%s", sentence);
	m = fpisa_link_failed(l, j);
	fpisa_link_send(l, &m);
	pthread_cond_broadcast(&l->changed);
}

void fpisa_link_barrier_failed(struct fpisa_link *l, int error, const struct fpisa_ranks *missing, const char *sentence)
{
	char reason[FPISA_MESSAGE_SIZE];

	snprintf(reason, sizeof(reason), "the rank's barrier failed: %.*s", FPISA_MESSAGE_SIZE - 32, sentence);
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
		if (l->job[k].handle && !l->job[k].error)
			fpisa_link_job_failed(l, &l->job[k], error, reason);
	fpisa_link_fail(l, error, missing, sentence);
}

void fpisa_link_check_barriers(struct fpisa_link *l)
{
	int under_way = 0;

	for (int k = 0; k < FPISA_MANAGER_JOBS && l->barriers && !l->error; k++) {
		struct fpisa_link_job *j = &l->job[k];
		struct fpisa_standing s = {0};

		if (j->handle && !j->alike)
			fpisa_handle_standing(j->handle, &s);
		if (s.error && s.unfinished_barrier)
			fpisa_link_barrier_failed(l, s.error, &s.failed, s.message);
		under_way |= s.unfinished_barrier != 0;
	}
	l->barriers = under_way;
}
