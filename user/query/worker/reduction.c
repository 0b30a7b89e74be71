// SPDX-License-Identifier: GPL-2.0-only
/* Rows that a worker prunes or aggregates. reduction.h documents the functions. */
#include <string.h>

#include "fpisa/query/order.h"
#include "reduction.h"

int reduction_begin(struct reduction *r, const struct fpisa_query_open *want, bool valued, uint32_t key_bytes,
		    uint32_t form, uint64_t doubles)
{
	int err;

	*r = (struct reduction){
		.table = want->kind == FPISA_QUERY_TABLE, .ascending = want->ascending, .valued = valued, .form = form};
	err = r->table ? fpisa_groups_init(&r->groups, key_bytes, form, 0) : fpisa_top_init(&r->top, want->limit);
	r->groups.doubles = doubles;
	return err;
}

void reduction_end(struct reduction *r)
{
	fpisa_groups_free(&r->groups);
	fpisa_top_free(&r->top);
}

int reduction_add(struct reduction *r, const struct fpisa_row *row)
{
	struct fpisa_top_row top;
	uint32_t place;

	if (r->table)
		return fpisa_groups_add(&r->groups, row);
	/* Most rows are below the floor. */
	place = fpisa_short_place(row, r->form);
	if ((r->ascending ? ~place : place) < r->top.floor.place)
		return 0;
	top = fpisa_top_row_of(row, r->form, r->ascending);
	fpisa_top_add(&r->top, &top);
	return 0;
}

void reduction_settle(struct reduction *r)
{
	if (!r->table)
		fpisa_top_settle(&r->top);
}

static int next_of_top(struct reduction *r, struct fpisa_row *row)
{
	if (r->next == r->top.n)
		return 0;
	*row = fpisa_top_row_back(&r->top.rows[r->next++], r->form, r->ascending);
	return 1;
}

/* -- groups ------------------------------------------------------------------------------------ */

/* Return the form of the current group's values. */
static uint32_t form_of(const struct reduction *r)
{
	return fpisa_groups_config(&r->groups, r->group->key)->form;
}

/* Set the next terms of the sum. Return the number of terms, or 0 if nothing of the sum is left. */
static int sum_terms(struct reduction *r)
{
	const int is_double = form_of(r) == FPISA_FORM_DOUBLE;
	__u64 term[FPISA_EXPANSION_TERMS];
	int n;

	if (fpisa_form_is_integer(form_of(r)))
		return fpisa_group_term_integer(r->integers, r->form, r->term[0].wide);
	n = fpisa_group_terms(&r->sum, fpisa_superacc_format(is_double ? FPISA_FORMAT_FP64 : FPISA_FORMAT_FP32), term);
	for (int i = 0; i < n; i++) {
		r->term[i].wide[0] = is_double ? term[i] : 0;
		r->term[i].value = is_double ? 0 : (uint32_t)term[i];
	}
	return n;
}

/* Set rows with the key's smallest and largest values. */
static void order_terms(const struct reduction *r, struct fpisa_row *least, struct fpisa_row *most)
{
	const struct fpisa_query_group *g = r->group;

	*least = *most = (struct fpisa_row){.count = FPISA_ROW_NO_SUM};
	if (fpisa_form_is_integer(form_of(r))) {
		memcpy(least->wide, g->lowest, sizeof(least->wide));
		memcpy(most->wide, g->highest, sizeof(most->wide));
		least->wide[1] ^= 1ull << 63;
		most->wide[1] ^= 1ull << 63;
	} else if (form_of(r) == FPISA_FORM_DOUBLE) {
		least->wide[0] = fpisa_order_value64(g->least);
		most->wide[0] = fpisa_order_value64(g->most);
	} else {
		least->value = fpisa_order_value(g->min);
		most->value = fpisa_order_value(g->max);
	}
}

/* Return whether the group has values in addition to a count. */
static bool has_values(const struct reduction *r)
{
	return r->valued && fpisa_group_has_values(fpisa_groups_config(&r->groups, r->group->key), r->group);
}

static bool is_left(const struct reduction *r)
{
	return r->sum.acc.rows || r->integers[0] || r->integers[1] || r->integers[2] || r->count_left;
}

/*
 * Prepare the next rows of a key. The rows contain the terms of the sum and the smallest and largest values. The first
 * row has the count. Further rows have the part of the count beyond 30 bits.
 */
static void more_terms(struct reduction *r, bool first)
{
	int n;

	memset(r->term, 0, sizeof(r->term));
	n = sum_terms(r);
	for (int i = 0; i < n; i++)
		r->term[i].count = FPISA_ROW_NO_ORDER;
	if (first && has_values(r)) {
		order_terms(r, &r->term[n], &r->term[n + 1]);
		n += 2;
	}
	if (!n)
		r->term[n++].count = FPISA_ROW_NO_SUM | FPISA_ROW_NO_ORDER;
	r->n_terms = n;
	r->next_term = 0;
}

static void begin_group(struct reduction *r)
{
	const struct fpisa_query_group *g = r->group;

	r->count_left = g->count;
	r->sum.acc.rows = 0;
	memset(r->integers, 0, sizeof(r->integers));
	if (has_values(r) && fpisa_form_is_integer(form_of(r)))
		memcpy(r->integers, g->sum, sizeof(r->integers));
	else if (has_values(r))
		fpisa_groups_sum(&r->groups, g, &r->sum);
}

static int next_of_groups(struct reduction *r, struct fpisa_row *row)
{
	uint32_t part;
	int rc;

	if (r->next_term == r->n_terms) {
		bool first = !is_left(r);

		if (first) {
			rc = fpisa_groups_next(&r->groups, &r->group);
			if (rc <= 0)
				return rc;
			begin_group(r);
		}
		more_terms(r, first);
	}
	*row = r->term[r->next_term++];
	memcpy(row->key, r->group->key, sizeof(row->key));
	part = r->count_left < FPISA_ROW_COUNT ? (uint32_t)r->count_left : FPISA_ROW_COUNT;
	row->count |= part;
	r->count_left -= part;
	return 1;
}

int reduction_next(struct reduction *r, struct fpisa_row *row)
{
	return r->table ? next_of_groups(r, row) : next_of_top(r, row);
}
