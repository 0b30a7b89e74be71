/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The Arrow C data and stream interface (arrow.apache.org/docs/format/CDataInterface.html), which defines the layouts
 * and names, and the answer of a query in this form.
 */
#ifndef FPISA_QUERY_ARROW_H
#define FPISA_QUERY_ARROW_H

#include <stdbool.h>
#include <stdint.h>

struct ArrowSchema {
	const char *format, *name, *metadata;
	int64_t flags, n_children;
	struct ArrowSchema **children, *dictionary;
	void (*release)(struct ArrowSchema *);
	void *private_data;
};

#define ARROW_FLAG_NULLABLE 2

struct ArrowArray {
	int64_t length, null_count, offset, n_buffers, n_children;
	const void **buffers;
	struct ArrowArray **children, *dictionary;
	void (*release)(struct ArrowArray *);
	void *private_data;
};

struct ArrowArrayStream {
	int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
	int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *); /* NULL at the end of the stream */
	const char *(*get_last_error)(struct ArrowArrayStream *);
	void (*release)(struct ArrowArrayStream *);
	void *private_data;
};

struct fpisa_query;

/* Return whether the answer keeps this row. */
typedef bool (*fpisa_row_filter)(void *arg, const char *const *row);

/* Do what fpisa_query_stream() does, and keep only some of the rows. keeps() may be NULL, for all rows. */
int fpisa_query_stream_some(struct fpisa_query *q, fpisa_row_filter keeps, void *arg, struct ArrowArrayStream *out);

#endif
