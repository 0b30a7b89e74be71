// SPDX-License-Identifier: GPL-2.0-only
/*
 * The parameters of a job, in a table with one row for each. A row has the option of job add and of demo, the help
 * text, the key in a configuration file, the member in JSON, and the place in struct fpisa_job. Add a row here for a
 * new parameter. job.h has the contracts.
 */
#include <arpa/inet.h>
#include <json-c/json.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/names.h"
#include "cli/options.h"
#include "cli/print.h"
#include "lib/base/address.h"
#include "job.h"

enum kind { WORKERS, ADDRESS, FOREIGN_ADDRESS, RATE, NUMBER, NAME, GROUP, TOKEN, FLAG, FAULTS, VLAN, PARENT };

#define AT(field) .at = offsetof(struct fpisa_job, field), .size = sizeof(((struct fpisa_job *)0)->field)

static const struct parameter {
	const char *name, *metavar; /* name of the option, and of its argument; metavar NULL: no argument */
	const char *help;	    /* lines of the help text */
	enum kind kind;
	unsigned int in;	     /* JOB_IN_* */
	size_t at, size;	     /* place of a NUMBER or a NAME in struct fpisa_job */
	const struct name *names;    /* names of a NAME */
	uint32_t min, max, multiple; /* limits of a NUMBER, which is a power of two if `multiple` is 0 */
	__u8 flag;		     /* bit of a FLAG */
	const char *text;	     /* text of a FLAG in job show */
} parameters[] = {
	{"workers", "LIST",
	 "addresses ADDR[:PORT][@DEV],... in the order of their ranks, 1 to\n"
	 "64, or to 63 for a query, which also has a master. PORT is the\n"
	 "worker's UDP source port, default 18000; with a port an IPv6\n"
	 "address is in brackets. DEV is the interface towards it, default\n"
	 "that of the route",
	 WORKERS, JOB_IN_LIST | JOB_IN_QUERY},
	{"address", "ADDR",
	 "address of this machine that workers send to and results come\n"
	 "from; default the source address of the route to the first\n"
	 "worker; with workers of both families ADDR,ADDR, one of each family",
	 ADDRESS, JOB_IN_QUERY},
	{"foreign-address", NULL,
	 "--address need not be this machine's: a router, or entries in the\n"
	 "workers' neighbour tables, direct frames here",
	 FOREIGN_ADDRESS, JOB_IN_QUERY},
	{"rate", "RATE",
	 "rate of each worker's link, such as 10G; default that of this\n"
	 "machine's link. A warning says if this machine's link is slower\n"
	 "than the workers' links together",
	 RATE},
	{"elements", "N",
	 "values per frame, a multiple of 32 up to 832; default 256;\n"
	 "of fp64 up to 416, default 128; in mode exact up to 128",
	 NUMBER, JOB_IN_LIST | JOB_IN_DEMO, AT(elements), .min = FPISA_BLOCK, .max = FPISA_MAX_ELEMENTS,
	 .multiple = FPISA_BLOCK},
	{"window", "N", "frames that a worker has in flight, a power of two; default 64", NUMBER,
	 JOB_IN_LIST | JOB_IN_DEMO, AT(window), .min = 1, .max = FPISA_MAX_WINDOW},
	{"ports", "N",
	 "UDP ports to listen on, a power of two up to 16; default 1. Each\n"
	 "slot has one port, so a network card that distributes by\n"
	 "destination port gives a slot to one CPU; see fpisa doctor",
	 NUMBER, 0, AT(ports), .min = 1, .max = FPISA_MAX_PORTS},
	{"mode", "MODE", FPISA_MODE_NAMES(FPISA_NAME, ", ") "; default fpisa", NAME, JOB_IN_LIST | JOB_IN_DEMO,
	 AT(mode), .names = mode_names},
	{"rounding", "R", "down (the paper's) or nearest (default of fpisa64 and exact)", NAME,
	 JOB_IN_LIST | JOB_IN_DEMO, AT(rounding), .names = rounding_names},
	{"pipeline", "P", "fused (default) or staged; same bits", NAME, JOB_IN_LIST | JOB_IN_DEMO, AT(pipeline),
	 .names = pipeline_names},
	{"clz", "C", "bits (default) or lpm (the paper's trie); same bits", NAME, JOB_IN_LIST | JOB_IN_DEMO, AT(clz),
	 .names = clz_names},
	{"format", "F", FPISA_FORMAT_NAMES(FPISA_NAME, ", ") "; default fp32", NAME, JOB_IN_LIST | JOB_IN_DEMO,
	 AT(format), .names = format_names},
	{"fanout", "F",
	 "multicast or unicast; default multicast if all workers have the\n"
	 "same port number and different addresses, and none is behind a\n"
	 "router",
	 NAME, JOB_IN_LIST | JOB_IN_DEMO, AT(fanout), .names = fanout_names},
	{"group", "ADDR",
	 "multicast address of the results, not in 224.0.0.0/24 or ff02::/16; default\n"
	 "239.70.80.JOB, over IPv6 ff15::ff46:5000 plus JOB",
	 GROUP},
	{"vlan", "ID",
	 "VLAN tag of the workers' frames, 1 to 4094, on an interface that\n"
	 "receives them tagged; default that of the VLAN device of the routes\n"
	 "to the workers, if the interface below it is loaded",
	 VLAN, JOB_IN_QUERY, AT(vlan), .min = 1, .max = FPISA_MAX_VLAN, .multiple = 1},
	{"parent", "PARENT",
	 "ADDR[:PORT]/RANK[/JOB]: make the job a leaf of a tree. The sum of\n"
	 "its workers goes to the job of the same number at ADDR, which lists\n"
	 "this aggregator as worker RANK; an IPv6 address with a port is in\n"
	 "brackets. If ADDR is this machine, JOB is the number there",
	 PARENT, 0},
	{"leaves", NULL, "the workers are leaves of a tree, jobs with --parent", FLAG, 0, .flag = FPISA_JOB_LEAVES,
	 .text = "ranks are leaves"},
	{"token", "HEX", "secret that workers must know; keys are derived from it, and it is never sent", TOKEN,
	 JOB_IN_QUERY},
	{"big-endian", NULL, "swap payloads in and out, because they are big-endian", FLAG, JOB_IN_DEMO,
	 .flag = FPISA_JOB_BIG_ENDIAN, .text = "big-endian"},
	{"reciprocal", NULL, "multiply averages by 1/n, as the paper does, instead of dividing", FLAG, JOB_IN_DEMO,
	 .flag = FPISA_JOB_RECIPROCAL, .text = "averages by reciprocal"},
	{"histogram", NULL, "count what adds discard, by magnitude; see fpisa histogram", FLAG, JOB_IN_DEMO,
	 .flag = FPISA_JOB_HISTOGRAM, .text = "histogram"},
	{"no-statistics", NULL,
	 "do not count adds that round, overwrite, shift left or saturate;\n"
	 "fused sums of fp32 take less time",
	 FLAG, .flag = FPISA_JOB_UNCOUNTED, .text = "no statistics"},
	{"debug-faults", "F",
	 "faults that workers inject into their frames, to simulate a bad\n"
	 "network: drop=P,duplicate=P,reorder=P,delay=P,corrupt=P,seed=S, or\n"
	 "some of them, P from 0 to 0.9",
	 FAULTS},
};

