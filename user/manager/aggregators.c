// SPDX-License-Identifier: GPL-2.0-only
/* Aggregators on other hosts; aggregators.h has the contracts. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "aggregators.h"
#include "cli/options.h"
#include "jobs.h"
#include "leaves.h"
#include "lib/base/address.h"
#include "members.h"
#include "plan/shares.h"
#include "remote.h"

#define UNKNOWN_RATE 1000 /* Mbit/s, for a link whose rate is unknown */
#define AGAIN_MS 5000	  /* pause before an aggregator that could not create a job gets a group again */

/* Write "10.0.0.2", with the port if that is not the usual port, and return it. */
static const char *name_of_place(const struct fpisa_address *address, __u32 port, char text[FPISA_ENDPOINT_LEN])
{
	return port == FPISA_PORT ? fpisa_address_text(address, text) : fpisa_endpoint_text(address, (__u16)port, text);
}

static __u32 place_of(const struct manager *m, const struct manager_aggregator *a)
{
	return (__u32)(a - m->aggregator);
}

/* Return the index of this aggregator in the group's list, or -1 if it is not in the list. */
static int place_in_group(const struct manager_group *g, const struct aggregator_record *r)
{
	for (__u32 i = 0; i < g->record.aggregators; i++)
		if (manager_has_address(r, &g->record.aggregator[i].address) && g->record.aggregator[i].port == r->port)
			return (int)i;
	return -1;
}

/* -- registering --------------------------------------------------------------- */

/* Return a free place, or the place of the aggregator that has been gone for longest. Return NULL if all are connected. */
static struct manager_aggregator *free_place(struct manager *m)
{
	struct manager_aggregator *oldest = NULL;

	for (int i = 0; i < AGGREGATORS; i++) {
		struct manager_aggregator *a = &m->aggregator[i];

		if (!fpisa_is_address(&a->record.address))
			return a;
		if (!a->caller && (!oldest || a->record.since < oldest->record.since))
			oldest = a;
	}
	return oldest;
}

__attribute__((format(printf, 3, 4))) static void refuse_so(struct fpisa_manager_refusal *why,
							    enum fpisa_manager_reason reason, const char *format, ...)
{
	va_list ap;

	why->reason = reason;
	va_start(ap, format);
	vsnprintf(why->text, sizeof(why->text), format, ap);
	va_end(ap);
}

/* Return the address for frames of an aggregator that registers. */
static struct fpisa_address place_of_caller(const struct manager_caller *c, const struct fpisa_manager_register *r)
{
	return fpisa_is_address(&r->address) ? r->address : c->address;
}

/* The aggregators that have registered the two addresses of a registration; NULL: no aggregator has. */
struct registered {
	struct manager_aggregator *first, *other;
};

static struct registered find_registered(struct manager *m, const struct manager_caller *c,
					 const struct fpisa_manager_register *r)
{
	const struct fpisa_address place = place_of_caller(c, r);

	return (struct registered){.first = manager_aggregator(m, &place, r->port),
				   .other = fpisa_is_address(&r->other) ? manager_aggregator(m, &r->other, r->port) :
									  NULL};
}

/* Return the aggregator of another connection that has one of the addresses, or NULL. */
static const struct manager_aggregator *taken_by(const struct registered *at, const struct manager_caller *c)
{
	if (at->first && at->first->caller && at->first->caller != c)
		return at->first;
	return at->other && at->other->caller && at->other->caller != c ? at->other : NULL;
}

