/* SPDX-License-Identifier: GPL-2.0-only */
/* Test a worker's tables: schemas, rows of CSV and .tbl, values in keys, and names that lead out of the directory. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <linux/magic.h>
#include <time.h>
#include <unistd.h>
#include "fpisa-query.h"
#include "fpisa.h"
#include "query/worker/partition.h"
#include "vectors.h"

static struct vectors_rng rng;
static char folder[] = "/tmp/fpisa-partition-XXXXXX";
static int directory;

static void put(const char *name, const void *bytes, size_t n)
{
	int fd = openat(directory, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), n);
	close(fd);
}

static void put_text(const char *name, const char *text)
{
	put(name, text, strlen(text));
}

static void remove_all(void)
{
	static const char *const names[] = {"t.schema", "t.csv", "t.tbl", "inside.schema", "inside.csv"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (unlinkat(directory, names[i], 0) && errno == EISDIR)
			unlinkat(directory, names[i], AT_REMOVEDIR);
}

static int open_table(struct partition *p, const char *name)
{
	return partition_open(p, directory, name) ?: partition_begin(p, NULL);
}

/* Write the rows of table t as text, one row in each line, with NULL as "-". If reading fails, write the message. */
static void dump(char *out, size_t size)
{
	struct fpisa_field field[FPISA_COLUMNS_MOST];
	struct partition p;
	uint64_t at;
	int rc = open_table(&p, "t");
	size_t n = 0;

	*out = 0;
	while (!rc && (rc = text_row(&p.text, field, &at)) > 0) {
		rc = 0;
		for (int i = 0; !rc && i < p.schema.n; i++) {
			int bad = fpisa_field_check(&p.schema.column[i], &field[i]);

			if (bad)
				rc = text_bad_value(&p.text, i, &field[i], bad);
			n += (size_t)snprintf(out + n, size - n, "%s%s", field[i].null ? "-" : field[i].text,
					      i + 1 < p.schema.n ? ";" : "\n");
		}
	}
	if (rc < 0)
		snprintf(out, size, "%s", fpisa_error());
	partition_close(&p);
}

