// SPDX-License-Identifier: GPL-2.0-only
/* A line that changes; progress.h has the contracts. */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "progress.h"

#define WIDTH 79 /* a longer text would need two lines, and one of them would stay */
#define PAUSE_NS 250000000ull

static uint64_t shown_ns; /* 0: no text is shown */

static bool terminal(void)
{
	static int is = -1;

	if (is < 0)
		is = isatty(STDERR_FILENO);
	return is;
}

void progress_step(const char *fmt, ...)
{
	char text[WIDTH + 1];
	va_list ap;

	if (!terminal())
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* The cursor stays at the line's start, so that output of another program overwrites the text. */
	fprintf(stderr, "\r\033[K%s\r", text);
	shown_ns = fpisa_now();
}

bool progress_due(void)
{
	return terminal() && fpisa_now() >= shown_ns + PAUSE_NS;
}

void progress_share(const char *what, uint64_t done, uint64_t of)
{
	if (progress_due())
		progress_step("%s: %u%%", what, of ? (unsigned int)(100.0 * (double)done / (double)of) : 100);
}

void progress_end(void)
{
	if (shown_ns)
		fputs("\r\033[K", stderr);
	shown_ns = 0;
}
