// SPDX-License-Identifier: GPL-2.0-only
/*
 * The verb `fpisa query run TABLE` is the master of a query. The verb prints the answer, and the number of rows at each
 * stage.
 */
#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/names.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "fpisa-query.h"
#include "fpisa/query/query.h"
#include "ipc.h"
#include "job/job.h"
#include "lib/base/clock.h"
#include "lib/base/utf8.h"
#include "parquet.h"
#include "query/lib/column.h"
#include "verbs.h"

#define LOOK_MS 250 /* pause between two updates of the terminal */

enum {
	OPT_WORKERS = OPT_VERB,
	OPT_KEY,
	OPT_AGGREGATOR,
	OPT_QUERY,
	OPT_TOKEN,
	OPT_LOCAL_PORT,
	OPT_WORKER_PORT,
	OPT_PRUNE,
	OPT_VALUE,
	OPT_BY,
	OPT_LIMIT,
	OPT_ASCENDING,
	OPT_NULLS_FIRST,
	OPT_COLUMNS,
	OPT_WHERE,
	OPT_JOIN,
	OPT_ON,
	OPT_JOIN_WHERE,
	OPT_HAVING,
	OPT_PREAGGREGATE,
	OPT_TOTAL,
	OPT_DISTINCT,
	OPT_DOUBLE_SUMS,
	OPT_TIMEOUT,
	OPT_FAULTS,
	OPT_FORMAT,
};

static const struct option options[] = {
	{"verbose", no_argument, NULL, OPT_VERBOSE},
	JSON_OPTION,
	{"workers", required_argument, NULL, OPT_WORKERS},
	{"key", required_argument, NULL, OPT_KEY},
	{"aggregator", required_argument, NULL, OPT_AGGREGATOR},
	{"query", required_argument, NULL, OPT_QUERY},
	{"token", required_argument, NULL, OPT_TOKEN},
	{"local-port", required_argument, NULL, OPT_LOCAL_PORT},
	{"worker-port", required_argument, NULL, OPT_WORKER_PORT},
	{"prune", required_argument, NULL, OPT_PRUNE},
	{"value", required_argument, NULL, OPT_VALUE},
	{"by", required_argument, NULL, OPT_BY},
	{"limit", required_argument, NULL, OPT_LIMIT},
	{"ascending", no_argument, NULL, OPT_ASCENDING},
	{"nulls-first", no_argument, NULL, OPT_NULLS_FIRST},
	{"columns", required_argument, NULL, OPT_COLUMNS},
	{"where", required_argument, NULL, OPT_WHERE},
	{"join", required_argument, NULL, OPT_JOIN},
	{"on", required_argument, NULL, OPT_ON},
	{"join-where", required_argument, NULL, OPT_JOIN_WHERE},
	{"having", required_argument, NULL, OPT_HAVING},
	{"preaggregate", no_argument, NULL, OPT_PREAGGREGATE},
	{"total", no_argument, NULL, OPT_TOTAL},
	{"distinct", required_argument, NULL, OPT_DISTINCT},
	{"double-sums", no_argument, NULL, OPT_DOUBLE_SUMS},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"debug-faults", required_argument, NULL, OPT_FAULTS},
	{"format", required_argument, NULL, OPT_FORMAT},
	{0},
};

#define PRUNING(id, name) {FPISA_PRUNING_##id, name},
static const struct name pruning_names[] = {FPISA_PRUNING_NAMES(PRUNING, ){0}};

/* Formats of the answer. ARROW and PARQUET are not texts. */
enum { CSV, JSON, ARROW, PARQUET };

static const struct name answer_names[] = {{CSV, "csv"}, {JSON, "json"}, {ARROW, "arrow"}, {PARQUET, "parquet"}, {0}};

/* The condition of --having. The answer keeps only rows whose aggregate satisfies the comparison. */
struct having {
	const char *column; /* such as "sum", or "sum(x)" if there are several columns */
	char comparison[3]; /* "" keeps all rows */
	double number;
	const char *digits; /* the number as [+-]DIGITS[.DIGITS]; NULL if it is written in another way */
};

struct asked {
	struct fpisa_query_options options;
	struct having having;
	bool numbered; /* whether --query was given */
	int format;
};

