// SPDX-License-Identifier: GPL-2.0-only
/* The manager's groups and their resources; group_view.h has the contracts. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/print.h"
#include "group_view.h"

/* -- reading ------------------------------------------------------------------ */

__u32 manager_view_next(const struct manager_view *v, __u32 place, const char *name, struct group_record *r, int *err)
{
	*err = 0;
	for (; v->any && place < GROUPS; place++) {
		*err = datapath_group_get(&v->groups, place, r);
		if (*err)
			return GROUPS;
		if (r->id && (!name || !strcmp(r->name, name)) && (v->pid || !group_gathers(r)))
			return place;
	}
	return GROUPS;
}

__u32 manager_view_aggregator(const struct manager_view *v, __u32 place, struct aggregator_record *r, int *err)
{
	*err = 0;
	for (; v->any && v->pid && place < AGGREGATORS; place++) {
		*err = datapath_aggregator_get(&v->groups, place, r);
		if (*err)
			return AGGREGATORS;
		if (fpisa_is_address(&r->address))
			return place;
	}
	return AGGREGATORS;
}

void aggregator_print(const struct aggregator_record *r, const char *label)
{
	char a[ENDPOINT_LEN], b[ENDPOINT_LEN], host[ADDRESS_LEN];
	const bool two = fpisa_is_address(&r->other);

	printf("%-11s %s%s%s of host %s, key %s", label, fpisa_endpoint_text(&r->address, (__u16)r->port, a),
	       two ? " and " : "", two ? fpisa_endpoint_text(&r->other, (__u16)r->port, b) : "",
	       address_text(r->host, host), *r->owner ? r->owner : "none");
	if (r->rate)
		printf(", %g Gbit/s", r->rate / 1e3);
	printf(r->gone ? ": gone, %s\n" : ", %s\n", r->gone ? fpisa_manager_cause_text(r->gone) : "there");
}

struct fpisa_ranks group_here(const struct group_record *r)
{
	const struct fpisa_ranks ended = fpisa_ranks_or(&r->left, &r->gone);

	return fpisa_ranks_without(&r->joined, &ended);
}

struct fpisa_ranks group_missing(const struct group_record *r)
{
	const struct fpisa_ranks all = fpisa_ranks_all(r->size);

	return fpisa_ranks_without(&all, &r->joined);
}

double group_age(const struct group_record *r)
{
	__u64 now = (__u64)time(NULL);

	return now > r->since ? (double)(now - r->since) : 0;
}

__u32 group_job_number(const struct group_record *r, int k)
{
	return r->elsewhere ? r->job[k].at[0] : r->job[k].number;
}

void group_print_aggregators(const struct group_record *r, const char *before)
{
	const __u32 roots = group_roots(r);
	char a[ENDPOINT_LEN], ranks[RANKS_LEN];

	for (__u32 i = 0; i < r->aggregators && (r->aggregators > 1 || r->elsewhere); i++) {
		const struct fpisa_ranks leaf = group_leaf_ranks(r, i);
		const char *label = !roots ? "shares" : i ? "leaves" : roots > 1 ? "roots" : "root";

		printf("%s%-11s %s", before, i && i != roots ? "" : label,
		       fpisa_endpoint_text(&r->aggregator[i].address, r->aggregator[i].port, a));
		if (*r->rack[i])
			printf(" in rack %s", r->rack[i]);
		if (!roots)
			printf(", weight %u", r->aggregator[i].weight);
		else if (i >= roots)
			printf(", ranks %s", group_ranks_text(&leaf, ranks));
		putchar('\n');
	}
}

static int add_up(struct manager_view *v)
{
	struct fpisa_ranks here;
	struct group_record r;
	int err;

	for (__u32 i = 0; (i = manager_view_next(v, i, NULL, &r, &err)) < GROUPS; i++) {
		if (group_gathers(&r))
			continue;
		v->now_groups++;
		here = group_here(&r);
		v->now_ranks += fpisa_ranks_count(&here);
		for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
			v->now_jobs += r.job[k].state == FPISA_GROUP_JOB_MADE;
	}
	return err;
}

