/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A group: a connection (link.c), and a handle for each format that its calls
 * have used: a job that the manager makes when all ranks make their first such call.
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
	const struct fpisa_link_job *making; /* under link.lock: what a thread is making; others wait with a type that has none */
};

/* The handle for values of a type; made at the first use, which -EBUSY refuses on the thread that moves requests. */
int fpisa_group_handle(struct fpisa_group *g, uint32_t type, struct fpisa **f);

/* The type of the group's first job, which all ranks have alike; FPISA_FLOAT32 if it has none. -EBUSY as before. */
int fpisa_group_first_type(struct fpisa_group *g, uint32_t *type);

/* -ECHILD: it belongs to another process. */
int fpisa_group_refuse_inherited(const struct fpisa_group *g);

#endif
