// SPDX-License-Identifier: GPL-2.0-only
/* Tables of a directory. partition.h documents the functions. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "listing.h"
#include "parquet.h"
#include "partition.h"

static int read_schema(struct partition *p, int directory, const char *table)
{
	char name[TABLE_NAME + 16], *text;
	ssize_t n = 0, got;
	int fd, err;

	snprintf(name, sizeof(name), "%s.schema", table);
	fd = files_open_one(directory, name);
	if (fd == -ENOENT)
		return fpisa_fail(fd, "table %s does not exist on this worker: file %s is missing", table, name);
	if (fd < 0)
		return fpisa_fail(fd, "%s: %s", name, files_why(fd));
	text = malloc(SCHEMA_BYTES + 1);
	err = identity_note(&p->of_schema, 0, fd, name) ?: identity_closed(fd, name);
	if (!err && !text)
		err = fpisa_fail(-ENOMEM, "%s: not enough memory to read it; " FPISA_MORE_MEMORY, name);
	while (!err && (got = read(fd, text + n, (size_t)(SCHEMA_BYTES - n))) != 0) {
		if (got < 0)
			err = fpisa_fail(-errno, "%s: cannot read: %s", name, fpisa_why(-errno));
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

static int both_exist(const struct partition *p, const char *name)
{
	return fpisa_fail(-EINVAL, "%s and %s both exist; keep one of them", p->file, name);
}

/* Add the directory of the table, if it has Parquet files. */
static int open_directory(struct partition *p, int directory, const char *table)
{
	char name[TABLE_NAME + 16];
	struct files files = {0};
	int err = files_open_all(&files, directory, table);

	snprintf(name, sizeof(name), "%s/", table);
	if (!err && p->files.n)
		err = both_exist(p, name);
	if (err) {
		files_close(&files);
		return err == -ENOENT ? 0 : err;
	}
	p->files = files;
	p->kind = ROWS_PARQUET;
	strcpy(p->file, name);
	return 0;
}

/* Open the only file, or directory, with rows of the table. */
static int open_rows(struct partition *p, int directory, const char *table)
{
	static const char *const ends[] = {[ROWS_CSV] = "csv", [ROWS_TBL] = "tbl", [ROWS_PARQUET] = "parquet"};
	char name[TABLE_NAME + 16];
	int err = 0;

	for (int i = 0; !err && i < 3; i++) {
		int fd;

		snprintf(name, sizeof(name), "%s.%s", table, ends[i]);
		fd = files_open_one(directory, name);
		if (fd == -ENOENT)
			continue;
		if (fd < 0)
			return fpisa_fail(fd, "%s: %s", name, files_why(fd));
		if (p->files.n) {
			close(fd);
			return both_exist(p, name);
		}
		err = files_add(&p->files, fd, name);
		strcpy(p->file, name);
		p->kind = i;
	}
	return err ?: open_directory(p, directory, table);
}

/* Open the schema and the rows. Parquet may have no schema, because the files describe their columns. */
static int open_files(struct partition *p, int directory, const char *table)
{
	int no_schema = read_schema(p, directory, table), err;

	if (no_schema && no_schema != -ENOENT)
		return no_schema;
	err = open_rows(p, directory, table);
	if (err)
		return err;
	if (no_schema && (!p->files.n || p->kind != ROWS_PARQUET))
		return read_schema(p, directory, table);
	return p->files.n ?
		       0 :
		       fpisa_fail(-ENOENT,
				  "table %s has no rows here: %s.csv, .tbl and .parquet do not exist, and neither does "
				  "a directory %s with a .parquet file",
				  table, table, table);
}

/* Open a table of another database. Its rows may change between two scans, so each has a number of its own. */
static int open_database(struct partition *p, int directory, const char *table, const struct database *database)
{
	int err = read_schema(p, directory, table);

	strcpy(p->file, table);
	p->ours = true;
	p->kind = ROWS_PARQUET;
	if (err && err != -ENOENT)
		return err;
	if (getrandom(&p->number, sizeof(p->number), 0) != sizeof(p->number))
		return fpisa_fail(-EIO, "%s: cannot get random numbers; allow the worker to call getrandom()", table);
	return parquet_open_database(&p->parquet, database, &p->schema);
}

/* Open a table of another database, a table that is a file, or the table that lists the other tables. */
static int open_table(struct partition *p, int directory, const char *table)
{
	const struct database *database = database_find(table);
	char schema[] = LISTING_SCHEMA;
	int fd;

	if (database)
		return open_database(p, directory, table, database);
	if (strcmp(table, LISTING))
		return open_files(p, directory, table);
	strcpy(p->file, table);
	p->ours = true;
	fd = listing_to_csv(directory);
	return fd < 0 ? fd : files_add(&p->files, fd, table) ?: schema_parse(&p->schema, schema, table);
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

	*p = (struct partition){0};
	if (!table_name_valid(table))
		return fpisa_fail(-EINVAL, "'%.64s' is not a table name; use letters, digits, '_', '.' and '-'", table);
	err = open_table(p, directory, table);
	if (!err && !p->ours)
		err = files_note(&p->files);
	if (!err && p->kind == ROWS_PARQUET && !p->ours)
		err = parquet_open(&p->parquet, &p->files, &p->schema, p->file);
	if (err)
		partition_close(p);
	return err;
}

/* Check the columns of a Parquet file that are used. Those of another database are checked with its rows. */
static int check_columns(const struct partition *p, const bool used[FPISA_COLUMNS_MOST])
{
	int err = 0;

	for (int i = 0; !err && !p->ours && i < p->schema.n; i++)
		if (!used || used[i])
			err = parquet_check(&p->parquet, &p->schema, i, p->file);
	return err;
}

int partition_begin(struct partition *p, const bool used[FPISA_COLUMNS_MOST])
{
	int err;

	for (int i = 0; i < FPISA_COLUMNS_MOST; i++)
		p->used[i] = (!used || used[i]) && hive_column(&p->parquet.hive, p->schema.column[i].name) < 0;
	err = p->kind == ROWS_PARQUET ? check_columns(p, used) :
					text_open(&p->text, p->files.file[0].fd,
						  p->kind == ROWS_TBL ? TEXT_TBL : TEXT_CSV, p->file, &p->schema, used);
	return err ?: partition_rewind(p);
}

void partition_close(struct partition *p)
{
	text_close(&p->text);
	files_close(&p->files);
}

uint64_t partition_number(const struct partition *p)
{
	return files_number(&p->files, identity_number(&p->of_schema, p->number));
}

int partition_unchanged(struct partition *p)
{
	return p->ours ? 0 : files_unchanged(&p->files);
}

int partition_check(struct partition *p)
{
	return p->ours ? 0 : files_check_next(&p->files);
}

int partition_whole(struct partition *p)
{
	return partition_unchanged(p) ?: p->ours ? 0 : files_closed(&p->files);
}
