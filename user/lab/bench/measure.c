// SPDX-License-Identifier: GPL-2.0-only
/* Functions for measurements in a separate network. measure.h documents the functions. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/report.h"
#include "fpisa/wire.h"
#include "lib/base/clock.h"
#include "measure.h"
#include "lab/testbed/lab.h"

uint64_t task_ns(pid_t task)
{
	char path[64], text[64] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", task);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(fd);
	return strtoull(text, NULL, 10);
}

int enter_sysfs(void)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("sysfs", "/sys", "sysfs", 0, NULL) ||
	    mount("bpf", LAB_BPFFS, "bpf", 0, "mode=0700"))
		return fail(-errno, NULL, "bench: cannot mount sysfs");
	return 0;
}

int enter_network(void)
{
	if (unshare(CLONE_NEWNET | CLONE_NEWNS))
		return fail(-errno, NULL, "bench: cannot create a network namespace");
	return enter_sysfs();
}

uint64_t own_cpu_ns(pid_t napi)
{
	return fpisa_clock_ns(CLOCK_PROCESS_CPUTIME_ID) + task_ns(napi);
}

float whole_number(uint32_t rank, uint64_t i)
{
	return (float)((int)((i * 7919 + rank * 104729) % 2003) - 1001);
}

float whole_sum(uint32_t workers, uint64_t i)
{
	float sum = 0;

	for (uint32_t r = 0; r < workers; r++)
		sum += whole_number(r, i);
	return sum;
}

pid_t napi_thread(const char *dev)
{
	char path[288], want[32], name[64];
	struct dirent *entry;
	pid_t found = -1;
	FILE *file;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/class/net/%s/threaded", dev);
	file = fopen(path, "w");
	if (!file || fputs("1", file) < 0 || fclose(file))
		return fail(-errno, NULL, "%s", path);
	snprintf(want, sizeof(want), "napi/%s-", dev);
	dir = opendir("/proc");
	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		file = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? fopen(path, "r") : NULL;
		if (!file)
			continue;
		if (fgets(name, sizeof(name), file) && !strncmp(name, want, strlen(want)))
			found = (pid_t)atoi(entry->d_name);
		fclose(file);
	}
	if (dir)
		closedir(dir);
	return found < 0 ? fail(-ESRCH, NULL, "%s: cannot find the thread that polls the link", dev) : found;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double quartile(double *v, uint32_t n, uint32_t quarter)
{
	qsort(v, n, sizeof(*v), ascending);
	return v[(n - 1) * quarter / 4];
}

int parse_sizes(struct sizes *s, char *text)
{
	uint64_t n;

	s->n = 0;
	for (char *rest = NULL, *at = strtok_r(text, ",", &rest); at; at = strtok_r(NULL, ",", &rest)) {
		if (parse_number("--elements", at, FPISA_BLOCK, FPISA_MAX_ELEMENTS, &n))
			return -1;
		if (s->n == MAX_SIZES || n % FPISA_BLOCK)
			return refuse(
				-1,
				"--elements: %s is not a multiple of %d, or the list has more than %d values; change "
				"the list",
				at, FPISA_BLOCK, MAX_SIZES);
		for (uint32_t i = 0; i < s->n; i++)
			if (s->elements[i] == n)
				return refuse(-1, "--elements: %s is given twice", at);
		s->elements[s->n++] = (uint32_t)n;
	}
	return s->n ? 0 : refuse(-1, "--elements: the list is empty; give values such as 256,832");
}
