// SPDX-License-Identifier: GPL-2.0-only
/* The files of a table. files.h documents the functions. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "files.h"
#include "lib/base/error.h"

#define PARQUET ".parquet"

/* -- one file ---------------------------------------------------------------------- */

/* Open what is below the directory. Return the descriptor, or -errno. */
static int open_below(int directory, const char *name, uint64_t flags)
{
	struct open_how how = {.flags = flags | O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
			       .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
	int fd = (int)syscall(SYS_openat2, directory, name, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

int files_open_one(int directory, const char *name)
{
	int fd = open_below(directory, name, 0), err;
	struct stat st;

	if (fd < 0)
		return fd;
	err = fstat(fd, &st) ? -errno : S_ISREG(st.st_mode) ? 0 : S_ISDIR(st.st_mode) ? -EISDIR : -ENOTSUP;
	if (err)
		close(fd);
	return err ?: fd;
}

const char *files_why(int err)
{
	return err == -EXDEV || err == -ELOOP	 ? "the path leads out of the worker's directory" :
	       err == -ENOTSUP || err == -EISDIR ? "not a regular file" :
						   fpisa_why(err);
}

int files_add(struct files *f, int fd, const char *name)
{
	char *copy = strdup(name);
	struct table_file *more = copy ? realloc(f->file, (size_t)(f->n + 1) * sizeof(*more)) : NULL;

	if (!more) {
		free(copy);
		close(fd);
		return fpisa_fail(-ENOMEM, "%s: not enough memory to open it; " FPISA_MORE_MEMORY, name);
	}
	more[f->n++] = (struct table_file){.fd = fd, .name = copy};
	f->file = more;
	return 0;
}

void files_close(struct files *f)
{
	for (int i = 0; i < f->n; i++) {
		identity_forget(&f->file[i].identity);
		close(f->file[i].fd);
		free(f->file[i].name);
	}
	free(f->file);
	*f = (struct files){0};
}

/* -- a directory ------------------------------------------------------------------- */

/* Let this process open as many files as it may, because the library opens each of the table's files again. */
static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static bool is_parquet(const char *name)
{
	size_t n = strlen(name), end = strlen(PARQUET);

	return n > end && !strcmp(name + n - end, PARQUET);
}

static int is_listed(const struct dirent *e)
{
	return *e->d_name != '.' && *e->d_name != '_';
}

static int open_entries(struct files *f, int directory, const char *path);

/* Open what the path names, if it is a Parquet file or a directory. */
static int open_entry(struct files *f, int directory, const char *path)
{
	int fd = is_parquet(path) ? files_open_one(directory, path) : -EISDIR;

	if (fd == -EISDIR)
		return open_entries(f, directory, path);
	if (fd < 0)
		return fpisa_fail(fd, "%s: %s", path, files_why(fd));
	if (f->n < FILES_MOST)
		return files_add(f, fd, path);
	close(fd);
	return fpisa_fail(-E2BIG, "%s: a table with more than %d files is not supported; merge some files", path,
			  FILES_MOST);
}

/* Open the entries of the directory at `path` in the order of their names. Do nothing if this is not a directory. */
static int open_entries(struct files *f, int directory, const char *path)
{
	int fd = open_below(directory, path, O_DIRECTORY), n, err = 0;
	struct dirent **entry;
	char below[PATH_MAX];

	if (fd == -ENOTDIR || fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fpisa_fail(fd, "%s: %s", path, files_why(fd));
	n = scandirat(fd, ".", &entry, is_listed, alphasort);
	err = n < 0 ? fpisa_fail(-errno, "%s: %s", path, fpisa_why(-errno)) : 0;
	for (int i = 0; i < n; i++) {
		if (!err && snprintf(below, sizeof(below), "%s/%s", path, entry[i]->d_name) >= PATH_MAX)
			err = fpisa_fail(-ENAMETOOLONG, "%s: a path in this directory is too long; shorten the names",
					 path);
		err = err ?: open_entry(f, directory, below);
		free(entry[i]);
	}
	if (n >= 0)
		free(entry);
	close(fd);
	return err;
}

int files_open_all(struct files *f, int directory, const char *table)
{
	int err;

	raise_limit();
	err = open_entries(f, directory, table);
	return err || f->n ? err : -ENOENT;
}

/* -- writes ------------------------------------------------------------------------ */

int files_closed(const struct files *f)
{
	int err = 0;

	for (int i = 0; !err && i < f->n; i++)
		err = identity_closed(f->file[i].fd, f->file[i].name);
	return err;
}

int files_note(struct files *f)
{
	int err = 0;

	for (int i = 0; !err && i < f->n; i++)
		err = identity_note(&f->file[i].identity, i ? f->file[0].identity.watch : 0, f->file[i].fd,
				    f->file[i].name);
	return err ?: files_closed(f);
}

uint64_t files_number(const struct files *f, uint64_t others)
{
	for (int i = 0; i < f->n; i++)
		others = identity_number(&f->file[i].identity, others);
	return others;
}

int files_check_next(struct files *f)
{
	struct table_file *file = &f->file[f->next];

	f->next = (f->next + 1) % f->n;
	return identity_unchanged(&file->identity, file->fd, file->name);
}

int files_unchanged(struct files *f)
{
	int err = 0;

	for (int i = 0; !err && i < f->n; i++)
		err = files_check_next(f);
	return err;
}
