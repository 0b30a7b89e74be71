/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FPISA_QUERY_CONNECTION_H
#define FPISA_QUERY_CONNECTION_H

#include "query/lib/control.h"

/*
 * Serve an authenticated master over this connection until the connection ends, and close the connection. Report an
 * error as a line without a newline, in a single write to the descriptor `log`.
 */
void session_run(const struct fpisa_control_channel *control, const struct fpisa_address *from, int directory, int log);

#endif
