/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A group has a link (link.c) on a connection, and a handle for each format that its calls have used. The manager
 * creates the job of a handle when all ranks have made their first call of the format. Calls of all formats have one
 * sequence of numbers.
 */
#ifndef FPISA_GROUP_H
#define FPISA_GROUP_H

#include <stdint.h>
#include "fpisa.h"
#include "handle.h"
#include "link.h"

struct fpisa_group {
	struct fpisa_link link;
	struct fpisa_group_options options;
	struct fpisa_engine *engine; /* the engine of all handles of the group */
	uint64_t join_ns;
};

/*
 * Set *f to the handle for values of a type. Create the handle at the first use. This function does not wait. Call this
 * function and the next one under the lock of the link.
 */
int fpisa_group_handle(struct fpisa_group *g, uint32_t type, struct fpisa **f);

/*
 * Find the type of the group's first job that was not refused, which is the same at all ranks. If the type is not known
 * yet, wait with to_wait, or return -EAGAIN without to_wait. The type is FPISA_FLOAT32 if the group has no job.
 */
int fpisa_group_first_type(struct fpisa_group *g, int to_wait, uint32_t *type);

/*
 * Check that a call may run. Return 0, or -ECHILD if the group belongs to another process, or -EBUSY for a call that
 * waits within a callback.
 */
int fpisa_group_refuse_inherited(const struct fpisa_group *g);
int fpisa_group_refuse_inside(const struct fpisa_group *g);

#endif
