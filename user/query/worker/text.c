// SPDX-License-Identifier: GPL-2.0-only
/* Rows of CSV and .tbl. text.h documents the functions. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fpisa-query.h"
#include "lib/base/error.h"
#include "text.h"

#define READ_FIRST 4096 /* bytes of the first read for a row; doubles while the rows that follow are read in order */

int text_open(struct text *t, int fd, enum text_format format, const char *name, const struct schema *schema,
	      const bool used[FPISA_COLUMNS_MOST])
{
	*t = (struct text){.fd = fd, .format = format, .name = name, .schema = schema, .line = 1, .ahead = READ_FIRST};
	for (int i = 0; i < schema->n; i++)
		t->used[i] = !used || used[i];
	t->buffer = malloc(TEXT_ROW + 1);
	return t->buffer ? 0 : fpisa_fail(-ENOMEM, "%s: not enough memory to read it; " FPISA_MORE_MEMORY, name);
}

void text_close(struct text *t)
{
	free(t->buffer);
	t->buffer = NULL;
}

void text_seek(struct text *t, uint64_t offset)
{
	uint64_t ahead = offset - t->offset;

	/* The previous row in the buffer has already been split. */
	if (offset > t->offset && ahead < t->end - t->begin) {
		t->begin += (uint32_t)ahead;
	} else {
		t->begin = t->end = 0;
		t->ahead = READ_FIRST;
	}
	t->offset = offset;
	t->line = offset ? 0 : 1;
	t->next_line = 0;
	t->over = 0;
}

static uint64_t count_lines(const char *bytes, size_t n)
{
	uint64_t lines = 0;

	for (size_t i = 0; i < n; i++)
		lines += bytes[i] == '\n';
	return lines;
}

/* Return the line of a row that was found by seeking. Count the lines before the row. */
static uint64_t line_of(const struct text *t)
{
	uint64_t line = 1, at = 0;
	char bytes[16384];
	ssize_t n = 1;

	while (at < t->row && n > 0) {
		uint64_t left = t->row - at;

		n = pread(t->fd, bytes, left < sizeof(bytes) ? left : sizeof(bytes), (off_t)at);
		line += n > 0 ? count_lines(bytes, (size_t)n) : 0;
		at += n > 0 ? (uint64_t)n : 0;
	}
	return line;
}

const char *text_place(const struct text *t, char text[TEXT_PLACE])
{
	snprintf(text, TEXT_PLACE, "%s:%llu", t->name, (unsigned long long)(t->line ? t->line : line_of(t)));
	return text;
}

static int bad(const struct text *t, const char *what)
{
	char at[TEXT_PLACE];

	return fpisa_fail(-EINVAL, "%s: %s", text_place(t, at), what);
}

int text_bad_value(const struct text *t, int i, const struct fpisa_field *f, int err)
{
	const struct fpisa_column *c = &t->schema->column[i];
	char at[TEXT_PLACE], type[FPISA_COLUMN_TYPE_MOST];

	fpisa_column_type_text(c, type);
	return fpisa_fail(err, "%s: column %s: '%.40s' is %s %s", text_place(t, at), c->name, f->text,
			  err == -ERANGE ? "out of range for" : "not a valid", type);
}

int text_null(const struct text *t, int i, const char *why)
{
	char at[TEXT_PLACE];

	return fpisa_fail(-EINVAL, "%s: column %s is empty, but %s", text_place(t, at), t->schema->column[i].name, why);
}

/* -- lines ------------------------------------------------------------------- */

