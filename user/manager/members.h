/* SPDX-License-Identifier: GPL-2.0-only */
/* The functions that group.c and jobs.c share: a group's members, messages to them, its record, its end */
#ifndef FPISA_MANAGER_MEMBERS_H
#define FPISA_MANAGER_MEMBERS_H

#include "group.h"

__u32 manager_place(const struct manager *m, const struct manager_group *g);

/* Return the ranks in a state. */
struct fpisa_ranks manager_in(const struct manager_group *g, enum manager_rank state);

/* Send a message to all connected ranks, or to one rank if it is connected. */
void manager_tell_all(struct manager *m, struct manager_group *g, const struct fpisa_manager_message *msg);
void manager_tell_rank(struct manager *m, struct manager_group *g, __u32 rank, const struct fpisa_manager_message *msg);

void manager_record(struct manager *m, struct manager_group *g);

/* Fail all further calls of the group. Tell all ranks why, also ranks that come back later. Keep the first reason. */
__attribute__((format(printf, 4, 5))) void manager_end(struct manager *m, struct manager_group *g,
						       enum fpisa_manager_reason reason, const char *format, ...);

/* Count the groups of a key that some ranks have left or died in while others have not left. */
__u32 manager_ending(const struct manager *m, const char *owner);

/*
 * Count the ranks of large groups: all ranks of the groups that live or gather, or those that are still in groups that
 * others have left or died in.
 */
__u32 manager_large_ranks(const struct manager *m, bool ending);

/* Remove a group's job from this datapath, which has it. */
void manager_remove_job(struct manager *m, const struct group_job *j);

/*
 * Remove the group's jobs if no rank is in the group or will come back. Wait for a job that is being made, which could
 * not be found otherwise.
 */
void manager_end_if_empty(struct manager *m, struct manager_group *g);

/* Return how many slots such jobs have. */
__u32 manager_used_exact(const struct manager *m);

#endif
