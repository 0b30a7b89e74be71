/* SPDX-License-Identifier: GPL-2.0-only */
/* The programs of queries: objects, and what makes one a certain query's. */
#ifndef FPISA_DATAPATH_QUERIES_H
#define FPISA_DATAPATH_QUERIES_H

#include <stddef.h>
#include "fpisa/query/query.h"

struct bpf_object;

/* Return the program's name of a kind, which is the kind's name too: "topn", "table" or "join"; NULL: there is no such kind. */
const char *query_kind_name(unsigned int kind);
const void *query_object(unsigned int kind, size_t *size);

/* The maps of a query: buckets of a table of at most `limit` keys; all its memory in bytes. */
__u32 query_buckets(__u32 limit);
__u64 query_bytes(const struct fpisa_job *j);

/*
 * An opened object becomes the program of query *q: its constants, and the sizes of
 * its maps. Sets q->bucket_mask. 0 or -errno.
 */
int query_specialise(struct bpf_object *o, unsigned int kind, struct fpisa_query_config *q);

#endif