/* Read more of the file and append it to the buffer. */
static int fill(struct text *t)
{
	ssize_t n;

	memmove(t->buffer, t->buffer + t->begin, t->end - t->begin);
	t->end -= t->begin;
	t->begin = 0;
	if (t->end == TEXT_ROW)
		return bad(t,
			   t->format == TEXT_TBL ?
				   "a row has at most 1 MiB; shorten its texts, or leave out columns" :
				   "a row has at most 1 MiB, but this row has more, or has a quote that is not closed");
	n = pread(t->fd, t->buffer + t->end, t->ahead < TEXT_ROW - t->end ? t->ahead : TEXT_ROW - t->end,
		  (off_t)(t->offset + t->end));
	if (n < 0)
		return fpisa_fail(-errno, "%s: cannot read: %s", t->name, fpisa_why(-errno));
	t->ahead = t->ahead < TEXT_ROW ? 2 * t->ahead : TEXT_ROW;
	t->end += (uint32_t)n;
	t->over = !n;
	return 0;
}

/*
 * Return the bytes of the row at `begin` without the line end. Return UINT32_MAX if the buffer ends before the row
 * does.
 */
static uint32_t row_length(const struct text *t)
{
	const char *from = t->buffer + t->begin, *end = t->buffer + t->end, *at;
	int quoted = 0;

	at = memchr(from, '\n', (size_t)(end - from));
	if (at && (t->format == TEXT_TBL || !memchr(from, '"', (size_t)(at - from))))
		return (uint32_t)(at - from);
	if (t->format == TEXT_TBL)
		return UINT32_MAX;
	for (at = from; at < end; at++) {
		quoted ^= *at == '"';
		if (*at == '\n' && !quoted)
			return (uint32_t)(at - from);
	}
	return UINT32_MAX;
}

/* Find the row at `begin` and the row's length. Return 1, 0 at the end of the file, or -errno. */
static int find_row(struct text *t, uint32_t *n)
{
	int rc;

	while ((*n = row_length(t)) == UINT32_MAX) {
		if (t->over) {
			*n = t->end - t->begin;
			return *n > 0;
		}
		rc = fill(t);
		if (rc)
			return rc;
	}
	return 1;
}

/* -- fields ------------------------------------------------------------------- */

static int split_tbl(const struct text *t, char *row, char *end, struct fpisa_field *field, int most)
{
	int n = 0;

	for (char *stop; row < end; row = stop + 1) {
		stop = memchr(row, '|', (size_t)(end - row));
		if (!stop)
			return bad(t, "the row does not end with |; add it, or name the file .csv");
		*stop = 0;
		if (n < most)
			field[n] = (struct fpisa_field){row, (size_t)(stop - row), stop == row};
		n++;
	}
	return n;
}

/*
 * Unquote a field that starts after its opening quote. "" becomes ". Return the end of the field, or NULL if the quote
 * is not closed.
 */
static char *unquote(char *from, char *end, struct fpisa_field *f)
{
	char *to = from, *at;

	*f = (struct fpisa_field){.text = from};
	for (at = from; at < end; at++) {
		if (*at == '"' && at + 1 < end && at[1] == '"')
			at++;
		else if (*at == '"')
			break;
		*to++ = *at;
	}
	if (at == end || (at + 1 < end && at[1] != ','))
		return NULL;
	f->len = (size_t)(to - from);
	*to = 0;
	return at + 1;
}

static int split_csv(const struct text *t, char *row, char *end, struct fpisa_field *field, int most)
{
	int n = 0;

	for (;; row++) {
		struct fpisa_field f = {.text = row};
		char *stop;

		if (row < end && *row == '"') {
			stop = unquote(row + 1, end, &f);
			if (!stop)
				return bad(t, "a quote is not closed, or is not followed by a comma");
		} else {
			stop = row < end ? memchr(row, ',', (size_t)(end - row)) : NULL;
			stop = stop ? stop : end;
			if (memchr(row, '"', (size_t)(stop - row)))
				return bad(t, "a field has a quote but does not begin with a quote");
			f.len = (size_t)(stop - row);
			f.null = !f.len;
		}
		if (n < most)
			field[n] = f;
		n++;
		row = stop;
		if (row >= end)
			break;
		*row = 0;
	}
	return n;
}

