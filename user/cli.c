// SPDX-License-Identifier: GPL-2.0-only
/* Errors, parsing and output of the verbs; cli.h has the contracts. */
#include <arpa/inet.h>
#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "datapath.h"
#include "fpisa.h"
#include "fpisa/format.h"

#define COLUMNS 80

/* One write a message, so that those of processes that run at once do not mix. */
#define MESSAGE_LEN 1024

static const char *reported_place;
static const char *(*reported_cause)(void);

void report_at(const char *place)
{
	reported_place = place;
}

/* The message; after a place in a file, "--window: ..." is about the key `window`. */
static void format_message(char text[MESSAGE_LEN], const char *fmt, va_list ap)
{
	int n = reported_place ? snprintf(text, MESSAGE_LEN, "%s: ", reported_place) : 0;

	if (n < MESSAGE_LEN)
		vsnprintf(text + n, MESSAGE_LEN - n, fmt, ap);
	if (n && n + 2 < MESSAGE_LEN && !strncmp(text + n, "--", 2))
		memmove(text + n, text + n + 2, strlen(text + n + 2) + 1);
}

void report_cause(const char *(*cause)(void))
{
	reported_cause = cause;
}

/* Was there another, which is reported now? */
static bool report_other(void)
{
	const char *cause = reported_cause ? reported_cause() : NULL;

	if (cause)
		fprintf(stderr, "fpisa: %s\n", cause);
	return cause;
}

int fail(int err, const char *hint, const char *fmt, ...)
{
	char text[MESSAGE_LEN];
	va_list ap;

	if (report_other())
		return err;
	va_start(ap, fmt);
	format_message(text, fmt, ap);
	va_end(ap);
	fprintf(stderr, "fpisa: %s: %s%s%s\n", text, strerror(-err), hint ? "; " : "", hint ? hint : "");
	return err;
}

int refuse(int err, const char *fmt, ...)
{
	char text[MESSAGE_LEN];
	va_list ap;

	if (report_other())
		return err;
	va_start(ap, fmt);
	format_message(text, fmt, ap);
	va_end(ap);
	fprintf(stderr, "fpisa: %s\n", text);
	return err;
}

void warning(const char *fmt, ...)
{
	char text[MESSAGE_LEN];
	va_list ap;

	va_start(ap, fmt);
	format_message(text, fmt, ap);
	va_end(ap);
	fprintf(stderr, "fpisa: warning: %s\n", text);
}

/* -- options ----------------------------------------------------------- */

const char *default_pin(void)
{
	const char *pin = getenv("FPISA_PIN");

	return pin && *pin ? pin : NULL;
}

int next_option(int argc, char **argv, const struct option *options)
{
	static __u64 seen;
	const char *word;
	int index = 0, opt;

	if (optind <= 1)
		seen = 0;
	opt = getopt_long(argc, argv, "", options, &index);
	if (opt == -1 || opt == '?')
		return opt;
	word = argv[optind - (optarg && optarg == argv[optind - 1] ? 2 : 1)] + strlen("--");
	if (strcspn(word, "=") != strlen(options[index].name)) {
		refuse(BAD_USAGE, "unrecognized option '--%.*s'; there is --%s", (int)strcspn(word, "="), word,
		       options[index].name);
		return '?';
	}
	if (seen >> index & 1) {
		refuse(BAD_USAGE, "--%s: is given twice", options[index].name);
		return '?';
	}
	seen |= 1ull << index;
	return opt;
}

int common_option(struct common *c, int opt)
{
	switch (opt) {
	case OPT_PIN:
		c->pin = optarg;
		return *optarg ? 0 : refuse(BAD_USAGE, "--pin: name is empty");
	case OPT_JSON:
		c->json = true;
		return 0;
	case OPT_VERBOSE:
		datapath_verbose = true;
		return 0;
	}
	return BAD_USAGE;
}

