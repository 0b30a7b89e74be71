/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Queries in the datapath: an entry of fpisa_jobs, whose mode is the kind of query, and a program that is loaded for
 * this query alone.
 *
 * 	check.c      checks of a query
 * 	queries.c    the objects, and their specialisation for a query
 * 	query.c      create a query, remove it, read its state
 * 	resources.c  costs of the programs
 *
 * All functions report errors and return 0 or -errno, as datapath.h's functions do.
 */
#ifndef FPISA_DATAPATH_QUERY_H
#define FPISA_DATAPATH_QUERY_H

#include "datapath/datapath.h"
#include "fpisa/query/query.h"

struct bpf_object;

/*
 * Open the object of query *j, set its constants, and pin below `pin` (NULL: do not pin). Return NULL, reported, if
 * this fails. `steered` is as for family_open().
 */
struct bpf_object *query_open(const char *pin, __u32 query, const struct fpisa_job *j, bool steered);

/* Refuse a query that no datapath could run. */
int query_check(__u32 query, struct fpisa_job *j);

/*
 * Return the logarithm of the blocks of a filter, FPISA_QUERY_*, for `keys`. A result above FPISA_MAX_FILTER_LOG means
 * too many keys.
 */
__u8 query_filter_log(__u32 filter, __u64 keys);

/* Act as the functions of jobs do. Take a query's number and refuse a job's, as the functions of jobs refuse a query's. */
int datapath_query_add(struct datapath *dp, __u32 query, struct fpisa_job *j, const __u32 *ifindex);
int datapath_query_del(struct datapath *dp, __u32 query);
int datapath_query(const struct datapath *dp, __u32 query, struct fpisa_job *out);
int datapath_query_state(const struct datapath *dp, __u32 query, struct fpisa_query_state *out);
int datapath_query_counters(const struct datapath *dp, __u32 query, struct fpisa_query_counters *sum);

/* Load the program of every kind without attaching or pinning, and measure it. */
int datapath_query_resources(struct datapath_resources *r);

#endif
