/* SPDX-License-Identifier: GPL-2.0-only */
/* The aggregators of a group, including its manager's own datapath, and messages to aggregators on other hosts */
#ifndef FPISA_MANAGER_REMOTE_H
#define FPISA_MANAGER_REMOTE_H

#include "group.h"

/* Return whether the aggregator has registered this address, perhaps as its second. */
bool manager_has_address(const struct aggregator_record *r, const struct fpisa_address *address);

/*
 * Find the aggregator that has registered this address, perhaps as its second, and this port. It may be gone. Return NULL
 * if none has registered.
 */
struct manager_aggregator *manager_aggregator(struct manager *m, const struct fpisa_address *address, __u32 port);

/* Return the group's aggregator i, or NULL, even if that is this datapath. */
struct manager_aggregator *manager_aggregator_of(struct manager *m, const struct manager_group *g, __u32 i);

/* Return whether the group's aggregator i is this datapath. */
bool manager_is_own(const struct manager *m, const struct manager_group *g, __u32 i);

/* Return the address of the group's aggregator i for a rank. */
struct fpisa_address manager_address_for(struct manager *m, const struct manager_group *g, __u32 i, __u32 rank);

/*
 * A job of a group is one job at each of its aggregators, and in a tree one at each root, and then one below each root at
 * each leaf. manager_steps() returns their number. manager_at() returns the place of the aggregator that creates the job
 * of this step, from 0.
 */
__u32 manager_steps(const struct manager_group *g, __u32 index);
__u32 manager_at(const struct manager_group *g, __u32 step);

/*
 * Return whether the aggregator at place `i` now creates the job of this index. An aggregator that is the root of a tree
 * and a leaf has two places.
 */
bool manager_makes(const struct manager_group *g, __u32 index, __u32 i);

/* Return whether aggregator `i` of a tree is a leaf on the datapath of the root. */
bool manager_is_beside_root(const struct manager_group *g, __u32 i);

/* Return whether the group's job of this index is a tree. A group with a tree has its other jobs at the roots alone. */
bool manager_is_tree(const struct manager_group *g, __u32 index);

/* Return whether a job takes slots that have superaccumulators, as all jobs of trees do. */
bool manager_needs_exact_slots(const struct manager_group *g, __u32 index);

/* Return whether the manager's own datapath, at UDP port `port`, has the job of this index of a group's record. */
bool manager_has_job(const struct group_record *r, __u32 index, __u16 port);

/* Return how many of the group's aggregators, the first of its list, have this job. */
__u32 manager_aggregators_of(const struct manager_group *g, __u32 index);

/*
 * Have the aggregator of the current step create the job of this index with this window; manager_made_at() gets the
 * answer. Return false if the aggregator is gone.
 */
bool manager_make_next(struct manager *m, struct manager_group *g, __u32 index, __u32 window);

/*
 * Tell the aggregators on other hosts to delete the jobs of a group that has ended; manager_send_drop() tells one
 * aggregator.
 */
void manager_drop_jobs(struct manager *m, const struct manager_group *g);
void manager_send_drop(struct manager *m, struct manager_caller *to, __u64 group);

#endif
