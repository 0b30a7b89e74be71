/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The answer as batches of Arrow columns. arrow.h documents the functions. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "arrow.h"
#include "lib/base/error.h"
#include "lib/base/locale.h"
#include "lib/base/utf8.h"
#include "master.h"

#define ROWS 8192	/* maximum number of rows of a batch */
#define TEXT (64 << 20) /* bytes of texts of a column, after which a batch ends */
#define PAUSE_MS 10	/* a batch ends if no row arrives in this time */
#define NUMBER 3	/* buffers of a column of texts, the maximum of any column: validity, offsets, bytes */

_Static_assert(TEXT + (1 << 21) < INT32_MAX, "offsets have 32 bits");

struct column {
	struct fpisa_column is;
	void *buffer[NUMBER]; /* validity bitmap; values, or ends of texts; texts */
	size_t bytes, room;   /* of texts */
	int64_t nulls;
};

struct stream {
	struct fpisa_query *q;
	fpisa_row_filter keeps;
	void *arg;
	int64_t rows; /* of the batch */
	uint32_t n;
	struct column *column;
};

static int no_memory(void)
{
	return fpisa_fail(-ENOMEM, "not enough memory for a batch of rows; " FPISA_MORE_MEMORY);
}

/* -- children --------------------------------------------------------------------------- */

static void release_field(struct ArrowSchema *f)
{
	free(f->private_data);
	f->release = NULL;
}

static void release_schema(struct ArrowSchema *s)
{
	for (int64_t i = 0; i < s->n_children; i++)
		if (s->children[i]->release)
			s->children[i]->release(s->children[i]);
	free(s->children);
	s->release = NULL;
}

static void release_column(struct ArrowArray *a)
{
	for (int64_t i = 0; i < a->n_buffers; i++)
		free((void *)a->buffers[i]);
	free(a->buffers);
	a->release = NULL;
}

static void release_batch(struct ArrowArray *a)
{
	for (int64_t i = 0; i < a->n_children; i++)
		if (a->children[i]->release)
			a->children[i]->release(a->children[i]);
	free(a->children);
	free(a->buffers);
	a->release = NULL;
}

/* Allocate `n` pointers, to structs of `size` bytes in the same memory. */
static void *allocate_children(uint32_t n, size_t size)
{
	void **children = calloc(n, sizeof(*children) + size);

	for (uint32_t i = 0; children && i < n; i++)
		children[i] = (char *)(children + n) + i * size;
	return children;
}

/* -- the schema ----------------------------------------------------------------------- */

static void format_of(const struct fpisa_column *c, char text[16])
{
	static const char *const formats[] = {
		[FPISA_COLUMN_REAL] = "f",   [FPISA_COLUMN_DOUBLE] = "g",      [FPISA_COLUMN_INT32] = "i",
		[FPISA_COLUMN_INT64] = "l",  [FPISA_COLUMN_TEXT] = "u",	       [FPISA_COLUMN_DATE] = "tdD",
		[FPISA_COLUMN_DECIMAL] = "", [FPISA_COLUMN_TIMESTAMP] = "tsu:"};

	if (c->type == FPISA_COLUMN_DECIMAL)
		snprintf(text, 16, "d:%u,%u", c->precision, c->scale);
	else
		strcpy(text, formats[c->type]);
}

/* Describe a column. One text has its format, and then its name. */
static int describe_field(const struct fpisa_column *c, const char *name, struct ArrowSchema *out)
{
	char format[16], *text = NULL;

	if (!fpisa_is_utf8(name))
		return fpisa_fail(-EILSEQ,
				  "the conditions of a value are not UTF-8, which Arrow requires for the names of "
				  "columns; choose another format");
	format_of(c, format);
	if (asprintf(&text, "%s%c%s", format, 0, name) < 0)
		return no_memory();
	*out = (struct ArrowSchema){.format = text,
				    .name = text + strlen(text) + 1,
				    .flags = c->not_null ? 0 : ARROW_FLAG_NULLABLE,
				    .release = release_field,
				    .private_data = text};
	return 0;
}

static int describe(struct stream *s, struct ArrowSchema *out)
{
	int rc = 0;

	*out = (struct ArrowSchema){.format = "+s", .name = "", .release = release_schema};
	out->children = allocate_children(s->n, sizeof(**out->children));
	if (!out->children)
		return no_memory();
	out->n_children = s->n;
	for (uint32_t i = 0; !rc && i < s->n; i++)
		rc = describe_field(&s->column[i].is, s->q->out[i].name, out->children[i]);
	if (rc)
		release_schema(out);
	return rc;
}

