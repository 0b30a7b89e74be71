/* SPDX-License-Identifier: GPL-2.0-only */
/* The comparison of the calls for which ranks wait */
#ifndef FPISA_MANAGER_CALLS_H
#define FPISA_MANAGER_CALLS_H

#include <stdbool.h>

#include "lib/manager/protocol.h"

/*
 * Return whether the messages WAITS of two ranks prove that the ranks have made different calls. A rank that has not sent
 * WAITS has call 0. Messages of ranks that make the same calls never prove it, in whatever order they arrive and whichever
 * jobs fail. If all ranks of a group wait and can receive no result, and no job of theirs has failed, the last messages of
 * two of them prove it.
 */
bool manager_calls_differ(const struct fpisa_manager_waits *a, const struct fpisa_manager_waits *b);

#endif
