/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Values of columns as text and in keys. column.h documents the functions. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "column.h"
#include "decimal.h"
#include "fpisa-query.h"
#include "fpisa/names.h"
#include "fpisa/query/order.h"
#include "fpisa/query/query.h"
#include "lib/base/locale.h"

#define TYPE(id, name) [FPISA_COLUMN_##id] = (name),
static const char *const names[] = {FPISA_COLUMN_NAMES(TYPE, )};

#define NAMES (sizeof(names) / sizeof(names[0]))

const char *fpisa_column_type_name(unsigned int type)
{
	return type < NAMES ? names[type] : NULL;
}

unsigned int fpisa_column_type_of(const char *name)
{
	for (unsigned int i = 1; i < NAMES; i++)
		if (!strcmp(name, names[i]))
			return i;
	return 0;
}

int fpisa_column_valid(const struct fpisa_column *c)
{
	if (c->type == FPISA_COLUMN_DECIMAL)
		return c->precision && c->precision <= FPISA_DECIMAL_MOST && c->scale <= c->precision;
	return fpisa_column_type_name(c->type) && !c->precision && !c->scale;
}

void fpisa_column_type_text(const struct fpisa_column *c, char text[FPISA_COLUMN_TYPE_MOST])
{
	int n = snprintf(text, FPISA_COLUMN_TYPE_MOST, "%s", fpisa_column_type_name(c->type));

	if (c->type == FPISA_COLUMN_DECIMAL)
		snprintf(text + n, FPISA_COLUMN_TYPE_MOST - (size_t)n, "(%u,%u)", c->precision, c->scale);
}