/* -- options ------------------------------------------------------------------- */

#define AGGREGATES FPISA_AGGREGATE_NAMES(FPISA_NAME, ", ")

/* Return whether the text is the name of an aggregate, or such a name and a text that ends with a parenthesis. */
static bool is_aggregate(const char *text, size_t n)
{
	static const char *const known[] = {FPISA_AGGREGATE_NAMES(FPISA_NAMED, )};
	size_t len = strcspn(text, "(<>=");

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strlen(known[i]) == len && !strncmp(known[i], text, len))
			return len == n || text[n - 1] == ')';
	return false;
}

/* Return the bytes of the column, whose conditions in parentheses may contain comparisons. */
static size_t column_length(const char *text)
{
	const char *end = strrchr(text, ')');
	size_t n = strcspn(text, "<>=");

	return end && text + n < end ? (size_t)(end - text) + strcspn(end, "<>=") : n;
}

static int parse_having(char *text, struct having *h)
{
	size_t n = column_length(text), k = strspn(text + n, "<>=");
	char *end;

	h->number = strtod(text + n + k, &end);
	if (!is_aggregate(text, n) || !k || k > 2 || end == text + n + k || *end || isnan(h->number))
		return refuse(BAD_USAGE,
			      "--having: '%s' is not one of " AGGREGATES ", then <, <=, =, >= or >, and a number", text);
	h->digits = text + n + k + strspn(text + n + k, " \t\n\v\f\r");
	if (h->digits[strspn(h->digits, "+-.0123456789")])
		h->digits = NULL;
	memcpy(h->comparison, text + n, k);
	h->column = text;
	text[n] = 0;
	for (const char *const *c = (const char *const[]){"<", "<=", "=", ">=", ">", NULL}; *c; c++)
		if (!strcmp(*c, h->comparison))
			return 0;
	return refuse(BAD_USAGE, "--having: '%s' is not a comparison; use one of <, <=, =, >= and >", h->comparison);
}

static int take_faults(struct fpisa_query_options *o, char *text)
{
	struct fpisa_job_faults f = {0};
	double *const share[FPISA_FAULTS] = {&o->loss, &o->duplicate, &o->reorder, &o->delay, &o->corrupt};
	int err = job_parse_faults(text, &f);

	for (int i = 0; i < FPISA_FAULTS; i++)
		*share[i] = (double)f.share[i] / FPISA_FAULT_SCALE;
	o->seed = f.seed;
	return err;
}

/* Refuse an empty argument, because it may come from a shell variable that is not set. */
static int refuse_empty(int opt)
{
	const struct option *o = options;

	while (o->val != opt)
		o++;
	return refuse(BAD_USAGE, "query run: --%s is empty; give a value, or leave it out", o->name);
}

/* Options whose argument is stored unchanged in a member. */
static const struct {
	int opt;
	size_t at; /* offset in struct fpisa_query_options */
} texts[] = {
	{OPT_WORKERS, offsetof(struct fpisa_query_options, workers)},
	{OPT_KEY, offsetof(struct fpisa_query_options, key_file)},
	{OPT_AGGREGATOR, offsetof(struct fpisa_query_options, aggregator)},
	{OPT_VALUE, offsetof(struct fpisa_query_options, value)},
	{OPT_BY, offsetof(struct fpisa_query_options, by)},
	{OPT_COLUMNS, offsetof(struct fpisa_query_options, columns)},
	{OPT_WHERE, offsetof(struct fpisa_query_options, where)},
	{OPT_JOIN, offsetof(struct fpisa_query_options, join)},
	{OPT_ON, offsetof(struct fpisa_query_options, on)},
	{OPT_JOIN_WHERE, offsetof(struct fpisa_query_options, join_where)},
	{OPT_DISTINCT, offsetof(struct fpisa_query_options, distinct)},
};

static bool take_text(struct fpisa_query_options *o, int opt, const char *arg)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].opt == opt) {
			*(const char **)((char *)o + texts[i].at) = arg;
			return true;
		}
	return false;
}