/* Check a registration, perhaps of an aggregator that registers again by this connection with other numbers. */
static void check(const struct manager *m, const struct manager_caller *c, const struct fpisa_manager_register *r,
		  const struct registered *at, struct fpisa_manager_refusal *why)
{
	char name[FPISA_ENDPOINT_LEN], host[FPISA_ADDRESS_LEN];
	const struct fpisa_address place = place_of_caller(c, r);
	const struct manager_aggregator *taken = taken_by(at, c);
	bool again = at->first && at->first->caller == c;

	name_of_place(&place, r->port, name);
	if (!again && (c->place >= 0 || c->aggregator)) {
		refuse_so(why, FPISA_MANAGER_R_order,
			  "this connection already belongs to a group or an aggregator; open another connection");
	} else if (!manager_may_add(m->policy, c->owner)) {
		refuse_so(
			why, FPISA_MANAGER_R_key,
			"aggregator %s: %s%s may not register aggregators, which see the values of all groups; add the aggregator's key to aggregator-keys",
			name, *c->owner ? "key " : "a host without a key", c->owner);
	} else if (r->version != FPISA_VERSION) {
		refuse_so(why, FPISA_MANAGER_R_aggregator,
			  "aggregator %s: its frames have version %u, but this manager's have %u; run one release on "
			  "all hosts",
			  name, r->version, FPISA_VERSION);
	} else if (!is_machine(&place) || (fpisa_is_address(&r->other) && !is_machine(&r->other))) {
		refuse_so(
			why, FPISA_MANAGER_R_aggregator,
			"aggregator %s: ranks of other hosts cannot reach this address; set address in [manager] on the aggregator",
			name);
	} else if (taken && !fpisa_same_address(&taken->record.host, &c->address)) {
		refuse_so(
			why, FPISA_MANAGER_R_aggregator,
			"aggregator %s: host %s has registered the same address; set a different address in [manager] on each host",
			name, fpisa_address_text(&taken->record.host, host));
	} else if (taken) {
		/* That process may have ended already, and the manager has not yet noticed. */
		refuse_so(
			why, FPISA_MANAGER_R_busy,
			"aggregator %s: another fpisa serve of this host has registered the same address and still runs; end one of the two",
			name);
	}
}

static void make_what_waits(struct manager *m, const struct aggregator_record *r)
{
	for (int k = 0; k < GROUPS; k++) {
		struct manager_group *g = &m->group[k];
		int i = g->record.id ? place_in_group(g, r) : -1;

		if (i >= 0 && !manager_is_own(m, g, (__u32)i))
			manager_make_back(m, g, (__u32)i);
	}
}

/* Free the place of an aggregator that is gone and had one of the addresses of another aggregator. */
static void forget(struct manager *m, struct manager_aggregator *a)
{
	a->record = (struct aggregator_record){.port = 0};
	m->ops->aggregator(m->arg, place_of(m, a), &a->record);
}

void manager_register(struct manager *m, struct manager_caller *c, const struct fpisa_manager_register *r,
		      struct fpisa_manager_refusal *why)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_REGISTERED);
	const struct fpisa_address address = place_of_caller(c, r);
	const struct registered at = find_registered(m, c, r);
	struct manager_aggregator *a = at.first ?: at.other;
	bool again = a && a->caller == c;

	check(m, c, r, &at, why);
	if (why->reason)
		return;
	if (at.other && at.other != a)
		forget(m, at.other);
	a = a ?: free_place(m);
	if (!a) {
		refuse_so(why, FPISA_MANAGER_R_pool,
			  "the manager has reached its limit of %d aggregators; end another aggregator", AGGREGATORS);
		return;
	}
	a->record = (struct aggregator_record){.since = again ? a->record.since : m->wall_s,
					       .address = address,
					       .other = r->other,
					       .host = c->address,
					       .port = r->port,
					       .rate = r->rate,
					       .slots = r->slots};
	memcpy(a->record.owner, c->owner, sizeof(a->record.owner));
	a->caller = c;
	a->heard_ms = m->now_ms;
	a->not_before_ms = 0;
	c->aggregator = place_of(m, a) + 1;
	m->ops->aggregator(m->arg, place_of(m, a), &a->record);
	m->ops->send(m->arg, c, &msg);
	if (!again)
		make_what_waits(m, &a->record);
}

/* -- dying ------------------------------------------------------------------------ */

static void end_group(struct manager *m, struct manager_group *g, __u32 i, const char *why)
{
	const struct fpisa_manager_aggregator *at = &g->record.aggregator[i];
	char name[FPISA_ENDPOINT_LEN];

	manager_end(m, g, FPISA_MANAGER_R_aggregator,
		    "group %s: aggregator %s is gone: %s; join again, and the group goes on with the others",
		    g->record.name, name_of_place(&at->address, at->port, name), why);
	manager_not_made(m, g, i, why);
}

