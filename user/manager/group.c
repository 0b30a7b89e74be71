// SPDX-License-Identifier: GPL-2.0-only
/*
 * Joins, returns, leaves, deaths; group.h has the contracts. jobs.c gives the jobs; members.c has the functions that
 * group.c and jobs.c share.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "aggregators.h"
#include "calls.h"
#include "jobs.h"
#include "lib/base/address.h"
#include "members.h"

#define TOLD_AT_ONCE 8	/* the largest group whose ranks learn at once which ranks have joined */
#define PENDING_MS 1000 /* interval at which the ranks of other groups learn it */

/* Refuse an impossible request: tell the caller why, and hang up. */
__attribute__((format(printf, 5, 6))) static void refuse_caller(struct manager *m, struct manager_caller *c,
								enum fpisa_manager_reason reason,
								const struct fpisa_ranks *ranks, const char *format, ...)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_REFUSED);
	va_list ap;

	m->count.refused[reason]++;
	msg.refusal = (struct fpisa_manager_refusal){.reason = (__u16)reason, .index = FPISA_MANAGER_NO_JOB};
	if (ranks)
		fpisa_manager_name_ranks(&msg.refusal, ranks);
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
	return g->record.id && !group_ends(&g->record) && !strcmp(g->record.name, name) &&
	       !strcmp(g->record.owner, c->owner);
}

static bool is_large(const struct manager_group *g)
{
	return g->record.size > FPISA_MAX_WORKERS;
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
	g->record.rank[rank].address = c->address;
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

	msg.joined = (struct fpisa_manager_joined){.group = g->record.id, .secret = g->record.secret};
	memcpy(msg.joined.home, g->home, sizeof(g->home));
	return msg;
}

/* Set the addresses of this datapath: those to which rank 0 and the first rank of the other family have connected. */
static void set_local(struct manager_group *g)
{
	struct group_record *r = &g->record;
	__u32 k = 1;

	while (k < r->size && fpisa_is_ipv4(&r->rank[k].address) == fpisa_is_ipv4(&r->rank[0].address))
		k++;
	r->local = g->caller[0]->local;
	r->other = k < r->size ? g->caller[k]->local : FPISA_NO_ADDRESS;
}

/* Tell the rank of a connection, or all ranks for NULL, which ranks have joined. */
static void tell_pending(struct manager *m, struct manager_group *g, struct manager_caller *to)
{
	const struct fpisa_ranks here = manager_in(g, RANK_HERE);
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_PENDING);

	for (; msg.members.first < g->record.size; msg.members.first += FPISA_MANAGER_PART) {
		memcpy(msg.members.ranks, &here.word[msg.members.first / 64], sizeof(msg.members.ranks));
		if (to)
			m->ops->send(m->arg, to, &msg);
		else
			manager_tell_all(m, g, &msg);
	}
}

/*
 * Tell the waiting ranks that the set of ranks has changed, perhaps by the newcomer `c`. If there are many, tell only the
 * newcomer now. Otherwise the messages would grow with the square of the ranks, which may share a connection.
 */
static void tell_change(struct manager *m, struct manager_group *g, struct manager_caller *c)
{
	if (g->record.size <= TOLD_AT_ONCE) {
		tell_pending(m, g, NULL);
		return;
	}
	if (c)
		tell_pending(m, g, c);
	g->untold = true;
}

static void tell_untold(struct manager *m, struct manager_group *g)
{
	if (!g->untold || g->whole || m->now_ms < g->told_ms + PENDING_MS)
		return;
	g->untold = false;
	g->told_ms = m->now_ms;
	tell_pending(m, g, NULL);
}

/* Complete the group, because all ranks have joined. If it cannot have a tree that it needs, all ranks are refused. */
static void complete(struct manager *m, struct manager_group *g)
{
	struct fpisa_manager_message msg;

	g->whole = true;
	g->record.joined = fpisa_ranks_all(g->record.size);
	m->count.groups++;
	g->record.secret = m->ops->random(m->arg);
	g->record.since = m->wall_s;
	set_local(g);
	manager_choose(m, g);
	manager_record(m, g);
	msg = joined_message(g);
	if (!g->over.reason)
		manager_tell_all(m, g, &msg);
}

