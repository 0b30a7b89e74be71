// SPDX-License-Identifier: GPL-2.0-only
/*
 * The messages of libbpf, which are not printed. The first useful line is added to the error. log.h has the contracts.
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/report.h"
#include "log.h"

static char said[256]; /* first useful line */
static bool said_by_kernel;

static int log_line(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	static const char kernel[] = "Kernel error message: ";
	char line[512], *from = line, *p;

	if (verbose)
		return level == LIBBPF_DEBUG ? 0 : vfprintf(stderr, fmt, ap);
	if (level != LIBBPF_WARN)
		return 0;
	vsnprintf(line, sizeof(line), fmt, ap);
	/*
	 * Ignore this message, which libbpf prints on every kernel since 5.11 that refuses the first call for another
	 * reason.
	 */
	if (strstr(line, "RLIMIT_MEMLOCK"))
		return 0;
	p = strstr(line, kernel);
	if (p)
		from = p + strlen(kernel);
	else if (!strncmp(line, "libbpf: ", 8))
		from = line + 8;
	if (*said && (!p || said_by_kernel))
		return 0;
	said_by_kernel = p;
	snprintf(said, sizeof(said), "%.*s", (int)strcspn(from, "\n"), from);
	return 0;
}

void log_start(void)
{
	*said = 0;
	said_by_kernel = false;
	libbpf_set_print(log_line);
}

const char *load_hint(int err)
{
	return err == -EPERM || err == -EACCES ? "run as root, outside of a restricted container" :
	       err == -EMFILE		       ? "raise the limit, ulimit -n 1024" :
	       err == -ENOMEM ? "load with fewer --slots; fpisa load --help says how much memory each takes" :
				"--verbose shows more; fpisa unload removes what is pinned";
}

const char *reason(int err)
{
	static char text[512];

	snprintf(text, sizeof(text), *said ? "%s (%s)" : "%s", strerror(-err), said);
	return text;
}
