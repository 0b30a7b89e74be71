/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stand-ins for the handles of groups' jobs (user/lib/handle.h, hold.h). They check that a handle is bound before it
 * joins, joins once, and fails at most once.
 */
#ifndef FUZZ_HANDLES_H
#define FUZZ_HANDLES_H

#include "lib/handle.h"
#include "lib/hold.h"

#define HANDLES 32

struct fake_handle {
	struct fpisa f; /* must be the first member */
	int error, bound, joined;
	uint64_t number;  /* number of the call in progress; 0: none */
	uint64_t barrier; /* number of the barrier in progress; 0: none */
	uint64_t whole;	  /* number of the last call with results */
};

extern struct fake_handle fake_handle[HANDLES];
extern int fake_bind_error; /* error of the next fpisa_hold_bind(); 0: none */

/* Make the handle new, and return it. */
struct fpisa *fake_handle_new(size_t i);

/* Check that the text is one line of printable characters. */
void check_line(const char *text, size_t size);

#endif