#define PARAMETERS (sizeof(parameters) / sizeof(parameters[0]))
#define TEXT_LEN FAULTS_LEN /* size of the longest argument */

_Static_assert(PARAMETERS < JOB_OPTIONS_MAX, "there is room for the last one of a table of options");

/* Return the next parameter that is in all places of `in`. */
static const struct parameter *next(const struct parameter *p, unsigned int in)
{
	for (p = p ? p + 1 : parameters; p < parameters + PARAMETERS; p++)
		if ((p->in & in) == in)
			return p;
	return NULL;
}

/* -- options -------------------------------------------------------------- */

struct option *job_options(struct option *to, unsigned int in)
{
	for (const struct parameter *p = NULL; (p = next(p, in));)
		*to++ = (struct option){p->name, p->metavar ? required_argument : no_argument, NULL,
					OPT_JOB + (int)(p - parameters)};
	*to = (struct option){0};
	return to;
}

void job_print_help(unsigned int in)
{
	for (const struct parameter *p = NULL; (p = next(p, in));) {
		const char *line = p->help, *end;
		char head[32];

		snprintf(head, sizeof(head), "--%s%s%s", p->name, p->metavar ? " " : "", p->metavar ?: "");
		printf("  %-17s  ", head);
		for (; (end = strchr(line, '\n')); line = end + 1)
			printf("%.*s\n%21s", (int)(end - line), line, "");
		puts(line);
	}
}

