/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FPISA_QUERY_PARQUET_H
#define FPISA_QUERY_PARQUET_H

/* A new temporary file with the rows of the Parquet file `fd` as CSV; it has no name. Or -errno with the message set. */
int parquet_to_csv(int fd, const char *name);

#endif
