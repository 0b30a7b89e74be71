// SPDX-License-Identifier: GPL-2.0-only
/* fpisa plan: shares of several aggregators or a tree of racks, and the times to expect */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/options.h"
#include "cli/print.h"
#include "fpisa/format.h"
#include "fpisa/job.h"
#include "fpisa/ranks.h"
#include "lib/base/shards.h"
#include "plan/shares.h"

#include "verbs.h"

#define OUTSIDE (14 + 20 + 8 + 24) /* bytes around a message: Ethernet, IPv4, UDP; preamble, FCS and gap */
#define MEBIBYTE 1048576

enum {
	OPT_WORKERS = OPT_VERB,
	OPT_AGGREGATORS,
	OPT_RATE,
	OPT_AGGREGATOR_RATE,
	OPT_COLOCATED,
	OPT_RACKS,
	OPT_ROOTS,
	OPT_UPLINK,
	OPT_BYTES
};

static const struct option options[] = {COMMON_OPTIONS,
					JSON_OPTION,
					{"workers", required_argument, NULL, OPT_WORKERS},
					{"aggregators", required_argument, NULL, OPT_AGGREGATORS},
					{"rate", required_argument, NULL, OPT_RATE},
					{"aggregator-rate", required_argument, NULL, OPT_AGGREGATOR_RATE},
					{"colocated", no_argument, NULL, OPT_COLOCATED},
					{"racks", required_argument, NULL, OPT_RACKS},
					{"roots", required_argument, NULL, OPT_ROOTS},
					{"uplink", required_argument, NULL, OPT_UPLINK},
					{"bytes", required_argument, NULL, OPT_BYTES},
					{0}};

struct plan {
	uint32_t workers, aggregators;	     /* dedicated aggregators: on hosts without a worker */
	double worker_bits, aggregator_bits; /* rates of each link, in bits a second */
	bool colocated;			     /* each worker's host is an aggregator too */
	uint32_t racks;			     /* 0: all links meet in one switch */
	uint32_t roots;			     /* of the racks' tree; 0: not given */
	double uplink_bits;		     /* rate of each rack's uplink */
	uint64_t bytes;
	bool json;
};

static int take_option(struct plan *p, struct common *common, int opt)
{
	uint64_t n = 0;
	int err;

	switch (opt) {
	case OPT_WORKERS:
		err = parse_number("--workers", optarg, 2, FPISA_MAX_RANKS, &n);
		p->workers = (uint32_t)n;
		return err;
	case OPT_AGGREGATORS:
		err = parse_number("--aggregators", optarg, 0, FPISA_MAX_SHARDS, &n);
		p->aggregators = (uint32_t)n;
		return err;
	case OPT_RATE:
		return parse_rate("--rate", optarg, &p->worker_bits);
	case OPT_AGGREGATOR_RATE:
		return parse_rate("--aggregator-rate", optarg, &p->aggregator_bits);
	case OPT_COLOCATED:
		p->colocated = true;
		return 0;
	case OPT_RACKS:
		err = parse_number("--racks", optarg, 2, FPISA_MAX_WORKERS, &n);
		p->racks = (uint32_t)n;
		return err;
	case OPT_ROOTS:
		err = parse_number("--roots", optarg, 1, FPISA_MAX_SHARDS, &n);
		p->roots = (uint32_t)n;
		return err;
	case OPT_UPLINK:
		return parse_rate("--uplink", optarg, &p->uplink_bits);
	case OPT_BYTES:
		return parse_number("--bytes", optarg, 1, 1ull << 42, &p->bytes);
	case OPT_JSON:
		p->json = true;
		return 0;
	}
	return common_option(common, opt);
}

static int check_racks(struct plan *p)
{
	if (!p->racks || !p->uplink_bits)
		return refuse(BAD_USAGE,
			      "plan: --racks or --uplink is missing; give both, such as --racks 2 --uplink 10G");
	if (p->aggregators || p->colocated)
		return refuse(BAD_USAGE,
			      "plan: racks have one leaf each, and --roots; leave --aggregators and --colocated out");
	p->roots = p->roots ?: 1;
	if (p->racks > p->workers)
		return refuse(BAD_USAGE, "plan: %u racks have no more than %u workers; give fewer --racks", p->racks,
			      p->workers);
	if (p->workers > p->racks * FPISA_MAX_WORKERS)
		return refuse(BAD_USAGE, "plan: %u workers in %u racks are not supported; a rack has up to %d workers",
			      p->workers, p->racks, FPISA_MAX_WORKERS);
	return 0;
}

