/* SPDX-License-Identifier: GPL-2.0-only */
/* Printing a query, as text and as JSON */
#ifndef FPISA_QUERY_PRINT_H
#define FPISA_QUERY_PRINT_H

#include "datapath/datapath.h"

struct json_object;

/* Print an active query's parameters, members and state, as `query show` does. */
int query_print_text(const struct datapath *dp, __u32 query);
int query_print_json(const struct datapath *dp, __u32 query);

/* Print a query's line of query list, or return its JSON object. */
void query_print_line(__u32 query, const struct fpisa_job *j, const struct fpisa_session *s);
struct json_object *query_json(__u32 query, const struct fpisa_job *j, const struct fpisa_session *s);

#endif
