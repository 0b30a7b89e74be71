// SPDX-License-Identifier: GPL-2.0-only
/* Conditions on rows; where.h has the contracts. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fpisa-query.h"
#include "lib/base/error.h"
#include "where.h"

#define BLANKS " \t"
#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

/* -- values ------------------------------------------------------------------- */

/* Parse a field's value as a number or date of the type. Return 0 or -errno. */
static int take_value(unsigned int type, const struct fpisa_field *f, int64_t *integer, double *real)
{
	const struct fpisa_column c = {.type = (uint8_t)type, .not_null = 1};
	uint8_t key[FPISA_QUERY_KEY_BYTES] = {0};
	uint32_t bits;
	int32_t narrow;
	float x;
	int rc;

	if (type == FPISA_COLUMN_REAL) {
		rc = fpisa_parse_real(f->text, &bits);
		memcpy(&x, &bits, sizeof(x));
		*real = rc ? 0 : (double)x;
		return rc;
	}
	rc = fpisa_key_put(key, 0, sizeof(key), &c, f);
	if (rc < 0)
		return rc;
	memcpy(&narrow, key, sizeof(narrow));
	memcpy(integer, key, sizeof(*integer));
	memcpy(real, key, sizeof(*real));
	if (type == FPISA_COLUMN_INT32 || type == FPISA_COLUMN_DATE)
		*integer = narrow;
	return 0;
}

static int is_real(unsigned int type)
{
	return type == FPISA_COLUMN_REAL || type == FPISA_COLUMN_DOUBLE;
}

/* -- conditions ------------------------------------------------------------------ */

static int bad(const char *file, const char *text)
{
	return fpisa_fail(
		-EINVAL,
		"%s: '%.100s' is not a list of conditions COLUMN OP VALUE: the operators are <, <=, =, <>, >=, >, or it "
		"is COLUMN null, COLUMN not null, COLUMN never null; the empty text is ''",
		file, text);
}

static int is_operator(const char **at, enum where_operator *is)
{
	static const char *const names[] = {"<=", "<>", ">=", "<", "=", ">"};
	static const enum where_operator operators[] = {WHERE_LESS_EQUAL, WHERE_OTHER, WHERE_GREATER_EQUAL,
							WHERE_LESS,	  WHERE_EQUAL, WHERE_GREATER};

	for (int i = 0; i < 6; i++) {
		size_t n = strlen(names[i]);

		if (strncmp(*at, names[i], n))
			continue;
		*at += n;
		*is = operators[i];
		return 1;
	}
	return 0;
}

static int is_null_test(const char **at, enum where_operator *is)
{
	static const char *const names[] = {"null", "not null", "never null"};

	for (int i = 0; i < 3; i++) {
		size_t n = strlen(names[i]);

		if (strncmp(*at, names[i], n))
			continue;
		*at += n;
		*is = WHERE_NULL + (enum where_operator)i;
		return 1;
	}
	return 0;
}

/*
 * Copy the value to *to, with a 0 behind it. Return 0 if a quote is not closed, or if the value is missing, as an empty
 * variable of a shell leaves it.
 */
static int take_text(const char **at, char **to)
{
	const char *p = *at;

	if (*p != '\'') {
		if (!*p || *p == ',')
			return 0;
		while (*p && *p != ',')
			*(*to)++ = *p++;
	} else {
		for (p++; *p && (*p != '\'' || p[1] == '\''); p++) {
			p += *p == '\'';
			*(*to)++ = *p;
		}
		if (*p++ != '\'')
			return 0;
	}
	*at = p;
	*(*to)++ = 0;
	return 1;
}

/* Parse the constant of a condition. A constant is a double beside a real, and 64 bits wide beside an integer. */
static int take_constant(struct where_term *t, const struct schema *schema, char *text, const char *file)
{
	const struct fpisa_column *c = &schema->column[t->column];
	const struct fpisa_field f = {text, strlen(text), 0};
	unsigned int type = is_real(c->type)		  ? FPISA_COLUMN_DOUBLE :
			    c->type == FPISA_COLUMN_INT32 ? FPISA_COLUMN_INT64 :
							    c->type;

	t->text = text;
	t->len = f.len;
	if (type == FPISA_COLUMN_TEXT)
		return 0;
	if (take_value(type, &f, &t->integer, &t->real))
		return fpisa_fail(-EINVAL, "%s: column %s is %s: '%.64s' is not a value of that type", file, c->name,
				  fpisa_column_type_name(c->type), text);
	return 0;
}

