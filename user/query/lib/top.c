/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The first N rows. top.h documents the functions. */
#include <errno.h>
#include <stdlib.h>
#include "lib/base/error.h"
#include "top.h"

#define SPARE 1024 /* room for more rows than twice the limit, which makes sorting rare */

uint64_t fpisa_top_bytes(size_t limit)
{
	return (2 * limit + SPARE) * sizeof(struct fpisa_top_row);
}

int fpisa_top_too_big(uint64_t limit, uint64_t memory)
{
	return fpisa_fail(-E2BIG, "the first %llu rows exceed the limit of %llu bytes", (unsigned long long)limit,
			  (unsigned long long)memory);
}

int fpisa_top_init(struct fpisa_top *t, size_t limit)
{
	*t = (struct fpisa_top){.limit = limit, .room = 2 * limit + SPARE};
	t->rows = malloc(fpisa_top_bytes(limit));
	return t->rows ? 0 : fpisa_fail(-ENOMEM, "no memory for the first %zu rows", limit);
}

void fpisa_top_free(struct fpisa_top *t)
{
	free(t->rows);
	*t = (struct fpisa_top){0};
}

static int compare(const void *a, const void *b)
{
	const struct fpisa_top_row *x = a, *y = b;

	if (x->place != y->place)
		return x->place > y->place ? -1 : 1;
	if (x->worker != y->worker)
		return x->worker < y->worker ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

void fpisa_top_settle(struct fpisa_top *t)
{
	qsort(t->rows, t->n, sizeof(*t->rows), compare);
	if (t->n >= t->limit) {
		t->n = t->limit;
		t->floor = t->rows[t->n - 1].place;
	}
}

void fpisa_top_add(struct fpisa_top *t, const struct fpisa_top_row *row)
{
	if (row->place < t->floor)
		return;
	if (t->n == t->room)
		fpisa_top_settle(t);
	t->rows[t->n++] = *row;
}

void fpisa_top_end(struct fpisa_top *t)
{
	struct fpisa_top_row *rows;

	fpisa_top_settle(t);
	rows = realloc(t->rows, (t->n + 1) * sizeof(*rows));
	if (!rows)
		return;
	t->rows = rows;
	t->room = t->n + 1;
}
