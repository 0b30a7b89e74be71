/* SPDX-License-Identifier: GPL-2.0-only */
/* Print a query as text or as JSON. */
#ifndef FPISA_QUERY_PRINT_H
#define FPISA_QUERY_PRINT_H

#include "datapath/datapath.h"

struct json_object;

/* Print the parameters, members and state of an active query, as `fpisa query show` does. */
int query_print_text(const struct datapath *dp, __u32 query);
int query_print_json(const struct datapath *dp, __u32 query);

/* Print the line of `fpisa query list` for a query, or return the query's JSON object. */
void query_print_line(__u32 query, const struct fpisa_job *j, const struct fpisa_session *s);
struct json_object *query_json(__u32 query, const struct fpisa_job *j, const struct fpisa_session *s);

#endif