static void end_groups_of(struct manager *m, const struct aggregator_record *r, const char *why)
{
	for (int k = 0; k < GROUPS; k++) {
		struct manager_group *g = &m->group[k];
		int i = g->record.id ? place_in_group(g, r) : -1;

		if (i >= 0 && !manager_is_own(m, g, (__u32)i))
			end_group(m, g, (__u32)i, why);
	}
}

void manager_aggregator_lost(struct manager *m, struct manager_caller *c, enum fpisa_manager_cause cause)
{
	struct manager_aggregator *a = &m->aggregator[c->aggregator - 1];

	c->aggregator = 0;
	a->caller = NULL;
	a->record.gone = cause;
	m->ops->aggregator(m->arg, place_of(m, a), &a->record);
	end_groups_of(m, &a->record, fpisa_manager_cause_text(cause));
}

static void check_beats(struct manager *m)
{
	for (int i = 0; i < AGGREGATORS; i++) {
		struct manager_aggregator *a = &m->aggregator[i];
		struct manager_caller *c = a->caller;

		if (!c || m->now_ms <= a->heard_ms + FPISA_MANAGER_BEATLESS_MS)
			continue;
		manager_aggregator_lost(m, c, FPISA_MANAGER_SILENT);
		m->ops->hang_up(m->arg, c);
	}
}

/* End a group if an aggregator has not come back to it, or has come back without the group's jobs. */
static void check_back(struct manager *m, struct manager_group *g)
{
	for (__u32 i = 0; i < g->record.aggregators && g->record.id; i++) {
		const struct manager_aggregator *a = manager_aggregator_of(m, g, i);

		if (manager_is_own(m, g, i))
			continue;
		if (!a || !a->caller)
			end_group(m, g, i, fpisa_manager_cause_text(FPISA_MANAGER_AWAY));
		else if (g->unheld[i])
			end_group(m, g, i, "it was restarted, or the group ended there, while the manager was away");
	}
}

void manager_aggregators_tick(struct manager *m)
{
	check_beats(m);
	for (int k = 0; k < GROUPS; k++) {
		struct manager_group *g = &m->group[k];

		if (!g->record.id || !g->back_ms || m->now_ms < g->back_ms)
			continue;
		g->back_ms = 0;
		check_back(m, g);
	}
}

/* -- choosing --------------------------------------------------------------------- */

/* Return the group's ranks on the host of this aggregator. */
static struct fpisa_ranks ranks_of_host(const struct manager_group *g, const struct aggregator_record *a)
{
	struct fpisa_ranks ranks = FPISA_NO_RANKS;

	for (__u32 r = 0; r < g->record.size; r++) {
		const struct fpisa_address *address = &g->record.rank[r].address;

		if (fpisa_same_address(address, &a->host) || manager_has_address(a, address))
			fpisa_ranks_add(&ranks, r);
	}
	return ranks;
}

/* Return the group's ranks on the host of this datapath. */
static struct fpisa_ranks ranks_here(const struct manager_group *g)
{
	struct fpisa_ranks ranks = FPISA_NO_RANKS;

	for (__u32 r = 0; r < g->record.size; r++)
		if (g->caller[r]->here)
			fpisa_ranks_add(&ranks, r);
	return ranks;
}

/* Aggregators to choose from. A rack is an index in the policy, or -1 for a host outside of the racks. */
struct candidates {
	int rack_of_rank[FPISA_MAX_RANKS];
	int only; /* rack of all aggregators; -1: they may be anywhere */
	__u32 n;
	struct fpisa_manager_aggregator at[1 + AGGREGATORS];
	struct shares_host shares[1 + AGGREGATORS];
	struct leaves_host leaves[1 + AGGREGATORS];
	int rack[1 + AGGREGATORS];
	__u64 here[1 + AGGREGATORS];  /* those of the first 64 ranks that are on its host */
	struct fpisa_ranks colocated; /* ranks whose hosts are aggregators */
};

