/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FPISA_QUERY_PARQUET_H
#define FPISA_QUERY_PARQUET_H

#include <stdint.h>

/* What somebody does who waits for another process. */
struct parquet_wait {
	/* Waits up to a second until `fd` is readable: 1, 0: not yet, or -errno with the message set: it waits no more. */
	int (*turn)(void *arg, int fd);
	void *arg;
	uint32_t timeout_ms; /* without a byte of rows; 0: for ever */
};

/*
 * A new temporary file with these `n` columns, 1 to FPISA_COLUMNS_MOST, of the Parquet file `fd` as CSV; it has no name. Or -errno with the message set. The process that
 * writes it is gone when this returns.
 */
int parquet_to_csv(int fd, const char *name, const char *const *columns, int n, const struct parquet_wait *wait);

#endif
