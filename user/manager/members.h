/* SPDX-License-Identifier: GPL-2.0-only */
/* What group.c and jobs.c know of a group: who is in it, telling them, its record, its end. */
#ifndef FPISA_MANAGER_MEMBERS_H
#define FPISA_MANAGER_MEMBERS_H

#include "group.h"

__u32 manager_place(const struct manager *m, const struct manager_group *g);

/* Ranks in a state, as a bitmap. */
__u64 manager_in(const struct manager_group *g, enum manager_rank state);

void manager_tell(struct manager *m, struct manager_group *g, __u64 ranks, const struct fpisa_manager_message *msg);
void manager_record(struct manager *m, struct manager_group *g);

/* No call of the group ends any more: all ranks hear why, those too that come back; the first reason counts. */
__attribute__((format(printf, 4, 5))) void manager_end(struct manager *m, struct manager_group *g,
						       enum fpisa_manager_reason reason, const char *format, ...);

/* Groups of a key that some have left or died in, and others not yet. */
__u32 manager_ending(const struct manager *m, const char *owner);

/* Its jobs go when nobody is in it, or comes back. A job that is being made is waited for: it could not be found. */
void manager_end_if_empty(struct manager *m, struct manager_group *g);

/* Does a job that is asked for in these words have superaccumulators, for which there are fewer slots? */
bool manager_is_exact(const struct fpisa_manager_spec *s);

/* Slots that such jobs have. */
__u32 manager_used_exact(const struct manager *m);

#endif
