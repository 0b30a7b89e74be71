// SPDX-License-Identifier: GPL-2.0-only
/*
 * `ip netns exec NAME` and `ip -n NAME` give their command a /sys of its own.
 * What is pinned below it ends with the command; the programs stay attached.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/report.h"
#include "internal.h"

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

int refuse_netns_exec(const char *dir)
{
	char name[NAME_MAX + 1];

	if (strncmp(dir, "/sys/", 5) || !netns_exec(name))
		return 0;
	return refuse(-EINVAL,
		      "%s: pins there end with ip netns exec; nsenter --net=/run/netns/%s fpisa load ..., "
		      "or --pin DIR outside of /sys",
		      dir, name);
}
