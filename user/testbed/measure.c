// SPDX-License-Identifier: GPL-2.0-only
/* What measurements in a network of their own share; measure.h has the contracts. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/report.h"
#include "fpisa/wire.h"
#include "lab.h"
#include "measure.h"

int die(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
	return -1;
}

uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

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

int own_sysfs(void)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("sysfs", "/sys", "sysfs", 0, NULL) ||
	    mount("bpf", LAB_BPFFS, "bpf", 0, "mode=0700"))
		return die("mount sysfs");
	return 0;
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
		return die(path);
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
	if (found < 0) {
		errno = ESRCH;
		return die("a thread that polls the link");
	}
	return found;
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

void print_quartiles(const char *name, double *v, uint32_t n)
{
	printf(", \"%s\": {\"median\": %.4f, \"q1\": %.4f, \"q3\": %.4f}", name, quartile(v, n, 2),
	       quartile(v, n, 1), quartile(v, n, 3));
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

int parse_sizes(struct sizes *s, char *text)
{
	uint64_t n;

	s->n = 0;
	for (char *rest = NULL, *at = strtok_r(text, ",", &rest); at; at = strtok_r(NULL, ",", &rest)) {
		if (parse_number("--elements", at, FPISA_BLOCK, FPISA_MAX_ELEMENTS, &n))
			return -1;
		if (s->n == MAX_SIZES || n % FPISA_BLOCK)
			return refuse(-1, "--elements: up to %d multiples of %d", MAX_SIZES, FPISA_BLOCK);
		for (uint32_t i = 0; i < s->n; i++)
			if (s->elements[i] == n)
				return refuse(-1, "--elements: %s is there twice", at);
		s->elements[s->n++] = (uint32_t)n;
	}
	return s->n ? 0 : refuse(-1, "--elements: none");
}

int crew_hire(struct crew *c, void (*work)(void *arg, int control), void *arg)
{
	pid_t parent = getpid(), pid;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return die("socketpair");
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return die("fork");
	if (!pid) {
		close(pair[0]);
		if (!lab_die_with_parent(parent))
			work(arg, pair[1]);
		_exit(1);
	}
	close(pair[1]);
	c->pid[c->n] = pid;
	c->control[c->n++] = pair[0];
	return 0;
}

int crew_tell(const struct crew *c, const void *order, size_t size)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (send(c->control[i], order, size, MSG_NOSIGNAL) != (ssize_t)size)
			return die("a worker is gone");
	return 0;
}

int crew_hear(const struct crew *c, uint32_t i, void *report, size_t size)
{
	ssize_t n = recv(c->control[i], report, size, 0);

	if (n >= 0)
		errno = ECHILD;
	return n == (ssize_t)size ? 0 : die("a worker is gone");
}

void crew_dismiss(struct crew *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		kill(c->pid[i], SIGKILL);
	for (uint32_t i = 0; i < c->n; i++) {
		waitpid(c->pid[i], NULL, 0);
		close(c->control[i]);
	}
	c->n = 0;
}
