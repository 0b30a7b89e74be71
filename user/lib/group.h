/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A group: a connection (link.c), and a handle for each format that its calls
 * have used, whose job the manager makes when all ranks have made their first such call. Calls are numbered over all formats.
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
	struct fpisa_engine *engine; /* of all its handles */
	uint64_t join_ns;
};

/* Under the link's lock, as the next: the handle for values of a type, made at the first use. Returns at once. */
int fpisa_group_handle(struct fpisa_group *g, uint32_t type, struct fpisa **f);

/* The type of the group's first job that was not refused, which all ranks have alike: waits until that is known, or does not and returns -EAGAIN. FPISA_FLOAT32 if it has none. */
int fpisa_group_first_type(struct fpisa_group *g, int to_wait, uint32_t *type);

/* -ECHILD: it belongs to another process. -EBUSY: a call that waits, within a callback. */
int fpisa_group_refuse_inherited(const struct fpisa_group *g);
int fpisa_group_refuse_inside(const struct fpisa_group *g);

#endif
