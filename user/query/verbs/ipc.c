// SPDX-License-Identifier: GPL-2.0-only
/*
 * Arrow's stream format. ipc.h documents the function. The metadata of a message are a flatbuffer
 * (flatbuffers.dev/internals), written from front to back: a table before the tables to which it points. Every field of
 * a table has 8 bytes, so that all fields are aligned.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipc.h"
#include "lib/base/error.h"

#define FIELDS 8 /* maximum number of fields of a table here */
#define FRAME 8	 /* bytes before the metadata: a mark and their length */

/* Numbers of format/Message.fbs and format/Schema.fbs. */
enum { VERSION_5 = 4 };
enum { HEADER_SCHEMA = 1, HEADER_BATCH = 3 };
enum { TYPE_INT = 2, TYPE_FLOAT = 3, TYPE_UTF8 = 5, TYPE_DECIMAL = 7, TYPE_DATE = 8, TYPE_TIMESTAMP = 10 };
enum { PRECISION_SINGLE = 1, PRECISION_DOUBLE = 2, UNIT_DAY = 0, UNIT_MICROSECOND = 2 };
enum { MESSAGE_VERSION, MESSAGE_TYPE, MESSAGE_HEADER, MESSAGE_BODY };
enum { SCHEMA_ENDIAN, SCHEMA_FIELDS };
enum { FIELD_NAME, FIELD_NULLABLE, FIELD_TYPE_KIND, FIELD_TYPE, FIELD_DICTIONARY, FIELD_CHILDREN };
enum { BATCH_LENGTH, BATCH_NODES, BATCH_BUFFERS };

/* The metadata of a message, after FRAME bytes. All values are little-endian, as the machine is. */
struct metadata {
	uint8_t *at;
	size_t n, room;
	bool failed; /* no memory */
};

/* Append bytes that are 0, up to a multiple of 8 bytes. Return their place. */
static size_t extend(struct metadata *m, size_t bytes)
{
	size_t at = m->n, n = m->n + ((bytes + 7) & ~(size_t)7);
	uint8_t *grown = m->at;

	if (n > m->room && !m->failed) {
		m->room = 2 * n;
		grown = realloc(m->at, m->room);
		m->failed = !grown;
	}
	if (m->failed)
		return 0;
	m->at = grown;
	memset(grown + at, 0, n - at);
	m->n = n;
	return at;
}

static void set(struct metadata *m, size_t at, uint64_t value, size_t bytes)
{
	if (!m->failed)
		memcpy(m->at + at, &value, bytes);
}

/* Let the 4 bytes at `from` point to `to`, which is after them. */
static void point(struct metadata *m, size_t from, size_t to)
{
	set(m, from, to - from, 4);
}

/* Append a table that has the given fields. Return its place. */
static size_t add_table(struct metadata *m, unsigned int fields)
{
	size_t vtable = extend(m, 4 + 2 * FIELDS), table = extend(m, 8 + 8 * FIELDS);

	set(m, vtable, 4 + 2 * FIELDS, 2);
	set(m, vtable + 2, 8 + 8 * FIELDS, 2);
	for (unsigned int i = 0; i < FIELDS; i++)
		set(m, vtable + 4 + 2 * i, fields >> i & 1 ? 8 + 8 * i : 0, 2);
	set(m, table, table - vtable, 4);
	return table;
}

static size_t field(size_t table, unsigned int i)
{
	return table + 8 + 8 * i;
}

static void set_field(struct metadata *m, size_t table, unsigned int i, uint64_t value)
{
	set(m, field(table, i), value, 8);
}

/*
 * Append a vector of `n` elements of `size` bytes, to which the 4 bytes at `from` point. Return the place of its first
 * element, which is a multiple of 8.
 */
static size_t add_vector(struct metadata *m, size_t from, size_t n, size_t size)
{
	size_t at = extend(m, 8 + n * size);

	set(m, at + 4, n, 4);
	point(m, from, at + 4);
	return at + 8;
}

