// SPDX-License-Identifier: GPL-2.0-only
/* Text and JSON; print.h has the contracts. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/utf8.h"
#include "print.h"
#include "report.h"

#define COLUMNS 80
#define OBJECT_LEN 128

const char *address_text(struct fpisa_address a, char buf[ADDRESS_LEN])
{
	return fpisa_address_text(&a, buf);
}

const char *endpoint_text(struct fpisa_address a, __be16 port, char buf[ENDPOINT_LEN])
{
	return fpisa_endpoint_text(&a, ntohs(port), buf);
}

/* Return the last rank of the run that begins with `rank`. */
static __u32 last_of_run(const struct fpisa_ranks *s, __u32 rank)
{
	while (rank + 1 < FPISA_MAX_RANKS && fpisa_ranks_has(s, rank + 1))
		rank++;
	return rank;
}

const char *group_ranks_text(const struct fpisa_ranks *s, char buf[RANKS_LEN])
{
	size_t n = 0;

	if (!fpisa_ranks_any(s))
		return "-";
	for (__u32 last, r = fpisa_ranks_next(s, 0); r < FPISA_MAX_RANKS; r = fpisa_ranks_next(s, last + 1)) {
		last = last_of_run(s, r);
		if (n + sizeof(",4094-4095,...") > RANKS_LEN) {
			snprintf(buf + n, RANKS_LEN - n, ",...");
			break;
		}
		n += (size_t)snprintf(buf + n, RANKS_LEN - n, "%s%u", n ? "," : "", r);
		if (last > r)
			n += (size_t)snprintf(buf + n, RANKS_LEN - n, "%c%u", last > r + 1 ? '-' : ',', last);
	}
	return buf;
}

const char *ranks_text(uint64_t ranks, char buf[RANKS_LEN])
{
	const struct fpisa_ranks s = fpisa_ranks_word(0, ranks);

	return group_ranks_text(&s, buf);
}

const char *cpus_text(const __u32 *cpu, __u32 n, char buf[CPUS_LEN])
{
	int len = 0;

	*buf = 0;
	for (__u32 i = 0; i < n && len < CPUS_LEN; i++)
		len += snprintf(buf + len, CPUS_LEN - len, "%s%u", i ? "," : "", cpu[i]);
	return buf;
}

void print_wrapped(int column, const char *text)
{
	int width = COLUMNS - 1 - column;

	for (;;) {
		int n = strlen(text);

		if (n <= width)
			break;
		for (n = width; n && text[n] != ' '; n--)
			;
		if (!n)
			n = width;
		printf("%.*s\n%*s", n, text, column, "");
		text += n + (text[n] == ' ');
	}
	puts(text);
}

static const char *done; /* verb that has made its changes */

void note_done(const char *verb)
{
	done = verb;
}

int flush_stdout(const char *fmt, ...)
{
	static int lost;
	char object[OBJECT_LEN];
	va_list ap;

	if (lost || (!fflush(stdout) && !ferror(stdout)))
		return lost;
	lost = -(errno ?: EIO);
	va_start(ap, fmt);
	vsnprintf(object, sizeof(object), fmt, ap);
	va_end(ap);
	return fail(lost, NULL, "%s%s%s", done ?: "", done ? " is done; " : "", object);
}

int print_json(struct json_object *o, bool one_line)
{
	int flags = JSON_C_TO_STRING_NOSLASHESCAPE | (one_line ? 0 : JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED);
	const char *s = json_object_to_json_string_ext(o, flags);
	int err = s ? 0 : -ENOMEM;

	if (s)
		puts(s);
	json_object_put(o);
	return err;
}

struct json_object *json_done(const char *verb)
{
	struct json_object *o = json_object_new_object();

	note_done(verb);
	json_add_string(o, "done", verb);
	return o;
}

struct json_object *json_text(const char *text)
{
	char *ascii = fpisa_is_utf8(text) ? NULL : strdup(text);
	struct json_object *o;

	for (char *c = ascii; c && *c; c++)
		if (*c & 0x80)
			*c = '?';
	o = json_object_new_string(ascii ?: text);
	free(ascii);
	return o;
}

void json_add_string(struct json_object *o, const char *key, const char *value)
{
	json_object_object_add(o, key, value ? json_text(value) : NULL);
}

void json_add_number(struct json_object *o, const char *key, uint64_t value)
{
	json_object_object_add(o, key, json_object_new_uint64(value));
}

struct json_object *json_double(double x)
{
	char text[32];

	snprintf(text, sizeof(text), "%.9g", x);
	return isfinite(x) ? json_object_new_double_s(x, text) : NULL;
}

void json_add_double(struct json_object *o, const char *key, double x)
{
	json_object_object_add(o, key, json_double(x));
}

static const char *digits(const char *text)
{
	return text + strspn(text, "0123456789");
}

struct json_object *json_decimal(const char *text)
{
	const bool minus = *text == '-';
	const char *whole = text + (minus || *text == '+'), *point = digits(whole);
	const char *part = point + (*point == '.'), *exponent = digits(part), *end = exponent;
	double x = strtod(text, NULL);
	struct json_object *o;
	char *out;

	if (isnan(x) || isinf(x))
		return json_object_new_string(isnan(x) ? "NaN" : x < 0 ? "-Infinity" : "Infinity");
	if (*end == 'e' || *end == 'E')
		end = digits(end + 1 + (end[1] == '+' || end[1] == '-'));
	if (*end || (point == whole && exponent == part) || (end > exponent && (end[-1] < '0' || end[-1] > '9')))
		return json_object_new_string(text);
	while (whole + 1 < point && *whole == '0')
		whole++;
	if (asprintf(&out, "%s%.*s%s%.*s%s", minus ? "-" : "", point > whole ? (int)(point - whole) : 1,
		     point > whole ? whole : "0", exponent > part ? "." : "", (int)(exponent - part), part, exponent) < 0)
		return NULL;
	o = json_object_new_double_s(x, out);
	free(out);
	return o;
}

struct json_object *group_ranks_json(const struct fpisa_ranks *s)
{
	struct json_object *a = json_object_new_array();

	FPISA_EACH_RANK(r, s)
		json_object_array_add(a, json_object_new_int((int)r));
	return a;
}

struct json_object *ranks_json(uint64_t ranks)
{
	const struct fpisa_ranks s = fpisa_ranks_word(0, ranks);

	return group_ranks_json(&s);
}
