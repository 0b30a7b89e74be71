// SPDX-License-Identifier: GPL-2.0-only
/* Conditions on rows. condition.h documents the functions. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fpisa-query.h"
#include "lib/base/error.h"
#include "condition.h"
#include "query/lib/decimal.h"

#define BLANKS " \t"
#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

/* -- values ------------------------------------------------------------------- */

/* Parse a field's value as a number or date of the column's type. Return 0 or -errno. */
static int take_value(const struct fpisa_column *c, const struct fpisa_field *f, __int128 *integer, double *real)
{
	__u64 wide[2] = {0};
	uint32_t bits = 0;
	float x;
	int rc = fpisa_value_parse(c, f, &bits, wide);

	*integer = (__int128)((unsigned __int128)wide[1] << 64 | wide[0]);
	memcpy(real, &wide[0], sizeof(*real));
	memcpy(&x, &bits, sizeof(x));
	if (c->type == FPISA_COLUMN_REAL)
		*real = rc ? 0 : (double)x;
	return rc;
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
		"%s: '%.100s' is not a list of conditions; write COLUMN OP VALUE, with <, <=, =, <>, >= or >, or "
		"COLUMN null, COLUMN not null or COLUMN never null; '' is the empty text",
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
 * Copy the value to *to and terminate it with a 0. Return 0 if a quote is not closed, or if the value is missing, for
 * example because a shell variable is empty.
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

/*
 * Parse the constant of a condition. A constant for a real is a double. A constant for an integer has 64 bits. A
 * constant for a decimal may have as many digits as any decimal.
 */
static int take_constant(struct where_term *t, const struct schema *schema, char *text, const char *file)
{
	const struct fpisa_column *c = &schema->column[t->column];
	const struct fpisa_field f = {text, strlen(text), 0};
	struct fpisa_column wide = *c;
	char type[FPISA_COLUMN_TYPE_MOST];

	wide.type = is_real(c->type)		  ? FPISA_COLUMN_DOUBLE :
		    c->type == FPISA_COLUMN_INT32 ? FPISA_COLUMN_INT64 :
						    c->type;
	if (c->type == FPISA_COLUMN_DECIMAL)
		wide.precision = FPISA_DECIMAL_MOST;
	t->text = text;
	t->len = f.len;
	if (c->type == FPISA_COLUMN_TEXT || !take_value(&wide, &f, &t->integer, &t->real))
		return 0;
	fpisa_column_type_text(c, type);
	return fpisa_fail(-EINVAL, "%s: column %s is %s: '%.64s' is not a value of that type", file, c->name, type,
			  text);
}

/*
 * Parse the type after a column's name, if there is one, and compare it with the column's type. `decimal` without digits
 * is any decimal.
 */
static int take_type(const struct fpisa_column *c, const char **at, const char *file)
{
	size_t n = strspn(*at, NAME_CHARACTERS);
	char word[FPISA_COLUMN_TYPE_MOST], is[FPISA_COLUMN_TYPE_MOST];
	struct fpisa_column type;
	int any;

	n += (*at)[n] == '(' ? strcspn(*at + n, ")") + 1 : 0;
	if (n >= sizeof(word) || n > strlen(*at))
		return 0;
	memcpy(word, *at, n);
	word[n] = 0;
	any = fpisa_column_type_of(word) == FPISA_COLUMN_DECIMAL;
	if (!any && !schema_type_parse(&type, word))
		return 0;
	*at += n + strspn(*at + n, BLANKS);
	if (any ? c->type == FPISA_COLUMN_DECIMAL :
		  c->type == type.type && c->precision == type.precision && c->scale == type.scale)
		return 0;
	fpisa_column_type_text(c, is);
	return fpisa_fail(-EINVAL, "%s: column %s is %s, not %s", file, c->name, is, word);
}

static int take_term(struct where_term *t, const struct schema *schema, const char **at, char **to, const char *file)
{
	const char *begin = *at;
	size_t n = strspn(begin, NAME_CHARACTERS);
	char name[FPISA_COLUMN_NAME], *text = *to;
	int rc;

	if (!n || n >= sizeof(name))
		return bad(file, begin);
	memcpy(name, begin, n);
	name[n] = 0;
	t->column = schema_find(schema, name);
	if (t->column < 0)
		return fpisa_fail(-EINVAL, "%s: the schema has no column '%s'", file, name);
	*at += n + strspn(begin + n, BLANKS);
	rc = take_type(&schema->column[t->column], at, file);
	if (rc)
		return rc;
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
		return fpisa_fail(-ENOMEM, "%s: not enough memory for conditions; " FPISA_MORE_MEMORY, file);
	while (!err && *text) {
		if (w->n == WHERE_TERMS)
			return fpisa_fail(-EINVAL, "%s: more than %d conditions are not supported; give fewer", file,
					  WHERE_TERMS);
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

/*
 * Compare the field with the term's value. Set *order to a number below 0, 0, or a number above 0. Return 0 or -errno.
 */
static int compare(const struct where_term *t, const struct fpisa_column *c, const struct fpisa_field *f, int *order)
{
	__int128 integer = 0;
	double real = 0;
	int rc;

	if (c->type == FPISA_COLUMN_TEXT) {
		*order = memcmp(f->text, t->text, f->len < t->len ? f->len : t->len);
		*order = *order ? *order : (f->len > t->len) - (f->len < t->len);
		return 0;
	}
	rc = take_value(c, f, &integer, &real);
	*order = is_real(c->type) ? compare_real(real, t->real) : (integer > t->integer) - (integer < t->integer);
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
		rc = compare(t, &text->schema->column[t->column], f, &order);
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
