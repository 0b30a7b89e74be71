// SPDX-License-Identifier: GPL-2.0-only
/*
 * Check the checksums of Parquet pages. The metadata have Thrift's compact protocol; numbers of fields are those of
 * parquet.thrift in Apache's parquet-format.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "lib/base/error.h"
#include "pages.h"

#define MAGIC "PAR1"
#define MAGIC_LEN 4
#define TAIL_LEN 8    /* the length of the footer and the magic number */
#define DEPTH_MOST 16 /* of structs and lists in a struct */

/* -- bytes of a file -------------------------------------------------------------------- */

/* Reads the bytes of a file from `at` to `end`. After an error or at the end it returns zeros, and `bad` is set. */
struct reader {
	int fd;
	uint64_t at, end;
	size_t next, n; /* the bytes of `buffer` before `at` that are not read, and their end */
	bool bad;
	uint8_t buffer[4096];
};

static void reader_begin(struct reader *r, int fd, uint64_t at, uint64_t end)
{
	r->fd = fd;
	r->at = at;
	r->end = end;
	r->next = r->n = 0;
	r->bad = at > end;
}

/* Return the place in the file of the next byte. */
static uint64_t place(const struct reader *r)
{
	return r->at - (r->n - r->next);
}

static uint8_t next_byte(struct reader *r)
{
	size_t most = r->end - r->at < sizeof(r->buffer) ? (size_t)(r->end - r->at) : sizeof(r->buffer);
	ssize_t n;

	if (!r->bad && r->next == r->n) {
		n = pread(r->fd, r->buffer, most, (off_t)r->at);
		r->bad = n <= 0;
		r->next = 0;
		r->n = n > 0 ? (size_t)n : 0;
		r->at += r->n;
	}
	return r->bad ? 0 : r->buffer[r->next++];
}

static void skip_bytes(struct reader *r, uint64_t n)
{
	uint64_t to = place(r) + n;

	if (r->bad || n > r->end - place(r))
		r->bad = true;
	else
		reader_begin(r, r->fd, to, r->end);
}

/* -- Thrift's compact protocol ------------------------------------------------------------- */

enum thrift { STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID };

static uint64_t read_varint(struct reader *r)
{
	uint64_t n = 0;
	uint8_t b = 0x80;

	for (unsigned int shift = 0; b & 0x80 && shift < 64; shift += 7) {
		b = next_byte(r);
		n |= (uint64_t)(b & 0x7f) << shift;
	}
	return n;
}

static int64_t read_integer(struct reader *r)
{
	uint64_t n = read_varint(r);

	return (int64_t)(n >> 1) ^ -(int64_t)(n & 1);
}

/* Read the header of a field. Return its type, or STOP at the end of the struct. Set *id, which was the last field's. */
static enum thrift read_field(struct reader *r, int64_t *id)
{
	uint8_t b = next_byte(r);

	if (r->bad || !(b & 15))
		return STOP;
	*id = b >> 4 ? *id + (b >> 4) : read_integer(r);
	return b & 15;
}

/* Return the number of elements of a list, and set their type. */
static uint64_t read_list(struct reader *r, enum thrift *type)
{
	uint8_t b = next_byte(r);

	*type = b & 15;
	return b >> 4 == 15 ? read_varint(r) : b >> 4;
}

static void skip(struct reader *r, enum thrift type, int depth);

static void skip_elements(struct reader *r, uint64_t n, enum thrift key, enum thrift value, int depth)
{
	/* An element has a byte even if it is a boolean. */
	for (; n && !r->bad; n--) {
		if (key)
			skip(r, key <= FALSE ? BYTE : key, depth);
		skip(r, value <= FALSE ? BYTE : value, depth);
	}
}

static void skip_map(struct reader *r, int depth)
{
	uint64_t n = read_varint(r);
	uint8_t types = n ? next_byte(r) : 0;

	skip_elements(r, n, types >> 4, types & 15, depth);
}

static void skip_struct(struct reader *r, int depth)
{
	enum thrift type;
	int64_t id = 0;

	while ((type = read_field(r, &id)))
		skip(r, type, depth);
}

