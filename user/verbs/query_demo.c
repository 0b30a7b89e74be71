// SPDX-License-Identifier: GPL-2.0-only
/* fpisa query demo: bench/query_demo.py of the tree that this program was built in, with what it was given. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/options.h"
#include "verbs.h"

#define SCRIPT "/../bench/query_demo.py"

int verb_query_demo(int argc, char **argv)
{
	char here[PATH_MAX], script[PATH_MAX + sizeof(SCRIPT)], **all = calloc((size_t)argc + 4, sizeof(*all));
	ssize_t n = readlink("/proc/self/exe", here, sizeof(here) - 1);

	if (!all || n < 0)
		return fail(all ? -errno : -ENOMEM, NULL, "query demo");
	here[n] = 0;
	*strrchr(here, '/') = 0;
	snprintf(script, sizeof(script), "%s" SCRIPT, here);
	if (access(script, R_OK)) {
		free(all);
		return refuse(1, "query demo needs the source tree, with its tests' networks: build/fpisa there, not an installed fpisa");
	}
	all[0] = (char *)"python3";
	all[1] = (char *)"-B";
	all[2] = script;
	memcpy(all + 3, argv + 1, (size_t)(argc - 1) * sizeof(*all));
	setenv("FPISA_BUILD", here, 1);
	execv("/usr/bin/python3", all);
	free(all);
	return fail(-errno, NULL, "/usr/bin/python3");
}
