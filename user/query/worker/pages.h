/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The checksums of Parquet pages. A page header may have the CRC-32 of the page's bytes in the file. DuckDB does not
 * compare it.
 */
#ifndef FPISA_QUERY_PAGES_H
#define FPISA_QUERY_PAGES_H

#include <stdbool.h>

#include "files.h"
#include "schema.h"

/*
 * Compare the pages of the columns in `used` with their checksums, once for each open file. Skip pages without a
 * checksum, and a file whose structure is not valid, which DuckDB refuses. Return 0, or -EINVAL with the message set,
 * which names the file and the column.
 */
int pages_check(struct table_file *f, const struct schema *schema, const bool used[FPISA_COLUMNS_MOST]);

#endif
