// SPDX-License-Identifier: GPL-2.0-only
/* Messages of the manager to aggregators of other hosts; remote.h has the contracts. */
#include <string.h>

#include "members.h"
#include "remote.h"

bool manager_has_address(const struct aggregator_record *r, const struct fpisa_address *address)
{
	return fpisa_same_address(&r->address, address) || fpisa_same_address(&r->other, address);
}

struct manager_aggregator *manager_aggregator(struct manager *m, const struct fpisa_address *address, __u32 port)
{
	for (int i = 0; i < AGGREGATORS; i++) {
		const struct aggregator_record *r = &m->aggregator[i].record;

		if (r->port == port && manager_has_address(r, address))
			return &m->aggregator[i];
	}
	return NULL;
}

struct manager_aggregator *manager_aggregator_of(struct manager *m, const struct manager_group *g, __u32 i)
{
	return manager_aggregator(m, &g->record.aggregator[i].address, g->record.aggregator[i].port);
}

struct fpisa_address manager_address_for(struct manager *m, const struct manager_group *g, __u32 i, __u32 rank)
{
	const struct fpisa_address address = g->record.aggregator[i].address;
	const struct manager_aggregator *a = manager_aggregator_of(m, g, i);

	if (fpisa_is_ipv4(&address) == fpisa_is_ipv4(&g->record.rank[rank].address))
		return address;
	if (manager_is_own(m, g, i))
		return g->record.other;
	/* If the aggregator is gone, the group ends, whichever address the rank gets. */
	if (!a || !fpisa_is_address(&a->record.other))
		return address;
	return fpisa_same_address(&a->record.address, &address) ? a->record.other : a->record.address;
}

/*
 * Return whether a job is a tree. One aggregator serves the integers of up to FPISA_MAX_WORKERS ranks, because a tree
 * would need slots of mode exact for them.
 */
static bool is_tree(const struct group_record *r, __u32 index)
{
	const struct fpisa_manager_spec *s = &r->job[index].asked;
	const bool integers = s->format == FPISA_FORMAT_INT32 && r->size > FPISA_MAX_WORKERS;

	return group_has_tree(r) && (s->mode == FPISA_MODE_EXACT || integers) && s->pipeline != FPISA_PIPELINE_STAGED;
}

bool manager_is_tree(const struct manager_group *g, __u32 index)
{
	return is_tree(&g->record, index);
}

bool manager_needs_exact_slots(const struct manager_group *g, __u32 index)
{
	return manager_is_tree(g, index) || manager_is_exact(&g->record.job[index].asked);
}

bool manager_has_job(const struct group_record *r, __u32 index, __u16 port)
{
	const struct fpisa_manager_aggregator *a = r->aggregator;

	if (r->elsewhere || !group_has_tree(r) || is_tree(r, index))
		return !r->elsewhere;
	for (__u32 i = 0; i < group_roots(r); i++)
		if (fpisa_same_address(&a[i].address, &r->local) && a[i].port == port)
			return true;
	return false;
}

__u32 manager_aggregators_of(const struct manager_group *g, __u32 index)
{
	return manager_is_tree(g, index) ? g->record.aggregators : group_shards(&g->record);
}

__u32 manager_steps(const struct manager_group *g, __u32 index)
{
	const __u32 shards = group_shards(&g->record);

	return shards * (1 + manager_aggregators_of(g, index) - shards);
}

__u32 manager_at(const struct manager_group *g, __u32 step)
{
	const __u32 shards = group_shards(&g->record);

	return step < shards ? step : step / shards - 1 + shards;
}

static bool is_same_place(const struct manager_group *g, __u32 i, __u32 k)
{
	const struct fpisa_manager_aggregator *a = g->record.aggregator;

	return fpisa_same_address(&a[i].address, &a[k].address) && a[i].port == a[k].port;
}

bool manager_makes(const struct manager_group *g, __u32 index, __u32 i)
{
	const struct manager_group_job *j = &g->job[index];

	return j->state == FPISA_GROUP_JOB_MAKING && is_same_place(g, i, manager_at(g, j->at));
}

bool manager_is_beside_root(const struct manager_group *g, __u32 i)
{
	return group_has_tree(&g->record) && i && is_same_place(g, i, 0);
}

bool manager_is_own(const struct manager *m, const struct manager_group *g, __u32 i)
{
	const struct fpisa_manager_aggregator *a = &g->record.aggregator[i];

	return fpisa_same_address(&a->address, &g->record.local) && a->port == m->aggregator_port;
}

static void send_ranks(struct manager *m, const struct manager_make *o, struct manager_caller *to)
{
	for (__u32 first = 0; first < o->workers; first += FPISA_MANAGER_MAKE_RANKS) {
		struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_RANKS);

		msg.ranks.group = o->id;
		msg.ranks.first = first;
		memcpy(msg.ranks.address, o->address + first, sizeof(msg.ranks.address));
		memcpy(msg.ranks.port, o->port + first, sizeof(msg.ranks.port));
		m->ops->send(m->arg, to, &msg);
	}
}