static const struct {
	const char *schema, *csv, *tbl, *says;
} cases[] = {
	{"a int32\nb real\n", "a,b\n1,2.5\n-7,\n", NULL, "1;2.5\n-7;-\n"},
	{"a int32\nb real", "a,b\r\n1,2.5\r\n-7,1e-9", NULL, "1;2.5\n-7;1e-9\n"},
	{"a text\nb text not null", "a,b\n\"\",\n,\"x\"\"y,\nz\"\n", NULL, ";\n-;x\"y,\nz\n"},
	{"a date\nb int64\nc text not null", NULL, "1996-02-29|12|x y|\n|-1||\n", "1996-02-29;12;x y\n-;-1;\n"},
	{"a real", "a\nNaN\n-inf\nInfinity\n\n", NULL, "NaN\n-inf\nInfinity\n-\n"},
	/* Every error names its line. */
	{"a int32", "a\n1\n2\n3x\n", NULL, "t.csv:4: column a: '3x' is not a valid int32"},
	{"a int32", "a\n1\n2147483648\n", NULL, "t.csv:3: column a: '2147483648' is out of range for int32"},
	{"a int32\nb text", "a,b\n1,\"x\ny\"\n2\n", NULL, "t.csv:4: 1 fields, but the schema has 2 columns"},
	{"a real", "a\n1e39\n", NULL, "t.csv:2: column a: '1e39' is out of range for real"},
	{"a real", "a\n0x10\n", NULL, "t.csv:2: column a: '0x10' is not a valid real"},
	{"a real", "a\n 1\n", NULL, "t.csv:2: column a: ' 1' is not a valid real"},
	{"a double", "a\n1e309\n", NULL, "t.csv:2: column a: '1e309' is out of range for double"},
	{"a date", "a\n1999-02-29\n", NULL, "t.csv:2: column a: '1999-02-29' is out of range for date"},
	{"a date", "a\n1999-2-3\n", NULL, "t.csv:2: column a: '1999-2-3' is not a valid date"},
	{"a int32 not null", "a\n1\n\n", NULL, "t.csv:3: column a is empty, but the schema declares it not null"},
	{"a text", "a\nx\"y\n", NULL, "t.csv:2: a field has a quote but does not begin with a quote"},
	{"a text", "a\n\"xy\n", NULL, "t.csv:2: a quote is not closed, or is not followed by a comma"},
	{"a text", "a\n\"x\"y\n", NULL, "t.csv:2: a quote is not closed, or is not followed by a comma"},
	{"a int32\nb int32", NULL, "1|2|\n1|2\n", "t.tbl:2: the row does not end with |; add it, or name the file .csv"},
	{"a int32", NULL, "1|2|\n", "t.tbl:1: 2 fields, but the schema has 1 columns"},
	{"a int32\nb int32", "b,a\n1,2\n", NULL, "t.csv:1: column 1 is 'b', but a in the schema"},
	/* a byte order mark, as spreadsheets write it */
	{"\xef\xbb\xbf"
	 "a int32\nb text\n",
	 "\xef\xbb\xbf"
	 "a,b\r\n1,x\r\n",
	 NULL, "1;x\n"},
	{"a int32\n",
	 "\xef\xbb\xbf"
	 "\"a\"\r\n1\r\n",
	 NULL, "1\n"},
	{"a int32\n",
	 "\xef\xbb\xbf"
	 "b\n",
	 NULL, "t.csv:1: column 1 is 'b', but a in the schema"},
	{"a int32\n", "\xef\xbb\xbf", NULL, "t.csv:1: the file is empty; the first row of a CSV names the columns"},
	{"a int32", "", NULL, "t.csv:1: the file is empty; the first row of a CSV names the columns"},
	{"a int32", NULL, NULL,
	 "table t has no rows here: t.csv, .tbl and .parquet do not exist, and neither does a directory t with a "
	 ".parquet file"},
	{"a int32", "a\n", "1|\n", "t.csv and t.tbl both exist; keep one of them"},
	{NULL, "a\n", NULL, "table t does not exist on this worker: file t.schema is missing"},
	{"# nothing\n\n", "a\n", NULL, "t.schema does not name a column; give a line NAME TYPE [not null] for each"},
	{"a int32\nb int8", "a\n", NULL,
	 "t.schema:2: column b: 'int8' is not a type; the types are real, double, int32, int64, text, date and "
	 "decimal(P,S), with P of 1 to 38 digits, S of them after the point"},
	{"a int32\na int32", "a\n", NULL, "t.schema:2: column a is given twice; remove one of the lines"},
	{"1a int32", "a\n", NULL, "t.schema:1: '1a' is not a column name; use letters, digits and _, and no digit first"},
	{"a int32 not nul", "a\n", NULL, "t.schema:1: column a: only 'not null' may follow the type"},
};

static void files(void **state)
{
	char said[4096];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		remove_all();
		if (cases[i].schema)
			put_text("t.schema", cases[i].schema);
		if (cases[i].csv)
			put_text("t.csv", cases[i].csv);
		if (cases[i].tbl)
			put_text("t.tbl", cases[i].tbl);
		dump(said, sizeof(said));
		assert_string_equal(said, cases[i].says);
	}
	remove_all();
	put_text("t.schema", "a text\n");
	put("t.csv", "a\nx\0y\n", 6);
	dump(said, sizeof(said));
	assert_string_equal(said, "t.csv:2: the text has a zero byte");
	/* A name that contains a byte 0 does not match. */
	put("t.csv", "a\0b\nx\n", 6);
	dump(said, sizeof(said));
	assert_string_equal(said, "t.csv:1: the text has a zero byte");
}