static int take_term(struct where_term *t, const struct schema *schema, const char **at, char **to, const char *file)
{
	const char *begin = *at;
	size_t n = strspn(begin, NAME_CHARACTERS);
	char name[FPISA_COLUMN_NAME], word[16], *text = *to;
	unsigned int type = 0;

	if (!n || n >= sizeof(name))
		return bad(file, begin);
	memcpy(name, begin, n);
	name[n] = 0;
	t->column = schema_find(schema, name);
	if (t->column < 0)
		return fpisa_fail(-EINVAL, "%s: the schema has no column '%s'", file, name);
	*at += n + strspn(begin + n, BLANKS);
	n = strspn(*at, NAME_CHARACTERS);
	if (n < sizeof(word)) {
		memcpy(word, *at, n);
		word[n] = 0;
		type = fpisa_column_type_of(word);
	}
	if (type) {
		*at += n + strspn(*at + n, BLANKS);
		if (type != schema->column[t->column].type)
			return fpisa_fail(-EINVAL, "%s: column %s is %s, not %s", file, name,
					  fpisa_column_type_name(schema->column[t->column].type), word);
	}
	if (!is_null_test(at, &t->is)) {
		if (!is_operator(at, &t->is))
			return bad(file, begin);
		*at += strspn(*at, BLANKS);
		if (!take_text(at, to))
			return bad(file, begin);
	}
	*at += strspn(*at, BLANKS);
	if (**at && **at != ',')
		return bad(file, begin);
	if (**at == ',') {
		*at += 1 + strspn(*at + 1, BLANKS);
		if (!**at)
			return bad(file, begin);
	}
	return t->is >= WHERE_NULL ? 0 : take_constant(t, schema, text, file);
}

int where_parse(struct where *w, const struct schema *schema, const char *text, const char *file)
{
	char *to;
	int err = 0;

	*w = (struct where){0};
	if (!*text)
		return 0;
	to = w->texts = malloc(2 * strlen(text) + 1);
	if (!to)
		return fpisa_fail(-ENOMEM, "%s: no memory for conditions", file);
	while (!err && *text) {
		if (w->n == WHERE_TERMS)
			return fpisa_fail(-EINVAL, "%s: more than %d conditions", file, WHERE_TERMS);
		err = take_term(&w->term[w->n++], schema, &text, &to, file);
	}
	return err;
}

void where_free(struct where *w)
{
	free(w->texts);
	*w = (struct where){0};
}

/* -- rows --------------------------------------------------------------------------- */

static int compare_real(double a, double b)
{
	if (isnan(a) || isnan(b))
		return !!isnan(a) - !!isnan(b);
	return (a > b) - (a < b);
}

/* Compare the field with the term's value: set *order below, to or above 0. Return 0 or -errno. */
static int compare(const struct where_term *t, unsigned int type, const struct fpisa_field *f, int *order)
{
	int64_t integer = 0;
	double real = 0;
	int rc;

	if (type == FPISA_COLUMN_TEXT) {
		*order = memcmp(f->text, t->text, f->len < t->len ? f->len : t->len);
		*order = *order ? *order : (f->len > t->len) - (f->len < t->len);
		return 0;
	}
	rc = take_value(type, f, &integer, &real);
	*order = is_real(type) ? compare_real(real, t->real) : (integer > t->integer) - (integer < t->integer);
	return rc;
}

int where_holds(const struct where *w, const struct text *text, const struct fpisa_field *field)
{
	for (int i = 0; i < w->n; i++) {
		const struct where_term *t = &w->term[i];
		const struct fpisa_field *f = &field[t->column];
		int order = 0, rc;

		if (t->is == WHERE_NEVER_NULL) {
			if (f->null)
				return text_null(text, t->column, "the query takes it as never NULL");
			continue;
		}
		if (t->is >= WHERE_NULL || f->null) {
			if (f->null != (t->is == WHERE_NULL))
				return 0;
			if (t->is < WHERE_NULL)
				return 0;
			continue;
		}
		rc = compare(t, text->schema->column[t->column].type, f, &order);
		if (rc)
			return text_bad_value(text, t->column, f, rc);
		if (!(t->is == WHERE_LESS	   ? order < 0 :
		      t->is == WHERE_LESS_EQUAL	   ? order <= 0 :
		      t->is == WHERE_EQUAL	   ? !order :
		      t->is == WHERE_OTHER	   ? order != 0 :
		      t->is == WHERE_GREATER_EQUAL ? order >= 0 :
						     order > 0))
			return 0;
	}
	return 1;
}
