// SPDX-License-Identifier: GPL-2.0-only
/* A query for people and for programs. print.h documents the functions. */
#include <arpa/inet.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/print.h"
#include "fpisa/query/order.h"
#include "job/job.h"
#include "print.h"
#include "query/datapath/queries.h"
#include "query/datapath/query.h"

static bool joined(const struct fpisa_job *j, const struct fpisa_session *s, __u32 rank)
{
	return job_joined(j, s) >> rank & 1;
}

static const char *role(const struct fpisa_job *j, __u32 rank)
{
	return rank == j->workers - 1 ? "master" : "worker";
}

void query_print_line(__u32 query, const struct fpisa_job *j, const struct fpisa_session *s)
{
	printf("%5u  %-5s  %8u  %9u  %7u  %6d\n", query, name_of(query_kind_names, j->kind), j->query.limit,
	       j->query.key_bytes, j->workers - 1, __builtin_popcountll(job_joined(j, s)));
}

struct json_object *query_json(__u32 query, const struct fpisa_job *j, const struct fpisa_session *s)
{
	struct json_object *o = json_object_new_object();

	json_add_number(o, "query", query);
	json_add_string(o, "kind", name_of(query_kind_names, j->kind));
	json_add_number(o, "limit", j->query.limit);
	json_add_number(o, "key_bytes", j->query.key_bytes);
	json_add_string(o, "values", name_of(query_form_names, j->format));
	json_object_object_add(o, "ascending", json_object_new_boolean(j->query.flags & FPISA_QUERY_ASCENDING));
	json_object_object_add(o, "ties", json_object_new_boolean(j->query.flags & FPISA_QUERY_TIES));
	json_object_object_add(
		o, "filter",
		j->query.flags & FPISA_QUERY_FILTER ?
			json_object_new_string(name_of(query_filter_names, j->query.flags & FPISA_QUERY_FILTER)) :
			NULL);
	json_add_number(o, "workers", j->workers - 1);
	json_object_object_add(o, "joined", ranks_json(job_joined(j, s)));
	json_add_number(o, "epoch", s->generation);
	return o;
}

/* The data that `show` prints. */
struct shown {
	struct fpisa_job job;
	struct fpisa_session session;
	struct fpisa_query_state state;
	struct fpisa_query_counters rows;
};

static int look(const struct datapath *dp, __u32 query, struct shown *s)
{
	return datapath_query(dp, query, &s->job)		  ?:
		       datapath_session(dp, query, &s->session)	  ?:
		       datapath_query_state(dp, query, &s->state) ?:
								    datapath_query_counters(dp, query, &s->rows);
}

static double real_of(__u32 place)
{
	union {
		__u32 bits;
		float value;
	} u = {.bits = fpisa_order_value(place)};

	return (double)u.value;
}

/* Return a double with this short place. */
static double double_of(__u32 place)
{
	union {
		__u64 bits;
		double value;
	} u = {.bits = fpisa_order_value64((__u64)place << 32)};

	return u.value;
}

/* Return the integer next to 0 that has this short place. */
static double integer_of(__u32 place)
{
	__u32 up = (place >> 31 ? place : ~place) - FPISA_ORDER_ZERO, shift = up >> (FPISA_SHORT_BITS - 1);
	double value;

	shift = shift ? shift - 1 : 0;
	value = ldexp(up - (shift << (FPISA_SHORT_BITS - 1)), (int)shift);
	return place >> 31 ? value : -1 - value;
}

/* Return the N-th value of the rows that were counted. If values have 8 bytes or more, return a value near it. */
static double threshold(const struct shown *s)
{
	__u32 place = (__u32)(s->state.bar - 1) ^ (s->job.query.flags & FPISA_QUERY_ASCENDING ? ~0u : 0);

	return fpisa_form_is_integer(s->job.format) ? integer_of(place) :
	       s->job.format == FPISA_FORM_DOUBLE   ? double_of(place) :
						      real_of(place);
}

/* Return the number of keys for which the filter was created. A bitmap supports keys below this number. */
static __u64 filter_keys(const struct fpisa_job *j)
{
	return (j->query.flags & FPISA_QUERY_BITMAP ? (__u64)FPISA_FILTER_BLOCK_KEYS : (__u64)FPISA_FILTER_BLOOM_KEYS)
	       << (j->query.filter_log & 31);
}

static const char *filter_state(const struct shown *s)
{
	switch (fpisa_filter_state(s->state.filter, s->session.generation)) {
	case FPISA_FILTER_WHOLE:
		return "whole";
	case FPISA_FILTER_BEYOND:
		return "beyond";
	case FPISA_FILTER_OPEN:
		return "open";
	default:
		return "building";
	}
}

/* Return the workers whose keys are incomplete. */
static __u64 filter_missing(const struct shown *s)
{
	struct fpisa_query_state state = s->state;
	struct fpisa_query_config q;

	if (state.epoch != s->session.generation)
		fpisa_filter_begin(&state);
	fpisa_query_of(&s->job, 0, &q);
	return fpisa_filter_missing(&state, &q);
}