static int check(struct plan *p)
{
	uint32_t all = p->aggregators + (p->colocated ? p->workers : 0);

	if (!p->workers || !p->worker_bits)
		return refuse(
			BAD_USAGE,
			"plan: --workers or --rate is missing; give both, such as --workers 8 --aggregators 4 --rate 10G");
	if (!p->aggregator_bits)
		p->aggregator_bits = p->worker_bits;
	if (p->racks || p->uplink_bits || p->roots)
		return check_racks(p);
	if (p->workers > FPISA_MAX_WORKERS)
		return refuse(BAD_USAGE,
			      "plan: %u workers need a tree; give --racks and --uplink, or up to %d --workers",
			      p->workers, FPISA_MAX_WORKERS);
	if (!all)
		return refuse(BAD_USAGE,
			      "plan: --aggregators is missing; give it, or give --colocated to aggregate on the "
			      "workers' hosts");
	if (all > FPISA_MAX_SHARDS)
		return refuse(BAD_USAGE, "plan: %u aggregators are not supported; a job has at most %d", all,
			      FPISA_MAX_SHARDS);
	return 0;
}

/* Return the bits on the wire for each bit of a vector, in frames of the default size. */
static double overhead(void)
{
	double payload = fpisa_default_elements(FPISA_FP32) * 4.0;

	return (payload + FPISA_HDR_LEN + OUTSIDE) / payload;
}

/* Print the times, and in JSON the object `o` with the times. */
static int print_times(const struct plan *p, const struct shares *s, struct json_object *o)
{
	const double bits = 8e3 * (double)p->bytes, ms = s->seconds_a_bit * bits * overhead(),
		     ring_ms = s->ring_seconds_a_bit * bits;

	if (!p->json) {
		printf("%llu bytes take %.3g ms at best; a ring of the workers takes %.3g ms, %.2f times that\n",
		       (unsigned long long)p->bytes, ms, ring_ms, ring_ms / ms);
		printf("bound by %s\n", shares_bound_text(s->bound));
		return 0;
	}
	json_add_number(o, "bytes", p->bytes);
	json_add_double(o, "ms", ms);
	json_add_double(o, "ring_ms", ring_ms);
	json_add_string(o, "bound", shares_bound_text(s->bound));
	return print_json(o, false);
}

static int print_racks(const struct plan *p)
{
	const struct racks r = {.workers = p->workers,
				.racks = p->racks,
				.roots = p->roots,
				.worker_bits = p->worker_bits,
				.aggregator_bits = p->aggregator_bits,
				.uplink_bits = p->uplink_bits};
	const struct shares s = racks_shares(&r);
	struct json_object *o = NULL;

	if (p->json) {
		o = json_object_new_object();
		json_add_number(o, "racks", p->racks);
		json_add_number(o, "rack_workers", racks_most(&r));
		json_add_number(o, "roots", p->roots);
	} else {
		printf("each of %u racks: a leaf for at most %u workers; %u more aggregator%s\n", p->racks,
		       racks_most(&r), p->roots, p->roots > 1 ? "s are the roots" : " is the root");
	}
	return print_times(p, &s, o);
}

/* Print the share of each dedicated aggregator and of each worker's host. A share is 0 if no such aggregator exists. */
static int print(const struct plan *p, const struct shares_host *dedicated, const struct shares_host *host,
		 const struct shares *s)
{
	struct json_object *o;

	if (!p->json) {
		if (dedicated->weight)
			printf("each of %u aggregators  %5.1f%% of a vector, weight %u\n", p->aggregators,
			       100 * dedicated->share, dedicated->weight);
		if (host->weight)
			printf("each worker's host     %5.1f%% of a vector, weight %u\n", 100 * host->share,
			       host->weight);
		return print_times(p, s, NULL);
	}
	o = json_object_new_object();
	json_add_double(o, "aggregator_share", dedicated->share);
	json_add_number(o, "aggregator_weight", dedicated->weight);
	json_add_double(o, "worker_share", host->share);
	json_add_number(o, "worker_weight", host->weight);
	return print_times(p, s, o);
}

int verb_plan(int argc, char **argv)
{
	struct plan p = {.bytes = MEBIBYTE};
	static const struct shares_host nobody;
	struct common common = COMMON_INIT;
	struct shares_host host[SHARES_MAX];
	struct shares s;
	uint32_t n;
	int opt, err;

	while ((opt = next_option(argc, argv, options)) >= 0)
		if (take_option(&p, &common, opt))
			return BAD_USAGE;
	err = no_operands("plan", argc, argv);
	if (!err)
		err = check(&p);
	if (err)
		return err;
	if (p.racks)
		return print_racks(&p);
	n = p.aggregators + (p.colocated ? p.workers : 0);
	for (uint32_t i = 0; i < n; i++) {
		host[i].colocated = i >= p.aggregators;
		host[i].bits = host[i].colocated ? p.worker_bits : p.aggregator_bits;
	}
	s = shares_of(p.workers, p.worker_bits, host, n);
	return print(&p, p.aggregators ? host : &nobody, p.colocated ? &host[n - 1] : &nobody, &s);
}