static bool all_are_here(const struct manager_group *g)
{
	__u32 r = 0;

	while (r < g->record.size && g->state[r] == RANK_HERE)
		r++;
	return r == g->record.size;
}

/* Refuse a large group if there is no room for its ranks beside those of other large groups. Return whether there is. */
static bool has_room(struct manager *m, struct manager_caller *c, const struct fpisa_manager_join *j)
{
	const __u32 large = manager_large_ranks(m, false), ending = manager_large_ranks(m, true);

	if (j->size <= FPISA_MAX_WORKERS)
		return true;
	if (large + j->size > MANAGER_LARGE) {
		refuse_caller(
			m, c, FPISA_MANAGER_R_pool, NULL,
			"group %s: groups of more than %d ranks have at most %d ranks together, and others have %u; end another group",
			j->name, FPISA_MAX_WORKERS, MANAGER_LARGE, large);
		return false;
	}
	if (large + ending + j->size > 2 * MANAGER_LARGE) {
		refuse_caller(
			m, c, FPISA_MANAGER_R_pool, NULL,
			"group %s: %u ranks of large groups are still connected after others left or died; end the remaining ranks",
			j->name, ending);
		return false;
	}
	return true;
}

static struct manager_group *make_group(struct manager *m, struct manager_caller *c, const struct fpisa_manager_join *j)
{
	struct manager_quota quota = manager_quota_of(m->policy, c->owner), used = manager_used(m, c->owner);
	struct manager_group *g = NULL;
	__u32 ending = manager_ending(m, c->owner);

	if (j->size > m->policy->size) {
		refuse_caller(m, c, FPISA_MANAGER_R_size, NULL,
			      "group %s: the group has %u ranks, but the manager allows %u; raise size in [manager]",
			      j->name, j->size, m->policy->size);
		return NULL;
	}
	if (j->size > FPISA_MAX_WORKERS && !m->policy->leaves) {
		refuse_caller(
			m, c, FPISA_MANAGER_R_size, NULL,
			"group %s: the group has %u ranks, and without a tree a group has up to %d; set leaves = yes in [manager]",
			j->name, j->size, FPISA_MAX_WORKERS);
		return NULL;
	}
	if (used.groups >= quota.groups) {
		refuse_caller(m, c, FPISA_MANAGER_R_quota, NULL,
			      "group %s: key '%s' has reached its limit of %u groups; raise key-groups or end a group",
			      j->name, c->owner, used.groups);
		return NULL;
	}
	if (used.groups + ending >= 2 * quota.groups) {
		refuse_caller(
			m, c, FPISA_MANAGER_R_quota, NULL,
			"group %s: key '%s' has %u groups that still have live ranks after others left or died; end the remaining ranks, or raise key-groups",
			j->name, c->owner, ending);
		return NULL;
	}
	if (!has_room(m, c, j))
		return NULL;
	for (int i = GROUPS; i--;)
		if (!m->group[i].record.id)
			g = &m->group[i];
	if (!g) {
		refuse_caller(m, c, FPISA_MANAGER_R_pool, NULL,
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
	struct fpisa_ranks named;

	if (c->place >= 0 || c->aggregator) {
		refuse_caller(m, c, FPISA_MANAGER_R_order, NULL,
			      "this connection already belongs to a group or an aggregator; open another connection");
		return;
	}
	if (g && g->whole) {
		refuse_caller(m, c, FPISA_MANAGER_R_name, NULL,
			      "group %s: a group of this name exists, with %u ranks; take another name, or see fpisa "
			      "group show",
			      j->name, g->record.size);
		return;
	}
	if (g && g->record.size != j->size) {
		named = manager_in(g, RANK_HERE);
		refuse_caller(
			m, c, FPISA_MANAGER_R_size, &named,
			"group %s: rank %u joined with size %u, but the other ranks with size %u; give all ranks one size",
			j->name, j->rank, j->size, g->record.size);
		return;
	}
	if (g && g->state[j->rank] == RANK_HERE) {
		named = fpisa_ranks_one(j->rank);
		refuse_caller(
			m, c, FPISA_MANAGER_R_rank, &named,
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
	if (all_are_here(g))
		complete(m, g);
	else
		tell_change(m, g, c);
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
		    fpisa_same_address(&r->rank[j->rank].address, &c->address))
			return g;
	}
	return NULL;
}

/* Tell the rank of a connection, or all ranks for NULL, which ranks have left. One message has ranks with equal numbers. */
static void tell_left(struct manager *m, struct manager_group *g, struct manager_caller *to, struct fpisa_ranks left)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_LEFT);

