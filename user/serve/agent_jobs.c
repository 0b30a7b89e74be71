// SPDX-License-Identifier: GPL-2.0-only
/* The jobs of an aggregator for a manager on another host; agent_jobs.h has the contracts. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent_jobs.h"

static __u32 place_of(const struct agent_jobs *a, const struct agent_group *g)
{
	return (__u32)(g - a->group);
}

static struct agent_group *find(struct agent_jobs *a, __u64 id)
{
	for (int i = 0; i < GROUPS; i++)
		if (a->group[i].record.id == id)
			return &a->group[i];
	return NULL;
}

static struct agent_group *find_or_begin(struct agent_jobs *a, __u64 id)
{
	struct agent_group *g = find(a, id) ?: find(a, 0);

	if (g)
		g->record.id = id;
	return g;
}

static void record(struct agent_jobs *a, const struct agent_group *g)
{
	struct helper_request q;

	q.what = HELPER_RECORD;
	q.place = place_of(a, g);
	memcpy(&q.record, &g->record, group_record_bytes(&g->record));
	a->ops->ask(a->arg, &q);
}

static void remove_number(struct agent_jobs *a, __u32 number, __u64 token)
{
	a->ops->ask(a->arg,
		    &(struct helper_request){.what = HELPER_REMOVE, .remove = {.number = number, .token = token}});
}

/* Remove a job, and its further jobs. */
static void remove_job(struct agent_jobs *a, const struct group_job *j)
{
	for (__u32 n = 0; n < FPISA_MAX_JOBS; n++)
		if (j->further >> n & 1)
			remove_number(a, n, j->token);
	remove_number(a, j->number, j->token);
}

static void say(struct agent_jobs *a, enum fpisa_manager_type type, __u64 id)
{
	struct fpisa_manager_message m = fpisa_manager_message(type);

	m.of.group = id;
	a->ops->send(a->arg, &m);
}

/* Delete the group's jobs. Wait for a job that is being created, because it cannot be found before that. */
static void drop(struct agent_jobs *a, struct agent_group *g)
{
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++) {
		if (g->record.job[k].state == FPISA_GROUP_JOB_MADE)
			remove_job(a, &g->record.job[k]);
		if (g->record.job[k].state == FPISA_GROUP_JOB_MADE)
			g->record.job[k] = (struct group_job){.state = FPISA_GROUP_JOB_NONE};
	}
	g->over = true;
	if (g->making)
		return;
	g->record.id = 0;
	if (g->record.size)
		record(a, g);
	memset(g, 0, sizeof(*g));
}

void agent_left_over(struct agent_jobs *a, __u32 place, const struct group_record *r)
{
	a->group[place].record = *r;
	drop(a, &a->group[place]);
}

/* -- creation of jobs ------------------------------------------------------------------ */

static void answer(struct agent_jobs *a, __u64 group, const struct manager_made *made)
{
	struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_MADE);

	m.made = (struct fpisa_manager_made){.group = group, .index = made->index, .err = made->err};
	if (made->err) {
		m.made.number = made->reason;
		m.made.spec.elements = made->spec.elements;
		snprintf(m.made.text, sizeof(m.made.text), "%.*s", FPISA_MANAGER_MADE_TEXT - 1, made->text);
	} else {
		m.made.number = made->number;
		m.made.spec = made->spec;
	}
	a->ops->send(a->arg, &m);
}

static void take_ranks(struct agent_jobs *a, const struct fpisa_manager_ranks *r)
{
	struct agent_group *g = find_or_begin(a, r->group);

	if (!g)
		return;
	memcpy(g->address + r->first, r->address, sizeof(r->address));
	memcpy(g->port + r->first, r->port, sizeof(r->port));
}

/* Set the addresses of this datapath as a manager does: that of rank 0's family first, and no address without ranks. */
static void set_local(const struct agent_jobs *a, const struct agent_group *g, struct group_record *r)
{
	const bool same = fpisa_is_ipv4(&g->address[0]) == fpisa_is_ipv4(&a->local) || !fpisa_is_address(&a->other);
	__u32 k = 1;

	while (k < r->size && fpisa_is_ipv4(&g->address[k]) == fpisa_is_ipv4(&g->address[0]))
		k++;
	r->local = same ? a->local : a->other;
	r->other = k == r->size ? FPISA_NO_ADDRESS : same ? a->other : a->local;
}

static void fill_record(const struct agent_jobs *a, struct agent_group *g, const struct fpisa_manager_make *m)
{
	struct group_record *r = &g->record;

	if (!r->since)
		r->since = (__u64)time(NULL);
	r->size = m->workers;
	r->joined = fpisa_ranks_all(m->workers);
	set_local(a, g, r);
	r->aggregators = 1;
	memcpy(r->name, m->name, sizeof(r->name));
	snprintf(r->owner, sizeof(r->owner), "%.*s", (int)sizeof(r->owner) - 1, m->owner);
	for (__u32 k = 0; k < r->size; k++)
		r->rank[k].address = g->address[k];
}