static void set(const struct parameter *p, struct fpisa_job *j, __u32 n)
{
	void *at = (char *)j + p->at;

	if (p->size == sizeof(__u8))
		*(__u8 *)at = n;
	else if (p->size == sizeof(__u16))
		*(__u16 *)at = n;
	else
		*(__u32 *)at = n;
}

static int take_number(const struct parameter *p, const char *what, const char *arg, struct fpisa_job *j)
{
	uint64_t n;
	int err = parse_number(what, arg, p->min, p->max, &n);

	if (!err && p->multiple && n % p->multiple)
		err = refuse(BAD_USAGE, "%s: %s is not a multiple of %u", what, arg, p->multiple);
	if (!err && !p->multiple && n & (n - 1))
		err = refuse(BAD_USAGE, "%s: %s is not a power of two", what, arg);
	if (!err)
		set(p, j, n);
	return err;
}

static int take_name(const struct parameter *p, const char *what, const char *arg, struct fpisa_job *j)
{
	int id, err = parse_name(what, arg, p->names, &id);

	if (!err)
		set(p, j, id);
	return err;
}

/* Parse ADDR or, for ranks of both families, ADDR,ADDR. */
static int take_addresses(const char *what, const char *arg, struct fpisa_job *j)
{
	struct fpisa_address first, other;
	int err = parse_machines(what, arg, &first, &other);

	if (err)
		return err;
	j->address = fpisa_is_ipv6(&other) ? other : first;
	j->ipv4 = fpisa_is_ipv6(&other) ? first.w[3] : fpisa_is_ipv4(&other) ? other.w[3] : 0;
	return 0;
}

static int take_group(const char *what, const char *arg, struct fpisa_address *group)
{
	int err = parse_address(what, arg, group);

	if (!err && !fpisa_is_multicast(group))
		return refuse(BAD_USAGE, "%s: %s is not a multicast address", what, arg);
	/*
	 * Refuse 224.0.0.0/24 and ff02::/16, which are reserved for protocols of the local link. For example,
	 * 224.0.0.1 addresses every host, and switches forward its frames to all ports.
	 */
	if (!err && fpisa_is_ipv4(group) && ntohl(group->w[3]) <= INADDR_MAX_LOCAL_GROUP)
		return refuse(BAD_USAGE, "%s: %s is in 224.0.0.0/24, which is reserved; try 239.x.x.x", what, arg);
	if (!err && fpisa_is_ipv6(group) && group->b[1] == 2)
		return refuse(BAD_USAGE, "%s: %s is in ff02::/16, which is reserved; try ff15::x", what, arg);
	if (!err && fpisa_is_ipv6(group) && (group->b[1] & 15) < 2)
		return refuse(BAD_USAGE, "%s: %s does not leave this machine; try ff15::x", what, arg);
	return err;
}

static int take_token(const char *what, const char *arg, __u64 *token)
{
	uint64_t n;
	int err = parse_hex(what, arg, &n);

	*token = err ? 0 : n;
	return err ?:
		       !n ?
		       refuse(BAD_USAGE, "%s: 0 means no token; leave this option out, or give another token", what) :
		       0;
}

