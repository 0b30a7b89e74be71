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
	const struct fpisa_manager_aggregator *root = &r->aggregator[0];

	if (r->elsewhere || !group_has_tree(r) || is_tree(r, index))
		return !r->elsewhere;
	return fpisa_same_address(&root->address, &r->local) && root->port == port;
}

__u32 manager_aggregators_of(const struct manager_group *g, __u32 index)
{
	return group_has_tree(&g->record) && !manager_is_tree(g, index) ? 1 : g->record.aggregators;
}

static bool is_same_place(const struct manager_group *g, __u32 i, __u32 k)
{
	const struct fpisa_manager_aggregator *a = g->record.aggregator;

	return fpisa_same_address(&a[i].address, &a[k].address) && a[i].port == a[k].port;
}

__u32 manager_maker(const struct manager_group *g, __u32 index, __u32 i)
{
	const __u32 at = g->job[index].at;

	return at < g->record.aggregators && is_same_place(g, i, at) ? at : i;
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
					       .numbers = o->pool};
	memcpy(msg.make.name, g->record.name, sizeof(msg.make.name));
	memcpy(msg.make.owner, g->record.owner, sizeof(g->record.owner));
	m->ops->send(m->arg, to, &msg);
}

static void add_rank(struct manager_make *o, const struct fpisa_address *address, __u16 port)
{
	o->address[o->workers] = *address;
	o->port[o->workers++] = port;
}

/* Fill in the ranks of aggregator `i`: leaves of a root, ranks of a leaf, or all ranks. */
static void fill_ranks(const struct manager_group *g, __u32 index, __u32 i, struct manager_make *o)
{
	const struct fpisa_manager_aggregator *a = g->record.aggregator;
	const struct group_job *record = &g->record.job[index];
	const bool tree = manager_is_tree(g, index);

	for (__u32 k = 1; tree && !i && k < g->record.aggregators; k++)
		add_rank(o, &a[k].address, a[k].port);
	for (__u32 r = 0; (!tree || i) && r < g->record.size; r++)
		if (!tree || g->record.rank[r].leaf == i)
			add_rank(o, &g->record.rank[r].address, g->record.rank[r].port[index]);
	o->leaves = tree && !i;
	o->pool &= ~g->job[index].used;
	if (!tree || !i)
		return;
	o->parent = a[0].address;
	o->parent_port = a[0].port;
	o->parent_rank = i - 1;
	o->pool = manager_is_beside_root(g, i) ? o->pool & ~(1ull << record->at[0]) : 1ull << record->at[0];
}

bool manager_make_at(struct manager *m, struct manager_group *g, __u32 index, __u32 i, __u32 window)
{
	const struct group_job *record = &g->record.job[index];
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
	fill_ranks(g, index, i, &o);
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