/* -- the schema --------------------------------------------------------------------- */

/* A type's number, and the fields of its table. */
struct type {
	unsigned int kind;
	int n;
	uint64_t field[3];
};

static struct type type_of(const char *format)
{
	unsigned int precision = 0, scale = 0;

	switch (*format) {
	case 'f':
		return (struct type){TYPE_FLOAT, 1, {PRECISION_SINGLE}};
	case 'g':
		return (struct type){TYPE_FLOAT, 1, {PRECISION_DOUBLE}};
	case 'i':
		return (struct type){TYPE_INT, 2, {32, 1}};
	case 'l':
		return (struct type){TYPE_INT, 2, {64, 1}};
	case 'u':
		return (struct type){TYPE_UTF8, 0, {0}};
	case 'd':
		(void)sscanf(format, "d:%u,%u", &precision, &scale);
		return (struct type){TYPE_DECIMAL, 3, {precision, scale, 128}};
	}
	return format[1] == 'd' ? (struct type){TYPE_DATE, 1, {UNIT_DAY}} :
				  (struct type){TYPE_TIMESTAMP, 1, {UNIT_MICROSECOND}};
}

static void add_column(struct metadata *m, size_t from, const struct ArrowSchema *c)
{
	const struct type type = type_of(c->format);
	size_t table = add_table(m, 1 << FIELD_NAME | 1 << FIELD_NULLABLE | 1 << FIELD_TYPE_KIND | 1 << FIELD_TYPE |
					    1 << FIELD_CHILDREN),
	       name, of;

	point(m, from, table);
	set_field(m, table, FIELD_NULLABLE, !!(c->flags & ARROW_FLAG_NULLABLE));
	set_field(m, table, FIELD_TYPE_KIND, type.kind);
	/* A text is a vector of its bytes, and a 0 follows. */
	name = add_vector(m, field(table, FIELD_NAME), strlen(c->name) + 1, 1);
	set(m, name - 4, strlen(c->name), 4);
	if (!m->failed)
		memcpy(m->at + name, c->name, strlen(c->name));
	of = add_table(m, (1u << type.n) - 1);
	point(m, field(table, FIELD_TYPE), of);
	for (int i = 0; i < type.n; i++)
		set_field(m, of, (unsigned int)i, type.field[i]);
	add_vector(m, field(table, FIELD_CHILDREN), 0, 4);
}

/* Append the root of the metadata, a message. Return the place of its header, a table with the given fields. */
static size_t add_message(struct metadata *m, unsigned int type, unsigned int fields, uint64_t body)
{
	size_t root = extend(m, FRAME + 4) + FRAME,
	       message =
		       add_table(m, 1 << MESSAGE_VERSION | 1 << MESSAGE_TYPE | 1 << MESSAGE_HEADER | 1 << MESSAGE_BODY),
	       header;

	point(m, root, message);
	set_field(m, message, MESSAGE_VERSION, VERSION_5);
	set_field(m, message, MESSAGE_TYPE, type);
	set_field(m, message, MESSAGE_BODY, body);
	header = add_table(m, fields);
	point(m, field(message, MESSAGE_HEADER), header);
	return header;
}

/* Write the frame and the metadata. */
static int put_metadata(struct metadata *m)
{
	set(m, 0, UINT32_MAX, 4);
	set(m, 4, m->n - FRAME, 4);
	if (m->failed)
		return fpisa_fail(-ENOMEM, "not enough memory for a batch; " FPISA_MORE_MEMORY);
	fwrite(m->at, 1, m->n, stdout);
	return 0;
}

static int put_schema(const struct ArrowSchema *schema)
{
	struct metadata m = {0};
	size_t header = add_message(&m, HEADER_SCHEMA, 1 << SCHEMA_ENDIAN | 1 << SCHEMA_FIELDS, 0),
	       at = add_vector(&m, field(header, SCHEMA_FIELDS), (size_t)schema->n_children, 4);
	int err;

	for (int64_t i = 0; i < schema->n_children; i++)
		add_column(&m, at + 4 * (size_t)i, schema->children[i]);
	err = put_metadata(&m);
	free(m.at);
	return err;
}

