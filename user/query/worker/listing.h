/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FPISA_QUERY_LISTING_H
#define FPISA_QUERY_LISTING_H

/* a table that every worker has, which is not a file and lists the names of the other tables */
#define LISTING "fpisa_tables"
#define LISTING_SCHEMA "name text not null"

/*
 * Write the names of the worker's tables as CSV to a new file without a name. A table has a schema, is a Parquet file or
 * a directory of Parquet files without a schema, or is in another database. Return the descriptor of the file, or -errno
 * with the message set.
 */
int listing_to_csv(int directory);

#endif
