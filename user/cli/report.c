// SPDX-License-Identifier: GPL-2.0-only
/* Lines on stderr; report.h has the contracts. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "progress.h"
#include "report.h"

bool verbose;

/* A message is one write, so that messages of concurrent processes do not mix. */
#define MESSAGE_LEN 1024

static const char *reported_place;
static const char *(*reported_cause)(void);

void report_at(const char *place)
{
	reported_place = place;
}

/* Format the message. After a position in a file, "--window: ..." refers to the key `window`. */
static void format_message(char text[MESSAGE_LEN], const char *fmt, va_list ap)
{
	int n = reported_place ? snprintf(text, MESSAGE_LEN, "%s: ", reported_place) : 0;

	if (n < MESSAGE_LEN)
		vsnprintf(text + n, MESSAGE_LEN - n, fmt, ap);
	if (n && n + 2 < MESSAGE_LEN && !strncmp(text + n, "--", 2))
		memmove(text + n, text + n + 2, strlen(text + n + 2) + 1);
}

void report_cause(const char *(*cause)(void))
{
	reported_cause = cause;
}

/* Report the cause, if it exists, in place of the error. */
static bool report_other(void)
{
	const char *cause = reported_cause ? reported_cause() : NULL;

	progress_end();
	if (cause)
		fprintf(stderr, "fpisa: %s\n", cause);
	return cause;
}

/* Return a default hint for an error, for callers without a better one. */
static const char *usual_hint(int err)
{
	return err == -EPERM  ? "run as root, outside of a restricted container" :
	       err == -EACCES ? "check the permissions, or run as root" :
				"";
}

int fail(int err, const char *hint, const char *fmt, ...)
{
	char text[MESSAGE_LEN];
	va_list ap;

	if (report_other())
		return err;
	va_start(ap, fmt);
	format_message(text, fmt, ap);
	va_end(ap);
	hint = fpisa_hint(err, hint ?: usual_hint(err));
	fprintf(stderr, "fpisa: %s: %s%s%s\n", text, strerror(-err), *hint ? "; " : "", hint);
	return err;
}

int refuse(int err, const char *fmt, ...)
{
	char text[MESSAGE_LEN];
	va_list ap;

	if (report_other())
		return err;
	va_start(ap, fmt);
	format_message(text, fmt, ap);
	va_end(ap);
	fprintf(stderr, "fpisa: %s\n", text);
	return err;
}

void warning(const char *fmt, ...)
{
	char text[MESSAGE_LEN];
	va_list ap;

	va_start(ap, fmt);
	format_message(text, fmt, ap);
	va_end(ap);
	progress_end();
	fprintf(stderr, "fpisa: warning: %s\n", text);
}
