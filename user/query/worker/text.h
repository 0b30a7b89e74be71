/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rows of a text file. The format is CSV (RFC 4180), or TPC-H's .tbl with a | after each field. The place of a row is
 * the offset of its first byte, with which the row can be found again.
 */
#ifndef FPISA_QUERY_TEXT_H
#define FPISA_QUERY_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema.h"

#define TEXT_ROW (1 << 20) /* maximum size in bytes of a row with its line end */

enum text_format { TEXT_CSV, TEXT_TBL };

struct text {
	int fd;
	enum text_format format;
	const char *name; /* name of the file for messages */
	const struct schema *schema;
	bool used[FPISA_COLUMNS_MOST]; /* columns of the schema whose values are used */
	char *buffer;		       /* TEXT_ROW + 1 bytes */
	uint32_t begin, end;
	uint32_t ahead;	 /* number of bytes to read next */
	uint64_t offset; /* offset of `begin` in the file */
	uint64_t line;	 /* line of the current row, starting with 1; 0 if not counted */
	uint64_t next_line;
	uint64_t row; /* offset of the current row in the file */
	int over;     /* whether the file has been read to the end */
};

/*
 * Open the text of a descriptor that supports seeking. The caller keeps the descriptor. Rows have the schema's columns
 * in the schema's order. Values of columns that are not in `used` are not checked. If `used` is NULL, all columns are
 * used. Return 0 or -ENOMEM.
 */
int text_open(struct text *t, int fd, enum text_format format, const char *name, const struct schema *schema,
	      const bool used[FPISA_COLUMNS_MOST]);
void text_close(struct text *t);

/* Make the row at offset `offset` the next row. */
void text_seek(struct text *t, uint64_t offset);

/*
 * Read the fields of the next row for the columns in `used` of text_open(). The fields are in the order of the schema,
 * and are valid until the next call. A field is NULL if it is empty and not in quotes, unless it belongs to a text
 * column that cannot be NULL. Set *at to the row's offset in the file. Return 1, 0 at the end, or -errno with the
 * message set. The message names the file and the line.
 */
int text_row(struct text *t, struct fpisa_field field[FPISA_COLUMNS_MOST], uint64_t *at);

/*
 * Check that the first row of a CSV contains the schema's names. A byte order mark may precede them. Return 0, or
 * -errno with the message set.
 */
int text_header(struct text *t);

/*
 * Return the number of bytes of a UTF-8 byte order mark at the start of the text, or 0. Spreadsheets write such a mark.
 */
size_t text_mark(const char *text, size_t n);

#define TEXT_PLACE 320

/* Write "FILE:LINE" for the last row, and return the text. */
const char *text_place(const struct text *t, char text[TEXT_PLACE]);

/* Set the message that the row has no value in column `i`. `why` says why the row needs a value. Return -EINVAL. */
int text_null(const struct text *t, int i, const char *why);

/* Set the message that the row's value in column `i` is invalid (-EINVAL) or out of range (-ERANGE). Return err. */
int text_bad_value(const struct text *t, int i, const struct fpisa_field *f, int err);

#endif
