/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Choose the pruning of a query. A query at the aggregator can have only one master at a time, so sessions of this
 * cluster lock a query before they use it. The lock is an advisory lock of a class that SQL functions cannot use.
 */
#include "fdw.h"
#include "common/hashfn.h"
#include "miscadmin.h"

#define LOCK_CLASS 0xf15a /* the SQL functions use classes 1 and 2 */

static LOCKTAG lock_of(const struct fdw_server *s, const struct fdw_query *q)
{
	LOCKTAG tag;

	/* The lock applies to all databases, because they use the same aggregator. */
	SET_LOCKTAG_ADVISORY(tag, InvalidOid,
			     hash_bytes((const unsigned char *)s->aggregator, (int)strlen(s->aggregator)), q->number,
			     LOCK_CLASS);
	return tag;
}

static bool lock(struct fdw_choice *c)
{
	switch (LockAcquire(&c->lock, ExclusiveLock, false, true)) {
	case LOCKACQUIRE_OK:
		return true;
	case LOCKACQUIRE_ALREADY_HELD:
	case LOCKACQUIRE_ALREADY_CLEAR:
		/* Another scan of this session already holds the lock. */
		LockRelease(&c->lock, ExclusiveLock, false);
		return false;
	case LOCKACQUIRE_NOT_AVAIL:
		break;
	}
	return false;
}

/*
 * Return the number of the join's columns that form the key of the query's filter, or 0 if the filter cannot be used.
 */
static int pairs_of(const struct fdw_query *q, const struct fdw_shape *s)
{
	uint32 bytes = 0;
	int n = 0;
	ListCell *cell;

	foreach(cell, s->on_bytes)
	{
		bytes += (uint32)lfirst_int(cell);
		/* The keys of a bitmap are numbers, and a key of several columns would be too large. */
		if (!q->filter || bytes > q->filter_bytes || (n && !strcmp(q->filter, "bitmap")))
			break;
		n++;
		if (s->kind == FDW_TABLE && bytes == q->filter_bytes)
			return n;
	}
	return s->kind == FDW_TABLE ? 0 : n;
}

/* Return the reason why this query cannot drop rows that are not in the join, or NULL if it can. */
static const char *unfit_filter(const struct fdw_query *q, const struct fdw_shape *s)
{
	if (!q->filter)
		return "without a filter";
	if (s->kind == FDW_TABLE && fdw_preaggregate)
		return "not filtered while fpisa.preaggregate is on";
	if (!pairs_of(q, s))
		return psprintf("for join keys of %u bytes, but these keys take %d", q->filter_bytes,
				linitial_int(s->on_bytes));
	return NULL;
}

/* Return whether the query takes values of one of these forms. */
static bool takes(const struct fdw_query *q, const char *forms)
{
	size_t n = strlen(q->values);

	for (const char *at = forms; (at = strstr(at, q->values)); at += n)
		if ((at == forms || at[-1] == ' ') && (!at[n] || at[n] == ' '))
			return true;
	return !*forms;
}

/* Return the reason why a query at the aggregator does not fit this shape, or NULL if it fits. */
static const char *unfit(const struct fdw_query *q, const struct fdw_shape *s)
{
	if (q->kind != s->kind)
		return "of another kind";
	if (s->kind == FDW_TOPN && q->limit < s->limit)
		return psprintf("for the first %llu", (unsigned long long)q->limit);
	if (s->kind == FDW_TOPN && q->ascending != s->ascending)
		return q->ascending ? "ascending" : "not ascending";
	if (s->kind == FDW_TOPN && q->key_bytes < 8)
		return "for keys of 4 bytes";
	if (!takes(q, s->values))
		return psprintf("for %s values", q->values);
	if (s->kind == FDW_TABLE && q->key_bytes < s->key_bytes)
		return psprintf("for keys of %u bytes, but these keys take %u", q->key_bytes, s->key_bytes);
	if (s->kind == FDW_TABLE && q->key_bytes == 4 &&
	    (fdw_preaggregate || s->aggregated || (s->value && !s->no_nulls)))
		return "for keys of 4 bytes, and values that may be NULL, are several or are preaggregated take 8";
	return NULL;
}

