/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Aggregators that have registered, and which of them a group gets. The manager's own datapath is one of those to choose from. A group
 * keeps what it got until it ends: the death of one ends the group.
 */
#ifndef FPISA_MANAGER_AGGREGATORS_H
#define FPISA_MANAGER_AGGREGATORS_H

#include "group.h"

/* It says what it is: it is given shares from now on; or else *why, which was 0, has a reason to refuse it. */
void manager_register(struct manager *m, struct manager_caller *c, const struct fpisa_manager_register *r,
		      struct fpisa_manager_refusal *why);

/* What one that is registered says besides; false: nothing that it may. */
bool manager_aggregator_message(struct manager *m, struct manager_caller *c, const struct fpisa_manager_message *msg);

/* Its connection is over: the groups that have jobs there end. */
void manager_aggregator_lost(struct manager *m, struct manager_caller *c, enum fpisa_manager_cause cause);

/* Those that say nothing any more, and those that did not come back after a restart. */
void manager_aggregators_tick(struct manager *m);

/* All ranks are there: fills the aggregators of the group's record, and tells the ranks if there are several. */
void manager_choose(struct manager *m, struct manager_group *g);

#endif