/* -- a batch ---------------------------------------------------------------------------- */

static size_t size_of(const struct fpisa_column *c)
{
	static const uint8_t sizes[] = {
		[FPISA_COLUMN_REAL] = 4,     [FPISA_COLUMN_DOUBLE] = 8,	  [FPISA_COLUMN_INT32] = 4,
		[FPISA_COLUMN_INT64] = 8,    [FPISA_COLUMN_TEXT] = 4,	  [FPISA_COLUMN_DATE] = 4,
		[FPISA_COLUMN_DECIMAL] = 16, [FPISA_COLUMN_TIMESTAMP] = 8};

	return sizes[c->type];
}

/* Return the number of buffers. */
static int buffers_of(const struct fpisa_column *c)
{
	return c->type == FPISA_COLUMN_TEXT ? 3 : 2;
}

static void drop(struct stream *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		struct column *c = &s->column[i];

		for (int k = 0; k < NUMBER; k++)
			free(c->buffer[k]);
		*c = (struct column){.is = c->is};
	}
	s->rows = 0;
}

static int begin(struct stream *s)
{
	drop(s);
	for (uint32_t i = 0; i < s->n; i++) {
		struct column *c = &s->column[i];

		c->buffer[0] = calloc(1, ROWS / 8);
		c->buffer[1] = calloc(ROWS + 1, size_of(&c->is));
		if (!c->buffer[0] || !c->buffer[1])
			return no_memory();
	}
	return 0;
}

static int add_text(struct column *c, const char *text, size_t len)
{
	size_t room = c->room;
	char *grown;

	while (room < c->bytes + len)
		room = room ? 2 * room : 4096;
	grown = room == c->room ? c->buffer[2] : realloc(c->buffer[2], room);
	if (!grown && room)
		return no_memory();
	if (len)
		memcpy(grown + c->bytes, text, len);
	c->buffer[2] = grown;
	c->room = room;
	c->bytes += len;
	return 0;
}

/* Convert a number, a date or a timestamp. The master has checked the text's form. */
static int convert(const struct fpisa_column *c, const char *text, void *to)
{
	struct fpisa_field f = {.text = (char *)text, .len = strlen(text)};
	__u64 wide[2] = {0};
	uint32_t unused;
	double x;
	float y;
	int rc;

	switch (c->type) {
	case FPISA_COLUMN_REAL:
		y = strtof_l(text, NULL, FPISA_LOCALE);
		memcpy(to, &y, sizeof(y));
		return 0;
	case FPISA_COLUMN_DOUBLE:
		x = strtod_l(text, NULL, FPISA_LOCALE);
		memcpy(to, &x, sizeof(x));
		return 0;
	}
	rc = fpisa_value_parse(c, &f, &unused, wide);
	memcpy(to, wide, size_of(c));
	return rc;
}

static int add_value(struct stream *s, uint32_t i, const char *text)
{
	struct column *c = &s->column[i];
	const char *name = s->q->out[i].name;

	((uint8_t *)c->buffer[0])[s->rows >> 3] |= (uint8_t)(1 << (s->rows & 7));
	if (c->is.type == FPISA_COLUMN_TEXT)
		return fpisa_is_utf8(text) ? add_text(c, text, strlen(text)) :
					     fpisa_fail(-EILSEQ,
							"column %s: a text is not UTF-8, which Arrow requires; choose "
							"another format",
							name);
	if (convert(&c->is, text, (char *)c->buffer[1] + (size_t)s->rows * size_of(&c->is)))
		return fpisa_fail(-ERANGE,
				  "column %s: %s has more digits than a decimal(%u,%u), Arrow's type of the column; "
				  "choose another format",
				  name, text, c->is.precision, c->is.scale);
	return 0;
}

static int add_row(struct stream *s, const char *const *row)
{
	for (uint32_t i = 0; i < s->n; i++) {
		struct column *c = &s->column[i];
		int rc = row[i] ? add_value(s, i, row[i]) : 0;

		if (rc)
			return rc;
		c->nulls += !row[i];
		if (c->is.type == FPISA_COLUMN_TEXT)
			((int32_t *)c->buffer[1])[s->rows + 1] = (int32_t)c->bytes;
	}
	s->rows++;
	return 0;
}