/* Parse RANK[/JOB], which is cut. */
static int take_parent_rank(char *arg, struct fpisa_job *j)
{
	char *job = strchr(arg, '/');
	uint64_t rank = 0, number = FPISA_MAX_JOBS;
	int err;

	if (job)
		*job++ = 0;
	err = parse_number("--parent: rank", arg, 0, FPISA_MAX_WORKERS - 1, &rank);
	if (!err && job)
		err = parse_number("--parent: job", job, 0, FPISA_MAX_JOBS - 1, &number);
	j->parent_rank = (__u32)rank;
	j->parent_job = (__u32)number;
	return err;
}

/* Parse ADDR[:PORT]/RANK[/JOB], which is cut. */
static int take_parent(const char *what, char *arg, struct fpisa_job *j)
{
	char *rank = strchr(arg, '/'), *port, *host;
	uint64_t number = FPISA_PORT;
	int err;

	if (!rank)
		return refuse(BAD_USAGE, "%s: '%s' does not end in the leaf's rank at the parent: ADDR[:PORT]/RANK",
			      what, arg);
	*rank++ = 0;
	host = fpisa_cut_endpoint(arg, &port);
	if (!host)
		return refuse(BAD_USAGE, "%s: '%s' is not an address with a port; write [2001:db8::1]:18000/RANK", what,
			      arg);
	err = parse_machine(what, host, &j->parent.addr) ?: take_parent_rank(rank, j);
	if (!err && port)
		err = parse_number("--parent: port", port, 1, 65535, &number);
	j->parent.port = htons(number);
	j->flags |= FPISA_JOB_LEAF;
	return err;
}

int job_option(struct job_spec *s, int opt, char *arg)
{
	const struct parameter *p = &parameters[opt - OPT_JOB];
	struct fpisa_job *j = &s->job;
	char what[32];

	snprintf(what, sizeof(what), "--%s", p->name);
	switch (p->kind) {
	case WORKERS:
		s->workers = arg;
		return 0;
	case ADDRESS:
		return take_addresses(what, arg, j);
	case FOREIGN_ADDRESS:
		s->foreign_address = true;
		return 0;
	case RATE:
		return parse_rate(what, arg, &s->worker_bits);
	case NUMBER:
	case VLAN:
		return take_number(p, what, arg, j);
	case NAME:
		return take_name(p, what, arg, j);
	case GROUP:
		return take_group(what, arg, &j->group);
	case TOKEN:
		return take_token(what, arg, &j->token);
	case FLAG:
		j->flags |= p->flag;
		return 0;
	case FAULTS:
		return job_parse_faults(arg, &j->faults);
	case PARENT:
		return take_parent(what, arg, j);
	}
	return BAD_USAGE;
}

/* -- an existing job ------------------------------------------------------------- */

/* Read a parameter. In a job that the CLI did not create, `ports` may be 0, which means the smallest value. */
static __u32 get(const struct parameter *p, const struct fpisa_job *j)
{
	const void *at = (const char *)j + p->at;
	__u32 n = p->size == sizeof(__u8)  ? *(const __u8 *)at :
		  p->size == sizeof(__u16) ? *(const __u16 *)at :
					     *(const __u32 *)at;

	return n ?: p->min;
}

void job_addresses_text(const struct fpisa_job *j, char text[ADDRESSES_LEN])
{
	char a[ADDRESS_LEN], b[ADDRESS_LEN];

	if (j->ipv4)
		snprintf(text, ADDRESSES_LEN, "%s,%s", address_text(j->address, a),
			 address_text(fpisa_ipv4(j->ipv4), b));
	else
		address_text(j->address, text);
}

void job_parent_text(const struct fpisa_job *j, char text[PARENT_LEN])
{
	char a[ENDPOINT_LEN];

	*text = 0;
	if (!(j->flags & FPISA_JOB_LEAF))
		return;
	snprintf(text, PARENT_LEN, "%s/%u", endpoint_text(j->parent.addr, j->parent.port, a), j->parent_rank);
	if (j->parent.given)
		snprintf(text + strlen(text), PARENT_LEN - strlen(text), "/%u", j->parent_job);
}

