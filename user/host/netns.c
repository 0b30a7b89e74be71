// SPDX-License-Identifier: GPL-2.0-only
/* Network namespaces; netns.h has the contracts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "netns.h"

/* iproute2 names that mount after the namespace; the last line is what is seen. */
bool netns_exec(char name[NAME_MAX + 1])
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL, at[8], path[PATH_MAX];
	size_t size = 0;

	*name = 0;
	while (f && getline(&line, &size, f) > 0) {
		const char *rest = strstr(line, " - ");

		if (!rest || sscanf(line, "%*s %*s %*s %*s %7s", at) != 1 || strcmp(at, "/sys"))
			continue;
		if (sscanf(rest, " - sysfs %255s", name) != 1 || !strcmp(name, "sysfs"))
			*name = 0;
	}
	free(line);
	if (f)
		fclose(f);
	return *name && snprintf(path, sizeof(path), "/run/netns/%s", name) < PATH_MAX && !access(path, F_OK);
}
