/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Keep the aggregators that have registered, and choose a group's aggregators among them and the manager's own
 * datapath. A group keeps its aggregators until it ends. If one of them dies, the group ends.
 */
#ifndef FPISA_MANAGER_AGGREGATORS_H
#define FPISA_MANAGER_AGGREGATORS_H

#include "group.h"

/* Register an aggregator, which gets shares from now on. If it is refused, set *why, which was 0, to the reason. */
void manager_register(struct manager *m, struct manager_caller *c, const struct fpisa_manager_register *r,
		      struct fpisa_manager_refusal *why);

/* Handle another message of a registered aggregator. Return false if the message is not allowed. */
bool manager_aggregator_message(struct manager *m, struct manager_caller *c, const struct fpisa_manager_message *msg);

/* End the groups that have jobs at an aggregator whose connection has ended. */
void manager_aggregator_lost(struct manager *m, struct manager_caller *c, enum fpisa_manager_cause cause);

/* Handle aggregators that have fallen silent, or did not come back after a restart. */
void manager_aggregators_tick(struct manager *m);

/* Fill in the aggregators of a group whose ranks have all joined, and tell the ranks if there are several. */
void manager_choose(struct manager *m, struct manager_group *g);

#endif
