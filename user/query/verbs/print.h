/* SPDX-License-Identifier: GPL-2.0-only */
/* A query for people and for programs. */
#ifndef FPISA_QUERY_PRINT_H
#define FPISA_QUERY_PRINT_H

#include "cli/names.h"
#include "datapath/datapath.h"

struct json_object;

/* Kinds by name, for --kind. */
extern const struct name query_kind_names[];
extern const struct name query_filter_names[];

/* An active query's parameters, members and state, as `query show` has them. */
int query_print_text(const struct datapath *dp, __u32 query);
int query_print_json(const struct datapath *dp, __u32 query);

/* The entry of query list: a line; an object. */
void query_print_line(__u32 query, const struct fpisa_job *j, const struct fpisa_session *s);
struct json_object *query_json(__u32 query, const struct fpisa_job *j, const struct fpisa_session *s);

#endif