	for (__u32 r = fpisa_ranks_next(&left, 0); r < FPISA_MAX_RANKS; r = fpisa_ranks_next(&left, r)) {
		msg.left = (struct fpisa_manager_left){.calls = g->record.rank[r].calls,
						       .first = r / FPISA_MANAGER_PART * FPISA_MANAGER_PART,
						       .no_results = g->record.rank[r].no_results};
		for (__u32 k = r; k < msg.left.first + FPISA_MANAGER_PART; k = fpisa_ranks_next(&left, k + 1)) {
			if (g->record.rank[k].calls != msg.left.calls ||
			    g->record.rank[k].no_results != msg.left.no_results)
				continue;
			msg.left.ranks[(k - msg.left.first) / 64] |= 1ull << k % 64;
			fpisa_ranks_remove(&left, k);
		}
		if (to)
			m->ops->send(m->arg, to, &msg);
		else
			manager_tell_all(m, g, &msg);
	}
}

/* Tell the rank of a connection, or all ranks for NULL, which ranks are dead. The last message has the cause. */
static void tell_gone(struct manager *m, struct manager_group *g, struct manager_caller *to,
		      const struct fpisa_ranks *ranks, enum fpisa_manager_cause cause)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_GONE);

	for (__u32 next, r = fpisa_ranks_next(ranks, 0); r < FPISA_MAX_RANKS; r = next) {
		msg.members.first = r / FPISA_MANAGER_PART * FPISA_MANAGER_PART;
		next = fpisa_ranks_next(ranks, msg.members.first + FPISA_MANAGER_PART);
		memcpy(msg.members.ranks, &ranks->word[msg.members.first / 64], sizeof(msg.members.ranks));
		msg.members.cause = next < FPISA_MAX_RANKS ? 0 : cause;
		if (to)
			m->ops->send(m->arg, to, &msg);
		else
			manager_tell_all(m, g, &msg);
	}
}

