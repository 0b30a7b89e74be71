// SPDX-License-Identifier: GPL-2.0-only
/* Parse the demo's options, and check their combinations. */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/names.h"
#include "cli/options.h"
#include "cli/report.h"
#include "demo.h"
#include "fpisa/op.h"
#include "job/job.h"

static const char input_help[] =
	"  --workers N        number of workers, 1 to 64; default 4. Each is a process in its own\n"
	"                     network namespace\n"
	"  --colocated        no machine except the workers: up to 16 hosts at one switch, each a worker\n"
	"                     and an aggregator; prints what each host's link carries\n"
	"  --file F           values to sum, raw FP32 or .npy, one row per worker, converted to the\n"
	"                     format; default the gradients of epoch 20 in data/gradients\n"
	"  --rows R           rows of the file; default 8, or those of a .npy of two dimensions\n"
	"  --vector N         sum N random values per worker instead of a file; mxint8 pads with\n"
	"                     zeros to a multiple of 32\n";

#define OPERATIONS FPISA_OP_NAMES(FPISA_NAME, ", ")

const char demo_help[] =
	"  --op OP            " OPERATIONS "; default sum; doc/numbers.md says\n"
	"                     which formats and modes support it\n"
	"  --factor X         factor of scale, finite and not zero; rounded to float except for fp64\n"
	"  --xdp native|skb   mode of the XDP programs; default native, with --colocated skb\n"
	"  --cpus LIST        CPUs of the aggregator that sum; see fpisa help load\n"
	"  --transport T      transport of the workers: udp (default), or xsk, whose workers run as root\n"
	"  --drop P           share of frames that each worker loses in each direction; 0 to 0.9;\n"
	"                     --loss is the same\n"
	"  --duplicate P, --reorder P, --delay P, --corrupt P\n"
	"                     shares of frames that arrive twice, after others of the next\n"
	"                     millisecond, 1 to 256 ms late, or with 1 to 8 bits flipped\n"
	"  --seed S           seed of random values and faults; default 1\n"
	"  --timeout S        time limit of the join, and of the sum; default 60 seconds\n"
	"  --json             print one object, with these members among others:\n"
	"  seconds            time from the last join until the last worker is done\n"
	"  goodput_gbps       bits of one worker's values / seconds\n"
	"  mismatches         elements that differ from the oracle, which replays each result's order\n"
	"                     of arrival; null above 16 workers, which report no order, except in\n"
	"                     mode exact, whose sums do not depend on it\n"
	"  max_ulp_error      largest error against the exact result, in ulps of the correctly rounded\n"
	"                     one, as in fpisa analyze; null if only one of a result and its exact\n"
	"                     value is finite, and for min, max, int32 and mxint8\n"
	"For int32, values are scaled by the largest power of two at which their sum cannot overflow. A histogram of "
	"sum, avg\n"
	"or scale must count as many adds as the oracle rounds and overwrites.\n"
	"The demo needs root. It removes everything that it created, whatever signal ends it.\n";

void demo_options_help(void)
{
	fputs(input_help, stdout);
	job_print_help(JOB_IN_DEMO);
}

enum {
	OPT_WORKERS = OPT_VERB,
	OPT_FILE,
	OPT_ROWS,
	OPT_VECTOR,
	OPT_XDP,
	OPT_CPUS,
	OPT_TRANSPORT,
	OPT_DROP,
	OPT_DUPLICATE,
	OPT_REORDER,
	OPT_DELAY,
	OPT_CORRUPT,
	OPT_SEED,
	OPT_TIMEOUT,
	OPT_OP,
	OPT_FACTOR,
	OPT_COLOCATED,
};

