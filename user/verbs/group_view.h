/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The resources that the manager of groups has given away, for the verbs that show them. They come from its records,
 * whether it runs or not.
 */
#ifndef FPISA_VERBS_GROUP_VIEW_H
#define FPISA_VERBS_GROUP_VIEW_H

#include <json-c/json.h>

#include "datapath/groups.h"

struct manager_view {
	struct datapath_groups groups;
	bool any;   /* a manager has run since the datapath was loaded; otherwise the other members are 0 */
	pid_t pid;  /* the running manager; 0: none runs */
	bool agent; /* the datapath serves the manager of another host, with the registration `own` */
	struct aggregator_record own;
	struct manager_counts counts;
	__u32 now_groups, now_ranks, now_jobs; /* current numbers, of complete groups; ranks that are connected */
};

/* Open the records of an open datapath. Return 0 or -errno, reported. */
int manager_view_open(struct datapath *dp, struct manager_view *v);
void manager_view_close(struct manager_view *v);

/*
 * Find the next group from `place` on, with that name if `name` is not NULL. Return its place, or GROUPS with *err 0 or
 * -errno. An incomplete group counts only while its manager runs, because its ranks then join again.
 */
__u32 manager_view_next(const struct manager_view *v, __u32 place, const char *name, struct group_record *r, int *err);

/*
 * Find the next registered aggregator from `place` on. Return its place, or AGGREGATORS with *err 0 or -errno. If no
 * manager runs, no aggregator is found.
 */
__u32 manager_view_aggregator(const struct manager_view *v, __u32 place, struct aggregator_record *r, int *err);
void aggregator_print(const struct aggregator_record *r, const char *label);
struct json_object *aggregator_json(const struct aggregator_record *r);

struct fpisa_ranks group_here(const struct group_record *r);	/* the connected ranks */
struct fpisa_ranks group_missing(const struct group_record *r); /* the ranks that have not joined yet */
double group_age(const struct group_record *r);			/* seconds */

/* Return the number of the group's job of index k: on this datapath, or at the group's first aggregator if it is elsewhere. */
__u32 group_job_number(const struct group_record *r, int k);

/* Print the group's aggregators with their shares, or the root and the leaves of its tree. Begin each line with `before`. */
void group_print_aggregators(const struct group_record *r, const char *before);
struct json_object *group_json(const struct group_record *r, bool whole);

/* Return the name of a reason of refusals, as in its counter and its metric. Return NULL if the number is not a reason. */
const char *manager_reason_name(__u32 reason);

#endif
