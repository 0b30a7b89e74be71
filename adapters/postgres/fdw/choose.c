/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Who prunes. A query at the aggregator has one master at a time: among the sessions of this cluster a lock says
 * which, of advisory locks' kind but out of the reach of SQL's.
 */
#include "fdw.h"
#include "common/hashfn.h"
#include "miscadmin.h"

#define LOCK_CLASS 0xf15a /* SQL's are 1 and 2 */

static LOCKTAG lock_of(const struct fdw_server *s, const struct fdw_query *q)
{
	LOCKTAG tag;

	/* All databases reach the same aggregator. */
	SET_LOCKTAG_ADVISORY(tag, InvalidOid, hash_bytes((const unsigned char *)s->aggregator, (int)strlen(s->aggregator)), q->number,
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
		/* By another scan of this session. */
		LockRelease(&c->lock, ExclusiveLock, false);
		return false;
	case LOCKACQUIRE_NOT_AVAIL:
		break;
	}
	return false;
}

/* What of a query at the aggregator keeps it from this shape; NULL: it fits. */
static const char *unfit(const struct fdw_query *q, const struct fdw_shape *s)
{
	if (q->kind != s->kind)
		return "of another kind";
	if (s->kind == FDW_TOPN && q->limit < s->limit)
		return psprintf("for the first %llu", (unsigned long long)q->limit);
	if (s->kind == FDW_TOPN && q->ascending != s->ascending)
		return q->ascending ? "ascending" : "not ascending";
	if (s->kind == FDW_TOPN && q->key_bytes < 8)
		return "of keys of 4 bytes";
	if (q->key_bytes < s->key_bytes)
		return psprintf("of keys of %u bytes, and these take %u", q->key_bytes, s->key_bytes);
	if (s->kind == FDW_TABLE && q->key_bytes == 4 && (fdw_preaggregate || (s->value && !s->no_nulls)))
		return "of keys of 4 bytes, and values that may be NULL or are added up before take 8";
	return NULL;
}

static int by_key_bytes(const void *a, const void *b)
{
	return (int)((const struct fdw_query *)a)->key_bytes - (int)((const struct fdw_query *)b)->key_bytes;
}

/* Short keys are the fastest: of those that fit they come first. */
void fdw_choose(const struct fdw_server *server, const struct fdw_shape *shape, struct fdw_choice *c)
{
	struct fdw_query query[FDW_QUERIES_MOST];
	const char *why = NULL;

	*c = (struct fdw_choice){.pruning = (enum fpisa_pruning)fdw_pruning, .not = c->not, .why_not = c->why_not};
	if (shape->kind == FDW_SCAN)
		c->pruning = FPISA_PRUNING_NONE;
	if (c->pruning != FPISA_PRUNING_NETWORK)
		return;
	memcpy(query, server->query, sizeof(query));
	qsort(query, (size_t)server->n, sizeof(*query), by_key_bytes);
	for (int i = 0; i < server->n; i++) {
		const struct fdw_query *q = &query[i];
		const char *but = unfit(q, shape);

		c->query = *q;
		c->lock = lock_of(server, q);
		if (!but && c->not & UINT64CONST(1) << q->number)
			but = c->why_not;
		if (!but && lock(c)) {
			c->locked = true;
			return;
		}
		if (!but)
			but = "in use by another scan";
		if (q->kind == shape->kind)
			why = psprintf("%s%squery %u is %s", why ? why : "", why ? "; " : "", q->number, but);
	}
	c->pruning = FPISA_PRUNING_NONE;
	c->why_not = why ? why : psprintf("the server has no query of kind %s", shape->kind == FDW_TOPN ? "topn" : "table");
}

void fdw_free(struct fdw_choice *c)
{
	if (c->locked)
		LockRelease(&c->lock, ExclusiveLock, false);
	c->locked = false;
}