/* Check that invalid values are accepted in unused columns and refused in used columns. */
static void unused(void **state)
{
	static const struct {
		const char *file, *bytes;
		size_t n;
	} tables[] = {
		{"t.csv", "a,b,c,d\n1,,\0,\"\0\"\n2,x,3,y\n", 25},
		{"t.tbl", "1||\0|\0\0|\n2|x|3|y|\n", 18},
	};
	struct fpisa_field field[FPISA_COLUMNS_MOST];
	const bool only_a[FPISA_COLUMNS_MOST] = {true},
		   a_and[][FPISA_COLUMNS_MOST] = {{true, true}, {true, false, true}, {true, false, false, true}};
	const char *const says[] = {"column b is empty, but the schema declares it not null",
				    "the text has a zero byte", "the text has a zero byte"};
	struct partition p;
	uint64_t at;

	(void)state;
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		remove_all();
		put_text("t.schema", "a int32 not null\nb int32 not null\nc real\nd text\n");
		put(tables[i].file, tables[i].bytes, tables[i].n);
		assert_int_equal(partition_open(&p, directory, "t") ?: partition_begin(&p, only_a), 0);
		assert_int_equal(text_row(&p.text, field, &at), 1);
		assert_string_equal(field[0].text, "1");
		assert_int_equal(text_row(&p.text, field, &at), 1);
		assert_string_equal(field[0].text, "2");
		assert_int_equal(text_row(&p.text, field, &at), 0);
		partition_close(&p);
		for (size_t k = 0; k < sizeof(a_and) / sizeof(a_and[0]); k++) {
			assert_int_equal(partition_open(&p, directory, "t") ?: partition_begin(&p, a_and[k]), 0);
			assert_int_equal(text_row(&p.text, field, &at), -EINVAL);
			assert_non_null(strstr(fpisa_error(), says[k]));
			partition_close(&p);
		}
	}
}

/* Check that a row of 1 MiB, with its line end, is read. A longer row is an error that says so. */
static void long_rows(void **state)
{
	static const char *const says[] = {
		"t.csv:2: a row has at most 1 MiB, but this row has more, or has a quote that is not closed",
		"t.tbl:1: a row has at most 1 MiB; shorten its texts, or leave out columns"};
	char *bytes = malloc(TEXT_ROW + 16);
	struct fpisa_field field[FPISA_COLUMNS_MOST];
	struct partition p;
	uint64_t at;

	(void)state;
	for (int i = 0; i < 4; i++) {
		bool tbl = i & 1, more = i & 2;
		size_t head = tbl ? 0 : 2, n = head + TEXT_ROW + more;

		remove_all();
		put_text("t.schema", "a text\n");
		memset(bytes, 'x', n);
		memcpy(bytes, "a\n", head);
		bytes[n - 1] = '\n';
		bytes[n - 2] = tbl ? '|' : 'x';
		put(tbl ? "t.tbl" : "t.csv", bytes, n);
		assert_int_equal(open_table(&p, "t"), 0);
		assert_int_equal(text_row(&p.text, field, &at), more ? -EINVAL : 1);
		if (more)
			assert_string_equal(fpisa_error(), says[tbl]);
		else
			assert_int_equal(field[0].len, TEXT_ROW - 1 - tbl);
		partition_close(&p);
	}
	free(bytes);
}

/*
 * Check rows of random texts, written by the rules of the RFC for CSV, longer than the buffer, read in order and by
 * their positions.
 */
