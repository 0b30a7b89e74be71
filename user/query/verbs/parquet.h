/* SPDX-License-Identifier: GPL-2.0-only */
/* Parquet on stdout, by DuckDB */
#ifndef FPISA_QUERY_VERBS_PARQUET_H
#define FPISA_QUERY_VERBS_PARQUET_H

#include "query/lib/arrow.h"

/*
 * Write all rows of a stream, which this function releases. DuckDB keeps them in memory until the last one has arrived.
 * Return 0, or -errno with the message set.
 */
int parquet_write(struct ArrowArrayStream *rows);

#endif
