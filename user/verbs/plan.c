// SPDX-License-Identifier: GPL-2.0-only
/* fpisa plan: shares of several aggregators, and what to expect of them. */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/options.h"
#include "cli/print.h"
#include "fpisa/format.h"
#include "fpisa/job.h"
#include "fpisa/wire.h"
#include "lib/layout.h"
#include "shares.h"
#include "verbs.h"

#define OUTSIDE (14 + 20 + 8 + 24) /* Ethernet, IPv4, UDP; preamble, FCS and gap */
#define MEBIBYTE 1048576

enum { OPT_WORKERS = OPT_VERB, OPT_AGGREGATORS, OPT_RATE, OPT_AGGREGATOR_RATE, OPT_COLOCATED, OPT_BYTES };

static const struct option options[] = {COMMON_OPTIONS,
					JSON_OPTION,
					{"workers", required_argument, NULL, OPT_WORKERS},
					{"aggregators", required_argument, NULL, OPT_AGGREGATORS},
					{"rate", required_argument, NULL, OPT_RATE},
					{"aggregator-rate", required_argument, NULL, OPT_AGGREGATOR_RATE},
					{"colocated", no_argument, NULL, OPT_COLOCATED},
					{"bytes", required_argument, NULL, OPT_BYTES},
					{0}};

/* "10G", "2.5G", "100M": bits a second. */
static int parse_rate(const char *what, const char *text, double *bits)
{
	char *end;
	double n = strtod(text, &end), unit = *end == 'G' ? 1e9 : *end == 'M' ? 1e6 : 0;

	if (!unit || end[1] || !(n > 0 && n * unit <= 1e13) || text[0] == '+' || text[0] == ' ')
		return refuse(BAD_USAGE, "%s: '%s' is not a link's rate, such as 10G or 100M", what, text);
	*bits = n * unit;
	return 0;
}

struct plan {
	struct cluster c;
	uint64_t bytes;
	bool json;
};

static int take_option(struct plan *p, struct common *common, int opt)
{
	uint64_t n = 0;
	int err;

	switch (opt) {
	case OPT_WORKERS:
		err = parse_number("--workers", optarg, 2, FPISA_MAX_WORKERS, &n);
		p->c.workers = (uint32_t)n;
		return err;
	case OPT_AGGREGATORS:
		err = parse_number("--aggregators", optarg, 0, FPISA_MAX_SHARDS, &n);
		p->c.aggregators = (uint32_t)n;
		return err;
	case OPT_RATE:
		return parse_rate("--rate", optarg, &p->c.worker_bits);
	case OPT_AGGREGATOR_RATE:
		return parse_rate("--aggregator-rate", optarg, &p->c.aggregator_bits);
	case OPT_COLOCATED:
		p->c.colocated = true;
		return 0;
	case OPT_BYTES:
		return parse_number("--bytes", optarg, 1, 1ull << 42, &p->bytes);
	case OPT_JSON:
		p->json = true;
		return 0;
	}
	return common_option(common, opt);
}

static int check(struct plan *p)
{
	uint32_t all = p->c.aggregators + (p->c.colocated ? p->c.workers : 0);

	if (!p->c.workers || !p->c.worker_bits)
		return refuse(BAD_USAGE,
			      "plan: give --workers and --rate, such as --workers 8 --aggregators 4 --rate 10G");
	if (!all)
		return refuse(BAD_USAGE,
			      "plan: nobody adds; give --aggregators, or --colocated for the workers' own hosts");
	if (all > FPISA_MAX_SHARDS)
		return refuse(BAD_USAGE, "plan: %u aggregators; a job has at most %d", all, FPISA_MAX_SHARDS);
	if (!p->c.aggregator_bits)
		p->c.aggregator_bits = p->c.worker_bits;
	return 0;
}

static const char *bound_text(enum bound b)
{
	switch (b) {
	case BOUND_WORKERS:
		return "each worker's own link; more aggregators do not help";
	case BOUND_AGGREGATORS:
		return "the aggregators' links, by which the vectors of all workers come in; add aggregators, a faster link, "
		       "or --colocated";
	case BOUND_HOSTS:
		return "the links of all hosts, which are full";
	}
	return "";
}

/* Bits on the wire for a bit of a vector, in frames of the default size. */
static double overhead(void)
{
	double payload = fpisa_default_elements(FPISA_FP32) * 4.0;

	return (payload + FPISA_HDR_LEN + OUTSIDE) / payload;
}

static int print(const struct plan *p, const struct shares *s, double ms, double ring_ms)
{
	struct json_object *o;

	if (!p->json) {
		if (s->aggregator > 0)
			printf("each of %u aggregators  %5.1f%% of a vector, weight %u\n", p->c.aggregators,
			       100 * s->aggregator, s->aggregator_weight);
		if (s->worker > 1e-9)
			printf("each worker's host     %5.1f%% of a vector, weight %u\n", 100 * s->worker,
			       s->worker_weight);
		printf("%llu bytes take %.3g ms at best, a ring of the workers %.3g ms: %.2f times as long\n",
		       (unsigned long long)p->bytes, ms, ring_ms, ring_ms / ms);
		printf("bound by %s\n", bound_text(s->bound));
		return 0;
	}
	o = json_object_new_object();
	json_add_double(o, "aggregator_share", s->aggregator);
	json_add_number(o, "aggregator_weight", s->aggregator_weight);
	json_add_double(o, "worker_share", s->worker);
	json_add_number(o, "worker_weight", s->worker_weight);
	json_add_number(o, "bytes", p->bytes);
	json_add_double(o, "ms", ms);
	json_add_double(o, "ring_ms", ring_ms);
	json_add_string(o, "bound", bound_text(s->bound));
	return print_json(o, false);
}

int verb_plan(int argc, char **argv)
{
	struct plan p = {.bytes = MEBIBYTE};
	struct common common = COMMON_INIT;
	struct shares s;
	int opt, err;

	while ((opt = next_option(argc, argv, options)) >= 0)
		if (take_option(&p, &common, opt))
			return BAD_USAGE;
	err = no_operands("plan", argc, argv);
	if (!err)
		err = check(&p);
	if (err)
		return err;
	s = shares_of(&p.c);
	return print(&p, &s, s.seconds_a_bit * 8e3 * (double)p.bytes * overhead(),
		     s.ring_seconds_a_bit * 8e3 * (double)p.bytes);
}
