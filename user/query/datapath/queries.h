/* SPDX-License-Identifier: GPL-2.0-only */
/* The BPF programs of queries, and how an object is specialised for a query. */
#ifndef FPISA_DATAPATH_QUERIES_H
#define FPISA_DATAPATH_QUERIES_H

#include <stddef.h>
#include "cli/names.h"
#include "fpisa/query/query.h"

struct bpf_object;

/*
 * Names of the kinds of queries, which are also the names of their programs, and names of filters and of forms of
 * values.
 */
extern const struct name query_kind_names[], query_filter_names[], query_form_names[];

const void *query_object(unsigned int kind, size_t *size);

/* Return the number of buckets of a table with at most `limit` keys, and the memory of all maps of a query in bytes. */
__u32 query_buckets(__u32 limit);
__u64 query_bytes(const struct fpisa_job *j);

/*
 * Specialise an opened object for query *q. Set the constants of the object, the sizes of its maps and q->bucket_mask.
 * Return 0 or -errno.
 */
int query_specialise(struct bpf_object *o, unsigned int kind, struct fpisa_query_config *q);

#endif
