/* SPDX-License-Identifier: GPL-2.0-only */
/* Operations that the manager calls (manager/group.h). Both targets of the manager use the same stand-ins. */
#ifndef FUZZ_MANAGER_H
#define FUZZ_MANAGER_H

#include "check.h"
#include "manager/group.h"

static void note_aggregator(void *arg, __u32 place, const struct aggregator_record *r)
{
	(void)arg;
	CHECK(place < AGGREGATORS && fpisa_is_address(&r->address) && r->port);
}

static void say(void *arg, const char *text)
{
	(void)arg;
	CHECK(*text);
}

/* Return a link's rate in Mbit/s. */
static __u32 rate(void *arg, const struct group_record *r)
{
	(void)arg;
	return r->local.w[3] & 1 ? 10000 : 0;
}

#endif