static struct fpisa_ranks ranks_of_rack(const struct manager_group *g, const struct candidates *c, int rack)
{
	struct fpisa_ranks ranks = FPISA_NO_RANKS;

	for (__u32 r = 0; r < g->record.size; r++)
		if (c->rack_of_rank[r] == rack)
			fpisa_ranks_add(&ranks, r);
	return ranks;
}

/* Return the ranks of the site of an aggregator whose host has the ranks `here`. Within one rack, each host is a site. */
static struct fpisa_ranks ranks_of_site(const struct manager_group *g, const struct candidates *c, int rack,
					const struct fpisa_ranks *here)
{
	const struct fpisa_ranks near = ranks_of_rack(g, c, rack);

	return rack >= 0 && c->only < 0 ? near : fpisa_ranks_and(here, &near);
}

/* Add an aggregator whose host has the address `host` and the ranks `here`. */
static void add_candidate(const struct manager *m, const struct manager_group *g, struct candidates *c,
			  const struct fpisa_manager_aggregator *at, const struct fpisa_address *host, __u32 rate,
			  const struct fpisa_ranks *here)
{
	const int rack = manager_rack_of(m->policy, host);
	const bool colocated = fpisa_ranks_any(here);

	if (c->only >= 0 && rack != c->only)
		return;
	c->at[c->n] = *at;
	c->rack[c->n] = rack;
	c->here[c->n] = here->word[0];
	c->colocated = fpisa_ranks_or(&c->colocated, here);
	c->shares[c->n] = (struct shares_host){.bits = rate, .colocated = colocated};
	c->leaves[c->n++] = (struct leaves_host){.bits = rate,
						 .in_rack = rack >= 0 && c->only < 0,
						 .colocated = colocated,
						 .ranks = ranks_of_site(g, c, rack, here)};
}

/* Return the aggregator's address of the family of rank 0, or :: if it lacks an address for some ranks of the group. */
static struct fpisa_address address_in(const struct manager_group *g, const struct aggregator_record *r)
{
	const bool same = fpisa_is_ipv4(&r->address) == fpisa_is_ipv4(&g->record.local);

	if (fpisa_is_address(&r->other))
		return same ? r->address : r->other;
	return same && !group_is_mixed(&g->record) ? r->address : FPISA_NO_ADDRESS;
}

/*
 * List the aggregators to choose from, of the rack `only` if it is not -1: this datapath, and all that are connected and
 * have an address of each family of the ranks, because a rank has one socket for all of its aggregators.
 */
static void list_candidates(const struct manager *m, const struct manager_group *g, int only, struct candidates *c)
{
	const struct fpisa_manager_aggregator own = {.address = g->record.local, .port = m->aggregator_port};
	struct fpisa_ranks here = ranks_here(g);

	c->only = only;
	c->colocated = FPISA_NO_RANKS;
	c->n = 0;
	add_candidate(m, g, c, &own, &own.address, m->ops->rate(m->arg, &g->record), &here);
	for (int i = 0; i < AGGREGATORS; i++) {
		const struct manager_aggregator *a = &m->aggregator[i];
		const struct aggregator_record *r = &a->record;
		const struct fpisa_manager_aggregator at = {.address = address_in(g, r), .port = (__u16)r->port};

		if (!a->caller || m->now_ms < a->not_before_ms || !fpisa_is_address(&at.address) ||
		    (fpisa_same_address(&at.address, &own.address) && at.port == own.port))
			continue;
		here = ranks_of_host(g, r);
		add_candidate(m, g, c, &at, &r->host, r->rate, &here);
	}
}

/* Return the rate of the slowest rank, or 0 if no rank knows its rate. */
static double slowest_rank(const struct manager_group *g)
{
	double slowest = 0;

	for (__u32 r = 0; r < g->record.size; r++) {
		double rate = g->caller[r]->rate;

		if (rate > 0 && (!(slowest > 0) || rate < slowest))
			slowest = rate;
	}
	return slowest;
}

