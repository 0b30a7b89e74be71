// SPDX-License-Identifier: GPL-2.0-only
/*
 * Joins, returns, leaves, deaths; group.h has the contracts. jobs.c gives the jobs; members.c has the functions that
 * group.c and jobs.c share.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "aggregators.h"
#include "jobs.h"
#include "lib/base/address.h"
#include "members.h"

/* Refuse an impossible request: tell the caller why, and hang up. */
__attribute__((format(printf, 5, 6))) static void refuse_caller(struct manager *m, struct manager_caller *c,
								enum fpisa_manager_reason reason, __u64 ranks,
								const char *format, ...)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_REFUSED);
	va_list ap;

	m->count.refused[reason]++;
	msg.refusal = (struct fpisa_manager_refusal){.reason = reason, .index = FPISA_MANAGER_NO_JOB, .ranks = ranks};
	va_start(ap, format);
	vsnprintf(msg.refusal.text, sizeof(msg.refusal.text), format, ap);
	va_end(ap);
	m->ops->refused(m->arg, c, reason, msg.refusal.text);
	m->ops->send(m->arg, c, &msg);
	manager_lost(m, c, FPISA_MANAGER_BROKE);
	m->ops->hang_up(m->arg, c);
}

/* -- groups ----------------------------------------------------------------- */

/*
 * Return whether the group has the name. The name is free again as soon as a rank has left or died, because no other
 * rank can join the group.
 */
static bool has_name(const struct manager_group *g, const struct manager_caller *c, const char *name)
{
	return g->record.id && !g->record.left && !g->record.gone && !strcmp(g->record.name, name) &&
	       !strcmp(g->record.owner, c->owner);
}

static struct manager_group *find_name(struct manager *m, const struct manager_caller *c, const char *name)
{
	for (int i = 0; i < GROUPS; i++)
		if (has_name(&m->group[i], c, name))
			return &m->group[i];
	return NULL;
}

static void put_in(struct manager *m, struct manager_group *g, struct manager_caller *c, __u32 rank)
{
	c->place = (int)manager_place(m, g);
	c->rank = rank;
	g->caller[rank] = c;
	g->state[rank] = RANK_HERE;
	g->record.address[rank] = c->address;
}

static void take_out(struct manager_group *g, struct manager_caller *c, enum manager_rank state)
{
	g->caller[c->rank] = NULL;
	g->state[c->rank] = state;
	c->place = -1;
}

/* -- joining ---------------------------------------------------------------- */

static struct fpisa_manager_message joined_message(const struct manager_group *g)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_JOINED);

	msg.members = (struct fpisa_manager_members){.ranks = manager_in(g, RANK_HERE) | manager_in(g, RANK_AWAY),
						     .group = g->record.id,
						     .secret = g->record.secret};
	return msg;
}

/* Set the addresses of this datapath: those to which rank 0 and the first rank of the other family have connected. */
static void set_local(struct manager_group *g)
{
	struct group_record *r = &g->record;
	__u32 k = 1;

	while (k < r->size && fpisa_is_ipv4(&r->address[k]) == fpisa_is_ipv4(&r->address[0]))
		k++;
	r->local = g->caller[0]->local;
	r->other = k < r->size ? g->caller[k]->local : FPISA_NO_ADDRESS;
}

/* Tell the waiting ranks which ranks have joined. If all have, complete the group. */
static void tell_gathering(struct manager *m, struct manager_group *g)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_PENDING);

	msg.members.ranks = manager_in(g, RANK_HERE);
	if (msg.members.ranks != fpisa_manager_all(g->record.size)) {
		manager_tell(m, g, msg.members.ranks, &msg);
		return;
	}
	g->whole = true;
	g->record.joined = msg.members.ranks;
	m->count.groups++;
	g->record.secret = m->ops->random(m->arg);
	g->record.since = m->wall_s;
	set_local(g);
	manager_choose(m, g);
	manager_record(m, g);
	msg = joined_message(g);
	manager_tell(m, g, fpisa_manager_all(g->record.size), &msg);
}

