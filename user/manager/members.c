// SPDX-License-Identifier: GPL-2.0-only
/* The members of a group, its resources and its end; members.h and group.h have the contracts. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "members.h"
#include "remote.h"

__u32 manager_place(const struct manager *m, const struct manager_group *g)
{
	return (__u32)(g - m->group);
}

struct fpisa_ranks manager_in(const struct manager_group *g, enum manager_rank state)
{
	struct fpisa_ranks ranks = FPISA_NO_RANKS;

	for (__u32 r = 0; r < g->record.size; r++)
		if (g->state[r] == state)
			fpisa_ranks_add(&ranks, r);
	return ranks;
}

void manager_tell_rank(struct manager *m, struct manager_group *g, __u32 rank, const struct fpisa_manager_message *msg)
{
	if (g->caller[rank])
		m->ops->send(m->arg, g->caller[rank], msg);
}

void manager_tell_all(struct manager *m, struct manager_group *g, const struct fpisa_manager_message *msg)
{
	for (__u32 r = 0; r < g->record.size; r++)
		manager_tell_rank(m, g, r, msg);
}

void manager_record(struct manager *m, struct manager_group *g)
{
	m->ops->record(m->arg, manager_place(m, g), &g->record);
}

void manager_end(struct manager *m, struct manager_group *g, enum fpisa_manager_reason reason, const char *format, ...)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_REFUSED);
	va_list ap;

	if (g->over.reason)
		return;
	m->count.refused[reason]++;
	g->over = (struct fpisa_manager_refusal){.reason = reason, .index = FPISA_MANAGER_NO_JOB};
	va_start(ap, format);
	vsnprintf(g->over.text, sizeof(g->over.text), format, ap);
	va_end(ap);
	msg.refusal = g->over;
	m->ops->say(m->arg, g->over.text);
	manager_tell_all(m, g, &msg);
}

/* Count the ranks that are in the group, or will come back. */
static __u32 ranks_left(const struct manager_group *g)
{
	__u32 n = 0;

	for (__u32 r = 0; r < g->record.size; r++)
		n += g->state[r] == RANK_HERE || g->state[r] == RANK_AWAY;
	return n;
}

void manager_remove_job(struct manager *m, const struct group_job *j)
{
	for (__u32 n = 0; n < FPISA_MAX_JOBS; n++)
		if (j->further >> n & 1)
			m->ops->remove(m->arg, n, j->token);
	m->ops->remove(m->arg, j->number, j->token);
}

void manager_end_if_empty(struct manager *m, struct manager_group *g)
{
	static const struct group_record none;

	if (ranks_left(g))
		return;
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
		if (g->job[k].state == FPISA_GROUP_JOB_MAKING)
			return;
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
		if (g->job[k].state == FPISA_GROUP_JOB_MADE && manager_has_job(&g->record, (__u32)k, m->aggregator_port))
			manager_remove_job(m, &g->record.job[k]);
	manager_drop_jobs(m, g);
	if (fpisa_ranks_any(&g->record.joined))
		m->ops->record(m->arg, manager_place(m, g), &none);
	memset(g, 0, sizeof(*g));
}

/* Return whether the group's job has slots. */
static bool has_slots(const struct manager_group_job *j)
{
	return fpisa_group_job_has_ports(j->state);
}

struct manager_quota manager_used(const struct manager *m, const char *owner)
{
	struct manager_quota used = {0};

	for (int i = 0; i < GROUPS; i++) {
		const struct manager_group *g = &m->group[i];

		if (!g->record.id || (owner && strcmp(g->record.owner, owner)))
			continue;
		/*
		 * Do not count a group that a rank has left: it should end soon, and its ranks' next group may exist
		 * already.
		 */
		used.groups += !group_ends(&g->record);
		for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
			if (has_slots(&g->job[k])) {
				used.jobs++;
				used.slots += g->job[k].window;
			}
	}
	return used;
}

__u32 manager_used_exact(const struct manager *m)
{
	__u32 slots = 0;

	for (int i = 0; i < GROUPS; i++)
		for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
			if (has_slots(&m->group[i].job[k]) && manager_needs_exact_slots(&m->group[i], (__u32)k))
				slots += m->group[i].job[k].window;
	return slots;
}

__u32 manager_large_ranks(const struct manager *m, bool ending)
{
	__u32 n = 0;

	for (int i = 0; i < GROUPS; i++) {
		const struct manager_group *g = &m->group[i];

		if (g->record.id && g->record.size > FPISA_MAX_WORKERS && ending == group_ends(&g->record))
			n += ending ? ranks_left(g) : g->record.size;
	}
	return n;
}

__u32 manager_ending(const struct manager *m, const char *owner)
{
	__u32 n = 0;

	for (int i = 0; i < GROUPS; i++) {
		const struct group_record *r = &m->group[i].record;

		n += r->id && group_ends(r) && !strcmp(r->owner, owner);
	}
	return n;
}
