/* SPDX-License-Identifier: GPL-2.0-only */
/* Which aggregators a group has, its manager's own datapath among them, and what those of other hosts are told. */
#ifndef FPISA_MANAGER_REMOTE_H
#define FPISA_MANAGER_REMOTE_H

#include "group.h"

/* The one that is there, or not any more, with that address and port; NULL: none has been. */
struct manager_aggregator *manager_aggregator(struct manager *m, __be32 address, __u32 port);

/* The group's aggregator i; NULL also if that is this datapath. */
struct manager_aggregator *manager_aggregator_of(struct manager *m, const struct manager_group *g, __u32 i);

/* Is it this datapath? */
bool manager_is_own(const struct manager *m, const struct manager_group *g, __u32 i);

/* The job of this index goes to the group's aggregator i, with this window; manager_made_at() has the answer. False: that one is gone. */
bool manager_make_at(struct manager *m, struct manager_group *g, __u32 index, __u32 i, __u32 window);

/* The group is over: its aggregators of other hosts delete its jobs; one of them does, to whom it is told. */
void manager_drop_jobs(struct manager *m, const struct manager_group *g);
void manager_send_drop(struct manager *m, struct manager_caller *to, __u64 group);

#endif
