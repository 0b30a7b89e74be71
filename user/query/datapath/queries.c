// SPDX-License-Identifier: GPL-2.0-only
/* The BPF objects of queries, which skeletons embed, and their constants. */
#include <bpf/libbpf.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "queries.h"
#include "fpisa_join.skel.h"
#include "fpisa_table.skel.h"
#include "fpisa_topn.skel.h"

#define NUMBER(id, name) {FPISA_QUERY_##id, name},
const struct name query_kind_names[] = {FPISA_KIND_NAMES(NUMBER, ){0}};
#define FORM(id, name) {FPISA_FORM_##id, name},
const struct name query_form_names[] = {FPISA_FORM_NAMES(FORM, ){0}};
const struct name query_filter_names[] = {FPISA_FILTER_NAMES(NUMBER, ){0}};

const void *query_object(unsigned int kind, size_t *size)
{
	return kind == FPISA_QUERY_TOPN	 ? fpisa_topn_bpf__elf_bytes(size) :
	       kind == FPISA_QUERY_TABLE ? fpisa_table_bpf__elf_bytes(size) :
	       kind == FPISA_QUERY_JOIN	 ? fpisa_join_bpf__elf_bytes(size) :
					   NULL;
}

/*
 * Return the number of buckets, which have room for four to eight times the number of groups. If keys are spread at
 * random, between one in 7000 and one in 10^6 keys finds its bucket full (more than 8 keys in a Poisson distribution
 * with mean 2 to 1). The datapath passes such a key to the master.
 */
__u32 query_buckets(__u32 limit)
{
	__u32 n = 1;

	while (n < (limit + 1) / 2)
		n *= 2;
	return n;
}

__u64 query_bytes(const struct fpisa_job *j)
{
	__u64 filter = j->query.flags & FPISA_QUERY_FILTER ?
			       sizeof(struct fpisa_filter_block) << (j->query.filter_log & 31) :
			       0;

	if (j->kind != FPISA_QUERY_TABLE)
		/* the size of an array's entries must be a multiple of 8 bytes */
		return filter + j->query.limit * sizeof(__u64);
	return filter + (__u64)j->query.limit * sizeof(struct fpisa_query_group) +
	       (__u64)query_buckets(j->query.limit) * sizeof(struct fpisa_bucket);
}

static int set_entries(struct bpf_object *o, const char *name, __u32 n)
{
	struct bpf_map *m = bpf_object__find_map_by_name(o, name);

	return m ? bpf_map__set_max_entries(m, n) : -ENOENT;
}

_Static_assert(!offsetof(struct fpisa_topn_bpf__rodata, fpisa_query) &&
		       !offsetof(struct fpisa_table_bpf__rodata, fpisa_query) &&
		       !offsetof(struct fpisa_join_bpf__rodata, fpisa_query),
	       "the constants come first");

static int set_constants(struct bpf_map *m, const struct fpisa_query_config *q)
{
	size_t size = 0;
	const void *zeros = bpf_map__initial_value(m, &size);
	void *constants = zeros && size >= sizeof(*q) ? malloc(size) : NULL;
	int err;

	if (!constants)
		return -ENOMEM;
	memcpy(constants, zeros, size);
	memcpy(constants, q, sizeof(*q));
	err = bpf_map__set_initial_value(m, constants, size);
	free(constants);
	return err;
}

int query_specialise(struct bpf_object *o, unsigned int kind, struct fpisa_query_config *q)
{
	struct bpf_map *m;
	int err = -ENOENT;

	q->bucket_mask = query_buckets(q->limit) - 1;
	bpf_object__for_each_map(m, o)
		if (bpf_map__is_internal(m) && strstr(bpf_map__name(m), ".rodata"))
			err = set_constants(m, q);
	if (!err)
		err = set_entries(o, "fpisa_filter", q->filter_mask + 1);
	if (err || kind == FPISA_QUERY_JOIN)
		return err;
	if (kind == FPISA_QUERY_TOPN)
		return set_entries(o, "fpisa_heap", q->limit);
	err = set_entries(o, "fpisa_buckets", q->bucket_mask + 1);
	return err ?: set_entries(o, "fpisa_groups", q->limit);
}
