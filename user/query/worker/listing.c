// SPDX-License-Identifier: GPL-2.0-only
/* The table that lists the tables of a directory. listing.h documents the function. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "database.h"
#include "files.h"
#include "listing.h"
#include "schema.h"

#define SCHEMA ".schema"
#define PARQUET ".parquet"

/* Remove the suffix from the name. Return whether the name had the suffix. */
static bool cut(char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);
	bool has = n > m && !strcmp(name + n - m, end);

	if (has)
		name[n - m] = 0;
	return has;
}

/* Return whether the directory has Parquet files. */
static bool has_rows(int directory, const char *name)
{
	struct files files = {0};
	bool has = *name != '.' && !files_open_all(&files, directory, name);

	files_close(&files);
	return has;
}

/* Return whether the entry is a schema, or Parquet without a schema. Reduce the name to the table's name. */
static bool is_table(int directory, char name[NAME_MAX + 1])
{
	char schema[NAME_MAX + 16];

	if (cut(name, SCHEMA))
		return true;
	if (!cut(name, PARQUET) && !has_rows(directory, name))
		return false;
	snprintf(schema, sizeof(schema), "%s" SCHEMA, name);
	return faccessat(directory, schema, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
}

static int write_names(DIR *d, int to)
{
	const struct database *b = database_find(NULL);
	struct dirent *e;

	dprintf(to, "name\n");
	while (errno = 0, e = readdir(d)) {
		if (!is_table(dirfd(d), e->d_name) || database_find(e->d_name))
			continue;
		if (table_name_valid(e->d_name) && dprintf(to, "%s\n", e->d_name) < 0)
			return fpisa_fail(-errno, "cannot write the list of tables: %s", fpisa_why(-errno));
	}
	for (; !errno && b; b = b->next)
		dprintf(to, "%s\n", b->name);
	return errno ? fpisa_fail(-errno, "cannot read the worker's directory: %s", fpisa_why(-errno)) : 0;
}

int listing_to_csv(int directory)
{
	int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), to, err;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d) {
		err = errno;
		if (fd >= 0)
			close(fd);
		return fpisa_fail(-err, "cannot open the worker's directory: %s", strerror(err));
	}
	to = memfd_create("fpisa-tables", MFD_CLOEXEC);
	err = to < 0 ? fpisa_fail(-errno, "cannot create the list of tables: %s", fpisa_why(-errno)) :
		       write_names(d, to);
	closedir(d);
	if (err && to >= 0)
		close(to);
	return err ?: to;
}
