// SPDX-License-Identifier: GPL-2.0-only
/* Columns in the names of directories. hive.h documents the functions. */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "hive.h"
#include "lib/base/error.h"

#define NO_VALUE "__HIVE_DEFAULT_PARTITION__" /* Hive's name of NULL */
#define WHOLE_DIGITS 18

struct part {
	const char *name, *value;
	size_t name_length, value_length;
};

/* Take the next NAME=VALUE of the path. Return false at the end. */
static bool next_part(const char **at, struct part *p)
{
	for (const char *end, *is; (end = strchr(*at, '/')); *at = end + 1) {
		is = memchr(*at, '=', (size_t)(end - *at));
		if (!is)
			continue;
		*p = (struct part){*at, is + 1, (size_t)(is - *at), (size_t)(end - is - 1)};
		*at = end + 1;
		return true;
	}
	return false;
}

static bool is_null(const struct part *p)
{
	return p->value_length == strlen(NO_VALUE) && !memcmp(p->value, NO_VALUE, p->value_length);
}

/* Return whether the text is an integer as it is usually written, so that its digits are the same again in the answer. */
static bool is_whole(const struct part *p)
{
	size_t sign = p->value_length && *p->value == '-', digits = p->value_length - sign;

	if (!digits || digits > WHOLE_DIGITS || (p->value[sign] == '0' && p->value_length > 1))
		return false;
	for (size_t i = sign; i < p->value_length; i++)
		if (p->value[i] < '0' || p->value[i] > '9')
			return false;
	return true;
}

static bool is_date(const struct part *p)
{
	static const struct fpisa_column date = {.type = FPISA_COLUMN_DATE};

	return fpisa_text_valid(&date, p->value, p->value_length);
}

/* Return whether the file's columns are those of the table. Note values that are not integers, and not dates. */
static bool matches(const struct hive *h, const char *path, bool whole[HIVE_MOST], bool date[HIVE_MOST])
{
	struct part p;
	int i = 0;

	for (; next_part(&path, &p); i++) {
		if (i == h->n || strlen(h->name[i]) != p.name_length || memcmp(h->name[i], p.name, p.name_length))
			return false;
		whole[i] &= is_null(&p) || is_whole(&p);
		date[i] &= is_null(&p) || is_date(&p);
	}
	return i == h->n;
}

int hive_column(const struct hive *h, const char *name)
{
	for (int i = 0; i < h->n; i++)
		if (!strcasecmp(h->name[i], name))
			return i;
	return -1;
}

/* Take the names of the columns from the first file. */
static int take_names(struct hive *h, const char *path)
{
	const char *at = path;
	struct part p;

	while (next_part(&at, &p)) {
		if (h->n == HIVE_MOST)
			return fpisa_fail(-EINVAL,
					  "%s: more than %d directories NAME=VALUE are not supported; move the files up",
					  path, HIVE_MOST);
		snprintf(h->name[h->n], FPISA_COLUMN_NAME, "%.*s", (int)p.name_length, p.name);
		if (p.name_length >= FPISA_COLUMN_NAME || !fpisa_column_name_valid(h->name[h->n]))
			return fpisa_fail(
				-EINVAL,
				"%s: '%.*s' is not a column name; use letters, digits and _, and no digit first", path,
				p.name_length < 64 ? (int)p.name_length : 64, p.name);
		if (hive_column(h, h->name[h->n]) >= 0)
			return fpisa_fail(-EINVAL, "%s: two directories name column %s; rename one", path,
					  h->name[h->n]);
		h->n++;
	}
	return 0;
}

int hive_find(struct hive *h, const struct files *files)
{
	bool whole[HIVE_MOST], date[HIVE_MOST];
	int err;

	*h = (struct hive){0};
	memset(whole, true, sizeof(whole));
	memset(date, true, sizeof(date));
	err = take_names(h, files->file[0].name);
	for (int i = 0; !err && i < files->n; i++)
		if (!matches(h, files->file[i].name, whole, date))
			err = fpisa_fail(-EINVAL,
					 "%s: its directories NAME=VALUE have other names than those of %s; move one of "
					 "the files",
					 files->file[i].name, files->file[0].name);
	for (int i = 0; i < h->n; i++)
		h->type[i] = whole[i] && date[i] ? "\"NULL\"" : whole[i] ? "BIGINT" : date[i] ? "DATE" : "BLOB";
	return err;
}

/* Return the byte that % and two digits stand for, or -1. */
static int escaped(const char *at, const char *end)
{
	unsigned int byte;

	return end - at > 2 && isxdigit((unsigned char)at[1]) && isxdigit((unsigned char)at[2]) &&
			       sscanf(at + 1, "%2x", &byte) == 1 ?
		       (int)byte :
		       -1;
}

void hive_put(FILE *f, const struct hive *h, int i, const char *path)
{
	struct part p = {0};

	for (int k = 0; k <= i; k++)
		next_part(&path, &p);
	if (is_null(&p)) {
		fprintf(f, "CAST(NULL AS %s)", h->type[i]);
		return;
	}
	if (strcmp(h->type[i], "BLOB")) {
		fprintf(f, "CAST('%.*s' AS %s)", (int)p.value_length, p.value, h->type[i]);
		return;
	}
	fputs("unhex('", f);
	for (const char *at = p.value, *end = at + p.value_length; at < end; at++) {
		int byte = *at == '%' ? escaped(at, end) : -1;

		fprintf(f, "%02x", byte < 0 ? (unsigned char)*at : (unsigned int)byte);
		at += byte < 0 ? 0 : 2;
	}
	fputs("')", f);
}
