// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The arrays of a reduce-scatter. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "shim.h"

static int part_of(const struct parts *p, int rank)
{
	return p->counts ? p->counts[rank] : p->each;
}

struct parts parts_of(const int counts[], int each, MPI_Comm c)
{
	struct parts p = {.counts = counts, .each = each};
	int size = 0, rank = 0;

	if (c == MPI_COMM_NULL || PMPI_Comm_size(c, &size) || PMPI_Comm_rank(c, &rank))
		return p;
	for (int r = 0; r < size; r++) {
		if (part_of(&p, r) < 0 || part_of(&p, r) > INT_MAX - p.all) {
			p.all = 0;
			return p;
		}
		p.all += part_of(&p, r);
	}
	p.own = part_of(&p, rank);
	return p;
}

int scatter_prepare(struct scatter *s, const struct comm *m, struct fpisa_call *call, const struct parts *p,
		    size_t size, int discards)
{
	const size_t each = call->count / (size_t)p->all;

	*s = (struct scatter){.to = discards ? NULL : call->recv, .bytes = (size_t)p->own * each * size};
	s->counts = malloc((size_t)m->size * sizeof(*s->counts));
	if (s->bytes && (discards || call->send == call->recv))
		call->recv = s->own = malloc(s->bytes);
	if (!s->counts || (s->bytes && !call->recv)) {
		scatter_end(s, 1);
		return 0;
	}
	if (!s->bytes)
		call->recv = NULL;
	for (int r = 0; r < m->size; r++)
		s->counts[r] = (size_t)part_of(p, r) * each;
	return 1;
}

void scatter_end(struct scatter *s, int rc)
{
	if (!rc && s->own && s->to)
		memcpy(s->to, s->own, s->bytes);
	free(s->counts);
	free(s->own);
	*s = (struct scatter){0};
}
