/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Check and copy the options of a master. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/address.h"
#include "lib/base/address.h"
#include "lib/base/error.h"
#include "master.h"

#define DEFAULT_TIMEOUT_MS 10000

static int bad(const char *why)
{
	return fpisa_fail(-EINVAL, "%s", why);
}

/* Refuse an empty name, because it would be treated as an option that was not given. */
static int check_texts(const struct fpisa_query_options *o)
{
	const struct {
		const char *name, *text;
	} given[] = {{"value", o->value},	   {"values", o->values}, {"by", o->by},     {"columns", o->columns},
		     {"distinct", o->distinct},	   {"where", o->where},	  {"join", o->join}, {"on", o->on},
		     {"join_where", o->join_where}};

	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
		if (given[i].text && !*given[i].text)
			return fpisa_fail(-EINVAL, "options.%s is empty; leave it NULL, or give a value", given[i].name);
	return 0;
}

/* Return whether this is a list of values as fpisa_value_next() takes it. */
static int is_list(const char *values)
{
	struct fpisa_value_entry e;
	int rc;

	while ((rc = fpisa_value_next(&values, &e)) > 0)
		;
	return !rc;
}

/*
 * Choose where rows are pruned or added up. Whether workers add up their rows, they decide themselves. First rows pass
 * the aggregator after each worker's own pruning.
 */
static void choose_pruning(struct fpisa_query *q)
{
	struct fpisa_query_options *o = &q->options;

	q->automatic = 1;
	if (o->join || (o->aggregator && (o->by || o->limit)))
		o->pruning = FPISA_PRUNING_NETWORK;
	else
		o->pruning = o->limit || o->by || o->total ? FPISA_PRUNING_WORKERS : FPISA_PRUNING_NONE;
	if (o->limit)
		o->preaggregate = 1;
	if (o->by && !o->join && !o->preaggregate)
		o->preaggregate = FPISA_QUERY_ADAPT;
}

static int check_options(const struct fpisa_query_options *o)
{
	const double faults[] = {o->loss, o->duplicate, o->reorder, o->delay, o->corrupt};

	if (!o->table || !*o->table || !o->workers || !*o->workers)
		return bad("options.table or options.workers is NULL; set both");
	if (o->limit > FPISA_MAX_LIMIT_TOPN)
		return bad("options.limit is more than 65536; lower it");
	if (o->limit && (o->by || !o->value))
		return bad("options.limit requires options.value, and options.by must be NULL");
	if (!o->limit && !o->by && !o->total && o->value)
		return bad("options.value requires options.limit, options.by or options.total");
	if (o->values && (o->value || (!o->by && !o->total)))
		return bad("options.values requires options.by or options.total, and options.value must be NULL");
	if (o->distinct && ((!o->by && !o->total) || o->join || strpbrk(o->distinct, "()'*")))
		return bad("options.distinct is a list of columns \"a,b\", requires options.by or options.total, and "
			   "excludes options.join");
	if (o->values && !is_list(o->values))
		return bad("options.values is not a list of columns \"a,b filter (c<3)\"; close parentheses and quotes");
	if (o->total && (o->limit || o->by || o->columns || o->join))
		return bad("options.total excludes options.limit, options.by, options.columns and options.join");
	if (o->by && o->columns)
		return bad("options.by names the columns of the answer; leave options.columns out");
	if (!o->by && !o->total && !o->limit && o->preaggregate)
		return bad("options.preaggregate requires options.by, options.total or options.limit");
	if (!o->limit && (o->ascending || o->nulls_first))
		return bad("options.ascending and options.nulls_first require options.limit");
	if (o->pruning > FPISA_PRUNING_AUTO)
		return bad("options.pruning is not an FPISA_PRUNING_ value of fpisa-query.h");
	if (!o->join != !o->on || (o->join_where && !o->join))
		return bad("options.join, the table, and options.on, \"a=b\", require each other; "
			   "options.join_where requires both");
	if (o->join && (o->pruning != FPISA_PRUNING_NETWORK || o->limit || o->preaggregate))
		return bad("options.join requires FPISA_PRUNING_NETWORK, and options.limit and "
			   "options.preaggregate must be 0");
	if ((o->by || o->total || o->limit || o->join) && o->pruning == FPISA_PRUNING_NETWORK && !o->aggregator)
		return bad("options.aggregator is NULL; set it, or another options.pruning");
	for (int i = 0; i < 5; i++)
		if (!(faults[i] >= 0 && faults[i] <= FPISA_FAULT_MOST))
			return bad("a share of options.faults is not in 0 to 0.9");
	return 0;
}

static int copy_text(char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return from && !*to ? fpisa_fail(-ENOMEM, "not enough memory for a query; " FPISA_MORE_MEMORY) : 0;
}

/* Write the list of values, and after them the columns whose distinct values are counted. */
static int write_values(struct fpisa_query *q, const char *values, const char *distinct)
{
	size_t size;
	FILE *f = open_memstream(&q->value, &size);

	if (f)
		fputs(values ? values : "", f);
	for (const char *at = distinct, *end; f && at; at = *end ? end + 1 : NULL) {
		end = strchrnul(at, ',');
		fprintf(f, "%s" FPISA_COUNT_DISTINCT "%.*s)", values || at != distinct ? "," : "", (int)(end - at), at);
	}
	return f && !fclose(f) && q->value ? 0 :
					     fpisa_fail(-ENOMEM, "not enough memory for a query; " FPISA_MORE_MEMORY);
}

