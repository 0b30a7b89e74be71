/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Errors are reported once, by the layer that knows the cause, as a line on stderr, "fpisa: ...".
 *
 * A verb gets argv from its own last word on. It returns 0, -errno after it has reported the error, or BAD_USAGE, for
 * which main() adds the verb's usage line. Only main() turns these into exit codes: 0, 1 and 2.
 */
#ifndef FPISA_CLI_REPORT_H
#define FPISA_CLI_REPORT_H

#include <stdbool.h>

#define BAD_USAGE 1

/* --verbose: print the messages of libbpf too */
extern bool verbose;

/*
 * Write "fpisa: MESSAGE: strerror; HINT" to stderr. If hint is NULL, say what usually helps against the error, if that
 * is known. Return err, a negative errno.
 */
__attribute__((format(printf, 3, 4))) int fail(int err, const char *hint, const char *fmt, ...);

/* Write "fpisa: MESSAGE" to stderr, for errors that need no strerror. Return err. */
__attribute__((format(printf, 2, 3))) int refuse(int err, const char *fmt, ...);

/* Write "fpisa: warning: MESSAGE" to stderr. */
__attribute__((format(printf, 1, 2))) void warning(const char *fmt, ...);

/* Begin messages with a place, FILE:LINE, from here on; the text must stay valid. NULL: no place. */
void report_at(const char *place);

/* From here on report the result of cause(), unless it is NULL, in place of any error that it caused. */
void report_cause(const char *(*cause)(void));

#endif