static struct manager_group *make_group(struct manager *m, struct manager_caller *c, const struct fpisa_manager_join *j)
{
	struct manager_quota quota = manager_quota_of(m->policy, c->owner), used = manager_used(m, c->owner);
	struct manager_group *g = NULL;
	__u32 ending = manager_ending(m, c->owner);

	if (j->size > m->policy->size) {
		refuse_caller(m, c, FPISA_MANAGER_R_size, 0,
			      "group %s: the group has %u ranks, but the manager allows %u; raise size in [manager]",
			      j->name, j->size, m->policy->size);
		return NULL;
	}
	if (used.groups >= quota.groups) {
		refuse_caller(m, c, FPISA_MANAGER_R_quota, 0,
			      "group %s: key '%s' has reached its limit of %u groups; raise key-groups or end a group",
			      j->name, c->owner, used.groups);
		return NULL;
	}
	if (used.groups + ending >= 2 * quota.groups) {
		refuse_caller(
			m, c, FPISA_MANAGER_R_quota, 0,
			"group %s: key '%s' has %u groups that still have live ranks after others left or died; end the remaining ranks, or raise key-groups",
			j->name, c->owner, ending);
		return NULL;
	}
	for (int i = GROUPS; i--;)
		if (!m->group[i].record.id)
			g = &m->group[i];
	if (!g) {
		refuse_caller(m, c, FPISA_MANAGER_R_pool, 0,
			      "group %s: the manager has reached its limit of %d groups; end another group", j->name,
			      GROUPS);
		return NULL;
	}
	g->record.id = m->ops->random(m->arg);
	g->record.size = j->size;
	g->record.since = m->wall_s;
	memcpy(g->record.name, j->name, sizeof(g->record.name));
	memcpy(g->record.owner, c->owner, sizeof(g->record.owner));
	return g;
}

static void join(struct manager *m, struct manager_caller *c, const struct fpisa_manager_join *j)
{
	struct manager_group *g = find_name(m, c, j->name);

	if (c->place >= 0 || c->aggregator) {
		refuse_caller(m, c, FPISA_MANAGER_R_order, 0,
			      "this connection already belongs to a group or an aggregator; open another connection");
		return;
	}
	if (g && g->whole) {
		refuse_caller(m, c, FPISA_MANAGER_R_name, 0,
			      "group %s: a group of this name exists, with %u ranks; take another name, or see fpisa "
			      "group show",
			      j->name, g->record.size);
		return;
	}
	if (g && g->record.size != j->size) {
		refuse_caller(
			m, c, FPISA_MANAGER_R_size, manager_in(g, RANK_HERE),
			"group %s: rank %u joined with size %u, but the other ranks with size %u; give all ranks one size",
			j->name, j->rank, j->size, g->record.size);
		return;
	}
	if (g && g->state[j->rank] == RANK_HERE) {
		refuse_caller(
			m, c, FPISA_MANAGER_R_rank, 1ull << j->rank,
			"group %s: another process has joined as rank %u; end that process or give each process its own rank",
			j->name, j->rank);
		return;
	}
	if (!g)
		g = make_group(m, c, j);
	if (!g)
		return;
	c->rate = j->rate;
	put_in(m, g, c, j->rank);
	tell_gathering(m, g);
}

/* -- coming back ------------------------------------------------------------ */

static struct manager_group *find_return(struct manager *m, const struct manager_caller *c,
					 const struct fpisa_manager_join *j)
{
	for (int i = 0; i < GROUPS; i++) {
		struct manager_group *g = &m->group[i];
		const struct group_record *r = &g->record;

		if (r->id == j->group && g->whole && r->secret == j->secret && r->size == j->size &&
		    !strcmp(r->name, j->name) && !strcmp(r->owner, c->owner) &&
		    fpisa_same_address(&r->address[j->rank], &c->address))
			return g;
	}
	return NULL;
}

