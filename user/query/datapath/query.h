/* SPDX-License-Identifier: GPL-2.0-only */
/* The program of a query, loaded for it alone, and its maps. */
#ifndef FPISA_DATAPATH_QUERY_H
#define FPISA_DATAPATH_QUERY_H

#include "datapath/datapath.h"

struct bpf_object;

/* The object of query *j, with its constants, pinning below `pin` (NULL: none); NULL, reported. `steered`: as of family_open(). */
struct bpf_object *query_open(const char *pin, __u32 query, const struct fpisa_job *j, bool steered);

/* Loads the program of query *j into the datapath, under its number; pins what others read of it. */
int query_load(const struct datapath *dp, __u32 query, const struct fpisa_job *j);

/* Takes it away, if there is one. Reports nothing. */
void query_unload(const struct datapath *dp, __u32 query);

#endif
