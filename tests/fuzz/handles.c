/* SPDX-License-Identifier: GPL-2.0-only */
/* Handles without a job. See handles.h for the contracts. */
#include <string.h>
#include "check.h"
#include "fpisa/job.h"
#include "handles.h"

struct fake_handle fake_handle[HANDLES];
int fake_bind_error;

static struct fake_handle *fake_of(struct fpisa *f)
{
	struct fake_handle *h = (struct fake_handle *)f;

	CHECK(h >= fake_handle && h < fake_handle + HANDLES);
	return h;
}

struct fpisa *fake_handle_new(size_t i)
{
	struct fake_handle *h = &fake_handle[i];

	h->f.heard_ns = h->f.waiting_ns = 0;
	memset(&h->error, 0, sizeof(*h) - offsetof(struct fake_handle, error));
	return &h->f;
}

void check_line(const char *text, size_t size)
{
	size_t n = strnlen(text, size);

	CHECK(n < size);
	for (size_t i = 0; i < n; i++)
		CHECK(text[i] >= ' ' && text[i] <= '~');
}

/* -- replacements for functions of the library ----------------------------------------- */

int fpisa_handle_fail(struct fpisa *f, int error, const struct fpisa_ranks *missing, const char *sentence)
{
	CHECK(missing && error < 0 && *sentence && !fake_of(f)->error);
	fake_of(f)->error = error;
	return error;
}

void fpisa_handle_standing(struct fpisa *f, struct fpisa_standing *s)
{
	const struct fake_handle *h = fake_of(f);

	memset(s, 0, sizeof(*s));
	s->error = h->error;
	strcpy(s->message, "as it was told");
	s->number = h->number;
	s->tag = h->number;
	s->count = h->number & 1;
	s->first_unfinished = h->number;
	s->unfinished_barrier = h->barrier;
	s->last_whole = h->whole;
	s->stuck_ns = h->f.waiting_ns;
}

int fpisa_hold_bind(struct fpisa *f, const struct fpisa_aggregator *a, uint16_t local_port)
{
	CHECK(fpisa_is_address(&a->address) && a->port && local_port && !fake_of(f)->joined);
	fake_of(f)->bound = !fake_bind_error;
	return fake_bind_error ? fpisa_fail(fake_bind_error, "no socket") : 0;
}

void fpisa_hold_join(struct fpisa *f, const uint32_t *job, const struct fpisa_key *token,
		     const struct fpisa_leaf_ranks *leaf)
{
	CHECK(*job < FPISA_MAX_JOBS && token && fake_of(f)->bound && !fake_of(f)->joined && leaf->n <= FPISA_MAX_WORKERS);
	for (uint32_t i = 0; i < leaf->n; i++)
		CHECK(leaf->rank[i] < FPISA_MAX_RANKS);
	fake_of(f)->joined = 1;
}