/* Copy the list of values, and note which of them are only counted. */
static int take_values(struct fpisa_query *q, const struct fpisa_query_options *o)
{
	const char *values = o->values ? o->values : o->value, *at;
	struct fpisa_value_entry e;
	int rc = o->distinct ? write_values(q, values, o->distinct) : copy_text(&q->value, values), i = 0;

	q->numbered = o->values || o->distinct;
	at = rc || !q->numbered ? NULL : q->value;
	for (; at && i < FPISA_COLUMNS_MOST && fpisa_value_next(&at, &e) > 0; i++)
		q->distinct |= (uint64_t)e.distinct << i;
	return rc;
}

/* Split "a=b,c=d" into the lists "a,c" and "b,d". */
static int take_on(struct fpisa_query *q, const char *on)
{
	size_t n = on ? strlen(on) : 0;
	char *here = q->on = calloc(1, n + 1), *there = q->there = calloc(1, n + 1);

	if (!here || !there)
		return fpisa_fail(-ENOMEM, "not enough memory for a query; " FPISA_MORE_MEMORY);
	for (const char *at = on, *end, *is; at; at = *end ? end + 1 : NULL) {
		end = strchrnul(at, ',');
		is = memchr(at, '=', (size_t)(end - at));
		if (!is || is == at || is + 1 == end)
			return fpisa_fail(-EINVAL, "'%.100s' is not \"a=b,c=d\", with columns of the two tables", on);
		here = mempcpy(here, at, (size_t)(is - at));
		there = mempcpy(there, is + 1, (size_t)(end - is - 1));
		if (*end)
			*here++ = *there++ = ',';
	}
	return 0;
}

/* Parse "ADDR[:PORT],...". PORT is the TCP port of a worker and may be omitted. */
static int take_workers(struct fpisa_query *q, const char *list)
{
	for (const char *at = list, *end; at; at = *end ? end + 1 : NULL) {
		struct fpisa_query_worker *w = &q->worker[q->n_workers];
		char text[FPISA_ENDPOINT_LEN] = "";
		int rc;

		end = strchrnul(at, ',');
		if (q->n_workers == FPISA_QUERY_WORKERS)
			return fpisa_fail(-EINVAL,
					  "more than %d workers are not supported; list fewer in options.workers",
					  FPISA_QUERY_WORKERS);
		if ((size_t)(end - at) < sizeof(text))
			memcpy(text, at, (size_t)(end - at));
		w->fd = -1;
		rc = fpisa_parse_endpoint(text, FPISA_CONTROL_PORT, &w->at, &w->port);
		if (rc)
			return rc;
		fpisa_endpoint_text(&w->at, w->port, w->name);
		for (uint32_t i = 0; i < q->n_workers; i++)
			if (!strcmp(q->worker[i].name, w->name))
				return fpisa_fail(-EINVAL, "worker %s is given twice; list each worker once", w->name);
		q->n_workers++;
	}
	return 0;
}

static int take_key(struct fpisa_query *q, const struct fpisa_query_options *o)
{
	const char *file = o->key_file ? o->key_file : getenv("FPISA_KEY");
	char why[FPISA_MESSAGE_SIZE - 64];
	int rc;

	if (o->key && o->key_file)
		return bad("options.key and options.key_file exclude each other; set one of them");
	if (o->key)
		return fpisa_psk_parse(o->key, &q->psk) ?
			       bad("options.key is not a key NAME:ID:SECRET; create one with fpisa key new") :
			       0;
	if (!file || !*file)
		return bad("workers require a key: set FPISA_KEY, --key or options.key_file to the key file, or "
			   "options.key to the key");
	rc = copy_text(&q->key_file, file);
	if (!rc && (rc = fpisa_psk_last(&q->psk, file))) {
		snprintf(why, sizeof(why), "%s", fpisa_query_error());
		fpisa_fail(rc, "cannot read the master's key file: %s", why);
	}
	return rc;
}

int fpisa_query_take_options(struct fpisa_query *q, const struct fpisa_query_options *options)
{
	struct fpisa_query_options *o = &q->options;
	int rc = fpisa_copy_sized(o, sizeof(*o), options, sizeof(o->size), "query_options");

	if (!rc)
		rc = check_texts(o);
	if (!rc && o->pruning == FPISA_PRUNING_AUTO)
		choose_pruning(q);
	if (!rc)
		rc = check_options(o);
	if (!rc)
		rc = take_workers(q, o->workers);
	if (!rc && o->aggregator)
		rc = fpisa_parse_address(o->aggregator, &q->aggregator, &q->aggregator_port);
	if (!rc)
		rc = take_key(q, o);
	if (!rc)
		rc = copy_text(&q->table, o->table);
	if (!rc)
		rc = take_values(q, o);
	if (!rc)
		rc = copy_text(&q->by, o->by);
	if (!rc)
		rc = copy_text(&q->columns, o->columns);
	if (!rc)
		rc = copy_text(&q->where, o->where);
	if (!rc)
		rc = copy_text(&q->join, o->join);
	if (!rc)
		rc = copy_text(&q->join_where, o->join_where);
	if (!rc)
		rc = take_on(q, o->on);
	if (rc)
		return rc;
	q->kind = o->by || o->total ? FPISA_QUERY_TABLE :
		  o->limit	    ? FPISA_QUERY_TOPN :
		  o->join	    ? FPISA_QUERY_JOIN :
				      FPISA_QUERY_SCAN;
	o->local_port = o->local_port ? o->local_port : FPISA_PORT;
	o->worker_port = o->worker_port ? o->worker_port : FPISA_PORT;
	o->timeout_ms = o->timeout_ms ? o->timeout_ms : DEFAULT_TIMEOUT_MS;
	return 0;
}
