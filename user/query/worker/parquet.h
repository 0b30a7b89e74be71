/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FPISA_QUERY_PARQUET_H
#define FPISA_QUERY_PARQUET_H

#include <stdint.h>

/* Work of a caller that waits for another process. */
struct parquet_wait {
	/* Waits up to a second until `fd` is readable: 1; 0: it is not yet; -errno with the message set: the caller waits no more. */
	int (*turn)(void *arg, int fd);
	void *arg;
	uint32_t timeout_ms; /* without a byte of rows; 0: for ever */
};

/*
 * Write these `n` columns, 1 to FPISA_COLUMNS_MOST, of the Parquet file `fd` as CSV to a new temporary file without a name; return the file, or -errno with the
 * message set. The process that writes it has ended when this returns.
 */
int parquet_to_csv(int fd, const char *name, const char *const *columns, int n, const struct parquet_wait *wait);

#endif