/*
 * Fill in the rates; an unknown rate counts as the lowest known rate. Set *known if all are known. Return the ranks'
 * rate, bit/s.
 */
static double fill_rates(const struct manager_group *g, struct shares_host *h, __u32 n, bool *known)
{
	double slowest = slowest_rank(g), least = slowest;

	*known = slowest > 0;
	for (__u32 i = 0; i < n; i++) {
		if (h[i].bits > 0 && (!(least > 0) || h[i].bits < least))
			least = h[i].bits;
		*known &= h[i].bits > 0;
	}
	least = least > 0 ? least : UNKNOWN_RATE;
	for (__u32 i = 0; i < n; i++)
		h[i].bits = (h[i].bits > 0 ? h[i].bits : least) * 1e6;
	return (slowest > 0 ? slowest : least) * 1e6;
}

/* Drop the host with the smallest share until a call can use all remaining hosts. */
static struct shares solve(__u32 workers, double bits, struct shares_host *h, __u32 n)
{
	for (;;) {
		struct shares s = shares_of(workers, bits, h, n);
		struct shares_host *least = NULL;
		__u32 used = 0;

		for (__u32 i = 0; i < n; i++) {
			if (!h[i].weight)
				continue;
			used++;
			if (!least || h[i].share < least->share)
				least = &h[i];
		}
		if (used <= FPISA_MAX_SHARDS)
			return s;
		least->bits = 0;
	}
}

static void say_bound(struct manager *m, const struct manager_group *g, const struct candidates *c,
		      const struct shares *s, double bits)
{
	const bool all = fpisa_ranks_count(&c->colocated) == g->record.size;
	char why[256], text[512];

	if (!shares_warning(s, g->record.size, bits, g->record.aggregators, why, sizeof(why)))
		return;
	snprintf(text, sizeof(text), "group %s: %s; register more hosts (fpisa serve --manager)%s; see fpisa plan",
		 g->record.name, why, all ? "" : ", or the workers' own hosts (--colocated)");
	m->ops->say(m->arg, text);
}

/* Tell a rank the addresses of its family of the aggregators that share each vector. */
static void tell_list(struct manager *m, struct manager_group *g, __u32 rank)
{
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_AGGREGATORS);

	msg.list.n = group_shards(&g->record);
	for (__u32 i = 0; i < msg.list.n; i += FPISA_MANAGER_LISTED) {
		msg.list.first = i;
		memset(msg.list.of, 0, sizeof(msg.list.of));
		for (__u32 k = i; k < msg.list.n && k < i + FPISA_MANAGER_LISTED; k++) {
			msg.list.of[k - i] = g->record.aggregator[k];
			msg.list.of[k - i].address = manager_address_for(m, g, k, rank);
		}
		manager_tell_rank(m, g, rank, &msg);
	}
}

/* Add an aggregator to the group. */
static void take_candidate(struct manager *m, struct manager_group *g, const struct candidates *c, __u32 i, __u32 weight)
{
	const __u32 place = g->record.aggregators++;

	g->record.aggregator[place] = c->at[i];
	g->record.aggregator[place].weight = (__u16)weight;
	if (c->rack[i] >= 0)
		strcpy(g->record.rack[place], m->policy->rack[c->rack[i]]);
	g->record.elsewhere &= !manager_is_own(m, g, place);
}

