// SPDX-License-Identifier: GPL-2.0-only
/*
 * fpisa job add: from words to a struct fpisa_job; datapath/job.c does the
 * rest. The words come from the command line or from a file (config.c).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <json-c/json.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/names.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "datapath/datapath.h"
#include "host/route.h"
#include "host/veth.h"
#include "job/job.h"
#include "verbs.h"

#define GROUP_BASE 0xef465000u /* 239.70.80.0: 'F' is 70, 'P' is 80 */

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

/* ADDR[:PORT][@DEV] */
static int parse_worker(char *s, struct fpisa_rank *rank, char **device)
{
	char *dev = strchr(s, '@'), *port = strchr(s, ':');
	uint64_t number = FPISA_PORT;
	int err;

	if (dev)
		*dev++ = 0;
	port = strchr(s, ':');
	if (port)
		*port++ = 0;
	err = parse_machine("--workers", s, &rank->addr);
	if (!err && port)
		err = parse_number("--workers: port", port, 1, 65535, &number);
	if (!err && dev && (!*dev || strlen(dev) >= IF_NAMESIZE || strpbrk(dev, ":/ \t")))
		err = refuse(BAD_USAGE, "--workers: '%s' is not an interface's name, in ADDR[:PORT][@DEV]", dev);
	if (err)
		return err;
	rank->port = htons(number);
	*device = dev;
	return 0;
}

static int parse_workers(struct job_wish *w)
{
	struct fpisa_job *j = &w->job;
	char *s;
	int err;

	while ((s = strsep(&w->workers, ","))) {
		if (j->workers == FPISA_MAX_WORKERS)
			return refuse(BAD_USAGE, "--workers: more than %d", FPISA_MAX_WORKERS);
		err = parse_worker(s, &j->rank[j->workers], &w->dev[j->workers]);
		if (err)
			return err;
		j->workers++;
	}
	return 0;
}