static void print_filter(const struct shown *s)
{
	const char *state = filter_state(s);

	if (!(s->job.query.flags & FPISA_QUERY_FILTER))
		return;
	printf("  filter: %s of %llu join keys of %u bytes, ",
	       name_of(query_filter_names, s->job.query.flags & FPISA_QUERY_FILTER),
	       (unsigned long long)filter_keys(&s->job), s->job.query.filter_bytes);
	if (!strcmp(state, "building"))
		printf("being built, keys of %d workers are missing\n", __builtin_popcountll(filter_missing(s)));
	else if (!strcmp(state, "open"))
		puts("not used: rows arrived before it had all keys");
	else
		puts(!strcmp(state, "whole") ? "in use" : "in use; keys beyond its end pass");
}

static void print_state(const struct shown *s)
{
	if (!s->state.epoch || s->state.epoch != s->session.generation)
		puts("  state: no rows in this epoch");
	else if (s->job.kind == FPISA_QUERY_JOIN)
		puts("  state: rows are not kept");
	else if (s->job.kind == FPISA_QUERY_TABLE)
		printf("  state: %u keys, %s\n", s->state.used, s->state.sealed ? "sealed" : "open");
	else if (s->state.bar)
		printf("  state: row %u of those counted is %.9g\n", s->job.query.limit, threshold(s));
	else
		printf("  state: %u rows counted\n", s->state.used);
}

int query_print_text(const struct datapath *dp, __u32 query)
{
	char a[ADDRESS_LEN], at[ENDPOINT_LEN];
	struct shown s;
	int err = look(dp, query, &s);

	if (err)
		return err;
	printf("query %u: %s", query, name_of(query_kind_names, s.job.kind));
	if (s.job.kind != FPISA_QUERY_JOIN)
		printf(", %s %u", s.job.kind == FPISA_QUERY_TABLE ? "at most" : "the first", s.job.query.limit);
	printf(", keys of %u bytes%s%s\n", s.job.query.key_bytes,
	       s.job.query.flags & FPISA_QUERY_ASCENDING ? ", ascending" : "",
	       s.job.query.flags & FPISA_QUERY_TIES ? ", with ties" : "");
	printf("  address %s, epoch %u\n", address_text(s.job.address, a), s.session.generation);
	print_filter(&s);
	print_state(&s);
	printf("  rows: %llu came", (unsigned long long)s.rows.rows);
#define X(name, text)                                  \
	if (s.rows.name && s.rows.name != s.rows.rows) \
		printf(", %llu " #name, (unsigned long long)s.rows.name);
	FPISA_QUERY_COUNTERS(X)
#undef X
	putchar('\n');
	for (__u32 r = 0; r < s.job.workers; r++)
		printf("  rank %u: %s %s, %s\n", r, role(&s.job, r),
		       endpoint_text(s.job.rank[r].addr, s.job.rank[r].port, at),
		       joined(&s.job, &s.session, r) ? "joined" : "not joined");
	return 0;
}

int query_print_json(const struct datapath *dp, __u32 query)
{
	struct json_object *o, *members = json_object_new_array(), *rows = json_object_new_object();
	char a[ADDRESS_LEN];
	struct shown s;
	int err = look(dp, query, &s);
	bool runs;

	if (err) {
		json_object_put(members);
		json_object_put(rows);
		return err;
	}
	o = query_json(query, &s.job, &s.session);
	runs = s.state.epoch && s.state.epoch == s.session.generation;
	json_add_string(o, "address", address_text(s.job.address, a));
	if (s.job.query.flags & FPISA_QUERY_FILTER) {
		json_add_number(o, "filter_bytes", s.job.query.filter_bytes);
		json_add_number(o, "filter_keys", filter_keys(&s.job));
		json_add_string(o, "filter_state", filter_state(&s));
		json_object_object_add(o, "filter_missing", ranks_json(filter_missing(&s)));
	}
	if (s.job.kind == FPISA_QUERY_TABLE) {
		json_add_number(o, "groups", runs ? s.state.used : 0);
		json_object_object_add(o, "sealed", json_object_new_boolean(runs && s.state.sealed));
	} else if (s.job.kind == FPISA_QUERY_TOPN) {
		json_object_object_add(o, "threshold", runs && s.state.bar ? json_double(threshold(&s)) : NULL);
	}
#define X(name, text) json_add_number(rows, #name, s.rows.name);
	FPISA_QUERY_COUNTERS(X)
#undef X
	json_object_object_add(o, "rows", rows);
	for (__u32 r = 0; r < s.job.workers; r++) {
		struct json_object *m = json_object_new_object();

		json_add_number(m, "rank", r);
		json_add_string(m, "role", role(&s.job, r));
		json_add_string(m, "address", address_text(s.job.rank[r].addr, a));
		json_add_number(m, "port", ntohs(s.job.rank[r].port));
		json_object_object_add(m, "joined", json_object_new_boolean(joined(&s.job, &s.session, r)));
		json_object_array_add(members, m);
	}
	json_object_object_add(o, "members", members);
	return print_json(o, false);
}
