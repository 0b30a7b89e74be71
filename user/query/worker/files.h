/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The files with the rows of a table. A table is one file, or a directory with Parquet files at any depth. No name and no
 * link can make the worker open a file outside of its own directory.
 */
#ifndef FPISA_QUERY_FILES_H
#define FPISA_QUERY_FILES_H

#include <stdbool.h>

#include "identity.h"

#define FILES_MOST 4096 /* maximum number of files of a table */

struct files {
	int n, next; /* `next` is the file that files_check_next() checks */
	struct table_file {
		int fd;
		char *name; /* path from the worker's directory */
		struct identity identity;
		bool pages_checked; /* used by pages_check() */
	} * file;
};

/* Open a regular file in the directory. Return the descriptor, or -errno without a message. */
int files_open_one(int directory, const char *name);

/* Return the text of an error of files_open_one(). */
const char *files_why(int err);

/* Add an open file. The files own the descriptor afterwards. Return 0, or -ENOMEM with the message set. */
int files_add(struct files *f, int fd, const char *name);

/*
 * Open the Parquet files in the directory `table` of the worker's directory and in directories below, in the order of
 * their paths. Parquet files end with .parquet. Skip names that begin with a dot or _, because Spark and others give such
 * names to files that are not rows. Return 0, or -errno with the message set. If there is no such directory or no such
 * file, return -ENOENT without a message.
 */
int files_open_all(struct files *f, int directory, const char *table);

void files_close(struct files *f); /* *f may be all 0 */

/* For all files, identity_note() and identity_closed(), identity_number(), identity_unchanged(), identity_closed(). */
int files_note(struct files *f);
uint64_t files_number(const struct files *f, uint64_t others);
int files_unchanged(struct files *f);

/* Check one of the files as files_unchanged() does, each file in turn. */
int files_check_next(struct files *f);

int files_closed(const struct files *f);

#endif