static int take(struct asked *a, int opt, char *arg)
{
	struct fpisa_query_options *o = &a->options;
	uint64_t n = 0;
	int err = 0, pruning = 0;

	if (arg && !*arg)
		return refuse_empty(opt);
	if (take_text(o, opt, arg))
		return 0;
	switch (opt) {
	case OPT_QUERY:
		err = parse_number("--query", arg, 0, FPISA_MAX_JOBS - 1, &n);
		o->query = (uint32_t)n;
		a->numbered = true;
		break;
	case OPT_TOKEN:
		err = parse_hex("--token", arg, &o->token);
		break;
	case OPT_LOCAL_PORT:
		err = parse_number("--local-port", arg, 1, 65535, &n);
		o->local_port = (uint16_t)n;
		break;
	case OPT_WORKER_PORT:
		err = parse_number("--worker-port", arg, 1, 65535, &n);
		o->worker_port = (uint16_t)n;
		break;
	case OPT_PRUNE:
		err = parse_name("--prune", arg, pruning_names, &pruning);
		o->pruning = (uint8_t)pruning;
		break;
	case OPT_LIMIT:
		err = parse_number("--limit", arg, 1, FPISA_MAX_LIMIT_TOPN, &o->limit);
		break;
	case OPT_ASCENDING:
		o->ascending = 1;
		break;
	case OPT_NULLS_FIRST:
		o->nulls_first = 1;
		break;
	case OPT_HAVING:
		err = parse_having(arg, &a->having);
		break;
	case OPT_PREAGGREGATE:
		o->preaggregate = 1;
		break;
	case OPT_TOTAL:
		o->total = 1;
		break;
	case OPT_DOUBLE_SUMS:
		o->double_sums = 1;
		break;
	case OPT_TIMEOUT:
		err = parse_number("--timeout", arg, 1, 86400, &n);
		o->timeout_ms = (uint32_t)n * 1000;
		break;
	case OPT_FAULTS:
		err = take_faults(o, arg);
		break;
	case OPT_FORMAT:
		err = parse_name("--format", arg, answer_names, &a->format);
		break;
	}
	return err;
}

/* A list of --value, a value with conditions, or one beside distinct values, is for aggregates. */
static void take_list(struct fpisa_query_options *o)
{
	if (o->value && !o->limit && (o->distinct || strpbrk(o->value, ",(*"))) {
		o->values = o->value;
		o->value = NULL;
	}
}

/* Return whether the question is to pass an aggregator. */
static bool passes_aggregator(const struct asked *a)
{
	const struct fpisa_query_options *o = &a->options;

	if (o->pruning == FPISA_PRUNING_AUTO)
		return o->join || o->aggregator || a->numbered;
	return o->pruning == FPISA_PRUNING_NETWORK && (o->by || o->total || o->limit || o->join);
}

static int check(const struct asked *a)
{
	const struct fpisa_query_options *o = &a->options;

	if (!o->workers)
		return refuse(BAD_USAGE, "query run: --workers is missing; list the workers' addresses");
	if (o->distinct && ((!o->by && !o->total) || o->join))
		return refuse(BAD_USAGE, "query run: --distinct requires --by or --total, and does not support --join");
	if (o->double_sums && (o->limit || (!o->value && !o->values)))
		return refuse(BAD_USAGE, "query run: --double-sums requires --value, and does not support --limit");
	if (!o->limit && !o->by && !o->total && (o->value || o->values))
		return refuse(BAD_USAGE,
			      "query run: --value requires --limit (first rows), --by (sums by key) or --total (the "
			      "whole table)");
	if (o->total && (o->limit || o->by || o->columns || o->join))
		return refuse(BAD_USAGE,
			      "query run: --total aggregates the whole table; leave --limit, --by, --columns and "
			      "--join out");
	if (o->limit && (o->by || !o->value))
		return refuse(BAD_USAGE, "query run: --limit requires --value, and does not support --by");
	if (!o->limit && (o->ascending || o->nulls_first))
		return refuse(BAD_USAGE, "query run: --ascending and --nulls-first require --limit");
	if (o->by && o->columns)
		return refuse(BAD_USAGE, "query run: --by names the columns of the answer; leave --columns out");
	if (!o->by && !o->total && (*a->having.comparison || o->preaggregate))
		return refuse(BAD_USAGE, "query run: --having and --preaggregate require --by or --total");
	if (!o->join != !o->on || (o->join_where && !o->join))
		return refuse(BAD_USAGE,
			      "query run: --join TABLE and --on A=B require each other; --join-where requires both");
	if (o->join &&
	    (o->limit || o->preaggregate || o->pruning == FPISA_PRUNING_NONE || o->pruning == FPISA_PRUNING_WORKERS))
		return refuse(BAD_USAGE, "query run: --join requires --prune network, and does not support --limit and "
					 "--preaggregate");
	if (passes_aggregator(a) && (!o->aggregator || !a->numbered))
		return refuse(BAD_USAGE, "query run: --aggregator or --query is missing; give both%s",
			      o->join ? "" : ", or --prune none or workers");
	if (a->format >= ARROW && isatty(STDOUT_FILENO))
		return refuse(BAD_USAGE, "query run: --format %s is not text; redirect stdout to a file or a program",
			      name_of(answer_names, a->format));
	return 0;
}

