/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rows of a text file: CSV (RFC 4180), or TPC-H's .tbl with a | after each field. Each row has the byte at which it
 * begins, by which it can be found again.
 */
#ifndef FPISA_QUERY_TEXT_H
#define FPISA_QUERY_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema.h"

#define TEXT_ROW (1 << 20) /* most bytes of a row, with its line end */

enum text_format { TEXT_CSV, TEXT_TBL };

struct text {
	int fd;
	enum text_format format;
	const char *name; /* name of the file, for messages */
	const struct schema *schema;
	bool used[FPISA_COLUMNS_MOST]; /* columns of the schema whose values are looked at */
	char *buffer;		       /* TEXT_ROW + 1 bytes */
	uint32_t begin, end;
	uint32_t ahead;	 /* bytes to read next */
	uint64_t offset; /* place of `begin` in the file */
	uint64_t line;	 /* line of the row that was taken last, from 1; 0: not counted */
	uint64_t next_line;
	uint64_t row; /* place of that row in the file */
	int over;     /* the file is read to its end */
};

/*
 * Open the text of a descriptor that can seek. The caller keeps the descriptor. Rows have the schema's columns in the
 * schema's order. Values of columns that are not in `used` (NULL: all are) may be anything. Return 0 or -ENOMEM.
 */
int text_open(struct text *t, int fd, enum text_format format, const char *name, const struct schema *schema,
	      const bool used[FPISA_COLUMNS_MOST]);
void text_close(struct text *t);

/* Make the row at byte `offset` the next row. */
void text_seek(struct text *t, uint64_t offset);

/*
 * Read the next row's fields, by the schema's columns, of the columns in `used` of text_open(). They are valid until
 * the next call. A field is NULL if it is empty and not in quotes, unless its column is text that cannot be NULL. Set
 * *at to the row's place in the file. Return 1, 0 at the end, or -errno with the message set, which names file and
 * line.
 */
int text_row(struct text *t, struct fpisa_field field[FPISA_COLUMNS_MOST], uint64_t *at);

/*
 * Check that the first row of a CSV has the schema's names, with or without a byte order mark before them. Return 0, or
 * -errno with the message set.
 */
int text_header(struct text *t);

/* Return the bytes of the UTF-8 byte order mark at the text's start, as spreadsheets write it, or 0. */
size_t text_mark(const char *text, size_t n);

#define TEXT_PLACE 320

/* Write "FILE:LINE" of the last row, and return it. */
const char *text_place(const struct text *t, char text[TEXT_PLACE]);

/* Set the message: the row has no value in column `i`, and `why` says why it needs a value. Return -EINVAL. */
int text_null(const struct text *t, int i, const char *why);

/* Set the message: what is wrong (-EINVAL, -ERANGE) with the row's value of column `i`. Return err. */
int text_bad_value(const struct text *t, int i, const struct fpisa_field *f, int err);

#endif
