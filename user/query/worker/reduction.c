// SPDX-License-Identifier: GPL-2.0-only
/* Rows that a worker has pruned or added up; reduction.h has the contracts. */
#include <string.h>

#include "fpisa/query/order.h"
#include "reduction.h"

int reduction_begin(struct reduction *r, const struct fpisa_query_open *want, bool valued, uint32_t key_bytes)
{
	*r = (struct reduction){.table = want->kind == FPISA_QUERY_TABLE, .ascending = want->ascending, .valued = valued};
	return r->table ? fpisa_groups_init(&r->groups, key_bytes, 0) : fpisa_top_init(&r->top, want->limit);
}

void reduction_end(struct reduction *r)
{
	fpisa_groups_free(&r->groups);
	fpisa_top_free(&r->top);
}

int reduction_add(struct reduction *r, const struct fpisa_row *row)
{
	struct fpisa_top_row top = {.place = fpisa_order_key(row->value), .row = row->key[0]};

	if (r->table)
		return fpisa_groups_add(&r->groups, row);
	if (r->ascending)
		top.place = ~top.place;
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
	const struct fpisa_top_row *top = &r->top.rows[r->next];

	if (r->next == r->top.n)
		return 0;
	*row = (struct fpisa_row){.count = 1};
	row->key[0] = top->row;
	row->value = fpisa_order_value(r->ascending ? ~top->place : top->place);
	r->next++;
	return 1;
}

/*
 * Prepare the next rows of a group: the terms of its sum, its least and greatest value, and the part of the count
 * beyond 30 bits. The first term has the count.
 */
static void more_terms(struct reduction *r, const struct fpisa_query_group *g, bool first)
{
	int n = fpisa_group_terms(&r->sum, r->term);

	for (int i = 0; i < n; i++)
		r->count[i] = FPISA_ROW_NO_ORDER;
	if (first && r->valued && g->min <= g->max) {
		r->term[n] = fpisa_order_value(g->min);
		r->count[n++] = FPISA_ROW_NO_SUM;
		r->term[n] = fpisa_order_value(g->max);
		r->count[n++] = FPISA_ROW_NO_SUM;
	}
	if (!n) {
		r->term[n] = 0;
		r->count[n++] = FPISA_ROW_NO_SUM | FPISA_ROW_NO_ORDER;
	}
	r->n_terms = n;
	r->next_term = 0;
}

static int next_of_groups(struct reduction *r, struct fpisa_row *row)
{
	const struct fpisa_query_group *g;
	uint32_t part;

	while (r->next_term == r->n_terms) {
		if (r->sum.acc.rows || r->count_left) {
			more_terms(r, &r->groups.group[r->next - 1], false);
			break;
		}
		if (r->next == r->groups.state.used)
			return 0;
		g = &r->groups.group[r->next++];
		fpisa_group_sum(g, &r->sum);
		r->count_left = g->count;
		if (!r->valued || g->min > g->max)
			r->sum.acc.rows = 0;
		more_terms(r, g, true);
	}
	g = &r->groups.group[r->next - 1];
	*row = (struct fpisa_row){.value = r->term[r->next_term], .count = r->count[r->next_term]};
	memcpy(row->key, g->key, sizeof(row->key));
	part = r->count_left < FPISA_ROW_COUNT ? (uint32_t)r->count_left : FPISA_ROW_COUNT;
	row->count |= part;
	r->count_left -= part;
	r->next_term++;
	return 1;
}

int reduction_next(struct reduction *r, struct fpisa_row *row)
{
	return r->table ? next_of_groups(r, row) : next_of_top(r, row);
}
