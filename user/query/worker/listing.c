// SPDX-License-Identifier: GPL-2.0-only
/* The tables of a directory as a table; listing.h has the contract. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "listing.h"
#include "schema.h"

#define SUFFIX ".schema"

static int write_names(DIR *d, int to)
{
	struct dirent *e;

	dprintf(to, "name\n");
	while (errno = 0, e = readdir(d)) {
		size_t n = strlen(e->d_name), of_table = n - strlen(SUFFIX);

		if (n <= strlen(SUFFIX) || strcmp(e->d_name + of_table, SUFFIX))
			continue;
		e->d_name[of_table] = 0;
		if (table_name_valid(e->d_name) && dprintf(to, "%s\n", e->d_name) < 0)
			return fpisa_fail(-errno, "a list of the tables: %s", strerror(errno));
	}
	return errno ? fpisa_fail(-errno, "the worker's directory: %s", strerror(errno)) : 0;
}

int listing_to_csv(int directory)
{
	int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), to, err;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d) {
		err = errno;
		if (fd >= 0)
			close(fd);
		return fpisa_fail(-err, "the worker's directory: %s", strerror(err));
	}
	to = memfd_create("fpisa-tables", MFD_CLOEXEC);
	err = to < 0 ? fpisa_fail(-errno, "a list of the tables: %s", strerror(errno)) : write_names(d, to);
	closedir(d);
	if (err && to >= 0)
		close(to);
	return err ?: to;
}
