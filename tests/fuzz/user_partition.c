/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libFuzzer target: files of a worker of queries (user/query/worker/schema.c, text.c) and values in keys
 * (user/query/lib/column.c). The first byte chooses the format. A schema follows, up to the first zero byte, then the
 * rows, which are also parsed as conditions (condition.c). A value that is packed into a key must be unpacked
 * unchanged.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "check.h"
#include "query/worker/condition.h"

static void take(const struct schema *s, const struct fpisa_field *field)
{
	char text[FPISA_COLUMN_TEXT_MOST + FPISA_QUERY_KEY_BYTES];
	uint8_t key[FPISA_QUERY_KEY_BYTES], again[FPISA_QUERY_KEY_BYTES];

	for (int i = 0; i < s->n; i++) {
		const struct fpisa_column *c = &s->column[i];
		int used = fpisa_key_put(key, 0, sizeof(key), c, &field[i]), null;
		struct fpisa_field f = {.text = text};

		CHECK(field[i].text[field[i].len] == 0);
		if (used < 0)
			continue;
		CHECK(fpisa_key_take(key, 0, (size_t)used, c, text, sizeof(text), &null) == used &&
		      null == field[i].null);
		f.null = null;
		f.len = strlen(text);
		CHECK(fpisa_key_put(again, 0, sizeof(again), c, &f) == used && !memcmp(key, again, (size_t)used));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fpisa_field field[FPISA_COLUMNS_MOST];
	const uint8_t *rows = size > 1 ? memchr(data + 1, 0, size - 1) : NULL;
	struct where where;
	struct schema s;
	struct text t;
	uint64_t at;
	int fd, conditions;

	if (!rows || schema_parse(&s, strdupa((const char *)data + 1), "t.schema"))
		return 0;
	rows++;
	conditions = where_parse(&where, &s, strndupa((const char *)rows, size - (size_t)(rows - data)), "t");
	fd = memfd_create("rows", MFD_CLOEXEC);
	CHECK(fd >= 0 && write(fd, rows, size - (size_t)(rows - data)) == (ssize_t)(size - (size_t)(rows - data)));
	CHECK(!text_open(&t, fd, data[0] & 1 ? TEXT_TBL : TEXT_CSV, "t", &s, NULL));
	if (t.format == TEXT_TBL || !text_header(&t))
		while (text_row(&t, field, &at) > 0) {
			CHECK(at < t.offset);
			CHECK(conditions || where_holds(&where, &t, field) <= 1);
			take(&s, field);
		}
	where_free(&where);
	text_close(&t);
	close(fd);
	return 0;
}