/* -- rows ------------------------------------------------------------------------ */

/* The digits of a number before the point and after it, without zeros that do not change its value. */
struct digits {
	const char *whole, *rest;
	size_t n_whole, n_rest;
	bool negative; /* false for zero */
};

static struct digits digits_of(const char *text)
{
	struct digits d;

	d.negative = *text == '-';
	text += *text == '-' || *text == '+';
	d.whole = text + strspn(text, "0");
	d.n_whole = strspn(d.whole, "0123456789");
	d.rest = d.whole + d.n_whole;
	d.rest += *d.rest == '.';
	d.n_rest = strlen(d.rest);
	while (d.n_rest && d.rest[d.n_rest - 1] == '0')
		d.n_rest--;
	d.negative &= d.n_whole || d.n_rest;
	return d;
}

static int order_of(size_t a, size_t b)
{
	return a < b ? -1 : a > b;
}

/* Compare two numbers [+-]DIGITS[.DIGITS] by all of their digits, as strcmp() does. */
static int compare_digits(const char *a, const char *b)
{
	const struct digits x = digits_of(a), y = digits_of(b);
	int order = order_of(x.n_whole, y.n_whole);

	if (x.negative != y.negative)
		return x.negative ? -1 : 1;
	if (!order)
		order = memcmp(x.whole, y.whole, x.n_whole);
	if (!order)
		order = memcmp(x.rest, y.rest, x.n_rest < y.n_rest ? x.n_rest : y.n_rest);
	if (!order)
		order = order_of(x.n_rest, y.n_rest);
	return x.negative ? -order : order;
}

/* Compare an aggregate with the number of --having, as strcmp() does. NaN is greater than all other values. */
static int compare(const struct having *h, uint32_t type, const char *text)
{
	double x;

	if (h->digits && type != FPISA_COLUMN_REAL && type != FPISA_COLUMN_DOUBLE)
		return compare_digits(text, h->digits);
	/*
	 * The digits of a real identify its value only when they are parsed as a real. The number of --having is a
	 * double, as in --where.
	 */
	x = type == FPISA_COLUMN_REAL ? (double)strtof(text, NULL) : strtod(text, NULL);
	if (isnan(x))
		return 1;
	return x < h->number ? -1 : x > h->number;
}

/* The columns of the answer, and the rows to keep. The aggregates follow the columns of the key. */
struct answer {
	const struct having *having;
	const struct fpisa_query_column *column;
	uint32_t n, keys;
};

/* Return the number of columns in the list, which may be NULL. */
static uint32_t count_list(const char *list)
{
	struct fpisa_value_entry e;
	uint32_t n = 0;

	while (list && fpisa_value_next(&list, &e) > 0)
		n++;
	return n;
}

/* Return the column that --having names, or of->n. */
static uint32_t column_of(const struct answer *of)
{
	uint32_t i = of->keys;

	while (i < of->n && strcmp(of->column[i].name, of->having->column))
		i++;
	return i;
}

static bool stays(const struct answer *of, const char *const *row)
{
	uint32_t i;
	int order;

	if (!*of->having->comparison)
		return true;
	i = column_of(of);
	if (!row[i])
		return false;
	order = compare(of->having, of->column[i].type, row[i]);
	return strchr(of->having->comparison, order < 0 ? '<' : order > 0 ? '>' : '=');
}