/* Store the job that the helper is to create. */
static void fill_next(const struct agent_jobs *a, struct agent_group *g, const struct fpisa_manager_make *m)
{
	struct manager_make *o = &g->next[m->index];

	*o = (struct manager_make){.place = place_of(a, g),
				   .index = m->index,
				   .id = m->group,
				   .pool = a->pool & m->numbers,
				   .leaves = m->leaves,
				   .parent = m->root,
				   .parent_port = m->port,
				   .parent_rank = m->rank,
				   .further = !!m->further,
				   .token = m->token,
				   .local = g->record.local,
				   .other = g->record.other,
				   .workers = m->workers,
				   .spec = m->spec};
	memcpy(o->address, g->address, sizeof(o->address));
	memcpy(o->port, g->port, sizeof(o->port));
	g->token_high[m->index] = m->token_high;
}

/* Remove the earlier job, which was for another manager or was refused at another aggregator, and begin the next one. */
static void replace_job(struct agent_jobs *a, struct agent_group *g, __u32 index, const struct manager_make *o)
{
	struct group_job *j = &g->record.job[index];

	if (j->state == FPISA_GROUP_JOB_MADE)
		remove_job(a, j);
	*j = (struct group_job){.token = o->token, .token_high = g->token_high[index], .asked = o->spec};
	for (__u32 k = 0; k < g->record.size; k++)
		g->record.rank[k].port[index] = o->port[k];
}

/* Let the helper create the next job of this index, besides the earlier ones or in their place. */
static void make(struct agent_jobs *a, struct agent_group *g, __u32 index)
{
	struct helper_request q = {.what = HELPER_MAKE, .place = place_of(a, g), .make = g->next[index]};
	struct group_job *j = &g->record.job[index];
	const bool further = q.make.further && j->state == FPISA_GROUP_JOB_MADE && j->token == q.make.token;

	q.make.further = further;
	g->next[index].workers = 0;
	if (!further)
		replace_job(a, g, index, &q.make);
	j->state = FPISA_GROUP_JOB_MAKING;
	g->further = further ? g->further | 1u << index : g->further & ~(1u << index);
	record(a, g);
	while (q.make.spec.window > a->slots)
		q.make.spec.window /= 2;
	g->making |= 1u << index;
	a->ops->ask(a->arg, &q);
}

static void refuse_make(struct agent_jobs *a, const struct fpisa_manager_make *m, const char *why)
{
	struct manager_made made = {.index = m->index, .err = -EBUSY};

	snprintf(made.text, sizeof(made.text), "%s", why);
	answer(a, m->group, &made);
}

static void take_make(struct agent_jobs *a, const struct fpisa_manager_make *m)
{
	struct agent_group *g = find_or_begin(a, m->group);

	if (!g || g->over) {
		refuse_make(a, m,
			    g ? "the group has ended at this aggregator; join again" :
				"the aggregator has as many groups as possible; end another group");
		return;
	}
	fill_record(a, g, m);
	fill_next(a, g, m);
	if (!(g->making >> m->index & 1))
		make(a, g, m->index);
}

/* Note the helper's answer. If a further job cannot be created, the earlier jobs stay until the manager says what becomes of them. */
static void take_made(struct group_job *j, const struct manager_made *made, bool further)
{
	if (made->err && !further) {
		*j = (struct group_job){.state = FPISA_GROUP_JOB_NONE};
		return;
	}
	j->state = FPISA_GROUP_JOB_MADE;
	if (made->err)
		return;
	j->made = made->spec;
	if (further)
		j->further |= 1ull << made->number;
	else
		j->number = (__u16)made->number;
}

void agent_made(struct agent_jobs *a, const struct manager_made *made)
{
	struct agent_group *g = &a->group[made->place];
	struct group_job *j = &g->record.job[made->index];
	__u32 bit = 1u << made->index;
	bool heard = !(g->unheard & bit);

	if (g->record.id != made->id)
		return;
	g->making &= ~bit;
	g->unheard &= ~bit;
	take_made(j, made, g->further & bit);
	if (g->over) {
		drop(a, g);
	} else if (g->next[made->index].workers) {
		make(a, g, made->index);
	} else {
		record(a, g);
		if (heard)
			answer(a, g->record.id, made);
	}
}

void agent_disconnected(struct agent_jobs *a)
{
	for (int i = 0; i < GROUPS; i++)
		a->group[i].unheard = a->group[i].making;
}

/* -- events of the manager and of this host ------------------------------------------------------- */

bool agent_message(struct agent_jobs *a, const struct fpisa_manager_message *m)
{
	struct agent_group *g;

	switch ((enum fpisa_manager_type)m->type) {
	case FPISA_MANAGER_RANKS:
		take_ranks(a, &m->ranks);
		return true;
	case FPISA_MANAGER_MAKE:
		take_make(a, &m->make);
		return true;
	case FPISA_MANAGER_DROP:
		g = find(a, m->of.group);
		if (g && !g->over)
			drop(a, g);
		return true;
	default:
		return false;
	}
}

void agent_killed(struct agent_jobs *a, const __u64 kill[GROUPS])
{
	for (int i = 0; i < GROUPS; i++) {
		struct agent_group *g = &a->group[i];

		if (!kill[i] || g->record.id != kill[i] || g->over)
			continue;
		say(a, FPISA_MANAGER_ENDED, kill[i]);
		drop(a, g);
	}
}

void agent_tell_groups(struct agent_jobs *a)
{
	for (int i = 0; i < GROUPS; i++)
		if (a->group[i].record.id && !a->group[i].over)
			say(a, FPISA_MANAGER_HOLDS, a->group[i].record.id);
}
