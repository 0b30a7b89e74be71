// SPDX-License-Identifier: GPL-2.0-only
/* Checks of a query that do not need the kernel. */
#include <errno.h>

#include "cli/report.h"
#include "datapath/job.h"
#include "fpisa/query/check.h"
#include "query.h"

__u8 query_filter_log(__u32 filter, __u64 keys)
{
	__u32 of_block = filter & FPISA_QUERY_BITMAP ? FPISA_FILTER_BLOCK_KEYS : FPISA_FILTER_BLOOM_KEYS;
	__u8 log = 0;

	while (log <= FPISA_MAX_FILTER_LOG && keys > (__u64)of_block << log)
		log++;
	return log;
}

/* Report the rule that the query breaks. Return 0 if the query breaks no rule, or else -EINVAL. */
static int say_broken(__u32 job, const struct fpisa_job *j, enum fpisa_query_rule rule)
{
	const struct fpisa_query_parameters *q = &j->query;

	switch (rule) {
	case FPISA_QUERY_RULES_KEPT:
		return 0;
	case FPISA_QUERY_RULE_KIND:
		return refuse(-EINVAL, "query %u: kind %u is not known; give topn, table or join", job, j->kind);
	case FPISA_QUERY_RULE_KEY:
		return refuse(-EINVAL, "query %u: keys of %u bytes are not supported; give --key-bytes 4, 8, 16 or 32",
			      job, q->key_bytes);
	case FPISA_QUERY_RULE_NO_LIMIT:
		return refuse(-EINVAL, "query %u: a join does not keep rows; leave --limit out", job);
	case FPISA_QUERY_RULE_LIMIT:
		return refuse(-EINVAL, "query %u: limit %u is not supported; give 1 to %u", job, q->limit,
			      fpisa_most_limit(j->kind));
	case FPISA_QUERY_RULE_ORDER:
		return refuse(-EINVAL, "query %u: a %s has no order; leave --ascending and --ties out", job,
			      j->kind == FPISA_QUERY_JOIN ? "join" : "table");
	case FPISA_QUERY_RULE_NEEDS_FILTER:
		return refuse(-EINVAL, "query %u: a join needs a filter; give --filter bitmap or --filter bloom", job);
	case FPISA_QUERY_RULE_NO_FILTER:
		return refuse(-EINVAL, "query %u: --filter-keys and --filter-bytes require --filter", job);
	case FPISA_QUERY_RULE_ONE_FILTER:
		return refuse(-EINVAL,
			      "query %u: two filters are given; give --filter bitmap or --filter bloom, not "
			      "both",
			      job);
	case FPISA_QUERY_RULE_JOIN_KEY:
		return refuse(
			-EINVAL,
			"query %u: join keys of %u bytes are not supported; give --filter-bytes 4, 8, 16 or 32, up to "
			"the key's %u",
			job, q->filter_bytes, q->key_bytes);
	case FPISA_QUERY_RULE_BITMAP_KEY:
		return refuse(-EINVAL, "query %u: a bitmap takes keys of 4 or 8 bytes, not %u; try --filter bloom", job,
			      q->filter_bytes);
	case FPISA_QUERY_RULE_BLOOM:
		return refuse(-EINVAL,
			      "query %u: a Bloom filter may pass rows that are not in the join, and these rows would "
			      "be counted; try --filter bitmap, or --kind join",
			      job);
	case FPISA_QUERY_RULE_FORM:
		return refuse(-EINVAL, "query %u: value form %u is not known; run one release on all hosts", job,
			      j->format);
	case FPISA_QUERY_RULE_WIDE:
		return refuse(-EINVAL, "query %u: --values other than real requires --kind table or topn", job);
	case FPISA_QUERY_RULE_WIDE_KEY:
		return refuse(-EINVAL, "query %u: --values other than real requires --key-bytes 8 or more", job);
	case FPISA_QUERY_RULE_FILTER_SIZE:
		return refuse(-EINVAL, "query %u: a filter has at most %u keys; give fewer --filter-keys", job,
			      (q->flags & FPISA_QUERY_BITMAP ? FPISA_FILTER_BLOCK_KEYS : FPISA_FILTER_BLOOM_KEYS)
				      << FPISA_MAX_FILTER_LOG);
	}
	return -EINVAL;
}

int query_check(__u32 job, struct fpisa_job *j)
{
	if (job >= FPISA_MAX_JOBS)
		return refuse(-EINVAL, "query %u: query numbers are 0 to %d", job, FPISA_MAX_JOBS - 1);
	if (j->workers < 2 || j->workers > FPISA_MAX_WORKERS)
		return refuse(-EINVAL, "query %u: %u members are not supported; give 1 to %d workers and a master", job,
			      j->workers, FPISA_MAX_WORKERS - 1);
	return say_broken(job, j, fpisa_query_broken(j->kind, &j->query, j->format))	  ?:
		       datapath_refuse_mixed(job, j, "a query's members have one family") ?:
		       datapath_members_check(job, j);
}