/* -- batches ------------------------------------------------------------------------ */

/* Return the bytes of buffer `k` of a column. */
static size_t length_of(const struct ArrowSchema *schema, const struct ArrowArray *a, int64_t k)
{
	const size_t n = (size_t)a->length;

	if (!k)
		return (n + 7) / 8;
	if (*schema->format == 'u')
		return k == 1 ? 4 * (n + 1) : (size_t)((const int32_t *)a->buffers[1])[n];
	if (*schema->format == 'd')
		return 16 * n;
	return strchr("fi", *schema->format) || !strcmp(schema->format, "tdD") ? 4 * n : 8 * n;
}

static size_t padded(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

static void put_buffer(const void *bytes, size_t n)
{
	static const char zeros[8];

	if (n)
		fwrite(bytes, 1, n, stdout);
	fwrite(zeros, 1, padded(n) - n, stdout);
}

/* Return the number of buffers of all columns, and add up their bytes. */
static size_t count_buffers(const struct ArrowSchema *schema, const struct ArrowArray *batch, uint64_t *body)
{
	size_t n = 0;

	*body = 0;
	for (int64_t i = 0; i < batch->n_children; i++)
		for (int64_t k = 0; k < batch->children[i]->n_buffers; k++, n++)
			*body += padded(length_of(schema->children[i], batch->children[i], k));
	return n;
}

static int put_batch_metadata(const struct ArrowSchema *schema, const struct ArrowArray *batch)
{
	struct metadata m = {0};
	uint64_t body, offset = 0;
	size_t n = count_buffers(schema, batch, &body), header, node, buffer;
	int err;

	header = add_message(&m, HEADER_BATCH, 1 << BATCH_LENGTH | 1 << BATCH_NODES | 1 << BATCH_BUFFERS, body);
	set_field(&m, header, BATCH_LENGTH, (uint64_t)batch->length);
	node = add_vector(&m, field(header, BATCH_NODES), (size_t)batch->n_children, 16);
	buffer = add_vector(&m, field(header, BATCH_BUFFERS), n, 16);
	for (int64_t i = 0; i < batch->n_children; i++, node += 16) {
		const struct ArrowArray *a = batch->children[i];

		set(&m, node, (uint64_t)a->length, 8);
		set(&m, node + 8, (uint64_t)a->null_count, 8);
		for (int64_t k = 0; k < a->n_buffers; k++, buffer += 16) {
			size_t length = length_of(schema->children[i], a, k);

			set(&m, buffer, offset, 8);
			set(&m, buffer + 8, length, 8);
			offset += padded(length);
		}
	}
	err = put_metadata(&m);
	free(m.at);
	return err;
}

static int put_batch(const struct ArrowSchema *schema, const struct ArrowArray *batch)
{
	int err = put_batch_metadata(schema, batch);

	for (int64_t i = 0; !err && i < batch->n_children; i++)
		for (int64_t k = 0; k < batch->children[i]->n_buffers; k++)
			put_buffer(batch->children[i]->buffers[k],
				   length_of(schema->children[i], batch->children[i], k));
	return err;
}

int ipc_write(struct ArrowArrayStream *rows)
{
	static const uint32_t end[] = {UINT32_MAX, 0};
	struct ArrowSchema schema = {0};
	struct ArrowArray batch = {0};
	int err = -rows->get_schema(rows, &schema);

	if (err)
		return err;
	err = put_schema(&schema);
	while (!err && !ferror(stdout) && !(err = -rows->get_next(rows, &batch)) && batch.release) {
		err = put_batch(&schema, &batch);
		batch.release(&batch);
	}
	schema.release(&schema);
	if (!err)
		fwrite(end, 1, sizeof(end), stdout);
	return err;
}
