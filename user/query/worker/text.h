/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rows of a text file: CSV (RFC 4180) or TPC-H's .tbl, fields with | behind each.
 * A row knows the byte that it begins at, by which it is found again.
 */
#ifndef FPISA_QUERY_TEXT_H
#define FPISA_QUERY_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema.h"

#define TEXT_ROW (1 << 20) /* bytes of a row, at most */

enum text_format { TEXT_CSV, TEXT_TBL };

struct text {
	int fd;
	enum text_format format;
	const char *name; /* of the file, for messages */
	const struct schema *schema;
	int n, column[FPISA_COLUMNS_MOST]; /* number of fields of a row, and the schema's column of each */
	char *buffer;			   /* TEXT_ROW + 1 bytes */
	uint32_t begin, end;
	uint32_t ahead;	 /* bytes to read next */
	uint64_t offset; /* in the file, of `begin` */
	uint64_t line;	 /* of the row that was taken last, from 1; 0: not counted */
	uint64_t next_line;
	uint64_t row; /* in the file, of that row */
	int over;     /* the file is read to its end */
};

/*
 * Open the text of a descriptor that can seek, which stays the caller's. Its rows have the schema's columns that are in `there`, NULL: all, in the
 * schema's order. 0 or -ENOMEM.
 */
int text_open(struct text *t, int fd, enum text_format format, const char *name, const struct schema *schema,
	      const bool there[FPISA_COLUMNS_MOST]);
void text_close(struct text *t);

/* Make the row at byte `offset` the next one. */
void text_seek(struct text *t, uint64_t offset);

/*
 * Read the next row's fields, by the schema's columns, of the columns that are there; they are valid until the next call. A field is NULL
 * if it is empty and not in quotes, unless its column is text that cannot be NULL. *at is set to the
 * row's place in the file. 1, 0 at the end, or -errno with the message set, which names file and line.
 */
int text_row(struct text *t, struct fpisa_field field[FPISA_COLUMNS_MOST], uint64_t *at);

/* CSV: the first row must be the schema's names, a byte order mark before them or not. 0, or -errno with the message set. */
int text_header(struct text *t);

/* Bytes of the UTF-8 byte order mark that a text begins with, as spreadsheets write it; 0: it has none. */
size_t text_mark(const char *text, size_t n);

/* Sets the message: the row's key needs so many bytes, by column as `columns` says, and so many are given. Returns -ENOSPC. */
int text_no_room(const struct text *t, size_t need, uint32_t given, const char *columns);

/* Sets the message: the row has no value in column `i`, which `why` says that it has to have. Returns -EINVAL. */
int text_null(const struct text *t, int i, const char *why);

/* Sets the message: what is wrong (-EINVAL, -ERANGE) with the row's value of column `i`. Returns err. */
int text_bad_value(const struct text *t, int i, const struct fpisa_field *f, int err);

#endif
