/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FPISA_QUERY_LISTING_H
#define FPISA_QUERY_LISTING_H

#define LISTING "fpisa_tables" /* a table of every worker that is not a file: the names of the other tables */
#define LISTING_SCHEMA "name text not null"

/*
 * Write the names of the directory's tables, those with a schema and those of Parquet without one, as CSV to a new file
 * without a name. Return its descriptor, or -errno with the message set.
 */
int listing_to_csv(int directory);

#endif
