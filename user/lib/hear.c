/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the manager says becomes what the group's user knows, and how its calls end; link.h has the contracts. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "handle.h"
#include "link.h"

void fpisa_link_fail(struct fpisa_link *l, int error, uint64_t missing, const char *sentence)
{
	if (l->error)
		return;
	l->error = error;
	l->missing = missing;
	snprintf(l->sentence, sizeof(l->sentence), "%s", sentence);
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
		if (l->job[k].handle)
			fpisa_handle_fail(l->job[k].handle, error, missing, sentence);
	pthread_cond_broadcast(&l->changed);
}

void fpisa_link_fail_so(struct fpisa_link *l, int error)
{
	char sentence[FPISA_MESSAGE_SIZE];

	snprintf(sentence, sizeof(sentence), "%.*s: %.*s", (int)sizeof(l->peer), l->peer,
		 FPISA_MESSAGE_SIZE - (int)sizeof(l->peer) - 3, fpisa_error());
	fpisa_link_fail(l, error, 0, sentence);
}

static void take_gone(struct fpisa_link *l, const struct fpisa_manager_members *m)
{
	char names[160], sentence[FPISA_MESSAGE_SIZE];

	snprintf(sentence, sizeof(sentence), "%s: %s %s gone: %s", l->peer,
		 fpisa_rank_names(names, sizeof(names), m->ranks), m->ranks & (m->ranks - 1) ? "are" : "is",
		 fpisa_manager_cause_text(m->cause));
	fpisa_link_fail(l, -ECONNRESET, m->ranks, sentence);
}

/* Calls that it had not completed never end. */
static void take_left(struct fpisa_link *l, const struct fpisa_manager_leave *m)
{
	char sentence[FPISA_MESSAGE_SIZE];

	l->left |= 1ull << m->rank;
	l->calls_of[m->rank] = m->calls;
	if (l->calls <= m->calls)
		return;
	snprintf(sentence, sizeof(sentence), "%s: rank %u has left the group after %llu calls", l->peer, m->rank,
		 (unsigned long long)m->calls);
	fpisa_link_fail(l, -ECONNRESET, 1ull << m->rank, sentence);
}

/* The manager's sentences begin with the group's name, as ours do. */
static const char *without_name(const struct fpisa_link *l, const char *text)
{
	const char *name = strstr(l->peer, ": group ");
	size_t n = name ? strlen(name + 2) : 0;

	return n && !strncmp(text, name + 2, n) && !strncmp(text + n, ": ", 2) ? text + n + 2 : text;
}

static void take_refusal(struct fpisa_link *l, const struct fpisa_manager_refusal *r)
{
	char sentence[FPISA_MESSAGE_SIZE];
	int error = fpisa_manager_error(r->reason);

	snprintf(sentence, sizeof(sentence), "%s: %s", l->peer, without_name(l, r->text));
	if (r->index == FPISA_MANAGER_NO_JOB) {
		fpisa_link_fail(l, error, r->ranks, sentence);
		return;
	}
	if (l->job[r->index].state != FPISA_LINK_JOB_NONE)
		l->job[r->index].state = FPISA_LINK_JOB_REFUSED;
	l->job[r->index].error = error;
	snprintf(l->job[r->index].sentence, sizeof(sentence), "%s", sentence);
}

static void take_joined(struct fpisa_link *l, const struct fpisa_manager_members *m)
{
	l->joined = 1;
	l->join.group = m->group;
	l->join.secret = m->secret;
}

void fpisa_link_hear(struct fpisa_link *l, const struct fpisa_manager_message *m)
{
	pthread_mutex_lock(&l->lock);
	l->heard = 1;
	l->heard_ns = fpisa_now();
	switch ((enum fpisa_manager_type)m->type) {
	case FPISA_MANAGER_PENDING:
		l->pending = m->members.ranks;
		break;
	case FPISA_MANAGER_JOINED:
		take_joined(l, &m->members);
		break;
	case FPISA_MANAGER_BIND:
		l->job[m->bind.index].bind = m->bind;
		l->job[m->bind.index].state = FPISA_LINK_JOB_BIND;
		break;
	case FPISA_MANAGER_JOB:
		l->job[m->job.index].job = m->job;
		l->job[m->job.index].state = FPISA_LINK_JOB_GIVEN;
		break;
	case FPISA_MANAGER_GONE:
		take_gone(l, &m->members);
		break;
	case FPISA_MANAGER_LEFT:
		take_left(l, &m->leave);
		break;
	case FPISA_MANAGER_REFUSED:
		take_refusal(l, &m->refusal);
		break;
	default:
		break;
	}
	pthread_cond_broadcast(&l->changed);
	pthread_mutex_unlock(&l->lock);
}

int fpisa_link_error(struct fpisa_link *l)
{
	int rc;

	pthread_mutex_lock(&l->lock);
	rc = l->error ? fpisa_fail(l->error, "%s", l->sentence) : 0;
	pthread_mutex_unlock(&l->lock);
	return rc;
}

void fpisa_link_call(struct fpisa_link *l)
{
	pthread_mutex_lock(&l->lock);
	l->calls++;
	for (uint32_t r = 0; r < l->join.size; r++)
		if (l->left >> r & 1) {
			struct fpisa_manager_leave again = {.rank = r, .calls = l->calls_of[r]};

			take_left(l, &again);
		}
	pthread_mutex_unlock(&l->lock);
}

void fpisa_link_call_failed(struct fpisa_link *l)
{
	pthread_mutex_lock(&l->lock);
	l->calls--;
	pthread_mutex_unlock(&l->lock);
}
