// SPDX-License-Identifier: GPL-2.0-only
/* The options that say what a job is to be: of job add, and keys of a configuration file; job.h has the contracts. */
#include <arpa/inet.h>
#include <stddef.h>

#include "cli/names.h"
#include "cli/options.h"
#include "job.h"

enum {
	OPT_WORKERS = OPT_VERB,
	OPT_ADDRESS,
	OPT_FOREIGN_ADDRESS,
	OPT_ELEMENTS,
	OPT_WINDOW,
	OPT_PORTS,
	OPT_MODE,
	OPT_ROUNDING,
	OPT_PIPELINE,
	OPT_CLZ,
	OPT_FORMAT,
	OPT_FANOUT,
	OPT_GROUP,
	OPT_TOKEN,
	OPT_BIG_ENDIAN,
	OPT_RECIPROCAL,
	OPT_HISTOGRAM,
	OPT_NO_STATISTICS,
	OPT_DEBUG_FAULTS,
};

const struct option job_add_options[] = {
	{ "workers", required_argument, NULL, OPT_WORKERS },
	{ "address", required_argument, NULL, OPT_ADDRESS },
	{ "foreign-address", no_argument, NULL, OPT_FOREIGN_ADDRESS },
	{ "elements", required_argument, NULL, OPT_ELEMENTS },
	{ "window", required_argument, NULL, OPT_WINDOW },
	{ "ports", required_argument, NULL, OPT_PORTS },
	{ "mode", required_argument, NULL, OPT_MODE },
	{ "rounding", required_argument, NULL, OPT_ROUNDING },
	{ "pipeline", required_argument, NULL, OPT_PIPELINE },
	{ "clz", required_argument, NULL, OPT_CLZ },
	{ "format", required_argument, NULL, OPT_FORMAT },
	{ "fanout", required_argument, NULL, OPT_FANOUT },
	{ "group", required_argument, NULL, OPT_GROUP },
	{ "token", required_argument, NULL, OPT_TOKEN },
	{ "big-endian", no_argument, NULL, OPT_BIG_ENDIAN },
	{ "reciprocal", no_argument, NULL, OPT_RECIPROCAL },
	{ "histogram", no_argument, NULL, OPT_HISTOGRAM },
	{ "no-statistics", no_argument, NULL, OPT_NO_STATISTICS },
	{ "debug-faults", required_argument, NULL, OPT_DEBUG_FAULTS },
	COMMON_OPTIONS,
	JSON_OPTION,
	{ 0 },
};

int job_spec_option(struct job_spec *s, int opt, struct common *c)
{
	struct fpisa_job *j = &s->job;
	uint64_t number = 0, token;
	int id = 0, err;

	switch (opt) {
	case OPT_WORKERS:
		s->workers = optarg;
		return 0;
	case OPT_ADDRESS:
		return parse_machine("--address", optarg, &j->address);
	case OPT_FOREIGN_ADDRESS:
		s->foreign_address = true;
		return 0;
	case OPT_ELEMENTS:
		err = parse_number("--elements", optarg, FPISA_BLOCK, FPISA_MAX_ELEMENTS, &number);
		if (!err && number % FPISA_BLOCK)
			err = refuse(BAD_USAGE, "--elements: %s is not a multiple of %d", optarg,
				     FPISA_BLOCK);
		j->elements = number;
		return err;
	case OPT_WINDOW:
		err = parse_number("--window", optarg, 1, FPISA_MAX_SLOTS / 2, &number);
		if (!err && number & (number - 1))
			err = refuse(BAD_USAGE, "--window: %s is not a power of two", optarg);
		j->window = number;
		return err;
	case OPT_PORTS:
		err = parse_number("--ports", optarg, 1, FPISA_MAX_PORTS, &number);
		if (!err && number & (number - 1))
			err = refuse(BAD_USAGE, "--ports: %s is not a power of two", optarg);
		j->ports = number;
		return err;
	case OPT_MODE:
		err = parse_name("--mode", optarg, mode_names, &id);
		j->mode = id;
		return err;
	case OPT_ROUNDING:
		err = parse_name("--rounding", optarg, rounding_names, &id);
		j->rounding = id;
		return err;
	case OPT_PIPELINE:
		err = parse_name("--pipeline", optarg, pipeline_names, &id);
		j->pipeline = id;
		return err;
	case OPT_CLZ:
		err = parse_name("--clz", optarg, clz_names, &id);
		j->clz = id;
		return err;
	case OPT_FORMAT:
		err = parse_name("--format", optarg, format_names, &id);
		j->format = id;
		return err;
	case OPT_FANOUT:
		err = parse_name("--fanout", optarg, fanout_names, &id);
		j->fanout = id;
		return err;
	case OPT_GROUP:
		err = parse_address("--group", optarg, &j->group);
		if (!err && !IN_MULTICAST(ntohl(j->group)))
			err = refuse(BAD_USAGE, "--group: %s is not a multicast address", optarg);
		/* Of the link's own protocols: 224.0.0.1 is every host, and no switch or router confines them. */
		if (!err && ntohl(j->group) <= INADDR_MAX_LOCAL_GROUP)
			err = refuse(BAD_USAGE, "--group: %s is reserved, as all of 224.0.0.0/24; try 239.x.x.x",
				     optarg);
		return err;
	case OPT_TOKEN:
		err = parse_hex("--token", optarg, &token);
		j->token = err ? 0 : token;
		return err ?: !token ? refuse(BAD_USAGE, "--token: 0 means none; leave it out, or take another") : 0;
	case OPT_BIG_ENDIAN:
		j->flags |= FPISA_JOB_BIG_ENDIAN;
		return 0;
	case OPT_RECIPROCAL:
		j->flags |= FPISA_JOB_RECIPROCAL;
		return 0;
	case OPT_HISTOGRAM:
		j->flags |= FPISA_JOB_HISTOGRAM;
		return 0;
	case OPT_NO_STATISTICS:
		j->flags |= FPISA_JOB_UNCOUNTED;
		return 0;
	case OPT_DEBUG_FAULTS:
		return job_parse_faults(optarg, &j->faults);
	}
	return common_option(c, opt);
}