int job_wish_option(struct job_wish *w, int opt, struct common *c)
{
	struct fpisa_job *j = &w->job;
	uint64_t number = 0, token;
	int id = 0, err;

	switch (opt) {
	case OPT_WORKERS:
		w->workers = optarg;
		return 0;
	case OPT_ADDRESS:
		return parse_machine("--address", optarg, &j->address);
	case OPT_FOREIGN_ADDRESS:
		w->foreign_address = true;
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

/* A worker sends to the one address of the job, wherever it is. */
static void warn_of_address(__u32 job, const struct job_wish *w, __u32 rank, __be32 source)
{
	char a[ADDRESS_LEN], worker[ADDRESS_LEN], other[ADDRESS_LEN];

	address_text(w->job.address, a);
	warning("job %u: its address is %s, that of the route to the first worker, but %s on the route to worker %s; "
		"see that this worker has a route to %s, or choose another with --address",
		job, a, address_text(source, other), address_text(w->job.rank[rank].addr, worker), a);
}

/* This machine lacks something that the job takes. */
__attribute__((format(printf, 3, 4))) static int lack(const struct job_wish *w, int err, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!w->draft)
		return refuse(err, "%s", text);
	warning("%s", text);
	return 0;
}

/* Workers reach it here: by ARP on their own network, or by a router that knows where it is. */
static int check_address(const struct job_wish *w, __u32 job)
{
	char a[ADDRESS_LEN];
	struct route r = { 0 };

	if (!w->job.address || (!route_get(w->job.address, 0, &r) && r.local))
		return 0;
	for (__u32 k = 0; w->foreign_address && k < w->job.workers; k++)
		if (!w->dev[k])
			return refuse(-EINVAL,
				      "job %u: worker %s: with --foreign-address name its interface, ADDR@DEV: frames to an "
				      "address that is not this machine's do not make it look for a worker",
				      job, address_text(w->job.rank[k].addr, a));
	if (w->foreign_address)
		return 0;
	address_text(w->job.address, a);
	return lack(w, -EADDRNOTAVAIL,
		      "job %u: %s is no address of this machine, so no worker reaches it here; ip address add %s/32 dev "
		      "lo, or give --foreign-address if their frames come here all the same",
		      job, a, a);
}

/* Interfaces and the aggregator's address that the command line left to routing. */
static int resolve(struct job_wish *w, __u32 job)
{
	bool warn = !w->job.address;
	char a[ADDRESS_LEN];

	for (__u32 r = 0; r < w->job.workers; r++) {
		int err;

		if (!w->dev[r])
			continue;
		w->ifindex[r] = if_nametoindex(w->dev[r]);
		err = w->ifindex[r] ? 0 : lack(w, -ENODEV, "%s: no such interface; see ip link", w->dev[r]);
		if (err)
			return err;
		w->job.rank[r].given = 1;
	}

	for (__u32 r = 0; r < w->job.workers; r++) {
		struct route route;
		int err;

		if (w->dev[r] && !w->ifindex[r])
			continue;
		err = route_get(w->job.rank[r].addr, w->ifindex[r], &route);

		address_text(w->job.rank[r].addr, a);
		if (!err && route.local)
			return refuse(-EINVAL,
				      "worker %s: is an address of this machine; workers are other machines",
				      a);
		if (!err && route.broadcast)
			return refuse(-EINVAL, "worker %s: is the broadcast address of a network; name each machine", a);
		if (warn && r && !err && route.source && route.source != w->job.address) {
			warn_of_address(job, w, r, route.source);
			warn = false;
		}
		if (w->ifindex[r] && w->job.address)
			continue;
		if (err && !w->ifindex[r]) {
			err = lack(w, err, "worker %s: route: %s; add a route, or give ADDR@DEV", a, strerror(-err));
			if (err)
				return err;
			continue;
		}
		if (!w->ifindex[r])
			w->ifindex[r] = route.ifindex;
		if (!w->job.address && !r && (err || !route.source)) {
			err = lack(w, -EADDRNOTAVAIL,
				   "worker %s: no address of this machine towards it; give --address", a);
			if (err)
				return err;
		}
		if (!w->job.address)
			w->job.address = route.source;
	}
	return 0;
}

static bool multicast_possible(const struct fpisa_job *j)
{
	for (__u32 r = 0; r < j->workers; r++) {
		if (j->rank[r].port != j->rank[0].port)
			return false;
		for (__u32 k = 0; k < r; k++)
			if (j->rank[k].addr == j->rank[r].addr)
				return false;
	}
	return true;
}

int job_wish_complete(struct job_wish *w, __u32 job)
{
	struct fpisa_job *j = &w->job;
	int err = parse_workers(w);

	if (err)
		return err;

	j->format = j->format ?: FPISA_FORMAT_FP32;
	j->elements = j->elements ?: fpisa_default_elements(fpisa_format_of(j->format));
	j->window = j->window ?: FPISA_DEFAULT_WINDOW;
	j->ports = j->ports ?: 1;
	j->mode = j->mode ?: FPISA_MODE_FPISA;
	j->rounding = j->rounding ?: fpisa_default_rounding(j->mode);
	j->pipeline = j->pipeline ?: FPISA_PIPELINE_FUSED;
	j->clz = j->clz ?: FPISA_CLZ_BITS;
	if (!j->fanout)
		j->fanout = j->group || multicast_possible(j) ? FPISA_FANOUT_MULTICAST : FPISA_FANOUT_UNICAST;
	if (j->fanout == FPISA_FANOUT_UNICAST && j->group)
		return refuse(BAD_USAGE, "--group: goes with multicast, not with --fanout unicast");
	if (j->fanout == FPISA_FANOUT_MULTICAST) {
		j->group = j->group ?: htonl(GROUP_BASE + job);
		j->group_port = j->rank[0].port;
	}
	return 0;
}

/* Is it the first rank behind its port? */
static bool first_behind(const struct job_wish *w, __u32 rank)
{
	__u32 k = 0;

	while (w->ifindex[k] != w->ifindex[rank])
		k++;
	return k == rank && w->ifindex[rank];
}

unsigned int job_frame_bytes(const struct fpisa_job *j)
{
	return FPISA_PAYLOAD_OFFSET - FPISA_ETH_LEN + fpisa_payload_bytes(fpisa_format_of(j->format), j->elements);
}

/* Every port must carry the frame. */
static int check_ports(const struct job_wish *w, __u32 job)
{
	struct fpisa_format f = fpisa_format_of(w->job.format);
	int bytes = job_frame_bytes(&w->job);
	int block = FPISA_BLOCK * f.bytes;

	for (__u32 r = 0; r < w->job.workers; r++) {
		char dev[IF_NAMESIZE];
		int mtu;

		if (!first_behind(w, r))
			continue;
		if (!if_indextoname(w->ifindex[r], dev))
			return fail(-errno, NULL, "interface %u", w->ifindex[r]);
		mtu = interface_mtu(dev);
		if (mtu < 0)
			return fail(mtu, NULL, "%s: MTU", dev);
		if (bytes > mtu)
			return refuse(
				-EMSGSIZE,
				"job %u: %u elements make a frame of %d bytes, the MTU of %s is %d; try --elements %d",
				job, w->job.elements, bytes, dev, mtu,
				(w->job.elements * f.bytes - (bytes - mtu)) / block * FPISA_BLOCK);
	}
	return 0;
}

int job_wish_resolve(struct job_wish *w, __u32 job)
{
	return check_address(w, job) ?: resolve(w, job) ?: check_ports(w, job);
}

void job_wish_warn(const struct job_wish *w, const struct datapath *dp, __u32 job)
{
	for (__u32 r = 0; r < w->job.workers; r++) {
		struct datapath_interface i;
		struct veth_peer peer;
		char dev[IF_NAMESIZE];
		struct link l;
		int got;

		if (!first_behind(w, r) || !if_indextoname(w->ifindex[r], dev) || link_get(w->ifindex[r], &l))
			continue;
		veth_look(&l, &peer);
		got = datapath_attached(dp, w->ifindex[r], &i);
		if (got > 0 && i.mode == DATAPATH_NATIVE)
			veth_warn(&l, &peer);
		if (got > 0 && !datapath_is_entry(i.program.name))
			warning("%s: the wrong program is attached, %s, so job %u hears no worker there; ip link set dev %s xdp%s "
				"off, then attach fpisa",
				dev, i.program.name, job, dev, i.mode == DATAPATH_SKB ? "generic" : "");
		else if (got <= 0)
			warning("%s: this datapath is not loaded on it, so job %u hears no worker there; fpisa load %s",
				dev, job, dev);
	}
}

int verb_job_add(int argc, char **argv)
{
	struct job_wish w = { .workers = NULL };
	struct common c = COMMON_INIT;
	struct datapath dp;
	uint64_t job;
	int opt, err = 0;

	while (!err && (opt = next_option(argc, argv, job_add_options)) != -1)
		err = job_wish_option(&w, opt, &c);
	if (err)
		return err;
	if (argc - optind != 1)
		return refuse(BAD_USAGE, "job add: give one job number");
	if (!w.workers)
		return refuse(BAD_USAGE, "job add: --workers is missing");
	err = parse_number("job", argv[optind], 0, FPISA_MAX_JOBS - 1, &job);
	if (!err)
		err = job_wish_complete(&w, job);
	if (!err)
		err = datapath_job_check(job, &w.job);
	if (err)
		return err;
	err = datapath_open(&dp, c.pin);
	if (err)
		return err;
	err = job_wish_resolve(&w, job);
	if (!err) {
		job_wish_warn(&w, &dp, job);
		err = datapath_job_add(&dp, job, &w.job, w.ifindex);
	}
	if (!err && c.json)
		err = job_print_json(&dp, job);
	if (!err && fflush(stdout))
		err = fail(-errno, NULL, "job %u is made; stdout", (__u32)job);
	datapath_close(&dp);
	return err;
}
