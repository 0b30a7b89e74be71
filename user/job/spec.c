// SPDX-License-Identifier: GPL-2.0-only
/* Parsing of the list of workers, and defaults of parameters that were not given; job.h has the contracts. */
#include <arpa/inet.h>
#include <string.h>

#include "cli/options.h"
#include "fpisa/planes.h"
#include "lib/base/address.h"
#include "job.h"

#define GROUP_BASE 0xef465000u	  /* 239.70.80.0: 'F' is 70, 'P' is 80 */
#define GROUP6_PREFIX 0xff150000u /* ff15::/16: assigned by nobody, for a site (RFC 4291, section 2.7) */
#define GROUP6_BASE 0xff465000u	  /* the last 32 bits, of the numbers that are free for use (RFC 3307) */

/* Return the default multicast address of a job whose ranks have addresses like `rank`. */
static struct fpisa_address default_group(const struct fpisa_address *rank, __u32 job)
{
	if (!fpisa_is_ipv6(rank))
		return fpisa_ipv4(htonl(GROUP_BASE + job));
	return (struct fpisa_address){.w = {htonl(GROUP6_PREFIX), 0, 0, htonl(GROUP6_BASE + job)}};
}

/* Parse ADDR[:PORT][@DEV], an IPv6 address with a port in brackets. */
static int parse_worker(char *s, struct fpisa_rank *rank, char **device)
{
	char *dev = strchr(s, '@'), *port, *host;
	uint64_t number = FPISA_PORT;
	int err;

	if (dev)
		*dev++ = 0;
	host = fpisa_cut_endpoint(s, &port);
	if (!host)
		return refuse(BAD_USAGE, "--workers: '%s' is not an address with a port; write [2001:db8::1]:18001", s);
	err = parse_machine("--workers", host, &rank->addr);
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

static int parse_workers(struct job_spec *s)
{
	struct fpisa_job *j = &s->job;
	char *one;
	int err;

	while ((one = strsep(&s->workers, ","))) {
		if (j->workers == FPISA_MAX_WORKERS)
			return refuse(BAD_USAGE, "--workers: more than %d workers are not supported; list fewer",
				      FPISA_MAX_WORKERS);
		err = parse_worker(one, &j->rank[j->workers], &s->dev[j->workers]);
		if (err)
			return err;
		j->workers++;
	}
	return 0;
}

static bool multicast_possible(const struct fpisa_job *j)
{
	if (datapath_is_mixed(j))
		return false;
	for (__u32 r = 0; r < j->workers; r++) {
		if (j->rank[r].port != j->rank[0].port)
			return false;
		for (__u32 k = 0; k < r; k++)
			if (fpisa_same_address(&j->rank[k].addr, &j->rank[r].addr))
				return false;
	}
	return true;
}

int job_complete(struct fpisa_job *j, __u32 job)
{
	bool given;

	j->format = j->format ?: FPISA_FORMAT_FP32;
	j->elements = j->elements ?: fpisa_default_elements(fpisa_format_of(j->format));
	j->window = j->window ?: FPISA_DEFAULT_WINDOW;
	j->ports = j->ports ?: 1;
	j->mode = j->mode ?: FPISA_MODE_FPISA;
	j->rounding = j->rounding ?: fpisa_default_rounding(j->mode);
	j->pipeline = j->pipeline ?: FPISA_PIPELINE_FUSED;
	j->clz = j->clz ?: FPISA_CLZ_BITS;
	given = fpisa_is_address(&j->group);
	if (!j->fanout && j->flags & FPISA_JOB_LEAVES)
		j->fanout = FPISA_FANOUT_UNICAST;
	if (!j->fanout)
		j->fanout = given || multicast_possible(j) ? FPISA_FANOUT_MULTICAST : FPISA_FANOUT_UNICAST;
	if (j->fanout == FPISA_FANOUT_UNICAST && given)
		return refuse(BAD_USAGE, "--group requires multicast; leave --fanout unicast or --group out");
	if (j->fanout == FPISA_FANOUT_MULTICAST) {
		if (!given)
			j->group = default_group(&j->rank[0].addr, job);
		j->group_port = j->rank[0].port;
	}
	return 0;
}

int job_spec_complete(struct job_spec *s, __u32 job)
{
	s->any_fanout = !s->job.fanout && !fpisa_is_address(&s->job.group);
	return parse_workers(s) ?: job_complete(&s->job, job);
}

int job_spec_complete_query(struct job_spec *s)
{
	int err = parse_workers(s);

	/* A query has no elements, so its members cannot send contributions. */
	s->job.format = s->job.format ?: FPISA_FORMAT_FP32;
	s->job.fanout = FPISA_FANOUT_UNICAST;
	s->job.ports = 1;
	return err;
}

bool job_first_behind(const struct job_spec *s, __u32 rank)
{
	__u32 k = 0;

	while (s->ifindex[k] != s->ifindex[rank])
		k++;
	return k == rank && s->ifindex[rank];
}

unsigned int job_frame_bytes(const struct fpisa_job *j)
{
	const bool v6 = fpisa_is_ipv6(&j->rank[0].addr) || datapath_is_mixed(j);
	const unsigned int more = v6 ? FPISA_IPV6_LEN - FPISA_IP_LEN : 0;
	const unsigned int values = fpisa_payload_bytes(fpisa_format_of(j->format), j->elements);
	const unsigned int plane = fpisa_in_tree(j) ? j->elements * FPISA_DIGIT_BYTES : 0;

	return FPISA_PAYLOAD_OFFSET - FPISA_ETH_LEN + more + (values > plane ? values : plane);
}

int job_parse_number(const char *text, __u32 *job)
{
	uint64_t number = 0;
	int err = parse_number("job", text, 0, FPISA_MAX_JOBS - 1, &number);

	*job = number;
	return err;
}

int job_operand(const char *verb, int argc, char **argv, __u32 *job)
{
	if (argc - optind != 1)
		return refuse(BAD_USAGE, "%s requires one job number", verb);
	return job_parse_number(argv[optind], job);
}
