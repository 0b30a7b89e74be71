// SPDX-License-Identifier: GPL-2.0-only
/* Parquet on stdout. parquet.h documents the function. */
#include "parquet.h"
#include "query/worker/engine.h"

#define TABLE "answer"

int parquet_write(struct ArrowArrayStream *rows)
{
	struct engine e;
	int err = engine_open(&e, TABLE);

	if (!err)
		err = engine_ingest(&e, TABLE, rows);
	if (!err)
		err = engine_do(&e, "COPY " TABLE " TO '/dev/stdout' (FORMAT parquet)", NULL, TABLE);
	if (rows->release)
		rows->release(rows);
	engine_close(&e);
	return err;
}
