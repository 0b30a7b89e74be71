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
	int busy;
};

/* The handle for values of a type; made at the first use. */
int fpisa_group_handle(struct fpisa_group *g, uint32_t type, struct fpisa **f);

#endif
