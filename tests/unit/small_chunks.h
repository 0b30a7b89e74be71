/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An aggregator in the process with small chunks, so that short calls have several, for test_requests.c and
 * test_restore.c
 */
#ifndef TESTS_SMALL_CHUNKS_H
#define TESTS_SMALL_CHUNKS_H

#include "workers.h"

#define ELEMENTS 32
#define WINDOW 4

static inline struct fpisa_mem *make_mem(uint32_t workers)
{
	const struct fpisa_mem_options o = {
		.size = sizeof(o), .workers = workers, .elements = ELEMENTS, .window = WINDOW};
	struct fpisa_mem *m;

	if (fpisa_mem_create(&m, &o))
		fail_msg("%s", fpisa_error());
	return m;
}

static inline struct fpisa *alone(struct fpisa_mem **m, const struct fpisa_options *o)
{
	struct fpisa *f = NULL;

	*m = make_mem(1);
	if (fpisa_mem_connect(&f, *m, 0, o))
		fail_msg("%s", fpisa_error());
	return f;
}

#endif
