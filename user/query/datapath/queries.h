/* SPDX-License-Identifier: GPL-2.0-only */
/* The BPF programs of queries: their objects, and how an object is specialised for a query */
#ifndef FPISA_DATAPATH_QUERIES_H
#define FPISA_DATAPATH_QUERIES_H

#include <stddef.h>
#include "cli/names.h"
#include "fpisa/query/query.h"

struct bpf_object;

/* Names of the kinds, which are their programs' too, of filters, and of forms of values. */
extern const struct name query_kind_names[], query_filter_names[], query_form_names[];

const void *query_object(unsigned int kind, size_t *size);

/* Return the number of buckets of a table of at most `limit` keys, and all memory of a query's maps in bytes. */
__u32 query_buckets(__u32 limit);
__u64 query_bytes(const struct fpisa_job *j);

/*
 * Turn an opened object into the program of query *q: set its constants and the sizes of its maps. Set q->bucket_mask.
 * Return 0 or -errno.
 */
int query_specialise(struct bpf_object *o, unsigned int kind, struct fpisa_query_config *q);

#endif