int common_options(struct common *c, int argc, char **argv)
{
	static const struct option options[] = { COMMON_OPTIONS, JSON_OPTION, { 0 } };
	int opt;

	while ((opt = next_option(argc, argv, options)) != -1)
		if (common_option(c, opt))
			return BAD_USAGE;
	return 0;
}

int parse_number(const char *what, const char *s, uint64_t min, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(s, &end, 10);
	if (*s < '0' || *s > '9' || *end || errno || *out < min || *out > max)
		return refuse(BAD_USAGE, "%s: '%s' is not a number from %llu to %llu", what, s,
			      (unsigned long long)min, (unsigned long long)max);
	return 0;
}

int parse_share(const char *what, const char *s, double *out)
{
	char *end;

	*out = strtod(s, &end);
	if (end == s || *end || !(*out >= 0 && *out <= 0.9))
		return refuse(BAD_USAGE, "%s: '%s' is not a number from 0 to 0.9", what, s);
	return 0;
}

int parse_cpus(const char *what, const char *s, __u32 *cpu, __u32 max, __u32 *n)
{
	unsigned long first, last;
	const char *at = s;
	char *end;

	for (*n = 0;; at = end + 1) {
		first = last = strtoul(at, &end, 10);
		if (*at < '0' || *at > '9')
			break;
		if (*end == '-') {
			at = end + 1;
			last = strtoul(at, &end, 10);
			if (*at < '0' || *at > '9')
				break;
		}
		if (first > last || last > UINT16_MAX)
			break;
		for (; first <= last; first++) {
			for (__u32 i = 0; i < *n; i++)
				if (cpu[i] == first)
					return refuse(BAD_USAGE, "%s: CPU %lu is there twice", what, first);
			if (*n == max)
				return refuse(BAD_USAGE, "%s: more than %u CPUs", what, max);
			cpu[(*n)++] = first;
		}
		if (!*end)
			return 0;
		if (*end != ',')
			break;
	}
	return refuse(BAD_USAGE, "%s: '%s' is not a list of CPUs such as 0,2-5", what, s);
}

int parse_hex(const char *what, const char *s, uint64_t *out)
{
	const char *digits = !strncmp(s, "0x", 2) ? s + 2 : s;
	size_t n = strlen(digits);

	if (!n || n > 16 || strspn(digits, "0123456789abcdefABCDEF") != n)
		return refuse(BAD_USAGE, "%s: '%s' is not 1 to 16 hexadecimal digits", what, s);
	*out = strtoull(digits, NULL, 16);
	return 0;
}

int parse_address(const char *what, const char *s, __be32 *out)
{
	struct in_addr a;

	if (inet_pton(AF_INET, s, &a) != 1)
		return refuse(BAD_USAGE, "%s: '%s' is not an IPv4 address", what, s);
	*out = a.s_addr;
	return 0;
}

int parse_machine(const char *what, const char *s, __be32 *out)
{
	int err = parse_address(what, s, out);
	__u32 first = err ? 0 : ntohl(*out) >> 24;

	if (!err && (!first || first == IN_LOOPBACKNET || first >= 224))
		err = refuse(BAD_USAGE, "%s: %s is no machine's address", what, s);
	return err;
}

/* -- names of the parameters -------------------------------------------- */

const struct name mode_names[] = { { FPISA_MODE_FPISA, "fpisa" },
				   { FPISA_MODE_FPISA_A, "fpisa-a" },
				   { FPISA_MODE_FPISA64, "fpisa64" },
				   { FPISA_MODE_EXACT, "exact" },
				   { 0 } };
const struct name rounding_names[] = { { FPISA_ROUND_DOWN, "down" },
				       { FPISA_ROUND_NEAREST, "nearest" },
				       { 0 } };
const struct name pipeline_names[] = { { FPISA_PIPELINE_STAGED, "staged" },
				       { FPISA_PIPELINE_FUSED, "fused" },
				       { 0 } };
const struct name clz_names[] = { { FPISA_CLZ_LPM, "lpm" }, { FPISA_CLZ_BITS, "bits" },
				   { FPISA_CLZ_LPM_BYTE, "lpm-byte" }, { 0 } };