static const char *type_name(uint32_t type)
{
	static const char *const names[] = {"?", FPISA_COLUMN_NAMES(FPISA_NAMED, )};

	return names[type < sizeof(names) / sizeof(names[0]) ? type : 0];
}

#define LISTED 512 /* bytes of a list of aggregates in a message */

static int refuse_aggregate(const struct answer *of)
{
	char list[LISTED] = "";

	for (uint32_t i = of->keys, used = 0; i < of->n && used < sizeof(list); i++)
		used += (uint32_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "",
					   of->column[i].name);
	return refuse(BAD_USAGE, "query run: --having %s: the answer has no such aggregate; take one of %s",
		      of->having->column, list);
}

/* Check that --having names an aggregate of the answer, and compares a number. */
static int check_having(const struct answer *of)
{
	const struct having *h = of->having;
	uint32_t i, type;

	if (!*h->comparison)
		return 0;
	i = column_of(of);
	if (i == of->n)
		return refuse_aggregate(of);
	type = of->column[i].type;
	if (type != FPISA_COLUMN_DATE && type != FPISA_COLUMN_TIMESTAMP)
		return 0;
	return refuse(BAD_USAGE,
		      "query run: --having %s: the column is a %s, but --having compares only numbers; name "
		      "another column",
		      h->column, type_name(type));
}

/* Check the names of columns, whose conditions may contain any text. */
static int check_names(const struct answer *of)
{
	for (uint32_t i = 0; i < of->n; i++)
		if (!fpisa_is_utf8(of->column[i].name))
			return refuse(-EILSEQ,
				      "query run: the conditions of --value are not UTF-8, which JSON requires; choose "
				      "--format csv");
	return 0;
}

static void print_field(const char *text)
{
	bool quotes = text && (!*text || strpbrk(text, ",\"\r\n"));

	if (!quotes) {
		fputs(text ? text : "", stdout);
		return;
	}
	putchar('"');
	for (; *text; text++) {
		if (*text == '"')
			putchar('"');
		putchar(*text);
	}
	putchar('"');
}

static void print_row(const char *const *row, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		print_field(row[i]);
		putchar(i + 1 < n ? ',' : '\n');
	}
}

static int value_json(const struct fpisa_query_column *c, const char *text, struct json_object **out)
{
	bool whole = c->type == FPISA_COLUMN_INT32 || c->type == FPISA_COLUMN_INT64;
	bool digits = c->type == FPISA_COLUMN_REAL || c->type == FPISA_COLUMN_DOUBLE || c->type == FPISA_COLUMN_DECIMAL;

	if (text && !fpisa_is_utf8(text))
		return refuse(-EILSEQ,
			      "query run: column %s: a text is not UTF-8, which JSON requires; choose --format csv",
			      c->name);
	*out = !text  ? NULL :
	       whole  ? json_object_new_int64(strtoll(text, NULL, 10)) :
	       digits ? json_decimal(text) :
			json_object_new_string(text);
	return 0;
}

