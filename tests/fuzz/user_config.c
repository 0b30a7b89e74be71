/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libFuzzer target: the configuration file (user/config/parser.c). A file without errors gives values in the ranges of
 * config.h, and each of its jobs may be made.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "config/config.h"
#include "stand_ins.h"

static void check_jobs(const struct config *c)
{
	CHECK(c->jobs >= 0 && c->jobs <= FPISA_MAX_JOBS);
	for (int i = 0; i < c->jobs; i++) {
		struct fpisa_job j = c->job[i].spec.job;

		CHECK(c->job[i].number < FPISA_MAX_JOBS && c->job[i].line > 0);
		for (int k = 0; k < i; k++)
			CHECK(c->job[k].number != c->job[i].number);
		CHECK(j.workers && !datapath_job_check(c->job[i].number, &j));
	}
}

static void check_interfaces(const struct config *c)
{
	CHECK(c->interfaces >= 0 && c->interfaces <= DATAPATH_MAX_INTERFACES);
	for (int i = 0; i < c->interfaces; i++) {
		const struct config_interface *f = &c->interface[i];

		CHECK(f->name && *f->name && f->line > 0 && strlen(f->name) < IF_NAMESIZE);
		CHECK(f->load.mode == DATAPATH_NATIVE || f->load.mode == DATAPATH_SKB);
		for (int k = 0; k < i; k++)
			CHECK(strcmp(c->interface[k].name, f->name));
	}
	CHECK(c->load.port <= 65535);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config *c = NULL;
	char path[64];
	int fd;

	fd = memfd_create("config", MFD_CLOEXEC);
	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!config_read(&c, path)) {
		check_jobs(c);
		check_interfaces(c);
	}
	config_free(c);
	close(fd);
	return 0;
}