static struct fpisa_manager_message left_message(const struct manager_group *g, __u32 rank)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_LEFT);

	msg.leave = (struct fpisa_manager_leave){.rank = rank, .calls = g->record.calls[rank]};
	return msg;
}

static struct fpisa_manager_message gone_message(__u64 ranks, enum fpisa_manager_cause cause)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_GONE);

	msg.members.ranks = ranks;
	msg.members.cause = cause;
	return msg;
}

/* Take a rank back, and tell it what happened while it was away. */
static void come_back(struct manager *m, struct manager_caller *c, const struct fpisa_manager_join *j)
{
	struct manager_group *g = find_return(m, c, j);
	struct fpisa_manager_message msg;

	if (c->place >= 0 || c->aggregator) {
		refuse_caller(m, c, FPISA_MANAGER_R_order, 0,
			      "this connection already belongs to a group or an aggregator; open another connection");
		return;
	}
	if (g && g->state[j->rank] == RANK_GONE) {
		refuse_caller(m, c, FPISA_MANAGER_R_gone, 1ull << j->rank,
			      "group %s: rank %u was given up because its connection had ended; join again at all "
			      "ranks",
			      j->name, j->rank);
		return;
	}
	if (!g || (g->state[j->rank] != RANK_HERE && g->state[j->rank] != RANK_AWAY)) {
		refuse_caller(m, c, FPISA_MANAGER_R_unknown, 0,
			      "group %s: the group no longer exists, or this process is not its rank %u; join "
			      "again at all ranks",
			      j->name, j->rank);
		return;
	}
	if (g->caller[j->rank]) {
		struct manager_caller *before = g->caller[j->rank];

		take_out(g, before, RANK_AWAY);
		m->ops->hang_up(m->arg, before);
	}
	put_in(m, g, c, j->rank);
	msg = joined_message(g);
	m->ops->send(m->arg, c, &msg);
	if (g->over.reason) {
		msg = fpisa_manager_message(FPISA_MANAGER_REFUSED);
		msg.refusal = g->over;
		m->ops->send(m->arg, c, &msg);
	}
	manager_tell_refusals(m, g, j->rank);
	for (__u32 r = 0; r < g->record.size; r++)
		if (g->record.left >> r & 1) {
			msg = left_message(g, r);
			m->ops->send(m->arg, c, &msg);
		}
	if (g->record.gone) {
		msg = gone_message(g->record.gone, g->record.cause);
		m->ops->send(m->arg, c, &msg);
	}
}

void manager_restore(struct manager *m, __u32 place, const struct group_record *r)
{
	struct manager_group *g = &m->group[place];

	g->record = *r;
	g->whole = true;
	g->away_ms = g->back_ms = m->now_ms + FPISA_MANAGER_RETURN_MS;
	for (__u32 k = 0; k < r->size; k++)
		g->state[k] = r->gone >> k & 1 ? RANK_GONE : r->left >> k & 1 ? RANK_LEFT : RANK_AWAY;
	manager_restore_jobs(g);
	manager_end_if_empty(m, g);
}

/* -- leaving, dying --------------------------------------------------------- */

/* Take a waiting rank out of an incomplete group. The other ranks only learn which ranks are left. */
static void stop_waiting(struct manager *m, struct manager_caller *c)
{
	struct manager_group *g = &m->group[c->place];

	take_out(g, c, RANK_ABSENT);
	if (manager_in(g, RANK_HERE))
		tell_gathering(m, g);
	manager_end_if_empty(m, g);
}