/* Write why the group has no tree. */
static void explain_no_tree(const struct manager_group *g, enum leaves_choice choice, const struct leaves_tree *t,
			    char text[FPISA_MANAGER_TEXT])
{
	char a[FPISA_ADDRESS_LEN];

	if (group_is_mixed(&g->record))
		snprintf(text, FPISA_MANAGER_TEXT,
			 "group %s: no tree: its ranks have addresses of both families; let all ranks connect to the manager's "
			 "IPv4 address, or all to its IPv6 address",
			 g->record.name);
	else if (choice == LEAVES_NO_ROOT)
		snprintf(text, FPISA_MANAGER_TEXT,
			 "group %s: no tree: no aggregator can be its root; run fpisa serve --manager on a host without ranks, "
			 "outside of the racks",
			 g->record.name);
	else if (choice == LEAVES_NO_LEAF)
		snprintf(text, FPISA_MANAGER_TEXT,
			 "group %s: no tree: rank %u at %s has no aggregator in its rack, or on its host, with fewer than %d ranks; "
			 "run fpisa serve --manager there",
			 g->record.name, t->without, fpisa_address_text(&g->record.rank[t->without].address, a),
			 LEAVES_MOST);
	else if (choice == LEAVES_TOO_MANY)
		snprintf(text, FPISA_MANAGER_TEXT,
			 "group %s: no tree: the ranks are in more than %d racks and hosts; use larger racks, or smaller groups",
			 g->record.name, LEAVES_MOST);
	else
		snprintf(text, FPISA_MANAGER_TEXT,
			 "group %s: no tree: its %u ranks need one; set leaves = yes in [manager]", g->record.name,
			 g->record.size);
}

/* Report that the tree has fewer roots than the policy asks for. */
static void say_roots(struct manager *m, const struct manager_group *g)
{
	const __u32 roots = group_roots(&g->record);
	char text[512];

	if (roots >= m->policy->roots)
		return;
	snprintf(text, sizeof(text),
		 "group %s: its tree has %u of %u roots; run fpisa serve --manager on more hosts without ranks, outside of the racks",
		 g->record.name, roots, m->policy->roots);
	m->ops->say(m->arg, text);
}

/*
 * Choose a tree, if the policy allows trees, the ranks have one family, and there is a tree. A group with more ranks than
 * a job ends if there is none.
 */
static bool choose_tree(struct manager *m, struct manager_group *g, const struct candidates *c)
{
	enum leaves_choice choice = LEAVES_NO_USE;
	char text[FPISA_MANAGER_TEXT];
	struct leaves_tree t = {.n = 0};

	if (m->policy->leaves)
		choice = leaves_choose(c->leaves, c->n, g->record.size, m->policy->roots, &t);
	if (choice == LEAVES_TREE && !group_is_mixed(&g->record)) {
		for (__u32 i = 0; i < t.n; i++)
			take_candidate(m, g, c, t.host[i], 1);
		for (__u32 r = 0; r < g->record.size; r++)
			g->record.rank[r].leaf = t.leaf[r];
		say_roots(m, g);
		return true;
	}
	explain_no_tree(g, choice, &t, text);
	if (g->record.size > FPISA_MAX_WORKERS)
		manager_end(m, g, FPISA_MANAGER_R_size, "%s", text);
	else if (choice != LEAVES_NO_USE)
		m->ops->say(m->arg, text);
	return false;
}

/* Return the place of the aggregator with the fewest homes for its weight, of those on the host of the rank; -1: none. */
static int home_of(const struct manager_group *g, __u32 rank, const __u64 *here, const __u32 *homes)
{
	const struct fpisa_manager_aggregator *a = g->record.aggregator;
	int best = -1;

	for (int i = 0; i < (int)g->record.aggregators; i++)
		if (here[i] >> rank & 1 && (best < 0 || homes[i] * a[best].weight < homes[best] * a[i].weight))
			best = i;
	return best;
}

/* Give each rank a home, if there is an aggregator on its host. here[i] are the ranks on the host of aggregator i. */
static void choose_homes(struct manager_group *g, const __u64 *here)
{
	__u32 homes[FPISA_MAX_SHARDS] = {0};

	for (__u32 r = 0; r < g->record.size && g->record.aggregators > 1; r++) {
		const int i = home_of(g, r, here, homes);

		if (i < 0)
			continue;
		homes[i]++;
		g->home[r] = (__u8)(i + 1);
	}
}