/* Take a rank back, and tell it what happened while it was away. */
static void come_back(struct manager *m, struct manager_caller *c, const struct fpisa_manager_join *j)
{
	struct manager_group *g = find_return(m, c, j);
	const struct fpisa_ranks own = fpisa_ranks_one(j->rank);
	struct fpisa_manager_message msg;

	if (c->place >= 0 || c->aggregator) {
		refuse_caller(m, c, FPISA_MANAGER_R_order, NULL,
			      "this connection already belongs to a group or an aggregator; open another connection");
		return;
	}
	if (g && g->state[j->rank] == RANK_GONE) {
		refuse_caller(m, c, FPISA_MANAGER_R_gone, &own,
			      "group %s: rank %u was given up because its connection had ended; join again at all "
			      "ranks",
			      j->name, j->rank);
		return;
	}
	if (!g || (g->state[j->rank] != RANK_HERE && g->state[j->rank] != RANK_AWAY)) {
		refuse_caller(m, c, FPISA_MANAGER_R_unknown, NULL,
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
	tell_left(m, g, c, g->record.left);
	tell_gone(m, g, c, &g->record.gone, g->record.cause);
}

void manager_restore(struct manager *m, __u32 place, const struct group_record *r)
{
	struct manager_group *g = &m->group[place];

	memcpy(&g->record, r, group_record_bytes(r));
	g->whole = true;
	g->away_ms = g->back_ms = m->now_ms + FPISA_MANAGER_RETURN_MS;
	for (__u32 k = 0; k < r->size; k++)
		g->state[k] = fpisa_ranks_has(&r->gone, k) ? RANK_GONE :
			      fpisa_ranks_has(&r->left, k) ? RANK_LEFT :
							     RANK_AWAY;
	manager_restore_jobs(g);
	manager_end_if_empty(m, g);
}

/* -- leaving, dying --------------------------------------------------------- */

/* Take a waiting rank out of an incomplete group. The other ranks only learn which ranks are left. */
static void stop_waiting(struct manager *m, struct manager_caller *c)
{
	struct manager_group *g = &m->group[c->place];

	take_out(g, c, RANK_ABSENT);
	tell_change(m, g, NULL);
	manager_end_if_empty(m, g);
}

static void give_up(struct manager *m, struct manager_group *g, const struct fpisa_ranks *ranks,
		    enum fpisa_manager_cause cause)
{
	const struct fpisa_ranks news = fpisa_ranks_without(ranks, &g->record.gone);
	/* The first death ends the group for all ranks. */
	const bool first = !is_large(g) || !fpisa_ranks_any(&g->record.gone);

	FPISA_EACH_RANK(r, ranks) {
		if (g->caller[r])
			g->caller[r]->place = -1;
		g->caller[r] = NULL;
		g->state[r] = RANK_GONE;
	}
	m->count.gone += fpisa_ranks_count(&news);
	g->record.gone = fpisa_ranks_or(&g->record.gone, ranks);
	g->record.cause = cause;
	if (first) {
		manager_record(m, g);
		tell_gone(m, g, NULL, ranks, cause);
	}
	g->unrecorded |= !first;
	manager_end_if_empty(m, g);
}

void manager_lost(struct manager *m, struct manager_caller *who, enum fpisa_manager_cause cause)
{
	const struct fpisa_ranks own = fpisa_ranks_one(who->rank);

	if (who->aggregator)
		manager_aggregator_lost(m, who, cause);
	if (who->place < 0)
		return;
	if (m->group[who->place].whole)
		give_up(m, &m->group[who->place], &own, cause);
	else
		stop_waiting(m, who);
}

/* Record the ranks that have left or died, and tell the others which have left. */
static void catch_up(struct manager *m, struct manager_group *g)
{
	if (g->unrecorded)
		manager_record(m, g);
	tell_left(m, g, NULL, g->leaving);
	g->unrecorded = false;
	g->leaving = FPISA_NO_RANKS;
}

static void leave(struct manager *m, struct manager_caller *c, const struct fpisa_manager_leave *msg)
{
	struct manager_group *g = &m->group[c->place];
	__u32 rank = c->rank;

	if (!g->whole) {
		stop_waiting(m, c);
		m->ops->hang_up(m->arg, c);
		return;
	}
	take_out(g, c, RANK_LEFT);
	m->ops->hang_up(m->arg, c);
	fpisa_ranks_add(&g->record.left, rank);
	g->record.rank[rank].calls = msg->calls;
	g->record.rank[rank].no_results = msg->no_results;
	fpisa_ranks_add(&g->leaving, rank);
	g->unrecorded = true;
	if (!is_large(g))
		catch_up(m, g);
	manager_job_without(m, g, rank);
	manager_end_if_empty(m, g);
}

void manager_kill(struct manager *m, __u32 place, __u64 id)
{
	struct manager_group *g = &m->group[place];
	const struct fpisa_ranks all = fpisa_ranks_all(g->record.size);
	struct fpisa_ranks gone, news;

	if (!id || g->record.id != id)
		return;
	for (__u32 r = 0; r < g->record.size; r++) {
		struct manager_caller *c = g->caller[r];

		if (!c)
			continue;
		take_out(g, c, RANK_GONE);
		tell_gone(m, g, c, &all, FPISA_MANAGER_KILLED);
		m->ops->hang_up(m->arg, c);
	}
	for (__u32 r = 0; r < g->record.size; r++)
		g->state[r] = RANK_GONE;
	gone = fpisa_ranks_without(&all, &g->record.left);
	news = fpisa_ranks_without(&gone, &g->record.gone);
	if (g->whole)
		m->count.gone += fpisa_ranks_count(&news);
	g->record.gone = gone;
	g->record.cause = FPISA_MANAGER_KILLED;
	if (g->whole)
		manager_record(m, g);
	manager_end_if_empty(m, g);
}

static void group_tick(struct manager *m, struct manager_group *g)
{
	const struct fpisa_ranks away = manager_in(g, RANK_AWAY);

	tell_untold(m, g);
	catch_up(m, g);
	manager_job_tick(m, g);
	if (m->now_ms >= g->away_ms && fpisa_ranks_any(&away))
		give_up(m, g, &away, FPISA_MANAGER_AWAY);
}

void manager_tick(struct manager *m)
{
	manager_aggregators_tick(m);
	for (int i = 0; i < GROUPS; i++)
		if (m->group[i].record.id)
			group_tick(m, &m->group[i]);
}

void manager_record_gathering(struct manager *m)
{
	for (int i = 0; i < GROUPS; i++) {
		struct manager_group *g = &m->group[i];
		struct fpisa_ranks here;

		if (!g->record.id || g->whole)
			continue;
		here = manager_in(g, RANK_HERE);
		if (fpisa_ranks_same(&g->record.joined, &here))
			continue;
		g->record.joined = here;
		manager_record(m, g);
	}
}

/* -- messages of ranks ----------------------------------------------------------- */

/*
 * Compare the calls that ranks wait for. If two ranks have made different calls, each waits for the other, perhaps in
 * another job, so no call can complete.
 */
static void compare_waits(struct manager *m, struct manager_group *g, __u32 rank, const struct fpisa_manager_waits *w)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_REFUSED);
	struct fpisa_ranks both = fpisa_ranks_one(rank);
	__u32 other = 0;
	__u64 theirs;

	g->waits[rank] = *w;
	while (other < g->record.size && !manager_calls_differ(&g->waits[other], w))
		other++;
	if (other == g->record.size)
		return;
	theirs = g->waits[other].call;
	m->count.refused[FPISA_MANAGER_R_differs]++;
	msg.refusal = (struct fpisa_manager_refusal){.reason = FPISA_MANAGER_R_differs, .index = FPISA_MANAGER_NO_JOB};
	fpisa_ranks_add(&both, other);
	fpisa_manager_name_ranks(&msg.refusal, &both);
	snprintf(msg.refusal.text, sizeof(msg.refusal.text),
		 "group %s: call %llu of rank %u differs from that of rank %u; all ranks must make the same calls in "
		 "the same order, whatever their types",
		 g->record.name, (unsigned long long)(w->call < theirs ? w->call : theirs), rank, other);
	m->ops->refused(m->arg, g->caller[rank], FPISA_MANAGER_R_differs, msg.refusal.text);
	if (g->differs)
		manager_tell_rank(m, g, rank, &msg);
	else
		manager_tell_all(m, g, &msg);
	g->differs = is_large(g);
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
		m, c, FPISA_MANAGER_R_busy, NULL,
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
			refuse_caller(m, from, why.reason, NULL, "%s", why.text);
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
			leave(m, from, &msg->leave);
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
	refuse_caller(m, from, FPISA_MANAGER_R_order, NULL,
		      "unexpected message: JOIN or RETURN must come first; install one release on all "
		      "hosts");
}