static void send_make(struct manager *m, const struct manager_group *g, const struct manager_make *o,
		      struct manager_caller *to)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_MAKE);

	send_ranks(m, o, to);
	msg.make = (struct fpisa_manager_make){.group = o->id,
					       .token = o->token,
					       .token_high = g->record.job[o->index].token_high,
					       .index = o->index,
					       .workers = o->workers,
					       .spec = o->spec,
					       .leaves = o->leaves,
					       .rank = (__u8)o->parent_rank,
					       .port = o->parent_port,
					       .root = o->parent,
					       .numbers = o->pool,
					       .further = o->further};
	memcpy(msg.make.name, g->record.name, sizeof(msg.make.name));
	memcpy(msg.make.owner, g->record.owner, sizeof(g->record.owner));
	m->ops->send(m->arg, to, &msg);
}

static void add_rank(struct manager_make *o, const struct fpisa_address *address, __u16 port)
{
	o->address[o->workers] = *address;
	o->port[o->workers++] = port;
}

/* Add the ranks of leaf `i` of a tree, or all ranks for 0. */
static void add_ranks(const struct manager_group *g, __u32 index, __u32 i, struct manager_make *o)
{
	for (__u32 r = 0; r < g->record.size; r++)
		if (!i || g->record.rank[r].leaf == i)
			add_rank(o, &g->record.rank[r].address, g->record.rank[r].port[index]);
}

/* Fill in the job at root `i`. The jobs of the roots have different numbers, because each leaf has the jobs of all roots. */
static void fill_root(const struct manager_group *g, __u32 index, __u32 i, struct manager_make *o)
{
	const struct fpisa_manager_aggregator *a = g->record.aggregator;

	for (__u32 k = group_roots(&g->record); k < g->record.aggregators; k++)
		add_rank(o, &a[k].address, a[k].port);
	o->leaves = 1;
	o->pool &= ~g->job[index].used;
	for (__u32 k = 0; k < i; k++)
		o->pool &= ~(1ull << g->record.job[index].at[k]);
}

/* Fill in the job at leaf `i` below this root. */
static void fill_leaf(const struct manager_group *g, __u32 index, __u32 i, __u32 root, struct manager_make *o)
{
	const struct fpisa_manager_aggregator *a = &g->record.aggregator[root];
	const __u64 number = 1ull << g->record.job[index].at[root];
	const bool beside = manager_is_beside_root(g, i);

	add_ranks(g, index, i, o);
	o->parent = a->address;
	o->parent_port = a->port;
	o->parent_rank = i - group_roots(&g->record);
	o->pool = beside ? o->pool & ~g->job[index].used & ~number : number;
	o->further = root || beside;
}

/* Fill in what depends on the place of the aggregator of this step: its ranks, its parent, and the numbers of the job. */
static void fill_place(const struct manager_group *g, __u32 index, __u32 step, struct manager_make *o)
{
	const __u32 roots = group_roots(&g->record);

	if (!manager_is_tree(g, index))
		add_ranks(g, index, 0, o);
	else if (step < roots)
		fill_root(g, index, step, o);
	else
		fill_leaf(g, index, manager_at(g, step), step % roots, o);
}

bool manager_make_next(struct manager *m, struct manager_group *g, __u32 index, __u32 window)
{
	const struct group_job *record = &g->record.job[index];
	const __u32 step = g->job[index].at, i = manager_at(g, step);
	struct manager_aggregator *a = manager_aggregator_of(m, g, i);
	struct manager_make o = {
		.place = (__u32)(g - m->group),
		.index = index,
		.id = g->record.id,
		/* Agents choose among the numbers of their own policies. */
		.pool = manager_is_own(m, g, i) ? m->policy->jobs : ~0ull,
		.token = record->token,
		.local = g->record.local,
		.other = g->record.other,
		/* The other aggregators' jobs are like the first aggregator's job. */
		.spec = i ? record->made : record->asked,
	};

	o.spec.window = window;
	if (!i && g->job[index].elements)
		o.spec.elements = g->job[index].elements;
	o.spec.fanout = record->asked.fanout;
	fill_place(g, index, step, &o);
	if (manager_is_own(m, g, i))
		m->ops->make(m->arg, &o);
	else if (a && a->caller)
		send_make(m, g, &o, a->caller);
	else
		return false;
	return true;
}

void manager_send_drop(struct manager *m, struct manager_caller *to, __u64 group)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_DROP);

	msg.of.group = group;
	m->ops->send(m->arg, to, &msg);
}

void manager_drop_jobs(struct manager *m, const struct manager_group *g)
{
	for (__u32 i = 0; i < g->record.aggregators; i++) {
		const struct manager_aggregator *a = manager_aggregator_of(m, g, i);

		if (!manager_is_own(m, g, i) && a && a->caller)
			manager_send_drop(m, a->caller, g->record.id);
	}
}
