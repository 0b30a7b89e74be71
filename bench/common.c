// SPDX-License-Identifier: GPL-2.0-only
/* Functions that the programs of bench/ share; common.h has the contracts. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report.h"
#include "common.h"

int end_of_options(int argc, char **argv, uint32_t window, const char *usage)
{
	if (optind < argc)
		return refuse(-1, "%s: not an option\n%s", argv[optind], usage);
	return window & (window - 1) ? refuse(-1, "--window: not a power of two") : 0;
}

void print_quartiles(const char *name, double *v, uint32_t n)
{
	printf(", \"%s\": {\"median\": %.4f, \"q1\": %.4f, \"q3\": %.4f}", name, quartile(v, n, 2), quartile(v, n, 1),
	       quartile(v, n, 3));
}

void fpisa_path(char *path, size_t size, const char *program)
{
	const char *slash = strrchr(program, '/');

	snprintf(path, size, "%.*s/../fpisa", slash ? (int)(slash - program) : 1, slash ? program : ".");
}

int run_fpisa(const char *path, const char *format, ...)
{
	char command[2048];
	size_t used = (size_t)snprintf(command, sizeof(command), "'%s' ", path);
	va_list args;
	int status;

	va_start(args, format);
	vsnprintf(command + used, sizeof(command) - used, format, args);
	va_end(args);
	status = system(command);
	if (status)
		fprintf(stderr, "%s: status %d of: %s\n", program_invocation_short_name, status, command);
	return status ? -1 : 0;
}