/* Skip a value of a field. A boolean is a part of the field's header. */
static void skip(struct reader *r, enum thrift type, int depth)
{
	uint64_t n;

	r->bad |= depth == DEPTH_MOST;
	switch (type) {
	case STOP:
	case TRUE:
	case FALSE:
		break;
	case BYTE:
		next_byte(r);
		break;
	case I16:
	case I32:
	case I64:
		read_varint(r);
		break;
	case DOUBLE:
		skip_bytes(r, 8);
		break;
	case BINARY:
		skip_bytes(r, read_varint(r));
		break;
	case LIST:
	case SET:
		n = read_list(r, &type);
		skip_elements(r, n, STOP, type, depth + 1);
		break;
	case MAP:
		skip_map(r, depth + 1);
		break;
	case STRUCT:
		skip_struct(r, depth + 1);
		break;
	case UUID:
		skip_bytes(r, 16);
		break;
	default:
		r->bad = true;
	}
}

/* -- pages --------------------------------------------------------------------------------- */

/* Return whether the bytes of the file have this CRC. Bytes that cannot be read are the engine's to report. */
static bool has_crc(int fd, uint64_t at, uint64_t n, uint32_t crc)
{
	uint8_t buffer[1 << 16];
	uLong c = crc32(0, NULL, 0);

	while (n) {
		ssize_t got = pread(fd, buffer, n < sizeof(buffer) ? (size_t)n : sizeof(buffer), (off_t)at);

		if (got <= 0)
			return true;
		c = crc32(c, buffer, (uInt)got);
		at += (uint64_t)got;
		n -= (uint64_t)got;
	}
	return c == crc;
}

struct page {
	int64_t bytes; /* in the file */
	bool has_crc;
	uint32_t crc;
};

static void read_page(struct reader *r, struct page *p)
{
	enum thrift type;
	int64_t id = 0;

	*p = (struct page){.bytes = -1};
	while ((type = read_field(r, &id))) {
		if (id == 3 && type == I32) {
			p->bytes = read_integer(r);
		} else if (id == 4 && type == I32) {
			p->crc = (uint32_t)read_integer(r);
			p->has_crc = true;
		} else {
			skip(r, type, 0);
		}
	}
}

/* The part of a column in a row group */
struct chunk {
	int column; /* in the schema, or -1 if the column is not used */
	bool elsewhere;
	int64_t bytes, data, dictionary; /* places of the first pages; 0 if there is no dictionary */
};

static int check_chunk(const struct chunk *c, const struct table_file *f, const struct schema *schema)
{
	uint64_t first = (uint64_t)(c->dictionary && c->dictionary < c->data ? c->dictionary : c->data), body;
	struct reader r;
	struct page p;

	if (c->column < 0 || c->elsewhere || c->bytes <= 0 || c->data < MAGIC_LEN || c->dictionary < 0)
		return 0;
	reader_begin(&r, f->fd, first, first + (uint64_t)c->bytes);
	while (place(&r) < r.end) {
		read_page(&r, &p);
		body = place(&r);
		if (r.bad || p.bytes < 0)
			return 0;
		skip_bytes(&r, (uint64_t)p.bytes);
		if (r.bad)
			return 0;
		if (p.has_crc && !has_crc(f->fd, body, (uint64_t)p.bytes, p.crc))
			return fpisa_fail(
				-EINVAL,
				"%s: column %s: the page at byte %llu does not have its checksum, so the file is "
				"damaged; write it again",
				f->name, schema->column[c->column].name, (unsigned long long)body);
	}
	return 0;
}

/* -- the footer ---------------------------------------------------------------------------- */

