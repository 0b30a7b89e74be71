// SPDX-License-Identifier: GPL-2.0-only
/* Schema files. schema.h documents the functions. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fpisa-query.h"
#include "lib/base/error.h"
#include "query/lib/decimal.h"
#include "schema.h"

#define BLANKS " \t\r"

int schema_find(const struct schema *s, const char *column)
{
	for (int i = 0; i < s->n; i++)
		if (!strcmp(s->column[i].name, column))
			return i;
	return -1;
}

int schema_find_typed(const struct schema *s, const char *text, size_t len, const char *file)
{
	char word[FPISA_COLUMN_NAME + 16], *type = word, *name;
	int i;

	if (len >= sizeof(word))
		return fpisa_fail(-EINVAL, "%s: '%.100s' is not a column name", file, text);
	memcpy(word, text, len);
	word[len] = 0;
	name = strsep(&type, " ");
	i = schema_find(s, name);
	if (i < 0)
		return fpisa_fail(-EINVAL, "%s: the schema has no column '%s'", file, name);
	if (type && strcmp(type, fpisa_column_type_name(s->column[i].type)))
		return fpisa_fail(-EINVAL, "%s: column %s is %s, not %s", file, name,
				  fpisa_column_type_name(s->column[i].type), type);
	return i;
}

/* Parse "decimal(P,S)" or "decimal(P)". Return whether the text is a decimal type. */
static int take_decimal(struct fpisa_column *c, const char *type)
{
	unsigned int precision = 0, scale = 0;
	int end = 0;

	if (sscanf(type, "decimal(%2u,%2u)%n", &precision, &scale, &end) < 2)
		(void)sscanf(type, "decimal(%2u)%n", &precision, &end);
	*c = (struct fpisa_column){
		.type = FPISA_COLUMN_DECIMAL, .precision = (uint8_t)precision, .scale = (uint8_t)scale};
	return end && !type[end] && !strpbrk(type, "+-") && fpisa_column_valid(c);
}

int schema_type_parse(struct fpisa_column *c, const char *type)
{
	*c = (struct fpisa_column){.type = (uint8_t)fpisa_column_type_of(type)};
	return (c->type && c->type != FPISA_COLUMN_DECIMAL) || take_decimal(c, type);
}

static int take_line(struct schema *s, char *line, const char *file, int number)
{
	char *rest = line, *name, *type, *word;
	struct fpisa_column *c = &s->column[s->n];

	line[strcspn(line, "#")] = 0;
	name = strtok_r(line, BLANKS, &rest);
	if (!name)
		return 0;
	type = strtok_r(NULL, BLANKS, &rest);
	if (s->n == FPISA_COLUMNS_MOST)
		return fpisa_fail(-EINVAL,
				  "%s:%d: more than %d columns are not supported; remove those that no query uses",
				  file, number, FPISA_COLUMNS_MOST);
	if (!fpisa_column_name_valid(name))
		return fpisa_fail(-EINVAL,
				  "%s:%d: '%.64s' is not a column name; use letters, digits and _, and no digit first",
				  file, number, name);
	if (schema_find(s, name) >= 0)
		return fpisa_fail(-EINVAL, "%s:%d: column %s is given twice; remove one of the lines", file, number,
				  name);
	if (!schema_type_parse(c, type ? type : ""))
		return fpisa_fail(
			-EINVAL,
			"%s:%d: column %s: '%.32s' is not a type; the types are real, double, int32, int64, text, "
			"date and decimal(P,S), with P of 1 to %d digits, S of them after the point",
			file, number, name, type ? type : "", FPISA_DECIMAL_MOST);
	strcpy(c->name, name);
	word = strtok_r(NULL, BLANKS, &rest);
	if (word) {
		const char *null = strtok_r(NULL, BLANKS, &rest);

		if (strcmp(word, "not") || !null || strcmp(null, "null") || strtok_r(NULL, BLANKS, &rest))
			return fpisa_fail(-EINVAL, "%s:%d: column %s: only 'not null' may follow the type", file,
					  number, name);
		c->not_null = 1;
	}
	s->n++;
	return 0;
}

int schema_parse(struct schema *s, char *text, const char *name)
{
	char *rest = text, *line;
	int rc = 0;

	s->n = 0;
	for (int number = 1; !rc && (line = strsep(&rest, "\n")); number++)
		rc = take_line(s, line, name, number);
	if (!rc && !s->n)
		rc = fpisa_fail(-EINVAL, "%s does not name a column; give a line NAME TYPE [not null] for each", name);
	return rc;
}

int table_name_valid(const char *table)
{
	size_t n = strlen(table);

	return n && n < TABLE_NAME && *table != '.' &&
	       strspn(table, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") == n;
}