static void give_up(struct manager *m, struct manager_group *g, __u64 ranks, enum fpisa_manager_cause cause)
{
	struct fpisa_manager_message msg = gone_message(ranks, cause);

	for (__u32 r = 0; r < g->record.size; r++) {
		if (!(ranks >> r & 1))
			continue;
		if (g->caller[r])
			g->caller[r]->place = -1;
		g->caller[r] = NULL;
		g->state[r] = RANK_GONE;
	}
	m->count.gone += (__u64)__builtin_popcountll(ranks & ~g->record.gone);
	g->record.gone |= ranks;
	g->record.cause = cause;
	manager_record(m, g);
	manager_tell(m, g, manager_in(g, RANK_HERE), &msg);
	manager_end_if_empty(m, g);
}

void manager_lost(struct manager *m, struct manager_caller *who, enum fpisa_manager_cause cause)
{
	if (who->aggregator)
		manager_aggregator_lost(m, who, cause);
	if (who->place < 0)
		return;
	if (m->group[who->place].whole)
		give_up(m, &m->group[who->place], 1ull << who->rank, cause);
	else
		stop_waiting(m, who);
}

static void leave(struct manager *m, struct manager_caller *c, __u64 calls)
{
	struct manager_group *g = &m->group[c->place];
	struct fpisa_manager_message msg;
	__u32 rank = c->rank;

	if (!g->whole) {
		stop_waiting(m, c);
		m->ops->hang_up(m->arg, c);
		return;
	}
	take_out(g, c, RANK_LEFT);
	m->ops->hang_up(m->arg, c);
	g->record.left |= 1ull << rank;
	g->record.calls[rank] = calls;
	manager_record(m, g);
	msg = left_message(g, rank);
	manager_tell(m, g, manager_in(g, RANK_HERE), &msg);
	manager_job_without(m, g, rank);
	manager_end_if_empty(m, g);
}

void manager_kill(struct manager *m, __u32 place, __u64 id)
{
	struct manager_group *g = &m->group[place];
	struct fpisa_manager_message msg;

	if (!id || g->record.id != id)
		return;
	msg = gone_message(fpisa_manager_all(g->record.size), FPISA_MANAGER_KILLED);
	for (__u32 r = 0; r < g->record.size; r++) {
		struct manager_caller *c = g->caller[r];

		if (!c)
			continue;
		take_out(g, c, RANK_GONE);
		m->ops->send(m->arg, c, &msg);
		m->ops->hang_up(m->arg, c);
	}
	for (__u32 r = 0; r < g->record.size; r++)
		g->state[r] = RANK_GONE;
	if (g->whole)
		m->count.gone += (__u64)__builtin_popcountll(msg.members.ranks & ~g->record.left & ~g->record.gone);
	g->record.gone = fpisa_manager_all(g->record.size) & ~g->record.left;
	g->record.cause = FPISA_MANAGER_KILLED;
	if (g->whole)
		manager_record(m, g);
	manager_end_if_empty(m, g);
}

void manager_tick(struct manager *m)
{
	manager_aggregators_tick(m);
	for (int i = 0; i < GROUPS; i++) {
		struct manager_group *g = &m->group[i];
		__u64 away = g->record.id ? manager_in(g, RANK_AWAY) : 0;

		if (away && m->now_ms >= g->away_ms)
			give_up(m, g, away, FPISA_MANAGER_AWAY);
		if (g->record.id)
			manager_job_tick(m, g);
	}
}

void manager_record_gathering(struct manager *m)
{
	for (int i = 0; i < GROUPS; i++) {
		struct manager_group *g = &m->group[i];
		__u64 here = manager_in(g, RANK_HERE);

		if (!g->record.id || g->whole || g->record.joined == here)
			continue;
		g->record.joined = here;
		manager_record(m, g);
	}
}

/* -- messages of ranks ----------------------------------------------------------- */

/*
 * Compare the calls that ranks wait for. If calls of two ranks have the same number and different digests, the ranks
 * have made different calls. Each rank waits for the others, perhaps in another job. The oldest call that a rank waits
 * for is never later than the first call that differs.
 */