static int print_json_row(const struct fpisa_query_column *c, const char *const *row, uint32_t n, bool first)
{
	struct json_object *a = json_object_new_array(), *value = NULL;
	int err = 0;

	for (uint32_t i = 0; !err && i < n; i++) {
		err = value_json(&c[i], row[i], &value);
		if (!err)
			json_object_array_add(a, value);
	}
	if (!err)
		printf("%s    %s", first ? "\n" : ",\n",
		       json_object_to_json_string_ext(a, JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(a);
	return err;
}

/* Print the name as a JSON string. The conditions in a name may contain any text. */
static void print_json_name(const char *name)
{
	struct json_object *o = json_object_new_string(name);

	printf("%s", json_object_to_json_string_ext(o, JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(o);
}

/* Print the head. The JSON object remains open for further members. */
static void print_head(const struct fpisa_query_column *c, uint32_t n, bool json)
{
	if (!json) {
		for (uint32_t i = 0; i < n; i++) {
			print_field(c[i].name);
			putchar(i + 1 < n ? ',' : '\n');
		}
		return;
	}
	printf("{\n  \"columns\": [");
	for (uint32_t i = 0; i < n; i++) {
		printf("%s{\"name\": ", i ? ", " : "");
		print_json_name(c[i].name);
		printf(", \"type\": \"%s\"}", type_name(c[i].type));
	}
	printf("],\n  \"rows\": [");
}

/* -- counts of rows --------------------------------------------------------------- */

static uint64_t values_pruned(const struct fpisa_query_counts *c)
{
	return c->values_sent - c->values_absorbed - c->values_received;
}

static void print_counts(struct fpisa_query *q, const struct fpisa_query_counts *c, bool joined, double seconds)
{
	int filtered;
	uint64_t keys = fpisa_query_keys(q, &filtered);
	const char *plan = fpisa_query_plan(q);

	fprintf(stderr, "rows: %llu in the table, sent %llu = pruned %llu + absorbed %llu + received %llu\n",
		(unsigned long long)c->rows, (unsigned long long)c->sent, (unsigned long long)c->pruned,
		(unsigned long long)c->absorbed, (unsigned long long)c->received);
	if (c->values_sent)
		fprintf(stderr, "values: sent %llu = pruned %llu + absorbed %llu + received %llu\n",
			(unsigned long long)c->values_sent, (unsigned long long)values_pruned(c),
			(unsigned long long)c->values_absorbed, (unsigned long long)c->values_received);
	if (joined)
		fprintf(stderr, "join keys: %llu%s\n", (unsigned long long)keys,
			filtered ? "" : "; not all were in the filter when rows arrived, so all rows passed");
	if (c->frames)
		fprintf(stderr, "frames: %llu, sent again %llu%s\n", (unsigned long long)c->frames,
			(unsigned long long)c->repeated, c->certified ? "; the first rows are certified" : "");
	if (plan)
		fprintf(stderr, "plan: %s\n", plan);
	if (c->restarts)
		fprintf(stderr, "restarted %u times: the aggregator had lost its state\n", c->restarts);
	fprintf(stderr, "%.3f s\n", seconds);
}

static int print_json_counts(const struct fpisa_query *q, const struct fpisa_query_counts *c, double seconds)
{
	struct json_object *o = json_object_new_object();
	int filtered;
	uint64_t keys = fpisa_query_keys(q, &filtered);

	json_add_number(o, "table", c->rows);
	json_add_number(o, "nulls", c->nulls);
	json_add_number(o, "sent", c->sent);
	json_add_number(o, "pruned", c->pruned);
	json_add_number(o, "absorbed", c->absorbed);
	json_add_number(o, "received", c->received);
	json_add_number(o, "values_sent", c->values_sent);
	json_add_number(o, "values_pruned", values_pruned(c));
	json_add_number(o, "values_absorbed", c->values_absorbed);
	json_add_number(o, "values_received", c->values_received);
	json_add_number(o, "keys", keys);
	json_object_object_add(o, "filtered", json_object_new_boolean(filtered));
	json_add_number(o, "frames", c->frames);
	json_add_number(o, "repeated", c->repeated);
	json_add_number(o, "restarts", c->restarts);
	json_object_object_add(o, "certified", json_object_new_boolean(c->certified));
	json_add_double(o, "seconds", seconds);
	printf("\n  ],\n  \"counts\": %s\n}\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_SPACED));
	json_object_put(o);
	return 0;
}

/* -- the verb -------------------------------------------------------------------- */

/* Show progress, unless rows go to the same terminal. */
static void show_progress(const struct fpisa_query *q, bool begun, uint64_t begun_ns)
{
	struct fpisa_query_counts counts;

	if ((begun && isatty(STDOUT_FILENO)) || !progress_due())
		return;
	fpisa_query_counts(q, &counts);
	progress_step("%s: %llu s, rows received: %llu", begun ? "printing rows" : "waiting for rows",
		      (unsigned long long)((fpisa_now() - begun_ns) / 1000000000), (unsigned long long)counts.received);
}

/* Print the rows that have arrived, until stdout would block. */
static int print_rows(struct fpisa_query *q, const struct answer *of, bool json, bool *first)
{
	const char *const *row;
	int rc = 0;

	while (!ferror(stdout) && (rc = fpisa_query_next(q, &row)) > 0) {
		if (!stays(of, row))
			continue;
		if (!json)
			print_row(row, of->n);
		else if (print_json_row(of->column, row, of->n, *first))
			return -EILSEQ;
		*first = false;
	}
	return rc < 0 ? refuse(rc, "query run: %s", fpisa_query_error()) : 0;
}

/* Wait for rows for a while. Return the state of fpisa_query_work(), or -errno after a message. */
static int look(struct fpisa_query *q, bool begun, uint64_t begun_ns)
{
	int state = fpisa_query_work(q, LOOK_MS);

	if (state < 0)
		return refuse(state, "query run: %s", fpisa_query_error());
	show_progress(q, begun, begun_ns);
	return state;
}

/* Wait until rows can be taken. Check --having when the columns are known, which is earlier. */
static int await_rows(struct fpisa_query *q, struct answer *of, uint64_t begun_ns)
{
	int state = 0, err = 0;

	while (!state && !err) {
		state = look(q, false, begun_ns);
		if (state < 0)
			return state;
		of->n = fpisa_query_columns(q, &of->column);
		err = of->n ? check_having(of) : 0;
	}
	return err;
}

/* Print the answer as text, after the first rows have arrived. */
static int print_text(struct fpisa_query *q, const struct answer *of, bool json, uint64_t begun_ns)
{
	bool first = true;
	int err, state;

	print_head(of->column, of->n, json);
	do {
		state = look(q, true, begun_ns);
		err = state > 0 ? print_rows(q, of, json, &first) : state;
	} while (!err && state != 2 && !ferror(stdout));
	return err;
}

static bool keeps(void *of, const char *const *row)
{
	return stays(of, row);
}

/* Write the answer as columns. */
static int write_columns(struct fpisa_query *q, struct answer *of, bool parquet)
{
	struct ArrowArrayStream rows;
	int err = fpisa_query_stream_some(q, keeps, of, &rows);

	if (!err)
		err = parquet ? parquet_write(&rows) : ipc_write(&rows);
	if (rows.release)
		rows.release(&rows);
	return err ? refuse(err, "query run: %s", fpisa_query_error()) : 0;
}

static int print_answer(struct fpisa_query *q, const struct asked *a)
{
	uint64_t begun = fpisa_now();
	struct answer of = {.having = &a->having, .keys = count_list(a->options.by)};
	struct fpisa_query_counts counts;
	int err = await_rows(q, &of, begun);

	progress_end();
	if (!err && a->format == JSON)
		err = check_names(&of);
	if (err)
		return err;
	err = a->format >= ARROW ? write_columns(q, &of, a->format == PARQUET) :
				   print_text(q, &of, a->format == JSON, begun);
	progress_end();
	if (err)
		return err;
	fpisa_query_counts(q, &counts);
	if (a->format == JSON)
		print_json_counts(q, &counts, (double)(fpisa_now() - begun) / 1e9);
	err = flush_stdout("query run: cannot write to stdout");
	if (!err && a->format != JSON)
		print_counts(q, &counts, a->options.join, (double)(fpisa_now() - begun) / 1e9);
	return err;
}

int verb_query_run(int argc, char **argv)
{
	struct asked a = {.options = {.size = sizeof(a.options), .pruning = FPISA_PRUNING_AUTO}};
	struct common c = COMMON_INIT;
	struct fpisa_query *q;
	int opt, err = 0;

	while (!err && (opt = next_option(argc, argv, options)) != -1)
		err = opt >= OPT_VERB ? take(&a, opt, optarg) : common_option(&c, opt);
	if (err)
		return err;
	if (argc - optind != 1)
		return refuse(BAD_USAGE, "query run requires one table");
	a.options.table = argv[optind];
	take_list(&a.options);
	if (c.json)
		a.format = JSON;
	err = check(&a);
	if (err)
		return err;
	err = fpisa_query_open(&q, &a.options);
	if (err)
		return refuse(err, "query run: %s", fpisa_query_error());
	err = print_answer(q, &a);
	fpisa_query_close(q);
	return err;
}
