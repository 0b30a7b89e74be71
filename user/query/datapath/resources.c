// SPDX-License-Identifier: GPL-2.0-only
/* Costs of the programs of queries. */
#include <errno.h>
#include <string.h>

#include "cli/progress.h"
#include "cli/report.h"
#include "datapath/object.h"
#include "datapath/resources.h"
#include "host/privilege.h"
#include "query.h"

#define QUERY_LIMIT 1024 /* the limit of the queries whose programs are measured */

/* Each kind of query, and each kind of filter that has different rules. */
static const struct {
	const char *name;
	__u8 kind, filter;
} queries[] = {
	{"topn", FPISA_QUERY_TOPN, 0},
	{"bitmap", FPISA_QUERY_TOPN, FPISA_QUERY_BITMAP},
	{"table", FPISA_QUERY_TABLE, 0},
	{"bloom", FPISA_QUERY_TABLE, FPISA_QUERY_BLOOM},
	{"bitmap", FPISA_QUERY_JOIN, FPISA_QUERY_BITMAP},
	{"bloom", FPISA_QUERY_JOIN, FPISA_QUERY_BLOOM},
};

static int measure_queries(struct bpf_object *base, struct datapath_resources *r)
{
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(queries) / sizeof(queries[0]); i++) {
		struct fpisa_job j = {
			.kind = queries[i].kind,
			.workers = 2,
			.query.key_bytes = 4,
			.query.limit = queries[i].kind == FPISA_QUERY_JOIN ? 0 : QUERY_LIMIT,
			.query.flags = queries[i].filter,
			.query.filter_bytes = queries[i].filter ? 4 : 0,
			.query.filter_log = queries[i].filter ? query_filter_log(queries[i].filter, QUERY_LIMIT) : 0,
		};

		err = resources_measure(base, query_open(NULL, 0, &j, false), "", queries[i].name, r);
	}
	return err;
}

int datapath_query_resources(struct datapath_resources *r)
{
	struct fpisa_bpf *skel = NULL;
	int err;

	memset(r, 0, sizeof(*r));
	err = privilege_check(PRIVILEGE_LOAD, "query resources");
	if (!err)
		err = object_open(&skel, NULL, false);
	if (!err)
		err = object_load(skel);
	if (!err)
		err = measure_queries(object_of(skel), r);
	progress_end();
	if (skel)
		object_close(skel);
	return err;
}
