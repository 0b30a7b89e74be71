/* SPDX-License-Identifier: GPL-2.0-only */
/* The stream format of Arrow (arrow.apache.org/docs/format/Columnar.html, "IPC Streaming Format") on stdout */
#ifndef FPISA_QUERY_IPC_H
#define FPISA_QUERY_IPC_H

#include "query/lib/arrow.h"

/*
 * Write all batches of a stream of columns of these types: float32, float64, int32, int64, utf8, date32, decimal128 and
 * timestamp[us]. Return 0, or -errno of the stream, which has the message. Errors of stdout are left to flush_stdout().
 */
int ipc_write(struct ArrowArrayStream *rows);

#endif