/*
 * Compare queries. Short keys come first because they are the fastest. Queries without a filter come first, so that
 * filters remain for the scans that use them.
 */
static int by_bytes(const void *a, const void *b)
{
	const struct fdw_query *x = a, *y = b;
	int order = (int)x->key_bytes - (int)y->key_bytes;

	/* the order is real, int64, int128, double, which puts short rows first */
	order = order ? order : strcmp(y->values, x->values);
	order = order ? order : (int)x->filter_bytes - (int)y->filter_bytes;
	return order ? order : (int)x->number - (int)y->number;
}

/*
 * Take the first query that fits. If `filtered` is set, the query's filter must fit too. Return NULL, or the reason why
 * no query fits.
 */
static const char *take(const struct fdw_query *query, const struct fdw_server *server, const struct fdw_shape *shape,
			bool filtered, struct fdw_choice *c)
{
	const char *why = NULL;

	for (int i = 0; i < server->n; i++) {
		const struct fdw_query *q = &query[i];
		const char *but = unfit(q, shape);

		if (!but && filtered)
			but = unfit_filter(q, shape);

		c->query = *q;
		c->lock = lock_of(server, q);
		if (!but && c->not &UINT64CONST(1) << q->number)
			but = c->why_not;
		if (!but && lock(c)) {
			c->locked = true;
			c->pairs = filtered ? pairs_of(q, shape) : 0;
			return NULL;
		}
		if (!but)
			but = "in use by another scan";
		if (q->kind == shape->kind)
			why = psprintf("%s%squery %u is %s", why ? why : "", why ? "; " : "", q->number, but);
	}
	return why ? why : psprintf("the server has no query of kind %s", fdw_kind_name(shape->kind));
}

void fdw_choose(const struct fdw_server *server, const struct fdw_shape *shape, struct fdw_choice *c)
{
	struct fdw_query query[FDW_QUERIES_MOST];
	bool joined = OidIsValid(shape->joined);
	const char *why;

	*c = (struct fdw_choice){.pruning = (enum fpisa_pruning)fdw_pruning,
				 .not = c->not,
				 .why_not = c->why_not,
				 .adapts = fdw_pruning == FPISA_PRUNING_AUTO};
	if (c->adapts)
		c->pruning = shape->kind == FDW_TOPN ? FPISA_PRUNING_WORKERS : FPISA_PRUNING_NETWORK;
	if (shape->kind == FDW_JOIN && c->pruning == FPISA_PRUNING_WORKERS)
		c->why_not = "fpisa.pruning is workers, and a worker does not know the other workers' keys";
	else if (c->pruning == FPISA_PRUNING_NONE)
		c->why_not = "fpisa.pruning is none";
	/*
	 * Without GROUP BY each worker sends a single group, so the aggregator could not save anything. A query at the
	 * aggregator cannot take mixed values.
	 */
	if (shape->kind == FDW_TABLE && (!shape->by || !strcmp(shape->values, FDW_MIXED)) &&
	    c->pruning == FPISA_PRUNING_NETWORK)
		c->pruning = FPISA_PRUNING_WORKERS;
	if (shape->kind == FDW_SCAN || (shape->kind == FDW_JOIN && c->pruning != FPISA_PRUNING_NETWORK))
		c->pruning = FPISA_PRUNING_NONE;
	if (c->pruning != FPISA_PRUNING_NETWORK)
		return;
	memcpy(query, server->query, sizeof(query));
	qsort(query, (size_t)server->n, sizeof(*query), by_bytes);
	why = take(query, server, shape, joined, c);
	if (!why)
		return;
	/* The aggregator can add up groups even without a filter. */
	if (joined && shape->kind == FDW_TABLE) {
		const char *why_no_filter = why;

		why = take(query, server, shape, false, c);
		if (!why) {
			c->why_not = why_no_filter;
			return;
		}
	}
	c->pruning = c->adapts && shape->kind == FDW_TABLE ? FPISA_PRUNING_WORKERS : FPISA_PRUNING_NONE;
	c->why_not = why;
}

void fdw_free(struct fdw_choice *c)
{
	if (c->locked)
		LockRelease(&c->lock, ExclusiveLock, false);
	c->locked = false;
}