static int check_nulls(const struct text *t, struct fpisa_field *field)
{
	for (int i = 0; i < t->schema->n; i++) {
		const struct fpisa_column *c = &t->schema->column[i];

		if (!field[i].null || !c->not_null || !t->used[i])
			continue;
		if (c->type != FPISA_COLUMN_TEXT)
			return text_null(t, i, "the schema declares it not null");
		field[i].null = 0;
	}
	return 0;
}

static int check_zeros(const struct text *t, const struct fpisa_field *field)
{
	for (int i = 0; i < t->schema->n; i++)
		if (t->used[i] && memchr(field[i].text, 0, field[i].len))
			return bad(t, "the text has a zero byte");
	return 0;
}

/* Split the row into fields. Return 0 or -errno. */
static int split(struct text *t, uint32_t length, struct fpisa_field *field)
{
	char *row = t->buffer + t->begin, *end = row + length, at[TEXT_PLACE];
	bool zeros = memchr(row, 0, length);
	int n;

	if (length && end[-1] == '\r')
		end--;
	*end = 0;
	n = t->format == TEXT_TBL ? split_tbl(t, row, end, field, t->schema->n) :
				    split_csv(t, row, end, field, t->schema->n);
	if (n >= 0 && n != t->schema->n)
		return fpisa_fail(-EINVAL, "%s: %d fields, but the schema has %d columns", text_place(t, at), n,
				  t->schema->n);
	return n < 0 ? n : zeros ? check_zeros(t, field) : 0;
}

/* Return the number of lines of a row that has not been split. */
static uint64_t lines_of(const char *row, uint32_t length)
{
	uint64_t n = 1;

	for (const char *end = row + length; (row = memchr(row, '\n', (size_t)(end - row))); row++)
		n++;
	return n;
}

static int take_row(struct text *t, struct fpisa_field *field, uint64_t *at, uint64_t *line)
{
	uint32_t length;
	int rc;

	t->row = t->offset;
	rc = find_row(t, &length);
	if (rc <= 0)
		return rc;
	*line = t->line ? t->line + lines_of(t->buffer + t->begin, length) : 0;
	*at = t->offset;
	rc = split(t, length, field);
	if (rc)
		return rc;
	length += t->begin + length < t->end;
	t->begin += length;
	t->offset += length;
	return 1;
}

int text_row(struct text *t, struct fpisa_field field[FPISA_COLUMNS_MOST], uint64_t *at)
{
	uint64_t line;
	int rc;

	/* Messages about the row need its line until the next row is requested. */
	if (t->next_line) {
		t->line = t->next_line;
		t->next_line = 0;
	}
	rc = take_row(t, field, at, &line);
	if (rc <= 0)
		return rc;
	rc = check_nulls(t, field);
	if (rc)
		return rc;
	t->next_line = line;
	return 1;
}

size_t text_mark(const char *text, size_t n)
{
	return n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
}

int text_header(struct text *t)
{
	struct fpisa_field field[FPISA_COLUMNS_MOST];
	uint64_t at, line;
	uint32_t length;
	int rc = find_row(t, &length);

	if (rc > 0) {
		uint32_t mark = (uint32_t)text_mark(t->buffer + t->begin, length);

		t->begin += mark;
		t->offset += mark;
		if (memchr(t->buffer + t->begin, 0, length - mark))
			return bad(t, "the text has a zero byte");
		rc = take_row(t, field, &at, &line);
	}
	if (!rc)
		return bad(t, "the file is empty; the first row of a CSV names the columns");
	if (rc < 0)
		return rc;
	for (int i = 0; i < t->schema->n; i++)
		if (strcmp(field[i].text, t->schema->column[i].name))
			return fpisa_fail(-EINVAL, "%s:1: column %d is '%.64s', but %s in the schema", t->name, i + 1,
					  field[i].text, t->schema->column[i].name);
	t->line = line;
	return 0;
}