static void random_rows(void **state)
{
	enum { ROWS = 400, LONG = 9000 };
	static const char alphabet[] = "ab,\"\n\r|x";
	struct fpisa_field field[FPISA_COLUMNS_MOST];
	char *row[ROWS][2], *file = malloc(2ul * ROWS * 2 * LONG + 16), *to = file;
	uint64_t place[ROWS], at;
	uint32_t r, line = 1;
	char want[64];
	struct partition p;

	(void)state;
	remove_all();
	put_text("t.schema", "a text\nb text\n");
	to += sprintf(to, "a,b\n");
	for (r = 0; r < ROWS; r++) {
		for (int c = 0; c < 2; c++) {
			uint32_t n = vectors_below(&rng, r % 10 ? 12 : LONG);

			row[r][c] = malloc(n + 1);
			*to++ = '"';
			for (uint32_t i = 0; i < n; i++) {
				row[r][c][i] = alphabet[vectors_below(&rng, sizeof(alphabet) - 1)];
				if (row[r][c][i] == '"')
					*to++ = '"';
				*to++ = row[r][c][i];
			}
			row[r][c][n] = 0;
			*to++ = '"';
			*to++ = c ? '\n' : ',';
		}
	}
	put("t.csv", file, (size_t)(to - file));
	assert_int_equal(open_table(&p, "t"), 0);
	for (r = 0; r < ROWS; r++) {
		assert_int_equal(text_row(&p.text, field, &place[r]), 1);
		assert_string_equal(field[0].text, row[r][0]);
		assert_string_equal(field[1].text, row[r][1]);
	}
	assert_int_equal(text_row(&p.text, field, &at), 0);
	for (int i = 0; i < 4 * ROWS; i++) {
		/* Read some rows in order. These rows may be in the buffer. */
		r = i % 4 ? r + 1 + vectors_below(&rng, 3) : vectors_below(&rng, ROWS);
		r = r < ROWS ? r : 0;
		text_seek(&p.text, place[r]);
		assert_int_equal(text_row(&p.text, field, &at), 1);
		assert_true(at == place[r]);
		assert_string_equal(field[1].text, row[r][1]);
	}
	/*
	 * A message about a row that was read by its position also names its line. Rows before it may contain line
	 * ends.
	 */
	r = vectors_below(&rng, ROWS);
	text_seek(&p.text, place[r]);
	assert_int_equal(text_row(&p.text, field, &at), 1);
	for (char *c = file; c < file + place[r]; c++)
		line += *c == '\n';
	(void)text_bad_value(&p.text, 1, &field[1], -EINVAL);
	snprintf(want, sizeof(want), "t.csv:%u: column b: ", line);
	assert_memory_equal(fpisa_error(), want, strlen(want));
	assert_int_equal(partition_unchanged(&p), 0);
	assert_int_equal(partition_rewind(&p), 0);
	assert_int_equal(text_row(&p.text, field, &at), 1);
	assert_string_equal(field[0].text, row[0][0]);
	put_text("t.csv", "a,b\n");
	assert_int_equal(partition_unchanged(&p), -ESTALE);
	partition_close(&p);
	for (r = 0; r < ROWS; r++) {
		free(row[r][0]);
		free(row[r][1]);
	}
	free(file);
}

/* -- files that change ------------------------------------------------------- */

#define WRITTEN "a\n1\n2\n3\n"
#define WRITTEN_BYTES (sizeof(WRITTEN) - 1)

/* Change t.csv without changing its size. */
static void by_write(int fd)
{
	assert_int_equal(pwrite(fd, "7", 1, 2), 1);
}

static void by_mapping(int fd)
{
	char *at = mmap(NULL, WRITTEN_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_true(at != MAP_FAILED);
	at[2] = '7';
	munmap(at, WRITTEN_BYTES);
}

static void by_fallocate(int fd)
{
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
}

static void by_cutting(int fd)
{
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, WRITTEN, WRITTEN_BYTES, 0), WRITTEN_BYTES);
}

static void no_name(void)
{
}

static void another_name(void)
{
	assert_int_equal(linkat(directory, "t.csv", directory, "inside.csv", 0), 0);
	unlinkat(directory, "inside.csv", 0);
	assert_int_equal(linkat(directory, "t.csv", directory, "inside.csv", 0), 0);
}

static void another_file(void)
{
	put_text("inside.csv", "a\nx\n");
	assert_int_equal(renameat(directory, "inside.csv", directory, "t.csv"), 0);
}

static void (*const namings[])(void) = {no_name, another_name, another_file};

/*
 * Check that the reader detects a write before a query opens the table, or while the query reads. The write is detected
 * even if the writer restores mtime, if the write follows the open immediately, and if the file gains or loses names
 * before and after.
 */