/* Read a column's path. Return the column's number in the schema if it is used and not nested, or else -1. */
static int read_path(struct reader *r, const struct schema *schema, const bool used[FPISA_COLUMNS_MOST])
{
	enum thrift type;
	uint64_t n = read_list(r, &type), len;
	char name[sizeof(schema->column[0].name)] = "";

	if (n != 1 || type != BINARY) {
		skip_elements(r, n, STOP, type, 0);
		return -1;
	}
	len = read_varint(r);
	if (len >= sizeof(name)) {
		skip_bytes(r, len);
		return -1;
	}
	for (uint64_t i = 0; i < len; i++)
		name[i] = (char)next_byte(r);
	for (int i = 0; i < schema->n; i++)
		if (used[i] && !strcasecmp(name, schema->column[i].name))
			return i;
	return -1;
}

static void read_metadata(struct reader *r, struct chunk *c, const struct schema *schema,
			  const bool used[FPISA_COLUMNS_MOST])
{
	enum thrift type;
	int64_t id = 0;

	while ((type = read_field(r, &id))) {
		if (id == 3 && type == LIST)
			c->column = read_path(r, schema, used);
		else if (id == 7 && type == I64)
			c->bytes = read_integer(r);
		else if (id == 9 && type == I64)
			c->data = read_integer(r);
		else if (id == 11 && type == I64)
			c->dictionary = read_integer(r);
		else
			skip(r, type, 0);
	}
}

static struct chunk read_chunk(struct reader *r, const struct schema *schema, const bool used[FPISA_COLUMNS_MOST])
{
	struct chunk c = {.column = -1};
	enum thrift type;
	int64_t id = 0;

	while ((type = read_field(r, &id))) {
		c.elsewhere |= id == 1;
		if (id == 3 && type == STRUCT)
			read_metadata(r, &c, schema, used);
		else
			skip(r, type, 0);
	}
	return c;
}

/* Checks the pages of a struct of the footer, which it reads. */
typedef int check_struct(struct reader *r, const struct table_file *f, const struct schema *schema,
			 const bool used[FPISA_COLUMNS_MOST]);

/* Check each struct in the list of field `list` of a struct. Skip the other fields. */
static int check_list(struct reader *r, int64_t list, check_struct *check, const struct table_file *f,
		      const struct schema *schema, const bool used[FPISA_COLUMNS_MOST])
{
	enum thrift type;
	int64_t id = 0;
	uint64_t n;
	int err = 0;

	while (!err && (type = read_field(r, &id))) {
		if (id != list || type != LIST) {
			skip(r, type, 0);
			continue;
		}
		for (n = read_list(r, &type); !err && n && !r->bad && type == STRUCT; n--)
			err = check(r, f, schema, used);
	}
	return err;
}

static int check_column(struct reader *r, const struct table_file *f, const struct schema *schema,
			const bool used[FPISA_COLUMNS_MOST])
{
	const struct chunk c = read_chunk(r, schema, used);

	return r->bad ? 0 : check_chunk(&c, f, schema);
}

static int check_group(struct reader *r, const struct table_file *f, const struct schema *schema,
		       const bool used[FPISA_COLUMNS_MOST])
{
	return check_list(r, 1, check_column, f, schema, used);
}

static int check_file(const struct table_file *f, const struct schema *schema, const bool used[FPISA_COLUMNS_MOST])
{
	uint8_t tail[TAIL_LEN];
	struct reader r;
	struct stat is;
	uint64_t end, len;

	if (fstat(f->fd, &is) || is.st_size < TAIL_LEN ||
	    pread(f->fd, tail, TAIL_LEN, is.st_size - TAIL_LEN) != TAIL_LEN ||
	    memcmp(tail + TAIL_LEN - MAGIC_LEN, MAGIC, MAGIC_LEN))
		return 0;
	end = (uint64_t)is.st_size - TAIL_LEN;
	len = (uint64_t)tail[0] | (uint64_t)tail[1] << 8 | (uint64_t)tail[2] << 16 | (uint64_t)tail[3] << 24;
	if (len > end)
		return 0;
	reader_begin(&r, f->fd, end - len, end);
	return check_list(&r, 4, check_group, f, schema, used);
}

int pages_check(struct table_file *f, const struct schema *schema, const bool used[FPISA_COLUMNS_MOST])
{
	int err = f->pages_checked ? 0 : check_file(f, schema, used);

	f->pages_checked = !err;
	return err;
}