static bool is_full(const struct stream *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (s->column[i].bytes >= TEXT)
			return true;
	return s->rows == ROWS;
}

/* Take the rows that have arrived. Return 0, or -errno with the message set. */
static int take_rows(struct stream *s)
{
	const char *const *row;
	int rc = 0;

	while (!is_full(s) && (rc = fpisa_query_next(s->q, &row)) > 0) {
		rc = s->keeps && !s->keeps(s->arg, row) ? 0 : add_row(s, row);
		if (rc)
			return rc;
	}
	return rc < 0 ? rc : 0;
}

/* Wait for rows, and take those that arrive soon after each other. There are none after the last row. */
static int fill(struct stream *s)
{
	int state, rc;

	do {
		state = fpisa_query_work(s->q, s->rows ? PAUSE_MS : -1);
		rc = state > 0 ? take_rows(s) : state;
	} while (!rc && state == 1 && !is_full(s));
	return rc;
}

/* Give the buffers of a column away. */
static int give_column(struct stream *s, struct column *c, struct ArrowArray *out)
{
	const void **buffers = malloc(NUMBER * sizeof(*buffers));

	if (!buffers)
		return no_memory();
	for (int k = 0; k < NUMBER; k++)
		buffers[k] = c->buffer[k];
	*out = (struct ArrowArray){.length = s->rows,
				   .null_count = c->nulls,
				   .n_buffers = buffers_of(&c->is),
				   .buffers = buffers,
				   .release = release_column};
	*c = (struct column){.is = c->is};
	return 0;
}

static int give(struct stream *s, struct ArrowArray *out)
{
	int rc = 0;

	*out = (struct ArrowArray){.length = s->rows, .n_buffers = 1, .n_children = s->n, .release = release_batch};
	out->children = allocate_children(s->n, sizeof(**out->children));
	out->buffers = calloc(1, sizeof(*out->buffers));
	if (!out->children)
		out->n_children = 0;
	if (!out->children || !out->buffers)
		rc = no_memory();
	for (uint32_t i = 0; !rc && i < s->n; i++)
		rc = give_column(s, &s->column[i], out->children[i]);
	if (rc)
		release_batch(out);
	return rc;
}

/* -- the stream ------------------------------------------------------------------------- */

/* Wait until the answer's columns are known. */
static int prepare(struct stream *s)
{
	int rc = s->column ? 0 : fpisa_query_work(s->q, -1);

	if (rc <= 0)
		return rc;
	s->n = fpisa_query_columns(s->q, NULL);
	s->column = calloc(s->n, sizeof(*s->column));
	if (!s->column)
		return no_memory();
	for (uint32_t i = 0; i < s->n; i++)
		s->column[i].is = fpisa_query_out(s->q, i);
	return 0;
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
	struct stream *s = stream->private_data;
	int rc = prepare(s);

	if (!rc)
		rc = describe(s, out);
	return rc ? -fpisa_query_fail(s->q, rc) : 0;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
	struct stream *s = stream->private_data;
	int rc = prepare(s);

	*out = (struct ArrowArray){0};
	if (!rc)
		rc = begin(s);
	if (!rc)
		rc = fill(s);
	if (!rc && s->rows)
		rc = give(s, out);
	return rc ? -fpisa_query_fail(s->q, rc) : 0;
}

static const char *last_error(struct ArrowArrayStream *stream)
{
	return ((struct stream *)stream->private_data)->q->why;
}

static void release(struct ArrowArrayStream *stream)
{
	struct stream *s = stream->private_data;

	drop(s);
	free(s->column);
	free(s);
	stream->release = NULL;
}

int fpisa_query_stream_some(struct fpisa_query *q, fpisa_row_filter keeps, void *arg, struct ArrowArrayStream *out)
{
	struct stream *s;
	int rc = fpisa_given(out, "the stream");

	if (rc)
		return rc;
	*out = (struct ArrowArrayStream){0};
	rc = fpisa_given(q, "the query");
	if (rc)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s)
		return no_memory();
	*s = (struct stream){.q = q, .keeps = keeps, .arg = arg};
	*out = (struct ArrowArrayStream){get_schema, get_next, last_error, release, NULL};
	out->private_data = s;
	return 0;
}

int fpisa_query_stream(struct fpisa_query *q, struct ArrowArrayStream *out)
{
	return fpisa_query_stream_some(q, NULL, NULL, out);
}