static void written(void **state)
{
	static void (*const ways[])(int fd) = {by_write, by_fallocate, by_cutting, by_mapping};
	size_t n_ways = sizeof(ways) / sizeof(ways[0]);
	struct fpisa_field field[FPISA_COLUMNS_MOST];
	struct timespec times[2];
	struct partition p;
	struct statfs fs;
	struct stat st;
	uint64_t at;
	int fd;

	(void)state;
	remove_all();
	put_text("t.schema", "a text\n");
	assert_int_equal(fstatfs(directory, &fs), 0);
	/* A write through a mapping of a file on tmpfs changes no time stamp, as doc/query.md says. */
	n_ways -= fs.f_type == TMPFS_MAGIC;
	for (unsigned int i = 0; i < 42 * n_ways; i++) {
		unlinkat(directory, "inside.csv", 0);
		put_text("t.csv", WRITTEN);
		fd = openat(directory, "t.csv", O_RDWR);
		assert_int_equal(fstat(fd, &st), 0);
		close(fd);
		times[0] = st.st_atim;
		times[1] = st.st_mtim;
		assert_int_equal(open_table(&p, "t"), 0);
		assert_int_equal(text_row(&p.text, field, &at), 1);
		fd = openat(directory, "t.csv", O_RDWR);
		ways[i % n_ways](fd);
		assert_int_equal(futimens(fd, times), 0);
		close(fd);
		namings[i / n_ways % 3]();
		assert_int_equal(fstat(p.files.file[0].fd, &st), 0);
		assert_true(st.st_size == WRITTEN_BYTES && st.st_mtim.tv_nsec == times[1].tv_nsec);
		assert_int_equal(partition_unchanged(&p), -ESTALE);
		assert_string_equal(fpisa_error(), "t.csv was written while the query read it; ask again");
		partition_close(&p);
	}
}

/* Check that a change of the file's names does not count as a change of the file, unless the file is written too. */
static void named(void **state)
{
	struct partition p;
	int fd;

	(void)state;
	remove_all();
	put_text("t.schema", "a text\n");
	for (int i = 1; i < 3; i++) {
		put_text("t.csv", WRITTEN);
		fd = openat(directory, "t.csv", O_RDWR);
		close(fd);
		assert_int_equal(open_table(&p, "t"), 0);
		namings[i]();
		assert_int_equal(partition_unchanged(&p), 0);
		assert_int_equal(partition_whole(&p), 0);
		unlinkat(directory, "inside.csv", 0);
		assert_int_equal(partition_whole(&p), 0);
		partition_close(&p);
	}
}

/* Check that a replaced file counts as written if the kernel no longer sends notices about the file. */
static void unwatched(void **state)
{
	struct partition p;

	(void)state;
	put_text("t.csv", WRITTEN);
	assert_int_equal(open_table(&p, "t"), 0);
	assert_true(p.files.file[0].identity.watch > 0);
	identity_forget(&p.files.file[0].identity);
	assert_int_equal(partition_whole(&p), 0);
	another_file();
	assert_int_equal(partition_whole(&p), -ESTALE);
	assert_string_equal(
		fpisa_error(),
		"t.csv was linked, renamed or replaced while the query read it, and may have been written; ask again");
	partition_close(&p);
}

static uint64_t number(void)
{
	struct partition p;
	uint64_t n;

	assert_int_equal(open_table(&p, "t"), 0);
	n = partition_number(&p);
	partition_close(&p);
	return n;
}

/* Check that the number changes when a file of the table is written or replaced, even with the same bytes. */
static void numbers(void **state)
{
	static const char *const names[] = {"t.schema", "t.csv"}, *const texts[] = {"a text\n", WRITTEN};
	uint64_t before;

	(void)state;
	remove_all();
	put_text(names[0], texts[0]);
	put_text(names[1], texts[1]);
	for (int i = 0; i < 2; i++) {
		before = number();
		assert_true(number() == before);
		put_text(names[i], texts[i]);
		assert_true(number() != before);
		before = number();
		put_text("inside.csv", texts[i]);
		assert_int_equal(renameat(directory, "inside.csv", directory, names[i]), 0);
		assert_true(number() != before);
	}
}

