// SPDX-License-Identifier: GPL-2.0-only
/* The verb `fpisa query add QUERY`. */
#define _GNU_SOURCE /* for asprintf() */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "job/job.h"
#include "print.h"
#include "query/datapath/queries.h"
#include "query/datapath/query.h"
#include "verbs.h"

enum {
	OPT_KIND = OPT_VERB,
	OPT_MASTER,
	OPT_LIMIT,
	OPT_KEY_BYTES,
	OPT_ASCENDING,
	OPT_TIES,
	OPT_FILTER,
	OPT_FILTER_KEYS,
	OPT_FILTER_BYTES,
	OPT_VALUES,
};

static const struct option own[] = {
	COMMON_OPTIONS,
	JSON_OPTION,
	{"kind", required_argument, NULL, OPT_KIND},
	{"master", required_argument, NULL, OPT_MASTER},
	{"limit", required_argument, NULL, OPT_LIMIT},
	{"key-bytes", required_argument, NULL, OPT_KEY_BYTES},
	{"ascending", no_argument, NULL, OPT_ASCENDING},
	{"ties", no_argument, NULL, OPT_TIES},
	{"filter", required_argument, NULL, OPT_FILTER},
	{"filter-keys", required_argument, NULL, OPT_FILTER_KEYS},
	{"filter-bytes", required_argument, NULL, OPT_FILTER_BYTES},
	{"values", required_argument, NULL, OPT_VALUES},
	{0},
};

#define OWN (sizeof(own) / sizeof(own[0]))

void query_add_help(void)
{
	job_print_help(JOB_IN_QUERY);
}

struct wanted {
	struct job_spec spec;
	const char *master;
	uint64_t filter_keys;
};

static int take(struct wanted *w, int opt, char *arg)
{
	struct fpisa_job *j = &w->spec.job;
	uint64_t n = 0;
	int err = 0, kind;

	switch (opt) {
	case OPT_KIND:
		err = parse_name("--kind", arg, query_kind_names, &kind);
		j->kind = err ? 0 : (__u8)kind;
		break;
	case OPT_MASTER:
		w->master = arg;
		break;
	case OPT_LIMIT:
		err = parse_number("--limit", arg, 1, FPISA_MAX_LIMIT_TABLE, &n);
		j->query.limit = (__u32)n;
		break;
	case OPT_KEY_BYTES:
		err = parse_number("--key-bytes", arg, 4, 32, &n);
		j->query.key_bytes = (__u8)n;
		break;
	case OPT_ASCENDING:
		j->query.flags |= FPISA_QUERY_ASCENDING;
		break;
	case OPT_TIES:
		j->query.flags |= FPISA_QUERY_TIES;
		break;
	case OPT_FILTER:
		err = parse_name("--filter", arg, query_filter_names, &kind);
		j->query.flags |= err ? 0 : (__u8)kind;
		break;
	case OPT_FILTER_KEYS:
		err = parse_number("--filter-keys", arg, 1, 1ull << 32, &w->filter_keys);
		break;
	case OPT_FILTER_BYTES:
		err = parse_number("--filter-bytes", arg, 4, 32, &n);
		j->query.filter_bytes = (__u8)n;
		break;
	case OPT_VALUES:
		err = parse_name("--values", arg, query_form_names, &kind);
		j->format = err ? 0 : (__u8)kind;
		break;
	}
	return err;
}

static int size_filter(struct fpisa_query_parameters *q, uint64_t keys)
{
	__u32 filter = q->flags & FPISA_QUERY_FILTER;

	if (!filter && (keys || q->filter_bytes))
		return refuse(BAD_USAGE, "query add: --filter is missing; give --filter bitmap or --filter bloom");
	if (!filter)
		return 0;
	if (!keys)
		return refuse(BAD_USAGE,
			      "query add: --filter-keys is missing; give one more than the greatest key for a bitmap, or "
			      "the number of keys for a Bloom filter");
	if (!q->filter_bytes)
		q->filter_bytes = q->key_bytes;
	q->filter_log = query_filter_log(filter, keys);
	return 0;
}

