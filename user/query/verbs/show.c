// SPDX-License-Identifier: GPL-2.0-only
/* The verbs `fpisa query list`, `fpisa query show QUERY` and `fpisa query del QUERY`. */
#include <json-c/json.h>
#include <stdio.h>

#include "cli/options.h"
#include "cli/print.h"
#include "job/job.h"
#include "print.h"
#include "query/datapath/query.h"
#include "verbs.h"

static int list(const struct datapath *dp, struct json_object *all)
{
	int err = 0;

	for (__u32 i = 0; !err && i < FPISA_MAX_JOBS; i++) {
		const struct fpisa_job j = dp->jobs[i];
		struct fpisa_session s;

		if (!j.active || !fpisa_is_query(&j))
			continue;
		err = datapath_session(dp, i, &s);
		if (!err && all)
			json_object_array_add(all, query_json(i, &j, &s));
		else if (!err)
			query_print_line(i, &j, &s);
	}
	return err;
}

int verb_query_list(int argc, char **argv)
{
	struct json_object *all = NULL;
	struct common c = COMMON_INIT;
	struct datapath dp;
	int err;

	if (common_options(&c, argc, argv) || no_operands("query list", argc, argv))
		return BAD_USAGE;
	err = datapath_open(&dp, c.pin);
	if (err)
		return err;
	if (c.json)
		all = json_object_new_array();
	else
		puts("query  kind      limit  key-bytes  workers  joined");
	err = list(&dp, all);
	if (all && !err)
		err = print_json(all, false);
	else if (all)
		json_object_put(all);
	datapath_close(&dp);
	return err;
}

/* Parse the only operand of the verb, and open the datapath. */
static int open_query(const struct common *c, const char *verb, int argc, char **argv, struct datapath *dp, __u32 *query)
{
	int err;

	if (argc - optind != 1)
		return refuse(BAD_USAGE, "query %s requires one query number", verb);
	err = job_parse_number(argv[optind], query);
	return err ?: datapath_open(dp, c->pin);
}

int verb_query_show(int argc, char **argv)
{
	struct common c = COMMON_INIT;
	struct datapath dp;
	__u32 query;
	int err;

	if (common_options(&c, argc, argv))
		return BAD_USAGE;
	err = open_query(&c, "show", argc, argv, &dp, &query);
	if (err)
		return err;
	err = c.json ? query_print_json(&dp, query) : query_print_text(&dp, query);
	datapath_close(&dp);
	return err;
}

int verb_query_del(int argc, char **argv)
{
	struct common c = COMMON_INIT;
	struct json_object *o;
	struct datapath dp;
	__u32 query;
	int err;

	if (common_options(&c, argc, argv))
		return BAD_USAGE;
	err = open_query(&c, "del", argc, argv, &dp, &query);
	if (err)
		return err;
	err = datapath_query_del(&dp, query);
	datapath_close(&dp);
	if (err || !c.json)
		return err;
	o = json_done("query del");
	json_add_number(o, "query", query);
	return print_json(o, false);
}
