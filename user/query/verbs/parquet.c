// SPDX-License-Identifier: GPL-2.0-only
/* Parquet on stdout. parquet.h documents the function. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "parquet.h"
#include "query/worker/engine.h"

#define TABLE "answer"
#define BUFFER 65536

/* Write a file of the given descriptor, from its beginning, to stdout. */
static int copy(int fd)
{
	char bytes[BUFFER];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, bytes, sizeof(bytes), at)) > 0 && !ferror(stdout)) {
		fwrite(bytes, 1, (size_t)n, stdout);
		at += n;
	}
	return n < 0 ? fpisa_fail(-errno, "cannot read the Parquet file in memory: %s", fpisa_why(-errno)) : 0;
}

/*
 * Let DuckDB write the table to memory, and write that to stdout. DuckDB opens files by their names, which truncates a
 * file to which stdout appends, and which is not possible for a socket.
 */
static int write_table(struct engine *e)
{
	int fd = memfd_create(TABLE, MFD_CLOEXEC), err;
	char sql[128];

	if (fd < 0)
		return fpisa_fail(-errno, "cannot create a Parquet file in memory: %s", fpisa_why(-errno));
	snprintf(sql, sizeof(sql), "COPY " TABLE " TO '/proc/self/fd/%d' (FORMAT parquet, USE_TMP_FILE false)", fd);
	err = engine_do(e, sql, NULL, TABLE) ?: copy(fd);
	close(fd);
	return err;
}

int parquet_write(struct ArrowArrayStream *rows)
{
	struct engine e;
	int err = engine_open(&e, TABLE);

	if (!err)
		err = engine_ingest(&e, TABLE, rows, TABLE) ?: write_table(&e);
	if (rows->release)
		rows->release(rows);
	engine_close(&e);
	return err;
}