/* List the workers, and the master last. The caller must keep the list as long as the spec. */
static int list_members(struct wanted *w, char **list)
{
	struct fpisa_query_parameters *q = &w->spec.job.query;

	if (w->spec.job.kind == FPISA_JOB_SUM)
		return refuse(BAD_USAGE, "query add: --kind is missing; give topn, table or join");
	if (!w->spec.workers)
		return refuse(BAD_USAGE, "query add: --workers is missing; list the workers' addresses");
	if (!w->master)
		return refuse(BAD_USAGE, "query add: --master is missing; give the master's address");
	if (!*w->master || strchr(w->master, ','))
		return refuse(BAD_USAGE, "query add: --master: '%s' is not one address; list the workers in --workers",
			      w->master);
	if (!q->limit && w->spec.job.kind != FPISA_QUERY_JOIN)
		return refuse(BAD_USAGE, "query add: --limit is missing; give the number of rows or keys to keep");
	if (!q->key_bytes)
		q->key_bytes = fpisa_form_is_wide(w->spec.job.format) ? 8 : 4;
	if (size_filter(q, w->filter_keys))
		return BAD_USAGE;
	if (asprintf(list, "%s,%s", w->spec.workers, w->master) < 0) {
		*list = NULL;
		return fail(-ENOMEM, NULL, "query add: cannot copy the list of workers");
	}
	w->spec.workers = *list;
	return job_spec_complete_query(&w->spec);
}

/* Warn if keys have no room for places of rows. `fpisa query run` and PostgreSQL append the place to the join key. */
static void warn_of_places(__u32 query, const struct fpisa_job *j)
{
	__u32 join = j->kind == FPISA_QUERY_JOIN ? j->query.filter_bytes : 0, need = join > 8 ? 32 : join ? 16 : 8;

	if (j->kind != FPISA_QUERY_TABLE && j->query.key_bytes < join + 8)
		warning("query %u: keys of %u bytes have no room for places of rows, so fpisa query run and PostgreSQL "
			"refuse this query; give --key-bytes %u",
			query, j->query.key_bytes, need);
}

static int make(struct wanted *w, const struct common *c, __u32 query)
{
	struct datapath dp;
	int err = datapath_open(&dp, c->pin);

	if (err)
		return err;
	err = job_spec_resolve(&w->spec, query);
	if (!err) {
		warn_of_places(query, &w->spec.job);
		job_spec_warn(&w->spec, &dp, query);
		err = datapath_query_add(&dp, query, &w->spec.job, w->spec.ifindex);
	}
	if (!err && c->json)
		err = query_print_json(&dp, query);
	if (!err)
		err = flush_stdout("query %u is created; cannot write to stdout", query);
	datapath_close(&dp);
	return err;
}

int verb_query_add(int argc, char **argv)
{
	struct option options[JOB_OPTIONS_MAX + OWN];
	struct option *next = job_options(options, JOB_IN_QUERY);
	struct wanted w = {0};
	struct common c = COMMON_INIT;
	char *list = NULL;
	int opt, err = 0;
	__u32 query;

	for (size_t i = 0; i < OWN; i++)
		next[i] = own[i];
	while (!err && (opt = next_option(argc, argv, options)) != -1)
		err = opt >= OPT_JOB  ? job_option(&w.spec, opt, optarg) :
		      opt >= OPT_VERB ? take(&w, opt, optarg) :
					common_option(&c, opt);
	if (err)
		return err;
	if (argc - optind != 1)
		return refuse(BAD_USAGE, "query add requires one query number");
	err = job_parse_number(argv[optind], &query);
	if (!err)
		err = list_members(&w, &list);
	if (!err)
		err = query_check(query, &w.spec.job);
	if (!err)
		err = make(&w, &c, query);
	free(list);
	return err;
}
