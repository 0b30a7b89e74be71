/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FPISA_QUERY_LISTING_H
#define FPISA_QUERY_LISTING_H

#define LISTING "fpisa_tables" /* a table that every worker has, and no file: names of the others */
#define LISTING_SCHEMA "name text not null"

/* A new file without a name, with the names of the directory's schemas as CSV. Or -errno with the message set. */
int listing_to_csv(int directory);

#endif