const struct name format_names[] = { { FPISA_FORMAT_FP32, "fp32" }, { FPISA_FORMAT_FP16, "fp16" },
				     { FPISA_FORMAT_BF16, "bf16" }, { FPISA_FORMAT_FP64, "fp64" },
				     { FPISA_FORMAT_E4M3, "e4m3" }, { FPISA_FORMAT_E5M2, "e5m2" },
				     { FPISA_FORMAT_INT32, "int32" }, { FPISA_FORMAT_MXINT8, "mxint8" },
				     { 0 } };
const struct name op_names[] = { { FPISA_OP_SUM, "sum" }, { FPISA_OP_MIN, "min" },   { FPISA_OP_MAX, "max" },
				 { FPISA_OP_AVG, "avg" }, { FPISA_OP_SCALE, "scale" }, { FPISA_OP_NORM, "norm" },
				 { 0 } };
const struct name fanout_names[] = { { FPISA_FANOUT_MULTICAST, "multicast" },
				     { FPISA_FANOUT_UNICAST, "unicast" },
				     { 0 } };
const struct name transport_names[] = { { FPISA_TRANSPORT_UDP, "udp" }, { FPISA_TRANSPORT_XSK, "xsk" }, { 0 } };
const struct name xdp_mode_names[] = {
	{ DATAPATH_NATIVE, "native" }, { DATAPATH_SKB, "skb" }, { DATAPATH_OFFLOAD, "offload" }, { 0 }
};
const struct name attach_mode_names[] = { { DATAPATH_NATIVE, "native" }, { DATAPATH_SKB, "skb" }, { 0 } };

const char *name_of(const struct name *names, int id)
{
	for (; names->name; names++)
		if (names->id == id)
			return names->name;
	return "?";
}

int parse_name(const char *what, const char *s, const struct name *names, int *id)
{
	char known[128] = "";

	for (const struct name *n = names; n->name; n++) {
		if (!strcmp(s, n->name)) {
			*id = n->id;
			return 0;
		}
		strcat(known, n == names ? "" : " or ");
		strcat(known, n->name);
	}
	return refuse(BAD_USAGE, "%s: '%s' is not %s", what, s, known);
}

/* -- output ------------------------------------------------------------ */

const char *address_text(__be32 addr, char buf[ADDRESS_LEN])
{
	struct in_addr a = { .s_addr = addr };

	return inet_ntop(AF_INET, &a, buf, ADDRESS_LEN);
}

const char *ranks_text(uint64_t ranks, char buf[RANKS_LEN])
{
	int n = 0;

	if (!ranks)
		return "-";
	for (int i = 0, last; i < 64; i = last + 1) {
		last = i;
		if (!(ranks >> i & 1))
			continue;
		while (last < 63 && ranks >> (last + 1) & 1)
			last++;
		n += snprintf(buf + n, RANKS_LEN - n, "%s%d", n ? "," : "", i);
		if (last > i)
			n += snprintf(buf + n, RANKS_LEN - n, "%c%d", last > i + 1 ? '-' : ',', last);
	}
	return buf;
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

int print_json(struct json_object *o, bool one_line)
{
	int flags = JSON_C_TO_STRING_NOSLASHESCAPE |
		    (one_line ? 0 : JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED);
	const char *s = json_object_to_json_string_ext(o, flags);
	int err = s ? 0 : -ENOMEM;

	if (s)
		puts(s);
	json_object_put(o);
	return err;
}

void json_add_string(struct json_object *o, const char *key, const char *value)
{
	json_object_object_add(o, key, value ? json_object_new_string(value) : NULL);
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

struct json_object *ranks_json(uint64_t ranks)
{
	struct json_object *a = json_object_new_array();

	for (int i = 0; i < 64; i++)
		if (ranks >> i & 1)
			json_object_array_add(a, json_object_new_int(i));
	return a;
}
