/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The first N rows. top.h documents the functions. */
#include <errno.h>
#include <stdlib.h>
#include "fpisa/query/order.h"
#include "lib/base/error.h"
#include "top.h"

#define SPARE 1024 /* room for more rows than twice the limit, which makes sorting rare */

uint64_t fpisa_top_bytes(size_t limit)
{
	return (2 * limit + SPARE) * sizeof(struct fpisa_top_row);
}

int fpisa_top_too_big(uint64_t limit, uint64_t memory)
{
	return fpisa_fail(-E2BIG,
			  "the first %llu rows do not fit options.memory (%llu bytes); raise options.memory, "
			  "or lower options.limit",
			  (unsigned long long)limit, (unsigned long long)memory);
}

int fpisa_top_init(struct fpisa_top *t, size_t limit)
{
	*t = (struct fpisa_top){.limit = limit, .room = 2 * limit + SPARE};
	t->rows = malloc(fpisa_top_bytes(limit));
	return t->rows ? 0 : fpisa_fail(-ENOMEM, "not enough memory for the first %zu rows; " FPISA_MORE_MEMORY, limit);
}

void fpisa_top_free(struct fpisa_top *t)
{
	free(t->rows);
	*t = (struct fpisa_top){0};
}

/* -- rows in the order of the query --------------------------------------------- */

static void complement(struct fpisa_top_row *t)
{
	t->place = ~t->place;
	t->rest[0] = ~t->rest[0];
	t->rest[1] = ~t->rest[1];
}

struct fpisa_top_row fpisa_top_row_of(const struct fpisa_row *r, uint32_t form, int ascending)
{
	struct fpisa_top_row t = {.place = fpisa_short_place(r, form), .row = r->key[0]};

	if (form == FPISA_FORM_DOUBLE) {
		t.rest[0] = fpisa_order_key64(r->wide[0]);
	} else if (fpisa_form_is_integer(form)) {
		t.rest[0] = r->wide[0];
		t.rest[1] = r->wide[1] ^ 1ull << 63;
	}
	if (ascending)
		complement(&t);
	return t;
}

struct fpisa_row fpisa_top_row_back(const struct fpisa_top_row *t, uint32_t form, int ascending)
{
	struct fpisa_row r = {.key = {t->row}, .count = 1};
	struct fpisa_top_row up = *t;

	if (ascending)
		complement(&up);
	r.value = fpisa_form_is_wide(form) ? up.place : fpisa_order_value(up.place);
	if (form == FPISA_FORM_DOUBLE) {
		r.wide[0] = fpisa_order_value64(up.rest[0]);
	} else if (fpisa_form_is_integer(form)) {
		r.wide[0] = up.rest[0];
		r.wide[1] = up.rest[1] ^ 1ull << 63;
	}
	return r;
}

int fpisa_top_compare(const struct fpisa_top_row *x, const struct fpisa_top_row *y)
{
	if (x->place != y->place)
		return x->place > y->place ? -1 : 1;
	for (int i = 1; i >= 0; i--)
		if (x->rest[i] != y->rest[i])
			return x->rest[i] > y->rest[i] ? -1 : 1;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct fpisa_top_row *x = a, *y = b;
	int order = fpisa_top_compare(x, y);

	if (order)
		return order;
	if (x->worker != y->worker)
		return x->worker < y->worker ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* -- the first rows ------------------------------------------------------------- */

void fpisa_top_settle(struct fpisa_top *t)
{
	qsort(t->rows, t->n, sizeof(*t->rows), compare);
	if (t->n >= t->limit) {
		t->n = t->limit;
		t->floor = t->rows[t->n - 1];
	}
}

void fpisa_top_add(struct fpisa_top *t, const struct fpisa_top_row *row)
{
	if (fpisa_top_compare(row, &t->floor) > 0)
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
