// SPDX-License-Identifier: GPL-2.0-only
/* Tables of a directory. partition.h documents the functions. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "listing.h"
#include "parquet.h"
#include "partition.h"

/* Open a regular file in the directory. Return the descriptor, or -errno without a message. */
static int open_file(int directory, const char *name)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
			       .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
	int fd = (int)syscall(SYS_openat2, directory, name, &how, sizeof(how)), err;
	struct stat st;

	if (fd < 0)
		return -errno;
	err = fstat(fd, &st) ? -errno : S_ISREG(st.st_mode) ? 0 : -ENOTSUP;
	if (err)
		close(fd);
	return err ?: fd;
}

static const char *why(int err)
{
	return err == -EXDEV || err == -ELOOP ? "the path leads out of the worker's directory" :
	       err == -ENOTSUP		      ? "not a regular file" :
						strerror(-err);
}

static int read_schema(struct partition *p, int directory, const char *table)
{
	char name[TABLE_NAME + 16], *text;
	ssize_t n = 0, got;
	int fd, err;

	snprintf(name, sizeof(name), "%s.schema", table);
	fd = open_file(directory, name);
	if (fd == -ENOENT)
		return fpisa_fail(fd, "table %s does not exist on this worker: file %s is missing", table, name);
	if (fd < 0)
		return fpisa_fail(fd, "%s: %s", name, why(fd));
	text = malloc(SCHEMA_BYTES + 1);
	err = identity_note(&p->of_schema, fd, name) ?: identity_closed(fd, name);
	if (!err && !text)
		err = fpisa_fail(-ENOMEM, "%s: no memory to read it", name);
	while (!err && (got = read(fd, text + n, (size_t)(SCHEMA_BYTES - n))) != 0) {
		if (got < 0)
			err = fpisa_fail(-errno, "%s: cannot read: %s", name, strerror(errno));
		else
			n += got;
	}
	if (!err)
		err = identity_unchanged(&p->of_schema, fd, name);
	if (!err && (n == SCHEMA_BYTES || memchr(text, 0, (size_t)n)))
		err = fpisa_fail(-EINVAL, "%s is not a schema; write lines NAME TYPE [not null]", name);
	if (!err) {
		text[n] = 0;
		err = schema_parse(&p->schema, text + text_mark(text, (size_t)n), name);
	}
	free(text);
	identity_forget(&p->of_schema);
	close(fd);
	return err;
}

/* Read the schema. A Parquet table may have no schema, because the file describes its columns. */
static int open_schema(struct partition *p, int directory, const char *table)
{
	char name[TABLE_NAME + 16];
	int err = read_schema(p, directory, table), fd;

	if (err != -ENOENT)
		return err;
	snprintf(name, sizeof(name), "%s.parquet", table);
	fd = open_file(directory, name);
	if (fd >= 0)
		close(fd);
	return fd == -ENOENT ? err : 0;
}

/* Open the only file with rows of the table. */
static int open_rows(struct partition *p, int directory, const char *table)
{
	static const char *const ends[] = {[ROWS_CSV] = "csv", [ROWS_TBL] = "tbl", [ROWS_PARQUET] = "parquet"};
	char name[TABLE_NAME + 16];

	for (int i = 0; i < 3; i++) {
		int fd;

		snprintf(name, sizeof(name), "%s.%s", table, ends[i]);
		fd = open_file(directory, name);
		if (fd == -ENOENT)
			continue;
		if (fd < 0)
			return fpisa_fail(fd, "%s: %s", name, why(fd));
		if (p->fd >= 0) {
			close(fd);
			return fpisa_fail(-EINVAL, "%s and %s both exist; keep one of them", p->file, name);
		}
		p->fd = fd;
		strcpy(p->file, name);
		p->kind = i;
	}
	return p->fd >= 0 ? 0 :
			    fpisa_fail(-ENOENT, "table %s has no rows here: none of %s.csv, .tbl and .parquet exists",
				       table, table);
}

/* Open a table that is a file, or the table that lists the other tables. */
static int open_table(struct partition *p, int directory, const char *table)
{
	char schema[] = LISTING_SCHEMA;

	if (strcmp(table, LISTING))
		return open_schema(p, directory, table) ?: open_rows(p, directory, table);
	strcpy(p->file, table);
	p->ours = true;
	p->fd = listing_to_csv(directory);
	return p->fd < 0 ? p->fd : schema_parse(&p->schema, schema, table);
}

static int note(struct partition *p)
{
	return identity_note(&p->identity, p->fd, p->file) ?: identity_closed(p->fd, p->file);
}

int partition_rewind(struct partition *p)
{
	if (p->kind == ROWS_PARQUET)
		return 0;
	text_seek(&p->text, 0);
	return p->text.format == TEXT_CSV ? text_header(&p->text) : 0;
}

int partition_open(struct partition *p, int directory, const char *table)
{
	int err;

	*p = (struct partition){.fd = -1};
	if (!table_name_valid(table))
		return fpisa_fail(-EINVAL, "'%.64s' is not a table name: letters, digits, '_', '.' and '-'", table);
	err = open_table(p, directory, table);
	if (!err && !p->ours)
		err = note(p);
	if (!err && p->kind == ROWS_PARQUET)
		err = parquet_open(&p->parquet, p->fd, &p->schema, p->file);
	if (err)
		partition_close(p);
	return err;
}

/* Check the columns of a Parquet file that are used. */
static int check_columns(const struct partition *p, const bool used[FPISA_COLUMNS_MOST])
{
	int err = 0;

	for (int i = 0; !err && i < p->schema.n; i++)
		if (!used || used[i])
			err = parquet_check(&p->parquet, &p->schema, i, p->file);
	return err;
}

int partition_begin(struct partition *p, const bool used[FPISA_COLUMNS_MOST])
{
	int err = p->kind == ROWS_PARQUET ? check_columns(p, used) :
					    text_open(&p->text, p->fd, p->kind == ROWS_TBL ? TEXT_TBL : TEXT_CSV,
						      p->file, &p->schema, used);

	return err ?: partition_rewind(p);
}

void partition_close(struct partition *p)
{
	text_close(&p->text);
	parquet_close(&p->parquet);
	identity_forget(&p->identity);
	if (p->fd > 0)
		close(p->fd);
	p->fd = -1;
}

uint64_t partition_number(const struct partition *p)
{
	return identity_number(&p->identity, identity_number(&p->of_schema, 0));
}

int partition_unchanged(struct partition *p)
{
	return p->ours ? 0 : identity_unchanged(&p->identity, p->fd, p->file);
}

int partition_whole(struct partition *p)
{
	return partition_unchanged(p) ?: p->ours ? 0 : identity_closed(p->fd, p->file);
}