/* Return the argument of the option for the parameter's value, or "". */
static const char *text_of(const struct parameter *p, const struct fpisa_job *j, char text[TEXT_LEN])
{
	*text = 0;
	switch (p->kind) {
	case WORKERS:
		snprintf(text, TEXT_LEN, "%u", j->workers);
		break;
	case NUMBER:
		snprintf(text, TEXT_LEN, "%u", get(p, j));
		break;
	case NAME:
		return name_of(p->names, (int)get(p, j));
	case ADDRESS:
		job_addresses_text(j, text);
		break;
	case GROUP:
		return fpisa_is_address(&j->group) ? address_text(j->group, text) : "";
	case TOKEN:
		if (j->token)
			snprintf(text, TEXT_LEN, "%016llx", (unsigned long long)j->token);
		break;
	case FAULTS:
		job_faults_text(&j->faults, text);
		break;
	case VLAN:
		if (j->vlan)
			snprintf(text, TEXT_LEN, "%u", j->vlan);
		break;
	case PARENT:
		job_parent_text(j, text);
		break;
	case FOREIGN_ADDRESS:
	case RATE:
	case FLAG:
		break;
	}
	return text;
}

static struct json_object *json_of(const struct parameter *p, const struct fpisa_job *j)
{
	char text[TEXT_LEN];
	const char *said;

	switch (p->kind) {
	case WORKERS:
		return json_object_new_uint64(j->workers);
	case NUMBER:
		return json_object_new_uint64(get(p, j));
	case VLAN:
		return j->vlan ? json_object_new_uint64(j->vlan) : NULL;
	case FLAG:
		return json_object_new_boolean(j->flags & p->flag);
	case FAULTS:
		return job_faults_json(&j->faults);
	case TOKEN:
		snprintf(text, sizeof(text), "%016llx", (unsigned long long)j->token);
		return json_object_new_string(text);
	default:
		said = text_of(p, j, text);
		return *said ? json_object_new_string(said) : NULL;
	}
}

void job_parameters_json(struct json_object *o, const struct fpisa_job *j, unsigned int in)
{
	for (const struct parameter *p = NULL; (p = next(p, in));) {
		char key[32];

		/* this value is in the routes of the kernel and not in the job */
		if (p->kind == FOREIGN_ADDRESS || p->kind == RATE)
			continue;
		snprintf(key, sizeof(key), "%s", p->name);
		for (char *c = key; (c = strchr(c, '-'));)
			*c = '_';
		json_object_object_add(o, key, json_of(p, j));
	}
}

/* Return the width of a column, which must fit the name and any value. */
static int width_of(const struct parameter *p)
{
	size_t width = strlen(p->name);

	for (const struct name *n = p->names; n && n->name; n++)
		width = strlen(n->name) > width ? strlen(n->name) : width;
	return p->names ? -(int)width : (int)width;
}

void job_print_columns(const struct fpisa_job *j)
{
	char text[TEXT_LEN];

	for (const struct parameter *p = NULL; (p = next(p, JOB_IN_LIST));)
		printf(" %*s", width_of(p), j ? text_of(p, j, text) : p->name);
}

void job_options_text(const struct fpisa_job *j, char *out, size_t size)
{
	char text[TEXT_LEN];
	size_t n = 0;

	*out = 0;
	for (const struct parameter *p = NULL; (p = next(p, 0)) && n < size;) {
		const char *arg = p->kind == WORKERS ? "" : text_of(p, j, text);

		if (*arg || (p->kind == FLAG && j->flags & p->flag))
			n += snprintf(out + n, size - n, " --%s%s%s", p->name, *arg ? " " : "", arg);
	}
}

void job_arithmetic_text(const struct fpisa_job *j, char text[ARITHMETIC_LEN])
{
	int n = snprintf(text, ARITHMETIC_LEN, "%s, rounding %s, format %s", name_of(mode_names, j->mode),
			 name_of(rounding_names, j->rounding), name_of(format_names, j->format));

	if (j->guard)
		n += snprintf(text + n, ARITHMETIC_LEN - n, ", %u guard bits", j->guard);
	for (const struct parameter *p = NULL; (p = next(p, 0));)
		if (p->kind == FLAG && j->flags & p->flag)
			n += snprintf(text + n, ARITHMETIC_LEN - n, ", %s", p->text);
}