static void open_for_writing(void **state)
{
	static const char *const names[] = {"t.schema", "t.csv"};
	struct partition p;
	char want[128];
	int fd;

	(void)state;
	remove_all();
	put_text("t.schema", "a text\n");
	put_text("t.csv", WRITTEN);
	for (int i = 0; i < 2; i++) {
		fd = openat(directory, names[i], O_WRONLY);
		assert_int_equal(open_table(&p, "t"), -ESTALE);
		snprintf(want, sizeof(want),
			 "%s is open for writing; ask again when it is closed, or write another file and "
			 "rename it to this name",
			 names[i]);
		assert_string_equal(fpisa_error(), want);
		close(fd);
	}
	/*
	 * Write through a mapping after the descriptor is closed. If the page is dirty already, the write changes no
	 * time stamp.
	 */
	fd = openat(directory, "t.csv", O_RDWR);
	char *map = mmap(NULL, WRITTEN_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	close(fd);
	assert_int_equal(open_table(&p, "t"), -ESTALE);
	munmap(map, WRITTEN_BYTES);
	/*
	 * A reader does not count as a writer. A process that opens the file for writing later is found at the end of
	 * the read.
	 */
	int reader = openat(directory, "t.csv", O_RDONLY);
	assert_int_equal(open_table(&p, "t"), 0);
	assert_int_equal(partition_whole(&p), 0);
	fd = openat(directory, "t.csv", O_WRONLY | O_NONBLOCK);
	assert_true(fd >= 0);
	assert_int_equal(partition_unchanged(&p), 0);
	assert_int_equal(partition_whole(&p), -ESTALE);
	close(fd);
	assert_int_equal(partition_whole(&p), 0);
	partition_close(&p);
	/* A file that replaces the table's file is a different file. */
	assert_int_equal(open_table(&p, "t"), 0);
	put_text("inside.csv", "a\nx\n");
	assert_int_equal(renameat(directory, "inside.csv", directory, "t.csv"), 0);
	assert_int_equal(partition_whole(&p), 0);
	/* Another process may still write to the replaced file. */
	snprintf(want, sizeof(want), "/proc/self/fd/%d", reader);
	fd = open(want, O_WRONLY);
	assert_int_equal(write(fd, "b", 1), 1);
	close(fd);
	assert_int_equal(partition_whole(&p), -ESTALE);
	partition_close(&p);
	close(reader);
}

/* Check that names that lead out of the directory are refused. */
static void escapes(void **state)
{
	static const char *const names[] = {"../t", "/etc/passwd", "..", ".", "", "a/b", ".t", "t\n", "t;x"};
	char outside[64], link[64];
	struct partition p;

	(void)state;
	remove_all();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(open_table(&p, names[i]), -EINVAL);
		assert_non_null(strstr(fpisa_error(), "is not a table name"));
	}
	put_text("t.schema", "a text\n");
	snprintf(outside, sizeof(outside), "%s.csv", folder);
	symlinkat("t.schema", directory, "inside.schema");
	symlinkat("/etc/passwd", directory, "t.csv");
	assert_int_equal(open_table(&p, "t"), -EXDEV);
	assert_string_equal(fpisa_error(), "t.csv: the path leads out of the worker's directory");
	unlinkat(directory, "t.csv", 0);
	snprintf(link, sizeof(link), "..%s", strrchr(outside, '/'));
	symlinkat(link, directory, "t.csv");
	assert_int_equal(open_table(&p, "t"), -EXDEV);
	unlinkat(directory, "t.csv", 0);
	symlinkat("/proc/self/fd/0", directory, "t.csv");
	assert_true(open_table(&p, "t") < 0);
	unlinkat(directory, "t.csv", 0);
	/* Opening a pipe would wait for a writer. */
	mkfifoat(directory, "t.csv", 0600);
	assert_int_equal(open_table(&p, "t"), -ENOTSUP);
	unlinkat(directory, "t.csv", 0);
	mkdirat(directory, "t.csv", 0700);
	assert_int_equal(open_table(&p, "t"), -EISDIR);
	unlinkat(directory, "t.csv", AT_REMOVEDIR);
	/* A link that stays inside the directory is accepted as a table. */
	put_text("inside.csv", "a\nx\n");
	assert_int_equal(open_table(&p, "inside"), 0);
	partition_close(&p);
	unlinkat(directory, "inside.csv", 0);
	unlinkat(directory, "inside.schema", 0);
}

