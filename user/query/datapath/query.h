/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Queries in the datapath. A query has an entry in fpisa_jobs, whose mode is the kind of the query, and a separate
 * program.
 *
 * 	check.c      checks of a query
 * 	queries.c    the objects, and how they are specialised for a query
 * 	query.c      create a query, remove a query, read a query's state
 * 	resources.c  costs of the programs
 *
 * All functions report errors and return 0 or -errno, like the functions of datapath.h.
 */
#ifndef FPISA_DATAPATH_QUERY_H
#define FPISA_DATAPATH_QUERY_H

#include "datapath/datapath.h"
#include "fpisa/query/query.h"

struct bpf_object;

/*
 * Open the object of query *j, set its constants, and pin its maps in directory `pin`, unless `pin` is NULL. On failure
 * report an error and return NULL. `steered` is the same as for family_open().
 */
struct bpf_object *query_open(const char *pin, __u32 query, const struct fpisa_job *j, bool steered);

/* Refuse a query that no datapath can run. */
int query_check(__u32 query, struct fpisa_job *j);

/*
 * Return log2 of the number of blocks that a filter needs for `keys` keys. `filter` is FPISA_QUERY_BITMAP or
 * FPISA_QUERY_BLOOM. A result above FPISA_MAX_FILTER_LOG means too many keys.
 */
__u8 query_filter_log(__u32 filter, __u64 keys);

/*
 * These functions work like the functions for jobs. They accept the number of a query and refuse the number of a job.
 * The functions for jobs do the opposite.
 */
int datapath_query_add(struct datapath *dp, __u32 query, struct fpisa_job *j, const __u32 *ifindex);
int datapath_query_del(struct datapath *dp, __u32 query);
int datapath_query(const struct datapath *dp, __u32 query, struct fpisa_job *out);
int datapath_query_state(const struct datapath *dp, __u32 query, struct fpisa_query_state *out);
int datapath_query_counters(const struct datapath *dp, __u32 query, struct fpisa_query_counters *sum);

/* Load the program of each kind of query, without attaching or pinning it, and measure it. */
int datapath_query_resources(struct datapath_resources *r);

#endif
