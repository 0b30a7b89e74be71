/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Errors are reported once, by the layer that knows the cause, as a line on stderr, "fpisa: ...".
 *
 * A verb gets argv from its own last word on and returns 0, -errno after it
 * has reported the error, or BAD_USAGE, upon which main() adds the verb's
 * usage line. Only main() turns these into exit codes: 0, 1 and 2.
 */
#ifndef FPISA_CLI_REPORT_H
#define FPISA_CLI_REPORT_H

#include <stdbool.h>

#define BAD_USAGE 1

/* --verbose: libraries below say what they do, too. */
extern bool verbose;

/* "fpisa: MESSAGE: strerror; HINT" on stderr; hint may be NULL. Returns err, a negative errno. */
__attribute__((format(printf, 3, 4))) int fail(int err, const char *hint, const char *fmt, ...);

/* "fpisa: MESSAGE" on stderr, for errors that say it all themselves. Returns err. */
__attribute__((format(printf, 2, 3))) int refuse(int err, const char *fmt, ...);

/* "fpisa: warning: MESSAGE" on stderr. */
__attribute__((format(printf, 1, 2))) void warning(const char *fmt, ...);

/* Begin messages with a place, FILE:LINE, from here on; the text must stay. NULL: no place. */
void report_at(const char *place);

/* From here on report what cause() returns, unless it is NULL, in place of any error to which it led. */
void report_cause(const char *(*cause)(void));

#endif
