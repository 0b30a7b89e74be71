/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Progress of a verb, on stderr if that is a terminal: each text replaces the text before. If stderr is not a terminal,
 * nothing is printed. fail(), refuse() and warning() remove the text first; code that prints to stdout calls
 * progress_end() before.
 */
#ifndef FPISA_CLI_PROGRESS_H
#define FPISA_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Show this text now. */
__attribute__((format(printf, 1, 2))) void progress_step(const char *fmt, ...);

/* Return whether stderr is a terminal, and the last text was shown some tenths of a second ago. Loops use this. */
bool progress_due(void);

/* Show "WHAT: 34%", if progress_due(). */
void progress_share(const char *what, uint64_t done, uint64_t of);

/* Remove the text. */
void progress_end(void);

#endif
