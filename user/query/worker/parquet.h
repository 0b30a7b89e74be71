/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FPISA_QUERY_PARQUET_H
#define FPISA_QUERY_PARQUET_H

#include <stdint.h>

/* How a caller waits for another process */
struct parquet_wait {
	/*
	 * Wait up to a second until `fd` is readable. Return 1 if it is, 0 if not yet, or -errno with the message set
	 * to stop waiting.
	 */
	int (*turn)(void *arg, int fd);
	void *arg;
	uint32_t timeout_ms; /* longest time without a byte of rows; 0: unlimited */
};

/*
 * Write these `n` columns, 1 to FPISA_COLUMNS_MOST, of the Parquet file `fd` as CSV to a new temporary file without a
 * name. Return its descriptor, or -errno with the message set. The process that writes it has ended by then.
 */
int parquet_to_csv(int fd, const char *name, const char *const *columns, int n, const struct parquet_wait *wait);

#endif