int manager_view_open(struct datapath *dp, struct manager_view *v)
{
	int err;

	*v = (struct manager_view){.any = false};
	err = datapath_groups_open(dp, false, &v->groups);
	if (err)
		return err == -ENOENT ? 0 : err;
	v->any = true;
	v->agent = datapath_is_agent(dp, &v->groups, &v->own);
	err = datapath_groups_manager(&v->groups, &v->pid)	     ?:
		      datapath_groups_counts(&v->groups, &v->counts) ?:
								       add_up(v);
	if (err)
		manager_view_close(v);
	return err;
}

void manager_view_close(struct manager_view *v)
{
	if (v->any)
		datapath_groups_close(&v->groups);
	v->any = false;
}

const char *manager_reason_name(__u32 reason)
{
	static const char *const names[] = {
#define X(name, number, error) [number] = #name,
		FPISA_MANAGER_REASONS(X)
#undef X
	};

	return reason < FPISA_MANAGER_R_END ? names[reason] : NULL;
}

/* -- JSON ------------------------------------------------------------------- */

struct json_object *aggregator_json(const struct aggregator_record *r)
{
	struct json_object *o = json_object_new_object();
	char a[ADDRESS_LEN];

	json_add_string(o, "address", address_text(r->address, a));
	json_add_string(o, "other_address", fpisa_is_address(&r->other) ? address_text(r->other, a) : NULL);
	json_add_number(o, "port", r->port);
	json_add_string(o, "host", address_text(r->host, a));
	json_add_string(o, "key", *r->owner ? r->owner : NULL);
	json_add_number(o, "mbits", r->rate);
	json_add_number(o, "slots", r->slots);
	json_add_string(o, "gone", r->gone ? fpisa_manager_cause_text(r->gone) : NULL);
	return o;
}

/*
 * Return the group's shares, including the share of the manager's own datapath. In a tree, the first aggregators are the
 * roots, and the others, the leaves, have the ranks of their hosts or racks.
 */
static struct json_object *shares_json(const struct group_record *r)
{
	struct json_object *list = json_object_new_array();
	char a[ADDRESS_LEN];

	for (__u32 i = 0; i < r->aggregators; i++) {
		const struct fpisa_ranks leaf = group_leaf_ranks(r, i);
		struct json_object *o = json_object_new_object();

		json_add_string(o, "address", address_text(r->aggregator[i].address, a));
		json_add_number(o, "port", r->aggregator[i].port);
		json_add_number(o, "weight", r->aggregator[i].weight);
		json_add_string(o, "rack", *r->rack[i] ? r->rack[i] : NULL);
		if (group_has_tree(r))
			json_object_object_add(o, "ranks", group_ranks_json(&leaf));
		json_object_array_add(list, o);
	}
	return list;
}

struct json_object *group_json(const struct group_record *r, bool whole)
{
	struct json_object *o = json_object_new_object(), *jobs = json_object_new_array(), *members;
	const struct fpisa_ranks here = group_here(r), missing = group_missing(r);
	char a[ADDRESS_LEN];

	json_add_string(o, "name", r->name);
	json_add_string(o, "key", *r->owner ? r->owner : NULL);
	json_add_number(o, "size", r->size);
	json_add_double(o, "lives_s", group_age(r));
	json_object_object_add(o, "here", group_ranks_json(&here));
	json_object_object_add(o, "missing", group_ranks_json(&missing));
	json_object_object_add(o, "left", group_ranks_json(&r->left));
	json_object_object_add(o, "gone", group_ranks_json(&r->gone));
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
		if (r->job[k].state == FPISA_GROUP_JOB_MADE)
			json_object_array_add(jobs, json_object_new_uint64(group_job_number(r, k)));
	json_object_object_add(o, "jobs", jobs);
	json_object_object_add(o, "shares", shares_json(r));
	if (!whole)
		return o;
	members = json_object_new_array();
	for (__u32 i = 0; i < r->size; i++)
		json_object_array_add(members, fpisa_ranks_has(&r->joined, i) ?
						       json_object_new_string(address_text(r->rank[i].address, a)) :
						       NULL);
	json_object_object_add(o, "members", members);
	return o;
}