/* Choose the aggregators that share each vector. */
static void choose_shares(struct manager *m, struct manager_group *g, struct candidates *c)
{
	__u64 here[FPISA_MAX_SHARDS];
	struct shares s;
	double bits;
	bool known;

	bits = fill_rates(g, c->shares, c->n, &known);
	s = solve(g->record.size, bits, c->shares, c->n);
	for (__u32 i = 0; i < c->n; i++) {
		if (!c->shares[i].weight)
			continue;
		here[g->record.aggregators] = c->here[i];
		take_candidate(m, g, c, i, c->shares[i].weight);
	}
	choose_homes(g, here);
	if (known)
		say_bound(m, g, c, &s, bits);
}

void manager_choose(struct manager *m, struct manager_group *g)
{
	struct candidates c = {.n = 0};
	struct fpisa_ranks near;

	for (__u32 r = 0; r < g->record.size; r++) {
		c.rack_of_rank[r] = manager_rack_of(m->policy, &g->record.rank[r].address);
		g->record.rank[r].leaf = 0;
	}
	/* A group within one rack does not use other racks, if its rack has an aggregator. */
	near = ranks_of_rack(g, &c, c.rack_of_rank[0]);
	if (fpisa_ranks_count(&near) == g->record.size)
		list_candidates(m, g, c.rack_of_rank[0], &c);
	if (!c.n)
		list_candidates(m, g, -1, &c);
	g->record.elsewhere = 1;
	g->record.aggregators = 0;
	memset(g->record.aggregator, 0, sizeof(g->record.aggregator));
	memset(g->record.rack, 0, sizeof(g->record.rack));
	memset(g->home, 0, sizeof(g->home));
	if (!choose_tree(m, g, &c) && !g->over.reason)
		choose_shares(m, g, &c);
	for (__u32 r = 0; r < g->record.size && group_shards(&g->record) > 1; r++)
		tell_list(m, g, r);
}

/* -- messages of aggregators -------------------------------------------------------- */

static struct manager_group *find_group(struct manager *m, __u64 id, const struct manager_aggregator *a, int *i)
{
	for (int k = 0; k < GROUPS; k++) {
		struct manager_group *g = &m->group[k];

		if (g->record.id != id)
			continue;
		*i = place_in_group(g, &a->record);
		return *i < 0 ? NULL : g;
	}
	return NULL;
}

static void take_made(struct manager *m, struct manager_group *g, __u32 i, const struct fpisa_manager_made *msg)
{
	struct manager_made made = {.place = manager_place(m, g),
				    .index = msg->index,
				    .id = msg->group,
				    .err = msg->err,
				    .reason = msg->err ? msg->number : 0,
				    .number = msg->err ? 0 : msg->number,
				    .spec = msg->spec};

	snprintf(made.text, sizeof(made.text), "%s", msg->text);
	manager_aggregator_of(m, g, i)->not_before_ms = msg->err && !msg->spec.elements ? m->now_ms + AGAIN_MS : 0;
	manager_made_at(m, i, &made);
}

/* Note that an aggregator, which may have two places, holds the group's jobs. */
static void note_held(struct manager *m, struct manager_group *g, const struct manager_aggregator *a)
{
	for (__u32 i = 0; i < g->record.aggregators; i++)
		if (manager_aggregator_of(m, g, i) == a)
			g->unheld[i] = false;
}

bool manager_aggregator_message(struct manager *m, struct manager_caller *c, const struct fpisa_manager_message *msg)
{
	struct manager_aggregator *a = &m->aggregator[c->aggregator - 1];
	struct manager_group *g;
	int i = 0;

	switch ((enum fpisa_manager_type)msg->type) {
	case FPISA_MANAGER_MADE:
		g = find_group(m, msg->made.group, a, &i);
		if (g)
			take_made(m, g, (__u32)i, &msg->made);
		return true;
	case FPISA_MANAGER_HOLDS:
		g = find_group(m, msg->of.group, a, &i);
		if (g)
			note_held(m, g, a);
		else
			manager_send_drop(m, c, msg->of.group);
		return true;
	case FPISA_MANAGER_ENDED:
		g = find_group(m, msg->of.group, a, &i);
		if (g)
			end_group(m, g, (__u32)i, fpisa_manager_cause_text(FPISA_MANAGER_KILLED));
		return true;
	default:
		return false;
	}
}