static void compare_waits(struct manager *m, struct manager_group *g, __u32 rank, const struct fpisa_manager_waits *w)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_REFUSED);
	__u32 other = 0;

	g->waits[rank] = *w;
	while (other < g->record.size && (g->waits[other].call != w->call || g->waits[other].digest == w->digest))
		other++;
	if (other == g->record.size)
		return;
	m->count.refused[FPISA_MANAGER_R_differs]++;
	msg.refusal = (struct fpisa_manager_refusal){
		.reason = FPISA_MANAGER_R_differs, .index = FPISA_MANAGER_NO_JOB, .ranks = 1ull << rank | 1ull << other};
	snprintf(msg.refusal.text, sizeof(msg.refusal.text),
		 "group %s: call %llu of rank %u differs from that of rank %u; all ranks must make the same calls in "
		 "the same order, whatever their types",
		 g->record.name, (unsigned long long)w->call, rank, other);
	m->ops->refused(m->arg, g->caller[rank], FPISA_MANAGER_R_differs, msg.refusal.text);
	manager_tell(m, g, manager_in(g, RANK_HERE), &msg);
}

/* Handle a message that only a rank of a complete group may send. Return false if it is another message. */
static bool of_a_member(struct manager *m, struct manager_group *g, __u32 rank, const struct fpisa_manager_message *msg)
{
	switch ((enum fpisa_manager_type)msg->type) {
	case FPISA_MANAGER_ASK:
		manager_ask(m, g, rank, &msg->ask);
		return true;
	case FPISA_MANAGER_BOUND:
		manager_bound(m, g, rank, &msg->bind);
		return true;
	case FPISA_MANAGER_FAILED:
		manager_failed(m, g, rank, &msg->refusal);
		return true;
	case FPISA_MANAGER_WAITS:
		compare_waits(m, g, rank, &msg->waits);
		return true;
	default:
		return false;
	}
}

/*
 * Refuse a host that connects from a link-local address, which only its link reaches. Its other addresses may be tentative,
 * so the host may try again.
 */
static bool refuse_link_local(struct manager *m, struct manager_caller *c)
{
	char a[FPISA_ADDRESS_LEN];

	if (!fpisa_is_link_local(&c->address))
		return false;
	refuse_caller(
		m, c, FPISA_MANAGER_R_busy, 0,
		"this host's address %s is link-local; wait until its global address is no longer tentative, or add one",
		fpisa_address_text(&c->address, a));
	return true;
}

void manager_message(struct manager *m, struct manager_caller *from, const struct fpisa_manager_message *msg)
{
	struct fpisa_manager_message pong = fpisa_manager_message(FPISA_MANAGER_PONG);
	struct fpisa_manager_refusal why = {.reason = 0};

	if (from->aggregator)
		m->aggregator[from->aggregator - 1].heard_ms = m->now_ms;
	switch ((enum fpisa_manager_type)msg->type) {
	case FPISA_MANAGER_REGISTER:
		if (refuse_link_local(m, from))
			return;
		manager_register(m, from, &msg->reg, &why);
		if (why.reason)
			refuse_caller(m, from, why.reason, 0, "%s", why.text);
		return;
	case FPISA_MANAGER_JOIN:
		if (!refuse_link_local(m, from))
			join(m, from, &msg->join);
		return;
	case FPISA_MANAGER_RETURN:
		come_back(m, from, &msg->join);
		return;
	case FPISA_MANAGER_PING:
		pong.number = msg->number;
		m->ops->send(m->arg, from, &pong);
		return;
	case FPISA_MANAGER_LEAVE:
		if (from->place >= 0) {
			leave(m, from, msg->leave.calls);
			return;
		}
		break;
	default:
		if (from->aggregator && manager_aggregator_message(m, from, msg))
			return;
		if (from->place >= 0 && m->group[from->place].whole &&
		    of_a_member(m, &m->group[from->place], from->rank, msg))
			return;
		break;
	}
	refuse_caller(m, from, FPISA_MANAGER_R_order, 0,
		      "unexpected message: JOIN or RETURN must come first; install one release on all "
		      "hosts");
}
