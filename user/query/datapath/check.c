// SPDX-License-Identifier: GPL-2.0-only
/* What a query may be: what no kernel is needed for. */
#include <errno.h>

#include "cli/report.h"
#include "datapath/job.h"
#include "query.h"

__u8 query_filter_log(__u32 filter, __u64 keys)
{
	__u32 of_block = filter & FPISA_QUERY_BITMAP ? FPISA_FILTER_BLOCK_KEYS : FPISA_FILTER_BLOOM_KEYS;
	__u8 log = 0;

	while (log <= FPISA_MAX_FILTER_LOG && keys > (__u64)of_block << log)
		log++;
	return log;
}

static int check_filter(__u32 job, const struct fpisa_job *j)
{
	__u32 filter = j->clz & FPISA_QUERY_FILTER;

	if (!filter && j->mode == FPISA_QUERY_JOIN)
		return refuse(-EINVAL, "query %u: a join needs a filter; give --filter bitmap or --filter bloom", job);
	if (!filter)
		return j->pipeline || j->guard ?
			       refuse(-EINVAL, "query %u: sizes of a filter that it does not have", job) :
			       0;
	if (filter == FPISA_QUERY_FILTER)
		return refuse(-EINVAL, "query %u: one filter, bitmap or bloom, not both", job);
	if (!fpisa_key_bytes_valid(j->pipeline) || j->pipeline > j->rounding)
		return refuse(-EINVAL,
			      "query %u: join keys of %u bytes; 4, 8, 16 and 32 are possible, up to the key's %u", job,
			      j->pipeline, j->rounding);
	if (filter == FPISA_QUERY_BITMAP && j->pipeline > 8)
		return refuse(-EINVAL,
			      "query %u: a bitmap of keys of %u bytes; 4 and 8 are possible; try --filter bloom", job,
			      j->pipeline);
	/* T would never rise: of no row it is certain that it is in the join. */
	if (filter == FPISA_QUERY_BLOOM && j->mode == FPISA_QUERY_TOPN)
		return refuse(-EINVAL,
			      "query %u: of a row that a Bloom filter lets pass it is not certain that it counts; "
			      "try --filter bitmap, or --kind join",
			      job);
	if (j->guard > FPISA_MAX_FILTER_LOG)
		return refuse(-EINVAL, "query %u: a filter of more than %u keys", job,
			      (filter == FPISA_QUERY_BITMAP ? FPISA_FILTER_BLOCK_KEYS : FPISA_FILTER_BLOOM_KEYS)
				      << FPISA_MAX_FILTER_LOG);
	return 0;
}

int query_check(__u32 job, struct fpisa_job *j)
{
	__u32 most = j->mode == FPISA_QUERY_TOPN ? FPISA_MAX_LIMIT_TOPN : FPISA_MAX_LIMIT_TABLE;

	if (job >= FPISA_MAX_JOBS)
		return refuse(-EINVAL, "query %u: numbers are 0 to %d", job, FPISA_MAX_JOBS - 1);
	if (j->workers < 2 || j->workers > FPISA_MAX_WORKERS)
		return refuse(-EINVAL, "query %u: %u members; 1 to %d workers and a master are possible", job,
			      j->workers, FPISA_MAX_WORKERS - 1);
	if (!fpisa_key_bytes_valid(j->rounding))
		return refuse(-EINVAL, "query %u: keys of %u bytes; 4, 8, 16 and 32 are possible", job, j->rounding);
	if (j->mode == FPISA_QUERY_JOIN && j->group)
		return refuse(-EINVAL, "query %u: a join keeps nothing; leave --limit out", job);
	if (j->mode != FPISA_QUERY_JOIN && (!j->group || j->group > most))
		return refuse(-EINVAL, "query %u: limit %u; 1 to %u is possible", job, j->group, most);
	if (j->clz & (FPISA_QUERY_ASCENDING | FPISA_QUERY_TIES) && j->mode != FPISA_QUERY_TOPN)
		return refuse(-EINVAL, "query %u: a %s has no order; leave --ascending and --ties out", job,
			      j->mode == FPISA_QUERY_JOIN ? "join" : "table");
	return check_filter(job, j) ?: datapath_members_check(job, j);
}