static const struct option own_options[] = {
	{"workers", required_argument, NULL, OPT_WORKERS},
	{"file", required_argument, NULL, OPT_FILE},
	{"colocated", no_argument, NULL, OPT_COLOCATED},
	{"rows", required_argument, NULL, OPT_ROWS},
	{"vector", required_argument, NULL, OPT_VECTOR},
	{"xdp", required_argument, NULL, OPT_XDP},
	{"cpus", required_argument, NULL, OPT_CPUS},
	{"transport", required_argument, NULL, OPT_TRANSPORT},
	{"drop", required_argument, NULL, OPT_DROP},
	{"loss", required_argument, NULL, OPT_DROP},
	{"duplicate", required_argument, NULL, OPT_DUPLICATE},
	{"reorder", required_argument, NULL, OPT_REORDER},
	{"delay", required_argument, NULL, OPT_DELAY},
	{"corrupt", required_argument, NULL, OPT_CORRUPT},
	{"seed", required_argument, NULL, OPT_SEED},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"op", required_argument, NULL, OPT_OP},
	{"factor", required_argument, NULL, OPT_FACTOR},
	{"verbose", no_argument, NULL, OPT_VERBOSE},
	JSON_OPTION,
	{0},
};

static int parse_u32(const char *what, uint64_t min, uint64_t max, uint32_t *out)
{
	uint64_t number;
	int err = parse_number(what, optarg, min, max, &number);

	*out = number;
	return err;
}

static int parse_factor(const char *s, double *out)
{
	char *end;

	*out = strtod(s, &end);
	if (end == s || *end || !isfinite(*out) || *out == 0)
		return refuse(BAD_USAGE, "--factor: '%s' is not a finite number other than zero", s);
	return 0;
}

static int parse_option(struct demo_options *o, struct common *c, int opt)
{
	int id = 0, err;

	switch (opt) {
	case OPT_WORKERS:
		return parse_u32("--workers", 1, FPISA_MAX_WORKERS, &o->workers);
	case OPT_FILE:
		if (!*optarg)
			return refuse(BAD_USAGE, "--file: the name is empty; give a file");
		o->file = optarg;
		return 0;
	case OPT_ROWS:
		return parse_u32("--rows", 1, 1 << 20, &o->rows);
	case OPT_VECTOR:
		return parse_number("--vector", optarg, 1, 1ull << 32, &o->vector);
	case OPT_XDP:
		err = parse_name("--xdp", optarg, attach_mode_names, &id);
		o->xdp = id;
		return err;
	case OPT_CPUS:
		return parse_cpus("--cpus", optarg, o->steering.cpu, FPISA_STEER_CPUS, &o->steering.cpus);
	case OPT_TRANSPORT:
		return parse_name("--transport", optarg, transport_names, &o->transport);
	case OPT_DROP:
		return parse_share("--drop", optarg, &o->drop);
	case OPT_DUPLICATE:
		return parse_share("--duplicate", optarg, &o->duplicate);
	case OPT_REORDER:
		return parse_share("--reorder", optarg, &o->reorder);
	case OPT_DELAY:
		return parse_share("--delay", optarg, &o->delay);
	case OPT_CORRUPT:
		return parse_share("--corrupt", optarg, &o->corrupt);
	case OPT_SEED:
		return parse_number("--seed", optarg, 0, ~0ull, &o->seed);
	case OPT_TIMEOUT:
		return parse_u32("--timeout", 1, 4000000, &o->timeout_s);
	case OPT_OP:
		return parse_name("--op", optarg, op_names, &o->op);
	case OPT_FACTOR:
		return parse_factor(optarg, &o->factor);
	case OPT_COLOCATED:
		o->colocated = true;
		return 0;
	}
	return common_option(c, opt);
}

/* Check that the operation fits its options, and that the format and the mode support the operation. */
static int check_op(struct demo_options *o, const struct fpisa_job *j)
{
	struct fpisa_format f = fpisa_format_of(j->format);
	const char *op = name_of(op_names, o->op);
	bool given = o->factor != 0;
	uint64_t factor;

	if (o->op == FPISA_OP_SCALE && !given)
		return refuse(BAD_USAGE, "--op scale: --factor is missing; give the factor");
	if (o->op != FPISA_OP_SCALE && given)
		return refuse(BAD_USAGE, "--factor requires --op scale, not %s", op);
	if (j->flags & FPISA_JOB_RECIPROCAL && o->op != FPISA_OP_AVG)
		return refuse(BAD_USAGE, "--reciprocal requires --op avg, not %s", op);
	if (j->flags & FPISA_JOB_HISTOGRAM && (o->op == FPISA_OP_MIN || o->op == FPISA_OP_MAX || o->op == FPISA_OP_NORM))
		return refuse(BAD_USAGE, "--histogram requires --op sum, avg or scale, not %s", op);
	if (f.bytes < 8)
		o->factor = (float)o->factor;
	memcpy(&factor, &o->factor, sizeof(factor));
	if (given && !fpisa_factor_valid(factor, f))
		return refuse(BAD_USAGE,
			      "--factor is beyond the range of a float, the type of factors for %s; give a smaller "
			      "factor",
			      name_of(format_names, j->format));
	if (!fpisa_op_offered(f, j->mode, o->op))
		return refuse(-EINVAL,
			      "--op: %s of %s in mode %s is not supported; choose another --op or --mode "
			      "(doc/numbers.md)",
			      op, name_of(format_names, j->format), name_of(mode_names, j->mode));
	return 0;
}