/* Check that the value in a key is printed as the C library prints it, and that equal values give equal keys. */
static void keys(void **state)
{
	char text[FPISA_COLUMN_TEXT_MOST + FPISA_QUERY_KEY_BYTES], want[64];
	uint8_t key[FPISA_QUERY_KEY_BYTES], other[FPISA_QUERY_KEY_BYTES];
	int null;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		struct fpisa_column c = {.type = (uint8_t)(1 + vectors_below(&rng, 6)),
					 .not_null = (uint8_t)vectors_below(&rng, 2)};
		struct fpisa_field f = {.text = want, .null = !c.not_null && !vectors_below(&rng, 8)};
		uint64_t bits = vectors_next(&rng);
		time_t day = (time_t)((int32_t)(bits % 2932896) - 719162) * 86400;
		size_t at = vectors_below(&rng, 8);
		int used, end;
		double d;
		float x;

		memcpy(&d, &bits, sizeof(d));
		memcpy(&x, &bits, sizeof(x));
		switch (c.type) {
		case FPISA_COLUMN_REAL:
			snprintf(want, sizeof(want), "%.9g", (double)x);
			break;
		case FPISA_COLUMN_DOUBLE:
			snprintf(want, sizeof(want), "%.17g", d);
			break;
		case FPISA_COLUMN_INT32:
			snprintf(want, sizeof(want), "%d", (int)(uint32_t)bits);
			break;
		case FPISA_COLUMN_INT64:
			snprintf(want, sizeof(want), "%lld", (long long)bits);
			break;
		case FPISA_COLUMN_DATE:
			strftime(want, sizeof(want), "%Y-%m-%d", gmtime(&day));
			if (day < -62135596800 + 1000 * 366 * 86400ll)
				continue; /* strftime writes years before 1000 without zeros */
			break;
		default:
			snprintf(want, sizeof(want), "%.*s", (int)vectors_below(&rng, 20), "abcdefghijklmnopqrstuvwxyz");
		}
		f.len = strlen(want);
		used = fpisa_key_put(key, at, sizeof(key), &c, &f);
		assert_true(used > (int)at && used - (int)at >= (int)fpisa_key_least(&c) &&
			    used - (int)at <= (int)fpisa_key_most(&c));
		assert_int_equal(fpisa_key_put(other, at, (size_t)used - 1, &c, &f), -ENOSPC);
		end = fpisa_key_take(key, at, (size_t)used, &c, text, sizeof(text), &null);
		assert_int_equal(end, used);
		assert_int_equal(null, f.null);
		if (f.null)
			continue;
		if (strstr(want, "nan"))
			strcpy(want, "NaN");
		if (strstr(want, "inf"))
			strcpy(want, *want == '-' ? "-Infinity" : "Infinity");
		assert_string_equal(text, want);
	}
	for (unsigned int type = FPISA_COLUMN_REAL; type <= FPISA_COLUMN_DOUBLE; type++) {
		static char *const equal[][2] = {{"0", "-0.0"}, {"nan", "-NaN"}, {"1e0", "+1.000"}};
		struct fpisa_column c = {.type = (uint8_t)type, .not_null = 1};

		for (size_t i = 0; i < sizeof(equal) / sizeof(equal[0]); i++) {
			struct fpisa_field a = {.text = equal[i][0]}, b = {.text = equal[i][1]};
			int used = fpisa_key_put(key, 0, sizeof(key), &c, &a);

			assert_int_equal(fpisa_key_put(other, 0, sizeof(other), &c, &b), used);
			assert_memory_equal(key, other, (size_t)used);
		}
	}
}

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return directory < 0;
}

static int remove_folder(void **state)
{
	(void)state;
	remove_all();
	close(directory);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files),
		cmocka_unit_test(unused),
		cmocka_unit_test(long_rows),
		cmocka_unit_test(random_rows),
		cmocka_unit_test(written),
		cmocka_unit_test(numbers),
		cmocka_unit_test(open_for_writing),
		cmocka_unit_test(escapes),
		cmocka_unit_test(keys),
		cmocka_unit_test(named),
		cmocka_unit_test(unwatched),
	};

	rng.state = vectors_seed();
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