int fpisa_column_name_valid(const char *name)
{
	size_t n = strlen(name);

	return n && n < FPISA_COLUMN_NAME && (*name < '0' || *name > '9') &&
	       strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

/* -- text ------------------------------------------------------------------- */

static size_t count_digits(const char *at, const char *end)
{
	const char *p = at;

	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return (size_t)(p - at);
}

static const char *skip_sign(const char *at, const char *end)
{
	return at < end && (*at == '-' || *at == '+') ? at + 1 : at;
}

/* Compare in ASCII, whatever the locale. */
static int is_word(const char *at, size_t len, const char *word)
{
	if (len != strlen(word))
		return 0;
	for (size_t i = 0; i < len; i++)
		if ((at[i] | 0x20) != word[i])
			return 0;
	return 1;
}

/*
 * Return whether the text is a decimal number, "inf", "infinity" or "nan". strtod() would also accept blanks,
 * hexadecimal digits and the bits of a NaN.
 */
static int is_decimal(const char *text, size_t len)
{
	const char *end = text + len, *at = skip_sign(text, end);
	size_t digits = count_digits(at, end), more = 0;

	if (!digits && (is_word(at, (size_t)(end - at), "nan") || is_word(at, (size_t)(end - at), "inf") ||
			is_word(at, (size_t)(end - at), "infinity")))
		return 1;
	at += digits;
	if (at < end && *at == '.')
		at += 1 + (more = count_digits(at + 1, end));
	if (!digits && !more)
		return 0;
	if (at < end && (*at == 'e' || *at == 'E')) {
		at = skip_sign(at + 1, end);
		digits = count_digits(at, end);
		at += digits;
		if (!digits)
			return 0;
	}
	return at == end;
}

int fpisa_parse_real(const char *text, uint32_t *bits)
{
	float x;

	if (!is_decimal(text, strlen(text)))
		return -EINVAL;
	errno = 0;
	x = strtof_l(text, NULL, FPISA_LOCALE);
	if (errno == ERANGE && isinf(x))
		return -ERANGE;
	memcpy(bits, &x, sizeof(x));
	return 0;
}

double fpisa_double_canonical(double x)
{
	return isnan(x) ? (double)NAN : x + 0.0;
}

void fpisa_row_widen(struct fpisa_row *r)
{
	float narrow;
	double x;

	memcpy(&narrow, &r->value, sizeof(narrow));
	x = fpisa_double_canonical((double)narrow);
	memcpy(&r->wide[0], &x, sizeof(x));
	r->value = 0;
}

uint32_t fpisa_double_narrow(uint64_t bits)
{
	float narrow;
	double x;
	uint32_t out;

	memcpy(&x, &bits, sizeof(x));
	narrow = (float)x;
	memcpy(&out, &narrow, sizeof(out));
	return out;
}

static int parse_double(const char *text, uint64_t *bits)
{
	double x;

	if (!is_decimal(text, strlen(text)))
		return -EINVAL;
	errno = 0;
	x = strtod_l(text, NULL, FPISA_LOCALE);
	if (errno == ERANGE && isinf(x))
		return -ERANGE;
	x = fpisa_double_canonical(x);
	memcpy(bits, &x, sizeof(x));
	return 0;
}

static int parse_integer(const char *text, size_t len, int64_t least, int64_t most, int64_t *out)
{
	const char *end = text + len, *at = skip_sign(text, end);
	uint64_t x = 0, limit = *text == '-' ? -(uint64_t)least : (uint64_t)most;

	if (at == end || count_digits(at, end) != (size_t)(end - at))
		return -EINVAL;
	for (; at < end; at++) {
		unsigned int digit = (unsigned int)(*at - '0');

		if (x > (limit - digit) / 10)
			return -ERANGE;
		x = 10 * x + digit;
	}
	*out = (int64_t)(*text == '-' ? -x : x);
	return 0;
}

/*
 * Return the number of days since 1970-01-01 in the Gregorian calendar (Hinnant, "chrono-compatible low-level date
 * algorithms").
 */
static int32_t days_of(int year, unsigned int month, unsigned int day)
{
	unsigned int in_era, of_year, of_era;
	int era;

	year -= month <= 2;
	era = (year >= 0 ? year : year - 399) / 400;
	in_era = (unsigned int)(year - era * 400);
	of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
	of_era = in_era * 365 + in_era / 4 - in_era / 100 + of_year;
	return era * 146097 + (int32_t)of_era - 719468;
}

static void date_of(int32_t days, int *year, unsigned int *month, unsigned int *day)
{
	int32_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
	unsigned int of_era = (unsigned int)(z - era * 146097);
	unsigned int in_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	unsigned int of_year = of_era - (365 * in_era + in_era / 4 - in_era / 100), m = (5 * of_year + 2) / 153;

	*day = of_year - (153 * m + 2) / 5 + 1;
	*month = m < 10 ? m + 3 : m - 9;
	*year = (int)in_era + era * 400 + (*month <= 2);
}

#define DATE_LEAST (-719162) /* 0001-01-01 */
#define DATE_MOST 2932896    /* 9999-12-31 */
#define DAY_US 86400000000ll

int fpisa_date_valid(int64_t days)
{
	return days >= DATE_LEAST && days <= DATE_MOST;
}

void fpisa_date_text(int32_t days, char text[FPISA_COLUMN_TEXT_MOST])
{
	unsigned int month, day;
	int year;

	date_of(days, &year, &month, &day);
	snprintf(text, FPISA_COLUMN_TEXT_MOST, "%04d-%02u-%02u", year, month, day);
}

static unsigned int number_at(const char *text, int digits)
{
	unsigned int x = 0;

	while (digits--)
		x = 10 * x + (unsigned int)(*text++ - '0');
	return x;
}

/* Parse a date YYYY-MM-DD in the years 1 to 9999. */
static int parse_date(const char *text, size_t len, int32_t *days)
{
	const char *end = text + len;
	unsigned int year, month, day, m, d;
	int y;

	if (len != 10 || text[4] != '-' || text[7] != '-' || count_digits(text, end) != 4 ||
	    count_digits(text + 5, end) != 2 || count_digits(text + 8, end) != 2)
		return -EINVAL;
	year = number_at(text, 4);
	month = number_at(text + 5, 2);
	day = number_at(text + 8, 2);
	if (!year || !month || month > 12 || !day || day > 31)
		return -ERANGE;
	*days = days_of((int)year, month, day);
	/* A day that does not exist, such as 31 June, would become another date. */
	date_of(*days, &y, &m, &d);
	return d == day ? 0 : -ERANGE;
}

/* Return the number of the digits of a part of a time, or more than any part if one is not a digit. */
static unsigned int part_of_time(const char *text)
{
	return count_digits(text, text + 2) == 2 ? number_at(text, 2) : 99;
}

/*
 * Parse a timestamp YYYY-MM-DD HH:MM:SS[.FRACTION], with up to 6 digits of the second and T in place of the blank, or a
 * date, which stands for its midnight.
 */
static int parse_timestamp(const char *text, size_t len, int64_t *us)
{
	const size_t digits = len > 20 ? len - 20 : 0;
	unsigned int hour, minute, second;
	int32_t days = 0;
	int64_t fraction = 0;
	int rc = parse_date(text, len < 10 ? len : 10, &days);

	*us = days * DAY_US;
	if (rc || len == 10)
		return rc;
	if (len < 19 || len == 20 || digits > 6 || (text[10] != ' ' && text[10] != 'T') || text[13] != ':' ||
	    text[16] != ':' || (digits && (text[19] != '.' || count_digits(text + 20, text + 20 + digits) != digits)))
		return -EINVAL;
	hour = part_of_time(text + 11);
	minute = part_of_time(text + 14);
	second = part_of_time(text + 17);
	if (hour > 23 || minute > 59 || second > 59)
		return -ERANGE;
	for (size_t i = 0; i < 6; i++)
		fraction = 10 * fraction + (i < digits ? text[20 + i] - '0' : 0);
	*us += ((hour * 60ll + minute) * 60 + second) * 1000000 + fraction;
	return 0;
}

int fpisa_timestamp_valid(int64_t us)
{
	return us >= DATE_LEAST * DAY_US && us < (DATE_MOST + 1) * DAY_US;
}

void fpisa_timestamp_text(int64_t us, char text[FPISA_COLUMN_TEXT_MOST])
{
	int64_t days = us / DAY_US - (us % DAY_US < 0), second = (us - days * DAY_US) / 1000000;
	int fraction = (int)((us - days * DAY_US) % 1000000), digits = 6;
	size_t n;

	fpisa_date_text((int32_t)days, text);
	n = strlen(text);
	n += (size_t)snprintf(text + n, FPISA_COLUMN_TEXT_MOST - n, " %02d:%02d:%02d", (int)(second / 3600),
			      (int)(second / 60 % 60), (int)(second % 60));
	for (; fraction && !(fraction % 10); fraction /= 10)
		digits--;
	if (fraction)
		snprintf(text + n, FPISA_COLUMN_TEXT_MOST - n, ".%0*d", digits, fraction);
}

static void number_text(const char *format, double x, char text[FPISA_COLUMN_TEXT_MOST])
{
	locale_t before;

	if (isnan(x) || isinf(x)) {
		strcpy(text, isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity");
		return;
	}
	before = fpisa_locale_enter();
	snprintf(text, FPISA_COLUMN_TEXT_MOST, format, x);
	fpisa_locale_leave(before);
}

void fpisa_real_text(uint32_t bits, char text[FPISA_COLUMN_TEXT_MOST])
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	number_text("%.9g", (double)x, text);
}

void fpisa_double_text(uint64_t bits, char text[FPISA_COLUMN_TEXT_MOST])
{
	double x;

	memcpy(&x, &bits, sizeof(x));
	number_text("%.17g", x, text);
}

/* -- values ------------------------------------------------------------------- */

int fpisa_value_parse(const struct fpisa_column *c, const struct fpisa_field *f, uint32_t *narrow, __u64 wide[2])
{
	int64_t number = 0;
	uint64_t bits = 0;
	int32_t days = 0;
	int rc = 0;

	switch (c->type) {
	case FPISA_COLUMN_REAL:
		return fpisa_parse_real(f->text, narrow);
	case FPISA_COLUMN_DOUBLE:
		rc = parse_double(f->text, &bits);
		wide[0] = bits;
		return rc;
	case FPISA_COLUMN_DECIMAL:
		return fpisa_decimal_parse(f->text, f->len, c->precision, c->scale, wide);
	case FPISA_COLUMN_INT32:
		rc = parse_integer(f->text, f->len, INT32_MIN, INT32_MAX, &number);
		break;
	case FPISA_COLUMN_INT64:
		rc = parse_integer(f->text, f->len, INT64_MIN, INT64_MAX, &number);
		break;
	case FPISA_COLUMN_DATE:
		rc = parse_date(f->text, f->len, &days);
		number = days;
		break;
	case FPISA_COLUMN_TIMESTAMP:
		rc = parse_timestamp(f->text, f->len, &number);
		break;
	default:
		return -EINVAL;
	}
	wide[0] = (__u64)number;
	wide[1] = (__u64)(number >> 63);
	return rc;
}

uint32_t fpisa_column_form(const struct fpisa_column *c)
{
	switch (c->type) {
	case FPISA_COLUMN_REAL:
		return FPISA_FORM_REAL;
	case FPISA_COLUMN_DOUBLE:
		return FPISA_FORM_DOUBLE;
	case FPISA_COLUMN_INT32:
	case FPISA_COLUMN_INT64:
	case FPISA_COLUMN_DATE:
	case FPISA_COLUMN_TIMESTAMP:
		return FPISA_FORM_INT64;
	case FPISA_COLUMN_DECIMAL:
		return c->precision <= FPISA_DECIMAL_INT64 ? FPISA_FORM_INT64 : FPISA_FORM_INT128;
	}
	return 0;
}

uint32_t fpisa_form_of_both(uint32_t a, uint32_t b)
{
	if (!a || !b || a == b)
		return a ? a : b;
	if (fpisa_form_is_integer(a) != fpisa_form_is_integer(b))
		return 0;
	return fpisa_form_is_integer(a) ? FPISA_FORM_INT128 : FPISA_FORM_DOUBLE;
}

int fpisa_column_fits(const struct fpisa_column *c, uint32_t form)
{
	uint32_t is = fpisa_column_form(c);

	return is && fpisa_form_of_both(is, form) == form;
}

/* -- lists of values ------------------------------------------------------------ */

#define FILTER " filter ("

const struct fpisa_column fpisa_column_rows = {.name = "*", .type = FPISA_COLUMN_INT64, .not_null = 1};

/* Return the bytes up to the comma that ends the entry, or up to the end. Set *open if something is not closed. */
static size_t entry_length(const char *text, int *open)
{
	int depth = 0, quoted = 0;
	size_t n = 0;

	for (; text[n] && (text[n] != ',' || depth || quoted); n++) {
		quoted ^= depth && text[n] == '\'';
		depth += !quoted && text[n] == '(';
		depth -= !quoted && text[n] == ')';
	}
	*open = depth || quoted;
	return n;
}

/* If the entry counts distinct values, reduce its text to the column in parentheses. Return 0 or -EINVAL. */
static int take_distinct(struct fpisa_value_entry *e)
{
	const size_t n = strlen(FPISA_COUNT_DISTINCT);

	if (strncmp(e->text, FPISA_COUNT_DISTINCT, n) != 0)
		return 0;
	if (e->len < n + 2 || e->text[e->len - 1] != ')' || memchr(e->text + n, ')', e->len - n - 1))
		return -EINVAL;
	e->distinct = 1;
	e->text += n;
	e->len -= n + 1;
	return 0;
}

int fpisa_value_next(const char **list, struct fpisa_value_entry *e)
{
	const char *text = *list + strspn(*list, " "), *filter;
	size_t n;
	int open;

	if (!*text)
		return 0;
	n = entry_length(text, &open);
	*list = text + n + (text[n] == ',');
	open |= text[n] && !**list;
	filter = memmem(text, n, FILTER, strlen(FILTER));
	*e = (struct fpisa_value_entry){.text = text, .len = filter ? (size_t)(filter - text) : n};
	if (open || take_distinct(e))
		return -EINVAL;
	e->name = strcspn(e->text, " ,)");
	if (!filter)
		return 1;
	e->filter = filter + strlen(FILTER);
	if (text[n - 1] != ')')
		return -EINVAL;
	e->filter_len = (size_t)(text + n - 1 - e->filter);
	return 1;
}

/* -- keys -------------------------------------------------------------------- */

/* Return the number of bytes of every value of the column, or 0 for text, whose values have different lengths. */
static size_t width(const struct fpisa_column *c)
{
	switch (c->type) {
	case FPISA_COLUMN_DECIMAL:
		return c->precision <= FPISA_DECIMAL_INT64 ? 8 : 16;
	case FPISA_COLUMN_REAL:
	case FPISA_COLUMN_INT32:
	case FPISA_COLUMN_DATE:
		return 4;
	case FPISA_COLUMN_DOUBLE:
	case FPISA_COLUMN_INT64:
	case FPISA_COLUMN_TIMESTAMP:
		return 8;
	}
	return 0;
}

size_t fpisa_key_least(const struct fpisa_column *c)
{
	size_t n = width(c);

	return !c->not_null + (n ? n : 1);
}

size_t fpisa_key_most(const struct fpisa_column *c)
{
	return c->type == FPISA_COLUMN_TEXT ? FPISA_QUERY_KEY_BYTES : fpisa_key_least(c);
}

/*
 * Append the value to a key as bytes, and set *n to the number of bytes. Return 0, or an error as fpisa_key_put() does.
 */
static int value_bytes(const struct fpisa_column *c, const struct fpisa_field *f, uint8_t out[FPISA_QUERY_KEY_BYTES],
		       size_t *n)
{
	__u64 wide[2] = {0};
	uint32_t bits = 0;
	int rc;

	if (c->type == FPISA_COLUMN_TEXT) {
		if (f->len >= FPISA_QUERY_KEY_BYTES)
			return -ENOSPC;
		out[0] = (uint8_t)f->len;
		memcpy(out + 1, f->text, f->len);
		*n = f->len + 1;
		return 0;
	}
	rc = fpisa_value_parse(c, f, &bits, wide);
	if (c->type == FPISA_COLUMN_REAL)
		wide[0] = fpisa_order_key(bits);
	*n = width(c);
	memcpy(out, wide, *n);
	return rc;
}

int fpisa_text_valid(const struct fpisa_column *c, const char *text, size_t len)
{
	__u64 decimal[2];
	int64_t number;
	int32_t days;

	switch (c->type) {
	case FPISA_COLUMN_DECIMAL:
		return !fpisa_decimal_parse(text, len, c->precision, c->scale, decimal);
	case FPISA_COLUMN_REAL:
	case FPISA_COLUMN_DOUBLE:
		return is_decimal(text, len);
	case FPISA_COLUMN_INT32:
		return !parse_integer(text, len, INT32_MIN, INT32_MAX, &number);
	case FPISA_COLUMN_INT64:
		return !parse_integer(text, len, INT64_MIN, INT64_MAX, &number);
	case FPISA_COLUMN_DATE:
		return !parse_date(text, len, &days);
	case FPISA_COLUMN_TIMESTAMP:
		return !parse_timestamp(text, len, &number);
	case FPISA_COLUMN_TEXT:
		return !memchr(text, 0, len);
	}
	return 0;
}

int fpisa_field_check(const struct fpisa_column *c, const struct fpisa_field *f)
{
	uint8_t bytes[FPISA_QUERY_KEY_BYTES];
	size_t n;

	return f->null || c->type == FPISA_COLUMN_TEXT ? 0 : value_bytes(c, f, bytes, &n);
}

int fpisa_key_put(uint8_t key[FPISA_QUERY_KEY_BYTES], size_t used, size_t most, const struct fpisa_column *c,
		  const struct fpisa_field *f)
{
	uint8_t bytes[FPISA_QUERY_KEY_BYTES] = {0};
	size_t n = fpisa_key_least(c) - !c->not_null;
	int rc = f->null ? 0 : value_bytes(c, f, bytes, &n);

	if (rc)
		return rc;
	if (used + !c->not_null + n > most)
		return -ENOSPC;
	if (!c->not_null)
		key[used++] = (uint8_t)f->null;
	memcpy(key + used, bytes, n);
	return (int)(used + n);
}

int fpisa_key_take(const uint8_t key[FPISA_QUERY_KEY_BYTES], size_t at, size_t most, const struct fpisa_column *c,
		   char *text, size_t size, int *null)
{
	size_t n = width(c);
	uint64_t wide = 0;
	__u64 decimal[3] = {0};
	char digits[FPISA_DECIMAL_TEXT];

	*text = 0;
	*null = 0;
	if (at + fpisa_key_least(c) > most)
		return -EINVAL;
	if (!c->not_null)
		*null = key[at++];
	if (*null > 1)
		return -EINVAL;
	if (c->type == FPISA_COLUMN_TEXT) {
		n = (size_t)key[at++];
		if (at + n > most || n >= size || (*null && n) || memchr(key + at, 0, n))
			return -EINVAL;
		memcpy(text, key + at, n);
		text[n] = 0;
		return (int)(at + n);
	}
	if (c->type == FPISA_COLUMN_DECIMAL) {
		memcpy(decimal, key + at, n);
		at += n;
		if (*null)
			return decimal[0] | decimal[1] ? -EINVAL : (int)at;
		if (n == 8)
			decimal[1] = (__u64)((__s64)decimal[0] >> 63);
		decimal[2] = (__u64)((__s64)decimal[1] >> 63);
		fpisa_decimal_text(decimal, c->scale, digits);
		return snprintf(text, size, "%s", digits) < (int)size ? (int)at : -EINVAL;
	}
	memcpy(&wide, key + at, n);
	at += n;
	if (*null)
		return wide ? -EINVAL : (int)at;
	switch (c->type) {
	case FPISA_COLUMN_REAL:
		fpisa_real_text(fpisa_order_value((uint32_t)wide), text);
		break;
	case FPISA_COLUMN_DOUBLE:
		fpisa_double_text(wide, text);
		break;
	case FPISA_COLUMN_INT32:
		snprintf(text, size, "%d", (int)(uint32_t)wide);
		break;
	case FPISA_COLUMN_INT64:
		snprintf(text, size, "%lld", (long long)wide);
		break;
	case FPISA_COLUMN_DATE:
		if (!fpisa_date_valid((int32_t)wide))
			return -EINVAL;
		fpisa_date_text((int32_t)wide, text);
		break;
	case FPISA_COLUMN_TIMESTAMP:
		if (!fpisa_timestamp_valid((int64_t)wide))
			return -EINVAL;
		fpisa_timestamp_text((int64_t)wide, text);
		break;
	default:
		return -EINVAL;
	}
	return (int)at;
}