/*
 * Check the options of --colocated. A host sends to its own rank through lo, which requires generic mode and excludes
 * multicast.
 */
static int check_colocated(struct demo_options *o, struct fpisa_job *j)
{
	if (o->workers < 2 || o->workers > FPISA_MAX_SHARDS)
		return refuse(BAD_USAGE, "--colocated requires 2 to %d --workers, whose hosts are the aggregators",
			      FPISA_MAX_SHARDS);
	if (o->xdp == DATAPATH_NATIVE || o->steering.cpus)
		return refuse(BAD_USAGE,
			      "--colocated requires --xdp skb without --cpus, because native XDP cannot send to lo");
	if (o->transport != FPISA_TRANSPORT_UDP)
		return refuse(BAD_USAGE,
			      "--colocated requires --transport udp, because other transports use one aggregator");
	if (j->fanout == FPISA_FANOUT_MULTICAST)
		return refuse(BAD_USAGE, "--colocated requires --fanout unicast, because lo does not carry multicast");
	o->xdp = DATAPATH_SKB;
	j->fanout = FPISA_FANOUT_UNICAST;
	j->address = fpisa_ipv4(htonl(DEMO_HOST(0)));
	for (uint32_t r = 0; r < o->workers; r++) {
		j->rank[r].addr = fpisa_ipv4(htonl(DEMO_HOST(r)));
		j->rank[r].port = htons(DEMO_HOST_PORT);
	}
	return 0;
}

static int complete(struct demo_options *o, struct fpisa_job *j)
{
	int err;

	j->workers = o->workers;
	if (o->colocated) {
		err = check_colocated(o, j);
		return err ?: job_complete(j, DEMO_JOB);
	}
	o->xdp = o->xdp ?: DATAPATH_NATIVE;
	j->address = fpisa_ipv4(htonl(DEMO_ADDRESS));
	for (uint32_t r = 0; r < o->workers; r++) {
		j->rank[r].addr = fpisa_ipv4(htonl(DEMO_NETWORK | r << 8 | 2));
		j->rank[r].port = htons(FPISA_PORT);
	}
	return job_complete(j, DEMO_JOB);
}

int demo_parse(struct demo_options *o, struct fpisa_job *j, int argc, char **argv)
{
	struct option options[JOB_OPTIONS_MAX + sizeof(own_options) / sizeof(own_options[0])];
	struct job_spec spec = {.workers = NULL};
	struct common c = {.pin = NULL};
	int opt, err = 0;

	*o = (struct demo_options){
		.seed = 1,
		.workers = 4,
		.timeout_s = 60,
		.op = FPISA_OP_SUM,
	};
	memcpy(job_options(options, JOB_IN_DEMO), own_options, sizeof(own_options));
	while (!err && (opt = next_option(argc, argv, options)) != -1)
		err = opt >= OPT_JOB ? job_option(&spec, opt, optarg) : parse_option(o, &c, opt);
	if (err)
		return err;
	if (optind < argc)
		return refuse(BAD_USAGE, "demo: unexpected argument '%s'; see fpisa help demo", argv[optind]);
	if (o->vector && (o->file || o->rows))
		return refuse(BAD_USAGE, "--vector makes random values; leave --file and --rows out");
	if (o->steering.cpus && o->xdp == DATAPATH_SKB)
		return refuse(BAD_USAGE, "--cpus requires native XDP; leave --xdp skb out");
	if (!o->vector && !o->file)
		o->file = "";
	o->json = c.json;
	*j = spec.job;
	return complete(o, j) ?: check_op(o, j);
}
